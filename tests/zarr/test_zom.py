"""The Zarr Object Model: JSON, hierarchies, comparison, patterns, schemas, version 2 to 3, consolidation."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_data import ZARR_SAMPLES

from nczarr.errors import MetadataError, UnsupportedError
from nczarr.stores import MemoryStore, open_store
from nczarr.zarr.chunk_keys import ChunkKeyEncoding
from nczarr.zarr.documents.json import parse_object
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.hierarchy.opening import create_hierarchy, open_hierarchy
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, NamedConfig
from nczarr.zarr.types import data_type_for
from nczarr.zarr.zom import (
    ZomArray,
    ZomGroup,
    flatten,
    from_hierarchy,
    match_zom,
    parse_zom,
    same_structure,
    schema_problems,
    to_hierarchy,
    unflatten,
    validate_zom,
    zom_differences,
    zom_schema,
    zom_to_v3,
)

V3_ARRAY = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4, 6],
    "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0,
    "codecs": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}],
    "attributes": {"baz": [1, 2, 3]},
    "dimension_names": ["rows", "columns"],
}
V2_ARRAY = {
    "zarr_format": 2,
    "shape": [4, 6],
    "chunks": [2, 3],
    "dtype": "|u1",
    "compressor": None,
    "fill_value": 0,
    "order": "C",
    "dimension_separator": "/",
    "filters": None,
    "attributes": {"baz": True},
}
ARRAYS = {3: V3_ARRAY, 2: V2_ARRAY}


@st.composite
def models(draw, version=None):
    version = version or draw(st.sampled_from([2, 3]))
    names = st.sampled_from(["a", "b", "c d", "é"])
    attributes = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2)

    def group(members):
        return {"zarr_format": version, "attributes": draw(attributes), "members": members} | (
            {"node_type": "group"} if version == 3 else {}
        )

    def level(depth):
        members = {}
        for name in draw(st.lists(names, max_size=3, unique=True)):
            leaf = depth == 0 or draw(st.booleans())
            members[name] = {**ARRAYS[version], "attributes": draw(attributes)} if leaf else level(depth - 1)
        return group(members)

    return level(2)


@given(models())
def test_json_survives(document):
    assert parse_zom(copy.deepcopy(document)).to_json() == document


@given(models())
@settings(max_examples=50)
def test_a_hierarchy_made_from_a_model_has_that_model(document):
    zom = parse_zom(document)
    store = MemoryStore()
    hierarchy = to_hierarchy(store, zom)
    again = from_hierarchy(open_hierarchy(store))
    assert same_structure(again, zom)
    assert same_structure(from_hierarchy(hierarchy), zom)
    hierarchy.consolidate()
    assert same_structure(from_hierarchy(open_hierarchy(store, consolidated=True)), zom)


@given(models())
def test_flattening(document):
    zom = parse_zom(document)
    flat = flatten(zom)
    assert unflatten(flat) == zom
    backwards = dict(reversed(flat.items()))
    assert same_structure(unflatten(backwards), zom)


def test_flattened_models_are_consolidated_metadata():
    store = MemoryStore()
    hierarchy = create_hierarchy(store)
    hierarchy.put_group("g", GroupMetadata({"a": 1}))
    hierarchy.put_many(
        [("g/v", ArrayMetadata((4,), data_type_for("u1"), RegularGrid((2,)), fill_value=np.uint8(0)))]
    )
    hierarchy.consolidate()
    inline = parse_object(store.get("zarr.json"), "")["consolidated_metadata"]["metadata"]
    flat = flatten(from_hierarchy(hierarchy))
    del flat[""]
    assert flat == inline


def test_consolidated_metadata_of_zarr_python_are_a_flattened_model():
    hierarchy = open_hierarchy(open_store(ZARR_SAMPLES / "zarr_python_3.1.6_consolidated_v3.zarr"))
    assert hierarchy.consolidated
    plain = open_hierarchy(hierarchy.store, consolidated=False)
    assert same_structure(from_hierarchy(hierarchy), from_hierarchy(plain))


@given(models(), models())
@settings(max_examples=60)
def test_same_structure_is_equality_up_to_order(a, b):
    one, two = parse_zom(a), parse_zom(b)
    assert same_structure(one, two) == (a == b)
    assert same_structure(one, two) == same_structure(two, one)

    def shuffled(node):
        node = dict(reversed(node.items()))
        if "members" in node:
            node["members"] = {name: shuffled(member) for name, member in reversed(node["members"].items())}
        return node

    assert same_structure(one, parse_zom(shuffled(a)))


def test_data_do_not_count_and_spelling_does_not_either():
    def make(value):
        hierarchy = create_hierarchy(MemoryStore())
        metadata = ArrayMetadata((4,), data_type_for("u1"), RegularGrid((2,)), fill_value=np.uint8(0))
        hierarchy.put_array("v", metadata).write(..., value)
        return from_hierarchy(hierarchy)

    assert same_structure(make(1), make(2))
    short = {**V3_ARRAY, "codecs": ["bytes", V3_ARRAY["codecs"][1]], "storage_transformers": []}
    assert same_structure(parse_zom(short), parse_zom(V3_ARRAY))


def test_differences_have_paths():
    one = parse_zom(
        {"zarr_format": 3, "attributes": {"t": 1}, "members": {"v": V3_ARRAY, "g": {"members": {}}}}
    )
    changed = {**V3_ARRAY, "shape": [5, 6], "attributes": {}}
    two = parse_zom({"zarr_format": 3, "members": {"v": changed, "g": V3_ARRAY, "n": V3_ARRAY}})
    assert list(zom_differences(one, two)) == [
        "/: attributes differ: t",
        "/n: only in the second",
        "/v: properties differ: shape",
        "/v: attributes differ: baz",
        "/g: a group and an array",
    ]


@pytest.mark.parametrize(
    ("properties", "written"),
    [
        ({"members": 1}, {"_members": 1}),
        ({"members": 1, "_members": 2}, {"__members": 1, "_members": 2}),
        ({"members": 1, "_members": 2, "__members": 3}, {"___members": 1, "_members": 2, "__members": 3}),
        ({"other": 1}, {"other": 1}),
        ({"_members": 1}, {"__members": 1}),
        ({"_members": 1, "__members": 2}, {"__members": 1, "___members": 2}),
        ({"__members": 1}, {"___members": 1}),
        ({"members": 1, "__members": 2}, {"_members": 1, "___members": 2}),
        ({"members": 1, "_members": 2, "___members": 3}, {"__members": 1, "_members": 2, "____members": 3}),
    ],
)
def test_a_property_called_members_is_renamed(properties, written):
    group = ZomGroup(3, properties, members={"g": ZomGroup(3)})
    document = group.to_json()
    assert set(document["members"]) == {"g"}
    assert {k: v for k, v in document.items() if k in written} == written
    assert parse_zom(document) == group


def _deep(n):
    node = {"zarr_format": 3, "node_type": "group", "members": {}}
    for _ in range(n):
        node = {"zarr_format": 3, "node_type": "group", "members": {"g": node}}
    return node


@pytest.mark.parametrize(
    "value",
    [
        3,
        [],
        {"zarr_format": 4},
        {"zarr_format": 3, "node_type": "chunk"},
        {"zarr_format": 3, "members": []},
        {"zarr_format": 3, "attributes": []},
        {"zarr_format": 3, "members": {"..": {}}},
        {"zarr_format": 3, "members": {"a/b": {}}},
        {"zarr_format": 3, "members": {"zarr.json": {}}},
        {"zarr_format": 2, "members": {".zarray": V2_ARRAY}},
        {"zarr_format": 3, "members": {"a": V2_ARRAY}},
        {"zarr_format": 3, "members": {"a": 3}},
        _deep(500),
    ],
)
def test_what_is_no_model_is_refused(value):
    with pytest.raises(MetadataError):
        parse_zom(value)


def test_paths_through_arrays_are_refused():
    group, array = {"zarr_format": 3, "node_type": "group"}, V3_ARRAY
    for documents in (
        {"": group, "v": array, "v/w": array},
        {"": group, "v/w": array, "v": array},
        {"v": array},
    ):
        with pytest.raises(MetadataError):
            unflatten(documents)
    made = unflatten(
        {"v/w": array, "": {**group, "attributes": {"a": 1}}, "v": {**group, "attributes": {"b": 2}}}
    )
    assert made.attributes == {"a": 1}
    assert made.members["v"].attributes == {"b": 2}
    assert "w" in made.members["v"].members
    with pytest.raises(MetadataError, match="deeper"):
        unflatten({"": group, "/".join("g" * 300): group})


def test_nothing_is_created_from_a_model_with_a_wrong_node():
    zom = parse_zom({"zarr_format": 3, "members": {"a": V3_ARRAY, "b": {**V3_ARRAY, "shape": [-1, 2]}}})
    store = MemoryStore()
    with pytest.raises(MetadataError, match="shape") as caught:
        to_hierarchy(store, zom)
    assert caught.value.path == "b"
    assert list(store.list()) == []


def test_the_spelling_of_the_zep_for_nothing():
    """ZEP 6 has ``storage_transformers: null`` in version 3 and ``filters: {}`` in version 2."""
    for array in ({**V3_ARRAY, "storage_transformers": None}, {**V2_ARRAY, "filters": {}}):
        root = {
            "zarr_format": array["zarr_format"],
            "node_type": "group",
            "attributes": {},
            "members": {"v": array},
        }
        if array["zarr_format"] == 2:
            del root["node_type"]
        zom = parse_zom(root)
        assert schema_problems(root) == []
        assert list(to_hierarchy(MemoryStore(), zom).nodes) == ["", "v"]
        plain = {**array, "storage_transformers": [], "filters": None}
        plain = {k: v for k, v in plain.items() if k in array}
        assert same_structure(zom, parse_zom({**root, "members": {"v": plain}}))


# -- patterns


PATTERN_MODEL = parse_zom(
    {
        "zarr_format": 3,
        "attributes": {"kind": "x", "n": 1},
        "members": {"v": V3_ARRAY, "g": {"members": {"w": V3_ARRAY}}},
    }
)


@pytest.mark.parametrize(
    "pattern",
    [
        {},
        {"node_type": "group", "attributes": {"kind": "x"}},
        {"members": "*"},
        {"members": {"v": "*"}},
        {"members": {"v": {"shape": ["*", 6], "attributes": {}}}},
        {"members": {"v": {"shape": "*", "chunk_grid": {"name": "regular"}}}},
        {"members": {"*": {"zarr_format": 3}, "v": {"data_type": "uint8"}}},
        {"members": {"g": {"members": {"*": {"node_type": "array"}}}}},
        PATTERN_MODEL.to_json(),
    ],
)
def test_patterns_that_match(pattern):
    assert match_zom(PATTERN_MODEL, pattern) == []


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ({"zarr_format": 2}, "zarr_format: 3, not 2"),
        ({"attributes": {"m": "*"}}, "attributes.m: missing"),
        ({"attributes": {"n": True}}, "attributes.n: 1, not true"),
        ({"members": {"u": {}}}, "members['u']: missing"),
        ({"members": {"v": {"shape": [4]}}}, "members['v'].shape: [4, 6], not [4]"),
        ({"members": {"v": {"shape": [4, 7]}}}, "members['v'].shape[1]: 6, not 7"),
        ({"members": {"v": {"members": {}}}}, "members['v'].members: an array has no members"),
        ({"members": {"*": {"node_type": "array"}}}, "members['g'].node_type: 'group', not 'array'"),
    ],
)
def test_patterns_that_do_not_match(pattern, problem):
    assert match_zom(PATTERN_MODEL, pattern) == [problem]


@pytest.mark.parametrize("pattern", [3, {"members": []}, {"members": {"v": 3}}])
def test_wrong_patterns(pattern):
    with pytest.raises(MetadataError):
        match_zom(PATTERN_MODEL, pattern)


@given(models())
def test_every_model_matches_itself_as_a_pattern(document):
    assert match_zom(parse_zom(document), document) == []


# -- schemas


@given(models())
@settings(max_examples=40)
def test_models_are_valid(document):
    pytest.importorskip("jsonschema")
    assert schema_problems(document) == []


@pytest.mark.parametrize(
    "name",
    [
        "xarray_v3.zarr",
        "hand_v3_xarray_identical.zarr",
        "nczarr_v2_netcdf-c-4.10.1_rich.zarr",
        "nczarr_v2_4.8.1.zarr",
    ],
)
def test_samples_are_valid(name):
    pytest.importorskip("jsonschema")
    zom = from_hierarchy(open_hierarchy(open_store(ZARR_SAMPLES / name)))
    validate_zom(zom.to_json())
    assert parse_zom(zom.to_json()) == zom


@pytest.mark.parametrize(
    ("version", "change"),
    [
        (3, {"shape": [-1, 6]}),
        (3, {"shape": None}),
        (3, {"fill_value": None}),
        (3, {"codecs": []}),
        (3, {"codecs": [{"configuration": {}}]}),
        (3, {"surprise": 1}),
        (3, {"dimension_names": [3, "x"]}),
        (3, {"attributes": []}),
        (2, {"order": "A"}),
        (2, {"compressor": 3}),
        (2, {"filters": [{"level": 1}]}),
        (2, {"dtype": []}),
        (2, {"dtype": [["a"]]}),
        (2, {"dimension_separator": "-"}),
    ],
)
def test_invalid_arrays(version, change):
    pytest.importorskip("jsonschema")
    array = {**ARRAYS[version], **change}
    root = {"zarr_format": version, "attributes": {}, "members": {"v": array}}
    if version == 3:
        root["node_type"] = "group"
    assert schema_problems({**root, "members": {"v": ARRAYS[version]}}) == []
    assert schema_problems(root)
    with pytest.raises(MetadataError, match="is invalid"):
        validate_zom(root)


@pytest.mark.parametrize("name", ["", "a/b", "..", "__x", "zarr.json"])
def test_invalid_names(name):
    pytest.importorskip("jsonschema")
    root = {"zarr_format": 3, "node_type": "group", "attributes": {}, "members": {name: V3_ARRAY}}
    assert schema_problems(root)


def test_schemas_are_schemas_and_deep_models_are_harmless():
    jsonschema = pytest.importorskip("jsonschema")
    for version in (2, 3):
        jsonschema.Draft202012Validator.check_schema(zom_schema(version))
    assert "deeper" in schema_problems(_deep(5000))[0]


def test_ignorable_keys_are_valid_in_version_3():
    pytest.importorskip("jsonschema")
    root = {"zarr_format": 3, "node_type": "group", "attributes": {}, "members": {}}
    assert schema_problems({**root, "nczarr": {"must_understand": False}}) == []
    assert schema_problems({**root, "nczarr": {"must_understand": True}})
    assert schema_problems({**root, "extensions": ["x"]}) == []
    assert schema_problems({**root, "extensions": []})


# -- version 2 to version 3


def test_chunks_of_version_2_are_read_through_the_version_3_model():
    store = MemoryStore()
    hierarchy = create_hierarchy(store, layout="v2")
    values = np.arange(24, dtype=">i4").reshape(4, 6)
    metadata = ArrayMetadata(
        (4, 6),
        data_type_for("i4"),
        RegularGrid((3, 4)),
        ChunkKeyEncoding("v2", "."),
        codecs=(
            NamedConfig("transpose", {"order": [1, 0]}),
            NamedConfig("bytes", {"endian": "big"}),
            NamedConfig("numcodecs.zlib", {"level": 1}),
        ),
        attributes={"_ARRAY_DIMENSIONS": ["y", "x"], "units": "m"},
    )
    hierarchy.put_array("g/v", metadata).write(..., values)
    zom = zom_to_v3(from_hierarchy(hierarchy))
    assert {node.zarr_format for _, node in zom.walk()} == {3}
    converted = to_hierarchy(store, zom)  # beside the v2 documents, over the same chunks
    array = open_hierarchy(store, layout="v3").array("g/v")
    assert array.read().tolist() == values.tolist()
    assert converted.nodes["g/v"].dimension_names == ("y", "x")
    assert converted.nodes["g/v"].attributes == {"units": "m"}
    assert zom_to_v3(zom) == zom


def test_samples_of_netcdf_c_go_to_version_3():
    pytest.importorskip("jsonschema")
    zom = from_hierarchy(open_hierarchy(open_store(ZARR_SAMPLES / "nczarr_v2_netcdf-c-4.10.1_rich.zarr")))
    v3 = zom_to_v3(zom)
    validate_zom(v3.to_json())
    arrays = [path for path, node in v3.walk() if isinstance(node, ZomArray)]
    assert arrays == [path for path, node in zom.walk() if isinstance(node, ZomArray)]
    nodes = to_hierarchy(MemoryStore(), v3).nodes
    assert {path: nodes[path].shape for path in arrays} == {
        path: tuple(node.properties["shape"]) for path, node in zom.walk() if isinstance(node, ZomArray)
    }


def test_drafts_have_no_model():
    hierarchy = create_hierarchy(MemoryStore(), layout="draft-2019")
    with pytest.raises(UnsupportedError, match="draft"):
        from_hierarchy(hierarchy)


def test_a_part_of_a_hierarchy():
    hierarchy = create_hierarchy(MemoryStore())
    metadata = ArrayMetadata((4,), data_type_for("u1"), RegularGrid((2,)), fill_value=np.uint8(0))
    hierarchy.put_many([("g/h/v", metadata), ("gx", GroupMetadata())])
    part = from_hierarchy(hierarchy, "g")
    assert [path for path, _ in part.walk()] == ["", "h", "h/v"]
    assert isinstance(from_hierarchy(hierarchy, "g/h/v"), ZomArray)
    assert dataclasses.is_dataclass(part)
    with pytest.raises(MetadataError):
        from_hierarchy(hierarchy, "no")


def test_the_example_of_the_zep_can_be_created():
    """It has numpy's name of a data type, a codec in capitals, none that makes bytes, and null for nothing."""
    array = {
        "zarr_format": 3, "node_type": "array", "attributes": {"baz": [1, 2, 3]}, "shape": [1000, 1000],
        "data_type": "|u1", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1000, 100]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 0,
        "codecs": [{"name": "GZip", "configuration": {"level": 1}}], "storage_transformers": None,
        "dimension_names": ["rows", "columns"],
    }  # fmt: skip
    model = {"zarr_format": 3, "node_type": "group", "attributes": {}, "members": {"array": array}}
    assert schema_problems(model) == []
    created = to_hierarchy(MemoryStore(), parse_zom(model)).array("array")
    assert created.dtype == np.uint8
    assert [codec.name for codec in created.metadata.codecs] == ["bytes", "gzip"]
    created.write(slice(0, 2), 7)
    assert created.read((slice(0, 3), 5)).tolist() == [7, 7, 0]


@pytest.mark.parametrize("data_type", ["<i2", ">f8"])
def test_the_byte_order_in_a_data_type_goes_to_the_codec(data_type):
    shards = {"chunk_shape": [2], "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
              "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}},
                               {"name": "crc32c", "configuration": None}]}  # fmt: skip
    for codecs, stored in (
        ([], [{"name": "bytes", "configuration": {"endian": "big" if data_type[0] == ">" else "little"}}]),
        ([{"name": "sharding_indexed", "configuration": shards}], None),
    ):
        model = ZomArray(
            3,
            {
                "shape": [4], "data_type": data_type, "fill_value": 0, "codecs": codecs,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
                "chunk_key_encoding": {"name": "default", "configuration": None},
            },
        )  # fmt: skip
        array = to_hierarchy(MemoryStore(), model).array("")
        assert array.dtype == np.dtype(data_type).newbyteorder("=")
        if stored is not None:
            assert [codec.to_json() for codec in array.metadata.codecs] == stored
        array.write(..., [1, 2, 3, 4])
        assert array.read().tolist() == [1, 2, 3, 4]


def test_a_document_with_another_version_does_not_mix_versions():
    store = MemoryStore()
    create_hierarchy(store, layout="v2").put_group("g", GroupMetadata())
    store.set(".zgroup", b'{"zarr_format":-2}')
    zom = from_hierarchy(open_hierarchy(store))
    assert parse_zom(zom.to_json()) == zom
    assert zom.zarr_format == 2
