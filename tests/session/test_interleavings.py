"""Threads that pause between any two instructions of the tree and the cache lose no change."""

from __future__ import annotations

import threading
from collections.abc import Callable

import lock_order
import numpy as np
import pytest

import nczarr.netcdf4 as ours


def together(works: list[Callable[[], None]]) -> None:
    """Run functions in threads of their own, and raise the first error."""
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("seed", range(3))
def test_each_change_of_the_tree_is_counted(seed: int) -> None:
    with ours.Dataset({}, "w") as ds:
        root, session = ds._nc_session.root, ds._nc_session
        before = session.tree.generation, session.tree.structure

        def declare(number: int) -> None:
            for step in range(8):
                root.add_dimension(f"d{number}_{step}", 1, unlimited=True).grow(step + 2)
                root.add_group(f"g{number}_{step}")

        with lock_order.switching(seed, "session/tree.py"):
            together([lambda n=n: declare(n) for n in range(4)])  # type: ignore[misc]
        assert (session.tree.generation - before[0], session.tree.structure - before[1]) == (96, 64)


@pytest.mark.parametrize("bound", [300, 1 << 20])
@pytest.mark.parametrize("seed", range(3))
def test_the_cache_counts_its_chunks_and_loses_no_value(seed: int, bound: int) -> None:
    with ours.Dataset({}, "w") as ds:
        ds.createDimension("x", 32)
        v = ds.createVariable("v", "i4", ("x",), chunksizes=(8,), fill_value=-1)
        ds.sync()
        session, node = ds._nc_session, v._nc_node
        cache = session.cache
        cache.bound = bound

        def write(first: int) -> None:
            for place in range(first, 32, 4):
                session.write(node, (slice(place, place + 1, 1),), np.array([place], "i4"))
                assert session.read(node, (slice(place, place + 1, 1),)).tolist() == [place]

        with lock_order.switching(seed, "session/chunk_cache.py"):
            together([lambda n=n: write(n) for n in range(4)])  # type: ignore[misc]
        assert not cache._pins
        assert cache.weight == sum(block.weight for block in cache._blocks.values())
        assert cache.variable(node).blocks == len(cache._blocks)
        assert cache.variable(node).write_through_count == 0
        assert v[:].tolist() == list(range(32))
