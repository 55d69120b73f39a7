"""Lose the power after every step of an operation, on a model of a disk: the old dataset is there, or the new one.

The model is as bad as a disk may be. It has of a file what was there when the file was synced last, and nothing of one
that was never synced. Of names it has all, or only those that were there when their directory was synced last.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat
import threading
import time
import warnings
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lock_order
import power
import pytest

import nczarr
from nczarr.errors import StoreError
from nczarr.stores import LocalStore
from nczarr.system import atomic, durability
from nczarr.system.early_sync import EarlySync

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(os.name == "nt", reason="directories are synced on POSIX systems"),
]

Inode = tuple[int, int]


class Disk:
    """What a disk has of the files below a directory."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch, check: Callable[[Disk], None]) -> None:
        self.root = root
        self.steps = 0
        self._check = check
        self._contents: dict[Inode, bytes] = {}
        self._names: dict[Inode, dict[str, Inode]] = {}
        #: The times of files, by which a reader knows documents that are newer than their consolidated copy.
        self._times: dict[Inode, int] = {}
        #: The last write to a file since it was synced.
        self._last: dict[Inode, tuple[int, bytes]] = {}
        self._held: list[int] = []  # their numbers are given to no other file
        self._busy = False
        self._lock = threading.RLock()
        for folder, _, files in os.walk(root):
            for path in [folder, *(os.path.join(folder, name) for name in files)]:
                self._sync(os.open(path, os.O_RDONLY))
        for name in ("replace", "rename", "link", "unlink", "rmdir", "mkdir"):
            self._watch(patch, os, name)
        self._watch(patch, atomic, "exchange")
        write = os.pwrite

        def fsync(descriptor: int) -> None:
            with self._lock:
                if not self._busy:
                    self._sync(os.dup(descriptor))
                    self.step()

        def pwrite(descriptor: int, data: Any, offset: int) -> int:
            if self._busy:
                return write(descriptor, data, offset)
            status = os.fstat(descriptor)
            self._last[status.st_dev, status.st_ino] = offset, bytes(data)
            return write(descriptor, data, offset)

        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, fsync, raising=False)
        patch.setattr(os, "pwrite", pwrite)
        patch.setattr(durability, "sync_file_system", lambda path: False)
        patch.setattr(durability, "_FEW_AT_ONCE", 1 << 30)

    @property
    def has_unsynced_writes(self) -> bool:
        """True if something was written in the middle of a file."""
        return bool(self._last)

    def close(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)

    def _watch(self, patch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        real = getattr(module, name)

        def watched(*args: Any, **options: Any) -> Any:
            with self._lock:
                result = real(*args, **options)
                self.step()
                return result

        patch.setattr(module, name, watched)

    def _sync(self, descriptor: int) -> None:
        self._held.append(descriptor)
        status = os.fstat(descriptor)
        number = status.st_dev, status.st_ino
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if stat.S_ISDIR(status.st_mode):
            self._names[number] = {name: _number(f"{path}/{name}") for name in os.listdir(path)}
        else:
            with open(f"/proc/self/fd/{descriptor}", "rb") as file:
                self._contents[number] = file.read()
            self._times[number] = status.st_mtime_ns
            self._last.pop(number, None)

    def step(self) -> None:
        if not self._busy:
            self.steps += 1
            self._busy = True
            try:
                self._check(self)
            finally:
                self._busy = False

    def leave(self, target: Path, *, names: bool, last: bool = False) -> None:
        """Write what the disk has: all `names`, or only the synced ones; of the bytes perhaps the `last` that came."""
        shutil.rmtree(target, ignore_errors=True)
        self._leave(_number(str(self.root)), str(self.root) if names else None, target, last)

    def _leave(self, number: Inode, there: str | None, target: Path, last: bool) -> None:
        target.mkdir()
        if there is None:
            entries = self._names.get(number, {})
        else:
            entries = {name: _number(f"{there}/{name}") for name in os.listdir(there)}
        for name, inode in entries.items():
            place = None if there is None else f"{there}/{name}"
            if os.path.isdir(place) if place is not None else inode in self._names:
                self._leave(inode, place, target / name, last)
                continue
            data = self._contents.get(inode, b"")
            if last and inode in self._last:
                offset, more = self._last[inode]
                data = data[:offset].ljust(offset, b"\0") + more + data[offset + len(more) :]
            if name.startswith(".nczarr-"):  # the process that wrote it is no more
                data = data.replace(f"-{os.getpid():x}-".encode(), b"-3fffff-")
            (target / name).write_bytes(data)
            time = self._times.get(inode, 0) if place is None else os.stat(place).st_mtime_ns
            os.utime(target / name, ns=(time, time))


def _number(path: str) -> Inode:
    status = os.lstat(path)
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def watched(root: Path, left: Path, look: Callable[[Path], object], allowed: list[object]) -> Iterator[Disk]:
    """Look at what a loss of power leaves, after each step of the block."""

    def check(disk: Disk, last: bool = False) -> None:
        for names in (True, False):
            disk.leave(left, names=names, last=last)
            try:
                with lock_order.apart():
                    found = look(left)
            except Exception as error:
                raise AssertionError(f"step {disk.steps}, names {names}, last {last}: {error}") from error
            assert found in allowed, f"step {disk.steps}, names {names}, last {last}: {found}"

    def both(disk: Disk) -> None:
        check(disk)
        if disk.has_unsynced_writes:
            check(disk, last=True)

    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(root, patch, both)
        try:
            yield disk
            disk.step()
        finally:
            disk.close()


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="finds files by their descriptors")
@pytest.mark.parametrize("name", power.OPERATIONS)
def test_a_loss_of_power_leaves_the_old_dataset_or_the_new(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(power, "WIDTH", 30)
    root, left = tmp_path / "disk", tmp_path / "left"
    root.mkdir()
    operation = power.OPERATIONS[name]
    operation.before(root)
    allowed = [operation.old, operation.new]
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        with watched(root, left, operation.look, allowed) as disk:
            operation.act(root)
            allowed[:] = [operation.new]
        assert disk.steps > 2
        for dataset in power.OPEN:
            dataset.close()
        power.OPEN.clear()


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="finds files by their descriptors")
def test_the_model_finds_what_is_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "WIDTH", 30)
    root, left = tmp_path / "disk", tmp_path / "left"
    root.mkdir()
    operation = power.OPERATIONS["overwrite"]
    operation.before(root)
    with (
        pytest.raises(AssertionError, match="step"),
        watched(root, left, operation.look, [operation.old, operation.new]),
    ):
        nczarr.copy(root / "source.nc", root / "a.zarr", overwrite=True, durable=False)


def test_names_of_new_directories_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(durability, "sync_path", lambda path, **_: synced.append(os.fspath(path)))
    store = LocalStore(tmp_path, "r+")
    store.keep_order()
    store.set("g/v/c/0", b"values")
    assert synced == []
    store.settle()
    folders = ["g/v/c", "g/v", "g", ""]
    assert synced == [f"{tmp_path}/g/v/c/0", *(f"{tmp_path}/{name}".rstrip("/") for name in folders)]
    store.settle()
    assert len(synced) == 5


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the files and directories that are synced, in turn."""
    paths: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    )
    return paths


def test_many_new_files_wait_without_the_files_of_other_programs(
    synced: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durability, "sync_file_system", lambda path: pytest.fail("waits for other programs"))
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as dataset:
        dataset.createDimension("x", 1100)
        dataset.createVariable("v", "f8", ("x",), chunksizes=(1,))[:] = range(1, 1101)
    with nczarr.Dataset(tmp_path / "a.zarr", "a") as dataset:
        dataset.createVariable("w", "f8", ("x",), chunksizes=(1,))[:] = range(1, 1101)
    chunks = {str(path) for path in (tmp_path / "a.zarr").rglob("c/*")}
    assert len(chunks) == 2200
    assert chunks <= set(synced)


@pytest.mark.parametrize("name", ["a.zarr", "new/newer/a.zarr"])
def test_only_directories_that_a_dataset_makes_are_synced(
    name: str, synced: list[str], tmp_path: Path
) -> None:
    with nczarr.Dataset(tmp_path / name, "w") as dataset:
        dataset.createVariable("v", "f8", ())[...] = 1
    outside = {path for path in synced if not path.startswith(f"{tmp_path}/")}
    assert outside == {str(tmp_path)}  # it has the first new name
    assert {str(folder) for folder in (tmp_path / name).parents if folder.is_relative_to(tmp_path)} <= set(
        synced
    )
    assert len(synced) <= 15


def test_files_of_a_new_dataset_are_synced_while_later_ones_are_made(
    synced: list[str], tmp_path: Path
) -> None:
    store = LocalStore(tmp_path / "a", "w")
    store.sync_early()
    for number in range(200):
        store.set(f"c/{number}", b"values")
    early = store.early
    assert early is not None
    for _ in range(1000):
        if len(synced) > 150:
            break
        time.sleep(0.01)
    assert len(synced) > 150, "nothing is synced before the end"
    store.set("c/0", b"changed")
    store.settle()
    assert synced.count(f"{tmp_path}/a/c/0") == 2
    assert sum(synced.count(f"{tmp_path}/a/c/{number}") == 1 for number in range(200)) > 150
    assert set(synced) >= {*map(str, (tmp_path / "a").rglob("*")), str(tmp_path / "a"), str(tmp_path)}


def test_a_file_that_changes_after_its_sync_is_synced_again(tmp_path: Path) -> None:
    early, paths = EarlySync(), [str(tmp_path / str(number)) for number in range(40)]
    for path in paths:
        Path(path).write_bytes(b"values")
    for path in paths:
        early.note(path)
    for _ in range(1000):
        if early.is_synced(paths[0]):
            break
        time.sleep(0.01)
    assert early.is_synced(paths[0])
    with open(paths[0], "r+b") as file:
        file.write(b"V")
    assert not early.is_synced(paths[0])
    early.end()


def test_a_file_system_that_counts_whole_seconds_tells_no_change_in_the_same_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def coarse(look: Callable[[object], os.stat_result]) -> Callable[[object], SimpleNamespace]:
        def status(file: object) -> SimpleNamespace:
            found = look(file)
            seconds = int(found.st_ctime)
            return SimpleNamespace(st_ino=found.st_ino, st_ctime=seconds, st_ctime_ns=seconds * 1_000_000_000)

        return status

    path, early = tmp_path / "0", EarlySync()
    time.sleep(1.1 - time.time() % 1)  # a tenth of a second has gone
    path.write_bytes(b"values")
    coarse_os = SimpleNamespace(fstat=coarse(os.fstat), stat=coarse(os.stat))
    monkeypatch.setattr("nczarr.system.early_sync.os", coarse_os)
    time.sleep(0.05)
    early._sync(str(path))
    with path.open("r+b", buffering=0) as file:
        file.write(b"V")
    assert not early.is_synced(str(path))
    time.sleep(1.1)
    early._sync(str(path))
    assert early.is_synced(str(path))


def test_an_error_of_the_disk_in_the_background_is_raised_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[int] = []

    def fsync(descriptor: int) -> None:
        if not failed:  # Linux reports an error once
            failed.append(descriptor)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fsync)
    store = LocalStore(tmp_path / "a", "w")
    store.sync_early()
    for number in range(40):
        store.set(f"c/{number}", b"values")
    for _ in range(1000):
        if failed:
            break
        time.sleep(0.01)
    with pytest.raises(StoreError, match="cannot write"):
        store.settle()


def test_the_documents_of_a_new_dataset_are_synced_with_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reader opens a dataset before its root's document, so one wait for the disk is enough."""
    waits: list[int] = []
    sync_all = durability.sync_all

    def count(paths: Iterable[str], data: Container[str] = ()) -> None:
        listed = list(paths)
        waits.append(len(listed))
        sync_all(listed, data)

    monkeypatch.setattr(durability, "sync_all", count)

    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 3)
        for number in range(200):
            ds.createVariable(f"v{number}", "i4", ("x",))[:] = number
    assert sum(n > 100 for n in waits) == 1
    assert len(waits) < 8


def test_a_disk_that_refuses_bytes_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    store = LocalStore(tmp_path, "r+")
    store.keep_order()
    store.set("zarr.json", b"old")
    store.settle()
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreError, match="cannot write"):
        store.set("zarr.json", b"new")
    assert store.get("zarr.json") == b"old"


def test_a_file_system_without_syncing_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", fsync)
    store = LocalStore(tmp_path, "r+")
    store.keep_order()
    store.set("zarr.json", b"old")
    store.set("zarr.json", b"new")
    store.settle()
    assert store.get("zarr.json") == b"new"


def test_durable_false_waits_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for name in ("a.zarr", "a.nc"):
        power.make(tmp_path / name, 3, 1)
        synced.clear()
        dataset = nczarr.Dataset(tmp_path / name, "a", durable=False)
        dataset["t"][3:5] = [3, 4]
        dataset.sync()
        assert synced == [], name
        dataset["t"][0] = 0
        dataset.sync(durable=True)
        assert synced or name == "a.zarr", (
            name
        )  # of a directory nothing is known: the whole file system is synced
        synced.clear()
        dataset["t"][1] = 1
        dataset.close(durable=False)
        assert synced == [], name


def test_the_error_of_the_thread_that_ends_last_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(tmp_path / str(number)) for number in range(9)]
    caller, ended, taken = threading.get_ident(), threading.Semaphore(0), threading.Event()

    class Queue(durability.SimpleQueue[None]):
        def put(self, item: None, block: bool = True, timeout: float | None = None) -> None:
            super().put(item, block, timeout)
            ended.release()

    def sync(path: str, *, only_data: bool = False) -> None:
        if threading.get_ident() == caller:
            taken.wait()
        elif not taken.is_set():
            taken.set()
            for _ in range(durability._helpers(len(paths))):  # all other threads have ended
                ended.acquire()
            time.sleep(0.02)  # a caller that does not wait for this thread returns
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(durability, "SimpleQueue", Queue)
    monkeypatch.setattr(durability, "sync_path", sync)
    with pytest.raises(OSError, match="Input/output error"):
        durability.sync_all(paths)
