"""Zarr v3 documents: round trips, the specification's rules, bad input, and zarr-python as a peer."""

from __future__ import annotations

import copy
import json
from importlib import import_module

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from real_data import ZARR_SAMPLES
from rotation import examples

from nczarr.errors import MetadataError, NCZarrError, UnsupportedError
from nczarr.stores import MemoryStore, open_store
from nczarr.zarr.documents.extensions import Extension, register_extension, unregister_extension
from nczarr.zarr.documents.json import dump_json, parse_object
from nczarr.zarr.documents.v3 import node_document, parse_node
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.hierarchy.opening import create_hierarchy, open_hierarchy
from nczarr.zarr.metadata import ArrayMetadata
from nczarr.zarr.types import data_type_for, parse_data_type

CASES = ZARR_SAMPLES / "zarr-v3-cases"

BASE = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4, 6],
    "data_type": "int32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0,
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    "attributes": {"units": "m"},
    "dimension_names": ["y", None],
}

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
configs = st.builds(
    lambda name, configuration, must_understand: {
        "name": name,
        **({"configuration": configuration} if configuration or name.startswith("numcodecs.") else {}),
        **({} if must_understand else {"must_understand": False}),
    },
    st.sampled_from(["bytes", "zstd", "numcodecs.zlib", "https://example.org/codec"]),
    st.dictionaries(st.text(max_size=5), json_values, max_size=2),
    st.booleans(),
)


@st.composite
def array_documents(draw):
    shape = draw(st.lists(st.integers(0, 2**63 - 1), max_size=3))
    types = [
        ("int8", -1),
        ("float32", "0x7fc00001"),
        ("complex64", [1.5, "NaN"]),
        ("string", "é"),
        ("r16", [1, 2]),
    ]
    types.append(
        ({"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int8"}]}}, {"a": 3})
    )
    data_type, fill = draw(st.sampled_from(types))
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": data_type,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": [draw(st.integers(1, 2**40)) for _ in shape]},
        },
        "chunk_key_encoding": {
            "name": draw(st.sampled_from(["default", "v2"])),
            "configuration": {"separator": draw(st.sampled_from(["/", "."]))},
        },
        "fill_value": fill,
        "codecs": draw(st.lists(configs, min_size=1, max_size=3)),
        "attributes": draw(st.dictionaries(st.text(max_size=5), json_values, max_size=3)),
    }
    if draw(st.booleans()):
        document["dimension_names"] = [draw(st.none() | st.text(max_size=4)) for _ in shape]
    if draw(st.booleans()):
        document["storage_transformers"] = [{"name": "x.y", "must_understand": False}]
    if draw(st.booleans()):
        document["extensions"] = [{"name": "x.unknown", "configuration": {"a": 1}, "must_understand": False}]
    if draw(st.booleans()):
        document["nczarr"] = {"name": "nczarr", "must_understand": False, "configuration": {"a": [1]}}
    return document


@given(array_documents())
def test_array_documents_survive(document):
    metadata = parse_node(copy.deepcopy(document), "v/zarr.json")
    assert node_document(metadata) == document
    assert parse_node(node_document(metadata), "v/zarr.json") == metadata
    assert parse_node(parse_object(dump_json(document), ""), "") == metadata


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=3), st.booleans())
def test_group_documents_survive(attributes, extra):
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    if extra:
        document["nczarr"] = {"must_understand": False}
        document["extensions"] = [{"name": "x.unknown", "must_understand": False}]
    assert node_document(parse_node(copy.deepcopy(document), "zarr.json")) == document


def test_short_hand_is_read_and_written_in_full():
    document = {
        **BASE,
        "data_type": {"name": "uint8"},
        "chunk_key_encoding": "v2",
        "codecs": ["bytes", "crc32c"],
    }
    written = node_document(parse_node(document, ""))
    assert written["data_type"] == "uint8"
    assert written["chunk_key_encoding"] == {"name": "v2", "configuration": {"separator": "."}}
    assert written["codecs"] == [{"name": "bytes"}, {"name": "crc32c"}]


MISSING = object()
WRONG = [
    ("zarr_format", 2),
    ("zarr_format", 3.0),
    ("zarr_format", True),
    ("zarr_format", "3"),
    ("node_type", "dataset"),
    ("node_type", None),
    *[(key, MISSING) for key in BASE if key not in ("attributes", "dimension_names")],
    ("shape", [-1, 6]),
    ("shape", [4.0, 6]),
    ("shape", [2**63, 6]),
    ("shape", 4),
    ("shape", [4]),
    ("shape", [1] * 1000),
    ("data_type", "int7"),
    ("data_type", {"name": "int32", "must_understand": False}),
    ("chunk_grid", {"name": "regular", "configuration": {"chunk_shape": [0, 3]}}),
    ("chunk_grid", {"name": "regular", "configuration": {"chunk_shape": [2, 3]}, "must_understand": False}),
    ("chunk_grid", {"name": "regular"}),
    ("chunk_grid", "hexagons"),
    ("chunk_grid", []),
    ("chunk_key_encoding", {"name": "v9"}),
    ("chunk_key_encoding", {"name": "default", "must_understand": False}),
    ("chunk_key_encoding", {"name": "experimental", "configuration": {"separator": "/"}}),
    ("fill_value", None),
    ("fill_value", "0"),
    ("codecs", []),
    ("codecs", {}),
    ("codecs", [3]),
    ("codecs", [{"configuration": {}}]),
    ("codecs", [{"name": "bytes", "configuration": []}]),
    ("codecs", [{"name": "bytes", "must_understand": "no"}]),
    ("codecs", [{"name": "bytes", "surprise": 1}]),
    ("codecs", [""]),
    ("attributes", []),
    ("attributes", None),
    ("dimension_names", ["y"]),
    ("dimension_names", ["y", 3]),
    ("dimension_names", "yx"),
    ("storage_transformers", [{"name": "x.y"}]),
    ("storage_transformers", ["x.y"]),
    ("storage_transformers", None),
    ("extensions", []),
    ("extensions", "x"),
    ("extensions", None),
    ("extensions", [{"name": "x.unknown"}]),
    ("extensions", ["x.unknown"]),
    ("extensions", {"name": "x.unknown"}),
    ("extensions", [{"must_understand": False}]),
    ("surprise", 1),
    ("surprise", None),
    ("surprise", ["must_understand", False]),
    ("surprise", {"must_understand": True}),
    ("surprise", {"must_understand": 0}),
    ("surprise", {}),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_what_breaks_the_specification_is_refused(key, value):
    document = {**BASE, key: value}
    if value is MISSING:
        del document[key]
    with pytest.raises(MetadataError) as caught:
        parse_node(document, "a/v/zarr.json")
    assert caught.value.path == "a/v/zarr.json"
    assert key in caught.value.message or (key == "shape" and "chunk_grid" in caught.value.message)


def test_an_unknown_extension_that_must_be_understood_is_its_own_error():
    with pytest.raises(MetadataError, match=r"extensions\[1\].*'x.unknown'"):
        parse_node({**BASE, "extensions": [{"name": "a", "must_understand": False}, "x.unknown"]}, "v")


def _outcome(document):
    try:
        return parse_node(document, "a/v/zarr.json"), None
    except NCZarrError as error:
        return None, error


def _paths(value, prefix=()):
    yield prefix
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _paths(item, (*prefix, key))


STRUCT = {
    **BASE,
    "data_type": {
        "name": "struct",
        "configuration": {
            "fields": [
                {"name": "a", "data_type": {"name": "raw_bytes", "configuration": {"length_bytes": 2}}},
                {"name": "t", "data_type": {"name": "numpy.datetime64", "configuration": {"unit": "s"}}},
            ]
        },
    },
    "fill_value": {"a": "AAA=", "t": 0},
    "chunk_grid": {
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": [[2, [1, 2]], [3, 3]]},
    },
    "storage_transformers": [{"name": "x.y", "must_understand": False}],
    "extensions": [{"name": "x.unknown", "configuration": {"a": 1}, "must_understand": False}],
}


@given(st.sampled_from(list(_paths(STRUCT))[1:]), json_values | st.just(MISSING))
@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.too_slow])
def test_any_value_anywhere_is_read_or_refused(path, value):
    document = copy.deepcopy(STRUCT)
    target = document
    for key in path[:-1]:
        target = target[key]
    if value is MISSING:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    metadata, error = _outcome(document)
    if metadata is not None:
        assert parse_node(node_document(metadata), "") == metadata
    else:
        assert error.path == "a/v/zarr.json"


@given(st.dictionaries(st.sampled_from([*BASE, "extensions", "x"]), json_values))
def test_any_object_is_read_or_refused(document):
    metadata, error = _outcome(document)
    assert metadata is not None or error.path == "a/v/zarr.json"


def test_metadata_that_v3_cannot_hold():
    metadata = ArrayMetadata((4,), data_type_for("i4"), RegularGrid((2,)))
    with pytest.raises(MetadataError, match="fill_value"):
        node_document(metadata)
    metadata = ArrayMetadata(
        (4,), data_type_for(np.dtype([("a", "i4", (2,))])), RegularGrid((2,)), fill_value=0
    )
    with pytest.raises(UnsupportedError):
        node_document(metadata)


def test_equality_sees_the_bits_of_the_fill_value():
    def make(value):
        return parse_node({**BASE, "data_type": "float32", "fill_value": value}, "")

    assert make("NaN") == make("NaN")
    assert make("NaN") != make("0x7fc00001")
    assert make(0.0) != make(-0.0)
    assert make(0) == make(0.0)


# -- the collected cases: every document is read or refused as expected

#: Cases that break a MUST of the specification, so nczarr refuses them although a value is given there:
#: ``fill_value: null`` is no value of the data type (section *Fill value*), and ZEP 10 has ``extensions`` with at
#: least one entry, or not at all.
REFUSED_ON_PURPOSE = {"fill_null", "ext_empty_array_on_array"}
#: The key that must be understood is `nczarr`, which is understood once the mapping is imported.
UNDERSTOOD = {"key_mutrue_on_array", "key_nomu_on_array", "key_nomu_on_group"}


def test_every_collected_case():
    import_module("nczarr.mapping.nczarr3.keys")
    cases = json.loads((CASES / "cases.json").read_text())
    assert len(cases) > 90
    refused = set()
    for name in cases:
        try:
            hierarchy = open_hierarchy(open_store(CASES / f"{name}.zarr"))
            nodes = dict(hierarchy.nodes)
        except NCZarrError:
            refused.add(name)
            continue
        assert set(nodes) == {"", "v"}
        for path in nodes:
            (document,) = hierarchy.nodes.documents(path).values()
            again = parse_node(parse_object(dump_json(node_document(nodes[path])), ""), "")
            assert again == nodes[path]
            for key in document:
                if document[key] != [] and key != "consolidated_metadata":
                    assert key in node_document(again), (name, key)
    failing = {name for name, case in cases.items() if case["expect"] == "FAIL"}
    assert refused == (failing | REFUSED_ON_PURPOSE) - UNDERSTOOD
    assert failing >= UNDERSTOOD


def test_a_key_that_must_be_understood_is_read_once_its_extension_is_known():
    document = {"zarr_format": 3, "node_type": "group", "example.known": {"name": "example.known"}}
    with pytest.raises(MetadataError, match=r"'example\.known': an unknown key"):
        parse_node(document, "")
    extension = Extension()
    extension.name = "example.known"
    register_extension(extension)
    try:
        assert parse_node(document, "").extra == {"example.known": {"name": "example.known"}}
    finally:
        unregister_extension("example.known")


# -- zarr-python

zarr_types = st.sampled_from(
    [
        ("bool", True),
        ("int16", -7),
        ("uint64", 2**64 - 1),
        ("float16", "-Infinity"),
        ("float32", 1.5),
        ("float64", "NaN"),
        ("complex128", [1.0, -0.5]),
        ("string", "é"),
        ({"name": "null_terminated_bytes", "configuration": {"length_bytes": 1}}, "YQ=="),
        ({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}, "ab"),
        ({"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}, "NaT"),
    ]
)


@given(zarr_types, st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=3), st.booleans())
@settings(max_examples=40, deadline=None)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_zarr_python_opens_our_documents_and_we_open_its(type_and_fill, dims, named):
    zarr = pytest.importorskip("zarr")
    data_type = parse_data_type(type_and_fill[0])
    shape = tuple(n for n, _ in dims)
    codec = "vlen-utf8" if data_type.is_variable else {"name": "bytes", "configuration": {"endian": "little"}}
    document = {
        **BASE,
        "shape": list(shape),
        "data_type": data_type.to_json(),
        "fill_value": type_and_fill[1],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [c for _, c in dims]}},
        "codecs": [codec],
        "dimension_names": [f"d{i}" for i in range(len(dims))] if named else None,
    }
    metadata = parse_node(document, "")
    store = MemoryStore()
    hierarchy = create_hierarchy(store, attributes={"title": "x"})
    hierarchy.put_many([("g/v", metadata)])
    hierarchy.consolidate()
    memory = zarr.storage.MemoryStore(
        {key: zarr.core.buffer.cpu.Buffer.from_bytes(store.get(key)) for key in store.list()}
    )
    group = zarr.open_group(memory, mode="r+")
    assert group.metadata.consolidated_metadata is not None
    theirs = group["g/v"]
    assert theirs.shape == shape
    assert theirs.chunks == tuple(c for _, c in dims)
    assert theirs.attrs.asdict() == {"units": "m"}
    assert theirs.metadata.dimension_names == (tuple(document["dimension_names"]) if named else None)
    fill = np.asarray(theirs.fill_value if not data_type.is_variable else 0)
    assert (
        data_type.is_variable or fill.tobytes() == np.asarray(metadata.fill_value, data_type.dtype).tobytes()
    )
    # Back: zarr-python writes the array's document anew.
    theirs.attrs["units"] = "km"
    again = parse_object(memory._store_dict["g/v/zarr.json"].to_bytes(), "")
    back = parse_node(again, "")
    assert back.attributes == {"units": "km"}
    assert (back.shape, back.data_type, back.chunk_grid, back.dimension_names) == (
        metadata.shape,
        metadata.data_type,
        metadata.chunk_grid,
        metadata.dimension_names,
    )
    assert back.data_type.fill_to_json(back.fill_value) == metadata.data_type.fill_to_json(
        metadata.fill_value
    )


@pytest.mark.parametrize("name", ["bool", "int16", "uint64", "float16", "float32", "complex64"])
def test_tensorstore_opens_our_documents(name, tmp_path):
    tensorstore = pytest.importorskip("tensorstore")
    fill = {"bool": True, "complex64": [1.5, "NaN"], "float32": "0x7fc00001"}.get(name, 7)
    document = {**BASE, "data_type": name, "fill_value": fill, "nczarr": {"must_understand": False}}
    metadata = parse_node(document, "")
    create_hierarchy(open_store(tmp_path, "w")).put_many([("v", metadata)])
    kvstore = {"driver": "file", "path": f"{tmp_path}/v/"}
    theirs = tensorstore.open({"driver": "zarr3", "kvstore": kvstore}).result()
    assert theirs.shape == (4, 6)
    assert theirs.fill_value.dtype == metadata.dtype
    assert theirs.fill_value.tobytes() == np.asarray(metadata.fill_value).tobytes()
