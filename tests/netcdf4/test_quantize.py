"""Compare quantization with netCDF-C and netCDF4-python, to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczarr.netcdf4 as ours
from nczarr.errors import NCZarrError
from nczarr.netcdf4.values.numbers import quantize


def values(dtype: str) -> np.ndarray:
    rng = np.random.default_rng(7)
    spread = rng.normal(size=500) * 10.0 ** rng.integers(-20, 20, 500)
    special = [0.0, -0.0, 1.0, -1.0, 0.1, 1e-30, 9.969209968386869e36, np.inf, 2.0, 1024.0, 999.9999]
    return np.concatenate([special, spread]).astype(dtype)


def written(library: Any, target: Any, dtype: str, data: np.ndarray, **kwargs: Any) -> np.ndarray:
    with library.Dataset(target, "w") as ds:
        ds.createDimension("x", len(data))
        v = ds.createVariable("v", dtype, ("x",), **kwargs)
        v.set_auto_mask(False)
        v[:] = data
    with library.Dataset(target) as ds:
        ds["v"].set_auto_mask(False)
        return ds["v"][:]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("mode", ["BitGroom", "GranularBitRound", "BitRound"])
@pytest.mark.parametrize("digits", [1, 2, 3, 5, 6, 12, 15])
def test_modes_are_netcdf_c(tmp_path: Path, dtype: str, mode: str, digits: int) -> None:
    if dtype == "f4" and digits > 6 and mode != "BitRound":
        pytest.skip("more digits than a float has")
    data = values(dtype)
    kwargs = {"significant_digits": digits, "quantize_mode": mode}
    theirs = written(netCDF4, str(tmp_path / "q.nc"), dtype, data, **kwargs)
    mine = written(ours, {}, dtype, data, **kwargs)
    finite = np.isfinite(data)
    code = f"u{data.dtype.itemsize}"
    assert mine[finite].view(code).tolist() == theirs[finite].view(code).tolist()
    assert np.isinf(mine[~finite]).all()


@pytest.mark.parametrize("digit", [-2, 0, 1, 3, 6])
def test_large_floats_stay_finite_when_digits_are_rounded(tmp_path: Path, digit: int) -> None:
    """Among them the default fill value, if somebody writes that himself."""
    data = values("f4")
    theirs = written(netCDF4, str(tmp_path / "d.nc"), "f4", data, least_significant_digit=digit)
    mine = written(ours, {}, "f4", data, least_significant_digit=digit)
    assert mine.tolist() == theirs.tolist()
    assert np.isfinite(mine).tolist() == np.isfinite(data).tolist()


@pytest.mark.parametrize("digit", [-2, 0, 1, 2, 3])
@pytest.mark.parametrize("masked", [False, True])
def test_least_significant_digit(tmp_path: Path, digit: int, masked: bool) -> None:
    data: np.ndarray = np.random.default_rng(3).normal(size=50) * 100
    if masked:
        data = np.ma.array(data, mask=data > 50)
    kwargs = {"least_significant_digit": digit}
    theirs = written(netCDF4, str(tmp_path / "d.nc"), "f8", data, **kwargs)
    assert written(ours, {}, "f8", data, **kwargs).tolist() == theirs.tolist()


def test_rounding_goes_on_after_opening_again() -> None:
    target: dict[str, bytes] = {}
    with ours.Dataset(target, "w") as ds:
        ds.createDimension("t", None)
        ds.createVariable("a", "f4", ("t",), significant_digits=3, quantize_mode="BitRound")
        ds.createVariable("b", "f4", ("t",), least_significant_digit=1)
    with ours.Dataset(target, "a") as ds:
        ds["a"][0] = ds["b"][0] = 3.14159
        assert ds["a"].quantization() == (3, "BitRound")
        assert (ds["a"][0], ds["b"][0]) == (3.25, 3.125)


def test_fill_values_stay() -> None:
    data = np.array([1.23456, 7.77], "f4")
    assert quantize(data, 2, "BitRound", np.float32(7.77))[1] == np.float32(7.77)
    assert quantize(data, 2, "BitRound", np.float32(0))[1] != np.float32(7.77)


@pytest.mark.parametrize(("library", "name"), [(netCDF4, "a.nc"), (ours, "b.nc"), (ours, "c.zarr")])
@pytest.mark.parametrize(("dtype", "data"), [("S1", b"a"), ("f4", np.array("1.5"))])
def test_text_has_no_least_significant_digit(
    tmp_path: Path, library: Any, name: str, dtype: str, data: Any
) -> None:
    with library.Dataset(tmp_path / name, "w") as ds:
        v = ds.createVariable("v", dtype, (), least_significant_digit=1)
        with pytest.raises(TypeError) as caught:
            v[...] = data
    assert library is netCDF4 or isinstance(caught.value, NCZarrError)
