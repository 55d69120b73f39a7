"""Reading netCDF files, held against netCDF4-python, and against the CDL texts of the fixtures."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nczarr.netcdf4 as ours
from nczarr import copy
from nczarr.errors import NetCDFFileError, UnsupportedError
from nczarr.model import (
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    STRING,
    Attribute,
    CompoundType,
    Dataset,
    EnumType,
    Filter,
    OpaqueType,
    Storage,
    VlenType,
    compare,
    format_fqn,
    parse_fqn,
    resolve,
    same_values,
)
from nczarr.netcdf import create_dataset, open_dataset
from nczarr.netcdf.hdf5 import library as hdf5_library

DATA = Path(__file__).parents[1] / "data"


def whole(dataset: Dataset, fqn: str) -> np.ndarray:
    variable = dataset.variable_at(fqn)
    assert variable.data is not None
    return variable.data.read(tuple(slice(0, n, 1) for n in variable.data.shape))


def peer_groups(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    yield format_fqn(path), group
    for name, child in group.groups.items():
        yield from peer_groups(child, (*path, name))


def test_agrees_with_netcdf4_python(nc_file: Path) -> None:
    """All that netCDF4-python sees is there, in its order, with its types and its values to the bit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says what it skips
        peer = netCDF4.Dataset(nc_file)
    peer.set_auto_maskandscale(False)
    peer.set_auto_chartostring(False)
    with open_dataset(nc_file) as file, peer:
        groups = dict(peer_groups(peer))
        assert list(groups) == list(file.dataset.all_groups)
        for fqn, theirs in groups.items():
            ours = file.dataset.group_at(fqn)
            assert [(d.name, d.size, d.unlimited) for d in ours.dimensions] == [
                (d.name, d.size, d.isunlimited()) for d in theirs.dimensions.values()
            ]
            same_attributes(theirs, ours.attributes)
            seen = [v for v in ours.variables if v.name in theirs.variables]
            assert [v.name for v in seen] == list(theirs.variables)
            assert {v.name for v in ours.variables} - {v.name for v in seen} <= skipped(ours)
            for variable in seen:
                same_variable(theirs.variables[variable.name], variable, file.dataset)


def skipped(group: Any) -> set[str]:
    """Variables that netCDF4-python leaves out: those of types that it cannot hold."""

    def hard(type_: Any) -> bool:
        if isinstance(type_, OpaqueType):
            return True
        if isinstance(type_, VlenType):
            return type_.base.is_user_defined or type_.base == STRING
        if isinstance(type_, CompoundType):
            return any(f.type.is_user_defined or not f.type.is_fixed_size for f in type_.fields)
        return False

    return {v.name for v in group.variables if hard(v.type)}


def same_variable(theirs: Any, ours: Any, dataset: Dataset) -> None:
    assert theirs.dimensions == tuple(parse_fqn(d)[-1] for d in ours.dimensions)
    same_attributes(theirs, ours.attributes)
    chunks = theirs.chunking()
    assert (ours.storage.chunk_shape is not None) == isinstance(chunks, list)
    if isinstance(chunks, list):
        assert ours.storage.chunk_shape == tuple(chunks)
        filters = theirs.filters()
        assert (Filter(Filter.SHUFFLE) in ours.storage.filters) == filters["shuffle"]
        assert (Filter(Filter.FLETCHER32) in ours.storage.filters) == filters["fletcher32"]
        assert [f.parameters for f in ours.storage.filters if f.id == Filter.DEFLATE] == (
            [(filters["complevel"],)] if filters["zlib"] else []
        )
    if ours.storage.endian != "native":
        assert ours.storage.endian == theirs.endian()
    values = np.asarray(theirs[...])
    if theirs.shape == () and ours.type.dtype == object:  # netCDF4-python unpacks these
        item = values if isinstance(ours.type, VlenType) and values.dtype != object else values.reshape(-1)[0]
        values = np.empty((), object)
        values[()] = str(item) if ours.type == STRING else item
    read = ours.data.read(tuple(slice(0, n, 1) for n in dataset.shape_of(ours)))
    if ours.type.dtype.names:
        assert repr(read.tolist()) == repr(values.tolist())
    elif isinstance(ours.type, VlenType):
        assert all(same_values(np.asarray(x), y) for x, y in zip(values.ravel(), read.ravel(), strict=True))
    else:
        assert same_values(values if read.dtype == object else values.astype(read.dtype), read)


def same_attributes(theirs: Any, ours: tuple[Attribute, ...]) -> None:
    names = [a.name for a in ours if not hidden(a)]
    assert [n for n in theirs.ncattrs() if n in names] == names
    for a in ours:
        if hidden(a) or not a.values.size:
            continue
        value = theirs.getncattr(a.name)
        if a.type == CHAR:
            value = value.decode() if isinstance(value, bytes) else value
            assert value == a.values.tobytes().decode("utf-8", "replace").replace("\0", "")
        elif a.type == STRING:
            assert ([value] if isinstance(value, str) else value) == [
                text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for text in a.values
            ]
        else:
            assert same_values(np.atleast_1d(value).astype(a.values.dtype), a.values)


def hidden(attribute: Attribute) -> bool:
    """Attributes that netCDF4-python cannot read."""
    return attribute.type.is_user_defined


def test_nothing_that_h5py_sees_is_missing(hdf5_file: Path) -> None:
    """Every dataset, attribute, group and type of an HDF5 file is in the model, netCDF's bookkeeping aside."""
    books = {"_Netcdf4Dimid", "_Netcdf4Coordinates", "DIMENSION_LIST", "_NCProperties", "_nc3_strict"}
    scale_books = {"CLASS", "NAME", "REFERENCE_LIST"}
    expected = set()

    def visit(path: str, found: Any) -> None:
        names = tuple(path.split("/"))
        if isinstance(found, h5py.Dataset):
            scale = h5py.h5ds.is_scale(found.id)
            if scale and found.attrs["NAME"].startswith(b"This is a netCDF dimension but"):
                return
            names = (*names[:-1], names[-1].removeprefix("_nc4_non_coord_"))
            hide = books | scale_books if scale else books
        else:
            hide = books
        if not isinstance(found, h5py.Datatype):
            expected.update((format_fqn(names), name) for name in set(found.attrs) - hide)
        expected.add((format_fqn(names), type(found).__name__))

    with h5py.File(hdf5_file) as peer, open_dataset(hdf5_file) as file:
        peer.visititems(visit)
        expected |= {("/", name) for name in set(peer.attrs) - books}
        ds = file.dataset
        ours = {(fqn, "Dataset") for fqn in ds.all_variables}
        ours |= {(fqn, "Group") for fqn in ds.all_groups if fqn != "/"}
        ours |= {(fqn, "Datatype") for fqn in ds.all_types}
        ours |= {(fqn, a.name) for fqn, v in ds.all_variables.items() for a in v.attributes}
        ours |= {(fqn, a.name) for fqn, g in ds.all_groups.items() for a in g.attributes}
        assert ours == expected


def test_types_that_netcdf4_python_skips() -> None:
    with open_dataset(DATA / "user_types.nc") as file:
        ds = file.dataset
        assert whole(ds, "/blob").tolist() == [bytes([1, 2, 3, 4, 5]), bytes.fromhex("aabbccddee")]
        assert whole(ds, "/big").tolist() == [0, 2**64 - 1]
        assert [w.tolist() for w in whole(ds, "/words")] == [["a", "bcd"], ["größer"]]
        assert [c.tolist() for c in whole(ds, "/clouds")] == [[1], [-1, 0]]
        assert [t.tolist() for t in whole(ds, "/track")] == [[(1.0, 2.0, 3)], []]
        cell = whole(ds, "/cell")
        assert cell["label"].tobytes() == b"abcdefghijkl"
        assert cell["corners"][0].tolist() == [[1, 2, 3], [4, 5, 6]]
        assert cell["vertices"]["x"].tolist() == [[1, 4, 7], [9, 6, 3]]
        assert cell["raw"][1] == np.void(b"\xff" * 5)
        carrier = ds.variable_at("/carrier").attribute
        assert [v.tolist() for v in carrier["a_row"].values] == [[1, 2], [3], []]
        assert [[w.tolist() for w in v] for v in carrier["a_ragged"].values] == [[[1], [2, 3]]]
        assert carrier["a_cell"].values["label"].tobytes() == b"abcdef"
        assert carrier["a_cloud"].values.tolist() == [2, 0]
        assert ds.attribute["cloud_of_the_day"].type == ds.all_types["/cloud_t"]
    with open_dataset(DATA / "nested.nc") as file:
        rich = whole(file.dataset, "/rich")
        assert rich["name"][()] == "first"
        assert rich["aliases"].tolist() == ["s1", "größer"]
        assert rich["row"][()].tolist() == [7, 8]
        assert [[r.tolist() for r in v] for v in rich["ragged"]] == [[[1], [2, 3]], [[4]]]
        assert rich["parts"]["state"].tolist() == [1, -1]
        assert rich["last"] == 99


def test_bits_text_and_empty_attributes_survive() -> None:
    with open_dataset(DATA / "bits.nc") as file:
        ds = file.dataset
        assert whole(ds, "/f").view("u4").tolist() == [0x7FC00001, 0xFFC12345, 0x80000000, 0x7F800001]
        assert whole(ds, "/d").view("u8").tolist() == [
            0x7FF8000000000001,
            0xFFF8DEADBEEF0000,
            1 << 63,
            0x7FF0000000000001,
        ]
        f = ds.variable_at("/f")
        assert f.storage.no_fill
        assert f.attribute["latin"].values.tobytes() == b"caf\xe9 \xff\x00end\x00"
        assert f.attribute["strings"].values.tolist() == ["caf\udce9", ""]
        empties = [(a.type, a.values.size) for a in f.attributes if a.name.startswith("no_")]
        assert empties == [(CHAR, 0), (DOUBLE, 0), (f.attribute["no_int"].type, 0)]


def test_a_variable_shorter_than_its_unlimited_dimension_ends_in_fill() -> None:
    with open_dataset(DATA / "bits.nc") as file:
        ds = file.dataset
        assert ds.dimension_at("/time").size == 5
        assert whole(ds, "/short").tolist() == [1, 2, -32767, -32767, -32767]
        assert whole(ds, "/filled").tolist() == [0.5, -1, -1, -1, -1]
        data = ds.variable_at("/short").data
        assert data is not None
        assert data.read((slice(1, 5, 2),)).tolist() == [2, -32767]
        assert data.read((slice(3, 5),)).tolist() == [-32767, -32767]


def test_storage_hints() -> None:
    with open_dataset(DATA / "storage.nc") as file:
        hints = {v.name: v.storage for v in file.dataset.variables}
    assert hints["contiguous"] == Storage("contiguous", endian="little")
    assert hints["compact"].layout == "compact"
    assert hints["all_filters"] == Storage(
        "chunked", (5, 5), (Filter(2), Filter(3), Filter(1, (9,))), "little"
    ) or set(hints["all_filters"].filters) == {Filter(2), Filter(3), Filter(1, (9,))}
    assert hints["big_endian"].endian == "big"
    assert hints["no_fill"].no_fill
    assert not hints["chunked"].no_fill
    assert hints["text"].endian == "native"


def test_groups_shadowed_dimensions_and_types() -> None:
    with open_dataset(DATA / "groups.nc") as file:
        ds = file.dataset
        assert ds.variable_at("/inner/v").dimensions == ("/time", "/inner/x")
        assert ds.variable_at("/inner/deep/v").dimensions == ("/inner/deep/time", "/inner/x")
        assert ds.variable_at("/inner/deep/own").type.name == "flag_t"
        assert ds.variable_at("/inner/deep/own").type is ds.all_types["/inner/deep/flag_t"]
        assert ds.variable_at("/inner/flag").type is ds.all_types["/flag_t"]
        assert [g.name for g in ds.groups] == ["inner", "empty", "a_last"]
        assert [d.name for d in ds.dimensions] == ["time", "x", "unused"]
        assert ds.dimension_at("/a_last/none").size == 0


def test_formats() -> None:
    expected = {
        "classic": "classic",
        "classic_64bit": "64-bit offset",
        "classic_cdf5": "cdf5",
        "classic_model": "netCDF-4 classic model",
        "primitives": "netCDF-4",
    }
    for name, format_ in expected.items():
        with open_dataset(DATA / f"{name}.nc") as file:
            assert file.dataset.format == format_
            assert file.dataset.name == name


def test_hdf5_files_of_other_programs() -> None:
    with open_dataset(DATA / "foreign.nc") as file:
        ds = file.dataset
        assert whole(ds, "/fixed_text").tolist() == ["abc", "de"]
        assert whole(ds, "/words").tolist() == ["x", "größer"]
        assert ds.attribute["text"].type == STRING
        assert ds.attribute["fixed"].text == "fixed text"
        assert ds.attribute["list"].values.tolist() == ["ab", "c"]
        assert ds.variable_at("/group/profile").type == FLOAT


def test_types_without_a_name_get_one(tmp_path: Path) -> None:
    """Truth values, complex numbers and records that h5py writes: netCDF's library leaves them out."""
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        file["unnamed_enum_1"] = np.arange(2)
        file["truth"] = np.array([True, False])
        file["complex"] = np.array([1 + 2j, 3 - 1j])
        file["g/again"] = np.array([False, True])
        file["g/deep"] = np.array([(1, True)], [("n", "i4"), ("ok", "?")])
        file.attrs["flag"] = np.array([True])
    with open_dataset(path) as file:
        ds = file.dataset
        truth = ds.variable_at("/truth").type
        assert truth == EnumType("/unnamed_enum_2", BYTE, (("FALSE", 0), ("TRUE", 1)))
        assert ds.attribute["flag"].type == truth == ds.variable_at("/g/again").type
        assert whole(ds, "/truth").tolist() == [1, 0]
        assert whole(ds, "/complex").tolist() == [(1, 2), (3, -1)]
        assert whole(ds, "/g/deep").tolist() == [(1, 1)]
        assert list(ds.all_types) == ["/unnamed_enum_2", "/unnamed_compound_1", "/g/unnamed_compound_1"]
        assert resolve(ds) == ds
        with create_dataset(tmp_path / "b.nc", ds) as sink:
            for fqn in ds.all_variables:
                values = whole(ds, fqn)
                sink.write(fqn, tuple(slice(0, n) for n in values.shape), values)
            sink.commit()
        with open_dataset(tmp_path / "b.nc") as copy:
            assert not list(compare(ds, copy.dataset))


def test_types_of_a_group_stand_behind_those_they_are_built_on(tmp_path: Path) -> None:
    """In the order of their names, or after one that got its name here, `--verify` found the copy to differ."""
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["a_t"] = np.dtype([("truth", "?"), ("key", "V4")])
        file["v"] = np.zeros(2, file["a_t"].dtype)
    with open_dataset(tmp_path / "a.nc") as file:
        assert list(file.dataset.all_types) == ["/unnamed_enum_1", "/unnamed_opaque_1", "/a_t"]
    copy(tmp_path / "a.nc", tmp_path / "b.nc", verify=True)


@pytest.mark.parametrize("count", [3, 60])
@pytest.mark.parametrize("tracked", [False, True])
def test_attributes_are_read_also_without_a_recorded_order(count: int, tracked: bool, tmp_path: Path) -> None:
    names = [f"{chr(122 - i % 26)}{i}" for i in range(count)]
    with h5py.File(tmp_path / "a.nc", "w", libver="latest", track_order=tracked) as file:
        for owner in (file, file.create_dataset("v", data=1, track_order=tracked)):
            for i, name in enumerate(names):
                owner.attrs[name] = i
    with open_dataset(tmp_path / "a.nc") as file, netCDF4.Dataset(tmp_path / "a.nc") as theirs:
        for ours_, other in ((file.dataset, theirs), (file.dataset.variables[0], theirs["v"])):
            found = {a.name: int(a.values[0]) for a in ours_.attributes}
            assert found == {name: int(other.getncattr(name)) for name in other.ncattrs()}
            assert sorted(found) == sorted(names)
            assert list(found) == (names if tracked else other.ncattrs())


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[slice, ...]:
    made = []
    for size in shape:
        start = draw(st.integers(0, size))
        made.append(slice(start, draw(st.integers(start, size)), draw(st.integers(1, 4))))
    return tuple(made)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_regions_with_steps_are_numpys(data: st.DataObject) -> None:
    name = data.draw(
        st.sampled_from(["storage", "classic", "classic_cdf5", "one_record", "user_types", "nested"])
    )
    with open_dataset(DATA / f"{name}.nc") as file:
        fqn = data.draw(st.sampled_from(list(file.dataset.all_variables)))
        variable = file.dataset.variable_at(fqn)
        assert variable.data is not None
        region = data.draw(selections(variable.data.shape))
        expected = whole(file.dataset, fqn)
        expected = expected[region] if region else expected
        read = variable.data.read(region)
        assert same_values(expected, read)
        assert read.flags.writeable
        out = np.empty(expected.shape, expected.dtype)
        assert variable.data.read(region, out) is out
        assert same_values(expected, out)


def test_classic_regions_far_apart(tmp_path: Path) -> None:
    """Large strides take another way through the reader than small arrays do."""
    values = np.arange(40 * 300 * 500, dtype=">i4").reshape(40, 300, 500)
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_64BIT_OFFSET") as ds:
        for name, size in (("t", None), ("y", 300), ("x", 500)):
            ds.createDimension(name, size)
        ds.createVariable("a", "i4", ("t", "y", "x"))[:] = values
        ds.createVariable("b", "i2", ("t",))[:] = np.arange(40)
    with open_dataset(tmp_path / "a.nc") as file:
        a = file.dataset.variable_at("/a").data
        b = file.dataset.variable_at("/b").data
        assert a is not None
        assert b is not None
        for region in [
            (slice(0, 40), slice(7, 8), slice(3, 4)),
            (slice(1, 40, 7), slice(0, 300, 100), slice(2, 500, 9)),
            (slice(39, 40), slice(0, 300), slice(0, 500)),
            (slice(0, 40, 39), slice(299, 300), slice(499, 500)),
        ]:
            assert np.array_equal(a.read(region), values[region])
        assert b.read((slice(0, 40, 3),)).tolist() == list(range(0, 40, 3))


def test_reading_from_many_threads() -> None:
    with open_dataset(DATA / "storage.nc") as file, ThreadPoolExecutor(8) as pool:
        expected = {fqn: whole(file.dataset, fqn) for fqn in file.dataset.all_variables}
        for _ in range(5):
            read = pool.map(lambda fqn: (fqn, whole(file.dataset, fqn)), [*expected] * 4)
            assert all(same_values(values, expected[fqn]) for fqn, values in read)


def test_a_closed_file_says_so() -> None:
    for name in ("storage", "classic"):
        file = open_dataset(DATA / f"{name}.nc")
        file.close()
        file.close()
        with pytest.raises(NetCDFFileError, match="closed"):
            whole(file.dataset, next(iter(file.dataset.all_variables)))


def test_records_that_are_counted_by_the_files_length(tmp_path: Path) -> None:
    """A classic file that was written as a stream does not say how many records it has."""
    content = bytearray((DATA / "one_record.nc").read_bytes())
    content[4:8] = b"\xff" * 4
    (tmp_path / "a.nc").write_bytes(content)
    with open_dataset(tmp_path / "a.nc") as file, open_dataset(DATA / "one_record.nc") as whole_file:
        assert file.dataset.dimension_at("/time").size == 5
        assert not list(compare(file.dataset, whole_file.dataset))


@pytest.mark.parametrize("format", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"])
def test_names_that_netcdf_c_made_shorter_in_place(format: Any, tmp_path: Path) -> None:
    """It leaves the old length, and NULs behind the new name."""
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format=format) as ds:
        ds.createDimension("long_dimension", 2)
        v = ds.createVariable("long_variable", "i2", ("long_dimension",))
        v.long_attribute = np.int16(5)
        v[:] = [5, 10]
        v.renameAttribute("long_attribute", "missing_value")
        v.renameAttribute("missing_value", "m")
        ds.renameVariable("long_variable", "v")
        ds.renameDimension("long_dimension", "d")
    assert b"m\0\0\0\0\0\0\0" in path.read_bytes()
    with open_dataset(path) as opened:
        (variable,) = opened.dataset.variables
        assert (variable.name, variable.dimensions) == ("v", ("/d",))
        assert [a.name for a in variable.attributes] == ["m"]
    with ours.Dataset(path, "a") as edited:
        edited["v"].n = np.int16(1)
    with netCDF4.Dataset(path) as ds:
        assert (ds["v"].ncattrs(), ds["v"][:].tolist()) == (["m", "n"], [5, 10])


def test_without_h5py_only_netcdf4_files_are_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    hdf5_library.hdf5.cache_clear()
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UnsupportedError, match=r"h5py \(pip install h5py, .* its extra 'netcdf'\)"):
        open_dataset(DATA / "primitives.nc")
    with pytest.raises(UnsupportedError, match="h5py"):
        create_dataset(DATA / "never.nc", Dataset("d"))
    with open_dataset(DATA / "classic.nc") as file:
        assert file.dataset.format == "classic"


def test_a_file_that_h5py_has_open(tmp_path: Path) -> None:
    with h5py.File(DATA / "storage.nc") as peer, open_dataset(DATA / "storage.nc") as file:
        assert np.array_equal(whole(file.dataset, "/chunked"), peer["chunked"][()])


SHARED = """
import subprocess
import sys
from nczarr.netcdf.hdf5.source import HDF5File

path, dropped = sys.argv[1], sys.argv[2] == "dropped"
first = HDF5File.open(path)
first.opened(b"s")
second = HDF5File.open(path)
second.opened(b"s")
if dropped:
    del first
else:
    first.close()
    first.close()
second.opened(b"s").id.get_create_plist()
third = HDF5File.open(path)
third.opened(b"s")
second.close()
third.opened(b"s").id.get_create_plist()
third.close()
with open(path, "r+b") as file:  # HDF5 has it open no more
    file.truncate(0)
try:
    HDF5File.open(path)
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("end", ["closed", "dropped"])
def test_one_of_several_who_have_a_file_open_closes_it(tmp_path: Path, end: str) -> None:
    """HDF5 crashes, or reads another file's memory, when the first is closed before the others."""
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as ds:
        ds.createDimension("x", 4)
        ds.createVariable("s", str, ("x",), fill_value="none")[0] = "a"
    done = subprocess.run(
        [sys.executable, "-c", SHARED, str(path), end], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "NetCDFFileError"), done.stderr


def test_a_file_that_stays_open_is_open_once(tmp_path: Path) -> None:
    path = str(tmp_path / "a.nc")
    with netCDF4.Dataset(path, "w") as ds:
        ds.createDimension("x", 4)
    before = h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE)
    with ours.Dataset(path):
        for _ in range(5):
            ours.Dataset(path).close()
        assert h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE) == before + 1
    assert h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE) == before
