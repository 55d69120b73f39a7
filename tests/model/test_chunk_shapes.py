"""Test default chunk shapes, and compare netCDF-C's with netCDF-C."""

from __future__ import annotations

import math

import netCDF4
from hypothesis import given, settings
from hypothesis import strategies as st

from nczarr.model.chunk_shapes import (
    SHARD,
    TARGET,
    chunks_in_shards,
    default_chunks,
    default_shards,
    netcdf_c_chunks,
)

AXES = st.lists(st.tuples(st.integers(0, 5000), st.booleans()), min_size=1, max_size=4)


@given(AXES, st.sampled_from([1, 2, 4, 8, 64]), st.sampled_from([TARGET, 2 << 20]), st.sampled_from([1, 512]))
def test_chunks_keep_to_their_bounds(
    axes: list[tuple[int, bool]], itemsize: int, target: int, steps: int
) -> None:
    shape, unlimited = zip(*axes, strict=True)
    chunks = default_chunks(shape, unlimited, itemsize, target=target, growing_steps=steps)
    most = [steps if n == 0 and grows else max(n, 1) for n, grows in axes]
    assert all(1 <= c <= m for c, m in zip(chunks, most, strict=True))
    # Every axis may be cut, down to one element: nothing stays larger than what may be one chunk.
    assert math.prod(chunks) * itemsize <= 2 * target


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 40000), st.booleans()), min_size=1, max_size=3),
    st.sampled_from(["i1", "i2", "f4", "f8"]),
)
def test_netcdf_c_chooses_the_same(axes: list[tuple[int, bool]], code: str) -> None:
    with netCDF4.Dataset("d.nc", "w", diskless=True) as ds:
        for i, (n, grows) in enumerate(axes):
            ds.createDimension(f"d{i}", None if grows else n)
        # Filters make it chunked, whether it grows or not.
        made = ds.createVariable("v", code, tuple(ds.dimensions), zlib=True)
        shape = [0 if grows else n for n, grows in axes]
        assert tuple(made.chunking()) == netcdf_c_chunks(shape, [g for _, g in axes], made.dtype.itemsize)


CHUNKED = st.lists(
    st.tuples(st.integers(0, 5000), st.booleans(), st.integers(1, 300)), min_size=1, max_size=4
)


@given(CHUNKED, st.sampled_from([1, 4, 8, 64]), st.sampled_from([1, 1 << 16, SHARD]))
def test_shards_contain_whole_chunks_within_their_size(
    axes: list[tuple[int, bool, int]], itemsize: int, target: int
) -> None:
    shape, unlimited, chunks = zip(*axes, strict=True)
    shards = default_shards(shape, unlimited, chunks, itemsize, target=target)
    growing = any(n == 0 and grows for n, grows, _ in axes)
    if shards is None:
        one_chunk = all(n <= c for n, _, c in axes)
        # Two chunks would exceed the target.
        assert (one_chunk and not growing) or 2 * math.prod(chunks) * itemsize > target
        return
    assert shards != chunks
    assert math.prod(shards) * itemsize <= target
    for shard, (n, grows, c) in zip(shards, axes, strict=True):
        assert shard % c == 0
        assert shard < n + c or (grows and n == 0)


@given(st.integers(1, 10), st.sampled_from([1, 4, 8]))
def test_an_empty_unlimited_dimension_gets_many_chunks(steps: int, itemsize: int) -> None:
    (length,) = default_shards((0,), (True,), (steps,), itemsize) or (0,)
    assert length == 1024 * steps


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)), max_size=4))
def test_chunks_divide_their_shards(axes: list[tuple[int, int]]) -> None:
    shards, wish = [s for s, _ in axes], [c for _, c in axes]
    chunks = chunks_in_shards(shards, wish)
    for shard, wanted, chunk in zip(shards, wish, chunks, strict=True):
        assert shard % chunk == 0
        others = (n for n in range(1, min(shard, 1000) + 1) if shard % n == 0)
        assert all(max(chunk, wanted) / min(chunk, wanted) <= max(n, wanted) / min(n, wanted) for n in others)


def test_the_search_for_a_chunk_length_ends() -> None:
    assert chunks_in_shards((2**61 - 1,), (4096,)) == (1,)
