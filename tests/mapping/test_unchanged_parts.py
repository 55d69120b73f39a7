"""Test that a change keeps everything else: values, their encoding, attributes and nodes of other programs."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import netCDF4
import numcodecs
import numpy as np
import pytest

import nczarr
from nczarr.cli import main
from nczarr.errors import ArgumentError, ModelError, UnsupportedError
from nczarr.mapping import open_dataset, repair

zarr = pytest.importorskip("zarr")

pytestmark = pytest.mark.filterwarnings(
    "ignore::zarr.errors.UnstableSpecificationWarning", "ignore::UserWarning"
)

#: One array for each data type that netCDF has another type for, and others.
ARRAYS = {
    "truth": np.array([True, False, True]),
    "half": np.array([0.5, np.inf, np.nan], "f2"),
    "complex": np.array([1 + 2j, 3, np.nan], "c16"),
    "seconds": np.array(["2020-01-01", "NaT", "1969-12-31"], "M8[s]"),
    "months": np.array(["2020-01", "NaT", "1969-12"], "M8[M]"),
    "span": np.array([1, -1, "NaT"], "m8[ns]"),
    "text": np.array(["a", "é", ""], "U3"),
    "bytes": np.array([b"ab", b"\xff", b""], "S2"),
    "opaque": np.frombuffer(b"abcdefghi", "V3"),
    "big": np.array([1, -2, 3], ">i4"),
    "float": np.array([1.5, -0.0, np.nan]),
}
ATTRIBUTES: dict[str, Any] = {
    "units": "m",
    "none": None,
    "object": {"a": [1, None]},
    "list": [1],
    "flags": [True, False],
    "mixed": [1, "a"],
    "nul": "a\0b",
    "_nczarr_array": {"x": 1},
    "huge": 10**30,
    "infinite": float("inf"),
    "ranges": [float("-inf"), 1.5],
}


def documents(folder: Path) -> dict[str, Any]:
    names = {"zarr.json", ".zarray", ".zattrs", ".zgroup"}
    return {
        str(path.relative_to(folder)): json.loads(path.read_text())
        for path in sorted(folder.rglob("*"))
        if path.name in names
    }


@pytest.mark.parametrize("version", [2, 3])
def test_plain_zarr_keeps_everything_but_what_is_changed(tmp_path: Path, version: Any) -> None:
    folder = tmp_path / "a.zarr"
    group = zarr.open_group(folder, mode="w", zarr_format=version, attributes=ATTRIBUTES)
    for name, values in ARRAYS.items():
        group.create_array(name, data=values, chunks=(2,), attributes={} if name == "seconds" else ATTRIBUTES)
    group.create_array("timeless", shape=(2,), dtype="M8", attributes=ATTRIBUTES)
    group.create_array("scalar", data=np.array(5, "i2"), attributes=ATTRIBUTES)
    group.create_group("g").create_array("labelled", data=np.zeros((2, 3)), attributes={"object": {"b": 1}})
    before = documents(folder)
    with nczarr.Dataset(folder, "a") as ds:
        ds.added = "new"
        for name in (*ARRAYS, "timeless", "scalar", "g/labelled"):
            ds[name].added = np.int16(7)
    after = documents(folder)
    assert after.keys() == before.keys()
    for document, was in before.items():
        if was.get("storage_transformers") == []:
            del was["storage_transformers"]
        for said in (was, after[document]):
            if said.get("fill_value") == "NaT":
                said["fill_value"] = np.iinfo("i8").min  # another word for it
        is_root = document in ("zarr.json", ".zattrs")
        attributes = was["attributes"] if version == 3 else was
        if is_root:
            attributes["added"] = "new"
        elif document.endswith(("zarr.json", ".zattrs")) and not document.startswith(("g/zarr", "g/.z")):
            attributes["added"] = 7
        assert after[document] == was, document
    group = zarr.open_group(folder, mode="r")
    for name, values in ARRAYS.items():
        assert group[name][...].astype(values.dtype).tobytes() == values.tobytes(), name


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("how", ["consolidate", "change"])
def test_consolidated_metadata_keep_bare_numbers_too(tmp_path: Path, version: Any, how: str) -> None:
    folder = tmp_path / "a.zarr"
    attributes = {"missing_value": float("nan"), "ranges": [float("-inf"), 1.5], "word": "NaN"}
    group = zarr.open_group(folder, mode="w", zarr_format=version, attributes=attributes)
    group.create_array("v", data=np.arange(3.0), attributes=attributes)
    zarr.consolidate_metadata(folder)
    if how == "consolidate":
        assert main(["consolidate", str(folder)]) == 0
    else:
        with nczarr.Dataset(folder, "a") as ds:
            ds.added = attributes["added"] = "new"
    for consolidated in (True, False):
        group = zarr.open_group(folder, mode="r", use_consolidated=consolidated)
        assert repr(dict(group.attrs)) == repr(attributes)
        attributes.pop("added", None)
        assert repr(dict(group["v"].attrs)) == repr(attributes)
        if how == "change":
            attributes["added"] = "new"


def test_changed_and_removed_attributes_of_plain_zarr(tmp_path: Path) -> None:
    folder = tmp_path / "a.zarr"
    zarr.open_group(folder, mode="w").create_array("v", data=np.arange(3), attributes=ATTRIBUTES)
    with nczarr.Dataset(folder, "a") as ds:
        ds["v"].units = "km"
        ds["v"].delncattr("object")
        ds["v"].renameAttribute("flags", "switches")
    expected = {**ATTRIBUTES, "units": "km", "switches": [1, 0]}
    del expected["object"], expected["flags"]
    assert dict(zarr.open_group(folder, mode="r")["v"].attrs) == expected


@pytest.mark.parametrize("version", [2, 3])
def test_nodes_that_netcdf_has_no_name_for_stay(tmp_path: Path, version: Any) -> None:
    folder = tmp_path / "a.zarr"
    group = zarr.open_group(folder, mode="w", zarr_format=version)
    for name in ("v", "blank ", "g/w", "g/blank ", "lost /x"):
        group.create_array(name, data=np.arange(3))
    before = documents(folder)
    with nczarr.Dataset(folder, "a") as ds:
        assert list(ds.variables) == ["v"]
        ds.added = "new"
        ds["v"][:] = 7
    assert documents(folder).keys() == before.keys()
    assert zarr.open_group(folder, mode="r")["lost /x"][...].tolist() == [0, 1, 2]
    with nczarr.Dataset(folder, "a") as ds:
        with pytest.raises(ModelError, match="would remove or damage '/g/blank"):
            ds.renameGroup("g", "h")
        # A refused change is not in the tree, and later changes are stored.
        assert list(ds.groups) == ["g"]
        ds["g/w"][:] = 8
        ds.later = "stored"
    group = zarr.open_group(folder, mode="r")
    assert (group.attrs["later"], group["g/w"][...].tolist()) == ("stored", [8, 8, 8])
    assert group["g/blank "][...].tolist() == [0, 1, 2]


def test_a_single_array_stays_one(tmp_path: Path) -> None:
    folder = tmp_path / "a.zarr"
    zarr.create_array(folder, data=np.arange(3), attributes={"object": {"a": 1}})
    with nczarr.Dataset(folder, "a") as ds:
        ds["a"].added = "new"
        ds["a"][0] = 7
    array = zarr.open_array(folder, mode="r")
    assert (array[...].tolist(), dict(array.attrs)) == ([7, 1, 2], {"object": {"a": 1}, "added": "new"})


@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds.setncattr("a", 1),
        lambda ds: ds.createVariable("w", "i4"),
        lambda ds: ds.renameVariable("a", "b"),
        lambda ds: ds.createGroup("g"),
    ],
    ids=["attribute", "variable", "name", "group"],
)
def test_what_a_single_array_has_no_place_for(tmp_path: Path, change: Any) -> None:
    folder = tmp_path / "a.zarr"
    zarr.create_array(folder, data=np.arange(3))
    before = documents(folder)
    ds = nczarr.Dataset(folder, "a")
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(UnsupportedError, match="single Zarr array"))
        change(ds)  # a new name is stored at once, all else on closing
        ds.close()
    assert documents(folder) == before


@pytest.mark.parametrize(
    ("array", "value"),
    [
        (np.zeros(2, "f2"), 1e6),
        (np.zeros(2, bool), 2),
        (np.zeros(2, "M8[M]"), 45),
        (np.zeros(2, "M8[3h]"), 4),
        (np.array(["", "ab"]), "abc"),
        (np.array(["", "ab"]), "a\0"),
        (np.array([b"", b"ab"]), "a\0"),
    ],
    ids=str,
)
def test_values_that_an_array_cannot_hold_are_refused(tmp_path: Path, array: np.ndarray, value: Any) -> None:
    """They were written as infinite, truth of another kind, the first of the month, without the NUL."""
    zarr.open_group(tmp_path / "a.zarr", mode="w").create_array("v", data=array)
    with nczarr.Dataset(tmp_path / "a.zarr", "a") as ds, pytest.raises(ArgumentError, match="/v: "):
        ds["v"][0] = value
    assert zarr.open_group(tmp_path / "a.zarr", mode="r")["v"][...].tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("array", "fill"), [(np.zeros(2, "M8[3h]"), 5), (np.array(["", "ab"]), "longer")], ids=["time", "text"]
)
def test_a_fill_value_that_an_array_cannot_have_stops_no_other_change(
    tmp_path: Path, array: np.ndarray, fill: Any
) -> None:
    attributes = {"_FillValue": fill}
    zarr.open_group(tmp_path / "a.zarr", mode="w").create_array("v", data=array, attributes=attributes)
    with nczarr.Dataset(tmp_path / "a.zarr", "a") as ds:
        ds["v"].added = "new"
    found = zarr.open_group(tmp_path / "a.zarr", mode="r")["v"]
    assert (dict(found.attrs), found[...].tobytes()) == ({**attributes, "added": "new"}, array.tobytes())


FORMS = [
    {},
    {"chunks": "x=2", "shards": "x=8"},
    {"compression": "gzip:5"},
    {"compound": "struct"},
    {"char": "uint8"},
    {"layout": "draft-2019"},
]


@pytest.fixture
def typed(tmp_path: Path) -> Path:
    """A dataset with a group of types and variables of them."""
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        group = ds.createGroup("g")
        group.createDimension("x", 8)
        enum = group.createEnumType("i1", "e_t", {"A": 1, "B": 2})
        pair = group.createCompoundType(np.dtype([("a", "i4"), ("b", "f8")]), "c_t")
        row = group.createVLType("i4", "row_t")
        group.createVariable("enum", enum, ("x",))[:] = [1, 2] * 4
        group.createVariable("pair", pair, ("x",))[:] = np.array([(i, i / 2) for i in range(8)], pair.dtype)
        group.createVariable("char", "S1", ("x",))[:] = list("abcdefgh")
        group.createVariable("row", row, ("x",))[0] = np.array([1, 2], "i4")
        group.createVariable("text", str, ("x",))[:] = np.array(list("abcdefgh"), object)
    return tmp_path / "a.zarr"


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_group_with_types_is_renamed_with_its_values(typed: Path, form: dict[str, Any]) -> None:
    """Types have other full names then; arrays that are stored otherwise than by default were erased."""
    other = typed.with_name("b.zarr")
    nczarr.copy(typed, other, **form)
    with nczarr.Dataset(other, "a") as ds:
        ds.renameGroup("g", "h")
        ds["h/char"].added = 1
    with nczarr.Dataset(typed) as before, nczarr.Dataset(other) as after:
        for name, variable in before["g"].variables.items():
            assert after["h"][name].dtype == variable.dtype
            np.testing.assert_equal(after["h"][name][...].tolist(), variable[...].tolist())
    with open_dataset(other) as stored:
        assert not stored.findings


def test_char_as_uint8_is_repaired_as_char(typed: Path) -> None:
    other = typed.with_name("b.zarr")
    nczarr.copy(typed, other, char="uint8")
    document = json.loads((other / "zarr.json").read_text())
    del document["attributes"]["_nczarr_group"]
    del document["consolidated_metadata"]
    (other / "zarr.json").write_text(json.dumps(document))
    with open_dataset(other, "r+") as stored:
        stored.rewrite()
    assert not list(nczarr.diff(typed, other))


def test_strings_of_nczarr_v2_keep_their_length(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 2)
        ds.createVariable("s", str, ("x",))[:] = np.array(["a", "abc"], object)
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "b.zarr", layout="nczarr-v2")
    with nczarr.Dataset(tmp_path / "b.zarr", "a") as ds:
        ds["s"].added = "new"
    with nczarr.Dataset(tmp_path / "b.zarr") as ds:
        assert (ds["s"][:].tolist(), ds["s"].added) == (["a", "abc"], "new")


def test_an_attribute_does_not_become_the_fill_value_of_compounds(typed: Path) -> None:
    """The array's fill value is one byte and cannot say it: the values were erased."""
    with nczarr.Dataset(typed, "a") as ds:
        pair = ds["g/pair"]
        pair.other = np.array((1, 2.5), pair.dtype)
        with pytest.raises(AttributeError, match="_FillValue"):
            pair.renameAttribute("other", "_FillValue")
    with nczarr.Dataset(typed) as ds:
        assert ds["g/pair"][7].tolist() == (7, 3.5)


def test_filters_of_version_2_stay(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    values = np.arange(12, dtype=">i4").reshape(3, 4)
    group.create_array(
        "v",
        data=values,
        chunks=(2, 3),
        order="F",
        filters=[numcodecs.Delta(">i4")],
        compressors=numcodecs.LZ4(),
    )
    with nczarr.Dataset(tmp_path / "a.zarr", "a") as ds:
        ds["v"].added = "new"
        ds["v"][0, 0] = 100
    values[0, 0] = 100
    assert zarr.open_group(tmp_path / "a.zarr", mode="r")["v"][...].tolist() == values.tolist()


@pytest.mark.parametrize("change", ["attribute", "dimension", "type", "rename", "repair"])
def test_the_chunk_shape_of_the_source_stays(tmp_path: Path, change: str) -> None:
    """Shards are another grid than the chunks of the netCDF file, which the way back restores."""
    with netCDF4.Dataset(tmp_path / "s.nc", "w") as file:
        for name, size in (("t", 6), ("y", 18)):
            file.createDimension(name, size)
        file.createVariable("v", "f4", ("t", "y"), chunksizes=(1, 9))[:] = np.arange(108).reshape(6, 18)
    target = tmp_path / "t.zarr"
    nczarr.copy(tmp_path / "s.nc", target, shards={"t": 6})
    name = "w" if change == "rename" else "v"
    if change == "repair":
        file_ = target / "zarr.json"
        file_.write_text(file_.read_text().replace('"size":18', '"size":17'))
        assert "size-stale" in [f.code for f in repair(target)]
    else:
        with nczarr.Dataset(target, "a") as ds:
            if change == "attribute":
                ds["v"].units = "m"
            elif change == "dimension":
                ds.createDimension("z", 3)
            elif change == "type":
                ds.createEnumType("i1", "e", {"a": 1})
            else:
                ds.renameVariable("v", "w")
    with nczarr.Dataset(target) as ds:
        assert ds[name].chunking() == [1, 9]
    nczarr.copy(target, tmp_path / "back.nc")
    with netCDF4.Dataset(tmp_path / "back.nc") as file:
        assert file[name].chunking() == [1, 9]
        assert file[name][:].tolist() == np.arange(108).reshape(6, 18).tolist()
