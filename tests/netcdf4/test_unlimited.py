"""Grow unlimited dimensions by every kind of index, and read the other variables."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr.netcdf4 as ours
from nczarr.mapping import open_dataset

Same = Callable[[Callable[[Any, str, Any], None]], None]

STEPS: dict[str, list[tuple[Any, Any]]] = {
    "integers": [(0, 1), (3, 2), (-1, 9)],
    "one array": [(slice(None), np.arange(5))],
    "a shorter one": [(slice(None), np.arange(5)), (slice(None), np.arange(2) + 10)],
    "a longer one": [(slice(None), np.arange(2)), (slice(None), np.arange(5) + 10)],
    "scalar into nothing": [(slice(None), 7)],
    "scalar into something": [(2, 1), (slice(None), 7)],
    "open start": [(slice(2, None), np.arange(3))],
    "stop behind": [(slice(1, 4), [1, 2, 3])],
    "stop behind scalar": [(slice(1, 4), 5)],
    "step": [(slice(0, 6, 2), [1, 2, 3])],
    "positions": [([0, 2, 5], [1, 2, 3])],
    "booleans": [(np.array([True, False, True]), [1, 2])],
    "append": [(0, 1), (1, 2), (2, 3), (slice(3, 5), [4, 5])],
    "empty": [(slice(0, 0), np.array([], "i4")), (slice(None), [])],
    "ellipsis": [(Ellipsis, [1, 2, 3])],
    "masked": [(slice(None), np.ma.array([1, 2], mask=[1, 0]))],
    "negative outside": [(-1, 2)],
    "list data": [(slice(None), [1, 2, 3])],
}


@pytest.mark.parametrize(
    ("dtype", "case"),
    # netCDF4-python stumbles over single texts at positions.
    [(dtype, case) for dtype in ("i4", str) for case in STEPS if (dtype, case) != (str, "positions")],
)
def test_growth_in_one_dimension(same: Same, case: str, dtype: Any) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("t", None)
            ds.createDimension("x", 2)
            v = ds.createVariable("v", dtype, ("t",))
            other = ds.createGroup("g").createVariable("other", "f4", ("x", "t"))
            for index, data in STEPS[case]:
                if dtype is str:
                    data = (
                        np.array([str(d) for d in np.atleast_1d(np.asarray(data))], object)
                        if np.ndim(data)
                        else str(data)
                    )
                log.assign(v, index, data)
                log(v.shape, other.shape, ds.dimensions["t"].size)
            log(other[:])
        with nc.Dataset(path) as ds:
            log(ds["v"][:], ds["g/other"][:], ds.dimensions["t"].size, ds.dimensions["t"].isunlimited())

    same(script)


def test_two_unlimited_dimensions(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("t")
            ds.createDimension("u")
            ds.createDimension("x", 2)
            v = ds.createVariable("v", "i2", ("t", "x", "u"))
            log.assign(v, (0, 0, 0), 1)
            log.assign(v, (slice(0, 2), slice(None), slice(0, 3)), np.arange(12).reshape(2, 2, 3))
            log.assign(v, (1, 1), [7, 8, 9, 10])
            log.assign(v, (3, slice(None), 1), [5, 6])
            log.assign(v, (slice(None), 0, slice(1, 2)), 4)
            log.assign(v, slice(None), np.ones((2, 2, 2)))
            log(v.shape)

    same(script)


def test_appending_when_open_again(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("t")
            v = ds.createVariable("v", "f8", ("t",), zlib=True)
            w = ds.createVariable("w", "i4", ("t",), fill_value=-1)
            v[:] = np.arange(3)
        for mode in ("a", "r+"):
            with nc.Dataset(path, mode) as ds:
                v, w = ds["v"], ds["w"]
                n = len(ds.dimensions["t"])
                v[n : n + 2] = [10, 11]
                w[n] = 5
                ds.sync()
                log(v[:], w[:])
        with nc.Dataset(path) as ds:
            log(ds["v"][:], ds["w"][:], ds["v"].shape)

    same(script)


@pytest.mark.slow
def test_readers_in_the_process_see_what_was_written(tmp_path: Any) -> None:
    path = tmp_path / "live.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("t")
        v = ds.createVariable("v", "i4", ("t",))
        v[:] = [1, 2]
        ds.sync()
        with ours.Dataset(path) as reader:
            assert reader["v"][:].tolist() == [1, 2]
        v[2] = 3
        with open_dataset(str(path)) as stored:  # as another process sees it
            assert stored.dataset.dimension_at("/t").size == 2
        with ours.Dataset(path) as reader:
            assert reader["v"].shape == (3,)
            assert reader["v"][:].tolist() == [1, 2, 3]


def test_far_away_index_is_cheap() -> None:
    target: dict[str, bytes] = {}
    with ours.Dataset(target, "w") as ds:
        ds.createDimension("t")
        v = ds.createVariable("v", "u1", ("t",))
        v[2**31] = 7
        assert v.shape == (2**31 + 1,)
        assert v[2**31 - 1 :].tolist() == [None, 7]
    assert sum(map(len, target.values())) < 1_000_000


def test_many_variables_are_made_and_filled_in_turn() -> None:
    """The metadata are not written once for each variable."""
    target: dict[str, bytes] = {}
    with ours.Dataset(target, "w") as ds:
        ds.createDimension("x", 2)
        calls = []
        update = ds._nc_session.stored.update
        ds._nc_session.stored.update = lambda d: (calls.append(1), update(d))[1]  # type: ignore[method-assign]
        for i in range(200):
            ds.createVariable(f"v{i}", "i4", ("x",))[:] = i
        assert len(calls) <= 1
        assert ds["v7"][:].tolist() == [7, 7]
    assert len(calls) <= 2
    with ours.Dataset(target) as ds:
        assert [int(v[0]) for v in ds.variables.values()] == list(range(200))


def test_many_threads_write_and_append() -> None:
    target: dict[str, bytes] = {}
    with ours.Dataset(target, "w") as ds:
        ds.createDimension("t")
        ds.createDimension("x", 3)
        variables = [ds.createVariable(f"v{i}", "i4", ("t", "x")) for i in range(4)]
        ds.sync()

        def work(step: int) -> None:
            for i, v in enumerate(variables):
                v[step] = 10 * step + i

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(40)))
    with ours.Dataset(target) as ds:
        for i in range(4):
            assert ds[f"v{i}"][:, 1].tolist() == [10 * step + i for step in range(40)]


def test_held_back_values_do_not_follow_the_program(tmp_path: Any) -> None:
    values = np.arange(3)
    with ours.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 3)
        v = ds.createVariable("v", "i8", ("x",))
        v[:] = values
        values[:] = 9
        assert v[:].tolist() == [0, 1, 2]


@pytest.mark.parametrize(("groups", "replaced"), [(1, 21), (4, 7)])
def test_a_step_replaces_the_documents_of_the_variables_with_its_dimension(
    groups: int, replaced: int, tmp_path: Path
) -> None:
    """The pages on appending tell this cost of a sync, and that groups with dimensions of their own cut it."""
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as dataset:
        parts = [dataset.createGroup(f"g{number}") for number in range(groups)] if groups > 1 else [dataset]
        for part in parts:
            part.createDimension("time", None)
            for number in range(20 // groups):
                part.createVariable(f"v{number}", "f4", ("time",))[0] = 1
    documents = sorted(path.rglob("zarr.json"))
    with ours.Dataset(path, "a") as dataset:
        before = [document.stat().st_ino for document in documents]
        part = dataset["g2"] if groups > 1 else dataset
        part["v3"][1] = 2
        dataset.sync()
        after = [document.stat().st_ino for document in documents]
    assert sum(old != new for old, new in zip(before, after, strict=True)) == replaced
