"""Replace a dataset while it is open: readers get an error, never values of both datasets."""

from __future__ import annotations

import errno
import itertools
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr
from nczarr.cli import main
from nczarr.errors import DatasetExistsError, NCZarrError, StoreError
from nczarr.mapping import create_dataset, open_dataset
from nczarr.model import INT, Attribute, Dataset, Dimension, MemorySource, Storage, Variable
from nczarr.stores import LocalStore, local
from nczarr.zarr import open_hierarchy


def dataset(n: int, size: int = 8, chunk: int = 2) -> Dataset:
    data = MemorySource(np.full(size, n, "i4"))
    variable = Variable("v", INT, ("/x",), storage=Storage(chunk_shape=(chunk,)), data=data)
    return Dataset(
        "d",
        attributes=(Attribute.of("n", n),),
        dimensions=(Dimension("x", size, True),),
        variables=(variable,),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    nczarr.copy(dataset(1), tmp_path / "a.zarr")
    return tmp_path / "a.zarr"


@pytest.mark.parametrize("size", [8, 4, 0])
def test_a_reader_is_told(path: Path, size: int) -> None:
    """The new dataset has as many steps, fewer, or none: its missing chunks are not the old one's fill."""
    with nczarr.Dataset(path) as reader:
        assert (reader["v"][:2] == 1).all()
        nczarr.copy(dataset(2, size), path, overwrite=True)
        with pytest.raises(
            NCZarrError, match=r"was replaced, moved or removed since it was opened .open it again"
        ):
            reader["v"][4:]
    with nczarr.Dataset(path) as reader:
        assert (reader["v"][:] == 2).all()


@pytest.mark.parametrize("act", ["moved", "removed", "another"])
def test_whoever_did_it(path: Path, act: str, tmp_path: Path) -> None:
    nczarr.copy(dataset(2), tmp_path / "b.zarr")
    with open_dataset(path) as stored:
        if act == "removed":
            shutil.rmtree(path)
        else:
            path.rename(tmp_path / "c.zarr")
        if act == "another":
            (tmp_path / "b.zarr").rename(path)
        with pytest.raises(StoreError, match=r"open (it|the dataset) again"):
            stored.data("/v").read((slice(0, 8),))


def test_a_writer_does_not_write_into_the_new_one(path: Path) -> None:
    """Another program has put it there; nczarr would not while it is open for writing."""
    writer = nczarr.Dataset(path, "a")
    aside = path.with_name("b.zarr")
    nczarr.copy(dataset(2), aside)
    path.rename(path.with_name("c.zarr"))
    aside.rename(path)
    writer.title = "x"

    def change() -> None:
        writer["v"][0:8] = 5
        writer.sync()

    with pytest.raises(NCZarrError, match="was replaced, moved or removed"):
        change()
    with pytest.raises(NCZarrError, match="was replaced, moved or removed"):
        writer.close()
    with nczarr.Dataset(path) as reader:
        assert (reader["v"][:] == 2).all()
        assert reader.ncattrs() == ["n"]


WRITER = """
import sys
import nczarr
from nczarr.cli import main
with nczarr.Dataset(sys.argv[1], "a") as dataset:
    print("open", flush=True)
    sys.stdin.readline()
    dataset["v"][0] = 7
"""


def test_what_another_process_is_writing_is_not_replaced(path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "open\n"
    with pytest.raises(DatasetExistsError, match="another process has the dataset open for writing"):
        nczarr.copy(dataset(2), path, overwrite=True)
    writer.communicate("\n")
    with nczarr.Dataset(path) as reader:
        assert reader["v"][:].tolist() == [7] + [1] * 7
    nczarr.copy(dataset(2), path, overwrite=True)
    with nczarr.Dataset(path) as reader:
        assert (reader["v"][:] == 2).all()
    assert [p.name for p in path.parent.iterdir()] == ["a.zarr"]


def test_opening_while_it_is_replaced_sees_one_of_them(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The root's document is the old one's, the rest the new one's: it is read once more."""
    real, done = LocalStore.get_range, []

    def replacing(self: LocalStore, key: str, start: int, length: int | None = None) -> bytes | None:
        found = real(self, key, start, length)
        if key == "zarr.json" and not done:
            done.append(key)
            nczarr.copy(dataset(2, 4), path, overwrite=True)
        return found

    monkeypatch.setattr(LocalStore, "get_range", replacing)
    with open_dataset(path) as stored:
        assert int(stored.dataset.attribute["n"].values[0]) == 2
        assert stored.data("/v").read((slice(0, 4),)).tolist() == [2] * 4
    assert done


def test_a_store_can_be_used_again(path: Path) -> None:
    store = LocalStore(path)
    assert open_hierarchy(store).array("v").read().tolist() == [1] * 8
    nczarr.copy(dataset(2), path, overwrite=True)
    again = pickle.loads(pickle.dumps(store))
    assert open_hierarchy(store).array("v").read().tolist() == [2] * 8
    assert open_hierarchy(again).array("v").read().tolist() == [2] * 8


def test_only_so_many_directories_are_held(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_HELD", len(local.HeldDirectory.all) + 1)
    first, second = LocalStore(path), LocalStore(path)
    arrays = [open_hierarchy(store).array("v") for store in (first, second)]
    assert [array.read().tolist() for array in arrays] == [[1] * 8] * 2
    first.close()
    arrays[1] = open_hierarchy(second).array("v")
    nczarr.copy(dataset(2), path, overwrite=True)
    with pytest.raises(StoreError, match="open it again"):
        arrays[1].read()
    second.close()
    assert len(local.HeldDirectory.all) == local.MAX_HELD - 1


@pytest.mark.slow
@pytest.mark.parametrize("command", ["repair", "consolidate", "append"])
def test_what_another_process_is_writing_is_not_changed_as_a_whole(
    path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """What the writer has written since would be undone."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "open\n"
    (path / "v" / "c" / "3").unlink()
    before = sorted(path.rglob("*"))
    source = path.with_name("b.zarr")
    nczarr.copy(dataset(2), source)
    words = ["append", str(source), str(path)] if command == "append" else [command, str(path)]
    assert main(words) == 75  # a lock goes away: try again
    assert "open for writing" in capsys.readouterr().err
    assert sorted(path.rglob("*")) == before
    writer.communicate("\n")
    assert main(words) == 0
    with nczarr.Dataset(path) as reader:
        assert reader["v"][:6].tolist() == [7, 1, 1, 1, 1, 1]
        assert reader["v"].shape == ((16,) if command == "append" else (8,))


@pytest.mark.parametrize("failing", [(1,), (2,), (2, 3)])
def test_a_file_system_that_cannot_rename_just_then(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failing: tuple[int, ...]
) -> None:
    """The old dataset stays, or the message says where it is."""
    nczarr.copy(dataset(2), path.with_name("b.zarr"))
    real, count = os.rename, itertools.count(1)

    def rename(first: Any, second: Any, **more: Any) -> None:
        if os.path.isdir(first) and next(count) in failing:
            raise OSError(errno.ESTALE, "Stale file handle")
        real(first, second, **more)

    monkeypatch.setattr("nczarr.system.atomic.exchange", lambda first, second: False)
    monkeypatch.setattr(os, "rename", rename)
    assert main(["copy", "-q", "--overwrite", str(path.with_name("b.zarr")), str(path)]) == 1
    said = capsys.readouterr().err
    assert "cannot put the new dataset in place: Stale file handle" in said
    left = sorted(p for p in path.parent.iterdir() if p.name.startswith("."))
    if len(failing) == 2:
        [old] = [p for p in left if p.name.endswith(".old.tmp")]
        assert f"the old version of {path} is {old}" in said
        old.rename(path)
    else:
        assert left == []
    with nczarr.Dataset(path) as reader:
        assert (reader["v"][:] == 1).all()


def test_a_writer_that_comes_while_it_is_replaced_is_not_overtaken(path: Path) -> None:
    with create_dataset(path, dataset(2), overwrite=True) as sink:
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        with pytest.raises(DatasetExistsError, match="open for writing"):
            sink.publish()
        writer.communicate("\n")
    with nczarr.Dataset(path) as reader:
        assert reader["v"][:].tolist() == [7] + [1] * 7
    assert [p.name for p in path.parent.iterdir()] == ["a.zarr"]
