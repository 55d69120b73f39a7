"""Compare complex numbers with netCDF4-python's ``auto_complex=True``, by the same script."""

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


def described(log: Any, v: Any) -> tuple[Any, ...]:
    """A variable, but its fill value."""
    return (
        v.dtype,
        type(v.datatype).__name__,
        v.dimensions,
        v.shape,
        v.ndim,
        v.size,
        log.chunking(v),
        v.endian(),
        v.ncattrs(),
    )


def describe(log: Any, v: Any) -> tuple[Any, ...]:
    return (*described(log, v), v.get_fill_value())


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
            log(v[:], describe(log, v))
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
                    log(describe(log, v)[1:])
                    if auto_complex:
                        log(v.dtype, v[:])
                    else:
                        log(v[:]["r"], v[:]["i"])

    same(script)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("data_model", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"])
def test_pairs_in_the_classic_models(same: Same, dtype: str, data_model: str) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w", format=data_model, auto_complex=True) as ds:
            ds.createDimension("t", None)
            ds.createDimension("x", 3)
            v = ds.createVariable("v", dtype, ("x",))
            exact = v.dtype
            # The imaginary part of the fill value is whatever netCDF4-python finds in memory.
            log(
                described(log, v),
                v.get_fill_value().real,
                [len(d) for d in v.get_dims()],
                list(ds.dimensions),
            )
            v[:] = np.array([1 + 2j, 3, 4j], exact)
            log(v[:], v[1], v[0:2], v[[0, 2]], v[...], v[::-1], v[2:2])
            v[1] = exact.type(5 - 1j)
            v[2:] = [7j]
            log(v[:], str(v).splitlines()[1:])
            w = ds.createVariable("w", exact, ("t", "x"))
            log(w.shape, w[:])
            w[2] = np.array([1, 2, 3j], exact)
            w[[0, 1], ::2] = np.array([[1, 2], [3, 4j]], exact)
            log(w[:], w[0, 0], w[-1, 2], w.shape, len(w), str(w).splitlines()[1:])
            s = ds.createVariable("s", exact, ())
            s[...] = exact.type(3j)
            log(s[...], s[:], s.getValue(), described(log, s))
            log.attempt(lambda: ds.createVariable("f", exact, ("x",), fill_value=0))
        for auto_complex in (True, False):
            with nc.Dataset(path, auto_complex=auto_complex) as ds:
                log({n: (len(d), d.isunlimited()) for n, d in ds.dimensions.items()})
                for v in (ds["v"], ds["w"], ds["s"]):
                    log(described(log, v), v[:])
        with nc.Dataset(path, "a", auto_complex=True) as ds:
            ds["w"][3:5] = np.full((2, 3), 6 - 6j, dtype)
            log(ds["w"][:])

    same(script)


@pytest.mark.parametrize("name", ["ri", "complex", "_pfnc_complex", "other"])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_dimensions_of_pairs(same: Same, name: str, size: int, dtype: str) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 2)
            ds.createDimension("t", None)
            ds.createDimension(name, size)
            ds.createVariable("v", dtype, ("x", name))[:] = np.arange(2 * size).reshape(2, size)
            ds.createGroup("g").createVariable("w", dtype, ("t", name))[:2] = np.arange(2 * size).reshape(
                2, size
            )
        with nc.Dataset(path, "a", auto_complex=True) as ds:
            for v in (ds["v"], ds["g/w"]):
                log(v.dtype, v.dimensions, v.shape, v.ndim, v.size, v[:], v[1])
                v[0] = v[1]
                log(v[:], v[...])
            ds["g/w"][2] = ds["v"][0]
            log(ds["g/w"][:])
        with nc.Dataset(path) as ds:
            log(ds["v"].shape, ds["v"][:], ds["g/w"].shape, ds["g/w"][:])

    same(script)


def test_the_dimension_of_pairs_has_another_size() -> None:
    with ours.Dataset({}, "w", format="NETCDF3_CLASSIC", auto_complex=True) as ds:
        ds.createDimension("_pfnc_complex", 3)
        with pytest.raises(RuntimeError, match="is not one of pairs"):
            ds.createVariable("v", "c16", ())
        assert list(ds.variables) == []
    # Not the last dimension, or no floats: nothing but numbers. (netCDF4-python overruns its memory.)
    with ours.Dataset({}, "w", auto_complex=True) as ds:
        ds.createDimension("ri", 2)
        ds.createDimension("x", 3)
        assert ds.createVariable("v", "f8", ("ri", "x")).shape == (2, 3)
        assert ds.createVariable("w", "i4", ("x", "ri")).shape == (3, 2)


def test_what_is_refused(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 3)
            log.attempt(lambda: ds.createVariable("v", "c16", ("x",)))
        with nc.Dataset(path, "w", format="NETCDF4_CLASSIC", auto_complex=True) as ds:
            ds.createDimension("x", 3)
            log.attempt(lambda: ds.createVariable("v", "c16", ("x",)))

    same(script)


def test_what_is_refused_leaves_no_dimension_of_pairs() -> None:
    with ours.Dataset({}, "w", format="NETCDF3_CLASSIC", auto_complex=True) as dataset:
        dataset.createDimension("x", 2)
        with pytest.raises(RuntimeError, match="significant_digits 99"):
            dataset.createVariable("z", "c16", ("x",), significant_digits=99)
        assert list(dataset.dimensions) == ["x"]


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


@pytest.mark.filterwarnings("error")
def test_no_values_are_written_without_a_warning(tmp_path: Path) -> None:
    with ours.Dataset(tmp_path / "a.zarr", "w", auto_complex=True) as ds:
        ds.createDimension("t")
        ds.createDimension("ri", 2)
        ds.createVariable("v", "f8", ("t", "ri"))
    with ours.Dataset(tmp_path / "a.zarr", "a", auto_complex=True) as ds:
        ds["v"][:] = np.zeros(0, "c16")
        assert ds["v"].shape == (0,)
