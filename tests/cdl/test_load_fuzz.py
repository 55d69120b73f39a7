"""Read mutated CDL: the result is a dataset or a CDLError."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from rotation import examples

from nczarr.cdl import loads


def _fuzz():
    spec = importlib.util.spec_from_file_location("nczarr_tests_cdl_fuzz", Path(__file__).parent / "fuzz.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fuzz = _fuzz()


@pytest.mark.filterwarnings("ignore::nczarr.cdl.syntax.source.CDLWarning")
def test_the_text_to_mutate_is_legal() -> None:
    assert len(loads(fuzz.SEEDS[0]).all_variables) > 10


@pytest.mark.slow
def test_mutated_texts() -> None:
    count = examples(3000)
    ends = fuzz.run(count, seed=20)
    assert sum(ends.values()) == count
    assert ends["dataset"] > count // 30
    assert ends["CDLError"] > count // 3
