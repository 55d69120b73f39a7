"""Compare what a copy says of xarray's own engine with what that engine reads from the file and from the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczarr
from nczarr import cdl
from nczarr.cli.conversion import closing_line
from nczarr.convert.report import Report

xr = pytest.importorskip("xarray")
pytest.importorskip("zarr", minversion="3.1.4")

TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "f4", "f8")
PACKING = [(scale, offset) for scale, offset in product((None, "f4", "f8"), repeat=2)]


def write(path: Path) -> None:
    """Write a file with each type of numbers and of packing, and with characters with and without fill value."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        for type_, (scale, offset) in product(TYPES, PACKING):
            variable = file.createVariable(f"{type_}_{scale}_{offset}", type_, ("x",))
            variable.set_auto_maskandscale(False)
            if scale:
                variable.scale_factor = np.dtype(scale).type(0.5)
            if offset:
                variable.add_offset = np.dtype(offset).type(2)
            variable[:] = [1, 2, 3]
        for name, fill in (("filled", b" "), ("chars", None)):
            file.createVariable(name, "S1", ("x",), fill_value=fill)[:] = np.array([b"a", b" ", b"b"])


@contextmanager
def opened(folder: Path) -> Iterator[tuple[xr.Dataset, xr.Dataset, xr.Dataset]]:
    """Yield a file as xarray reads it, and its copy as the engine zarr and as our engine read it."""
    with (
        xr.open_dataset(folder / "a.nc", engine="netcdf4") as file,
        xr.open_dataset(folder / "a.zarr", engine="zarr") as store,
        xr.open_dataset(folder / "a.zarr", engine="nczarr") as own,
    ):
        yield file, store, own


def test_a_copy_names_each_variable_that_xarray_reads_otherwise(tmp_path: Path) -> None:
    write(tmp_path / "a.nc")
    report = Report()
    assert nczarr.copy(tmp_path / "a.nc", tmp_path / "a.zarr", report=report) == ()
    with opened(tmp_path) as (file, store, own):
        differ = {n for n in file.variables if file[n].dtype != store[n].dtype}
        assert {n: v.dtype for n, v in own.variables.items()} == {
            n: v.dtype for n, v in file.variables.items()
        }
    assert "filled" in differ
    assert {text.split()[0].removeprefix("/") for text in report.read_otherwise} == differ
    line = closing_line(report)
    assert (
        f"xarray's engine zarr reads {', '.join(report.read_otherwise[:3])} and {len(differ) - 3} more"
        in line
    )
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "b.nc", report=(back := Report()))
    assert back.read_otherwise == []


def test_a_copy_names_fill_values_of_strings_and_attributes_that_are_no_numbers_in_json(
    tmp_path: Path,
) -> None:
    """Of the real files, those with NaN or infinities in attributes differed without a word."""
    text = """netcdf d {dimensions: x = 3; variables: string s(x), t(x); s:_FillValue = "none";
        float v(x); v:_FillValue = NaNf; v:missing_value = NaNf; v:valid_max = Infinityf; v:flags = NaN, 1.; v:ok = 1.;
        :limit = -Infinity; data: s = "a", "none", ""; t = "a", "none", ""; v = 1, NaNf, 3;}"""
    nczarr.copy(cdl.loads(text), tmp_path / "a.nc")
    report = Report()
    assert nczarr.copy(tmp_path / "a.nc", tmp_path / "a.zarr", report=report) == ()
    with opened(tmp_path) as (file, store, own):
        nodes = {"/": (file, store), **{f"/{name}": (file[name], store[name]) for name in file.variables}}
        differ = {
            f"{fqn}@{name} as text"
            for fqn, (ours, theirs) in nodes.items()
            for name, value in ours.attrs.items()
            if not np.array_equal(
                value, theirs.attrs[name], equal_nan=not isinstance(theirs.attrs[name], str | list)
            )
        }
        differ |= {
            f"/{name} without missing values"
            for name in file.variables
            # xarray takes an empty StringDType for missing.
            if any(x != x and y == y for x, y in zip(file[name].values, store[name].values, strict=True))
        }
        assert own.v.identical(file.v)
        assert own.s.isnull().equals(file.s.isnull())
    assert set(report.read_otherwise) == differ
    assert len(differ) == 4


@pytest.mark.parametrize("value", [" ", "IA==", [" "], 32])
def test_xarray_refuses_a_fill_value_of_characters_in_any_form(tmp_path: Path, value: object) -> None:
    """A store that says so would not be opened; so the attribute stays hidden."""
    write(tmp_path / "a.nc")
    nczarr.copy(tmp_path / "a.nc", tmp_path / "a.zarr", only=["filled"], consolidated=False)
    document = tmp_path / "a.zarr/filled/zarr.json"
    content = json.loads(document.read_text())
    content["attributes"]["_FillValue"] = value
    document.write_text(json.dumps(content))
    with pytest.raises((TypeError, ValueError)):
        xr.open_dataset(tmp_path / "a.zarr", engine="zarr", consolidated=False)
