"""Append to one dataset from several writers: each one appends its steps or fails with an error."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr
from nczarr.errors import NCZarrError, StoreError
from nczarr.mapping import open_dataset
from nczarr.mapping.dataset.changes import WRITING, writing_alone
from nczarr.mapping.dataset.maintenance import clean
from nczarr.model import INT, Dataset, Dimension, MemorySource, Storage, Variable
from nczarr.stores import MemoryStore, open_store
from nczarr.stores.zip import ZipStore
from nczarr.transfer import NoProgress

numbers = itertools.count()
STEPS = 10
#: A writer on another machine, and one that has ended on this one.
ELSEWHERE = "00000000-1-0-0"


def dead() -> str:
    words = "from nczarr.system.atomic import new_writer; print(new_writer())"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def part(value: int, steps: int = STEPS) -> Dataset:
    data = MemorySource(np.full((steps, 40), value, "i4"))
    variable = Variable("v", INT, ("/t", "/x"), storage=Storage(chunk_shape=(5, 40)), data=data)
    return Dataset(
        "d", dimensions=(Dimension("t", steps, unlimited=True), Dimension("x", 40)), variables=(variable,)
    )


def values(target: Any, options: dict[str, Any]) -> list[int]:
    """The value of each step; all values of a step are the same."""
    with open_dataset(target, storage_options=options) as stored:
        found = stored.data("/v").read((slice(0, stored.dataset.dimension_at("/t").size), slice(0, 40)))
    assert (found == found[:, :1]).all()
    return found[:, 0].tolist()


CLIENTS = [pytest.param(name, marks=pytest.mark.s3) for name in ("obstore", "s3fs")]


@pytest.fixture(params=["zip", *CLIENTS])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    if request.param == "zip":
        target, options = str(tmp_path / "d.zip"), {}
    else:
        request.getfixturevalue("s3_server")
        target, options = f"s3://test/together/{next(numbers)}.zarr", {"backend": request.param}
    nczarr.copy(part(0), target, target_options=options)
    return target, options


class During(NoProgress):
    """Does something while the values are written."""

    def __init__(self, work: Any) -> None:
        self.work = work

    def start(self, total: int) -> None:
        self.work()


def test_the_second_is_refused_before_it_writes(place: tuple[str, dict[str, Any]]) -> None:
    target, options = place

    def second() -> None:
        with pytest.raises(StoreError, match=r"open for writing|being written"):
            nczarr.append(part(2), target, target_options=options)

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        nczarr.append(part(1), target, target_options=options, progress=During(second))
    nczarr.append(part(3), target, target_options=options)
    assert values(target, options) == [0] * STEPS + [1] * STEPS + [3] * STEPS
    with open_store(target, "r", options) as store:
        assert not [key for key in store.list() if key.startswith(".nczarr")]


APPENDS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_appending_together import NCZarrError, nczarr, part
target, number, backend = sys.argv[2:]
options = {"backend": backend} if target.startswith("s3:") else {}
print("ready", flush=True)
sys.stdin.readline()
try:
    nczarr.append(part(int(number)), target, target_options=options)
except NCZarrError:
    sys.exit(1)
"""


def test_processes_lose_no_step(place: tuple[str, dict[str, Any]]) -> None:
    target, options = place
    here = str(Path(__file__).parent)
    expected = [0] * STEPS
    for first in (1, 5):
        command = [sys.executable, "-c", APPENDS, here, target]
        processes = [
            subprocess.Popen(
                [*command, str(first + n), str(options.get("backend"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for n in range(4)
        ]
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        ended = {first + n: process.wait() for n, process in enumerate(processes)}
        for process in processes:
            process.communicate()
        assert set(ended.values()) <= {0, 1}
        won = [number for number, status in ended.items() if status == 0]
        assert won
        found = values(target, options)
        assert found[: len(expected)] == expected
        added = found[len(expected) :]
        assert sorted(added) == sorted(won * STEPS)
        assert added == [number for number in dict.fromkeys(added) for _ in range(STEPS)]
        expected = found


def test_a_zip_file_open_for_changes_is_not_changed_elsewhere(tmp_path: Path) -> None:
    target = str(tmp_path / "d.zip")
    nczarr.copy(part(0), target)
    with nczarr.Dataset(target, "a") as dataset:
        for stop in (STEPS + 2, STEPS + 4):
            dataset["v"][stop - 2 : stop] = 1
            with pytest.raises(NCZarrError, match="open for writing"):
                nczarr.append(part(3), target)
            dataset.sync()
    nczarr.append(part(3), target)
    assert values(target, {}) == [0] * STEPS + [1] * 4 + [3] * STEPS


def test_a_zip_file_that_changed_since_it_was_opened_is_refused_at_the_first_change(tmp_path: Path) -> None:
    path = tmp_path / "d.zip"
    with ZipStore(path, "w") as new:
        new.set("k", b"old")
    late = ZipStore(path, "r+")
    with ZipStore(path, "r+") as store:
        store.set("k", b"new")
    with pytest.raises(StoreError, match="has changed"):
        late.set("l", b"x")
    late.discard()
    with ZipStore(path) as store:
        assert store.get("k") == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["d.zip"]


# --- marks, without a server


def test_the_mark_of_a_dead_process_is_taken_over_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    store.set(WRITING, dead().encode())
    inside, most, entered = 0, 0, 0
    lock = threading.Lock()

    def attempt(_: int) -> None:
        nonlocal inside, most, entered
        try:
            with writing_alone(store) as alone:
                with lock:
                    inside, entered = inside + 1, entered + 1
                    most = max(most, inside)
                time.sleep(0.002)
                alone.check()
                with lock:
                    inside -= 1
        except StoreError as error:
            assert "open for writing" in str(error)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(attempt, range(64)))
    assert entered
    assert most == 1
    assert list(store.list()) == []


def test_the_mark_of_another_machine_is_refused_until_it_is_cleaned() -> None:
    store = MemoryStore()
    nczarr.copy(part(0), store)
    store.set(WRITING, ELSEWHERE.encode())
    with pytest.raises(StoreError, match=r"another machine.*nczarr clean --force"):
        nczarr.append(part(1), store)
    assert "another machine" in clean(store)[0]
    assert clean(store, force=True)
    nczarr.append(part(1), store)
    assert values(store, {}) == [0] * STEPS + [1] * STEPS


def test_the_length_is_not_written_when_the_mark_has_gone() -> None:
    store = MemoryStore()
    nczarr.copy(part(0), store)
    with pytest.raises(StoreError, match="was removed"):
        nczarr.append(part(1), store, progress=During(lambda: store.delete(WRITING)))
    assert values(store, {}) == [0] * STEPS


def test_marks_in_a_circle_end() -> None:
    store = MemoryStore()
    store.set(WRITING, ELSEWHERE.encode())
    store.set(f"{WRITING}-by-{ELSEWHERE}", ELSEWHERE.encode())
    with pytest.raises(StoreError, match="another machine"), writing_alone(store):
        pass


@pytest.mark.parametrize("has", [True, False])
def test_a_store_without_conditions_is_named(has: bool) -> None:
    class Ignoring(MemoryStore):
        has_conditions = has

        def set_if_absent(self, key: str, data: Any) -> bool:
            self.set(key, data)
            return True

    store = Ignoring()
    nczarr.copy(part(0), store)
    with pytest.warns(UserWarning, match="neither locks nor conditional writes"):
        nczarr.append(part(1), store)
    assert values(store, {}) == [0] * STEPS + [1] * STEPS


@pytest.mark.skipif(os.name == "nt", reason="no locks there")
def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nczarr.copy(part(0), tmp_path / "d.zarr")
    monkeypatch.setattr("nczarr.system.locks.fcntl", None)
    with pytest.warns(UserWarning, match="neither locks nor conditional writes"):
        nczarr.append(part(1), tmp_path / "d.zarr")
