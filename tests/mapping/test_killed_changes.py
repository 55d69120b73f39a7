"""Kill a local writer at each step of a structural change: later readers and writers succeed."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr
from nczarr.mapping import WriteOptions, create_dataset, open_dataset
from nczarr.mapping.dataset import rename_journal as moving
from nczarr.mapping.dataset.maintenance import clean
from nczarr.mapping.options import LayoutName
from nczarr.model import INT, Dataset, Dimension, Storage, Variable
from nczarr.stores import LocalStore, MemoryStore

VARIABLES = tuple(Variable(n, INT, ("/x",), storage=Storage(chunk_shape=(2,))) for n in "ab")
MODEL = Dataset("d", dimensions=(Dimension("x", 4),), variables=VARIABLES)


class Died(BaseException):
    """The process does nothing any more."""


def rename(path: Path) -> None:
    with open_dataset(path, "r+") as stored:
        first, second = stored.dataset.variables
        stored.update(replace(stored.dataset, variables=(replace(first, name="z"), second)))


def remove(path: Path) -> None:
    with open_dataset(path, "r+") as stored:
        stored.update(replace(stored.dataset, variables=stored.dataset.variables[1:]))


@pytest.fixture(scope="module")
def dead() -> Iterator[str]:
    """A writer that has ended."""
    command = [
        sys.executable,
        "-c",
        "from nczarr.system.atomic import new_writer; print(new_writer(), end='')",
    ]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def die_after(steps: int, act: Callable[[Path], None], path: Path, dead: str) -> bool:
    """Do something that is cut off after some changes of the store; False if it came to its end."""
    count = itertools.count()

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            if next(count) >= steps:
                raise Died
            return real(*arguments, **more)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nczarr.mapping.dataset.changes.new_writer", lambda: dead)
        patch.setattr(LocalStore, "_put", dying(LocalStore._put))
        patch.setattr("os.unlink", dying(os.unlink))
        patch.setattr("os.rmdir", dying(os.rmdir))
        try:
            act(path)
        except Died:
            return True
    return False


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("act", [rename, remove])
@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("layout", ["nczarr-v3", "zarr-v3", "zarr-v2"])
@pytest.mark.parametrize("then", ["clean", "write"])
def test_what_a_killed_process_leaves(
    tmp_path: Path,
    dead: str,
    act: Callable[[Path], None],
    consolidated: bool,
    layout: LayoutName,
    then: str,
) -> None:
    options = WriteOptions(layout=layout, consolidated=consolidated)
    for steps in itertools.count():
        path = tmp_path / f"{steps}.zarr"
        with create_dataset(path, MODEL, options) as sink:
            for fqn in MODEL.all_variables:
                sink.write(fqn, (slice(0, 4),), np.full(4, 5, "i4"))
        died = die_after(steps, act, path, dead)
        if then == "clean":
            clean(path)
        with nczarr.Dataset(path, "a") as dataset:
            assert set(dataset.variables) in ({"a", "b"}, {"z", "b"}, {"a", "z", "b"}, {"b"})
            for variable in dataset.variables.values():
                assert variable[:].tolist() == [5] * 4
            # Nothing comes to life again.
            for name in {"a", "z"} - set(dataset.variables):
                dataset.createVariable(name, "i4", ("x",), chunksizes=(2,))[0] = 7
        with nczarr.Dataset(path) as dataset:
            for variable in dataset.variables.values():
                assert variable[:].tolist() in ([5] * 4, [7, *[None] * 3], [7, 0, 0, 0]), (
                    steps,
                    variable.name,
                )
        nczarr.copy(path, tmp_path / "copy.zarr", overwrite=True)
        nczarr.copy(tmp_path / "copy.zarr", path, overwrite=True)
        assert not [p for p in path.iterdir() if p.name.startswith(".nczarr-")]
        if not died:
            break
    assert steps > 4


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("then", ["clean", "write"])
def test_they_are_not_in_the_way_of_a_replacement(tmp_path: Path, dead: str, then: str) -> None:
    path = tmp_path / "a.zarr"
    for steps in itertools.count():
        with create_dataset(path, MODEL, overwrite=True) as sink:
            for fqn in MODEL.all_variables:
                sink.write(fqn, (slice(0, 4),), np.full(4, 5, "i4"))
        with nczarr.Dataset(path) as dataset:  # the replacement has nothing of the change before
            assert set(dataset.variables) == {"a", "b"}
            assert all(variable[:].tolist() == [5] * 4 for variable in dataset.variables.values())
        left = {p.name for p in path.iterdir() if p.is_dir()}
        assert left == {"a", "b"}
        died = die_after(steps, rename, path, dead)
        if then == "clean":
            clean(path)
        else:
            with nczarr.Dataset(path, "a") as dataset:
                dataset.title = "x"
        if not died:
            break
    assert steps > 4


def test_what_is_not_ours_stays(tmp_path: Path, dead: str) -> None:
    path = tmp_path / "a.zarr"
    create_dataset(path, MODEL).commit()
    kept = {
        "notes/c/readme": b"mine",
        "z/c/0": b"chunk",
        "z/note": b"mine",
        "frames/0": b"mine",
        "w/c/0": b"left",
    }
    for name, value in kept.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(value)
    (path / ".nczarr-writing").write_text(dead)
    assert clean(path) == [
        f"{path}: w is removed",
        f"{path}: the marker of an interrupted change is removed",
    ]
    for name in kept:
        assert (path / name).exists() == (name != "w/c/0")


@pytest.mark.parametrize("kind", ["directory", "memory"])
def test_a_new_variable_has_no_values_of_chunks_that_were_there(tmp_path: Path, kind: str) -> None:
    """Whoever left them; what is no chunk of it stays."""
    store: Any = LocalStore(tmp_path / "a.zarr", "w") if kind == "directory" else MemoryStore()
    create_dataset(store, MODEL).commit()
    for key in ("z/c/0", "z/c/1", "z/c/9", "z/note"):
        store.set(key, b"\1\0\0\0\1\0\0\0")
    target = tmp_path / "a.zarr" if kind == "directory" else store
    with nczarr.Dataset(target, "a") as dataset:
        z = dataset.createVariable("z", "i4", ("x",), chunksizes=(2,))
        assert z[:].tolist() == [None] * 4
        z[0] = 7
    with nczarr.Dataset(target) as dataset:
        assert dataset["z"][:].tolist() == [7, None, None, None]
    assert store.get("z/note") is not None
    assert store.get("z/c/9") is None


def test_damaged_marks_that_name_each_other_end() -> None:
    store = MemoryStore()
    for writer, other in (("a", "b"), ("b", "a")):
        store.set(moving._TAKEN + writer, other.encode())
    assert moving.Journal("a", (), (), ()).owner(store) == "a"
