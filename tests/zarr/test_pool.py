"""Test the thread pool: its size and its errors."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest

from nczarr.stores import MemoryStore
from nczarr.system.environment import limit
from nczarr.system.locks import TABLES
from nczarr.zarr import pool as threads
from nczarr.zarr.chunks.array import Array
from nczarr.zarr.chunks.chunks import CHUNK_LOCKS
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.metadata import ArrayMetadata
from nczarr.zarr.types import data_type_for


@pytest.mark.parametrize(("value", "expected"), [("1", "1"), ("5", "5"), ("1000", "32")])
def test_the_number_can_be_chosen(value: str, expected: str) -> None:
    code = "from nczarr.zarr.pool import worker_count as n; print(n())"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NCZARR_THREADS": value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (result.stdout.strip(), result.stderr) == (expected, "")


@pytest.mark.parametrize("value", ["many", "-1", "2.5"])
def test_nonsense_is_ignored_with_a_warning(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCZARR_THREADS", value)
    with pytest.warns(UserWarning, match="NCZARR_THREADS"):
        assert limit("NCZARR_THREADS") == 0


@pytest.mark.parametrize(
    ("seconds", "shared"),
    [
        ([20e-6] * 10_000, False),  # in memory
        (
            [20e-6, 450e-6] + [20e-6] * 50 + [450e-6] + [20e-6] * 50,
            False,
        ),  # the processor was another's for a while
        ([20e-6] * 100 + [1e-3] * 100, True),
        ([100e-6] * 100, True),
    ],
)
def test_work_is_shared_once_it_is_slow(
    seconds: list[float], shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    here: list[int] = []
    given: list[int] = []

    def work(item: int) -> None:
        nonlocal now
        now += seconds[item]
        here.append(item)

    monkeypatch.setattr(threads, "time", SimpleNamespace(perf_counter=lambda: now))
    monkeypatch.setattr(threads, "run", lambda work, items, workers: given.extend(items))
    threads.run_while_quick(work, range(len(seconds)), 2)
    assert here + given == list(range(len(seconds)))
    assert bool(given) == shared
    assert not shared or len(given) > 85


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_the_first_error_stops_all_and_is_raised(workers: int) -> None:
    done = []

    def work(item: int) -> None:
        if item == 3:
            raise ValueError(item)
        done.append(item)

    with pytest.raises(ValueError, match="3"):
        threads.run(work, range(10_000), workers)
    assert len(done) < 10_000


def test_an_interrupt_while_helpers_work_waits_for_them() -> None:
    """They use what the caller gives up after it: a descriptor, a lock."""
    begun, interrupted, late = threading.Event(), [], []

    def work(number: int) -> None:
        if threading.current_thread() is threading.main_thread():
            begun.wait(60)
            interrupted.append(number)
            raise KeyboardInterrupt
        begun.set()
        time.sleep(0.3)
        late.append(number)

    with pytest.raises(KeyboardInterrupt):
        threads.run(work, range(50), 2)
    assert len(interrupted) == len(late) == 1
    done: list[int] = []
    threads.run(done.append, range(50), 3)
    assert sorted(done) == list(range(50))


def _read_and_write() -> None:
    for lock in (*CHUNK_LOCKS._locks, TABLES):
        assert lock.acquire(blocking=False)
        lock.release()
    metadata = ArrayMetadata((4,), data_type_for("int32"), RegularGrid((4,)), fill_value=np.int32(-1))
    array = Array(MemoryStore(), "v", metadata)
    array.write((slice(1, 2),), [5])
    assert array.read(...).tolist() == [-1, 5, -1, -1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_wait_for_threads_that_are_not_there() -> None:
    """Another thread may be in the middle of a chunk when a process is forked."""
    held, forked = threading.Event(), threading.Event()

    def hold() -> None:
        with ExitStack() as stack:
            for lock in (*CHUNK_LOCKS._locks, TABLES):
                stack.enter_context(lock)
            held.set()
            forked.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    process = multiprocessing.get_context("fork").Process(target=_read_and_write)
    process.start()
    forked.set()
    process.join()
    thread.join()
    assert process.exitcode == 0
