"""Test the members of arrays, hierarchies and their parts that the mapping calls."""

from __future__ import annotations

import numpy as np
import pytest

from nczarr.errors import MetadataError, ReadOnlyError
from nczarr.stores import LocalStore, MemoryStore
from nczarr.zarr import (
    Array,
    ArrayMetadata,
    GroupMetadata,
    RegularGrid,
    create_hierarchy,
    data_type_for,
    open_hierarchy,
)
from nczarr.zarr.chunks.selection import normalize
from nczarr.zarr.types import parse_data_type


def metadata() -> ArrayMetadata:
    return ArrayMetadata((5,), data_type_for("int32"), RegularGrid((2,)), fill_value=np.int32(-1))


def test_a_whole_chunk_is_taken_in_its_type_and_shape_alone() -> None:
    array = Array(MemoryStore(), "v", metadata())
    assert array.takes_chunk(np.zeros(2, "i4"))
    assert not array.takes_chunk(np.zeros(2, "i8"))
    assert not array.takes_chunk(np.zeros(1, "i4"))


def test_possible_chunks_are_those_of_the_listing() -> None:
    array = Array(MemoryStore(), "v", metadata())
    assert list(array.possible_chunks()) == []
    array.write(4, 7)
    assert list(array.possible_chunks()) == [(2,)]


def test_rows_are_in_place_in_files_without_compression(tmp_path: object) -> None:
    assert Array(LocalStore(str(tmp_path), "w"), "v", metadata()).rows_in_place
    assert not Array(MemoryStore(), "v", metadata()).rows_in_place


def test_a_regular_grid_has_one_shape_for_all_its_chunks() -> None:
    grid = RegularGrid((2, 3))
    assert grid.is_regular
    assert grid.chunk_shape_at((4, 1), (9, 5)) == (2, 3)


def test_a_selection_expands_to_the_dimensions_of_its_array() -> None:
    selection = normalize((slice(None, None, -1), 1), (2, 3))
    assert selection.expand(np.array([4, 1])).tolist() == [[1], [4]]


def test_a_data_type_tells_times_and_makes_scalars() -> None:
    time = parse_data_type({"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}})
    assert time.is_time
    assert not time.has_array_fields
    number = data_type_for("int8")
    assert not number.is_time
    assert number.to_scalar(3) == np.int8(3)
    with pytest.raises(MetadataError, match="300"):
        number.to_scalar(300)


def test_metadata_with_other_attributes_differ_in_nothing_else() -> None:
    first = metadata()
    second = first.with_attributes({"units": "K"})
    assert (second.attributes, first.attributes) == ({"units": "K"}, {})
    assert second.with_attributes({}) == first


def test_documents_of_a_node_are_made_and_parsed() -> None:
    hierarchy = create_hierarchy(MemoryStore())
    hierarchy.put_array("g/v", metadata())
    assert hierarchy.is_own("g/v")
    assert not hierarchy.is_own("g/w")
    documents = hierarchy.make_documents("h/w", metadata())
    assert all(key.startswith("h/w/") for key in documents)
    assert hierarchy.parse_documents("h/w", documents, is_array=True) == metadata()
    hierarchy.array("g/v").write(..., 1)
    hierarchy.sync()
    chunks = [key for key in hierarchy.store.list() if key.startswith(hierarchy.chunk_prefix("g/v"))]
    assert sorted(chunks) == ["g/v/c/0", "g/v/c/1", "g/v/c/2", "g/v/zarr.json"]
    reopened = open_hierarchy(hierarchy.store)
    assert not reopened.is_own("g/v")


def test_chunks_that_no_document_claims_are_erased_before_a_new_array_has_them() -> None:
    store = MemoryStore()
    create_hierarchy(store).close()
    store.set("v/c/0", b"left by a process that died")
    hierarchy = open_hierarchy(store, mode="r+")
    hierarchy.erase_unclaimed([("v", metadata())])
    assert [key for key in store.list() if key.startswith("v/")] == []


def test_a_hidden_hierarchy_has_its_root_last() -> None:
    store = MemoryStore()
    hierarchy = create_hierarchy(store, hidden=True)
    hierarchy.put_group("g", GroupMetadata())
    hierarchy.prepare()
    assert list(store.list()) == ["g/zarr.json"]
    assert hierarchy.refused_nodes() == {}
    hierarchy.publish()
    assert "zarr.json" in list(store.list())


def test_a_read_only_hierarchy_prepares_nothing() -> None:
    store = MemoryStore()
    create_hierarchy(store).close()
    with pytest.raises(ReadOnlyError):
        open_hierarchy(store).prepare()
