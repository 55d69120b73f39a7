"""Edit real netCDF files in place; netCDF's own library reads the result, also after kills."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import programs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nczarr
import nczarr.netcdf4 as ours
from nczarr.errors import DatasetExistsError, LockedError, NetCDFFileError
from nczarr.formats import storage_of
from nczarr.mapping import WriteOptions
from nczarr.netcdf.bytes.file import write_all
from nczarr.netcdf.edit import classic_file

FORMATS = ["NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]
DISK = {"NETCDF4": "HDF5", "NETCDF4_CLASSIC": "HDF5"}


def content(path: Path | str, library: Any = netCDF4) -> dict[str, Any]:
    """All that a library reads of a file, in a form that compares."""
    found: dict[str, Any] = {}

    def look(group: Any, at: str) -> None:
        found[at] = {name: repr(group.getncattr(name)) for name in group.ncattrs()}
        found[at + "dimensions"] = {d.name: (d.size, d.isunlimited()) for d in group.dimensions.values()}
        for name, v in group.variables.items():
            v.set_auto_maskandscale(False)
            attributes = {n: repr(v.getncattr(n)) for n in v.ncattrs()}
            values = v[...]
            found[at + name] = (str(v.dtype), v.dimensions, attributes, np.shape(values), repr(values))
        for name, child in group.groups.items():
            look(child, f"{at}{name}/")

    with library.Dataset(path) as ds:
        found["model"] = ds.data_model
        look(ds, "/")
    return found


def start(nc: Any, path: Path, format: str) -> None:
    with nc.Dataset(path, "w", format=format) as ds:
        ds.title = "a title"
        ds.count = np.int32(4)
        ds.createDimension("t", None)
        ds.createDimension("x", 4)
        ds.createDimension("y", 3)
        x = ds.createVariable("x", "f8", ("x",))
        x[:] = np.arange(4)
        v = ds.createVariable("v", "f4", ("t", "x"), fill_value=-1.0)
        for i in range(5):
            v[i] = np.arange(4) + i
        ds.createVariable("b", "i1", ("t", "y"))[3, 1] = 4
        ds.sync()
        ds.createVariable("c", "S1", ("y",))[1] = "q"
        ds.createVariable("time", "f8", ("t",))[:3] = [1, 2, 3]
        ds.createVariable("y", "i4", ("x",))[:] = 1  # of a dimension's name, and not its coordinate
        ds.createVariable("scalar", "f8")[:] = 3.5


def edit(nc: Any, path: Path) -> None:
    with nc.Dataset(path, "a") as ds:
        ds.title = "a longer title " * 100
        del ds.count
        ds.new = 1.5
        ds.renameVariable("v", "velocity")
        ds["velocity"][7] = 5
        ds["velocity"].units = "K"
        ds.createVariable("second", "i4", ("y",))[:2] = 2
        ds.sync()
        ds.createVariable("records", "f8", ("t", "y"))[2] = 2
    with nc.Dataset(path, "a") as ds:
        ds.renameDimension("t", "step")
        ds["b"][1:9:2] = 5
        ds["records"][12, 1] = 7
        ds["velocity"][:, 2] = np.arange(13)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("makers", [("ours", "ours"), ("ours", "theirs"), ("theirs", "ours")], ids="-".join)
def test_both_libraries_make_and_edit_the_same(tmp_path: Path, format: str, makers: tuple[str, str]) -> None:
    libraries = {"ours": ours, "theirs": netCDF4}
    start(netCDF4, tmp_path / "theirs.nc", format)
    start(libraries[makers[0]], tmp_path / "mixed.nc", format)
    assert content(tmp_path / "mixed.nc") == content(tmp_path / "theirs.nc")
    edit(netCDF4, tmp_path / "theirs.nc")
    inode = os.stat(tmp_path / "mixed.nc").st_ino
    edit(libraries[makers[1]], tmp_path / "mixed.nc")
    if format.startswith("NETCDF4") or makers[1] == "theirs":
        assert os.stat(tmp_path / "mixed.nc").st_ino == inode
    assert content(tmp_path / "mixed.nc") == content(tmp_path / "theirs.nc")
    mine, theirs = (content(tmp_path / name, ours) for name in ("mixed.nc", "theirs.nc"))
    assert mine == theirs
    with ours.Dataset(tmp_path / "mixed.nc", "a") as ds:
        assert (ds.data_model, ds.disk_format) == (format, DISK.get(format, "NETCDF3"))


def test_the_rule_of_names(tmp_path: Path) -> None:
    for name in ("a.nc", "a.NC", "a.nc4", "a.cdf", "a.h5", "a.nc3", "a.netcdf"):
        assert storage_of(tmp_path / name) == "netcdf"
        ours.Dataset(tmp_path / name, "w").close()
        assert (tmp_path / name).is_file()
    for name, storage in (("a", None), ("a.zarr", None), ("b.nc", "zarr")):
        ours.Dataset(tmp_path / name, "w", storage=storage).close()
        assert (tmp_path / name).is_dir()
    with ours.Dataset(tmp_path / "b.nc", "a") as ds:
        assert ds.disk_format == "ZARR"
    ours.Dataset(tmp_path / "plain", "w", storage="netcdf", format="NETCDF3_CLASSIC").close()
    assert (tmp_path / "plain").read_bytes()[:4] == b"CDF\1"
    with ours.Dataset(tmp_path / "plain", "a") as ds:
        ds.a = 1
        assert ds.disk_format == "NETCDF3"
    with pytest.raises(ValueError, match="storage must be one of"):
        ours.Dataset(tmp_path / "c.nc", "w", storage="hdf")
    with pytest.raises(DatasetExistsError, match="directory"):
        ours.Dataset(tmp_path / "b.nc", "w")
    with pytest.raises(ValueError, match="storage='zarr'"):
        ours.Dataset(tmp_path / "c.nc", "w", options=WriteOptions())
    with pytest.raises(OSError, match="behind a URL"):
        ours.Dataset("memory://c.nc", "w")


def test_a_netcdf_file_behind_a_url_is_read(tmp_path: Path) -> None:
    import fsspec

    start(ours, tmp_path / "a.nc", "NETCDF4")
    fsspec.filesystem("memory").pipe("/remote/a.nc", (tmp_path / "a.nc").read_bytes())
    with ours.Dataset("memory://remote/a.nc") as ds:
        assert (ds.disk_format, ds["x"][:].tolist()) == ("HDF5", [0, 1, 2, 3])


# -- dimensions and their coordinates


@pytest.mark.parametrize("synced", [False, True])
def test_variables_become_coordinates_and_cease_to_be(tmp_path: Path, synced: bool) -> None:
    path = tmp_path / "a.nc"

    def see(expected: dict[str, tuple[str, ...]]) -> None:
        for library in (netCDF4, ours):
            with library.Dataset(path) as ds:
                assert {n: v.dimensions for n, v in ds.variables.items()} == expected
                assert all((v[...] == 7).all() for v in ds.variables.values())
        with h5py.File(path) as file:
            for name in set(expected) & set(file):
                coordinate = expected[name][0] == name
                assert file[name].is_scale == coordinate
                if not coordinate:
                    scales = [dim[0].name.strip("/") for dim in file[name].dims]
                    assert scales == list(expected[name])

    with ours.Dataset(path, "w") as ds:
        ds.createDimension("x", 2)
        ds.createDimension("y", None)
        ds.createVariable("v", "i4", ("y", "x"))[:3] = 7
        if synced:
            ds.sync()
        ds.createVariable("x", "i4", ("x",))[:] = 7
    see({"v": ("y", "x"), "x": ("x",)})
    with ours.Dataset(path, "a") as ds:
        ds.renameVariable("x", "z")
        if synced:
            ds.sync()
        ds.renameVariable("v", "y")
    see({"z": ("x",), "y": ("y", "x")})
    with ours.Dataset(path, "a") as ds:
        ds.renameDimension("x", "z")
        ds["y"][4] = 7
        ds["y"][3] = 7
    see({"z": ("z",), "y": ("y", "z")})
    with ours.Dataset(path, "a") as ds:  # all round
        ds.renameDimension("z", "a")
        ds.renameDimension("y", "z")
        ds.renameDimension("a", "y")
    with ours.Dataset(path) as ds:
        assert ds["z"].dimensions == ("y",)
        assert ds["y"].dimensions == ("z", "y")
        assert ds["y"].shape == (5, 2)


def test_groups_and_types_are_renamed_with_what_is_in_them(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with ours.Dataset(path, "w") as ds:
        g = ds.createGroup("g")
        ds.createGroup("other/inner")
        g.createDimension("n", 2)
        record = g.createCompoundType(np.dtype([("a", "i4"), ("b", "f8")]), "record")
        g.createVariable("r", record, ("n",))[:] = np.array([(1, 2.0), (3, 4.0)], record.dtype)
        g.createGroup("deep").createVariable("s", str, ("n",))[1] = "text"
    with ours.Dataset(path, "a") as ds:
        ds.renameGroup("g", "h")
        ds["h"].renameGroup("deep", "deeper")
        ds["h/r"].note = "after"
        ds["h"].createVariable("q", ds["h"].cmptypes["record"], ("n",))
        ds.createGroup("g").a = 1
    with netCDF4.Dataset(path) as ds:
        assert set(ds.groups) == {"g", "h", "other"}
        assert ds["h/r"][:].tolist() == [(1, 2.0), (3, 4.0)]
        assert ds["h/deeper/s"][1] == "text"
        assert list(ds["h"].cmptypes) == ["record"]
        assert ds["h/q"].datatype.name == "record"


def test_names_that_hdf5_needs_are_refused_at_once(tmp_path: Path) -> None:
    with ours.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("d", 2)
        ds.createGroup("g")
        ds.createVariable("v", "i4")
        ds.createVLType("i4", "t")
        for action in (
            lambda: ds.createGroup("d"),
            lambda: ds.createGroup("t"),
            lambda: ds.createDimension("g", 2),
            lambda: ds.createVLType("i4", "v"),
            lambda: ds.createVariable("t", "i4"),
            lambda: ds.renameVariable("v", "t"),
            lambda: ds.renameDimension("d", "g"),
        ):
            with pytest.raises(RuntimeError, match="name in use"):
                action()
        for name in ("DIMENSION_LIST", "_Netcdf4Dimid", "_NCProperties", "CLASS"):
            with pytest.raises(AttributeError, match="name in use"):
                ds["v"].setncattr(name, "x")
    ours.Dataset(tmp_path / "a.nc").close()


def test_types_of_groups_that_come_later_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("x", 2)
        first, second, third = (ds.createGroup(name) for name in ("first", "second", "third"))
        kind = second.createEnumType("u1", "kind", {"no": 0, "yes": 1})
        for group in (ds, first):
            with pytest.raises(RuntimeError, match="before the group that declares it"):
                group.createVariable("v", kind, ("x",))
        for group in (second, second.createGroup("inside"), third):
            group.createVariable("v", kind, ("x",))[:] = [0, 1]
        record = third.createCompoundType(np.dtype([("a", "i4")]), "record")
        second.createVLType("i4", "rows")
        with pytest.raises(RuntimeError, match="before the group that declares it"):
            first.createVariable("r", record, ("x",))
        with pytest.raises(RuntimeError, match="before the group that declares it"):
            ds.renameGroup("second", "last")
        ds.renameGroup("third", "last")
        ds.sync()
    for library in (ours, netCDF4):
        with library.Dataset(path) as ds:
            assert list(ds.groups) == ["first", "second", "last"]
            assert ds["last/v"][:].tolist() == ds["second/inside/v"][:].tolist() == [0, 1]
            assert "v" not in ds["first"].variables
    with ours.Dataset(path, "a") as ds:
        ds.renameGroup("first", "end")
    with ours.Dataset({}, "w") as ds:  # Zarr has them in any order
        late = ds.createGroup("late").createEnumType("u1", "kind", {"no": 0})
        assert ds.createVariable("v", late, ()).datatype.enum_dict == {"no": 0}


# -- attributes


ATTRIBUTE = st.one_of(
    st.integers(-5, 5).map(np.int32),
    st.lists(st.integers(0, 9), min_size=1, max_size=4).map(lambda v: np.array(v, "i2")),
    st.text("abc", min_size=1, max_size=40),
    st.floats(0, 1),
)
STEP = st.tuples(st.sampled_from("abcdef"), st.one_of(st.none(), ATTRIBUTE), st.booleans())


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEP, max_size=12), format=st.sampled_from(FORMATS))
def test_attributes_are_what_they_were_set_to_in_order(tmp_path: Path, steps: list[Any], format: str) -> None:
    path = tmp_path / "a.nc"
    expected: dict[str, Any] = {}
    with ours.Dataset(path, "w", format=format) as ds:
        v = ds.createVariable("v", "i4")
        v[:] = 17
        for name, value, synced in steps:
            if value is None:
                if name in expected:
                    v.delncattr(name)
                    del expected[name]
            else:
                v.setncattr(name, value)
                expected[name] = value
            if synced:
                ds.sync()
    for library in (netCDF4, ours):
        with library.Dataset(path) as ds:
            v = ds["v"]
            assert v.ncattrs() == list(expected)
            assert v[...] == 17
            for name, value in expected.items():
                np.testing.assert_array_equal(v.getncattr(name), value)


# -- values


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), format=st.sampled_from(FORMATS))
def test_writes_in_parts_give_what_netcdf4_gives(tmp_path: Path, data: st.DataObject, format: str) -> None:
    paths = tmp_path / "ours.nc", tmp_path / "theirs.nc"
    shapes = {"a": ("t", "x", "y"), "b": ("t",), "c": ("x", "y"), "d": ("t", "y")}
    kinds = [{}, {"zlib": True}, {"fill_value": 3}] if format == "NETCDF4" else [{}]
    options = {name: data.draw(st.sampled_from(kinds)) for name in shapes}
    actions = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from([*shapes, "sync", "reopen"]),
                st.tuples(*[st.integers(0, n) for n in (9, 4, 3)]),
                st.tuples(*[st.integers(1, 4)] * 3),
                st.tuples(*[st.integers(1, 3)] * 3),
            ),
            max_size=10,
        )
    )
    sizes = {"t": None, "x": 5, "y": 4}
    for library, path in zip((ours, netCDF4), paths, strict=True):
        ds = library.Dataset(path, "w", format=format)
        for name, size in sizes.items():
            ds.createDimension(name, size)
        for number, (name, dims) in enumerate(shapes.items()):
            ds.createVariable(name, "i2" if number % 2 else "f8", dims, **options[name])
        for number, (what, starts, counts, steps) in enumerate(actions, 1):
            if what == "sync":
                ds.sync()
            elif what == "reopen":
                ds.close()
                ds = library.Dataset(path, "a")
            else:
                index, shape = [], []
                for dim, first, count, step in zip(shapes[what], starts, counts, steps, strict=False):
                    axis = range(first, first + count * step, step)
                    if sizes[dim] is not None:
                        axis = axis[: len(range(first, sizes[dim], step))]
                    index.append(slice(axis.start, axis.stop, axis.step))
                    shape.append(len(axis))
                ds[what][tuple(index)] = np.full(shape, number) + np.arange(shape[-1])
        ds.close()
    assert content(paths[0]) == content(paths[1])
    assert content(paths[0], ours) == content(paths[1], ours)


def test_checksums_of_values_with_pointers_are_left_off(tmp_path: Path) -> None:
    """They would be of the pointers only; HDF5 2.0 refuses them, and all of the file was lost with that."""
    paths = [tmp_path / "ours.nc", tmp_path / "theirs.nc"]
    for library, path in zip((ours, netCDF4), paths, strict=True):
        with library.Dataset(path, "w") as ds:
            ds.createDimension("x", 2)
            kind = ds.createVLType("i4", "row")
            for name, options in (("sum", {}), ("both", {"zlib": True, "shuffle": True})):
                texts = ds.createVariable(f"text_{name}", str, ("x",), fletcher32=True, **options)
                rows = ds.createVariable(f"rows_{name}", kind, ("x",), fletcher32=True, **options)
                texts[0] = "one"
                rows[1] = np.arange(3, dtype="i4")
    nczarr.copy(paths[1], tmp_path / "copied.nc")
    with ours.Dataset(tmp_path / "copied.nc", "a") as ds:
        ds["text_sum"][1] = "two"
    for path in (paths[0], tmp_path / "copied.nc"):
        with netCDF4.Dataset(path) as ds:
            assert [ds["text_sum"][0], ds["text_both"][0]] == ["one", "one"]
            assert ds["rows_sum"][1].tolist() == ds["rows_both"][1].tolist() == [0, 1, 2]
            assert not ds["text_sum"].filters()["fletcher32"]
            assert ds["text_both"].filters()["zlib"]


def test_filters_chunks_and_byte_orders_are_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    settings_ = {
        "plain": {},
        "deflate": {"zlib": True, "complevel": 7, "shuffle": True, "fletcher32": True},
        "chunks": {"chunksizes": (2, 3)},
        "big": {"endian": "big"},
        "zstd": {"compression": "zstd", "complevel": 5},
        "bzip2": {"compression": "bzip2", "complevel": 5},
        "blosc": {"compression": "blosc_lz4", "complevel": 5},
        "off": {"fill_value": False},
    }
    values = np.arange(2000, dtype="f4").reshape(40, 50) // 9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for library in (ours, netCDF4):
            target = path if library is ours else tmp_path / "theirs.nc"
            with library.Dataset(target, "w") as ds:
                ds.createDimension("x", 40)
                ds.createDimension("y", 50)
                for name, options in settings_.items():
                    v = ds.createVariable(name, "f4", ("x", "y"), **options)
                    v[:2] = values[:2]
                    v[2:] = values[2:]
        with ours.Dataset(path, "a") as ds:
            for v in ds.variables.values():
                v[1, 1:3] = -5
    values[1, 1:3] = -5
    with netCDF4.Dataset(path) as ds, netCDF4.Dataset(tmp_path / "theirs.nc") as theirs:
        for name in settings_:
            v, t = ds[name], theirs[name]
            assert (v.filters(), v.chunking(), v.endian()) == (t.filters(), t.chunking(), t.endian())
            assert (v[:] == values).all()
    with ours.Dataset(path) as ds, netCDF4.Dataset(path) as theirs:
        for name in settings_:
            v, t = ds[name], theirs[name]
            assert (v.filters(), v.chunking(), v.endian()) == (t.filters(), t.chunking(), t.endian())


def test_the_end_of_a_chunk_with_a_filter_of_a_plugin_is_fill_when_it_is_grown_into(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("t", None)
        v = ds.createVariable("v", "i4", ("t",), chunksizes=(10,), compression="zstd", fill_value=-9)
        v[:3] = 1
    with ours.Dataset(path, "a") as ds:
        ds["v"][7] = 2
    for library in (ours, netCDF4):
        with library.Dataset(path) as ds:
            assert ds["v"][:].filled().tolist() == [1, 1, 1, -9, -9, -9, -9, 2]


# -- files of other programs, and refused changes


def test_hdf5_files_without_order_are_read_only(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = [1, 2, 3]
    with ours.Dataset(tmp_path / "a.h5") as ds:
        assert ds["v"][:].tolist() == [1, 2, 3]
    with pytest.raises(OSError, match="order of its objects"):
        ours.Dataset(tmp_path / "a.h5", "a")
    with h5py.File(tmp_path / "a.h5", "a") as file:  # nczarr closed it
        assert file["v"][:].tolist() == [1, 2, 3]


@pytest.mark.parametrize("link", ["a hard link to a group", "a soft link to a variable", "a link to a file"])
def test_hdf5_files_with_one_object_under_two_names_are_read_only(
    tmp_path: Path, link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change would give the object its dimensions twice: netCDF-C could not read the file any more."""
    monkeypatch.setenv("NCZARR_EXTERNAL_FILES", "1")
    path = tmp_path / "a.nc"
    for name in (path, tmp_path / "other.nc"):
        with netCDF4.Dataset(name, "w") as ds:
            ds.createDimension("x", 3)
            ds.createGroup("g").createVariable("v", "i4", ("x",))[:] = [1, 2, 3]
    with h5py.File(path, "a") as file:
        if link == "a hard link to a group":
            file["h"] = file["g"]
        elif link == "a soft link to a variable":
            file["h/v"] = h5py.SoftLink("/g/v")
        else:
            file["h"] = h5py.ExternalLink("other.nc", "/g")
    before = path.read_bytes()
    with ours.Dataset(path) as ds:
        assert ds["h/v"][:].tolist() == [1, 2, 3]
    with pytest.raises(OSError, match=r"/h.*a link leads to another name or file \(copy it first"):
        ours.Dataset(path, "a")
    assert path.read_bytes() == before


def test_hdf5_files_without_scales_are_edited(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", track_order=True) as file:
        file["v"] = [1, 2, 3]
        file.create_dataset("w", data=np.zeros((2, 3)), maxshape=(None, 3), track_order=True)
    with ours.Dataset(path, "a") as ds:
        ds["w"][4] = 1
        ds["v"][0] = 9
        ds["v"].units = "m"
        names = ds["w"].dimensions
        ds.createVariable("n", "i4", names[1:])[:] = 4
    with netCDF4.Dataset(path) as ds:
        assert ds["w"].shape == (5, 3)
        assert ds["v"][:].tolist() == [9, 2, 3]
        assert ds["n"][:].tolist() == [4, 4, 4]
        assert ds["v"].units == "m"


@pytest.mark.parametrize("format", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_clobbering(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.nc"
    start(ours, path, format)
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        ours.Dataset(path, "w", clobber=False, format=format)
    with pytest.raises(FileExistsError):
        ours.Dataset(path, "x", format=format)
    ds = ours.Dataset(path, "w", format=format)
    ds.createDimension("n", 3)
    assert path.read_bytes() == before, "the old file stays until there is a new one"
    ds.sync()
    with ours.Dataset(path) as read:
        assert read.dimensions["n"].size == 3
    ds.close()
    assert content(path)["/dimensions"] == {"n": (3, False)}
    assert [p.name for p in tmp_path.iterdir()] == ["a.nc"]


def test_an_empty_file_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    path.touch()
    with open(path, "rb") as held:
        start(ours, path, "NETCDF4")
        assert held.read(4) == b"\x89HDF"


def test_a_link_is_followed(tmp_path: Path) -> None:
    start(ours, tmp_path / "a.nc", "NETCDF4")
    (tmp_path / "b.nc").symlink_to("a.nc")
    ours.Dataset(tmp_path / "b.nc", "w").close()
    assert (tmp_path / "b.nc").is_symlink()
    assert content(tmp_path / "a.nc")["/dimensions"] == {}


@pytest.mark.parametrize("format", FORMATS)
def test_diskless_and_memory(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.nc"
    start(ours, tmp_path / "b.nc", format)
    with ours.Dataset(path, "w", diskless=True, format=format) as ds:
        ds.a = 1
        assert ds.disk_format == DISK.get(format, "NETCDF3")
    assert not path.exists()
    with ours.Dataset(path, "w", diskless=True, persist=True, format=format) as ds:
        ds.a = 1
    assert list(content(path)["/"]) == ["a"]
    before = path.read_bytes()
    with ours.Dataset(path, "a", diskless=True) as ds:
        ds.a = 2
    assert path.read_bytes() == before
    with ours.Dataset(path, "a", diskless=True, persist=True) as ds:
        ds.b = 2
    assert list(content(path)["/"]) == ["a", "b"]
    ds = ours.Dataset("in", "w", memory=1000, format=format)
    ds.createDimension("x", 2)
    ds.createVariable("v", "i4", ("x",))[:] = 4
    made = ds.close()
    assert not Path("in").exists()
    (tmp_path / "made.nc").write_bytes(made)
    with netCDF4.Dataset(tmp_path / "made.nc") as read:
        assert (read.data_model, read["v"][:].tolist()) == (format, [4, 4])


# -- others who have the file


@pytest.mark.parametrize("format", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_a_second_writer_is_refused(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.nc"
    start(ours, path, format)
    with ours.Dataset(path, "a") as ds:
        for mode in ("a", "w"):
            with pytest.raises(LockedError):
                ours.Dataset(path, mode, format=format)
        ds.mine = 1
    with ours.Dataset(path, "a") as ds:
        assert ds.mine == 1


def test_netcdf4_and_nczarr_keep_each_other_away(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    start(ours, path, "NETCDF4")
    with ours.Dataset(path, "a"), pytest.raises(OSError, match=r"HDF error|denied|unavailable"):
        netCDF4.Dataset(path, "a")
    with netCDF4.Dataset(path, "a"), pytest.raises(LockedError):
        ours.Dataset(path, "a")


def test_a_file_that_a_reader_has_is_called_open_for_reading(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    start(ours, path, "NETCDF4")
    with (
        netCDF4.Dataset(path),
        pytest.raises(LockedError, match="the dataset is open for reading, here or in"),
    ):
        ours.Dataset(path, "a")
    with (
        netCDF4.Dataset(path, "a"),
        pytest.raises(LockedError, match="the dataset is open for writing, here or"),
    ):
        ours.Dataset(path, "a")


BESIDE = """
import random, sys
import nczarr.netcdf4 as nc
from nczarr.errors import LockedError

path = sys.argv[1]
for seed in range(50, 60):
    choose = random.Random(seed)
    with nc.Dataset(path, "w") as ds:
        ds.createDimension("t", None)
        ds.createVariable("s", str, ("t",), fill_value="empty")[0] = "a"
    expected, writer, readers, refused = ["a"], None, [], 0
    for _ in range(40):
        step = choose.randrange(6)
        if step == 0 and writer is None:
            try:
                writer = nc.Dataset(path, "a")
            except LockedError:
                assert readers
                refused += 1
        elif step == 1 and writer:
            i = choose.randrange(3)
            expected += ["empty"] * (i + 1 - len(expected))
            expected[i] = "b"
            writer["s"][i] = "b"
        elif step == 2 and writer and choose.random() < 0.4:
            writer = writer.close()
        elif step == 3:
            readers.append(nc.Dataset(path))
        elif step == 4 and readers:
            found = choose.choice(readers)["s"][:].tolist()
            assert found == expected[: len(found)] or writer, (seed, found, expected)
        elif step == 5 and readers:
            readers.pop(choose.randrange(len(readers))).close()
    for one in [*readers, *[writer] * (writer is not None)]:
        one.close()
    assert seed != 52 or refused
"""


@pytest.mark.slow
def test_readers_outlive_a_writer_of_the_same_process(tmp_path: Path) -> None:
    """HDF5 ended the process: the fill value of strings belonged to a handle that was closed."""
    done = subprocess.run(
        [sys.executable, "-c", BESIDE, tmp_path / "a.nc"], stderr=subprocess.PIPE, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("format", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_readers_in_the_same_process_see_what_was_synced(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.nc"
    ds = ours.Dataset(path, "w", format=format)
    ds.createDimension("t", None)
    v = ds.createVariable("v", "i4", ("t",))
    v[:3] = [1, 2, 3]
    ds.sync()
    with ours.Dataset(path) as reader:
        assert reader["v"][:].tolist() == [1, 2, 3]
        v[3] = 4
        ds.close()
        assert reader["v"][:].tolist() == [1, 2, 3], "the reader goes on when the writer is gone"
    with ours.Dataset(path) as reader:
        assert reader["v"][:].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("format", ["NETCDF4", "NETCDF3_64BIT_DATA"])
def test_many_threads_make_write_and_annotate(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.nc"
    errors: list[BaseException] = []
    with ours.Dataset(path, "w", format=format) as ds:
        ds.createDimension("t", None)
        ds.createDimension("x", 50)

        def work(k: int) -> None:
            try:
                v = ds.createVariable(f"v{k}", "i4", ("t", "x"))
                for i in range(20):
                    v[i] = np.arange(50) + i * k
                    v.step = np.int32(i)
                    ds.setncattr(f"a{k}", "x" * (i + 1))
                    if i % 7 == k % 7:
                        ds.sync()
                        assert (v[i] == np.arange(50) + i * k).all()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []
    with netCDF4.Dataset(path) as ds:
        for k in range(6):
            v = ds[f"v{k}"]
            assert (v[:] == np.arange(50) + np.arange(20)[:, None] * k).all()
            assert (v.step, ds.getncattr(f"a{k}")) == (19, "x" * 20)


FORK = """
import os, sys
import nczarr.netcdf4 as nc
path, format = sys.argv[1:]
ds = nc.Dataset(path, "w", format=format)
ds.createDimension("t", None)
v = ds.createVariable("v", "i4", ("t",))
v[:3] = [1, 2, 3]
ds.sync()
v[3] = 4
child = os.fork()
if not child:
    try:
        v[4] = 99
    except RuntimeError:
        pass
    else:
        os._exit(1)
    sys.exit(0)  # with everything that runs at exit
assert os.waitpid(child, 0)[1] == 0
v[4] = 5
ds.close()
"""

KILLED = """
import sys
import numpy as np
import nczarr.netcdf4 as nc
path, format = sys.argv[1:]
ds = nc.Dataset(path, "w", format=format)
ds.createDimension("t", None)
ds.createDimension("x", 50)
a = ds.createVariable("a", "i4", ("t", "x"))
b = ds.createVariable("b", "f8", ("t",))
step = 0
while True:
    a[step] = step
    b[step] = step
    step += 1
    if step % 10 == 0:
        ds.sync()
        print(step, flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("format", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_a_forked_child_leaves_the_file_alone(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.nc"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK, path, format], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    with netCDF4.Dataset(path) as ds:
        assert ds["v"][:].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("format", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"])
@pytest.mark.parametrize("syncs", [1, 3, 17])
def test_what_was_synced_survives_a_kill(tmp_path: Path, format: str, syncs: int) -> None:
    path = tmp_path / "a.nc"
    child = programs.Piped("-c", KILLED, path, format)
    for _ in range(syncs):
        known = int(child.stdout.readline())
    child.kill()
    rest = child.stdout.read().split()
    child.wait()
    known = int(rest[-1]) if rest else known
    for library in (netCDF4, ours):
        with library.Dataset(path) as ds:
            steps = len(ds.dimensions["t"])
            assert steps >= known
            assert (ds["b"][:known] == np.arange(known)).all()
            assert (ds["a"][:known] == np.arange(known)[:, None]).all()
            assert ds["a"][:].shape == (steps, 50)
    with ours.Dataset(path, "a") as ds:
        ds["b"][steps] = 5
        assert (ds["a"][:known] == np.arange(known)[:, None]).all()


FULL = """
import resource, sys
import numpy as np
import nczarr.netcdf4 as nc
path, format = sys.argv[1:]
with nc.Dataset(path, "a") as ds:
    ds.before = 1
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
ds = nc.Dataset(path, "a")
try:
    ds.createDimension("n", None)
    v = ds.createVariable("n", "f8", ("n",)) if format == "NETCDF4" else ds["time"]
    v[:50_000] = np.random.default_rng(0).random(50_000)
    ds.sync()
except (OSError, RuntimeError) as error:
    print("refused", error)
try:
    ds.close()
except (OSError, RuntimeError) as error:
    print("refused", error)
nc.Dataset(path + ".small.nc", "w").close()
print("goes on")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of resources here")
@pytest.mark.parametrize("format", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_a_full_disk_is_an_error_and_the_program_goes_on(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.nc"
    start(ours, path, format)
    done = programs.run("-c", FULL, path, format, check=True)
    lines = done.stdout.splitlines()
    assert lines[-1] == "goes on"
    assert lines[0].startswith("refused")


# -- the classic header


def test_a_header_that_moves_data_leaves_no_wrong_values_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.nc"
    start(ours, path, "NETCDF3_CLASSIC")
    from nczarr.netcdf.edit import classic_file

    def fails(*arguments: Any) -> None:
        raise NetCDFFileError("the disk is gone")

    ds = ours.Dataset(path, "a")
    ds.long = "text " * 1000
    with monkeypatch.context() as patched:
        patched.setattr(classic_file, "move_data", fails)
        with pytest.raises(NetCDFFileError, match="gone"):
            ds.sync()
    with pytest.raises(NetCDFFileError, match="data failed; the file is unchanged"):
        ds.close()
    with netCDF4.Dataset(path) as theirs_now:  # the data have moved in a copy, which is gone
        assert "long" not in theirs_now.ncattrs()
    assert [p.name for p in tmp_path.iterdir()] == ["a.nc"]


def test_data_move_in_place_where_no_file_can_be_made_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.nc"
    start(ours, path, "NETCDF3_CLASSIC")
    before = path.stat().st_ino
    from nczarr.system.atomic import Output

    def refused(output: Output) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(Output, "copy_target", refused)
    with ours.Dataset(path, "a") as ds:
        ds.long = "text " * 1000
    assert path.stat().st_ino == before
    with netCDF4.Dataset(path) as theirs_now:
        assert theirs_now.long == "text " * 1000


def test_a_second_writer_is_refused_after_data_have_moved(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    start(ours, path, "NETCDF3_CLASSIC")
    with ours.Dataset(path, "a") as ds:
        ds.long = "text " * 1000
        ds.sync()
        with pytest.raises(PermissionError):
            ours.Dataset(path, "a")
    ours.Dataset(path, "a").close()


def test_a_header_that_has_grown_has_room(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    start(ours, path, "NETCDF3_CLASSIC")
    places = []
    for i in range(12):
        with ours.Dataset(path, "a") as ds:
            ds.setncattr(f"attribute{i}", "some text")
        from nczarr.netcdf.classic import ClassicFile, parse_header

        file = ClassicFile.open(str(path))
        places.append(min(parse_header(file).begins))
        file.close()
    assert len(set(places)) <= 2
    with netCDF4.Dataset(path) as ds:
        assert ds["v"][4].tolist() == [4, 5, 6, 7]


def test_many_records_move_when_a_variable_comes(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    n = 300_000
    with ours.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET") as ds:
        ds.createDimension("t", None)
        ds.createVariable("a", "i2", ("t",))[:] = np.arange(n) % 1000
    with ours.Dataset(path, "a") as ds:
        ds.createDimension("x", 1000)
        ds.createVariable("fixed", "f8", ("x",))[:] = 2
        ds.createVariable("b", "f8", ("t",))[n - 1] = 5
    with netCDF4.Dataset(path) as ds:
        assert (ds["a"][:] == np.arange(n) % 1000).all()
        assert (ds["fixed"][:] == 2).all()
        assert ds["b"][:].count() == 1
        assert ds["b"][-1] == 5


def test_a_dataset_that_the_collector_drops_under_the_lock_of_hdf5_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    script = f"""if True:
        import gc
        import numpy as np
        from h5py._objects import phil
        import nczarr
        ds = nczarr.Dataset({str(path)!r}, "w")
        ds.createDimension("x", 200_000)
        values = np.random.default_rng(1).normal(size=200_000)
        for i in range(16):
            v = ds.createVariable(f"v{{i}}", "f8", ("x",), chunksizes=(100_000,), zlib=True)
            v[10:] = values[10:]  # the first chunk waits for its rest
        cycle = [ds]
        cycle.append(cycle)
        with phil:
            del ds, v, cycle
            gc.collect()
        """
    # The limit ends a program that waits for ever.
    subprocess.run([sys.executable, "-c", script], check=True)
    with netCDF4.Dataset(path) as ds:
        expected = np.random.default_rng(1).normal(size=200_000)
        for variable in ds.variables.values():
            assert variable[:10].mask.all()
            assert np.array_equal(variable[10:], expected[10:])


def test_a_sync_of_many_variables_writes_what_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of a classic file lie side by side: whole blocks of each variable were written over all of them."""
    written: list[int] = []

    def counted(content: Any, offset: int, data: Any, path: str) -> None:
        written.append(len(data))
        write_all(content, offset, data, path)

    monkeypatch.setattr(classic_file, "write_all", counted)
    steps, count, length = 40, 20, 50
    with ours.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_CLASSIC") as ds:
        ds.createDimension("t", None)
        ds.createDimension("x", length)
        made = [ds.createVariable(f"v{i}", "i4", ("t", "x")) for i in range(count)]
        for step in range(steps):
            for i, v in enumerate(made):
                v[step] = 1000 * i + step
            ds.sync()
        made[3][2:30:7, [0, 4]] = -1
        made[4][[1, 5, 8]] = -2
        ds.sync()
        assert sum(written) < 2 * steps * count * length * 4
    with netCDF4.Dataset(tmp_path / "a.nc") as ds:
        for i in range(count):
            expected = np.repeat(1000 * i + np.arange(steps)[:, None], length, axis=1)
            if i == 3:
                expected[2:30:7, [0, 4]] = -1
            if i == 4:
                expected[[1, 5, 8]] = -2
            assert ds[f"v{i}"][:].tolist() == expected.tolist()
