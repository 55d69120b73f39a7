"""Compare arrays with numpy: any shape, chunks, dtype, byte order, codecs and selection."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folders import new_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from rotation import examples

from nczarr.errors import SelectionError
from nczarr.stores import LocalStore, MemoryStore, Store
from nczarr.zarr import pool as threads
from nczarr.zarr.chunk_keys import ChunkKeyEncoding
from nczarr.zarr.chunks.array import Array
from nczarr.zarr.grids import RectilinearGrid, RegularGrid
from nczarr.zarr.metadata import ArrayMetadata, NamedConfig
from nczarr.zarr.types import data_type_for

DTYPES = [
    "bool", "int8", "uint8", "int16", "uint32", "int64", "uint64", "float16", "float32", "float64",
    "complex64", "complex128", "S3", "U2", "V5", "M8[s]", "m8[ms]", "string", "bytes",
    [("a", "i4"), ("b", "f8"), ("c", "S2")],
    [("p", [("x", "i2"), ("y", "f4")]), ("v", "u1")],
]  # fmt: skip
KEYS = [ChunkKeyEncoding("default", "/"), ChunkKeyEncoding("default", "."), ChunkKeyEncoding("v2", ".")]
N = NamedConfig


class Wrapped(Store):
    """Another store, of a class the engine has no short cut for; counts batches."""

    def __init__(self) -> None:
        self.below = MemoryStore()
        self.url = "wrapped"
        self.batches = 0
        self.singles = 0

    def get(self, key: str) -> bytes | None:
        self.singles += 1
        return self.below.get(key)

    def get_many(self, keys: Any) -> list[bytes | None]:
        self.batches += 1
        return [self.below.get(key) for key in keys]

    def get_ranges(self, requests: Any) -> list[bytes | None]:
        self.batches += 1
        return [self.below.get_range(*request) for request in requests]

    def set(self, key: str, data: Any) -> None:
        self.below.set(key, data)

    def delete(self, key: str) -> None:
        self.below.delete(key)

    def list(self, prefix: str = "") -> Any:
        return self.below.list(prefix)


def make_store(kind: str) -> Store:
    if kind == "memory":
        return MemoryStore()
    return Wrapped() if kind == "wrapped" else LocalStore(new_folder(), "r+")


def random_values(dtype: np.dtype, name: Any, shape: tuple[int, ...], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.hasobject:
        result = np.empty(shape, object)
        words = ["", "a", "é€", "long " * 20] if name == "string" else [b"", b"\0", b"ab", b"x" * 99]
        for index in np.ndindex(*shape):
            result[index] = words[rng.integers(len(words))]
        return result
    if dtype.names:
        result = np.zeros(shape, dtype)
        for field in dtype.names:
            result[field] = random_values(dtype[field], None, shape, seed + 1)
        return result
    if dtype.kind == "U":
        return rng.choice(np.array(["", "a", "é€"], dtype), shape).astype(dtype).reshape(shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "fc":
        return (rng.standard_normal(shape) * 100).astype(dtype)
    raw = rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)
    return np.frombuffer(raw.tobytes(), dtype).reshape(shape).copy()


@st.composite
def array_cases(draw: st.DrawFn) -> dict[str, Any]:
    ndim = draw(st.integers(0, 3))
    shape = tuple(draw(st.lists(st.integers(0, 9), min_size=ndim, max_size=ndim)))
    name = draw(st.sampled_from(DTYPES))
    data_type = data_type_for(name if isinstance(name, str) else np.dtype(name))
    dtype = data_type.dtype
    kind = draw(st.sampled_from(["regular", "regular", "sharded", "rectilinear"]))
    chunks = tuple(draw(st.lists(st.integers(1, 5), min_size=ndim, max_size=ndim)))
    grid: Any = RegularGrid(chunks)
    if kind == "rectilinear":
        edges = []
        for length in shape:
            cuts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=9))
            while sum(cuts) < length:
                cuts.append(3)
            edges.append(tuple(cuts))
        grid = RectilinearGrid(tuple(edges))
    endian = draw(st.sampled_from(["little", "big"]))
    serial = (
        N({"string": "vlen-utf8", "bytes": "vlen-bytes"}[name])
        if dtype.hasobject
        else N("bytes", {"endian": endian})
    )
    after = draw(
        st.lists(
            st.sampled_from(
                [
                    N("gzip", {"level": 1}),
                    N("zstd", {"level": 1, "checksum": True}),
                    N("crc32c"),
                    N(
                        "blosc",
                        {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
                    ),
                    N("numcodecs.shuffle", {"elementsize": 0}),
                    N("numcodecs.zlib", {"level": 1}),
                    N("numcodecs.fletcher32"),
                    N("numcodecs.lz4", {"acceleration": 1}),
                    N("numcodecs.bz2", {"level": 1}),
                    N("numcodecs.adler32"),
                ]
            ),
            max_size=2,
        )
    )
    before = []
    if draw(st.booleans()):
        before.append(N("transpose", {"order": list(draw(st.permutations(range(ndim))))}))
    codecs = (*before, serial, *after)
    if kind == "sharded":
        factors = draw(st.lists(st.integers(1, 3), min_size=ndim, max_size=ndim))
        grid = RegularGrid(tuple(c * f for c, f in zip(chunks, factors, strict=True)))
        index_codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
        codecs = (
            N(
                "sharding_indexed",
                {
                    "chunk_shape": list(chunks),
                    "codecs": [c.to_json() for c in codecs],
                    "index_codecs": index_codecs[: draw(st.integers(1, 2))],
                    "index_location": draw(st.sampled_from(["start", "end"])),
                },
            ),
        )
    fill: Any = {"string": "fill", "bytes": b"fill"}.get(name) if isinstance(name, str) else None
    if fill is None:
        fill = random_values(dtype, name, (1,), 7)[0]
    metadata = ArrayMetadata(shape, data_type, grid, draw(st.sampled_from(KEYS)), fill, tuple(codecs))
    return {
        "metadata": metadata,
        "name": name,
        "store": draw(st.sampled_from(["memory", "local", "wrapped"])),
    }


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    items: list[Any] = []
    for size in shape:
        kind = draw(st.sampled_from(["all", "slice", "int", "array", "mask"]))
        if kind == "int" and size:
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "array" and size:
            items.append(draw(st.lists(st.integers(-size, size - 1), max_size=6)))
        elif kind == "mask":
            items.append(np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool))
        elif kind == "slice":
            items.append(draw(st.slices(size)))
        else:
            items.append(slice(None))
    return tuple(items)


def mesh(shape: tuple[int, ...], selection: tuple[Any, ...]) -> tuple[Any, tuple[int, ...]]:
    """The slow, obvious way: the places along each dimension, and the shape of the result."""
    places, result = [], []
    for size, item in zip(shape, selection, strict=True):
        if isinstance(item, int):
            places.append(np.array([item % size]))
        else:
            places.append(
                np.arange(size)[
                    item if len(np.shape(item)) == 0 else np.asarray(item, None if len(item) else int)
                ]
            )
            result.append(len(places[-1]))
    return np.ix_(*places) if places else (...,), tuple(result)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return a.tolist() == b.tolist() if a.dtype.hasobject else a.tobytes() == b.tobytes()


@pytest.mark.slow
@settings(max_examples=examples(250), deadline=None)
@given(case=array_cases(), data=st.data())
def test_like_numpy(case: dict[str, Any], data: st.DataObject) -> None:
    metadata: ArrayMetadata = case["metadata"]
    array = Array(make_store(case["store"]), "g/v", metadata)
    expected = np.empty(metadata.shape, metadata.dtype)
    fill = np.empty((), metadata.dtype)
    fill[()] = metadata.fill
    expected[...] = fill
    assert same(array.read(), expected)
    for step in range(3):
        selection = data.draw(selections(metadata.shape))
        index, shape = mesh(metadata.shape, selection)
        values = random_values(metadata.dtype, case["name"], shape, step)
        full = values.reshape(expected[index].shape)
        array.write(selection, values)
        # With repeated places the last value stays, which is what assigning one by one gives.
        for place in np.ndindex(*full.shape):
            where = (
                tuple(int(axis.reshape(-1)[i]) for axis, i in zip(index, place, strict=True))
                if full.shape
                else ()
            )
            expected[where] = full[place]
        assert same(array.read(), expected)
        selection = data.draw(selections(metadata.shape))
        index, shape = mesh(metadata.shape, selection)
        wanted = expected[index].reshape(shape)
        assert same(array.read(selection), wanted)
        out = np.empty(shape, metadata.dtype)
        assert array.read(selection, out=out) is out
        assert same(out, wanted)
        # A reader that remembers nothing sees the same.
        assert same(Array(array.store, "g/v", metadata).read(), expected)
    wide = np.empty(tuple(2 * n for n in metadata.shape), metadata.dtype)
    if metadata.shape:
        holes = wide[tuple(slice(0, 2 * n, 2) for n in metadata.shape)]
        array.read(out=holes)
        assert same(np.ascontiguousarray(holes), expected)


@st.composite
def point_axes(draw: st.DrawFn, shape: tuple[int, ...]) -> list[slice | np.ndarray]:
    """Positions along at least one dimension, slices along the others."""
    count = draw(st.integers(0, 12)) if 0 not in shape else 0
    pointed = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    axes: list[slice | np.ndarray] = []
    for axis, size in enumerate(shape):
        if axis in pointed:
            places = st.lists(st.integers(0, max(size - 1, 0)), min_size=count, max_size=count)
            axes.append(np.array(draw(places), int))
        else:
            start, stop = sorted(draw(st.tuples(st.integers(0, size), st.integers(0, size))))
            axes.append(slice(start, stop, draw(st.integers(1, 3))))
    return axes


@pytest.mark.slow
@settings(max_examples=examples(250), deadline=None)
@given(case=array_cases().filter(lambda case: case["metadata"].shape), data=st.data())
def test_points_are_those_of_numpy(case: dict[str, Any], data: st.DataObject) -> None:
    metadata: ArrayMetadata = case["metadata"]
    array = Array(make_store(case["store"]), "g/v", metadata)
    # Some chunks are written, the others are missing.
    selection = data.draw(selections(metadata.shape))
    _, shape = mesh(metadata.shape, selection)
    array.write(selection, random_values(metadata.dtype, case["name"], shape, 0))
    expected = array.read()
    for _ in range(2):  # the second time from memory
        axes = data.draw(point_axes(metadata.shape))
        points = [axis for axis, places in enumerate(axes) if isinstance(places, np.ndarray)]
        index = [axes[axis] for axis in points] + [places for places in axes if isinstance(places, slice)]
        found = array.read_points(axes)
        assert found is not None
        wanted = np.moveaxis(expected, points, range(len(points)))[tuple(index)]
        assert same(found, np.ascontiguousarray(wanted))


@pytest.mark.parametrize("shards", [False, True])
def test_far_points_of_a_large_uncompressed_chunk_are_read_alone(
    shards: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codecs = (N("transpose", {"order": [1, 0]}), N("bytes", {"endian": "big"}))
    grid = RegularGrid((2000, 1000))
    if shards:
        inner = {"chunk_shape": [1000, 1000], "codecs": [c.to_json() for c in codecs]}
        index_codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
        codecs = (N("sharding_indexed", {**inner, "index_codecs": index_codecs}),)  # type: ignore[assignment]
    metadata = ArrayMetadata((2000, 1000), data_type_for("i4"), grid, fill_value=np.int32(0), codecs=codecs)
    array = Array(LocalStore(tmp_path, "w"), "v", metadata)
    values = np.arange(2_000_000, dtype="i4").reshape(2000, 1000)
    array.write(..., values)
    sizes = []
    preadv = os.preadv

    def counted(descriptor: int, buffers: Any, offset: int) -> int:
        sizes.append(preadv(descriptor, buffers, offset))
        return sizes[-1]

    monkeypatch.setattr(os, "preadv", counted)
    rows, columns = np.array([1999, 3, 3, 3, 1000]), np.array([999, 500, 501, 500, 0])
    found = array.read_points([rows, columns])
    assert same(np.asarray(found), values[rows, columns])
    assert sum(sizes) < 20_000
    with pytest.raises(SelectionError, match="position 2000 is outside dimension 0"):
        array.read_points([np.array([2000]), np.array([0])])


def test_one_request_for_points() -> None:
    """A remote store gets one batch for all chunks of points, two for shards."""
    store = Wrapped()
    metadata = ArrayMetadata((40, 40), data_type_for("i4"), RegularGrid((10, 10)), fill_value=np.int32(0))
    array = Array(store, "v", metadata)
    array.write(..., np.arange(1600).reshape(40, 40))
    store.batches = store.singles = 0
    places = np.array([39, 0, 12, 12, 25]), np.array([0, 39, 5, 14, 25])
    assert np.asarray(array.read_points(places)).tolist() == [
        40 * i + j for i, j in zip(*places, strict=True)
    ]
    assert (store.batches, store.singles) == (1, 0)


def test_one_request_for_a_region() -> None:
    """A remote store gets one batch, two for parts of shards; never one request for each chunk."""
    store = Wrapped()
    metadata = ArrayMetadata((40, 40), data_type_for("i4"), RegularGrid((10, 10)), fill_value=np.int32(0))
    array = Array(store, "v", metadata)
    array.write(..., np.arange(1600).reshape(40, 40))
    for selection in (..., (3, slice(None)), (slice(5, 35, 7), [1, 39])):
        store.batches = 0
        array.read(selection)
        assert store.batches == 1
    codec = N(
        "sharding_indexed",
        {
            "chunk_shape": [2, 2],
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        },
    )
    sharded = Array(
        store,
        "s",
        ArrayMetadata(
            (40, 40), data_type_for("i4"), RegularGrid((10, 10)), fill_value=np.int32(0), codecs=(codec,)
        ),
    )
    sharded.write(..., np.arange(1600).reshape(40, 40))
    store.batches = 0
    assert sharded.read((3, slice(None))).tolist() == list(range(120, 160))
    assert store.batches == 2
    assert store.singles == 0


@pytest.mark.parametrize("kind", ["memory", "local", "wrapped"])
def test_resize(kind: str) -> None:
    """What leaves the array is gone, and does not come back."""
    saved: list[ArrayMetadata] = []
    metadata = ArrayMetadata((10, 7), data_type_for("i2"), RegularGrid((4, 3)), fill_value=np.int16(-9))
    array = Array(make_store(kind), "v", metadata, save=saved.append)
    values = np.arange(70, dtype="i2").reshape(10, 7)
    array.write(..., values)
    array.resize((5, 7))
    assert saved[-1].shape == (5, 7)
    assert array.read().tolist() == values[:5].tolist()
    assert array.nchunks_initialized() == 6
    array.resize((9, 8))
    expected = np.full((9, 8), -9, "i2")
    expected[:5, :7] = values[:5]
    assert array.read().tolist() == expected.tolist()
    array.erase()
    assert array.nchunks_initialized() == 0
    assert (array.read() == -9).all()


@pytest.mark.parametrize("kind", ["memory", "local", "wrapped"])
@pytest.mark.parametrize("codecs", [("bytes",), ("bytes", "gzip"), ("shards",)], ids=" ".join)
def test_whole_chunks(kind: str, codecs: tuple[str, ...]) -> None:
    """One at the edge is written with what lies outside, which comes to light when the array grows."""
    endian, gzip = N("bytes", {"endian": "big"}), N("gzip", {"level": 1})
    shards = N(
        "sharding_indexed",
        {"chunk_shape": [2, 3], "codecs": [endian.to_json()], "index_codecs": [endian.to_json()]},
    )
    metadata = ArrayMetadata(
        (5, 7),
        data_type_for("i2"),
        RegularGrid((4, 3)),
        fill_value=np.int16(-9),
        codecs=tuple({"bytes": endian, "gzip": gzip, "shards": shards}[name] for name in codecs),
    )
    array = Array(make_store(kind), "v", metadata, save=lambda metadata: None)
    expected = np.full((5, 7), -9, "i2")
    chunk = np.arange(12, dtype="i2").reshape(4, 3)
    array.read()  # what is kept of a chunk is forgotten when it changes
    array.write_chunk((0, 1), chunk)
    expected[0:4, 3:6] = chunk
    assert array.read().tolist() == expected.tolist()
    array.write_chunk((0, 1), chunk + 1)
    expected[0:4, 3:6] = chunk + 1
    assert array.read((slice(1, 3), 4)).tolist() == expected[1:3, 4].tolist()
    array.write_chunk((1, 0), chunk)
    array.resize((8, 7))
    assert array.read((slice(4, 8), slice(0, 3))).tolist() == chunk.tolist()
    for wrong in (chunk[:3], chunk.astype("i4")):
        with pytest.raises(SelectionError, match="not a whole chunk"):
            array.write_chunk((0, 0), wrong)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_resize_like_numpy(data: st.DataObject) -> None:
    metadata = ArrayMetadata((6, 5), data_type_for("i4"), RegularGrid((2, 3)), fill_value=np.int32(-1))
    array = Array(make_store("memory"), "v", metadata, save=lambda new: None)
    expected = np.arange(30).reshape(6, 5)
    array.write(..., expected)
    for _ in range(4):
        shape = (data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9)))
        array.resize(shape)
        new = np.full(shape, -1)
        common = tuple(slice(0, min(a, b)) for a, b in zip(shape, expected.shape, strict=True))
        new[common] = expected[common]
        expected = new
        assert array.read().tolist() == expected.tolist()


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("kind", ["memory", "local", "wrapped"])
def test_threads_that_share_chunks(kind: str, sharded: bool) -> None:
    """Overlapping chunks, never overlapping elements: nothing is lost."""
    codec = N("bytes", {"endian": "little"})
    if sharded:
        inner = [codec.to_json()]
        codec = N("sharding_indexed", {"chunk_shape": [5], "codecs": inner, "index_codecs": inner})
    metadata = ArrayMetadata(
        (1000,), data_type_for("i4"), RegularGrid((50,)), fill_value=np.int32(-1), codecs=(codec,)
    )
    array = Array(make_store(kind), "v", metadata)

    def work(first: int) -> None:
        for start in range(first, 1000, 40):
            array.write(slice(start, start + 10), np.arange(start, start + 10))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, (0, 10, 20, 30)))
    assert array.read().tolist() == list(range(1000))
    for key in array.store.list():
        assert "tmp" not in key


def test_work_inside_the_pool_does_not_wait_for_itself() -> None:
    metadata = ArrayMetadata((64, 64), data_type_for("f8"), RegularGrid((8, 64)), fill_value=np.float64(1))
    array = Array(make_store("memory"), "v", metadata)
    sums: list[float] = []
    threads.run(lambda i: threads.run(lambda j: sums.append(array.read(i)[j]), range(64)), range(64))
    assert len(sums) == 64 * 64


def test_an_error_stops_the_work() -> None:
    done: list[int] = []

    def work(number: int) -> None:
        done.append(number)
        if number == 5:
            raise KeyError("x")

    with pytest.raises(KeyError):
        threads.run(work, range(100000), 4)
    assert len(done) < 100000


def test_a_loop_over_time_steps_decodes_each_chunk_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gzip = (N("bytes", {"endian": "little"}), N("gzip", {"level": 1}))
    metadata = ArrayMetadata(
        (20, 30), data_type_for("i4"), RegularGrid((10, 30)), fill_value=np.int32(0), codecs=gzip
    )
    local, wrapped = make_store("local"), Wrapped()
    for store in (local, wrapped):
        Array(store, "v", metadata).write(..., np.arange(600).reshape(20, 30))
    wrapped.writable = False
    for store in (local, wrapped):
        array = Array(store, "v", metadata)
        decoded: list[int] = []
        chain = array._chunks.chain()
        below = chain._decode_bytes
        monkeypatch.setattr(
            chain, "_decode_bytes", lambda *a, below=below, n=decoded: (n.append(1), below(*a))[1]
        )
        for step in range(20):
            assert array.read(step).tolist() == list(range(30 * step, 30 * step + 30))
        assert len(decoded) == 2
    # A file that changed is read again.
    array = Array(local, "v", metadata)
    assert array.read((3, 3)) == 93
    Array(local, "v", metadata).write((3, slice(None)), 5)
    assert array.read((3, 3)) == 5


@pytest.mark.parametrize("kind", ["string", "bytes", "delta", "sequences"])
def test_small_reads_decode_a_chunk_once(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codecs: tuple[NamedConfig, ...]
    values: Any = np.arange(40).reshape(10, 4).astype("i4")
    if kind == "delta":
        codecs, dtype = (N("numcodecs.delta", {"dtype": "<i4"}), N("bytes", {"endian": "little"})), "i4"
    else:
        codecs = (
            N({"string": "vlen-utf8", "bytes": "vlen-bytes"}.get(kind, "numcodecs.vlen-array")),
            N("zstd"),
        )
        if kind == "sequences":
            codecs = (N("numcodecs.vlen-array", {"dtype": "<i4"}), N("zstd"))
        dtype = "string" if kind == "string" else "bytes"
        make = {
            "string": str,
            "bytes": lambda i: b"%d" % i,
            "sequences": lambda i: np.arange(i % 3, dtype="i4"),
        }[kind]
        numbers, values = values, np.empty((10, 4), object)
        for index in np.ndindex(10, 4):
            values[index] = make(int(numbers[index]))
    data_type = data_type_for(dtype)
    metadata = ArrayMetadata(
        (10, 4), data_type, RegularGrid((5, 4)), fill_value=data_type.zero(), codecs=codecs
    )
    array = Array(LocalStore(tmp_path, "w"), "v", metadata)
    array.write(..., values)
    chain = array._chunks.chain()
    decoded: list[int] = []
    below = chain._decode_bytes
    monkeypatch.setattr(chain, "_decode_bytes", lambda *a: (decoded.append(1), below(*a))[1])

    def read_all() -> None:
        for index in np.ndindex(10, 4):
            assert np.array_equal(array.read(index)[()], values[index])

    read_all()
    # What a reader could change in place is not kept.
    assert len(decoded) == (40 if kind == "sequences" else 2)
    array.write((slice(0, 1), slice(0, 1)), values[9:, 3:])
    assert np.array_equal(array.read((0, 0))[()], values[9, 3])
