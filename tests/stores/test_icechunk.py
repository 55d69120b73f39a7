"""Read Icechunk repositories through their zarr-python store (skipped if not installed)."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr
from nczarr import model
from nczarr.errors import ReadOnlyError, StoreError, UnsupportedError
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


# --- growing


def grown(repository: Any) -> tuple[list[float], list[list[int]]]:
    with nczarr.Dataset(repository.readonly_session("main").store) as found:
        return found["t"][:].tolist(), found["v"][:].tolist()


@pytest.fixture
def archive() -> Any:
    """A repository with four steps in chunks of two."""
    repository = icechunk.Repository.create(icechunk.in_memory_storage())
    session = repository.writable_session("main")
    with nczarr.Dataset(session.store, "w") as made:
        made.createDimension("t")
        made.createDimension("x", 3)
        time = made.createVariable("t", "f8", ("t",), chunksizes=(4,))
        time.units = "days since 2000-01-01"
        time[:] = range(4)
        made.createVariable("v", "i4", ("t", "x"), chunksizes=(2, 3))[:] = np.arange(12).reshape(4, 3)
    session.commit("four days")
    return repository


def day(folder: Path) -> Path:
    with nczarr.Dataset(folder / "day.nc", "w") as made:
        made.createDimension("t")
        made.createDimension("x", 3)
        time = made.createVariable("t", "f8", ("t",))
        time.units = "days since 2000-01-01"
        time[:] = [4, 5]
        made.createVariable("v", "i4", ("t", "x"))[:] = 7
    return folder / "day.nc"


def test_appended_steps_appear_with_the_commit(archive: Any, tmp_path: Path) -> None:
    steps, before = [0.0, 1, 2, 3], grown(archive)
    session = archive.writable_session("main")
    with nczarr.Dataset(session.store, "a") as changed:
        changed["v"][4:6] = 7
        changed["t"][4:6] = [4, 5]
    assert grown(archive) == before
    session.commit("by assignment")
    assert grown(archive) == ([*steps, 4, 5], [*before[1], [7] * 3, [7] * 3])
    session = archive.writable_session("main")
    with nczarr.Dataset(session.store, "a") as changed:
        changed["t"][:] = np.arange(6.0) - 2
    session.commit("earlier")
    session = archive.writable_session("main")
    nczarr.append(day(tmp_path), session.store)
    session.commit("by a copy")
    times, values = grown(archive)
    assert times == [-2, -1, 0, 1, 2, 3, 4, 5]
    assert values == [*before[1], *[[7] * 3] * 4]


def test_the_accessor_appends_and_an_overwritten_dataset_leaves_nothing(archive: Any, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    before = grown(archive)
    session = archive.writable_session("main")
    with xarray.open_dataset(day(tmp_path), engine="nczarr") as new:
        new.nczarr.to_zarr(session.store, append_dim="t")
    session.commit("by the accessor")
    assert grown(archive) == ([0.0, 1, 2, 3, 4, 5], [*before[1], [7] * 3, [7] * 3])
    session = archive.writable_session("main")
    nczarr.copy(day(tmp_path), session.store, overwrite=True)
    session.commit("replaced")
    assert grown(archive) == ([4.0, 5], [[7] * 3] * 2)


def test_two_writers_of_other_chunks_rebase_and_two_that_grow_conflict(archive: Any) -> None:
    first, second = archive.writable_session("main"), archive.writable_session("main")
    for session, start in ((first, 0), (second, 2)):
        with nczarr.Dataset(session.store, "a") as changed:
            changed["v"][start : start + 2] = start + 50
    first.commit("first")
    with pytest.raises(icechunk.ConflictError):
        second.commit("second")
    second.rebase(icechunk.ConflictDetector())
    second.commit("second")
    assert [row[0] for row in grown(archive)[1]] == [50, 50, 52, 52]
    first, second = archive.writable_session("main"), archive.writable_session("main")
    for session in (first, second):
        with nczarr.Dataset(session.store, "a") as changed:
            changed["v"][4:6] = 1
            changed["t"][4:6] = [4, 5]
    first.commit("first")
    with pytest.raises(icechunk.ConflictError):
        second.commit("second")
    with pytest.raises(icechunk.RebaseFailedError):
        second.rebase(icechunk.ConflictDetector())
    assert len(grown(archive)[0]) == 6


# --- several processes


def fields(name: Path, number: int) -> Path:
    """A file of a join with eight chunks of each of two variables, and one of coordinates."""
    with nczarr.Dataset(name, "w") as made:
        made.createDimension("t")
        made.createDimension("x", 600)
        time = made.createVariable("t", "f8", ("t",))
        time.units = "days since 2000-01-01"
        time[:] = number * 8 + np.arange(8.0)
        made.createVariable("x", "f4", ("x",))[:] = np.arange(600)
        for scale, name_ in enumerate(("u", "v")):
            values = made.createVariable(name_, "f4", ("t", "x"), chunksizes=(1, 600))
            values[:] = scale + number + np.arange(4800).reshape(8, 600)
    return name


@pytest.mark.parametrize("executor", ["processes", "threads"])
def test_workers_change_forks_of_a_session_that_the_driver_merges(tmp_path: Path, executor: str) -> None:
    files = [fields(tmp_path / f"{number}.nc", number) for number in range(3)]
    nczarr.join(files, tmp_path / "alone.zarr", along="t")
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "repo")))
    session = repository.writable_session("main")
    with ThreadPoolExecutor(3) as threads:
        workers: Any = threads if executor == "threads" else executor
        nczarr.join(files, session.store, along="t", executor=workers, verify=True)
        session.commit("three days")
        found = repository.readonly_session("main")
        assert nczarr.digest(found.store) == nczarr.digest(tmp_path / "alone.zarr")
        # A dataset is replaced in the same way; the old one stays until the commit.
        session = repository.writable_session("main")
        nczarr.copy(files[0], session.store, executor=workers, overwrite=True)
        assert nczarr.digest(repository.readonly_session("main").store) == nczarr.digest(
            tmp_path / "alone.zarr"
        )
        session.commit("the first day")
    found = repository.readonly_session("main")
    assert nczarr.digest(found.store) == nczarr.digest(files[0])
    nczarr.append(files[1], (session := repository.writable_session("main")).store)
    session.commit("and the second")
    nczarr.join(files[:2], tmp_path / "two.zarr", along="t")
    found = repository.readonly_session("main")
    assert nczarr.digest(found.store) == nczarr.digest(tmp_path / "two.zarr")


def test_a_copy_by_workers_that_fails_leaves_the_session_unchanged(tmp_path: Path) -> None:
    source = fields(tmp_path / "0.nc", 0)
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "repo")))
    session = repository.writable_session("main")
    with ThreadPoolExecutor(2) as workers:
        with pytest.raises(OSError, match="the worker is full"):
            nczarr.copy(source, session.store, executor=workers, preprocess=Failing())
        assert not session.has_uncommitted_changes
        nczarr.copy(source, session.store, executor=workers)
        assert session.has_uncommitted_changes
        with pytest.raises(UnsupportedError, match=r"changes that are not committed.*commit it"):
            nczarr.copy(source, session.store, executor=workers, overwrite=True)
        with (
            ProcessPoolExecutor(1, get_context("fork")) as copies,
            pytest.raises(UnsupportedError, match=r"copies of this process.*get_context\('spawn'\)"),
        ):
            nczarr.copy(source, session.store, executor=copies, overwrite=True)
    session.commit("once")
    assert nczarr.digest(repository.readonly_session("main").store) == nczarr.digest(source)


class Failing:
    """Give a dataset whose second half cannot be read in a task."""

    def __call__(self, dataset: model.Dataset) -> model.Dataset:
        return model.rewrite(dataset, variable=lambda fqn, v: v.with_data(Full(v.data)) if fqn == "/v" else v)


class Full:
    """Values of which the last steps cannot be read."""

    def __init__(self, data: Any) -> None:
        self.shape, self.dtype, self._data = data.shape, data.dtype, data

    def read(self, region: model.Region, out: np.ndarray | None = None) -> np.ndarray:
        if region[0].stop > 4:
            raise OSError("the worker is full")
        values: np.ndarray = self._data.read(region, out)
        return values
