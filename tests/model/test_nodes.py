"""Nodes: attributes from Python values, look-ups, resolution of references, comparison."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from nczarr.errors import ModelError
from nczarr.model import (
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
    INT64,
    SHORT,
    STRING,
    Attribute,
    CompoundType,
    Dataset,
    Dimension,
    EnumType,
    Field,
    Group,
    MemorySource,
    OpaqueType,
    Storage,
    TypeReference,
    Variable,
    VlenType,
    compare,
    describe_type,
    resolve,
)


@pytest.mark.parametrize(
    ("value", "type_", "values"),
    [
        ("K", CHAR, [b"K"]),
        ("", CHAR, []),
        (b"a\0b", CHAR, [b"a", b"", b"b"]),
        (1, INT64, [1]),
        (1.5, DOUBLE, [1.5]),
        (np.float32(2), FLOAT, [2.0]),
        (np.array([1, 2], "i2"), SHORT, [1, 2]),
        (np.array([], "i1"), BYTE, []),
        (["a", "bc"], STRING, ["a", "bc"]),
    ],
)
def test_attribute_types(value: object, type_: object, values: list[object]) -> None:
    attribute = Attribute.of("a", value)
    assert attribute.type is type_
    assert attribute.values.tolist() == values
    assert attribute.values.ndim == 1


@pytest.mark.parametrize("value", [True, 1j, None, {"a": 1}, np.float16(1)])
def test_values_without_a_netcdf_type_are_refused(value: object) -> None:
    with pytest.raises(ModelError, match="attribute 'a'"):
        Attribute.of("a", value)


def test_given_types_win() -> None:
    assert Attribute.of("a", "x", STRING).values.tolist() == ["x"]
    assert Attribute.of("a", 3, BYTE).values.dtype == np.int8


def test_text_that_is_not_utf8_survives() -> None:
    attribute = Attribute.of("a", b"caf\xe9")
    assert attribute.text.encode("utf-8", "surrogateescape") == b"caf\xe9"


@pytest.fixture
def shadowed() -> Dataset:
    inner = Group(
        "g",
        dimensions=(Dimension("x", 5),),
        variables=(Variable("v", INT, ("x", "t")), Variable("w", INT, ("/x",))),
    )
    return Dataset("d", dimensions=(Dimension("x", 2), Dimension("t", 3, True)), groups=(inner,))


def test_the_nearest_dimension_wins(shadowed: Dataset) -> None:
    bound = resolve(shadowed)
    v, w = bound.groups[0].variables
    assert v.dimensions == ("/g/x", "/t")
    assert bound.shape_of(v) == (5, 3)
    assert w.dimensions == ("/x",)
    assert bound.is_unlimited("/t")
    assert not bound.is_unlimited(3)


def test_forward_and_lone_type_references_are_bound() -> None:
    line = CompoundType("/line", (Field("ends", TypeReference("point"), (2,)),))
    point = CompoundType("/point", (Field("x", FLOAT), Field("y", FLOAT)))
    far = OpaqueType("/g/blob", 4)
    dataset = Dataset(
        "d",
        types=(line, point),
        variables=(Variable("v", TypeReference("line")), Variable("b", TypeReference("blob"))),
        groups=(Group("g", types=(far,)),),
    )
    bound = resolve(dataset)
    assert bound.types[0].fields[0].type == point  # type: ignore[attr-defined]
    assert bound.variables[0].type == bound.types[0]
    assert bound.variables[1].type == far


def test_all_problems_are_reported_with_their_place() -> None:
    dataset = Dataset(
        "d",
        types=(
            EnumType("/e", BYTE, (("a", 300), ("a", 1))),
            OpaqueType("/o", 0),
            CompoundType("/c", ()),
            VlenType("/self", TypeReference("self")),
        ),
        dimensions=(Dimension("latitude", 2), Dimension("latitude", 3), Dimension("bad\tname", 1)),
        variables=(
            Variable("v", INT, ("lattitude",)),
            Variable("w", TypeReference("nowhere")),
            Variable("c", INT, (2,), storage=Storage("chunked", (0,))),
        ),
    )
    with pytest.raises(ModelError) as caught:
        resolve(dataset)
    text = "\n".join(caught.value.problems)
    for part in [
        "/e: the member a = 300 does not fit byte",
        "/e: the member 'a' is declared twice",
        "/o: the size of the opaque type 0 is no integer from 1",
        "/c: the compound type has no fields",
        "/self: the type contains itself",
        "the dimension 'latitude' is declared twice",
        "'bad\\tname' contains a control character",
        "/v: there is no dimension 'lattitude'; did you mean 'latitude'?",
        "/w: there is no type 'nowhere'",
        "/c: the size in the chunk shape 0 is no integer from 1",
    ]:
        assert part in text


def test_data_must_fit_the_dimensions() -> None:
    dataset = Dataset(
        "d",
        dimensions=(Dimension("x", 2),),
        variables=(Variable("v", INT, ("x",), data=MemorySource(np.zeros(3, "i4"))),),
    )
    with pytest.raises(ModelError, match=r"the shape \(3,\), but the dimensions have \(2,\)"):
        resolve(dataset)


def test_a_missing_node_names_its_neighbour(shadowed: Dataset) -> None:
    with pytest.raises(ModelError, match="did you mean '/g/v'"):
        shadowed.variable_at("/g/vv")


def test_compare_finds_each_kind_of_difference() -> None:
    values = np.arange(6, dtype="f8").reshape(2, 3)
    base = Dataset(
        "d",
        types=(EnumType("/e", BYTE, (("a", 1),)),),
        dimensions=(Dimension("y", 2), Dimension("x", 3)),
        attributes=(Attribute.of("title", "t"), Attribute.of("n", np.float64(np.nan))),
        variables=(Variable("v", DOUBLE, ("/y", "/x"), data=MemorySource(values)),),
        groups=(Group("g"),),
    )
    assert list(compare(base, base)) == []
    changed = values.copy()
    changed[1, 2] = -0.0
    v = base.variables[0]
    cases = {
        "type": replace(base, types=(EnumType("/e", BYTE, (("a", 2),)),)),
        "dimension": replace(base, dimensions=(Dimension("y", 2, True), Dimension("x", 3))),
        "attributes": replace(base, attributes=base.attributes[::-1]),
        "attribute title": replace(base, attributes=(Attribute.of("title", "T"), base.attributes[1])),
        "value [1,2]": replace(base, variables=(v.with_data(MemorySource(changed)),)),
        "dimensions": replace(base, variables=(replace(v, dimensions=(2, "/x")),)),
        "groups": replace(base, groups=()),
        "variables": replace(base, variables=()),
    }
    for what, other in cases.items():
        assert what in [d.what for d in compare(base, other)]


def test_unbound_data_compare_as_fill() -> None:
    bound = Dataset(
        "d",
        dimensions=(Dimension("x", 2),),
        variables=(Variable("v", INT, ("/x",), data=MemorySource(np.full(2, -2147483647, "i4"))),),
    )
    empty = replace(bound, variables=(bound.variables[0].with_data(None),))
    assert list(compare(bound, empty)) == []


def test_types_read_well() -> None:
    inner = CompoundType("/p", (Field("x", FLOAT, (2,)),))
    assert describe_type(VlenType("/v", inner)) == "compound /p {float x[2]}(*) /v"


def test_errors_survive_pickling() -> None:
    error = ModelError("no", fqn="/v", problems=("a", "b"))
    copied = pickle.loads(pickle.dumps(error))
    assert str(copied) == str(error) == "/v: no"
    assert copied.problems == ("a", "b")
