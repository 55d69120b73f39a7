"""Compare unwritten values with netCDF-C, for every type, storage and length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

from nczarr.netcdf import open_dataset

SIZE = 6
RECORD = np.dtype([("a", "i4"), ("b", "f4", (2,)), ("d", "f8")])


def _make(path: Path, *, fill: bool, chunk: int | None, unlimited: bool) -> None:
    with netCDF4.Dataset(path, "w") as file:
        file.set_auto_mask(False)
        file.createDimension("x", None if unlimited else SIZE)
        types: dict[Any, Any] = {f"{kind}{size}": 3 for kind in "iu" for size in (1, 2, 4, 8)}
        types |= {"f4": 3.0, "f8": 3.0, "S1": "z", str: "s"}
        types |= {
            file.createEnumType(f"{k}{n}", f"enum_{k}{n}", {"A": 1}): 1 for k in "iu" for n in (1, 2, 4, 8)
        }
        types[file.createVLType("i4", "vlen")] = np.array([1, 2], "i4")
        record = file.createCompoundType(RECORD, "record")
        types[record] = np.array((1, [2, 3], 4), record.dtype)
        for number, (type_, value) in enumerate(types.items()):
            fillable = fill and isinstance(type_, str | netCDF4.EnumType)
            for written in ((), (1,), (4,)):
                variable = file.createVariable(
                    f"v{number}_{len(written) and written[0]}",
                    type_,
                    ("x",),
                    chunksizes=None if chunk is None else (chunk,),
                    fill_value=value if fillable else None,
                )
                for index in written:
                    variable[index] = value
        file.createVariable("longest", "i4", ("x",))[SIZE - 1] = 1


@pytest.mark.parametrize("fill", [False, True])
@pytest.mark.parametrize("chunk", [None, 1, 4])
@pytest.mark.parametrize("unlimited", [False, True])
def test_unwritten_values_are_those_of_netcdf(
    tmp_path: Path, fill: bool, chunk: int | None, unlimited: bool
) -> None:
    path = tmp_path / "a.nc"
    _make(path, fill=fill, chunk=chunk, unlimited=unlimited)
    with netCDF4.Dataset(path) as theirs, open_dataset(path) as ours:
        theirs.set_auto_mask(False)
        for name, variable in theirs.variables.items():
            data = ours.dataset.variable_at(f"/{name}").data
            assert data is not None
            expected, found = variable[...], data.read((slice(0, SIZE),))
            assert found.shape == expected.shape == (SIZE,)
            for a, b in zip(expected, found, strict=True):
                np.testing.assert_array_equal(b, a, err_msg=name)


@pytest.mark.parametrize(
    "storage", [{"contiguous": True}, {"chunksizes": (2,)}, {"chunksizes": (2,), "zlib": True}]
)
@pytest.mark.parametrize("kind", ["i1", "u2", "f8"])
def test_what_is_not_filled_is_the_same_at_every_reading(
    tmp_path: Path, kind: str, storage: dict[str, Any]
) -> None:
    """netCDF-C returns earlier contents of the memory. A copy of these would not verify, and would disclose them."""
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", SIZE)
        file.createVariable("v", kind, ("x",), fill_value=False, **storage)
    with open_dataset(path) as ours:
        data = ours.dataset.variable_at("/v").data
        assert data is not None
        for byte in (1, 77):
            before = np.full(SIZE * np.dtype(kind).itemsize, byte, "u1")
            del before
            assert data.read((slice(0, SIZE),)).tolist() == [0] * SIZE
