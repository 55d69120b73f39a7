"""Read plain Zarr v3 of other programs, and list the losses of writing it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mapping_tools as tools
import numcodecs
import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from real_data import ZARR_SAMPLES
from rotation import examples

import nczarr
from nczarr import cdl
from nczarr.errors import UnsupportedError
from nczarr.mapping import WriteOptions, create_dataset, open_dataset
from nczarr.mapping.plain.write import ORDER
from nczarr.model import (
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
    INT64,
    STRING,
    UBYTE,
    UINT64,
    Attribute,
    CompoundType,
    Dataset,
    Difference,
    Dimension,
    MemorySource,
    OpaqueType,
    PrimitiveType,
    Variable,
    VlenType,
    compare,
    resolve,
)
from nczarr.stores import MemoryStore
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.hierarchy.opening import create_hierarchy
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, NamedConfig
from nczarr.zarr.types import DATA_TYPES, DataType, data_type_for, parse_data_type

PLAIN = WriteOptions(layout="zarr-v3")


def hierarchy(arrays: dict[str, tuple[Any, Any]], attributes: dict[str, Any] | None = None) -> MemoryStore:
    """A store with arrays: path to (values, labels)."""
    store = MemoryStore()
    made = create_hierarchy(store, attributes=attributes or {})
    for path, (values, labels) in arrays.items():
        if values is None:
            made.put_group(path, GroupMetadata())
            continue
        data_type = labels[1] if isinstance(labels, tuple) else data_type_for(np.asarray(values).dtype)
        labels = labels[0] if isinstance(labels, tuple) else labels
        codec = "vlen-bytes" if data_type.name == "bytes" else "vlen-utf8"
        first = NamedConfig(codec) if data_type.is_variable else NamedConfig("bytes", {"endian": "little"})
        shape = np.shape(values)
        made.put_array(
            path,
            ArrayMetadata(
                shape,
                data_type,
                RegularGrid(tuple(max(n, 1) for n in shape)),
                fill_value=data_type.zero(),
                codecs=(first,),
                dimension_names=None if labels is None else tuple(labels),
            ),
        ).write(..., values)
    return store


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, "i4")


def shapes(store: MemoryStore) -> dict[str, Any]:
    with open_dataset(store) as stored:
        resolve(stored.dataset)  # the model is sound
        return {fqn: v.dimensions for fqn, v in stored.dataset.all_variables.items()}


def test_labels_with_one_length_are_one_dimension() -> None:
    store = hierarchy({"a": (ones(2, 3), ["y", "x"]), "b": (ones(3), ["x"]), "c": (ones(3, 3), ["x", "x"])})
    assert shapes(store) == {"/a": ("/y", "/x"), "/b": ("/x",), "/c": ("/x", "/x")}


def test_labels_with_several_lengths_are_several_dimensions() -> None:
    store = hierarchy(
        {"a": (ones(2), ["x"]), "b": (ones(3), ["x"]), "x": (ones(3), ["x"]), "c": (ones(2), ["x"])}
    )
    assert shapes(store) == {"/a": ("/x_2",), "/b": ("/x",), "/x": ("/x",), "/c": ("/x_2",)}
    clash = hierarchy({"a": (ones(2), ["x"]), "b": (ones(3), ["x"]), "c": (ones(5), ["x_3"])})
    found = shapes(clash)
    assert len({*found.values()}) == 3
    assert found["/a"] == ("/x",)


def test_groups_inherit_dimensions_that_fit() -> None:
    store = hierarchy(
        {
            "a": (ones(2), ["x"]),
            "g": (None, None),
            "g/same": (ones(2), ["x"]),
            "h": (None, None),
            "h/other": (ones(3), ["x"]),
            "k": (None, None),
            "k/x": (ones(2), ["x"]),
        }
    )
    assert shapes(store) == {"/a": ("/x",), "/g/same": ("/x",), "/h/other": ("/h/x",), "/k/x": ("/k/x",)}


def test_without_labels_dimensions_are_anonymous() -> None:
    store = hierarchy({"a": (ones(2, 3), None), "b": (ones(2, 3), ["x", None]), "c": (ones(2), ["a\x01"])})
    assert shapes(store) == {"/a": (2, 3), "/b": ("/x", 3), "/c": (2,)}


def read(values: Any, data_type: Any) -> tuple[Variable, Any, Dataset]:
    store = hierarchy({"v": (values, (["x"], data_type))})
    with open_dataset(store) as stored:
        variable = stored.dataset.variable_at("/v")
        data = stored.data("/v").read_orthogonal(...)
        assert data.dtype == variable.type.dtype
        return variable, data, stored.dataset


def test_types_that_netcdf_does_not_have() -> None:
    variable, data, _ = read(np.array([True, False]), data_type_for("bool"))
    assert (variable.type, data.tolist(), variable.attribute["dtype"].text) == (BYTE, [1, 0], "bool")
    variable, data, _ = read(np.array([1.5, np.inf], "f2"), data_type_for("float16"))
    assert (variable.type, data.tolist()) == (FLOAT, [1.5, np.inf])
    variable, data, _ = read(np.array([1 + 2j]), data_type_for("complex128"))
    assert isinstance(variable.type, CompoundType)
    assert data.tolist() == [(1.0, 2.0)]
    variable, data, _ = read(np.array(["ab", "é"], "U2"), data_type_for("U2"))
    assert (variable.type, data.tolist()) == (STRING, ["ab", "é"])
    variable, data, _ = read(np.array([b"ab", b"\xff"], "S2"), data_type_for("S2"))
    assert (variable.type, data.tolist()) == (STRING, ["ab", "\udcff"])
    variable, data, _ = read(np.array([b"ab"], "V2"), data_type_for("V2"))
    assert variable.type == OpaqueType("/opaque_2", 2)
    values = np.array([b"ab", b""], object)
    variable, data, _ = read(values, parse_data_type("bytes"))
    assert variable.type == VlenType("/bytes_t", UBYTE)
    assert [v.tolist() for v in data] == [[97, 98], []]


@pytest.mark.parametrize(
    ("unit", "count", "units", "expected"),
    [
        ("D", 3, "days since 1970-01-01", 3), ("s", 90, "seconds since 1970-01-01", 90),
        ("M", 2, "days since 1970-01-01", 59),
        ("Y", 1, "days since 1970-01-01", 365), ("10s", 3, "seconds since 1970-01-01", 30),
    ],
)  # fmt: skip
def test_times(unit: str, count: int, units: str, expected: int) -> None:
    values = np.array([count, 0]).view(f"M8[{unit}]")
    values[1] = np.datetime64("NaT")
    variable, data, _ = read(values, data_type_for(values.dtype))
    assert variable.type == INT64
    assert variable.attribute["units"].text == units
    assert data[0] == expected
    assert data[1] == variable.attribute["_FillValue"].values[0]


@pytest.mark.parametrize("dtype", ["M8[10s]", "m8[7W]", "M8[Y]"])
def test_times_that_are_too_large_are_refused(dtype: str) -> None:
    """numpy raises an error of its own, or lets them wrap around."""
    store = hierarchy({"v": (np.array([5, 2**62]).view(dtype), ["x"])})
    with open_dataset(store, "r+") as stored:
        data = stored.data("/v")
        first = data.read_orthogonal(slice(0, 1))
        data.write(slice(1, 2), first)
        assert data.read_orthogonal(...).tolist() == [*first, *first]
        with pytest.raises(UnsupportedError, match=r"too large|not a multiple"):
            data.write(slice(1, 2), np.array([2**63 - 2]))
        stored.data("/v").array.write(1, np.array(2**62).view(dtype))
        with pytest.raises(UnsupportedError, match="too large"):
            data.read_orthogonal(...)


def test_text_of_impossible_characters_is_refused() -> None:
    """numpy makes them without a word, and whoever writes them stops with an error of Python."""
    for code in (0xD800, 0xFFFFFFFF):
        store = hierarchy({"v": (np.zeros(2, "U2"), ["x"])})
        store.set("v/c/0", np.array([97, 0, code, 98], "<u4").tobytes())
        with open_dataset(store) as stored:
            assert stored.data("/v").read_orthogonal(0) == "a"
            with pytest.raises(UnsupportedError, match=f"{code:#x}, which is not a character"):
                stored.data("/v").read_orthogonal(...)


@pytest.mark.parametrize(
    ("dtype", "type_"), [("<i4", INT), ("<f8", DOUBLE), (">i4", UBYTE), ("nonsense", UBYTE)]
)
def test_ragged_arrays_of_version_2(dtype: str, type_: PrimitiveType) -> None:
    values = np.empty(2, object)
    values[:] = [np.array([1, 2], "<f8" if type_ == DOUBLE else "<i4"), np.array([], "<i4")]
    document = {
        "zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|O", "compressor": None, "fill_value": None,
        "order": "C", "filters": [{"id": "vlen-array", "dtype": dtype}],
    }  # fmt: skip
    store = MemoryStore()
    store.set(".zgroup", b'{"zarr_format": 2}')
    store.set("v/.zarray", json.dumps(document).encode())
    chunk = bytes(numcodecs.VLenArray("<f8" if type_ == DOUBLE else "<i4").encode(values))
    store.set("v/0", chunk)
    with open_dataset(store, "r+") as stored:
        variable = stored.dataset.variables[0]
        assert isinstance(variable.type, VlenType)
        assert variable.type.base == type_
        found = stored.data("/v").read_orthogonal(...)
        if type_ != UBYTE:
            assert [v.tolist() for v in found] == [[1, 2], []]
        stored.data("/v").write(..., found)
    assert store.get("v/0") == chunk


def test_structs_become_compounds_of_the_same_bytes() -> None:
    dtype = np.dtype(
        [("a", "i2"), ("t", "S3"), ("b", "?"), ("n", [("x", "f4"), ("z", "c8")]), ("u", "U1"), ("m", "M8[s]")]
    )
    values = np.zeros(2, dtype)
    values["a"] = [1, 2]
    values["t"] = [b"ab", b"xyz"]
    values["n"]["z"] = 1 + 2j
    variable, data, dataset = read(values, data_type_for(dtype))
    assert data.tobytes() == values.tobytes()
    assert variable.type.name == "v_t"
    assert "v_t_n" in [t.name for t in dataset.types]
    resolve(dataset)


def test_attributes_are_inferred() -> None:
    attributes = {
        "text": "K", "texts": ["a", "b"], "one": 1, "many": [1, 2], "real": 1.5, "mixed": [1, 2.5], "nan": ["NaN", 1.0],
        "big": 2**63, "bool": True, "bools": [True, False], "null": None, "object": {"a": [1, None]},
        "nested": [[1], [2]], "odd": [1, "x"], "empty": [], "huge": 2**70, "words": ["NaN"],
    }  # fmt: skip
    store = hierarchy({}, attributes)
    with open_dataset(store) as stored:
        found = stored.dataset.attribute
    assert list(found) == list(attributes)
    expected = {
        "text": CHAR, "texts": STRING, "one": INT64, "many": INT64, "real": DOUBLE, "mixed": DOUBLE, "nan": DOUBLE,
        "big": UINT64, "bool": BYTE, "bools": BYTE, "null": CHAR, "object": CHAR, "nested": CHAR, "odd": CHAR,
        "empty": CHAR, "huge": CHAR, "words": STRING,
    }  # fmt: skip
    assert {n: a.type for n, a in found.items()} == expected
    assert np.isnan(found["nan"].values[0])
    for name in ("object", "nested", "odd", "null", "huge"):
        assert json.loads(found[name].text) == attributes[name]


def test_fill_values_of_xarray() -> None:
    store = hierarchy({"f": (np.ones(1), ["x"]), "i": (ones(1), ["x"]), "n": (np.ones(1), ["x"])})
    for name, value in (("f", "AAAAAAAA+H8="), ("i", -5), ("n", 7.5)):
        document = json.loads(store.get(f"{name}/zarr.json"))
        document["attributes"]["_FillValue"] = value
        store.set(f"{name}/zarr.json", json.dumps(document).encode())
    with open_dataset(store) as stored:
        fills = {v.name: v.attribute["_FillValue"] for v in stored.dataset.variables}
    assert {n: f.type for n, f in fills.items()} == {"f": DOUBLE, "i": INT, "n": DOUBLE}
    assert np.isnan(fills["f"].values[0])
    assert fills["i"].values.tolist() == [-5]
    assert fills["n"].values.tolist() == [7.5]


def test_what_xarray_writes_is_what_it_reads_back(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    pytest.importorskip("zarr")
    from nczarr.netcdf import create_dataset as create_netcdf

    dataset = xr.Dataset(
        {
            "f": (("t", "x"), np.array([[1.0, np.nan], [3.0, 4.0]])),
            "b": (("x",), [True, False]),
            "s": (("x",), np.array(["a", "é"], object)),
            "packed": (
                ("x",),
                [0.5, 1.5],
                {"units": "m"},
                {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1},
            ),
        },
        coords={"x": [10, 20], "t": np.array(["2000-01-01", "2000-01-03"], "M8[ns]")},
        attrs={"title": "run 42", "levels": [1.5, 2.5]},
    )
    dataset.to_zarr(tmp_path / "d.zarr", zarr_format=3)
    with open_dataset(tmp_path / "d.zarr") as stored:
        sink = create_netcdf(tmp_path / "d.nc", stored.dataset)
        tools.fill(sink, stored.dataset)
        sink.commit()
    with (
        xr.open_dataset(tmp_path / "d.nc") as left,
        xr.open_dataset(tmp_path / "d.zarr", engine="zarr") as right,
    ):
        xr.testing.assert_equal(left, right)
        assert left.attrs.keys() == right.attrs.keys()


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    strategies.datasets(names=strategies.plain_names(), anonymous=True, zero_sizes=True),
    st.sampled_from(["zarr-v3", "zarr-v2"]),
    st.sampled_from(["bytes", "uint8"]),
    st.sampled_from(["bytes", "struct"]),
    st.booleans(),
)
def test_all_that_comes_back_otherwise_is_listed(
    dataset: Dataset, layout: Any, char: Any, compound: Any, consolidated: bool
) -> None:
    store = MemoryStore()
    options = WriteOptions(layout=layout, char=char, compound=compound)
    with create_dataset(store, dataset, options) as sink:
        tools.fill(sink, dataset)
        losses = sink.losses
    assert not any(
        "nczarr" in store.get(k).decode() for k in store.list() if k.endswith((".json", ".zattrs"))
    )
    with open_dataset(store, consolidated=None if consolidated else False) as stored:
        assert stored.layout == layout
        assert stored.dataset.all_variables.keys() == dataset.all_variables.keys()
        unexplained = [
            str(d)
            for d in compare(dataset, stored.dataset)
            if not any(_explains(loss, d, dataset) for loss in losses)
        ]
        assert unexplained == []
        for fqn, variable in dataset.all_variables.items():
            if not variable.type.is_user_defined and 0 not in dataset.shape_of(variable):
                got = stored.data(fqn).read_orthogonal(...)
                if got.dtype != object:
                    assert got.tobytes() == variable.data.array.tobytes()


def _explains(loss: str, difference: Difference, dataset: Dataset) -> bool:
    """True if a sentence of `losses` announces a difference."""
    fqn, what = difference.fqn, difference.what
    if what.startswith("attribute "):
        return loss.startswith(f"{fqn}: the attribute {what.removeprefix('attribute ')!r} ")
    if what == "attributes":
        own = loss.startswith((f"{fqn}: the attribute ", f"{fqn}: the order of the attributes"))
        return own and loss.endswith(("dropped", "added", "attributes"))
    if what in ("variables", "groups"):
        return loss == ORDER
    if fqn in dataset.all_types or what == "types":
        return "the type " in loss
    if fqn in dataset.all_groups:  # its list of dimensions
        return loss == ORDER or "dimension" in loss
    words = {"type": "the type ", "dimension": "no longer unlimited", "dimensions": "dimension"}
    return loss.startswith(f"{fqn}: ") and (words.get(what, "\0") in loss or ": the type " in loss)


@pytest.mark.parametrize("layout", ["zarr-v3", "zarr-v2"])
def test_the_issues_losses_are_listed(layout: Any, tmp_path: Path) -> None:
    """Characters as numbers, attributes that are not a number, and whole numbers of other types than int64."""
    text = (
        "netcdf d { dimensions: x = 2; variables: char c(x); byte b(x); b:range = 1b, 2b; b:none = NaN; "
        'data: c = "ab"; b = 1, 2; }'
    )
    out = tmp_path / "d.zarr"
    losses = nczarr.copy(cdl.loads(text), out, layout=layout, char="uint8")
    assert losses == (
        "/c: the type char is read as ubyte",
        "/b: the attribute 'range' of type byte becomes int64",
        "/b: the attribute 'none' of type double becomes char: [nan] is 'NaN'",
        ORDER,
    )
    assert ORDER not in nczarr.copy(out, tmp_path / "again.zarr", layout=layout)
    with open_dataset(out) as stored:
        found = stored.dataset.all_variables
        assert (found["/c"].type, found["/b"].attribute["range"].type) == (UBYTE, INT64)
        assert found["/b"].attribute["none"].text == "NaN"


def _losses(dataset: Dataset) -> tuple[str, ...]:
    with create_dataset(MemoryStore(), dataset, PLAIN) as sink:
        return sink.losses


def test_losses_name_what_is_lost() -> None:
    dataset = Dataset(
        "d",
        dimensions=(Dimension("t", 1, True), Dimension("unused", 3)),
        types=(OpaqueType("/o", 1),),
        attributes=(
            Attribute.of("short", 1, BYTE),
            Attribute.of("text", "kept"),
            Attribute.of("_nczarr_array", 1),
        ),
        variables=(Variable("v", INT, ("/t", 2), data=MemorySource(np.zeros((1, 2), "i4"))),),
    )
    text = "\n".join(_losses(dataset))
    for part in (
        "/t: the dimension is no longer unlimited",
        "/unused",
        "/o: the type",
        "'short'",
        "anonymous",
        "'_nczarr_array'",
    ):
        assert part in text
    assert "'text'" not in text
    assert _losses(Dataset("d", variables=(Variable("v", INT, ()),))) == ()


def test_text_that_is_too_long_for_the_array_is_refused() -> None:
    store = hierarchy({"v": (np.array(["ab"], "U2"), ["x"])})
    with open_dataset(store, "r+") as stored:
        stored.data("/v").write(0, np.array("xy", object))
        assert stored.data("/v").read_orthogonal(0) == "xy"
        with pytest.raises(UnsupportedError, match="longer"):
            stored.data("/v").write(0, np.array("abc", object))


def test_a_single_array_is_a_dataset(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.create_array(tmp_path / "temp.zarr", data=np.arange(3), dimension_names=("x",))
    with open_dataset(tmp_path / "temp.zarr") as stored:
        assert [v.name for v in stored.dataset.variables] == ["temp"]
        assert stored.data("/temp").read_orthogonal(...).tolist() == [0, 1, 2]


def test_the_samples_are_read() -> None:
    folder = ZARR_SAMPLES / "zarr-v3-cases"
    refused = {
        # Illegal by the core specification, or by ZEP 10.
        "ext_empty_array_on_array", "fill_null", "key_mutrue_on_array", "key_mutrue_on_group", "key_nomu_on_array",
        "key_nomu_on_group",
    }  # fmt: skip
    cases = [path for path in sorted(folder.glob("*.zarr")) if path.stem not in refused]
    assert len(cases) > 80
    for path in cases:
        with open_dataset(path) as stored:
            resolve(stored.dataset)
            for fqn in stored.dataset.all_variables:
                stored.data(fqn).read_orthogonal(...)


def test_times_are_known_by_their_dtype_not_by_the_class_of_the_data_type() -> None:
    @dataclass(frozen=True)
    class Moment(DataType):
        @property
        def dtype(self) -> np.dtype:
            return np.dtype("M8[s]")

        def fill_from_json(self, value: object) -> object:
            return np.datetime64(int(str(value)), "s")

        def fill_to_json(self, value: object) -> object:
            return int(np.datetime64(value, "s").astype(np.int64))  # type: ignore[arg-type]

    DATA_TYPES.register("example.moment", lambda name, configuration: Moment(name))
    try:
        store = MemoryStore()
        metadata = ArrayMetadata(
            (2,), Moment("example.moment"), RegularGrid((2,)), fill_value=np.datetime64(0, "s"),
            dimension_names=("t",),
        )  # fmt: skip
        root = create_hierarchy(store)
        root.put_group("", GroupMetadata())
        root.put_array("v", metadata).write(..., np.array([0, 86400], "M8[s]"))
        with open_dataset(store) as stored:
            variable = stored.dataset.variable_at("/v")
            assert variable.attribute["units"].text == "seconds since 1970-01-01"
            assert stored.data("/v").read((slice(0, 2, 1),)).tolist() == [0, 86400]
    finally:
        DATA_TYPES.unregister("example.moment")
