"""Hand-built models: what `resolve` accepts goes to every form and comes back; what it refuses names its place."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from rotation import examples

import nczarr
from nczarr import cdl, mapping, netcdf
from nczarr.convert.endpoints import open_source
from nczarr.errors import ModelError, NCZarrError
from nczarr.model import (
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
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
    RepeatedSource,
    Storage,
    TypeReference,
    Variable,
    VlenType,
    compare,
    resolve,
    rewrite,
)
from nczarr.stores import MemoryStore

NFD = unicodedata.normalize("NFD", "é")
ROW = VlenType("/row", INT)


def variable(type_: Any, values: Any = None, **more: Any) -> Dataset:
    data = values if values is None or hasattr(values, "read") else MemorySource(np.array(values))
    shape = () if data is None else data.shape
    more = {"dimensions": shape, **more}
    return Dataset("d", types=(ROW,), variables=(Variable("v", type_, data=data, **more),))


def types(*declared: Any) -> Dataset:
    return Dataset("d", types=declared)


def enum(*members: Any, base: Any = BYTE) -> Dataset:
    return types(EnumType("/e", base, members))


def attribute(name: Any, type_: Any = INT, values: Any = (1,), dtype: Any = "i4") -> Dataset:
    return Dataset("d", types=(ROW,), attributes=(Attribute(name, type_, np.array(values, dtype)),))


def chain(length: int, reverse: bool = False) -> Dataset:
    made = [VlenType("/t0", INT), *(VlenType(f"/t{i + 1}", TypeReference(f"t{i}")) for i in range(length))]
    return types(*(reversed(made) if reverse else made))


O = OpaqueType("/o", 4)  # noqa: E741
REFUSED: dict[str, tuple[Dataset, str]] = {
    "a float for an int": (variable(INT, [1.5, 2e10, np.nan]), "/v: the data have the dtype float64"),
    "another byte order": (
        variable(INT, np.array([1], ">i4").view(">i4")),
        "/v: the data have the dtype >i4",
    ),
    "a wider integer": (variable(INT, np.array([1], "i8")), "/v: the data have the dtype int64"),
    "text for char": (variable(CHAR, ["abc"]), "/v: the data have the dtype <U3; the type char needs"),
    "numbers for string": (
        variable(STRING, np.array([1], object)),
        "/v: the data contain 1, which is not text",
    ),
    "numbers for a vlen": (variable(ROW, np.array([1], object)), "/v: the data contain int"),
    "floats in a vlen": (
        variable(ROW, RepeatedSource(np.array([1.5]), (2,), np.dtype(object))),
        "/v: the data contain sequences that have the dtype float64",
    ),
    "data of another shape": (
        variable(INT, np.zeros(3, "i4"), dimensions=(2,)),
        "/v: the data have the shape",
    ),
    "no member": (enum(), "/e: the enum has no members"),
    "an empty member": (enum(("", 0), ("b", 1)), "/e: member: the name is empty"),
    "a member twice": (enum(("é", 0), (NFD, 1)), "/e: the member 'é' is declared twice"),
    "a fraction as member": (enum(("a", 1.5)), "/e: the member a = 1.5 is not an integer"),
    "text as member": (enum(("a", "1")), "/e: the member a = '1'"),
    "no pair": (enum("ab"), "/e: the members ('ab',) are not pairs"),
    "an enum of nothing": (enum(("a", 1), base=None), "/e: an enum needs an integer type, not None"),
    "an enum of a name": (enum(("a", 1), base="int"), "/e: an enum needs an integer type, not int"),
    "an enum of an enum": (enum(("a", 1), base=EnumType("/e", BYTE, (("a", 1),))), "/e: an enum needs"),
    "half a dimension": (Dataset("d", dimensions=(Dimension("x", 2.5),)), "/x: the size 2.5"),  # type: ignore[arg-type]
    "a size as text": (Dataset("d", dimensions=(Dimension("x", "3"),)), "/x: the size '3'"),  # type: ignore[arg-type]
    "a size as bool": (Dataset("d", dimensions=(Dimension("x", True),)), "/x: the size True"),
    "a huge size": (Dataset("d", dimensions=(Dimension("x", 1 << 70),)), "/x: the size 118"),
    "a negative size": (Dataset("d", dimensions=(Dimension("x", -1),)), "/x: the size -1 is negative"),
    "half an anonymous dimension": (variable(INT, dimensions=(2.5,)), "/v: the anonymous dimension 2.5"),
    "no type": (variable(None), "/v: None is not a type"),
    "a name as type": (variable("int"), "/v: 'int' is not a type of the model; a TypeReference"),
    "a vlen of nothing": (types(VlenType("/r", None)), "/r: None is not a type"),  # type: ignore[arg-type]
    "no type of a field": (types(CompoundType("/c", (Field("a", None),))), "/c.a: None is"),  # type: ignore[arg-type]
    "no type of an attribute": (attribute("a", None), "/: attribute 'a': None is not a type"),
    "an empty name": (
        Dataset("d", groups=(Group("g", variables=(Variable("", INT),)),)),
        "/g: variable: the name",
    ),
    "an empty attribute": (attribute(""), "/: attribute: the name is empty"),
    "a number as name": (attribute(5), "/: attribute: the name 5 is not text"),
    "half a surrogate pair": (
        attribute("a\ud800"),
        "/: attribute: the name 'a\\\\ud800' contains an unpaired",
    ),
    "NUL in a name": (attribute("a\0b"), "/: attribute: the name 'a\\\\x00b' contains a control"),
    "an attribute twice": (
        Dataset("d", attributes=(Attribute.of("é", 1), Attribute.of(NFD, 1))),
        "/: the attribute 'é' is declared twice",
    ),
    "a variable twice": (
        Dataset("d", variables=(Variable("é", INT), Variable(NFD, INT))),
        "/: the variable 'é' is declared twice",
    ),
    "a table of values": (
        attribute("a", INT, [[1], [2]]),
        "/: attribute 'a': the values are not an array of one",
    ),
    "floats in an int": (
        attribute("a", INT, [1.5], "f8"),
        "/: attribute 'a': the values have the dtype float64",
    ),
    "numbers in a string": (attribute("a", STRING, [1], object), "/: attribute 'a': the values contain 1"),
    "half a pair in a string": (
        attribute("a", STRING, ["\ud800"], object),
        "/: attribute 'a': the values contain",
    ),
    "an attribute of a variable": (
        Dataset("d", variables=(Variable("v", INT, attributes=(Attribute.of("", 1),)),)),
        "/v: attribute: the name is empty",
    ),
    "a huge chunk": (
        Dataset("d", variables=(Variable("v", INT, (3,), storage=Storage("chunked", (1 << 40,))),)),
        "/v: a chunk of shape (1099511627776,) fits into no memory",
    ),
    "an empty field": (types(CompoundType("/c", (Field("", INT),))), "/c: field: the name is empty"),
    "a field twice": (types(CompoundType("/c", (Field("é", INT), Field(NFD, INT)))), "/c: the field 'é' is"),
    "half a field": (types(CompoundType("/c", (Field("a", INT, (1.5,)),))), "/c.a: the size in the shape"),  # type: ignore[arg-type]
    "no shape": (types(CompoundType("/c", (Field("a", INT, 3),))), "/c.a: the shape of the field 3"),  # type: ignore[arg-type]
    "a huge record": (
        types(CompoundType("/c", (Field("a", INT, (1 << 40,)),))),
        "/c: a value has 4398046511104",
    ),
    "a huge opaque": (types(OpaqueType("/o", 1 << 40)), "/o: the size of the opaque type 1099511627776"),
    "half an opaque": (types(OpaqueType("/o", 4.5)), "/o: the size of the opaque type 4.5"),  # type: ignore[arg-type]
    "another declaration": (
        Dataset("d", types=(O,), variables=(Variable("v", OpaqueType("/o", 8)),)),
        "/v: the group declares the type /o differently",
    ),
    "two candidates": (
        Dataset(
            "d",
            groups=tuple(Group(n, types=(OpaqueType(f"/{n}/o", 4),)) for n in "ab"),
            variables=(Variable("v", TypeReference("o")),),
        ),
        "/v: several groups declare a type 'o': /a/o, /b/o",
    ),
    "a long chain": (chain(1500), "/t100: types are nested more than 100 deep"),
    "a long chain backwards": (chain(1500, reverse=True), "/t1400: types are nested more than 100 deep"),
    "no FQN": (types(OpaqueType("o", 4)), "/: type: OpaqueType(fqn='o', size=4) has no fully qualified name"),
    "half a chunk": (variable(INT, [1, 2], storage=Storage("chunked", (1.5,))), "/v: the size in the chunk"),  # type: ignore[arg-type]
    "no chunk shape": (variable(INT, [1, 2], storage=Storage("chunked", 1)), "/v: the chunk shape 1"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("model", "message"), REFUSED.values(), ids=list(REFUSED))
def test_what_no_form_can_hold_is_refused_with_its_place(
    model: Dataset, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError) as caught:
        resolve(model)
    assert any(problem.startswith(message.replace("\\\\", "\\")) for problem in caught.value.problems)
    # Each writer asks it, before it makes anything.
    for name in ("a.zarr", "a.nc", "a.cdl"):
        with pytest.raises(ModelError):
            nczarr.copy(model, tmp_path / name)
    with pytest.raises(ModelError):
        cdl.dumps(model)
    assert list(tmp_path.iterdir()) == []


def test_integers_of_numpy_are_integers() -> None:
    model = Dataset(
        "d",
        dimensions=(Dimension("x", np.int64(2), unlimited=np.True_),),  # type: ignore[arg-type]
        types=(OpaqueType("/o", np.uint8(4)), EnumType("/e", BYTE, (("a", np.int8(1)),))),  # type: ignore[arg-type]
        variables=(Variable("v", INT, ("x", np.int32(3)), data=MemorySource(np.zeros((2, 3), "i4"))),),  # type: ignore[arg-type]
    )
    bound = resolve(model)
    assert type(bound.dimensions[0].size) is int
    assert type(bound.variables[0].dimensions[1]) is int
    store = MemoryStore()
    nczarr.copy(model, store)
    with mapping.open_dataset(store) as stored:
        assert list(compare(bound, stored.dataset)) == []


def test_an_equal_type_is_the_declared_one() -> None:
    point = CompoundType("/p", (Field("x", FLOAT), Field("o", TypeReference("o"))))
    for used in (
        CompoundType("/p", (Field("x", FLOAT), Field("o", OpaqueType("/o", 4)))),
        CompoundType("/p", (Field("x", FLOAT), Field("o", TypeReference("/o")))),
    ):
        bound = resolve(Dataset("d", types=(point, O), variables=(Variable("v", used),)))
        assert bound.variables[0].type is bound.types[0]


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_no_sink_casts(name: str, tmp_path: Path) -> None:
    edge = netcdf if name == "a.nc" else mapping
    model = Dataset("d", dimensions=(Dimension("x", 2),), variables=(Variable("v", INT, ("/x",)),))
    with edge.create_dataset(str(tmp_path / name), model) as sink:
        with pytest.raises(ModelError, match="/v: values of the dtype float64"):
            sink.write("/v", (slice(0, 2),), np.array([1.5, 2e10]))
        sink.write("/v", (slice(0, 2),), np.array([1, 2], "i4"))
        sink.commit()
    with nczarr.Dataset(tmp_path / name) as found:
        assert found["v"][:].tolist() == [1, 2]


def test_reference_to_several_groups_is_not_its_own_suggestion() -> None:
    model, _ = REFUSED["two candidates"]
    with pytest.raises(ModelError) as caught:
        resolve(model)
    assert "did you mean" not in str(caught.value)


# Random models, with parts that are wrong.

ODD_SIZES: list[Any] = [2.5, "3", None, True, -1, 1 << 64, np.int64(1), 0]
ODD_NAMES: list[Any] = ["", None, "a/b", "a\0", "\ud800", "a ", NFD, "x" * 300, "a\n"]
ODD_TYPES: list[Any] = [
    None,
    "int",
    int,
    OpaqueType("/nowhere", 2),
    TypeReference("no such type"),
    DOUBLE,
    STRING,
]


ODD_TEXTS: list[Any] = [None, np.str_("a"), "a\0b", "\ud800", "\udcff", "", b"a", 1]
ODD_SHAPES: list[Any] = [(0,), (1,), (1, 1), (1.5,), 1, (-1,), (1 << 40,), ()]
#: The reasons for which a netCDF file or CDL refuses a part that the model has.
REASONS = (
    "the maximum is 256",
    "a NUL inside",
    "at its first NUL",
    "in one group",
    "before the group",
    "reserves",
    "two names",
    "separates groups",
)


@st.composite
def models(draw: st.DrawFn) -> Dataset:
    """Return a dataset of which one part may be wrong."""
    names = draw(st.sampled_from([strategies.plain_names(), strategies.wild_names()]))
    dataset = draw(
        strategies.datasets(names=names, depth=draw(st.integers(0, 2)), anonymous=draw(st.booleans()))
    )
    if not dataset.all_variables:
        return dataset
    target = draw(st.sampled_from(sorted(dataset.all_variables)))
    part = draw(
        st.sampled_from(
            ["type", "name", "data", "text", "chunks", "attribute", "attribute name", "dimension", "nothing"]
        )
    )

    def changed(fqn: str, node: Variable) -> Variable:
        if fqn != target:
            return node
        if part == "type":
            return replace(node, type=draw(st.sampled_from(ODD_TYPES)))
        if part == "name":
            return replace(node, name=draw(st.sampled_from(ODD_NAMES)))
        if part == "data":
            other = np.zeros(
                dataset.shape_of(node), draw(st.sampled_from(["f8", ">i4", "U1", "O", "S1", "i1"]))
            )
            return node.with_data(MemorySource(other))
        if part.startswith("attribute"):
            name = draw(st.sampled_from(ODD_NAMES)) if part == "attribute name" else "added"
            values = np.array([1.5, 2.5], draw(st.sampled_from(["f8", "i4", "O"])))
            return replace(node, attributes=(*node.attributes, Attribute(name, DOUBLE, values)))
        if part == "text":
            texts = np.empty(dataset.shape_of(node), object)
            texts[...] = draw(st.sampled_from(ODD_TEXTS))
            return replace(node, type=STRING, attributes=(), storage=Storage(), data=MemorySource(texts))
        if part == "chunks":
            return replace(node, storage=Storage("chunked", draw(st.sampled_from(ODD_SHAPES))))
        if part == "dimension":
            size = draw(st.sampled_from(ODD_SIZES))
            return replace(node, dimensions=(*node.dimensions, size), data=None)
        return node

    return rewrite(dataset, variable=changed)


def as_netcdf_has_it(dataset: Dataset) -> Dataset:
    """Return the dataset with its names in Unicode form NFC."""

    def named(_: str, node: Variable) -> Variable:
        kept = tuple(replace(a, name=unicodedata.normalize("NFC", a.name)) for a in node.attributes)
        return replace(node, name=unicodedata.normalize("NFC", node.name), attributes=kept)

    return rewrite(dataset, variable=named)


def anonymous(dataset: Dataset, like: Dataset) -> Dataset:
    """Return the dataset with sizes in the place of the dimensions that `like` lacks."""
    sizes = {f: d.size for f, d in dataset.all_dimensions.items() if f not in like.all_dimensions}

    def unnamed(_: str, node: Variable) -> Variable:
        return replace(node, dimensions=tuple(sizes.get(d, d) for d in node.dimensions))  # type: ignore[arg-type]

    return rewrite(dataset, dimension=lambda f, d: None if f in sizes else d, variable=unnamed)


@pytest.mark.slow
@settings(
    max_examples=examples(120),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
@given(models())
def test_accepted_models_come_back_and_refused_ones_have_a_place(
    tmp_path_factory: pytest.TempPathFactory, model: Dataset
) -> None:
    try:
        bound = resolve(model)
    except ModelError as error:
        assert all(problem.startswith("/") for problem in error.problems)
        return
    store = MemoryStore()
    nczarr.copy(model, store)
    with mapping.open_dataset(store) as stored:
        assert list(map(str, compare(bound, stored.dataset))) == []
    folder = tmp_path_factory.mktemp("resolve")
    for name in ("a.nc", "a.cdl"):
        try:
            nczarr.copy(model, folder / name)
        except NCZarrError as error:  # these forms hold less than the model
            assert any(reason in error.message for reason in REASONS)
            assert error.fqn
            continue
        with open_source(folder / name) as found:
            found = anonymous(found, bound)
            assert list(map(str, compare(as_netcdf_has_it(bound), replace(found, name="d")))) == []
