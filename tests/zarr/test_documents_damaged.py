"""Read damaged documents: the result is data or an NCZarrError."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rotation import examples

from nczarr.errors import NCZarrError
from nczarr.stores import MemoryStore
from nczarr.zarr.hierarchy.opening import create_hierarchy, open_hierarchy
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata
from nczarr.zarr.zom import from_hierarchy, parse_zom

V2_ARRAY = (
    b'{"zarr_format":2,"shape":[4,6],"chunks":[2,3],"dtype":[["a","<i4"],["b",">S3",[2]]],"fill_value":null,'
    b'"order":"F","compressor":{"id":"blosc","clevel":"4","shuffle":1},"filters":[{"id":"shuffle","elementsize":0}],'
    b'"dimension_separator":"/","_NCZARR_ARRAY":{"dimrefs":["/x"]}}'
)
V3_ARRAY = (
    b'{"zarr_format":3,"node_type":"array","shape":[4,6],"data_type":{"name":"struct","configuration":{"fields":['
    b'{"name":"a","data_type":"float32"},{"name":"b","data_type":"r16"}]}},"chunk_grid":{"name":"rectilinear",'
    b'"configuration":{"kind":"inline","chunk_shapes":[[2,[1,2]],3]}},"chunk_key_encoding":"default",'
    b'"fill_value":{"a":"0x7fc00001","b":[1,2]},"codecs":["bytes",{"name":"zstd","configuration":{"level":1}}],'
    b'"attributes":{"x":[1.5,NaN]},"dimension_names":["y",null],"extensions":[{"name":"e.f","must_understand":false}]}'
)
DRAFT_ARRAY = (
    b'{"shape":[4,6],"data_type":{"extension":"http://x/y","type":"|S3","fallback":null},"chunk_grid":{"type":"regular",'
    b'"chunk_shape":[2,3],"separator":"/"},"chunk_memory_layout":"F","compressor":{"codec":'
    b'"https://purl.org/zarr/spec/codec/gzip/1.0","configuration":{"level":1}},"fill_value":"YWJj","extensions":[],'
    b'"attributes":{"filters":[{"id":"delta","dtype":"<i4"}]}}'
)


def stores() -> dict[str, tuple[dict[str, bytes], list[str]]]:
    result = {}
    for layout, key, array in (
        ("v3", "g/v/zarr.json", V3_ARRAY),
        ("v2", "g/v/.zarray", V2_ARRAY),
        ("draft-2019", "meta/root/g/v.array", DRAFT_ARRAY),
    ):
        store = MemoryStore()
        hierarchy = create_hierarchy(store, layout=layout, attributes={"title": "x"})
        hierarchy.put_group("g", GroupMetadata({"a": [1, {"b": None}]}))
        store.set(key, array)
        hierarchy = open_hierarchy(store, mode="r+")
        if layout == "draft-2019":
            store.set(key, array)
        assert "g/v" in hierarchy.nodes
        hierarchy.consolidate()
        content = {k: store.get(k) for k in store.list()}
        result[layout] = (content, sorted(content))
    return result


STORES = stores()


@st.composite
def damaged(draw):
    content, keys = STORES[draw(st.sampled_from(sorted(STORES)))]
    content = dict(content)
    key = draw(st.sampled_from(keys))
    data = bytearray(content[key])
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        cut = draw(st.integers(0, 12))
        new = draw(
            st.binary(max_size=3)
            | st.sampled_from([b"-1", b"null", b"1e999", b"[]", b"{}", b'"', b"[[[", b"9" * 25])
        )
        data[at : at + cut] = new
    content[key] = bytes(data)
    if draw(st.booleans()):
        content.pop(draw(st.sampled_from(keys)))
    return content


@pytest.mark.slow
@given(damaged(), st.sampled_from([None, False]))
@settings(deadline=None, max_examples=examples(600))
def test_damaged_documents(content, consolidated):
    store = MemoryStore()
    for key, value in content.items():
        store.set(key, value)
    try:
        hierarchy = open_hierarchy(store, consolidated=consolidated)
    except NCZarrError as error:
        assert str(error)
        return
    for path in hierarchy.nodes:
        _look(hierarchy, path)
    if hierarchy.layout in ("v3", "v2"):
        zom = from_hierarchy(hierarchy)
        assert parse_zom(zom.to_json()) == zom


def _look(hierarchy, path):
    try:
        metadata = hierarchy.nodes[path]
        if isinstance(metadata, ArrayMetadata):
            assert len(metadata.chunk_shape) == metadata.ndim
            hierarchy.array(path)
    except NCZarrError as error:
        assert error.path


@pytest.mark.parametrize("layout", sorted(STORES))
def test_the_undamaged_stores_are_whole(layout):
    store = MemoryStore()
    for key, value in STORES[layout][0].items():
        store.set(key, value)
    assert set(dict(open_hierarchy(store).nodes)) == {"", "g", "g/v"}
