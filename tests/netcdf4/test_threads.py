"""One dataset used by many threads while its structure changes: nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr.netcdf4 as ours
from nczarr.netcdf4 import base as attributes

TRIALS = 10


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Let threads take turns after every few instructions, where there is an interpreter lock."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*actions: Callable[[], None]) -> None:
    """Run actions in threads that start at one moment; raise what one of them raised."""
    barrier = threading.Barrier(len(actions))

    def run(action: Callable[[], None]) -> None:
        barrier.wait()
        action()

    with ThreadPoolExecutor(len(actions)) as pool:
        for future in [pool.submit(run, action) for action in actions]:
            future.result()


def test_variables_are_made_and_written(tmp_path: Path) -> None:
    for trial in range(TRIALS):
        path = tmp_path / f"{trial}.zarr"
        with ours.Dataset(path, "w") as ds:
            ds.createDimension("x", 4)

            def work(name: str, ds: Any = ds) -> None:
                for i in range(8):
                    v = ds.createVariable(f"{name}{i}", "i4", ("x",))
                    v[:] = i
                    assert v[:].tolist() == [i] * 4

            together(*[lambda n=n: work(n) for n in "abcd"])  # type: ignore[misc]
        with ours.Dataset(path) as ds:
            assert {n: v[:].tolist() for n, v in ds.variables.items()} == {
                f"{n}{i}": [i] * 4 for n in "abcd" for i in range(8)
            }


def test_attributes_are_set_beside_sync(tmp_path: Path) -> None:
    for trial in range(TRIALS):
        path = tmp_path / f"{trial}.zarr"
        with ours.Dataset(path, "w") as ds:
            v = ds.createVariable("v", "i4")

            def set_attributes(owner: Any, name: str) -> None:
                for i in range(30):
                    owner.setncattr(f"{name}{i}", i)

            def sync(ds: Any = ds) -> None:
                for _ in range(10):
                    ds.sync()

            together(lambda ds=ds: set_attributes(ds, "a"), lambda v=v: set_attributes(v, "b"), sync)  # type: ignore[misc]
        with ours.Dataset(path) as ds:
            assert sorted(ds.ncattrs()) == sorted(f"a{i}" for i in range(30))
            assert sorted(ds["v"].ncattrs()) == sorted(f"b{i}" for i in range(30))


def test_a_change_during_the_store_s_update_is_stored_later(tmp_path: Path) -> None:
    """What is changed exactly while the metadata are written belongs to the next flush."""
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createVariable("v", "i4")
        stored = ds._nc_session.stored
        update = stored.update

        def late(dataset: Any) -> None:
            with ThreadPoolExecutor(1) as pool:  # another thread does not wait for the store
                pool.submit(ds.setncattr, "late", 1).result()
                pool.submit(ds.createDimension, "d", 3).result()
                pool.submit(ds.createVariable, "w", "i4").result()
            update(dataset)

        stored.update = late  # type: ignore[method-assign]
        ds.sync()
        stored.update = update  # type: ignore[method-assign]
    with ours.Dataset(path) as ds:
        assert (ds.late, len(ds.dimensions["d"]), list(ds.variables)) == (1, 3, ["v", "w"])


def test_renames_beside_reads_and_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("x", 64)
        v = ds.createVariable("v0", "i4", ("x",), chunksizes=(4,))
        w = ds.createVariable("w", "i4", ("x",), chunksizes=(4,))
        v[:] = np.arange(64)
        w[:] = 0
        ds.sync()
        done = threading.Event()

        def rename() -> None:
            for i in range(15):
                ds.renameVariable(f"v{i}", f"v{i + 1}")
            done.set()

        def read() -> None:
            while not done.is_set():
                assert v[:].tolist() == list(range(64))

        def write() -> None:
            for i in range(64):
                w[i] = i

        together(rename, read, write)
    with ours.Dataset(path) as ds:
        assert list(ds.variables) == ["v15", "w"]
        assert ds["v15"][:].tolist() == ds["w"][:].tolist() == list(range(64))


def test_growth_beside_sync(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("t")
        variables = [ds.createVariable(f"v{i}", "i4", ("t",), chunksizes=(8,)) for i in range(3)]

        def append(v: Any) -> None:
            for i in range(60):
                v[i] = i

        def sync() -> None:
            for _ in range(10):
                ds.sync()

        together(sync, *[lambda v=v: append(v) for v in variables])  # type: ignore[misc]
    with ours.Dataset(path) as ds:
        assert [v[:].tolist() for v in ds.variables.values()] == [list(range(60))] * 3


@pytest.mark.parametrize("kind", ["variables", "groups", "dimensions"])
@pytest.mark.parametrize("way", [iter, dict.keys, dict.values, dict.items], ids=str)
def test_what_is_gone_through_is_what_was_there(kind: str, way: Callable[[Any], Any]) -> None:
    with ours.Dataset({}, "w") as ds:

        def make(name: str) -> None:
            ds.createDimension(name, 1)
            ds.createVariable(name, "i4")
            ds.createGroup("g" + name)

        make("a")
        make("b")
        named = getattr(ds, kind)
        going = iter(named) if way is iter else iter(getattr(named, way.__name__)())
        next(going)
        make("c")
        assert len(list(going)) == 1
        assert len(list(iter(named))) == len(named.values()) == len(dict(named)) == 3


def test_vars_while_attributes_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with ours.Dataset({}, "w") as ds:
        ds.setncatts({"a": 1, "b": 2})
        value = attributes.attribute_value

        def late(attribute: Any, *args: Any) -> Any:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(ds.setncattr, "late", 3).result()
            return value(attribute, *args)

        monkeypatch.setattr(attributes, "attribute_value", late)
        assert list(vars(ds)) == ["a", "b"]


@pytest.mark.usefixtures("many_switches")
def test_groups_on_the_way_are_made_once() -> None:
    with ours.Dataset({}, "w") as ds:

        def work(name: str) -> None:
            for i in range(100):
                ds.createGroup(f"g{i}/h/{name}")

        together(*[lambda n=n: work(n) for n in "abcd"])  # type: ignore[misc]
        assert len(ds.groups) == 100
        assert {frozenset(g["h"].groups) for g in ds.groups.values()} == {frozenset("abcd")}


@pytest.mark.usefixtures("many_switches")
def test_the_dimension_of_complex_pairs_is_made_once() -> None:
    for _ in range(TRIALS):
        with ours.Dataset({}, "w", auto_complex=True) as ds:
            ds.createDimension("x", 2)

            def work(name: str, ds: Any = ds) -> None:
                ds.createVariable(name, "c16", ("x",))[:] = 1j

            together(*[lambda n=n: work(n) for n in "abcdefgh"])  # type: ignore[misc]
            assert {tuple(v[:].tolist()) for v in ds.variables.values()} == {(1j, 1j)}


DROPPED = """
import gc, sys
import numpy as np
import nczarr
from nczarr.zarr.chunks.chunks import CHUNK_LOCKS, CHUNKS

gc.disable()  # now is when we say so
del CHUNK_LOCKS._locks[1:]  # all chunks share one


class Collecting(dict):
    def __setitem__(self, key, value):
        gc.collect()
        super().__setitem__(key, value)


def drop(store):
    with nczarr.Dataset(store, "w") as ds:
        ds.createDimension("x", 8)
        ds.createVariable("v", "i4", ("x",), chunksizes=(8,))[:] = 1
    ds = nczarr.Dataset(store, "a")
    ds["v"][:2]
    ds["v"][2:4] = 5


first, second, third = {}, {}, Collecting()
drop(first)
CHUNKS.forget(lambda name: gc.collect() < 0)
drop(second)
with nczarr.Dataset(third, "w") as ds:
    ds.createDimension("x", 8)
    v = ds.createVariable("v", "i4", ("x",), chunksizes=(4,))
    v[:] = 7
    ds.sync()
    drop(first)
    v[1:6] = 8
for store in first, second, third:
    with nczarr.Dataset(store) as ds:
        print(ds["v"][:].tolist())
"""


WEAKLY_HELD = """
import gc, sys
import nczarr
from nczarr.zarr.chunks.array import Array

gc.disable()  # now is when we say so
path = sys.argv[1]
with nczarr.Dataset(path, "w") as ds:
    ds.createDimension("x", 8)
    ds.createVariable("v", "i4", ("x",))[:] = 1
    ds.createVariable("w", "i4", ("x",))[:] = 2
ds = nczarr.Dataset(path, "a", keepweakref=True)
v, w = ds["v"], ds["w"]
v[2:4] = 5
circle = [ds]
circle.append(circle)
del ds, circle
read = Array.read
Array.read = lambda *args, **kwargs: (gc.collect(), read(*args, **kwargs))[1]
print(w[:].tolist(), v[:].tolist())
"""


def test_a_dataset_may_be_dropped_while_a_variable_that_does_not_keep_it_reads(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WEAKLY_HELD, str(tmp_path / "a.zarr")],
        capture_output=True,
        text=True,
        check=False,
    )
    changed = [1, 1, 5, 5, 1, 1, 1, 1]
    assert done.stdout.strip() == f"{[2] * 8} {changed}", done.stderr
    with ours.Dataset(tmp_path / "a.zarr") as ds:
        assert ds["v"][:].tolist() == changed


def test_the_collector_may_close_a_dataset_while_this_thread_is_at_work() -> None:
    """Both need the same locks; whoever waits for itself waits for ever."""
    done = subprocess.run([sys.executable, "-c", DROPPED], capture_output=True, text=True, check=False)
    changed = [1, 1, 5, 5, 1, 1, 1, 1]
    assert done.stdout.split("\n")[:3] == [str(changed)] * 2 + [str([7] + [8] * 5 + [7] * 2)], done.stderr


DROPPED_IN_A_HELPER = """
import gc, sys, threading
import numpy as np
import nczarr
from nczarr.zarr.chunks import write

gc.disable()  # now is when we say so
folder = sys.argv[1]
collected = threading.Event()


def encode(*args):
    if threading.current_thread() is threading.main_thread():
        collected.wait(60)
    else:
        gc.collect()
        collected.set()
    return real(*args)


def drop():
    ds = nczarr.Dataset(f"{folder}/dropped.zarr", "w")
    ds.createDimension("x", 1000)
    v = ds.createVariable("v", "i4", ("x",), chunksizes=(10,))
    v[:] = 1
    ds.sync()
    v[3:998] = 2
    cycle = [ds]
    cycle.append(cycle)


with nczarr.Dataset(f"{folder}/a.zip", "w") as ds:
    ds.createDimension("x", 100_000)
    v = ds.createVariable("v", "f8", ("x",), chunksizes=(100,))
    ds.sync()
    drop()
    real, write.encode_chunk = write.encode_chunk, encode
    v[:] = 7  # locks about all chunks, and waits for threads that encode them
assert collected.is_set()
with nczarr.Dataset(f"{folder}/a.zip") as ds, nczarr.Dataset(f"{folder}/dropped.zarr") as dropped:
    assert np.all(ds["v"][:] == 7)
    assert dropped["v"][:].tolist() == [1] * 3 + [2] * 995 + [1] * 2
"""


def test_the_collector_may_close_a_dataset_in_a_thread_that_another_one_waits_for(tmp_path: Path) -> None:
    """That one has locked the chunks that it writes; those of the dropped dataset are no business of its locks."""
    environment = {**os.environ, "NCZARR_THREADS": "3"}
    command = [sys.executable, "-c", DROPPED_IN_A_HELPER, str(tmp_path)]
    subprocess.run(command, check=True, env=environment)


OUTLIVING = """
import sys, threading, time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import nczarr.netcdf4 as netCDF4

path, kind, opened = sys.argv[1:]


def make():
    global ds
    ds = netCDF4.Dataset(path, "w")
    ds.createDimension("x", 200_000)
    return ds.createVariable("v", "f8", ("x",), chunksizes=(50_000,))


def work():
    while not threading._SHUTTING_DOWN:
        time.sleep(0.01)
    time.sleep(0.3)
    v = variable or make()
    v[:] = np.arange(200_000)
    v[7] = 5  # a part of a chunk waits for its rest


variable = make() if opened == "before" else None
if kind == "thread":
    threading.Thread(target=work).start()
else:
    ThreadPoolExecutor(1).submit(work).add_done_callback(lambda done: done.result())
"""


@pytest.mark.slow
@pytest.mark.parametrize("opened", ["before", "after"])
@pytest.mark.parametrize("kind", ["thread", "pool"])
def test_a_thread_that_outlives_the_main_one_writes(tmp_path: Path, kind: str, opened: str) -> None:
    """Python waits for it; the datasets that were open were closed before."""
    path = tmp_path / "a.zarr"
    command = [sys.executable, "-c", OUTLIVING, str(path), kind, opened]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    with ours.Dataset(path) as ds:
        assert ds["v"][:10].tolist() == [0, 1, 2, 3, 4, 5, 6, 5, 8, 9]
        assert ds["v"][-1] == 199_999
