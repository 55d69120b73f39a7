"""Threads that switch at locks, at requests to the store and between instructions lose no change.

A removed lock of the tree or the cache fails here. A seed decides the switches, so a failure repeats.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from lock_order import Schedule

import nczarr.netcdf4 as ours
from nczarr.errors import EditError
from nczarr.model import INT, Attribute, EnumType, Storage
from nczarr.session import GroupNode
from nczarr.session.chunk_cache import ChunkCache
from nczarr.session.errors import Failures
from nczarr.stores import MemoryStore

THREADS, STEPS = 3, 3


class SwitchingStore(MemoryStore):
    """A store at each of whose requests another thread may go on."""

    def get(self, key: str) -> bytes | None:
        Schedule.point()
        return super().get(key)

    def set(self, key: str, data: Any) -> None:
        Schedule.point()
        super().set(key, data)


@pytest.fixture(autouse=True)
def _no_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads of the pool are in no schedule."""
    monkeypatch.setattr("nczarr.zarr.pool._WORKERS", 1)


def number(name: str) -> Attribute:
    return Attribute(name, INT, np.array([1], "i4"))


def prepared(root: GroupNode) -> None:
    """A dataset with something for each thread and step to change."""
    x = root.add_dimension("x", 1, unlimited=True)
    for name in [f"{n}_{step}" for n in range(THREADS) for step in range(STEPS)]:
        root.add_dimension(f"d{name}", 1, unlimited=True)
        root.add_variable(f"v{name}", INT, (x,), Storage(), {})
        root.add_group(f"g{name}")
        root.set_attribute(number(f"a{name}"))


#: What each thread does in each step, and how many changes, and changes of the structure, it counts.
CHANGES: dict[str, tuple[Callable[[GroupNode, str], object], int, int]] = {
    "add_dimension": (lambda root, name: root.add_dimension(name, 1, unlimited=True), 1, 1),
    "add_group": (lambda root, name: root.add_group(name), 1, 1),
    "add_type": (lambda root, name: root.add_type(EnumType(f"/{name}", INT, (("a", 1),))), 1, 1),
    "add_variable": (lambda root, name: root.add_variable(name, INT, (), Storage(), {}), 1, 1),
    "grow": (lambda root, name: root.dimensions[f"d{name[1:]}"].grow(7), 1, 0),
    "set_attribute": (lambda root, name: root.set_attribute(number(name)), 1, 1),
    "delete_attribute": (lambda root, name: root.delete_attribute(f"a{name[1:]}"), 1, 1),
    "rename_attribute": (lambda root, name: root.rename_attribute(f"a{name[1:]}", name), 1, 1),
    "rename_dimension": (lambda root, name: root.rename_dimension(f"d{name[1:]}", name), 1, 1),
    "rename_variable": (lambda root, name: root.rename_variable(f"v{name[1:]}", name), 1, 1),
    "rename_group": (lambda root, name: root.rename_group(f"g{name[1:]}", name), 1, 1),
}


def names_of(root: GroupNode) -> set[str]:
    found = {*root.dimensions, *root.variables, *root.groups, *root.attributes}
    return found | {node.type.name for node in root.types}


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_of_the_tree_is_made_and_counted(change: str) -> None:
    do, changes, structures = CHANGES[change]
    for seed in range(4):
        with ours.Dataset({}, "w") as ds:
            root, tree = ds._nc_session.root, ds._nc_session.tree
            prepared(root)
            before, names = (tree.generation, tree.structure), names_of(root)

            def work(n: int, root: GroupNode = root) -> None:
                for step in range(STEPS):
                    do(root, f"n{n}_{step}")

            Schedule(seed, "session/tree.py", rate=0.2).run([partial(work, n) for n in range(THREADS)])
            done = THREADS * STEPS
            assert (tree.generation - before[0], tree.structure - before[1]) == (
                changes * done,
                structures * done,
            )
            new = {f"n{n}_{step}" for n in range(THREADS) for step in range(STEPS)}
            after = names_of(root)
            assert after - names == (set() if change in ("grow", "delete_attribute") else new)
            kept = len(names) - (done if change.startswith(("delete", "rename")) else 0)
            assert len(names & after) == kept


@pytest.mark.parametrize("kind", ["dimension", "group", "type", "variable", "renamed"])
def test_of_two_threads_one_gets_a_name(kind: str) -> None:
    for seed in range(6):
        with ours.Dataset({}, "w") as ds:
            root = ds._nc_session.root
            prepared(root)
            make: dict[str, Callable[[int], object]] = {
                "dimension": lambda _, root=root: root.add_dimension("n", 1, unlimited=False),
                "group": lambda _, root=root: root.add_group("n"),
                "type": lambda _, root=root: root.add_type(EnumType("/n", INT, (("a", 1),))),
                "variable": lambda _, root=root: root.add_variable("n", INT, (), Storage(), {}),
                "renamed": lambda n, root=root: root.rename_variable(f"v{n}_0", "n"),
            }
            refused: list[EditError] = []

            def work(n: int, kind: str = kind, make: Any = make, refused: Any = refused) -> None:
                try:
                    make[kind](n)
                except EditError as error:
                    refused.append(error)

            Schedule(seed, "session/tree.py", rate=0.2).run([partial(work, n) for n in range(2)])
            assert len(refused) == 1


def guarded(table: Any, lock: Any) -> Any:
    """A table that a thread changes and goes through only while it holds a lock.

    Such a step is one instruction where the interpreter has a lock of its own, and no switch comes inside it.
    """

    def checked(name: str) -> Callable[..., Any]:
        original = getattr(type(table), name)

        def method(self: Any, *arguments: Any) -> Any:
            assert lock._is_owned(), f"{name} without the lock of the cache"
            return original(self, *arguments)

        return method

    names = ("__setitem__", "__delitem__", "__iter__", "values", "pop", "clear")
    kind = type("Guarded", (type(table),), {name: checked(name) for name in names})
    with lock:
        return kind(table)


def check_counts(cache: Any, node: Any) -> None:
    """Nothing is pinned, and each number is that of the chunks in memory."""
    assert not list(dict.keys(cache._pins))
    assert cache.weight == sum(chunk.weight for chunk in dict.values(cache._blocks))
    known = cache.variable(node)
    assert known.blocks == len(cache._blocks)
    assert known.write_through_count == 0
    assert not any(chunk.evicted for chunk in dict.values(cache._blocks))


@pytest.mark.parametrize("bound", [40, 300, 1 << 20])
def test_the_cache_counts_its_chunks_and_loses_no_value(bound: int) -> None:
    """Single values, rows across chunks, whole chunks past the cache, reads and flushes at the same time."""
    for seed in range(8):
        ds = ours.Dataset(SwitchingStore(), "w")
        ds.createDimension("x", 24)
        v = ds.createVariable("v", "i4", ("x",), chunksizes=(6,), fill_value=-1)
        ds.sync()
        session, node = ds._nc_session, v._nc_node
        cache = session.cache
        cache.bound = bound
        for table in ("dirty", "_blocks", "_pins"):
            setattr(cache, table, guarded(getattr(cache, table), cache._lock))

        def write(at: slice, session: Any = session, node: Any = node) -> None:
            session.write(node, (at,), np.arange(at.start, at.stop, at.step, dtype="i4"))
            assert session.read(node, (at,)).tolist() == list(range(at.start, at.stop, at.step))

        def singles(write: Any = write) -> None:
            for place in (0, 5, 6, 11, 12, 17, 19):
                write(slice(place, place + 1, 1))

        def across(write: Any = write) -> None:
            for first in (1, 2, 3):
                write(slice(first, 17, 6))
            write(slice(18, 19, 1))

        def past(write: Any = write, session: Any = session, node: Any = node) -> None:
            write(slice(4, 17, 6))
            session.write(node, (slice(20, 24, 1),), np.arange(20, 24, dtype="i4"))
            session.limit_cache(node, 0)
            write(slice(20, 24, 1))
            session.limit_cache(node, 24)

        def flush(cache: Any = cache) -> None:
            for _ in range(4):
                failures = Failures()
                cache.flush(failures)
                failures.raise_all("")

        Schedule(seed, "session/chunk_cache.py", rate=0.05).run([singles, across, past, flush])
        check_counts(cache, node)
        cache.change_again(cache.changed)
        cache.recover()
        assert v[:].tolist() == list(range(24))
        ds.close()


def test_writes_past_the_cache_are_counted() -> None:
    """A count that stays too high would keep all later writes out of the cache; one below zero, other writers in."""
    for seed in range(6):
        ds = ours.Dataset({}, "w")
        ds.createDimension("x", 6)
        v = ds.createVariable("v", "i4", ("x",), chunksizes=(2,))
        ds.sync()
        session, node = ds._nc_session, v._nc_node

        def write(n: int, session: Any = session, node: Any = node) -> None:
            at = slice(2 * n, 2 * n + 2)
            for _ in range(3):
                session.cache.write(node, (at,), np.full(2, n, "i4"))

        session.cache.bound = 0
        Schedule(seed, "session/chunk_cache.py", rate=0.4).run([partial(write, n) for n in range(3)])
        check_counts(session.cache, node)
        assert v[:].tolist() == [0, 0, 1, 1, 2, 2]
        ds.close()


def test_memory_for_the_last_chunks_of_growing_variables_is_counted() -> None:
    for seed in range(6):
        ds = ours.Dataset({}, "w")
        ds.createDimension("t")
        nodes = [ds.createVariable(f"v{n}", "i4", ("t",), chunksizes=(2,))._nc_node for n in range(3)]
        ds.sync()
        cache = ds._nc_session.cache

        def write(node: Any, session: Any = ds._nc_session) -> None:
            session.extend(node.dimensions[0], 1)
            session.write(node, (slice(0, 1),), np.ones(1, "i4"))

        Schedule(seed, "session/chunk_cache.py", rate=0.4).run([partial(write, node) for node in nodes])
        assert cache._reserved == sum(cache._growing.values()) == 3 * 8
        ds.close()


class InHalves(np.ndarray):
    """Values that are written in two steps, as every build without the lock of the interpreter may write them."""

    def __setitem__(self, index: Any, values: Any) -> None:
        whole = np.ndarray.__getitem__(self, index)
        half = len(whole) // 2
        np.ndarray.__setitem__(whole, slice(None, half), values[:half])
        Schedule.point()
        np.ndarray.__setitem__(whole, slice(half, None), values[half:])


def test_a_read_sees_no_half_of_a_write() -> None:
    for seed in range(8):
        ds = ours.Dataset({}, "w")
        ds.createDimension("x", 6)
        v = ds.createVariable("v", "i4", ("x",), chunksizes=(6,), fill_value=0)
        ds.sync()  # values of a new variable wait outside of the cache
        v[:5] = 0
        session, node = ds._nc_session, v._nc_node
        (chunk,) = session.cache._blocks.values()
        chunk.values = chunk.values.view(InHalves)
        seen: list[list[int]] = []

        def write(session: Any = session, node: Any = node) -> None:
            for n in range(1, 4):
                session.write(node, (slice(0, 4, 1),), np.full(4, n, "i4"))

        def read(session: Any = session, node: Any = node, seen: Any = seen) -> None:
            seen += [np.asarray(session.read(node, (slice(0, 4, 1),))).tolist() for _ in range(6)]

        Schedule(seed, rate=0).run([write, read])
        assert all(len(set(values)) == 1 for values in seen), seen
        ds.close()


def test_an_eviction_drops_no_chunk_that_a_thread_is_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pins guard it: a read would find the older chunk of the store."""
    loaded = ChunkCache._loaded
    monkeypatch.setattr(ChunkCache, "_loaded", lambda *given: loaded(*given).view(InHalves))
    for seed in range(20):
        ds = ours.Dataset(SwitchingStore(), "w")
        ds.createDimension("x", 16)
        v = ds.createVariable("v", "i4", ("x",), chunksizes=(8,), fill_value=-1)
        v[:] = -1
        ds.sync()
        session, node = ds._nc_session, v._nc_node
        session.cache.bound = 16  # less than one chunk: each write evicts

        def write(first: int, session: Any = session, node: Any = node) -> None:
            for place in (first, first + 8, first):
                at = (slice(place, place + 2, 1),)
                session.write(node, at, np.array([place, place + 1], "i4"))
                assert session.read(node, at).tolist() == [place, place + 1]

        Schedule(seed, rate=0).run([partial(write, first) for first in range(0, 8, 2)])
        check_counts(session.cache, node)
        assert v[:].tolist() == list(range(16))
        ds.close()
