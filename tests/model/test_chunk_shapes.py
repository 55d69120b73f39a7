"""Test default chunk shapes, and compare netCDF-C's with netCDF-C."""

from __future__ import annotations

import math

import netCDF4
from hypothesis import given, settings
from hypothesis import strategies as st

from nczarr.model.chunk_shapes import TARGET, default_chunks, netcdf_c_chunks

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
