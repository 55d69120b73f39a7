"""One dataset used by many threads while its structure changes: nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import nczarr.netcdf4 as ours
from nczarr.netcdf4.classes.attributes import session_of

TRIALS = 10


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
        stored = session_of(ds).stored
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
