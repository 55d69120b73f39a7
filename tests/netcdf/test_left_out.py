"""Test that variables and attributes of types that netCDF lacks are left out, and that edits keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

import nczarr
from nczarr.errors import NCZarrError
from nczarr.netcdf import open_isolated
from nczarr.netcdf.hdf5.reader import LeftOutWarning


def _three_bytes() -> Any:
    made = h5py.h5t.STD_I32LE.copy()
    made.set_size(3)
    made.set_precision(24)
    return made


def _in_compound(inside: Any) -> Any:
    made = h5py.h5t.create(h5py.h5t.COMPOUND, inside.get_size())
    made.insert(b"a", 0, inside)
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
    "24 bits in a compound": lambda: _in_compound(_three_bytes()),
    "long double": lambda: h5py.h5t.NATIVE_LDOUBLE,
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


def _numbers(base: Any, *, size: int, precision: int) -> Any:
    made = base.copy()
    made.set_size(size)
    made.set_precision(precision)
    return made


def test_numbers_of_odd_sizes_are_read_as_by_netcdf_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    i4, i8, u4 = h5py.h5t.STD_I32LE, h5py.h5t.STD_I64BE, h5py.h5t.STD_U32LE
    odd = {
        "i3": (_numbers(i4, size=3, precision=24), [1, -2, 2**23 - 1]),
        "u3": (_numbers(u4, size=3, precision=24), [0, 2**24 - 1, 5]),
        "twelve": (_numbers(i4, size=4, precision=12), [1, -2, 2047]),
        "i5": (_numbers(i8, size=5, precision=40), [1, -2, 2**39 - 1]),
    }
    count = 100_000
    with h5py.File(path, "w", track_order=True) as file:
        for name, (type_id, values) in odd.items():
            creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            creation.set_chunk((count // 2,))
            creation.set_shuffle()
            creation.set_deflate(1)
            creation.set_attr_creation_order(3)
            made = h5py.h5d.create(
                file.id, name.encode(), type_id, h5py.h5s.create_simple((count,)), creation
            )
            made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.resize(np.array(values, "i8"), count))
            at = h5py.h5a.create(made, b"limits", type_id, h5py.h5s.create_simple((3,)))
            at.write(np.array(values, "i8"))
        file.create_dataset("half", data=np.array([0.5, -2], "f2"))
    nczarr.copy(path, tmp_path / "a.zarr")
    for place in (path, tmp_path / "a.zarr"):
        with netCDF4.Dataset(path) as theirs, nczarr.Dataset(place) as ours:
            assert ours["half"].dtype == "f4"
            assert ours["half"][:].tolist() == [0.5, -2]
            for name, (_, values) in odd.items():
                assert ours[name].dtype == theirs[name].dtype
                np.testing.assert_array_equal(ours[name][:], np.resize(np.array(values), count))
                np.testing.assert_array_equal(ours[name][5:8], theirs[name][5:8])
                assert ours[name].limits.tolist() == theirs[name].limits.tolist() == values
    with nczarr.Dataset(path, "a") as ds:
        with pytest.raises(NCZarrError, match=r"/i3: .* only readable"):
            ds["i3"][0] = 5
        ds["i3"].title = "kept"
    with nczarr.Dataset(path) as ds:
        assert ds["i3"].title == "kept"
        assert ds["i3"][:3].tolist() == odd["i3"][1]


def _with_scales(path: Path) -> None:
    """A file whose left-out variables have the dimensions x, and y with a coordinate variable."""
    with h5py.File(path, "w", track_order=True) as file:
        x = file.create_dataset("x", data=np.zeros(3, ">f4"), track_order=True)
        x.make_scale("This is a netCDF dimension but not a netCDF variable.         3")
        y = file.create_dataset("y", data=np.arange(2.0), track_order=True)
        y.make_scale("y")
        for parent, name in ((file, "bad"), (file.create_group("g", track_order=True), "bad")):
            made = parent.create_dataset(name, (2, 3), dtype=h5py.ref_dtype, track_order=True)
            made.dims[0].attach_scale(y)
            made.dims[1].attach_scale(x)


@pytest.mark.filterwarnings("ignore::nczarr.netcdf.hdf5.reader.LeftOutWarning")
@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds.renameDimension("x", "bad"),
        lambda ds: ds.createDimension("bad", 2),
        lambda ds: ds.createVLType("i4", "bad"),
        lambda ds: ds.renameVariable("y", "bad"),
        lambda ds: ds.renameDimension("y", "new"),
        lambda ds: ds.renameVariable("y", "new"),
        lambda ds: ds.createVariable("x", "f8", ("x",)),
        lambda ds: ds.renameGroup("g", "new"),
    ],
)
def test_a_change_that_would_damage_what_is_left_out_is_refused_at_the_call(
    change: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a.nc"
    _with_scales(path)
    with nczarr.Dataset(path, "a") as ds:
        with pytest.raises(NCZarrError, match="bad', which netCDF cannot represent"):
            change(ds)
        ds.renameDimension("x", "z")
        ds.createVariable("new", "i4", ("y", "z"))
    with h5py.File(path) as file:
        for bad in (file["bad"], file["g/bad"]):
            assert [dim[0] for dim in bad.dims] == [file["y"], file["z"]]


def test_isolated_reading_names_what_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    _with_scales(path)
    with pytest.warns(LeftOutWarning, match="'/bad' is left out"), open_isolated(path) as file:
        assert list(file.dataset.all_variables) == ["/y"]


def _odd_file(path: Path) -> Path:
    """Make a file with a variable of the null dataspace, attributes of two dimensions, and reserved names."""
    with h5py.File(path, "w", track_order=True) as file:
        file["v"] = np.arange(3, dtype="i4")
        file["empty"] = h5py.Empty("f4")
        file.create_group("g")["w"] = [1.5]
        for owner in (file, file["v"]):
            owner.attrs["table"] = np.zeros((2, 2))
            owner.attrs["title"] = "t"
        for owner in (file, file["v"], file["g"], file["g/w"]):
            for name in ("CLASS", "NAME", "_Format", "_SuperblockVersion", "_IsNetcdf4"):
                owner.attrs[name] = np.bytes_("IMAGE")
    return path


def test_a_null_dataspace_and_a_table_as_attribute_are_left_out_singly(tmp_path: Path) -> None:
    source = _odd_file(tmp_path / "odd.nc")
    lost = {
        "'/empty' is left out: it has HDF5's null dataspace, without shape and values",
        "'/@table' is left out: it has 2 dimensions; netCDF allows 1",
        "'/v@table' is left out: it has 2 dimensions; netCDF allows 1",
    }
    with pytest.warns(LeftOutWarning):
        opened = nczarr.Dataset(source)
    with opened as ds:
        assert (list(ds.variables), ds.title) == (["v"], "t")
        assert ds["v"][:].tolist() == [0, 1, 2]
    for target in (tmp_path / "copy.nc", tmp_path / "copy.zarr"):
        with pytest.warns(LeftOutWarning), pytest.raises(NCZarrError, match="would be lost") as refused:
            nczarr.copy(source, target)
        assert all(sentence in str(refused.value) for sentence in lost)
        with pytest.warns(LeftOutWarning):
            assert {s for s in nczarr.copy(source, target, lossy=True) if "left out" in s} == lost
        with nczarr.Dataset(target) as ds:
            assert ds["v"][:].tolist() == [0, 1, 2]


def test_a_left_out_variable_can_be_excluded(tmp_path: Path) -> None:
    source = tmp_path / "null.nc"
    with h5py.File(source, "w") as file:
        file["v"], file["empty"] = [1, 2], h5py.Empty("f4")
    with pytest.warns(LeftOutWarning):
        assert nczarr.copy(source, tmp_path / "copy.nc", exclude="empty") == ()
    with pytest.warns(LeftOutWarning), pytest.raises(NCZarrError, match="no such variable or group"):
        nczarr.copy(source, tmp_path / "other.nc", exclude="emptier")


def test_names_that_netcdf_hides_are_hidden_and_the_way_back_works(tmp_path: Path) -> None:
    source, store, back = _odd_file(tmp_path / "odd.nc"), tmp_path / "copy.zarr", tmp_path / "back.nc"
    with pytest.warns(LeftOutWarning):
        nczarr.copy(source, store, lossy=True)
    nczarr.copy(store, back)
    for path in (store, back):
        with nczarr.Dataset(path) as ds:
            names = [owner.ncattrs() for owner in (ds, ds["v"], ds["g"], ds["g/w"])]
            assert names == [["title"], ["title"], [], []]
    with netCDF4.Dataset(back) as ds:
        assert [ds.ncattrs(), ds["v"].ncattrs(), ds["g"].ncattrs()] == [["title"], ["title"], []]
