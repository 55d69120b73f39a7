"""Documents of the 2019 draft and of zarr-python's experimental v3."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from real_data import ZARR_SAMPLES
from rotation import examples

from nczarr.errors import MetadataError, NCZarrError, UnsupportedError
from nczarr.stores import MemoryStore, open_store
from nczarr.zarr.chunk_keys import ChunkKeyEncoding
from nczarr.zarr.documents.draft import (
    CORE_URI,
    array_document,
    bootstrap_document,
    check_bootstrap,
    deviations,
    group_document,
    parse_array,
    parse_group,
)
from nczarr.zarr.documents.json import dump_json, parse_object
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.hierarchy.opening import create_hierarchy, open_hierarchy
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, NamedConfig
from nczarr.zarr.types import data_type_for

GZIP = {"codec": "https://purl.org/zarr/spec/codec/gzip/1.0", "configuration": {"level": 1}}
BASE = {
    "shape": [4, 6],
    "data_type": "<i4",
    "chunk_grid": {"type": "regular", "chunk_shape": [2, 3]},
    "chunk_memory_layout": "C",
    "compressor": GZIP,
    "fill_value": None,
    "extensions": [],
    "attributes": {"units": "m"},
}
CORE_TYPES = ["bool", "i1", "u1"] + [
    f"{order}{kind}"
    for order in "<>"
    for kind in ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
]


@given(
    st.sampled_from(CORE_TYPES),
    st.sampled_from("CF"),
    st.sampled_from([None, GZIP]),
    st.sampled_from([None, 0]),
    st.sampled_from(["/", "."]),
    st.booleans(),
)
def test_array_documents_survive(data_type, layout, compressor, fill, separator, extension):
    document = {**BASE, "data_type": data_type, "chunk_memory_layout": layout, "compressor": compressor}
    document["fill_value"] = fill if data_type[-2:] not in ("c8", "16") and data_type != "bool" else None
    document["chunk_grid"] = {**BASE["chunk_grid"], **({"separator": "/"} if separator == "/" else {})}
    if compressor is None:
        del document["compressor"]
    if extension:
        document["extensions"] = [{"extension": "http://example.org/x", "must_understand": False, "a": 1}]
    metadata = parse_array(copy.deepcopy(document), "meta/root/v.array")
    assert array_document(metadata) == document
    assert parse_array(array_document(dataclasses.replace(metadata, origin=None)), "") == metadata
    assert metadata.dtype == np.dtype(data_type).newbyteorder("=")


@pytest.mark.parametrize("dtype", ["S1", "S8", "U3", "M8[ns]", "m8[s]", "V4", [("a", "i4"), ("b", "S3")]])
def test_extension_data_types(dtype):
    metadata = ArrayMetadata(
        (4,),
        data_type_for(np.dtype(dtype)),
        RegularGrid((2,)),
        ChunkKeyEncoding("v2", "."),
        codecs=(NamedConfig("bytes"),),
    )
    document = array_document(metadata)
    assert document["data_type"]["extension"].startswith("http")
    fallback = document["data_type"].get("fallback", "none")
    assert fallback == "none" or np.dtype(fallback).itemsize == metadata.data_type.itemsize
    assert not list(deviations(document, True))
    again = parse_array(parse_object(dump_json(document), ""), "")
    assert again.data_type == metadata.data_type


def test_several_codecs_and_text_use_the_filters_extension():
    metadata = ArrayMetadata(
        (4,),
        data_type_for("string"),
        RegularGrid((2,)),
        ChunkKeyEncoding("v2", "."),
        fill_value="é",
        codecs=(
            NamedConfig("vlen-utf8"),
            NamedConfig("numcodecs.zlib", {"level": 1}),
            NamedConfig("numcodecs.crc32"),
        ),
    )
    document = array_document(metadata)
    assert document["extensions"][0]["extension"].endswith("/filters/1.0")
    assert parse_array(document, "") == metadata


def test_unknown_data_types_fall_back():
    kind = {"extension": "http://example.org/temperature", "type": "celsius", "fallback": "<f4"}
    metadata = parse_array({**BASE, "data_type": kind}, "")
    assert metadata.data_type.name == "float32"
    assert array_document(metadata)["data_type"] == kind
    for fallback in (None, "celsius"):
        with pytest.raises(MetadataError, match="data_type"):
            parse_array({**BASE, "data_type": {**kind, "fallback": fallback}}, "")


def test_the_form_of_the_first_months():
    document = {key: value for key, value in BASE.items() if key != "compressor"}
    document.update(
        zarr_format=CORE_URI, chunk_codecs=[{"codec": "http://purl.org/zarr/spec/codec/gzip", "level": 1}]
    )
    assert parse_array(document, "").codecs == parse_array(BASE, "").codecs


def test_unknown_names_are_passed_over_in_any_version_3():
    for version in ("3.0", "3.1", "3.77"):
        check_bootstrap(
            {**bootstrap_document(), "zarr_format": f"https://purl.org/zarr/spec/core/{version}", "new": 1},
            "",
        )
    metadata = parse_array({**BASE, "new": {"a": 1}}, "")
    assert metadata.shape == (4, 6)
    group = {"extensions": [], "attributes": {"a": 1}}
    assert parse_group({**group, "new": 1}, "") == dataclasses.replace(
        parse_group(group, ""), extra={"new": 1}
    )
    for version in ("http://purl.org/zarr/spec/protocol/core/4.0", "3", 3, None, "http://example.org/"):
        with pytest.raises(MetadataError, match="zarr_format"):
            check_bootstrap({**bootstrap_document(), "zarr_format": version}, "zarr.json")


def test_extensions_that_must_be_understood():
    entry = {"extension": "http://example.org/x", "must_understand": True}
    for parse in (
        lambda d: parse_array({**BASE, **d}, ""),
        lambda d: parse_group(d, ""),
        lambda d: check_bootstrap({**bootstrap_document(), **d}, ""),
    ):
        parse({"extensions": [{**entry, "must_understand": False}]})
        with pytest.raises(MetadataError, match="example"):
            parse({"extensions": [entry]})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PLACES = [*[(key,) for key in BASE], ("shape", 0), ("chunk_grid", "type"), ("chunk_grid", "chunk_shape")]
PLACES += [("chunk_grid", "separator"), ("compressor", "codec"), ("compressor", "configuration")]
PLACES += [("zarr_format",), ("chunk_codecs",), ("storage_transformers",), ("attributes", "filters")]


@given(st.sampled_from(PLACES), json_values)
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
def test_any_value_anywhere_is_read_or_refused(path, value):
    document = copy.deepcopy(BASE)
    target = document
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    error = None
    try:
        metadata = parse_array(document, "meta/root/v.array")
    except NCZarrError as caught:
        error = caught
    if error is None:
        assert parse_array(array_document(metadata), "") == metadata
    else:
        assert error.path == "meta/root/v.array"


def test_hierarchy_of_the_draft():
    store = MemoryStore()
    hierarchy = create_hierarchy(store, layout="draft-2019", attributes={"title": "x"})
    metadata = parse_array(BASE, "")
    hierarchy.put_array("foo/bar", metadata)
    hierarchy.put_group("foo/baz", GroupMetadata({"a": 1}))
    assert sorted(store.list()) == [
        "meta/root.group",
        "meta/root/foo.group",
        "meta/root/foo/bar.array",
        "meta/root/foo/baz.group",
        "zarr.json",
    ]
    hierarchy.array("foo/bar").write((0, 0), 7)
    assert store.get("data/foo/bar/0.0") is not None
    again = open_hierarchy(store)
    assert again.layout == "draft-2019"
    assert set(again.nodes) == {"", "foo", "foo/bar", "foo/baz"}
    assert again.nodes["foo/bar"] == metadata
    assert again.array("foo/bar").read((0, 0)) == 7
    for name in ("Foo", "foo/BAR", "a b", "é", "x" * 256, "..."):
        with pytest.raises(MetadataError):
            hierarchy.put_group(name, GroupMetadata())
    hierarchy.delete("foo/bar")
    assert not [key for key in store.list() if "bar" in key]


def test_implicit_groups_and_one_listing():
    store = MemoryStore()
    store.set("zarr.json", dump_json(bootstrap_document()))
    store.set("meta/root/a/b/v.array", dump_json(BASE))
    store.set("meta/root/x.array.group", dump_json({"extensions": [], "attributes": {}}))
    store.set("data/a/b/v/0.0", b"")
    hierarchy = open_hierarchy(store)
    assert list(hierarchy.nodes) == ["", "a", "a/b", "a/b/v", "x.array"]
    assert hierarchy.nodes["a"] == GroupMetadata()
    assert not hierarchy.is_array("x.array")


def test_sample_of_zarrita():
    hierarchy = open_hierarchy(open_store(ZARR_SAMPLES / "zarrita_draft_v3_f66871a"), mode="r")
    assert hierarchy.layout == "draft-2019"
    assert list(hierarchy.nodes) == ["", "foo", "foo/bar"]
    (document,) = hierarchy.nodes.documents("foo/bar").values()
    assert array_document(hierarchy.nodes["foo/bar"]) == document
    (document,) = hierarchy.nodes.documents("foo").values()
    assert group_document(hierarchy.nodes["foo"]) == document
    assert hierarchy.array("foo/bar").read().tolist() == np.arange(24).reshape(4, 6).tolist()


def test_sample_of_zarr_python():
    hierarchy = open_hierarchy(open_store(ZARR_SAMPLES / "zarr_python_2.18_experimental_v3.zarr"))
    assert hierarchy.layout == "experimental-v3"
    assert hierarchy.nodes[""].attributes == {"title": "root"}
    kinds = {path: m.dtype.str for path, m in hierarchy.nodes.items() if isinstance(m, ArrayMetadata)}
    assert kinds["foo/bar"] == np.dtype("i4").str
    assert kinds["S"] == "|S3"
    assert kinds["obj"] == "|O"
    assert kinds["dt"] == np.dtype("M8[s]").str
    assert hierarchy.nodes["filt"].attributes == {}
    assert hierarchy.nodes["filt"].codecs[0].name == "numcodecs.delta"
    for path in kinds:
        hierarchy.array(path).read()
    assert hierarchy.array("nosep").metadata.chunk_key_encoding.key((0, 1)) == "c0.1"


def test_experimental_metadata_are_read_only():
    store = MemoryStore()
    bootstrap = {**bootstrap_document(), "metadata_key_suffix": ".json"}
    store.set("zarr.json", dump_json(bootstrap))
    hierarchy = open_hierarchy(store, mode="r+")
    with pytest.raises(UnsupportedError, match="does not write"):
        hierarchy.put_group("g", GroupMetadata())


def test_sharding_of_the_experimental_form_is_the_sharding_codec():
    document = {
        **BASE,
        "storage_transformers": [
            {
                "type": "indexed",
                "extension": "https://purl.org/zarr/spec/storage_transformers/sharding/1.0",
                "configuration": {"chunks_per_shard": [2, 1]},
            }
        ],
    }
    metadata = parse_array(document, "", experimental=True)
    assert metadata.chunk_shape == (4, 3)
    assert metadata.codecs[0].name == "sharding_indexed"
    assert metadata.codecs[0].configuration["chunk_shape"] == [2, 3]
    for wrong in ([0, 1], [2], "2", None):
        document["storage_transformers"][0]["configuration"]["chunks_per_shard"] = wrong
        with pytest.raises(MetadataError):
            parse_array(document, "")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"extensions": ...}, "extensions: missing"),
        ({"attributes": ...}, "attributes: missing"),
        ({"chunk_memory_layout": ...}, "chunk_memory_layout: missing"),
        ({"more": 1}, "'more': the draft reserves all other names"),
        (
            {"extensions": [{"extension": "http://x/y", "must_understand": False}]},
            None,
        ),
        (
            {"data_type": {"extension": "http://x/y", "type": "|S3", "fallback": None}},
            "data_type.fallback: null is not a data type of the core protocol",
        ),
        (
            {"data_type": {"extension": "http://x/y", "type": "<M8[s]", "fallback": "i8"}},
            "data_type.fallback: 'i8' is not a data type of the core protocol",
        ),
    ],
)
def test_what_is_read_though_it_breaks_the_draft(change, sentence):
    document = {key: value for key, value in {**BASE, **change}.items() if value is not ...}
    metadata = parse_array(document, "")
    assert list(deviations(document, True)) == ([sentence] if sentence else [])
    # What is written breaks nothing.
    if "more" not in change:
        assert not list(deviations(array_document(metadata), True))


def test_deviations_are_named_with_their_node():
    store = MemoryStore()
    create_hierarchy(store, layout="draft-2019").put_array("v", parse_array(BASE, ""))
    store.set("meta/root/g.group", b"{}")
    store.set("meta/root/v/w.array", dump_json(BASE))
    hierarchy = open_hierarchy(store)
    assert list(hierarchy.nodes) == ["", "g", "v"]
    assert list(hierarchy.deviations()) == [
        ("v/w", "the document is inside an array, where the specification allows no node; it is ignored"),
        ("g", "extensions: missing"),
        ("g", "attributes: missing"),
    ]
