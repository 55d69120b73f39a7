"""Test what a session has, and the way of a change from the session to the store."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from typing import Any

import numpy as np
import pytest

import nczarr.netcdf4 as ours
from nczarr.mapping import StoredDataset
from nczarr.model import Dataset
from nczarr.session.chunk_cache import ChunkCache
from nczarr.stores import MemoryStore
from nczarr.system.finalizing import close_dropped


def test_a_node_does_not_hold_the_session() -> None:
    """A variable that a program keeps would hold the chunks of the dataset in memory."""
    ds = ours.Dataset({}, "w")
    node = ds.createVariable("v", "i4", ())._nc_node
    session = weakref.ref(ds._nc_session)
    ds.close()
    del ds
    gc.collect()
    close_dropped()
    assert session() is None
    assert node.name == "v"


@pytest.mark.parametrize("fresh", [False, True])
def test_a_sync_stores_each_chunk_and_document_once(monkeypatch: pytest.MonkeyPatch, fresh: bool) -> None:
    """The values go down before the lengths that claim them; those of a new variable, after its documents."""
    store = MemoryStore()
    ds = ours.Dataset(store, "w")
    ds.createDimension("t")
    for name in "vw":
        ds.createVariable(name, "i4", ("t",), chunksizes=(4,), fill_value=-1)[:3] = [0, 1, 2]
    ds.sync()
    stored: Counter[str] = Counter()
    flushed: list[Any] = []
    put, flush = MemoryStore.set, ChunkCache.flush

    def counted(self: MemoryStore, key: str, data: Any, **named: Any) -> None:
        stored[key] += 1
        put(self, key, data, **named)

    def noted(self: ChunkCache, *arguments: Any) -> bool:
        flushed.append(arguments[1:])
        return flush(self, *arguments)

    monkeypatch.setattr(MemoryStore, "set", counted)
    monkeypatch.setattr(ChunkCache, "flush", noted)
    ds["v"][3] = 3
    if fresh:
        ds.createVariable("n", "i4", ("t",), chunksizes=(4,))[1] = 7
    ds.sync()
    steps = ["v/c/0", "v/zarr.json", "w/zarr.json", "zarr.json"]
    new = ["n/zarr.json"], ["n/c/0"]
    assert list(stored) == ([*steps[:3], *new[0], *steps[3:], *new[1]] if fresh else steps)
    assert set(stored.values()) == {1}
    assert len(flushed) == 1 + fresh
    monkeypatch.undo()
    with ours.Dataset(store) as again:
        assert np.asarray(again["v"][:]).tolist() == [0, 1, 2, 3]
        assert again["w"][:].tolist() == [0, 1, 2, None]
    ds.close()


def test_new_variables_that_are_filled_in_turn_are_stored_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush for each would plan the dataset, and write its metadata, as often as it has variables."""
    updated: list[int] = []
    update = StoredDataset.update

    def noted(self: StoredDataset, dataset: Dataset) -> None:
        updated.append(len(dataset.variables))
        update(self, dataset)

    monkeypatch.setattr(StoredDataset, "update", noted)
    with ours.Dataset({}, "w") as ds:
        ds.createDimension("x", 3)
        for n in range(40):
            v = ds.createVariable(f"v{n}", "i4", ("x",))
            v[:2] = n
            v[2] = n
        ds.sync()
        assert updated == [40]
        assert ds["v39"][:].tolist() == [39] * 3


def test_each_update_takes_the_stored_object_of_an_unchanged_variable() -> None:
    """An update plans the documents of all other variables anew: thousands for one attribute."""
    ds = ours.Dataset({}, "w")
    ds.createDimension("x", 3)
    for name in ("changed", "other"):
        ds.createVariable(name, "f4", ("x",)).units = "K"
    ds.sync()
    session = ds._nc_session
    for number in range(2):
        ds["changed"].number = number
        ds.sync()
        assert ds["other"]._nc_node.freeze() is session.stored.dataset.all_variables["/other"]
    ds["other"].units = "m"
    ds.sync()
    stored = session.stored.dataset
    assert stored["other"].attribute["units"].text == "m"
    assert stored["changed"].attribute["number"].values.tolist() == [1]
    ds.close()
