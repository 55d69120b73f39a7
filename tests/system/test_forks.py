"""A forked child finds all locks free, and the parent's writable datasets closed."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sysconfig
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nczarr
from nczarr.errors import NCZarrError
from nczarr.system import finalizing
from nczarr.system.forks import Origin, in_forked_child
from nczarr.system.locks import TABLES, Rank, make_lock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

ROUNDS = 40


#: Seconds after which a child is said to wait for ever.
PATIENCE = 120


def in_child(work: Callable[[], object]) -> int:
    """Do something in a forked child; 0 if it went well. One that does not end says where it stands, and dies."""
    process = os.fork()
    if process == 0:
        try:
            work()
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
        os._exit(0)
    killer = threading.Timer(PATIENCE, os.kill, (process, signal.SIGABRT))
    killer.start()
    try:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    finally:
        killer.cancel()


def test_functions_are_called_and_origins_differ() -> None:
    origin, calls = Origin(), []
    in_forked_child(lambda: calls.append(1))

    def work() -> None:
        assert (origin.is_here, calls) == (False, [1])
        assert Origin().is_here
        assert pickle.loads(pickle.dumps(origin)).is_here

    assert in_child(work) == 0
    assert (origin.is_here, calls) == (True, [])


def test_locks_of_other_threads_are_free_in_the_child(tmp_path: Path) -> None:
    lock = make_lock(Rank.SESSION)
    taken, ended = threading.Event(), threading.Event()

    def take() -> None:
        with lock, TABLES:
            taken.set()
            ended.wait()

    def work() -> None:
        assert lock.acquire(blocking=False)
        lock.release()
        nczarr.Dataset(tmp_path / "b.zarr", "w").close()

    thread = threading.Thread(target=take)
    thread.start()
    taken.wait()
    try:
        assert in_child(work) == 0
    finally:
        ended.set()
        thread.join()


def test_the_forking_thread_keeps_its_locks() -> None:
    lock = make_lock(Rank.STORE)
    with lock:
        assert in_child(lock.release) == 0


def test_a_writable_dataset_is_closed_to_the_child(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        variable = ds.createVariable("v", "i4")
        variable[...] = 5

        def work() -> None:
            for action in (
                lambda: variable[...],
                lambda: ds.setncattr("a", 1),
                ds.sync,
            ):
                with pytest.raises(NCZarrError, match=r"before the fork.*\(open it again"):
                    action()
            ds.close()
            assert not ds.isopen()

        assert in_child(work) == 0
        assert variable[...] == 5


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_stays_as_it_was(on: bool) -> None:
    def work() -> None:
        assert gc.isenabled() == on

    (gc.enable if on else gc.disable)()
    try:
        assert in_child(work) == 0
        assert gc.isenabled() == on
    finally:
        gc.enable()


def test_a_child_leaves_what_the_parent_has_dropped(tmp_path: Path) -> None:
    """The parent writes it, at the next opening."""

    def drop() -> None:
        ds = nczarr.Dataset(tmp_path / "a.zarr", "w")
        ds.createDimension("x", 3)
        ds.createVariable("v", "i4", ("x",))[:] = 7

    drop()
    gc.collect()
    assert in_child(finalizing._close_all) == 0
    with nczarr.Dataset(tmp_path / "a.zarr") as ds:
        assert ds["v"][:].tolist() == [7, 7, 7]


@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="without the interpreter lock, dictionaries have locks, which a child keeps as other threads had them",
)
def test_forks_beside_busy_threads(tmp_path: Path) -> None:
    """Children open, read and write while the parent's threads do, and end."""
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 16)
        for i in range(20):
            ds.createVariable(f"v{i}", "i4", ("x", "x"), chunksizes=(2, 2), shards=(4, 8))[:] = i
    with nczarr.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_CLASSIC") as ds:
        ds.createDimension("x", 16)
        ds.createVariable("v", "i4", ("x",))[:] = 7
    done, failed = threading.Event(), []
    shared = nczarr.Dataset(tmp_path / "a.zarr")

    def keep_busy(number: int) -> None:
        try:
            while not done.is_set():
                with nczarr.Dataset(tmp_path / "a.zarr") as ds:
                    assert int(ds[f"v{number}"][5, 5]) == number
                    assert int(shared[f"v{number}"][3, 3]) == number
                with nczarr.Dataset(tmp_path / f"{number}.zarr", "w") as ds:
                    ds.createDimension("x", 4)
                    ds.createVariable("v", "i4", ("x",))[1:3] = number
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=keep_busy, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()

    def work() -> None:
        assert gc.isenabled()
        assert np.all(shared["v9"][:] == 9)
        with nczarr.Dataset(tmp_path / "a.zarr") as ds:
            assert np.all(ds["v8"][:] == 8)
        with nczarr.Dataset(tmp_path / "a.nc") as ds:
            assert int(ds["v"][2]) == 7
        place = tmp_path / f"child-{os.getpid()}.zarr"
        with nczarr.Dataset(place, "w") as ds:
            ds.createDimension("x", 3)
            ds.createVariable("v", "i4", ("x",))[0] = 1
            ds.sync()
            ds["v"][1] = 2
        with nczarr.Dataset(place) as ds:
            assert ds["v"][:2].tolist() == [1, 2]

    try:
        codes = [in_child(work) for _ in range(ROUNDS)]
    finally:
        done.set()
        for thread in threads:
            thread.join()
        shared.close()
    assert not failed
    assert codes == [0] * ROUNDS
