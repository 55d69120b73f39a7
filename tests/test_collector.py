"""Pausing the garbage collector: nested, in several threads, and where it is off already; closing what it drops."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from nczarr.collector import paused_collector
from nczarr.zarr import pool


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_it_goes_on_after_the_last() -> None:
    with paused_collector():
        assert not gc.isenabled()
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), paused_collector():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_what_was_off_stays_off() -> None:
    gc.disable()
    with paused_collector():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_threads_wait_for_each_other() -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with paused_collector():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=work)
    with paused_collector():
        thread.start()
        inside.wait()
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


DROPPED_IN_A_POOL = """
import concurrent.futures.thread as futures
import gc, sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import nczarr

gc.disable()  # now is when we say so


def drop(path):
    ds = nczarr.Dataset(path, "w")
    ds.createDimension("x", 1 << 20)
    ds.createVariable("v", "f8", ("x",), chunksizes=(1 << 17,))[3:-3] = 5
    kept = [ds]
    kept.append(kept)


class Collecting(futures._base.Future):
    def __init__(self):
        gc.collect()
        super().__init__()


futures._base.Future = Collecting
for path in sys.argv[1:]:
    drop(path)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
    with nczarr.Dataset(path) as ds:
        print(ds["v"][3:-3].min())
"""


def test_what_is_dropped_while_work_is_given_to_a_pool_is_closed_without_one(tmp_path: Path) -> None:
    """The thread has the lock of all pools then, and would wait for itself."""
    places = [str(tmp_path / "a.zarr"), str(tmp_path / "a.zarr.zip"), str(tmp_path / "a.nc")]
    done = subprocess.run(
        [sys.executable, "-c", DROPPED_IN_A_POOL, *places],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout.split() == ["5.0"] * 3, done.stderr


def test_nothing_is_collected_while_work_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Looking(Future):  # type: ignore[type-arg]
        def __init__(self) -> None:
            seen.append(gc.isenabled())
            super().__init__()

    pool.run(lambda _: None, range(3), 3)  # begins its threads
    monkeypatch.setattr("concurrent.futures.thread._base.Future", Looking)
    pool.run(lambda _: None, range(3), 3)
    assert seen == [False, False]
    assert gc.isenabled()
