"""Copy sources through a function of the user."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nczarr
from nczarr.cli import main
from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.model import Attribute, Dataset, Dimension, MemorySource, Variable
from nczarr.model.types import DOUBLE, INT

MODULE = """
from dataclasses import replace
from nczarr.model import Attribute

def titled(dataset):
    return replace(dataset, attributes=(*dataset.attributes, Attribute.of("title", "from a function")))
"""


def day(number: int) -> Dataset:
    t = Variable("t", INT, ("/t",), data=MemorySource(np.array([number], "i4")))
    v = Variable("v", DOUBLE, ("/t",), data=MemorySource(np.array([number / 2])))
    return Dataset("d", dimensions=(Dimension("t", 1, unlimited=True),), variables=(t, v))


@pytest.fixture
def days(tmp_path: Path) -> list[str]:
    paths = [str(tmp_path / f"{number}.nc") for number in range(4)]
    for number, path in enumerate(paths):
        nczarr.copy(day(number), path)
    return paths


class Halved:
    """Values of another array, halved when they are read."""

    def __init__(self, data: MemorySource) -> None:
        self.data, self.shape, self.dtype = data, data.shape, data.dtype

    def read(self, region: tuple[slice, ...], out: np.ndarray | None = None) -> np.ndarray:
        values = self.data.read(region) / 2
        if out is not None:
            out[...] = values
        return values


def halved(dataset: Dataset) -> Dataset:
    changed = tuple(v.with_data(Halved(v.data)) if v.name == "v" else v for v in dataset.variables)
    return replace(dataset, variables=changed)


def test_lazy_values_of_each_source_are_changed(days: list[str], tmp_path: Path) -> None:
    nczarr.copy(days[3], tmp_path / "one.zarr", preprocess=halved)
    nczarr.copy(days, tmp_path / "all.zarr", concat="t", preprocess=halved)
    nczarr.copy(days[:2], tmp_path / "grown.zarr", concat="t", preprocess=halved)
    nczarr.copy(days[2:], tmp_path / "grown.zarr", append=True, preprocess=halved)
    with nczarr.Dataset(tmp_path / "one.zarr") as one:
        assert one["v"][:].tolist() == [0.75]
    for name in ("all", "grown"):
        with nczarr.Dataset(tmp_path / f"{name}.zarr") as joined:
            assert joined["v"][:].tolist() == [0, 0.25, 0.5, 0.75]
            assert joined["t"][:].tolist() == [0, 1, 2, 3]


def test_the_function_of_a_command(days: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nczarr_test_hooks.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    words = ["--concat", "t", "--preprocess", "nczarr_test_hooks:titled", "--resume"]
    assert main(["copy", *days, "all.zarr", *words]) == 0
    assert main(["copy", *days, "all.zarr", *words]) == 0  # complete
    assert main(["copy", *days, "all.zarr", *words[:2], "--resume"]) == 1  # not a copy without the function
    with nczarr.Dataset("all.zarr") as joined:
        assert joined.title == "from a function"


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ("nczarr.model", "MODULE:FUNCTION"),
        ("no_such_module:f", "no_such_module"),
        ("nczarr.model:nothing", "nothing"),
        ("nczarr.model:__all__", "no function"),
        (lambda dataset: None, "returned NoneType"),
        (lambda dataset: replace(dataset, attributes=(Attribute.of("", 1),)), "name"),
    ],
)
def test_what_is_no_function_is_refused(
    days: list[str], tmp_path: Path, hook: str | Callable[[Dataset], Dataset], message: str
) -> None:
    with pytest.raises(NCZarrError, match=re.escape(message)):
        nczarr.copy(days, tmp_path / "a.zarr", concat="t", preprocess=hook)
    assert not (tmp_path / "a.zarr").exists()


def test_references_hold_no_changed_values(days: list[str], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="--preprocess"):
        nczarr.copy(days, tmp_path / "a.json", concat="t", virtual=True, preprocess=halved)
