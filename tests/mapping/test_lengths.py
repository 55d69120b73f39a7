"""Test that documents, arrays and the model of a stored dataset have one length for each dimension."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from nczarr.mapping import StoredDataset, create_dataset, open_dataset
from nczarr.mapping.dataset import documents
from nczarr.model import INT, Dataset, Dimension, Storage, Variable
from nczarr.stores import MemoryStore
from nczarr.zarr.hierarchy.hierarchy import Hierarchy


def opened(store: MemoryStore) -> StoredDataset:
    """Two variables of four steps, published, and open again."""
    chunks = Storage("chunked", (2,))
    model = Dataset(
        "d",
        dimensions=(Dimension("t", 4, True),),
        variables=tuple(Variable(name, INT, ("/t",), storage=chunks) for name in "vw"),
    )
    create_dataset(store, model).commit()
    return open_dataset(store, "r+")


def shapes(store: MemoryStore) -> dict[str, Any]:
    """The lengths in the documents."""
    root = json.loads(store.get("zarr.json") or b"")
    inline = root["consolidated_metadata"]["metadata"]
    own = {name: json.loads(store.get(f"{name}/zarr.json") or b"")["shape"] for name in "vw"}
    assert {name: inline[name]["shape"] for name in "vw"} == own
    return own | {"t": root["attributes"]["_nczarr_group"]["dimensions"][0]["size"]}


def test_values_behind_the_lengths_are_read_before_the_documents_claim_them() -> None:
    store = MemoryStore()
    stored = opened(store)
    v, w = stored.data("/v"), stored.data("/w")
    v.grow((7,))
    assert (v.shape, w.shape, v.stored_shape, stored.length("/t")) == ((7,), (7,), (4,), 4)
    v.write((slice(4, 7),), np.arange(4, 7, dtype="i4"))
    assert (v.stored_shape, w.stored_shape) == ((7,), (4,))
    assert v.read_orthogonal(slice(4, 7)).tolist() == [4, 5, 6]
    assert shapes(store) == {"v": [4], "w": [4], "t": 4}
    assert stored.lengthen({"/t": 7})
    stored.sync()
    assert shapes(store) == {"v": [7], "w": [7], "t": 7}
    assert (w.stored_shape, stored.length("/t"), stored.dataset.dimension_at("/t").size) == ((7,), 7, 7)
    stored.close()


def test_lengths_that_are_stored_are_those_that_are_asked_for() -> None:
    """The accepted ones may be longer: another thread has grown the dimension meanwhile."""
    store = MemoryStore()
    stored = opened(store)
    stored.data("/v").grow((9,))
    stored.update(stored.dataset)
    assert stored.length("/t") == 4
    stored.close()
    assert shapes(store) == {"v": [4], "w": [4], "t": 4}


@pytest.mark.parametrize("owner", ["group", "arrays"])
def test_a_document_with_another_length_than_the_model_raises_in_tests(
    monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    if owner == "group":
        with_length = documents._with_length
        monkeypatch.setattr(
            documents, "_with_length", lambda node, name, size: with_length(node, name, size - 1)
        )
    else:
        put_lengths = Hierarchy.put_lengths
        monkeypatch.setattr(
            Hierarchy, "put_lengths", lambda self, arrays, groups: put_lengths(self, [], groups)
        )
    stored = opened(MemoryStore())
    with pytest.raises(AssertionError, match="length 5 of t" if owner == "group" else "shape \\(4,\\)"):
        stored.lengthen({"/t": 6})


def test_an_array_one_step_behind_reads_its_values_and_fill() -> None:
    stored = opened(MemoryStore())
    v, w = stored.data("/v"), stored.data("/w")
    v.write(slice(0, 4), np.arange(4, dtype="i4"))
    w.write(slice(0, 4), np.arange(4, dtype="i4"))
    fill = -2147483647
    v.grow((5,))
    for values in (v, w):
        assert values.is_short
        assert values.read_orthogonal(slice(0, 5)).tolist() == [0, 1, 2, 3, fill]
        assert values.read((slice(2, 5),)).tolist() == [2, 3, fill]
    stored.close()


def test_an_array_that_another_program_has_shortened_gets_the_stored_length_at_its_next_write() -> None:
    """Its document claims it at once, and what was left behind its end does not appear again."""
    store = MemoryStore()
    stored = opened(store)
    v = stored.data("/v")
    v.write(slice(0, 4), np.arange(1, 5, dtype="i4"))
    document, behind = json.loads(store.get("v/zarr.json") or b""), store.get("v/c/1") or b""
    v.array.resize((3,))
    store.set("v/c/1", behind)
    v.write(slice(0, 1), np.array([9], "i4"))
    assert json.loads(store.get("v/zarr.json") or b"") == document
    assert v.read_orthogonal(slice(None)).tolist() == [9, 2, 3, -2147483647]
    stored.close()


def test_the_arrays_follow_a_length_that_is_stored_without_values() -> None:
    store = MemoryStore()
    stored = opened(store)
    assert stored.lengthen({"/t": 7})
    stored.sync()
    assert shapes(store) == {"v": [7], "w": [7], "t": 7}
    assert (stored.data("/v").shape, stored.length("/t")) == ((7,), 7)
    stored.close()
