"""Test that the reference contains every public name, with an example."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FRONTS = [
    "nczarr",
    "nczarr.cdl",
    "nczarr.convert",
    "nczarr.display",
    "nczarr.mapping",
    "nczarr.model",
    "nczarr.netcdf",
    "nczarr.netcdf4",
    "nczarr.stores",
    "nczarr.view",
    "nczarr.zarr",
    "nczarr.zarr.zom",
]
#: Made by other calls for other processes and programs: there is nothing to try out.
NOT_ALONE = {"DetachedDataset", "DetachedValues", "documents_v2"}


def public(front: str) -> dict[str, Any]:
    module = import_module(front)
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == front]
    return {n: getattr(module, n) for n in getattr(module, "__all__", own) if not n.startswith("_")}


def needs_example(name: str, value: Any) -> bool:
    if not (inspect.isfunction(value) or inspect.isclass(value)) or name in NOT_ALONE:
        return False
    if not value.__module__.startswith("nczarr"):
        return False
    return not (
        inspect.isclass(value) and (issubclass(value, BaseException) or getattr(value, "_is_protocol", False))
    )


@pytest.mark.parametrize("front", FRONTS)
def test_every_public_name_has_an_example(front: str) -> None:
    names = public(front)
    assert names
    lacking = [
        name
        for name, value in names.items()
        if needs_example(name, value) and ">>>" not in (value.__doc__ or "")
    ]
    assert lacking == []


def test_the_xarray_engine_has_an_example() -> None:
    xarray = pytest.importorskip("nczarr.xarray")
    assert ">>>" in xarray.NCZarrBackendEntrypoint.__doc__


@pytest.mark.parametrize("front", FRONTS)
def test_every_front_is_in_the_reference(front: str) -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    documented = set(re.findall(r"auto(?:module|function|class):: (\S+)", page))
    for name, value in public(front).items():
        if needs_example(name, value):
            same = {other for other in FRONTS if value in public(other).values()}
            places = {value.__module__, *same, *(f"{place}.{name}" for place in (*same, value.__module__))}
            assert places & documented, f"{front}.{name} is not in docs/reference/api.md"
