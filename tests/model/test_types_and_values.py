"""Types know how their values look in memory; values are compared to the bit."""

from __future__ import annotations

import netCDF4
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczarr.model import (
    BYTE,
    CHAR,
    DEFAULT_FILL,
    FLOAT,
    INT,
    PRIMITIVES,
    STRING,
    USHORT,
    CompoundType,
    EnumType,
    Field,
    Filter,
    MemorySource,
    OpaqueType,
    RepeatedSource,
    Variable,
    VlenType,
    default_fill,
    primitive_for_dtype,
    regions,
    same_values,
    walk_types,
)

ENUM = EnumType("/e", BYTE, (("no", 0), ("yes", 1)))
OPAQUE = OpaqueType("/o", 5)
VLEN = VlenType("/v", INT)
INNER = CompoundType("/inner", (Field("a", FLOAT, (2,)), Field("e", ENUM)))
OUTER = CompoundType(
    "/g/outer", (Field("in", INNER, (3,)), Field("s", STRING), Field("v", VLEN), Field("o", OPAQUE))
)


def test_memory_form() -> None:
    assert INNER.dtype == np.dtype([("a", "f4", (2,)), ("e", "i1")])
    assert OUTER.dtype["in"].shape == (3,)
    assert OUTER.dtype["o"] == np.dtype("V5")
    assert not OUTER.is_fixed_size
    assert INNER.is_fixed_size
    assert OUTER.name == "outer"


def test_walk_goes_inside_out() -> None:
    assert list(walk_types(OUTER))[-1] is OUTER
    assert list(walk_types(INNER)) == [FLOAT, BYTE, ENUM, INNER]


@pytest.mark.parametrize(
    "type_", [t for t in PRIMITIVES.values() if t not in (STRING,)], ids=lambda t: t.name
)
def test_dtypes_map_back_in_any_byte_order(type_: object) -> None:
    for order in "<>":
        assert primitive_for_dtype(type_.dtype.newbyteorder(order)) is type_  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["bool", "float16", "complex64", "S2", "U1", "M8[s]"])
def test_dtypes_without_a_primitive(name: str) -> None:
    assert primitive_for_dtype(name) is None


@pytest.mark.parametrize("type_", PRIMITIVES.values(), ids=lambda t: t.name)
def test_default_fill_is_netcdfs(type_: object) -> None:
    assert default_fill(type_) == DEFAULT_FILL[type_.name]  # type: ignore[arg-type, attr-defined]


def test_default_fill_of_user_types_is_zero_and_empty() -> None:
    record = default_fill(OUTER)
    assert record["s"] == ""
    assert record["v"].shape == (0,)
    assert record["v"].dtype == np.dtype("i4")
    assert not record["in"]["a"].any()
    assert default_fill(OPAQUE).tobytes() == bytes(5)


def test_bits_count() -> None:
    quiet = np.uint32(0x7FC00000).view("f4")
    payload = np.uint32(0x7FC00001).view("f4")
    assert same_values(quiet, quiet)
    assert not same_values(quiet, payload)
    assert not same_values(np.float32(0.0), np.float32(-0.0))
    assert not same_values(np.int32(1), np.int64(1))
    assert not same_values("a", np.array("a", object))


def test_sequences_inside_objects_count() -> None:
    a = np.empty(2, object)
    b = np.empty(2, object)
    for side in (a, b):
        side[0], side[1] = np.array([1, 2], "i4"), "text"
    assert same_values(a, b)
    b[0] = np.array([1, 3], "i4")
    assert not same_values(a, b)


@given(st.lists(st.integers(0, 7), max_size=3), st.data())
def test_regions_tile_the_array(shape: list[int], data: st.DataObject) -> None:
    block = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    seen = np.zeros(shape, int)
    for region in regions(tuple(shape), block):
        seen[region] += 1
    assert (seen == 1).all()


def test_sources() -> None:
    memory = MemorySource(np.arange(6).reshape(2, 3))
    part = memory.read((slice(0, 2, 1), slice(0, 3, 2)))
    assert part.tolist() == [[0, 2], [3, 5]]
    part[...] = 9
    assert memory.array[0, 0] == 0
    out = np.empty((1, 1), int)
    assert memory.read((slice(1, 2), slice(2, 3)), out) is out
    assert out[0, 0] == 5
    sequences = RepeatedSource(np.array([1, 2]), (3,), np.dtype("O")).read((slice(0, 3),))
    assert [x.tolist() for x in sequences] == [[1, 2]] * 3
    texts = RepeatedSource("ab", (), np.dtype("O")).read(())
    assert texts[()] == "ab"
    assert RepeatedSource(b"x", (2,), CHAR.dtype).read((slice(0, 2),)).tolist() == [b"x", b"x"]


def test_six_types_are_classic_and_numbers_are_those_of_netcdf() -> None:
    classic = {"byte", "char", "short", "int", "float", "double"}
    assert {name for name, t in PRIMITIVES.items() if t.is_classic} == classic
    assert not EnumType("/e", BYTE, (("a", 1),)).is_classic
    names = (
        "byte",
        "char",
        "short",
        "int",
        "float",
        "double",
        "ubyte",
        "ushort",
        "uint",
        "int64",
        "uint64",
        "string",
    )
    assert [PRIMITIVES[name].number for name in names] == list(range(1, 13))
    assert USHORT.fill == netCDF4.default_fillvals["u2"]


def test_filters_have_the_numbers_of_hdf5() -> None:
    assert (Filter.SZIP, Filter.BZIP2) == (4, 307)


def test_a_repeated_value_has_no_corner_that_differs() -> None:
    source = RepeatedSource(7, (2, 3), np.dtype("i4"))
    assert source.beginning_shape == (0, 0)
    assert source.read((slice(0, 2), slice(0, 3))).tolist() == [[7] * 3] * 2


def test_a_type_tells_what_it_is_made_of() -> None:
    row, enum = VlenType("/row", INT), EnumType("/e", BYTE, (("a", 1),))
    point = CompoundType("/p", (Field("x", INT), Field("rows", row)))
    assert [t.is_atomic for t in (INT, enum, row, point)] == [True, False, False, False]
    assert [t.is_nested for t in (INT, enum, row, point)] == [False, False, True, True]
    assert [list(t.inner_types) for t in (INT, enum, row, point)] == [[], [BYTE], [INT], [INT, row]]


def test_an_anonymous_dimension_is_none_of_the_named_ones() -> None:
    assert Variable("v", INT, ("/x", 3)).named_dimensions == ("/x",)
