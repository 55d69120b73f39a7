"""Print and parse are inverses, for any dataset of the model."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nczarr.cdl import dumps, loads
from nczarr.model import Dataset, compare


def _strategies() -> ModuleType:
    name = "nczarr_tests_cdl_strategies"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / "strategies.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


strategies = _strategies()


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(strategies.datasets())
def test_print_parse_is_identity(dataset: Dataset) -> None:
    text = dumps(dataset)
    assert [str(d) for d in compare(dataset, loads(text))] == [], text


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_print_parse_print(data: st.DataObject) -> None:
    text = dumps(data.draw(strategies.datasets(types="fixed")))
    assert dumps(loads(text)) == text
