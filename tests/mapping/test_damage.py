"""Open damaged metadata: the result is one clear error with the place."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import mapping_tools as tools
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nczarr import cdl
from nczarr.convert import digest
from nczarr.errors import ChunkError, DatasetNotFoundError, MetadataError, NCZarrError
from nczarr.mapping import RecoveryWarning, WriteOptions, check_metadata, open_dataset
from nczarr.model import (
    BYTE,
    INT,
    SHORT,
    STRING,
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
    compare,
)
from nczarr.model.nodes import source_of
from nczarr.stores import MemoryStore

ENUM = EnumType("/e", BYTE, (("a", 1),))
BLOB = OpaqueType("/o", 2)
ROW = VlenType("/row", SHORT)
RECORD = CompoundType("/c", (Field("s", STRING), Field("f", ENUM, (2,))))
FIXED = CompoundType("/fixed", (Field("x", INT),))


def everything() -> Dataset:
    storage = Storage("chunked", (2, 1), (Filter(2), Filter(1, (4,))), "big", True)
    rows = np.empty(1, object)
    rows[0] = np.array([1], "i2")
    return Dataset(
        "d",
        format="netCDF-4",
        types=(ENUM, BLOB, ROW, RECORD, FIXED),
        dimensions=(Dimension("t", 2, True), Dimension("x", 3)),
        attributes=(
            Attribute.of("n", 1, SHORT),
            Attribute("e", ENUM, np.array([1], "i1")),
            Attribute("rows", ROW, rows),
            Attribute("o", BLOB, np.array([b"ab"], "V2")),
            Attribute("fixed", FIXED, np.zeros(1, FIXED.dtype)),
            Attribute.of("bad", b"\xff"),
            Attribute.of("_nczarr_attr", "hidden"),
        ),
        variables=(
            Variable(
                "v", INT, ("/t", "/x"), attributes=(Attribute.of("_FillValue", -1, INT),), storage=storage
            ),
            Variable("o", BLOB, ("/x",)),
            Variable("r", RECORD, ("/x",), data=None),
            Variable("f", FIXED, (2,)),
            Variable(
                "s", STRING, ("/x",), attributes=(Attribute("_FillValue", STRING, np.array(["-"], object)),)
            ),
            Variable("__n", INT, ()),
        ),
        groups=(Group("g", dimensions=(Dimension("x", 1),), variables=(Variable("w", INT, ("/g/x",)),)),),
    )


def documents() -> dict[str, Any]:
    store = MemoryStore()
    tools.copy(everything(), store, WriteOptions(consolidated=False))
    return {k: json.loads(store.get(k)) for k in store.list() if k.endswith("zarr.json")}


GOOD = documents()
TEXTS = {key: json.dumps(document).encode() for key, document in GOOD.items()}


def store_of(texts: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    for key, text in texts.items():
        store.set(key, text)
    return store


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*at, key))


PLACES = [(key, place) for key, document in GOOD.items() for place in paths(document)]


def changed(key: str, place: tuple[Any, ...], change: Callable[[Any, Any], None]) -> MemoryStore:
    parent = document = copy.deepcopy(GOOD[key])
    for step in place[:-1]:
        parent = parent[step]
    change(parent, place[-1])
    return store_of({**TEXTS, key: json.dumps(document).encode()})


def read_all(store: MemoryStore) -> None:
    with open_dataset(store) as stored:
        for fqn, variable in stored.dataset.all_variables.items():
            stored.data(fqn).read_orthogonal(...)
            shape = stored.dataset.shape_of(variable)
            source_of(variable, shape).read(tuple(slice(0, n, 1) for n in shape))
        list(compare(stored.dataset, stored.dataset, data=False))


def assert_clear(store: MemoryStore, key: str) -> None:
    """Reading works, or fails with one clear error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecoveryWarning)
            read_all(store)
    except NCZarrError as error:
        assert "\n" not in str(error)
        if isinstance(error, MetadataError):
            assert error.path
            assert "memory" in error.path


def test_the_undamaged_documents_are_read() -> None:
    with open_dataset(store_of(TEXTS)) as stored:
        assert [str(d) for d in compare(everything(), stored.dataset, storage=True, data=False)] == []


@pytest.mark.slow
@pytest.mark.parametrize("of_the_key", [False, True])
def test_half_a_surrogate_pair_in_any_place(of_the_key: bool) -> None:
    """JSON can spell it, and UTF-8 cannot: what is read can be written as text."""

    def put(parent: Any, name: Any) -> None:
        if of_the_key and isinstance(parent, dict):
            parent[f"{name}\ud800"] = parent.pop(name)
        elif isinstance(parent[name], str):
            parent[name] += "\ud800"

    for key, place in PLACES:
        store = changed(key, place, put)
        assert_clear(store, key)
        with warnings.catch_warnings(), suppress(NCZarrError), open_dataset(store) as stored:
            warnings.simplefilter("ignore", RecoveryWarning)
            cdl.dumps(stored.dataset).encode("utf-8", "surrogateescape")
            digest(stored.dataset)


@pytest.mark.parametrize(
    ("key", "place"), PLACES, ids=lambda v: v if isinstance(v, str) else ".".join(map(str, v))
)
def test_each_part_removed_or_of_a_wrong_type(key: str, place: tuple[Any, ...]) -> None:
    def remove(parent: Any, name: Any) -> None:
        del parent[name]

    assert_clear(changed(key, place, remove), key)
    for wrong in (None, True, -1, 1.5, "", "/nowhere", [], [[]], {}, {"a": 1}, [None], 2**70):

        def put(parent: Any, name: Any, wrong: Any = wrong) -> None:
            parent[name] = wrong

        assert_clear(changed(key, place, put), key)


ATTR = "attributes"
ARRAY = ("nczarr", "configuration", "_nczarr_array")
GROUP = (ATTR, "_nczarr_group")
WRONG = [
    ("v/zarr.json", (*ARRAY, "dimension_references"), ["/t", "/nowhere"], "'nowhere' is used by /v but not declared"),
    ("v/zarr.json", (*ARRAY, "dimension_references"), ["/t", "/no/where"], "the dimension /no/where is missing"),
    ("v/zarr.json", (*ARRAY, "dimension_references"), ["/t"], "1 dimension references for 2 dimensions"),
    ("v/zarr.json", (*ARRAY, "dimension_references"), ["/t", "/g/x"], "the dimension '/g/x' is out of reach"),
    ("v/zarr.json", (*ARRAY, "dimension_references"), ["/t", 7], "the anonymous dimension of 7 has 3 elements"),
    ("v/zarr.json", (*ARRAY, "dimension_references"), "/t", "not a list"),
    ("v/zarr.json", (*ARRAY, "storage"), "tape", "contiguous, chunked or compact"),
    ("v/zarr.json", (*ARRAY, "endian"), "middle", "little, big or native"),
    ("v/zarr.json", (*ARRAY, "filters"), [{"id": "gzip"}], "not a filter"),
    ("v/zarr.json", ARRAY, [], "not an object"),
    ("v/zarr.json", ("shape",), [1, 3], "the recorded size is 2, but its arrays have 1"),
    ("o/zarr.json", (*ARRAY, "type"), "/gone", "no type '/gone'"),
    ("o/zarr.json", (*ARRAY, "type"), "/row", "cannot store values"),
    ("o/zarr.json", (*ARRAY, "type"), "float64", "cannot store values"),
    ("_nc-__n/zarr.json", (*ARRAY, "name"), "a\x01b", "control"),
    ("_nc-__n/zarr.json", (*ARRAY, "name"), "v", "another node is named 'v'"),
    ("zarr.json", (ATTR, "_nczarr_superblock", "version"), "4.0.0", "not a version 3"),
    ("zarr.json", (*GROUP, "arrays"), ["v", "gone"], "the array 'gone' is listed but missing"),
    ("zarr.json", (*GROUP, "arrays"), ["v", "g"], "the array 'g' is listed but missing"),
    ("zarr.json", (*GROUP, "groups"), ["v"], "'v' is invalid or repeated"),
    ("zarr.json", (*GROUP, "arrays"), ["v", "v"], "repeated"),
    ("zarr.json", (*GROUP, "dimensions"), {"t": "long"}, "has no valid size"),
    ("zarr.json", (*GROUP, "dimensions"), [], "'t' is used by /v but not declared"),
    ("zarr.json", (*GROUP, "types", 2, "base"), "/gone", "no type '/gone'"),
    ("zarr.json", (*GROUP, "types", 2, "base"), "/row", "contains itself"),
    ("zarr.json", (*GROUP, "types", 0, "members"), [["a", 1000]], "not a value of int8"),
    ("zarr.json", (ATTR, "_nczarr_attr", "types", "n"), "int99", "no type 'int99'"),
    ("zarr.json", (ATTR, "_nczarr_attr", "types", "n"), "int8", None),
    ("zarr.json", (ATTR, "n"), 70000, "not a value of int16"),
    ("zarr.json", (ATTR, "n"), "many", "not a value of int16"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "place", "value", "message"), WRONG, ids=lambda v: str(v)[:40])
def test_damage_is_named(key: str, place: tuple[Any, ...], value: Any, message: str | None) -> None:
    def put(parent: Any, name: Any) -> None:
        parent[name] = value

    store = changed(key, place, put)
    if message is None:
        read_all(store)
        return
    if message == "not a version 3":
        with pytest.raises(MetadataError, match=message) as caught:
            open_dataset(store)
        assert caught.value.path == f"memory/{key}"
        return
    opened, found = check_metadata(store)
    opened.close()
    named = [f for f in found if message in f.what]
    assert named, [str(f) for f in found]
    assert all(f.where.startswith("/") for f in named)


def test_a_node_that_is_missing_is_named() -> None:
    documents = dict(TEXTS)
    del documents["v/zarr.json"]
    with pytest.warns(RecoveryWarning, match="the array 'v' is listed but missing"):
        open_dataset(store_of(documents)).close()
    del documents["zarr.json"]
    with pytest.raises((DatasetNotFoundError, MetadataError)):
        open_dataset(store_of(documents))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(PLACES), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
))  # fmt: skip
def test_any_json_in_any_place(where: tuple[str, tuple[Any, ...]], value: Any) -> None:
    key, place = where

    def put(parent: Any, name: Any) -> None:
        parent[name] = value

    assert_clear(changed(key, place, put), key)


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x00" * 3, b"\xff" * 40])
def test_packed_bytes_that_do_not_fit(data: bytes) -> None:
    from nczarr.mapping.values.scalars import packer, unpacker

    for type_ in (RECORD, VlenType("/rr", RECORD), VlenType("/vv", ROW)):
        try:
            value = unpacker(type_)(data)
        except ChunkError:
            continue
        assert packer(type_)(value) == data
    with pytest.raises(ChunkError):
        unpacker(RECORD)(data)


def test_a_chunk_with_damaged_packed_bytes_names_the_variable() -> None:
    dataset = Dataset(
        "d",
        types=(ROW,),
        variables=(Variable("r", ROW, (), data=MemorySource(np.array(None, object))),),
    )
    values = np.empty((), object)
    values[()] = np.array([1], "i2")
    from dataclasses import replace

    dataset = replace(dataset, variables=(replace(dataset.variables[0], data=MemorySource(values)),))
    store = MemoryStore()
    tools.copy(dataset, store, WriteOptions(compression="source"))
    store.set("r/c", b"\1\0\0\0\3\0\0\0abc")
    with open_dataset(store) as stored, pytest.raises(ChunkError, match="/r"):
        stored.data("/r").read(())
