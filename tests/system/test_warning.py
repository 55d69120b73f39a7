"""Warn a program at its own line, whichever calls of nczarr and of xarray are between."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import nczarr
import nczarr.xarray
from nczarr import cdl
from nczarr.system.warning import warn_once

PACKAGE = Path(nczarr.__file__).parent


def damaged(folder: Path) -> Path:
    path = folder / "a.zarr"
    with nczarr.Dataset(path, "w") as dataset:
        dataset.createDimension("x", 2)
        dataset.createGroup("g").createVariable("v", "i4", ("x",))[:] = 1
    document = json.loads((path / "zarr.json").read_text())
    document["consolidated_metadata"]["metadata"].pop("g/v")
    (path / "zarr.json").write_text(json.dumps(document))
    (path / "g" / "v" / "zarr.json").unlink()
    return path


def write_changed(path: Path) -> None:
    with nczarr.Dataset(path, "a") as dataset:
        dataset.createDimension("y", 1)
        dataset.createVariable("w", "i2", ("y",))[:] = np.array([70000])


def load_constants(path: Path) -> None:
    cdl.loads("netcdf a { variables: byte b ; data: b = 200 ; }")


@pytest.mark.parametrize(
    "act",
    [
        lambda path: nczarr.Dataset(path).close(),
        lambda path: xr.open_dataset(path, engine="nczarr").close(),
        lambda path: nczarr.copy(path, path.with_name("b.zarr"), lossy=True),
        write_changed,
        load_constants,
    ],
    ids=["Dataset", "engine", "copy", "write", "cdl"],
)
def test_the_line_is_that_of_the_program(act: Callable[[Path], object], tmp_path: Path) -> None:
    path = damaged(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act(path)
    assert caught
    assert {Path(warning.filename).name for warning in caught} == {Path(__file__).name}


def test_no_module_counts_calls() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).as_posix() == "system/warning.py":
            continue
        if "warn(" not in (source := path.read_text("utf-8")):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert found == []


def test_a_key_is_due_once() -> None:
    given: set[str] = set()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for key in "aabab":
            warn_once(given, key, f"of {key}")
    assert [str(warning.message) for warning in caught] == ["of a", "of b"]
    assert {Path(warning.filename).name for warning in caught} == {Path(__file__).name}
