"""Steps that no document claims yet are added to uncompressed chunks in place; a sync waits a few times."""

from __future__ import annotations

import errno
import os
from collections.abc import Container, Iterable
from pathlib import Path

import numpy as np
import pytest

import nczarr
from nczarr.stores import LocalStore
from nczarr.system import durability
from nczarr.system.durability import WriteOrder

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="files grow in place where the system has pread and pwrite"
)


def make(path: Path, steps: int = 2, **options: object) -> nczarr.Dataset:
    """Make a dataset in chunks of ten steps, and open it to append."""
    with nczarr.Dataset(path, "w") as dataset:
        dataset.createDimension("t")
        dataset.createDimension("x", 6)
        for name in ("v", "w"):
            dataset.createVariable(name, "i4", ("t", "x"), chunksizes=(10, 6), **options)
        append(dataset, 0, steps)
    return nczarr.Dataset(path, "a")


def append(dataset: nczarr.Dataset, first: int, last: int) -> None:
    for name in ("v", "w"):
        dataset[name][first:last] = expected(first, last)


def expected(first: int, last: int) -> np.ndarray:
    return np.add.outer(np.arange(first, last) * 10, np.arange(6))


def number(path: Path, name: str = "v") -> int:
    return (path / name / "c" / "0" / "0").stat().st_ino


@pytest.mark.slow
def test_unclaimed_steps_are_added_in_place(tmp_path: Path) -> None:
    path = tmp_path / "d.zarr"
    with make(path) as dataset, nczarr.Dataset(path) as reader:
        before = number(path)
        for step in range(2, 9):
            append(dataset, step, step + 1)
            dataset.sync()
            assert number(path) == before
            assert np.array_equal(nczarr.Dataset(path)["v"][:], expected(0, step + 1))
        assert np.array_equal(reader["v"][:], expected(0, 2))


def test_claimed_values_are_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "d.zarr"
    with make(path) as dataset:
        before = number(path)
        dataset["v"][1:4] = 7
        dataset.sync()
        assert number(path) != before
        held = (path / "v" / "c" / "0" / "0").open("rb")
        dataset["v"][3, 2] = 8  # was claimed by the sync
        dataset.sync()
        assert 8 not in np.frombuffer(held.read(), "i4")
        assert dataset["v"][3].tolist() == [7, 7, 8, 7, 7, 7]


def test_a_snapshot_by_hard_links_keeps_its_values(tmp_path: Path) -> None:
    path = tmp_path / "d.zarr"
    with make(path) as dataset:
        os.link(path / "v" / "c" / "0" / "0", tmp_path / "link")
        old = (tmp_path / "link").read_bytes()
        append(dataset, 2, 4)
    assert (tmp_path / "link").read_bytes() == old
    assert np.array_equal(nczarr.Dataset(path)["v"][:], expected(0, 4))


@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}, {"shards": (40, 6), "compression": "zstd"}])
def test_a_sync_of_all_variables_waits_a_few_times(
    options: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[list[str]] = []
    sync_all = durability.sync_all

    def count(paths: Iterable[str], data: Container[str] = ()) -> None:
        waits.append(listed := list(paths))
        sync_all(listed, data)

    monkeypatch.setattr(durability, "sync_all", count)
    dataset = make(tmp_path / "d.zarr", **options)
    monkeypatch.setattr(durability, "sync_descriptor", lambda descriptor, only_data=False: None)
    waits.clear()
    append(dataset, 2, 3)
    dataset.sync()
    dataset.close()
    assert [len(paths) for paths in waits if paths] == ([5, 3] if not options else [5, len(waits[1]), 3])
    assert not [name for _, _, files in os.walk(tmp_path) for name in files if name.endswith(".tmp")]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}, {"shards": (40, 6), "compression": "zstd"}])
def test_values_count_as_changed_after_a_disk_that_refuses_them(
    options: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "d.zarr"
    dataset = make(path, **options)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    append(dataset, 2, 4)
    with monkeypatch.context() as patch:
        patch.setattr(durability, "sync_path", fail)
        with pytest.raises(OSError, match=r"[Ii]nput/output error"):
            dataset.sync()
    for document in (path / "zarr.json", path / "v" / "zarr.json"):
        assert '"shape":[2,6]' in document.read_text()
    dataset.sync()
    assert np.array_equal(nczarr.Dataset(path)["v"][:], expected(0, 4))
    dataset.close()
    assert not [name for _, _, files in os.walk(path) for name in files if name.endswith(".tmp")]


def test_a_document_waits_for_the_changes_of_values(tmp_path: Path) -> None:
    order, done = WriteOrder(str(tmp_path)), []
    with order.deferring(documents=False), order.deferring(documents=True):
        assert order.defer("/d/a", "/d/a", lambda wanted: done.append(("document", wanted)), document=True)
        assert order.defer("/d/b", "/d/b", lambda wanted: done.append(("value", wanted)))
        assert done == []
        order.finish("/d/c")
        assert done == []
        order.finish("/d/b")
        assert done == [("value", True), ("document", True)]
    assert not order.defer("/d/b", "/d/b", lambda wanted: None)


def test_values_of_a_dead_writer_are_removed_without_a_listing_of_all_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, chunks = tmp_path / "d.zarr", 30
    make(path, chunks * 10 - 5).close()
    for name in ("v", "w"):
        edge = path / name / "c" / str(chunks - 1) / "0"
        left = np.frombuffer(edge.read_bytes(), "i4").reshape(10, 6).copy()
        left[6:] = 77
        edge.write_bytes(left.tobytes())
        (path / name / "c" / str(chunks + 1)).mkdir()
        (path / name / "c" / str(chunks + 1) / "0").write_bytes(left.tobytes())
    listed: list[str] = []
    scan = LocalStore._scan

    def count(self: LocalStore, start: str) -> tuple[list[str], list[str]]:
        listed.append(start)
        return scan(self, start)

    monkeypatch.setattr(LocalStore, "_scan", count)
    with nczarr.Dataset(path, "a") as dataset:
        append(dataset, chunks * 10 - 5, chunks * 10 - 4)
        dataset["v"][chunks * 10 + 19] = 1
    assert len([start for start in listed if start.startswith("v/")]) < chunks
    with nczarr.Dataset(path) as dataset:
        assert np.array_equal(dataset["v"][: chunks * 10 - 4], expected(0, chunks * 10 - 4))
        assert dataset["v"][chunks * 10 - 4 : chunks * 10 + 19].mask.all()
