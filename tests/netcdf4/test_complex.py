"""Complex numbers as netCDF4-python has them with ``auto_complex=True``: the same script with both libraries."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczarr
import nczarr.netcdf4 as ours

Same = Callable[[Callable[[Any, str, Any], None]], None]


def describe(v: Any) -> tuple[Any, ...]:
    return (
        v.dtype,
        type(v.datatype).__name__,
        v.dimensions,
        v.shape,
        v.ndim,
        v.size,
        v.chunking(),
        v.endian(),
        v.get_fill_value(),
        v.ncattrs(),
    )


@pytest.mark.parametrize("dtype", ["c8", "c16", "complex"])
def test_writing_and_reading(same: Same, dtype: str) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w", auto_complex=True) as ds:
            log(ds.auto_complex)
            ds.createDimension("x", 3)
            ds.createDimension("t", None)
            v = ds.createVariable("v", dtype, ("x",))
            v.units = "m"
            exact = v.dtype
            v[:] = np.array([1 + 2j, 3, 4j], exact)
            log(v[:], v[1], v[0:2], v[[0, 2]], v[...])
            v[1] = exact.type(5 - 1j)
            log(v[:], v[::-1])
            v[:] = [7j, 1, 2]
            log(v[:])
            v[:] = np.ma.array([1, 2, 3], mask=[0, 1, 0], dtype=exact)
            log(v[:], describe(v))
            w = ds.createGroup("g").createVariable("w", exact, ("t", "x"))
            w[2] = np.array([1, 2, 3j], exact)
            log(w[:], w[0, 0], w.shape)
            s = ds.createVariable("s", exact, ())
            s[...] = exact.type(3j)
            log(s[...], s.getValue())
        for auto_complex in (True, False):
            with nc.Dataset(path, auto_complex=auto_complex) as ds:
                log([(name, c.name) for name, c in ds.cmptypes.items()], list(ds.dimensions))
                for v in (ds["v"], ds["g/w"], ds["s"]):
                    log(describe(v)[1:])
                    if auto_complex:
                        log(v.dtype, v[:])
                    else:
                        log(v[:]["r"], v[:]["i"])

    same(script)


def test_what_is_refused(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 3)
            log.attempt(lambda: ds.createVariable("v", "c16", ("x",)))
        with nc.Dataset(path, "w", format="NETCDF4_CLASSIC", auto_complex=True) as ds:
            ds.createDimension("x", 3)
            log.attempt(lambda: ds.createVariable("v", "c16", ("x",)))

    same(script)


def test_values_that_are_no_numbers() -> None:
    with ours.Dataset({}, "w", auto_complex=True) as ds:
        ds.createDimension("x", 2)
        v = ds.createVariable("v", "c16", ("x",))
        with pytest.raises(TypeError, match="complex numbers are needed"):
            v[:] = ["a", "b"]
        if np.dtype(np.clongdouble).itemsize > 16:
            with pytest.raises(TypeError, match="no floats for complex"):
                ds.createVariable("w", np.clongdouble, ("x",))
        v[:] = np.array([1, 2j], object)
        assert v[:].tolist() == [1, 2j]
        v[:] = np.float32(2.5)  # netCDF4-python takes the bytes for those of a complex number
        assert v[:].tolist() == [2.5, 2.5]


@pytest.mark.parametrize(
    ("fields", "shown"), [("ri", True), (("real", "imag"), True), ("xy", False), ("ir", False)]
)
def test_compounds_of_other_programs(tmp_path: Path, fields: Any, shown: bool) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("x", 2)
        kind = ds.createCompoundType(np.dtype([(fields[0], "f4"), (fields[1], "f4")]), "pair")
        v = ds.createVariable("v", kind, ("x",))
        v[:] = np.array([(1, 2), (3, 4)], kind.dtype)
    nczarr.copy(tmp_path / "a.nc", tmp_path / "a.zarr")
    for path in (tmp_path / "a.nc", tmp_path / "a.zarr"):
        with ours.Dataset(path, auto_complex=True) as ds:
            if shown:
                assert ds["v"].dtype == "c8"
                assert ds["v"][:].tolist() == [1 + 2j, 3 + 4j]
            else:
                assert ds["v"][:].tolist() == [(1, 2), (3, 4)]


def test_netcdf4_reads_what_is_copied(tmp_path: Path) -> None:
    with ours.Dataset(tmp_path / "a.zarr", "w", auto_complex=True) as ds:
        ds.createDimension("x", 2)
        ds.createVariable("v", "c16", ("x",))[:] = [1 + 2j, 3j]
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc", auto_complex=True) as ds:
        assert ds["v"].dtype == "c16"
        assert ds["v"][:].tolist() == [1 + 2j, 3j]


def test_pickling(tmp_path: Path) -> None:
    with ours.Dataset(tmp_path / "a.zarr", "w", auto_complex=True) as ds:
        ds.createDimension("x", 2)
        ds.createVariable("v", "c16", ("x",))[:] = [1 + 2j, 3j]
    with ours.Dataset(tmp_path / "a.zarr", auto_complex=True) as ds:
        other = pickle.loads(pickle.dumps(ds["v"]))
        assert other[:].tolist() == [1 + 2j, 3j]
