"""Rechunk through an intermediate store: each source chunk is decoded once or twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr.convert.values.rechunk import intermediate_chunks
from nczarr.model import FLOAT, Dataset, Dimension, MemorySource, Storage, Variable


class Counted(MemorySource):
    """Counts how many chunks are decoded, and the largest read."""

    chunks = (1, 200, 150)
    decoded = 0
    largest = 0

    def read(self, region: Any, out: Any = None) -> np.ndarray:
        count = 1
        for part, chunk in zip(region, self.chunks):
            count *= (part.stop - 1) // chunk - part.start // chunk + 1
        type(self).decoded += count
        values = super().read(region, out)
        type(self).largest = max(type(self).largest, values.nbytes)
        return values


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["6MiB", "24MiB"])
def test_time_major_to_space_major(tmp_path: Path, memory: str) -> None:
    values = np.random.default_rng(0).random((120, 200, 150)).astype("f4")
    Counted.decoded = Counted.largest = 0
    v = Variable(
        "v", FLOAT, ("/t", "/y", "/x"), storage=Storage("chunked", Counted.chunks), data=Counted(values)
    )
    dimensions = tuple(Dimension(n, s) for n, s in zip("tyx", values.shape))
    source = Dataset("d", dimensions=dimensions, variables=(v,))
    out = tmp_path / "out.zarr"
    nczarr.copy(source, out, chunks={"t": 120, "y": 10, "x": 10}, memory=memory, workers=2)
    assert Counted.decoded <= 2 * 120
    assert Counted.largest <= int(memory[:-3]) << 19
    assert [p.name for p in tmp_path.iterdir()] == ["out.zarr"]
    with nczarr.Dataset(out) as copied:
        np.testing.assert_array_equal(copied["v"][:], values)
        assert copied["v"].chunking() == [120, 10, 10]


sizes = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=3
)


@given(sizes, st.integers(16, 4000))
def test_an_intermediate_fits_both_passes(axes: list[tuple[int, int, int]], limit: int) -> None:
    shape = tuple(a[0] for a in axes)
    read = tuple(min(a[1], a[0]) for a in axes)
    write = tuple(min(a[2], a[0]) for a in axes)
    chunks = intermediate_chunks(shape, read, write, 4, limit)
    if chunks is not None:
        assert all(1 <= c <= n for c, n in zip(chunks, shape))
