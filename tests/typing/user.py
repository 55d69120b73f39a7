"""A user's program, for type checkers only: what the main calls return, and ten mistakes that they report.

Each line of ``mistakes`` is wrong. mypy (``warn_unused_ignores``) and pyright
(``reportUnnecessaryTypeIgnoreComment``) report a line that they take for right.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import Any, assert_type

import xarray
from numpy import ma

import nczarr
from nczarr import model
from nczarr.model import Difference
from nczarr.netcdf4 import Dimension, Variable


def program() -> None:
    with nczarr.Dataset("example.zarr") as ds:
        assert_type(ds, nczarr.Dataset)
        assert_type(ds.variables, dict[str, Variable])
        assert_type(ds.dimensions, dict[str, Dimension])
        assert_type(ds.createDimension("x", 3), Dimension)
        assert_type(ds.createVariable("v", "f4", ("x",)), Variable)
        assert_type(ds["v"], Variable)
        assert_type(ds["v"][:], ma.MaskedArray[Any, Any])
        assert_type(ds["v"][...], ma.MaskedArray[Any, Any])
        assert_type(ds.variables["v"].shape, tuple[int, ...])
        ds["group"].variables["v"][:] = 1
    assert_type(nczarr.copy("a.nc", "b.zarr"), tuple[str, ...])
    assert_type(nczarr.copy("a.zarr", xarray, variables="v"), xarray.DataTree)
    nczarr.copy("a.nc", "b.zarr", chunks={"time": 1}, overwrite=True, layout="zarr-v3", lossy=True)
    assert_type(nczarr.from_xarray({}, unlimited_dims=["time"]), model.Dataset)
    for difference in nczarr.diff("a.nc", "b.zarr"):
        assert_type(difference, Difference)


def mistakes() -> None:
    nczarr.copy("a.nc", "b.zarr", ovrwrite=True)  # type: ignore[call-arg]
    nczarr.copy("a.nc", "b.zarr", overwrite="yes")  # type: ignore[arg-type]
    nczarr.copy("a.nc", "b.zarr", layout="zarr-v4")  # type: ignore[arg-type]
    nczarr.copy("a.nc", "b.zarr", shards=1.5)  # type: ignore[arg-type]
    nczarr.copy("a.nc")  # type: ignore[call-arg]
    nczarr.from_xarray({}, unlimited="time")  # type: ignore[call-arg]
    nczarr.diff("a.nc")  # type: ignore[call-arg]
    with nczarr.Dataset("example.zarr") as ds:
        ds.createDimension("x", "3")  # type: ignore[arg-type]
        ds.createVariable("v", "f4", ("x",), zlb=True)  # type: ignore[call-arg]
        ds[3]  # type: ignore[index]
