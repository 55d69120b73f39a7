"""Write any model to NCZarr on Zarr v3, with any options, and read the same model."""

from __future__ import annotations

import json

import mapping_tools as tools
import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rotation import examples

from nczarr.mapping import WriteOptions, create_dataset, open_dataset
from nczarr.mapping.values.encodings import MAX_STRUCT_FIELDS
from nczarr.model import (
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
    PRIMITIVES,
    SHORT,
    STRING,
    UINT64,
    Attribute,
    CompoundType,
    Dataset,
    Dimension,
    EnumType,
    Field,
    Filter,
    Group,
    MemorySource,
    OpaqueType,
    Storage,
    Variable,
    VlenType,
    default_fill,
    same_values,
)
from nczarr.stores import LocalStore, MemoryStore

QUICK = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
OPTIONS = st.builds(
    WriteOptions,
    char=st.sampled_from(["bytes", "uint8"]),
    compound=st.sampled_from(["struct", "bytes"]),
    compression=st.sampled_from(["auto", "source", "default", "numcodecs"]),
    consolidated=st.booleans(),
    extensions=st.booleans(),
    nz=st.booleans(),
    case_insensitive=st.booleans(),
)


@QUICK
@given(
    strategies.datasets(names=strategies.wild_names(), anonymous=True, zero_sizes=True),
    OPTIONS,
)
def test_any_model_comes_back(dataset: Dataset, options: WriteOptions) -> None:
    store = MemoryStore()
    tools.copy(dataset, store, options)
    assert tools.differences(dataset, store) == []


@QUICK
@given(strategies.datasets(names=strategies.plain_names(), zero_sizes=True))
def test_values_that_were_never_written_are_fill(dataset: Dataset) -> None:
    store = MemoryStore()
    create_dataset(store, dataset).close()
    with open_dataset(store) as stored:
        for fqn, variable in dataset.all_variables.items():
            attribute = variable.attribute.get("_FillValue")
            own = attribute is not None and attribute.type == variable.type and len(attribute.values)
            fill = attribute.values[0] if own else default_fill(variable.type)
            expected = np.empty(dataset.shape_of(variable), variable.type.dtype)
            for index in np.ndindex(expected.shape):
                expected[index] = fill
            assert same_values(expected, stored.data(fqn).read_orthogonal(...))


def with_attribute(attribute: Attribute, type_=None, *types) -> Dataset:
    """A dataset with an attribute on the root, on a group and on a variable."""
    own = type_ or INT
    data = MemorySource(np.zeros((), own.dtype))
    return Dataset(
        "d",
        attributes=(attribute,),
        types=types,
        variables=(Variable("v", own, (), attributes=(attribute,), data=data),),
        groups=(Group("g", attributes=(attribute,)),),
    )


def bits(dtype: str, *numbers: int) -> np.ndarray:
    return np.array(numbers, dtype.replace("f", "u")).view(dtype)


HARD = [
    Attribute("a", CHAR, np.empty(0, "S1")),
    Attribute.of("a", b"\xff\xfe"),
    Attribute.of("a", b"abc\0"),
    Attribute.of("a", b"\0"),
    Attribute.of("a", "caf\u00e9\nline 2\t\u2603"),
    *(
        Attribute.of("a", text)
        for text in ("123", "1.50", "true", '{"x": 1}', "[1, 2]", '"q"', "NaN", "null", " ")
    ),
    *(Attribute("a", t, np.empty(0, t.dtype)) for t in PRIMITIVES.values()),
    Attribute.of("a", ["one"], STRING),
    Attribute.of("a", ["", "\udcff", "b\0c"], STRING),
    Attribute.of("a", [-(2**63), 2**63 - 1]),
    Attribute.of("a", [2**64 - 1], UINT64),
    Attribute.of("a", [0, 2**64 - 1], UINT64),
    Attribute.of("a", 1.0),
    Attribute.of("a", [1.0, 2.0]),
    Attribute.of("a", -0.0),
    Attribute.of("a", np.float32(0.1)),
    Attribute.of("a", [np.nan, np.inf, -np.inf, 1e308]),
    Attribute("a", DOUBLE, bits("f8", 0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001, 1)),
    Attribute("a", FLOAT, bits("f4", 0x7FC00001, 0xFFC00000, 0x7F800001, 1)),
]


@pytest.mark.parametrize("nz", [False, True])
@pytest.mark.parametrize("attribute", HARD, ids=repr)
@pytest.mark.parametrize("name", ["a", "_FillValue", "missing_value", "_nczarr_array", "zarr_conventions"])
def test_hard_attributes(name: str, attribute: Attribute, nz: bool) -> None:
    dataset = with_attribute(Attribute(name, attribute.type, attribute.values), DOUBLE)
    store = MemoryStore()
    tools.copy(dataset, store, WriteOptions(nz=nz))
    assert tools.differences(dataset, store) == []


@pytest.mark.parametrize(
    "name",
    [
        "_nczarr_superblock", "_nczarr_group", "_nczarr_array", "_nczarr_attr", "zarr_conventions",
        "_ARRAY_DIMENSIONS", "_FillValue", "conventions", "Conventions", "nczarr", "extensions", "a/b", "é",
    ],
)  # fmt: skip
@pytest.mark.parametrize("nz", [False, True])
def test_attributes_with_the_names_of_keys(name: str, nz: bool) -> None:
    for attribute in (Attribute.of(name, '{"version": "9"}'), Attribute.of(name, [1, 2], SHORT)):
        dataset = with_attribute(attribute)
        store = MemoryStore()
        tools.copy(dataset, store, WriteOptions(nz=nz))
        assert tools.differences(dataset, store) == []


def test_attributes_of_user_types() -> None:
    enum = EnumType("/e", BYTE, (("a", 1), ("b", 1), ("c", -3)))
    opaque = OpaqueType("/g/o", 3)
    row = VlenType("/row", SHORT)
    inner = CompoundType("/inner", (Field("x", SHORT, (2, 2)), Field("c", CHAR, (4,)), Field("e", enum)))
    outer = CompoundType("/outer", (Field("i", inner, (2,)), Field("s", STRING), Field("r", row)))
    record = np.zeros(2, outer.dtype)
    for i in range(2):
        record[i] = default_fill(outer)
    record[1]["s"] = "text\udcff"
    record["r"][1] = np.array([5], "i2")
    record["i"]["c"][0, 1] = [b"\xff", b"", b"", b"z"]
    rows = np.empty(2, object)
    rows[:] = [np.array([1, 2], "i2"), np.empty(0, "i2")]
    attributes = (
        Attribute("e", enum, np.array([1, -3], "i1")),
        Attribute("o", opaque, np.array([b"abc"], "V3")),
        Attribute("rows", row, rows),
        Attribute("row", row, rows[:1]),
        Attribute("none", row, rows[:0]),
        Attribute("outer", outer, record),
        Attribute("inner", inner, np.zeros(1, inner.dtype)),
    )
    dataset = Dataset(
        "d",
        types=(outer, row, inner, enum),
        attributes=attributes,
        groups=(Group("g", types=(opaque,), attributes=attributes),),
        variables=(Variable("v", INT, (), attributes=attributes),),
    )
    store = MemoryStore()
    tools.copy(dataset, store)
    assert tools.differences(dataset, store) == []


def test_text_that_is_not_utf8_in_values_and_fill() -> None:
    values = np.array(["a", "\udcff\udcfe", ""], object)
    fill = Attribute("_FillValue", STRING, np.array(["\udc80"], object))
    dataset = Dataset(
        "d",
        dimensions=(Dimension("x", 3),),
        variables=(
            Variable("v", STRING, ("/x",), data=MemorySource(values)),
            Variable("w", STRING, ("/x",), attributes=(fill,), data=MemorySource(values)),
        ),
    )
    store = MemoryStore()
    tools.copy(dataset, store)
    assert tools.differences(dataset, store) == []


def test_a_compound_with_very_many_numbers_is_packed() -> None:
    type_ = CompoundType("/c", (Field("x", INT, (MAX_STRUCT_FIELDS + 1,)),))
    values = np.zeros(2, type_.dtype)
    values["x"] = np.arange(MAX_STRUCT_FIELDS + 1)
    variable = Variable("v", type_, ("/x",), data=MemorySource(values))
    dataset = Dataset("d", types=(type_,), dimensions=(Dimension("x", 2),), variables=(variable,))
    store = MemoryStore()
    tools.copy(dataset, store, WriteOptions(compound="struct"))
    assert tools.differences(dataset, store) == []
    with open_dataset(store) as stored:
        assert stored.data("/v").array.metadata.data_type.name != "struct"


@pytest.mark.parametrize(
    "filters",
    [
        (), (Filter(2),), (Filter(1, (0,)),), (Filter(2), Filter(1, (9,))), (Filter(3),),
        (Filter(2), Filter(1, (1,)), Filter(3)),
        (Filter(32015, (22,)),), (Filter(2), Filter(32015, (2**32 - 5,))), (Filter(307, (5,)),), (Filter(4, (141, 8)),),
        (Filter(32001, (2, 2, 4, 0, 9, 2, 1)),), (Filter(32001),), (Filter(65535, (1, 2, 3)),),
    ],
)  # fmt: skip
@pytest.mark.parametrize("compression", ["auto", "numcodecs"])
def test_every_filter_list_comes_back(filters: tuple[Filter, ...], compression: str) -> None:
    data = np.arange(100, dtype="i4")
    text = np.array([str(i) for i in range(100)], object)
    storage = Storage("chunked", (30,), filters)
    dataset = Dataset(
        "d",
        dimensions=(Dimension("x", 100),),
        variables=(
            Variable("v", INT, ("/x",), storage=storage, data=MemorySource(data)),
            Variable("w", STRING, ("/x",), storage=storage, data=MemorySource(text)),
            Variable("b", BYTE, ("/x",), storage=storage, data=MemorySource(data.astype("i1"))),
        ),
    )
    store = MemoryStore()
    tools.copy(dataset, store, WriteOptions(compression=compression))
    assert tools.differences(dataset, store) == []


@pytest.mark.parametrize("endian", ["native", "little", "big"])
@pytest.mark.parametrize("layout", [None, "contiguous", "chunked", "compact"])
@pytest.mark.parametrize("chunk", [None, (2,), (7,)])
@pytest.mark.parametrize("no_fill", [False, True])
def test_storage_hints_come_back(endian, layout, chunk, no_fill) -> None:
    storage = Storage(layout, chunk, (), endian, no_fill)
    dataset = Dataset(
        "d",
        dimensions=(Dimension("x", 3, unlimited=True),),
        variables=(
            Variable("v", DOUBLE, ("/x",), storage=storage, data=MemorySource(np.arange(3.0))),
            Variable(
                "o", OpaqueType("/o", 2), ("/x",), storage=storage, data=MemorySource(np.zeros(3, "V2"))
            ),
        ),
        types=(OpaqueType("/o", 2),),
    )
    store = MemoryStore()
    tools.copy(dataset, store)
    assert tools.differences(dataset, store) == []


def test_order_and_format_are_kept(tmp_path) -> None:
    names = list("zyxwabc")
    dataset = Dataset(
        "d",
        format="netCDF-4 classic model",
        dimensions=tuple(Dimension(n, i) for i, n in enumerate(names)),
        attributes=tuple(Attribute.of(n, n) for n in names),
        variables=tuple(Variable(n, INT, ()) for n in reversed(names)),
        groups=tuple(Group(f"g{n}", types=tuple(OpaqueType(f"/g{n}/{m}", 1) for m in names)) for n in names),
    )
    tools.copy(dataset, tmp_path / "o.zarr")
    # Neither consolidated metadata nor any listing is needed for the order.
    store = LocalStore(tmp_path / "o.zarr")
    parsed = json.loads((tmp_path / "o.zarr" / "zarr.json").read_text())
    del parsed["consolidated_metadata"]
    (tmp_path / "o.zarr" / "zarr.json").write_text(json.dumps(parsed))
    assert tools.differences(dataset, store) == []
    with open_dataset(store) as stored:
        assert stored.dataset.format == "netCDF-4 classic model"
        assert stored.dataset.name == "o"
