"""Compare consolidated documents that are parsed on demand with those that are parsed at once."""

from __future__ import annotations

import json
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nczarr.errors import MetadataError, NCZarrError
from nczarr.stores import MemoryStore
from nczarr.zarr.documents import consolidated
from nczarr.zarr.documents import json as json_io
from nczarr.zarr.hierarchy.hierarchy import Hierarchy
from nczarr.zarr.hierarchy.opening import open_hierarchy

pytest.importorskip("msgspec")

ARRAY = {
    "zarr_format": 3, "node_type": "array", "shape": [2], "data_type": "int32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": ["bytes"],
}  # fmt: skip
GROUP = {"zarr_format": 3, "node_type": "group"}

scalars = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
    | st.sampled_from(['"attributes":{}', "attributes", "\ud800", "\0"])
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.just("attributes"), inner, max_size=3)
    ),
    max_leaves=8,
)
attributes = st.dictionaries(st.text(max_size=4) | st.just("attributes"), values, max_size=3)
ignored = st.builds(
    lambda more: {**more, "must_understand": False},
    attributes,
)


@st.composite
def documents(draw):
    """A node's document, its members in any order, perhaps damaged."""
    document = dict(draw(st.sampled_from([ARRAY, ARRAY, GROUP])))
    if draw(st.booleans()):
        document["attributes"] = draw(attributes)
    if draw(st.booleans()):
        document["foreign"] = draw(ignored)
    if draw(st.integers(0, 9)) == 0:
        key = draw(st.sampled_from([*document, "attributes", "extensions", "unknown"]))
        document[key] = draw(values)
    return {key: document[key] for key in draw(st.permutations(list(document)))}


roots = st.dictionaries(st.sampled_from(["a", "b", "c", "g", "g/v", "g/v/w"]), documents(), max_size=4)


def opened(text: bytes) -> Hierarchy:
    store = MemoryStore()
    store.lists_free = False  # the documents are only here: a store that knows its names would miss the nodes
    store.set("zarr.json", text)
    return open_hierarchy(store)


def results(text: bytes) -> str:
    """All that a hierarchy says, or why not, as text: it tells 1 from 1.0, and finds NaN equal."""
    try:
        hierarchy = opened(text)
    except NCZarrError as error:
        return f"refused: {error}"
    found = []
    for path in hierarchy.nodes:
        try:
            found.append((path, repr(hierarchy.nodes[path])))
        except NCZarrError as error:
            found.append((path, f"refused: {error}"))
        if path:
            found.append((path, repr(hierarchy.nodes.documents(path))))
    return repr(found)


def both(text: bytes) -> tuple[str, str]:
    """What is found by parts, and what is found at once, without the fast library."""
    with mock.patch.object(consolidated, "MAX_CHECKED", 0), mock.patch.object(json_io, "MAX_CHECKED", 0):
        by_parts = results(text)
        with (
            mock.patch.object(consolidated, "optional_module", return_value=None),
            mock.patch.object(json_io, "optional_module", return_value=None),
        ):
            at_once = results(text)
    return by_parts, at_once


def root(inside: dict, **others) -> dict:
    return {
        **GROUP,
        "attributes": {},
        **others,
        "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": inside},
    }


members = st.dictionaries(st.sampled_from(["foreign", "attributes", "must_understand"]), ignored, max_size=1)


@pytest.mark.slow
@given(roots, st.sampled_from([None, 1]), st.booleans(), members, members)
@example(
    {"a": {**ARRAY, "foreign": {"attributes": {}, "must_understand": False}, "attributes": {}}},
    None, True, {}, {},
)  # fmt: skip
@example(
    {"a": {**ARRAY, "attributes": {"attributes": {}}}, "b": {**ARRAY, "attributes": {}}}, None, True, {}, {}
)
@example({"a": {**ARRAY, "attributes": 0}, "b": {**ARRAY, "attributes": 1}}, None, True, {}, {})
@example({"a": {**ARRAY, "attributes": {"x": 2**64}}}, None, True, {}, {})
def test_what_is_read_by_parts_is_what_is_read_at_once(inside, indent, ascii_only, others, beside):
    document = root(inside, **others)
    document["consolidated_metadata"].update(beside)
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    by_parts, at_once = both(text.encode("utf-8", "backslashreplace"))
    assert by_parts == at_once


@pytest.mark.slow
@given(roots, st.data())
def test_damage_is_found_by_parts_too(inside, data):
    text = bytearray(json.dumps(root(inside)).encode())
    at = data.draw(st.integers(0, len(text) - 1))
    text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    by_parts, at_once = both(bytes(text))
    assert by_parts == at_once


SAME_NAMES = [
    # The last of two equal names counts.
    b'{"zarr_format":3,"node_type":"group","consolidated_metadata":{"kind":"inline","metadata":{"a":1,"a":%b}}}',
    b'{"zarr_format":3,"node_type":"group","consolidated_metadata":5,"consolidated_metadata":{"kind":"inline",'
    b'"metadata":{"v":{"attributes":{"x":1},"foreign":{"must_understand":false,"attributes":{}},%b}}}',
    b'{"zarr_format":3,"node_type":"group","consolidated_metadata":{"kind":"inline","metadata":{"v":'
    b'{"attributes":{"x":1},"attributes":{"y":2},%b}}}',
    b'{"zarr_format":3,"node_type":"group","consolidated_metadata":{"kind":"inline","metadata":{"v":'
    b'{"attributes":{"x":1},"attributes":{"x":1},%b}}}',
]


@pytest.mark.parametrize("text", SAME_NAMES)
def test_the_last_of_two_equal_names_counts(text):
    document = json.dumps({**ARRAY, "attributes": {"z": 3}}).encode()
    rest = json.dumps(ARRAY).encode()[1:]
    by_parts, at_once = both(text % (document if b'"a":%b' in text else rest))
    assert by_parts == at_once
    assert "ArrayMetadata" in by_parts


def test_a_number_with_too_many_digits_is_an_error_of_its_node():
    inside = {"v": {**ARRAY, "attributes": {"x": 0}}, "w": {**ARRAY, "attributes": {}}}
    text = json.dumps(root(inside)).replace('"x": 0', f'"x": {"1" * 5000}').encode()
    with mock.patch.object(consolidated, "MAX_CHECKED", 0):
        hierarchy = opened(text)
    assert hierarchy.nodes["w"].attributes == {}
    for ask in (hierarchy.nodes.__getitem__, hierarchy.nodes.documents):
        with pytest.raises(MetadataError, match="too many digits") as caught:
            ask("v")
        assert "consolidated_metadata.metadata['v']" in str(caught.value)


def test_documents_are_read_when_they_are_asked_for():
    inside = {f"v{i}": {**ARRAY, "attributes": {"i": i}} for i in range(3)}
    with mock.patch.object(consolidated, "MAX_CHECKED", 0):
        read = consolidated.parse_root(json.dumps(root(inside)).encode(), "zarr.json")
    found = read["consolidated_metadata"]["metadata"]
    assert isinstance(found, consolidated.UnreadDocuments)
    assert list(found) == list(inside)
    assert json.loads(bytes(found["v1"])) == inside["v1"]
    assert json.loads(bytes(found.heads["v1"].attributes)) == {"i": 1}
