"""A user's program, for type checkers only: what the main calls return."""

from __future__ import annotations

from typing import assert_type

import nczarr
from nczarr.model import Difference
from nczarr.netcdf4 import Dimension, Variable


def program() -> None:
    with nczarr.Dataset("example.zarr") as ds:
        assert_type(ds, nczarr.Dataset)
        assert_type(ds.variables, dict[str, Variable])
        assert_type(ds.dimensions, dict[str, Dimension])
        assert_type(ds.createDimension("x", 3), Dimension)
        assert_type(ds.createVariable("v", "f4", ("x",)), Variable)
        assert_type(ds.variables["v"].shape, tuple[int, ...])
    assert_type(nczarr.copy("a.nc", "b.zarr"), tuple[str, ...])
    for difference in nczarr.diff("a.nc", "b.zarr"):
        assert_type(difference, Difference)
