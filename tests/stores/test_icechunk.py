"""Read Icechunk repositories through their zarr-python store (skipped if not installed)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nczarr.errors import ReadOnlyError, StoreError
from nczarr.stores import open_store
from nczarr.stores.remote.zarr_store import ZarrStore

icechunk = pytest.importorskip("icechunk")
pytest.importorskip("zarr")

ARRAY = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4],
    "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0,
    "codecs": [{"name": "bytes"}],
    "attributes": {},
}


def test_write_commit_and_read_back(tmp_path: Path) -> None:
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "repo")))
    session = repository.writable_session("main")
    store = open_store(session.store, "w")
    assert isinstance(store, ZarrStore)
    assert list(store.list()) == []
    store.set("zarr.json", json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}).encode())
    store.set("v/zarr.json", json.dumps(ARRAY).encode())
    store.set_many([("v/c/0", b"\1\2"), ("v/c/1", b"\3\4")])
    session.commit("first")

    store = open_store(repository.readonly_session("main").store)
    assert sorted(store.list()) == ["v/c/0", "v/c/1", "v/zarr.json", "zarr.json"]
    assert store.list_dir() == (["zarr.json"], ["v"])
    assert store.get_many(["v/c/0", "v/c/1", "v/c/2"]) == [b"\1\2", b"\3\4", None]
    assert store.get_range("v/c/1", 1, 1) == b"\4"
    assert json.loads(store.get("v/zarr.json") or b"")["shape"] == [4]
    assert not store.writable
    with pytest.raises(ReadOnlyError):
        store.set("v/c/0", b"")
    with pytest.raises(ReadOnlyError):
        open_store(repository.readonly_session("main").store, "r+")


def test_keys_that_icechunk_does_not_take_are_store_errors(tmp_path: Path) -> None:
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "repo")))
    store = open_store(repository.writable_session("main").store, "w")
    assert store.get_many([".zgroup", "zarr.json", "side.json"]) == [None, None, None]
    assert [store.size(key) for key in ("zarr.json", "v/zarr.json", "v/c/0")] == [None, None, None]
    assert store.exist_many(["zarr.json", "v/zarr.json", "v/c/0"]) == [False, False, False]
    with pytest.raises(StoreError, match=r"side\.json"):
        store.set("side.json", b"{}")
