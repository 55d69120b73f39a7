"""Test the chunk cache: reads return the written values, within its memory limit."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nczarr.netcdf4 as ours
from nczarr.session.chunk_cache import default_bytes

FILL = -99


@st.composite
def indices(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A slice, an integer, or increasing positions for each axis."""
    items: list[Any] = []
    for size in shape:
        kind = draw(st.sampled_from(["slice", "all", "integer", "positions"]))
        if kind == "integer":
            items.append(draw(st.integers(0, size - 1)))
        elif kind == "positions":
            items.append(sorted(draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=4))))
        elif kind == "slice":
            start = draw(st.integers(0, size - 1))
            items.append(slice(start, draw(st.integers(start + 1, size)), draw(st.integers(1, 3))))
        else:
            items.append(slice(None))
    return tuple(items)


def orthogonal(index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    return np.ix_(*[np.atleast_1d(np.arange(n)[i]) for i, n in zip(index, shape, strict=True)])


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_order_of_writes_and_reads(data: Any) -> None:
    """Against an array in memory: with caches of all sizes, growth, syncs and reopening in between."""
    chunks = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 5)))
    bound = data.draw(st.sampled_from([0, 1, 40, 100, 1 << 20]))
    dtype = data.draw(st.sampled_from(["i4", str]))
    empty: Any = FILL if dtype == "i4" else ""
    target: dict[str, bytes] = {}
    model = np.full((0, 7), empty, object)
    ds = ours.Dataset(target, "w")
    ds.createDimension("t")
    ds.createDimension("x", 7)
    fill = {"fill_value": FILL} if dtype == "i4" else {}
    ds.createVariable("v", dtype, ("t", "x"), chunksizes=chunks, **fill).set_auto_mask(False)
    ds._nc_session.cache.bound = bound
    try:
        for step in range(data.draw(st.integers(1, 12))):
            v = ds["v"]
            action = data.draw(st.sampled_from(["write", "write", "write", "grow", "read", "sync", "reopen"]))
            if action == "grow" or not len(model):
                length = len(model) + data.draw(st.integers(1, 5))
                grown = np.full((length, 7), empty, object)
                grown[: len(model)] = model
                model = grown
                model[-1, 3] = step if dtype == "i4" else str(step)
                v[length - 1, 3] = model[-1, 3]
            elif action == "write":
                index = data.draw(indices(model.shape))
                where = orthogonal(index, model.shape)
                count = model[where].size
                values = np.array([100 * step + i for i in range(count)], object)
                if dtype is str:
                    values = np.array([str(x) for x in values], object)
                values = values.reshape(model[where].shape)
                model[where] = values
                v[tuple([i] if isinstance(i, int) else i for i in index)] = (
                    values.astype("i4") if dtype == "i4" else values
                )
            elif action == "read":
                index = data.draw(indices(model.shape))
                got = np.asarray(v[index]).reshape(-1).tolist()
                assert got == model[orthogonal(index, model.shape)].reshape(-1).tolist()
            elif action == "sync":
                ds.sync()
                with ours.Dataset(target) as reader:
                    reader.set_auto_mask(False)
                    assert reader["v"][:].tolist() == model.tolist()
            else:
                ds.close()
                ds = ours.Dataset(target, "a")
                ds.set_auto_mask(False)
                ds._nc_session.cache.bound = bound
            cache = ds._nc_session.cache
            assert cache.weight == sum(b.weight for b in cache._blocks.values())
            assert cache.variable(ds["v"]._nc_node).blocks == len(cache._blocks)
        assert ds["v"][:].tolist() == model.tolist()
    finally:
        ds.close()
    with ours.Dataset(target) as ds:
        ds.set_auto_mask(False)
        assert ds["v"][:].tolist() == model.tolist()


class Counting(dict[str, bytes]):
    """A store that counts how often chunks are written, and knows what was read."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.gets: list[str] = []

    def __getitem__(self, key: str) -> bytes:
        self.gets.append(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.gets.append(key)
        return super().get(key, default)

    def __setitem__(self, key: str, value: bytes) -> None:
        self.writes += "/c/" in key or key.endswith("/c")
        super().__setitem__(key, value)


@pytest.fixture
def store() -> Counting:
    return Counting()


@pytest.mark.parametrize("width", [4, 2000])
def test_a_chunk_is_written_once(store: Counting, width: int) -> None:
    """Large ones as soon as they are full, small ones together."""
    large = width > 4
    with ours.Dataset(store, "w") as ds:
        ds.createDimension("t")
        ds.createDimension("x", width)
        v = ds.createVariable("v", "i4", ("t", "x"), chunksizes=(20, width), zlib=True)
        ds.sync()
        for i in range(60):
            v[i] = i
        assert store.writes == (3 if large else 0)
        v[60] = 1
        assert store.writes == (3 if large else 0)
        ds.sync()
        assert store.writes == 4
        ds.sync()
        assert store.writes == 4
    with ours.Dataset(store) as ds:
        assert ds["v"][:, 1].tolist() == [*range(60), 1]


def test_small_whole_chunks_are_written_together(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("t")
        ds.createDimension("x", 4)
        v = ds.createVariable("v", "i4", ("t", "x"), chunksizes=(1, 4))
        ds.sync()
        for i in range(200):
            v[i] = i
        assert not (path / "v" / "c").exists()
        assert v[:, 0].tolist() == list(range(200))
        assert len(list((path / "v" / "c").iterdir())) == 200
    with ours.Dataset(path) as ds:
        assert ds["v"][:, 3].tolist() == list(range(200))


def test_the_bound_holds(store: Counting) -> None:
    with ours.Dataset(store, "w") as ds:
        ds.createDimension("x", 10000)
        v = ds.createVariable("v", "f8", ("x",), chunksizes=(100,))
        ds.sync()
        cache = ds._nc_session.cache
        cache.bound = 3 * 800
        for i in range(0, 10000, 50):
            v[i] = i
            assert cache.weight <= cache.bound
        assert store.writes >= 97
    with ours.Dataset(store) as ds:
        assert ds["v"][::50].tolist() == list(range(0, 10000, 50))


def test_each_growing_variable_keeps_its_last_chunk(store: Counting) -> None:
    """A loop over the variables in each step writes every chunk once, though the bound holds half of them."""
    with ours.Dataset(store, "w") as ds:
        ds.createDimension("t")
        ds.createDimension("x", 100)
        variables = [ds.createVariable(f"v{n}", "f8", ("t", "x"), chunksizes=(10, 100)) for n in range(20)]
        cache = ds._nc_session.cache
        cache.bound = 10 * 8000
        ds.sync()
        before = store.writes
        for i in range(30):
            for v in variables:
                v[i] = i
            assert cache.weight <= cache.limit == 30 * 8000
        ds.sync()
        assert store.writes - before < 3 * len(variables) + 30
    with ours.Dataset(store) as ds:
        assert all(ds[f"v{n}"][:, 0].tolist() == list(range(30)) for n in range(20))


def test_the_chunks_of_growing_variables_are_bounded(store: Counting) -> None:
    with ours.Dataset(store, "w") as ds:
        ds.createDimension("t")
        variables = [ds.createVariable(f"v{n}", "f8", ("t",), chunksizes=(1000,)) for n in range(60)]
        cache = ds._nc_session.cache
        cache.bound = 2 * 8000
        for i in range(3):
            for v in variables:
                v[i] = i
                assert cache.weight <= cache.limit <= 9 * cache.bound
    with ours.Dataset(store) as ds:
        assert all(ds[f"v{n}"][:].tolist() == [0, 1, 2] for n in range(60))


def test_steps_share_a_chunk_by_default(tmp_path: Path) -> None:
    """A store has few objects where netCDF-C's chunks would make one for each step."""
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("t")
        ds.createDimension("x", 1000)
        time, v = ds.createVariable("time", "f8", ("t",)), ds.createVariable("v", "f4", ("t", "x"))
        assert (time.chunking(), v.chunking()) == ([128], [128, 1000])
        assert time.shards() == (4096,)
        for i in range(300):
            time[i], v[i] = i, i
    assert sum(file.is_file() for file in path.rglob("*")) == 3 + 1 + 3
    with ours.Dataset(path) as ds:
        assert ds["v"].chunking() == [128, 1000]
        assert ds["v"][:, 999].tolist() == ds["time"][:].tolist() == list(range(300))
    with ours.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("t")
        ds.createDimension("x", 1000)
        assert ds.createVariable("v", "f4", ("t", "x")).chunking() == [1, 1000]


def test_settings(store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ours.get_chunk_cache()
    try:
        ours.set_chunk_cache(5000)
        with ours.Dataset(store, "w") as ds:
            assert ds._nc_session.cache.bound == 5000
            ds.createDimension("x", 100)
            v = ds.createVariable("v", "i4", ("x",), chunksizes=(10,))
            w = ds.createVariable("w", "i4", ("x",), chunksizes=(10,), chunk_cache=0)
            ds.sync()
            v[0] = 1
            assert store.writes == 0
            w[0] = 1
            assert store.writes == 1
            v.set_var_chunk_cache(0)
            v[11] = 1
            assert store.writes == 3  # and what was kept before
    finally:
        ours.set_chunk_cache(*before)
    monkeypatch.setenv("NCZARR_CACHE", "12345")
    assert default_bytes() == 12345
    monkeypatch.setenv("NCZARR_CACHE", "many")
    with pytest.warns(UserWarning, match="NCZARR_CACHE"):
        assert default_bytes() == 64 << 20


def test_what_is_read_does_not_share_memory_with_the_cache(tmp_path: Path) -> None:
    with ours.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 4)
        kind = ds.createVLType("i4", "sequence")
        v = ds.createVariable("v", "i4", ("x",))
        s = ds.createVariable("s", kind, ("x",))
        ds.sync()
        v[1] = 5
        s[1] = np.array([1, 2], "i4")
        v[1:3][...] = 9
        s[1][...] = 9
        assert (v[1], s[1].tolist()) == (5, [1, 2])


def test_a_damaged_chunk_is_said_and_stays(tmp_path: Path) -> None:
    from nczarr.errors import ChunkError

    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("x", 4)
        ds.createVariable("v", "i4", ("x",), zlib=True)[:] = 1
    chunk = path / "v" / "c" / "0"
    chunk.write_bytes(b"damaged")
    ds = ours.Dataset(path, "a")
    for _ in range(2):
        with pytest.raises(ChunkError):
            ds["v"][0] = 5
    ds["v"][:] = 7  # replaces it as a whole
    ds.close()
    with ours.Dataset(path) as ds:
        assert ds["v"][:].tolist() == [7] * 4


@pytest.mark.slow
@pytest.mark.parametrize("bound", [0, 100, 1 << 20])
def test_threads_write_and_read_one_variable(tmp_path: Path, bound: int) -> None:
    """Partial writes into shared chunks, whole chunks that pass by, and reads, against one value for each element."""
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("x", 64)
        ds.createDimension("y", 6)
        v = ds.createVariable("v", "i4", ("x", "y"), chunksizes=(4, 3), fill_value=-1)
        v[:] = 0
        ds.sync()
        ds._nc_session.cache.bound = bound
        written = [0] * 8
        stop = threading.Event()

        def write(n: int) -> None:  # rows n, n + 8, n + 16, …: all chunks are shared
            for turn in range(1, 12):
                for row in range(n, 64, 8):
                    if turn % 3:
                        v[row] = turn
                    else:
                        for column in range(6):
                            v[row, column] = turn
                written[n] = turn

        def sync() -> None:
            while not stop.is_set():
                ds.sync()

        def read() -> None:
            while not stop.is_set():
                least = list(written)
                seen = v[:]
                for row, n in zip(range(64), itertools.cycle(range(8)), strict=False):
                    assert seen[row].min() >= least[n]

        with ThreadPoolExecutor(10) as pool:
            others = [pool.submit(sync), pool.submit(read)]
            try:
                for future in [pool.submit(write, n) for n in range(8)]:
                    future.result()
            finally:
                stop.set()
            for future in others:
                future.result()
        assert v[:].min() == v[:].max() == 11
    with ours.Dataset(path) as ds:
        assert ds["v"][:].min() == ds["v"][:].max() == 11


def test_whole_chunks_beside_parts(tmp_path: Path) -> None:
    """One thread writes chunks as a whole, another elements of the chunks beside and of the same."""
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("x", 40)
        v = ds.createVariable("v", "i4", ("x",), chunksizes=(10,), fill_value=0)
        ds.sync()

        def whole() -> None:
            for turn in range(1, 60):
                v[10:20] = turn

        def parts() -> None:
            for turn in range(1, 60):
                for i in (3, 25, 27):
                    v[i] = turn

        def both() -> None:
            for turn in range(1, 60):
                v[28:32] = turn  # two chunks in part

        with ThreadPoolExecutor(3) as pool:
            for future in [pool.submit(f) for f in (whole, parts, both)]:
                future.result()
        expected = [0] * 40
        for i in (3, 25, 27, *range(10, 20), *range(28, 32)):
            expected[i] = 59
        assert v[:].filled(0).tolist() == expected
    with ours.Dataset(path) as ds:
        assert ds["v"][:].filled(0).tolist() == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_random_selections_of_random_grids(seed: int) -> None:
    """Against an array in memory: 60 variables of one to three axes, with chunks of any shape, some in shards."""
    random = Random(seed)
    count = itertools.count(1)
    for _ in range(60):
        shape = tuple(random.randint(1, 9) for _ in range(random.randint(1, 3)))
        chunks = [random.randint(1, size) for size in shape]
        shards = [chunk * random.randint(1, 4) for chunk in chunks] if random.random() < 0.4 else None
        expected = np.full(shape, FILL, "i4")
        target: dict[str, bytes] = {}
        with ours.Dataset(target, "w") as ds:
            names = [ds.createDimension(f"d{i}", size).name for i, size in enumerate(shape)]
            v = ds.createVariable("v", "i4", names, chunksizes=chunks, shards=shards, fill_value=FILL)
            v.set_auto_mask(False)
            for _ in range(4):
                index = tuple(random_positions(random, size) for size in shape)
                places = np.ix_(*(np.arange(size)[i] for i, size in zip(index, shape, strict=True)))
                values = np.reshape(
                    list(itertools.islice(count, expected[places].size)), expected[places].shape
                )
                v[index] = values
                expected[places] = values
                assert np.array_equal(v[index], values), (shape, chunks, shards, index)
                assert np.array_equal(v[:], expected), (shape, chunks, shards, index)
        with ours.Dataset(target) as ds:
            assert np.array_equal(ds["v"][:].filled(FILL), expected), (shape, chunks, shards)


def random_positions(random: Random, size: int) -> slice | list[int]:
    """A slice, or increasing positions, on an axis."""
    if random.random() < 0.3:
        return sorted(random.sample(range(size), random.randint(1, size)))
    start = random.randint(0, size - 1)
    return slice(start, random.randint(start + 1, size), random.choice([1, 1, 2, 3]))


@pytest.mark.parametrize(
    ("chunks", "rows"),
    [((1, 4), slice(0, 8, 2)), ((2, 4), [0, 1, 4, 5]), ((2, 4), [0, 1, 3, 6, 7]), ((1, 4), [7, 2, 5])],
)
def test_whole_chunks_with_others_between(chunks: tuple[int, int], rows: Any) -> None:
    expected = np.zeros((8, 12), "i4")
    values = np.arange(1, 1 + len(expected[rows]) * 8, dtype="i4").reshape(-1, 8)
    expected[rows, 2:10] = values
    target: dict[str, bytes] = {}
    with ours.Dataset(target, "w") as ds:
        ds.createDimension("y", 8)
        ds.createDimension("x", 12)
        v = ds.createVariable("v", "i4", ("y", "x"), chunksizes=chunks)
        v[:] = 0
        v[rows, 2:10] = values
        assert v[:].tolist() == expected.tolist()
    with ours.Dataset(target) as ds:
        assert ds["v"][:].tolist() == expected.tolist()


@pytest.mark.parametrize("bound", [0, 40, 1 << 20])
def test_what_is_known_of_written_chunks_is_bounded(bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop over a million steps must not need memory for each; what is written stays right without it."""
    monkeypatch.setattr("nczarr.session.chunk_cache._MOST_STORED_CHUNKS", 5)
    rows = np.arange(80, dtype="i4").reshape(20, 4)
    with ours.Dataset({}, "w") as ds:
        ds.createDimension("t")
        ds.createDimension("x", 4)
        v = ds.createVariable("v", "i4", ("t", "x"), chunksizes=(1, 2), fill_value=FILL)
        ds.sync()
        ds._nc_session.cache.bound = bound
        cached = ds._nc_session.cache.variable(v._nc_node)
        for i, row in enumerate(rows):
            v[i, :3] = row[:3]
            assert len(cached.stored_chunks or ()) <= 5
        ds.sync()
        assert cached.stored_chunks is None
        v[:, 3] = rows[:, 3]
        assert v[:].tolist() == rows.tolist()


def test_who_passes_by_waits_for_what_is_being_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads write past the cache to a chunk that is in memory: the one wrote the chunk over what the other had
    written, and who read meanwhile got what was stored before.
    """
    with ours.Dataset({}, "w") as ds:
        ds.createDimension("x", 4)
        v = ds.createVariable("v", "i4", ("x",), fill_value=FILL)
        ds.sync()
        v[0] = 1  # into a chunk in memory
        cache = ds._nc_session.cache
        cache.bound = 0  # what is written from now on passes by
        real, others, seen = cache._store, [], []

        def slow(blocks: Any) -> None:
            if not others:
                others.append(threading.Thread(target=v.__setitem__, args=(2, 3)))
                others.append(threading.Thread(target=lambda: seen.append(int(v[0]))))
                for thread in others:
                    thread.start()
                    thread.join(0.3)  # it finishes, or waits for this one
            real(blocks)

        monkeypatch.setattr(cache, "_store", slow)
        v[1] = 2
        for thread in others:
            thread.join()
        assert seen == [1]
        assert v[:].filled().tolist() == [1, 2, 3, FILL]


def test_the_bound_holds_after_an_interrupt(store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk that an interrupt leaves in use can leave memory after the next sync."""
    ds = ours.Dataset(store, "w")
    ds.createDimension("t", 100)
    ds.createDimension("x", 1000)
    v = ds.createVariable("v", "f8", ("t", "x"), chunksizes=(1, 1000))
    ds.sync()
    cache = ds._nc_session.cache
    cache.bound, cache.reserves = 80_000, False

    def interrupted(blocks: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(cache, "_unpin", interrupted)
        for i in range(20):
            with pytest.raises(KeyboardInterrupt):
                v[i] = np.full(1000, i)
    for i in range(20, 100):
        v[i] = np.full(1000, i)
    assert cache.weight > 80_000  # twenty chunks are still in use
    ds.sync()
    v[0] = np.full(1000, -1)
    assert cache.weight <= 80_000
    assert ds["v"][:, 0].tolist() == [-1, *range(1, 100)]
    ds.close()


def last_chunks(store: Counting, shared: bool) -> Any:
    """A stored variable of 6 by 6 values in chunks of 4 by 4, whose last chunks are parts."""
    with ours.Dataset(store, "w") as ds:
        ds.createDimension("x", 6)
        ds.createVariable("v", "i4", ("x", "x"), chunksizes=(4, 4))[:] = np.arange(36).reshape(6, 6)
    store.gets.clear()
    return ours.Dataset(store, "a", shared=shared)


def test_a_write_that_ends_before_the_last_element_of_an_axis_keeps_it(store: Counting) -> None:
    """A part that counts as the whole rest of its chunk would begin with fill values."""
    expected = np.arange(36).reshape(6, 6)
    with last_chunks(store, False) as ds:
        ds["v"][4:5, 4:5] = expected[4:5, 4:5] = 99
        ds["v"][4:6, 0:4] = expected[4:6, 0:4] = 77
        assert ds["v"][:].tolist() == expected.tolist()
    with ours.Dataset(store) as ds:
        assert ds["v"][:].tolist() == expected.tolist()


def test_the_whole_rest_of_a_last_chunk_is_not_loaded_before_it_is_written(store: Counting) -> None:
    with last_chunks(store, False) as ds:
        ds["v"][4:6, 4:6] = 99
        assert not [key for key in store.gets if "c/1/1" in key]
    with ours.Dataset(store) as ds:
        assert ds["v"][4:, 4:].tolist() == [[99, 99], [99, 99]]


def test_all_elements_of_a_last_chunk_are_stored_at_once_beside_other_processes(store: Counting) -> None:
    """The elements behind the end of the array are no part of it: they cannot be missing in the written ones."""
    with last_chunks(store, True) as ds:
        ds["v"][4:6, 4:5] = 99
        ds["v"][4:6, 5:6] = 99
        store.gets.clear()
        ds.sync()
        assert not [key for key in store.gets if "c/1/1" in key]
