"""Test datasets in memory."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import lock_order
import netCDF4
import numpy as np
import pytest

import nczarr.netcdf4 as ours
from nczarr.errors import LockedError, NCZarrError
from nczarr.stores import LocalStore
from nczarr.system import atomic

NAMES = ["a.nc", "a.zarr"]


def make(path: Path, **arguments: Any) -> Any:
    ds = ours.Dataset(path, "w", **arguments)
    ds.createDimension("t", None)
    ds.createVariable("v", "i4", ("t",))[:] = [1, 2]
    return ds


def values(path: Path) -> list[int]:
    with ours.Dataset(path) as ds:
        return list(ds["v"][:])


@pytest.mark.parametrize("name", NAMES)
def test_what_may_not_be_replaced_is_refused_before_values_are_there(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    make(path).close()
    with pytest.raises(FileExistsError):
        ours.Dataset(path, "w", clobber=False, diskless=True, persist=True)
    other = tmp_path / f"other-{name}"
    other.mkdir()
    (other / "notes").write_text("mine")
    with pytest.raises(FileExistsError):
        ours.Dataset(other, "w", diskless=True, persist=True)
    assert values(path) == [1, 2]
    assert (other / "notes").read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, other.name])


def test_a_folder_that_is_not_there_is_refused_before_values_are_there(tmp_path: Path) -> None:
    """As by netCDF4-python. (Zarr makes the folders.)"""
    for library in (netCDF4, ours):
        with pytest.raises(OSError, match=r"denied|written"):
            library.Dataset(tmp_path / "none" / "a.nc", "w", diskless=True, persist=True)
    with make(tmp_path / "none" / "a.zarr", diskless=True, persist=True):
        pass
    assert values(tmp_path / "none" / "a.zarr") == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "a.zarr.zip"])
@pytest.mark.parametrize("mode", ["w", "a"])
def test_others_cannot_write_to_what_is_going_to_be_replaced(mode: str, name: str, tmp_path: Path) -> None:
    """What they wrote was lost without a word."""
    path = tmp_path / name
    make(path).close()
    with ours.Dataset(path, mode, diskless=True, persist=True) as ds:
        ds.a = 1
        for persist in (False, True):
            with pytest.raises(LockedError):
                ours.Dataset(path, "a", diskless=persist, persist=persist)
    with ours.Dataset(path, "a") as ds:
        assert ds.a == 1
        with pytest.raises(LockedError):
            ours.Dataset(path, mode, diskless=True, persist=True)
        with ours.Dataset(path, "a", diskless=True) as copy:  # goes nowhere
            copy.b = 2
    with ours.Dataset(path, "a") as ds:
        assert ds.ncattrs() == ["a"]


def test_what_is_replaced_stays_until_the_new_dataset_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.zarr"
    make(path).close()
    ds = ours.Dataset(path, "a", diskless=True, persist=True)
    ds["v"][2] = 3
    seen = []
    write = LocalStore.set_many

    def full(store: LocalStore, items: Any) -> None:
        items = list(items)
        if any(key.startswith("v/c") for key, _ in items):
            with lock_order.apart():
                seen.append(values(path))
            raise OSError(28, "No space left on device")
        write(store, items)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "set_many", full)
        with pytest.raises(OSError, match="No space"):
            ds.close()
    assert seen == [[1, 2]]
    assert values(path) == [1, 2]
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]
    ours.Dataset(path, "a").close()  # nobody keeps others away any more


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("given", ["text", 5, 1.5, [1, 2]])
def test_memory_to_read_is_bytes(given: Any, name: str) -> None:
    for library in (netCDF4, ours):
        with pytest.raises(TypeError) as error:
            library.Dataset(name, memory=given)
    assert isinstance(error.value, NCZarrError)
    content = np.frombuffer(make(Path(name), memory=1).close(), "u1")
    for whole in (content, memoryview(content), bytearray(content)):
        with ours.Dataset(name, memory=whole) as ds:
            assert ds["v"][:].tolist() == [1, 2]


@pytest.mark.parametrize("name", NAMES)
def test_memory_to_write_is_a_size(name: str) -> None:
    """Bytes that are given are not a beginning: they were left out."""
    for given in (b"bytes", "text"):
        for library in (netCDF4, ours):
            with pytest.raises((TypeError, ValueError)) as error:
                library.Dataset(name, "w", memory=given)
        assert isinstance(error.value, NCZarrError)
    for mode in ("x", "a", "r+"):
        for library in (netCDF4, ours):
            with pytest.raises(ValueError, match="mode must be 'r' or 'w'"):
                library.Dataset(name, mode, memory=10)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "memory holds neither"),
        (b"garbage", "memory holds neither"),
        (b"CDF\1garbage", "truncated"),
        (b"\x89HDF\r\n\x1a\n", "cannot open"),
        (b"PK\3\4 no zip", "zip"),
    ],
)
def test_memory_that_holds_no_dataset_is_an_oserror(content: bytes, match: str) -> None:
    with pytest.raises(OSError, match="Errno"):
        netCDF4.Dataset("a.nc", memory=content)
    with pytest.raises(OSError, match=match) as error:
        ours.Dataset("a.nc", memory=content)
    assert isinstance(error.value, NCZarrError)


@pytest.mark.parametrize("mode", ["w", "a"])
@pytest.mark.parametrize("name", NAMES)
def test_a_failed_write_at_the_end_leaves_the_old_dataset_alone(
    name: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    make(path).close()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    ds = ours.Dataset(path, mode, diskless=True, persist=True)
    ds.a = 1
    # The file is moved, and the directory exchanged, after all bytes are written.
    monkeypatch.setattr(atomic.Output, "commit", full)
    monkeypatch.setattr(atomic, "replace_directory", full)
    monkeypatch.setattr("nczarr.stores.local.replace_directory", full, raising=False)
    with pytest.raises(OSError, match="No space left"):
        ds.close()
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert values(path) == [1, 2]
