"""ZEP 10: extensions in documents, the registry, and the ZEP's own examples as plug-ins."""

from __future__ import annotations

import dataclasses
import json
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rotation import examples

from nczarr.errors import MetadataError, SelectionError, UnsupportedError
from nczarr.stores import MemoryStore
from nczarr.zarr.documents import extensions
from nczarr.zarr.documents.extensions import (
    Extension,
    find_extension,
    register_extension,
    unregister_extension,
)
from nczarr.zarr.documents.json import dump_json, parse_object
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.hierarchy.opening import create_hierarchy, open_hierarchy
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, NamedConfig
from nczarr.zarr.types import data_type_for


class Offset(Extension):
    """``example.offset``: users see the part of an array that begins at an element."""

    name = "example.offset"

    def on_metadata(self, metadata, entry):
        offset = entry.configuration.get("offset")
        fits = isinstance(offset, list) and len(offset) == metadata.ndim
        if not fits or not all(0 <= n <= size for n, size in zip(offset, metadata.shape, strict=True)):
            raise MetadataError(f"example.offset: {offset} does not fit the shape {metadata.shape}")
        return metadata

    def on_shape(self, array, shape, entry):
        return tuple(size - n for size, n in zip(shape, entry.configuration["offset"], strict=True))

    def on_read(self, array, selection, entry):
        moved = zip(selection, entry.configuration["offset"], strict=True)
        return tuple(
            slice(s.start + n, s.stop + n, s.step) if isinstance(s, slice) else s + n for s, n in moved
        )


class Statistics(Extension):
    """``example.array-statistics``: no value may leave the range; users find it as attributes."""

    name = "example.array-statistics"

    def on_metadata(self, metadata, entry):
        limits = {"valid_min": entry.configuration["min"], "valid_max": entry.configuration["max"]}
        return dataclasses.replace(metadata, attributes={**metadata.attributes, **limits})

    def on_document(self, metadata, entry):
        kept = {k: v for k, v in metadata.attributes.items() if k not in ("valid_min", "valid_max")}
        return dataclasses.replace(metadata, attributes=kept)

    def on_write(self, array, selection, values, entry):
        low, high = entry.configuration["min"], entry.configuration["max"]
        if values.min() < low or values.max() > high:
            raise MetadataError(f"example.array-statistics: a value is outside {low} to {high}")
        return selection, values

    def on_values(self, array, values, entry):
        assert values.min() >= entry.configuration["min"]
        return values


@pytest.fixture
def plug_ins():
    register_extension(Offset())
    register_extension(Statistics())
    yield
    unregister_extension(Offset.name)
    unregister_extension(Statistics.name)


OFFSET = NamedConfig("example.offset", {"offset": [12, 24]})
STATISTICS = NamedConfig("example.array-statistics", {"min": 5, "max": 1023}, must_understand=False)


def array_with(*entries, shape=(20, 30)):
    return ArrayMetadata(
        shape, data_type_for("i4"), RegularGrid((7, 8)), fill_value=np.int32(5), extensions=tuple(entries)
    )


def test_offset_through_a_hierarchy(plug_ins):
    store = MemoryStore()
    array = create_hierarchy(store).put_array("v", array_with(OFFSET))
    document = parse_object(store.get("v/zarr.json"), "")
    assert document["shape"] == [20, 30]
    assert document["extensions"] == [{"name": "example.offset", "configuration": {"offset": [12, 24]}}]
    assert array.shape == (8, 6)
    array.write(..., np.arange(48).reshape(8, 6))
    below = array.below.read()
    assert below[12, 24] == 0
    assert (below[:12] == 5).all()
    array = open_hierarchy(store).array("v")
    assert array.read().tolist() == np.arange(48).reshape(8, 6).tolist()
    assert array.read((-1, -1)) == 47
    with pytest.raises(SelectionError):
        array.read((8, 0))
    with pytest.raises(UnsupportedError, match=r"example\.offset"):
        array.resize((4, 4))


index = st.one_of(
    st.integers(-8, 7),
    st.slices(8),
    st.lists(st.integers(-8, 7), max_size=4),
    st.lists(st.booleans(), min_size=8, max_size=8).map(np.array),
)


@given(index, index)
@settings(max_examples=examples(150))
def test_any_selection_through_an_offset_against_numpy(rows, columns):
    register_extension(Offset())
    try:
        metadata = array_with(NamedConfig("example.offset", {"offset": [12, 22]}))
        array = create_hierarchy(MemoryStore()).put_array("v", metadata)
        mirror = np.full((8, 8), 5)
        values = np.arange(64).reshape(8, 8)
        array.write(..., values)
        mirror[...] = values

        def take(a, item, axis):
            if isinstance(item, list):
                item = np.array(item, dtype=int)
            return a[(slice(None),) * axis + (item,)]

        expected = take(take(mirror, columns, 1), rows, 0)
        result = array.read((rows, columns))
        assert result.shape == expected.shape
        assert (result == expected).all()
        out = np.empty(expected.shape, "i4")
        assert array.read((rows, columns), out=out) is out
        assert (out == expected).all()
        array.write((rows, columns), -expected)
        assert (array.read((rows, columns)) == -expected).all()
        assert (array.below.read()[:12] == 5).all()
    finally:
        unregister_extension(Offset.name)


def test_hooks_at_metadata_are_undone_on_writing(plug_ins):
    store = MemoryStore()
    hierarchy = create_hierarchy(store)
    hierarchy.put_array("v", array_with(STATISTICS))
    hierarchy = open_hierarchy(store, mode="r+")
    metadata = hierarchy.nodes["v"]
    assert metadata.attributes == {"valid_min": 5, "valid_max": 1023}
    hierarchy.put_array("v", dataclasses.replace(metadata, attributes={**metadata.attributes, "units": "m"}))
    document = parse_object(store.get("v/zarr.json"), "")
    assert document["attributes"] == {"units": "m"}
    assert document["extensions"][0]["must_understand"] is False


def test_hooks_at_writing_can_refuse(plug_ins):
    array = create_hierarchy(MemoryStore()).put_array("g/v", array_with(STATISTICS))
    array.write((0, 0), 6)
    with pytest.raises(MetadataError, match="outside 5 to 1023") as caught:
        array.write((0, 0), 4)
    assert caught.value.fqn == "/g/v"
    assert array.read((0, 0)) == 6


def test_extensions_stack(plug_ins):
    array = create_hierarchy(MemoryStore()).put_array("v", array_with(STATISTICS, OFFSET))
    array.write((0, slice(None)), 7)
    with pytest.raises(MetadataError):
        array.write((0, slice(None)), 2000)
    assert array.below.below.read((12, slice(24, None))).tolist() == [7] * 6


def test_a_plug_in_can_refuse_a_document(plug_ins):
    store = MemoryStore()
    hierarchy = create_hierarchy(store)
    hierarchy.put_array("v", array_with(NamedConfig("example.offset", {"offset": [1, 1]})))
    document = parse_object(store.get("v/zarr.json"), "")
    document["extensions"][0]["configuration"]["offset"] = [21, 0]
    store.set("v/zarr.json", dump_json(document))
    with pytest.raises(MetadataError, match="does not fit"):
        open_hierarchy(store).nodes["v"]


def test_without_the_plug_in_the_node_is_refused_and_only_the_node():
    store = MemoryStore()
    register_extension(Offset())
    try:
        create_hierarchy(store).put_many([("v", array_with(OFFSET)), ("w", array_with())])
    finally:
        unregister_extension(Offset.name)
    hierarchy = open_hierarchy(store)
    assert list(hierarchy.nodes) == ["", "v", "w"]
    assert hierarchy.array("w").shape == (20, 30)
    with pytest.raises(MetadataError, match=r"'example\.offset' must be understood") as caught:
        hierarchy.array("v")
    assert caught.value.path.endswith("v/zarr.json")


def test_extensions_that_may_be_ignored_are_kept():
    entries = [
        {
            "name": "example.multiscale-arrays",
            "must_understand": False,
            "configuration": {"multiscale": {"a": [1]}},
        },
        {"name": "example.tiered-storage", "must_understand": False},
    ]
    store = MemoryStore()
    hierarchy = create_hierarchy(store)
    hierarchy.put_group("g", GroupMetadata())
    document = parse_object(store.get("g/zarr.json"), "")
    store.set("g/zarr.json", dump_json({**document, "extensions": entries}))
    hierarchy = open_hierarchy(store, mode="r+")
    group = hierarchy.nodes["g"]
    hierarchy.put_group("g", dataclasses.replace(group, attributes={"a": 1}))
    assert parse_object(store.get("g/zarr.json"), "")["extensions"] == entries


def test_a_bare_name_stands_for_an_extension_without_configuration():
    class SkipEmpty(Extension):
        name = "example.skip_empty_chunks"

    document = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {},
        "extensions": ["example.skip_empty_chunks"],
    }
    store = MemoryStore()
    store.set("zarr.json", dump_json(document))
    with pytest.raises(MetadataError):
        _ = open_hierarchy(store).nodes[""]
    register_extension(SkipEmpty())
    try:
        assert open_hierarchy(store).nodes[""].extensions == (NamedConfig("example.skip_empty_chunks"),)
    finally:
        unregister_extension(SkipEmpty.name)


def test_entry_points(monkeypatch):
    points = {
        "example.entry": SimpleNamespace(
            value="a:B", load=lambda: type("E", (Extension,), {"name": "example.entry"})
        ),
        "example.broken": SimpleNamespace(value="a:C", load=lambda: 1 / 0),
        "example.other": SimpleNamespace(value="a:D", load=lambda: object()),
    }
    monkeypatch.setattr(extensions.EXTENSIONS, "_entry_points", points)
    monkeypatch.setattr(extensions.EXTENSIONS, "_objects", {})
    first = find_extension("example.entry")
    assert first.name == "example.entry"
    assert find_extension("example.entry") is first
    assert find_extension("example.nothing") is None
    for name in ("example.broken", "example.other"):
        with pytest.raises(MetadataError, match=name):
            find_extension(name)


@pytest.mark.parametrize("must_understand", [False, True])
def test_a_broken_package_takes_a_node_only_if_its_extension_must_be_understood(monkeypatch, must_understand):
    store = MemoryStore()
    create_hierarchy(store).put_array(
        "v", ArrayMetadata((2,), data_type_for("int8"), RegularGrid((2,)), fill_value=0)
    )
    document = json.loads(store.get("v/zarr.json"))
    entry = {"name": "example.broken", "must_understand": must_understand, "configuration": {}}
    store.set("v/zarr.json", json.dumps({**document, "extensions": [entry]}).encode())
    points = {"example.broken": SimpleNamespace(value="a:C", load=lambda: 1 / 0)}
    monkeypatch.setattr(extensions.EXTENSIONS, "_entry_points", points)
    hierarchy = open_hierarchy(store)
    if must_understand:
        assert list(hierarchy.unknown_nodes()) == ["v"]
        return
    with pytest.warns(UserWarning, match=r"'example.broken' cannot be loaded.*allows to ignore it"):
        assert hierarchy.unknown_nodes() == {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert hierarchy.array("v").read().shape == (2,)


def test_an_extension_needs_a_name():
    with pytest.raises(MetadataError):
        register_extension(Extension())
