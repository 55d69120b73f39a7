"""Test that variables and attributes of types that netCDF lacks are left out, and that edits keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import nczarr
from nczarr.errors import NCZarrError


def _three_bytes() -> Any:
    made = h5py.h5t.STD_I32LE.copy()
    made.set_size(3)
    made.set_precision(24)
    return made


_RECORD = np.dtype([("a", "i4"), ("r", h5py.ref_dtype)])
#: Types that netCDF lacks.
ODD_TYPES = {
    "reference": lambda: h5py.h5t.STD_REF_OBJ,
    "region": lambda: h5py.h5t.STD_REF_DSETREG,
    "compound with a reference": lambda: h5py.h5t.py_create(_RECORD, logical=True),
    "sequence of references": lambda: h5py.h5t.vlen_create(h5py.h5t.STD_REF_OBJ),
    "bit field": lambda: h5py.h5t.STD_B8LE,
    "array": lambda: h5py.h5t.array_create(h5py.h5t.NATIVE_INT32, (2,)),
    "24 bits": _three_bytes,
}


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("kind", ODD_TYPES)
def test_what_netcdf_has_no_type_for_is_left_out(kind: str, named: bool, tmp_path: Path) -> None:
    """The rest of the file is read and edited, and the edit keeps what it does not understand."""
    path = tmp_path / "a.nc"
    with h5py.File(path, "w", track_order=True) as file:
        good = file.create_dataset("good", data=np.arange(3, dtype="i4"), track_order=True)
        odd, space = ODD_TYPES[kind](), h5py.h5s.create_simple((2,))
        if named:
            odd = odd.copy()
            odd.commit(file.id, b"odd")
        h5py.h5d.create(file.id, b"bad", odd, space)
        h5py.h5a.create(good.id, b"attribute", odd, space)
    with pytest.warns(UserWarning, match="'/bad' is left out.*'/good@attribute' is left out|@attribute.*bad"):
        ds = nczarr.Dataset(path)
    with ds:
        assert list(ds.variables) == ["good"]
        assert ds["good"].ncattrs() == []
        assert ds["good"][:].tolist() == [0, 1, 2]
    with pytest.warns(UserWarning, match="left out"):
        ds = nczarr.Dataset(path, "a")
    with ds:
        ds["good"][0] = 7
        ds.title = "new"
        ds.createVariable("more", "f4", ())
        with pytest.raises(NCZarrError, match="/bad"):
            ds.createVariable("bad", "i4", ())
        with pytest.raises(AttributeError, match="a type that netCDF lacks"):
            ds["good"].setncattr("attribute", 1)
    with h5py.File(path) as file:
        assert file["good"][:].tolist() == [7, 1, 2]
        assert {"bad", "more"} <= set(file)
        assert "attribute" in file["good"].attrs
        assert file.attrs["title"] in ("new", b"new")


def test_a_copy_refuses_what_is_left_out(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w", track_order=True) as file:
        file.create_dataset("bad", (2,), dtype=h5py.ref_dtype)
        file.create_dataset("good", data=[1])
    with pytest.warns(UserWarning, match="left out"), pytest.raises(NCZarrError, match="'/bad' is left out"):
        nczarr.copy(tmp_path / "a.nc", tmp_path / "a.zarr")
    assert not (tmp_path / "a.zarr").exists()
