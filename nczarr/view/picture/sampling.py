"""Limit what is read: the strides of an overview, and statistics of a whole variable block by block."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, prod

import numpy as np

from nczarr.model import regions
from nczarr.view.opened import OpenedDataset

#: Maximum number of pixels along an axis: screens show no more.
MOST_PIXELS = 1000
#: Maximum bytes of decoded chunks per picture.
MOST_BYTES = 512 << 20


@dataclass(frozen=True)
class Overview:
    """The parts of an array to read for a picture.

    Parameters
    ----------
    parts : tuple of slice
        One slice for each drawn axis.
    coarse : bool
        True if the limit on bytes of chunks, not the limit on pixels, determined the strides.
    """

    parts: tuple[slice, ...]
    coarse: bool = False

    @property
    def steps(self) -> tuple[int, ...]:
        """The stride of each slice."""
        return tuple(part.step for part in self.parts)

    @property
    def is_whole(self) -> bool:
        """True if all strides are 1."""
        return all(step == 1 for step in self.steps)


def plan_overview(
    windows: Sequence[tuple[int, int]],
    chunks: Sequence[int],
    chunk_bytes: int,
    *,
    most_pixels: int = MOST_PIXELS,
    most_bytes: int = MOST_BYTES,
) -> Overview:
    """Choose the strides of an overview.

    Parameters
    ----------
    windows : sequence of (int, int)
        Start and stop along each drawn axis.
    chunks : sequence of int
        Chunk shape along these axes.
    chunk_bytes : int
        Size of a whole decoded chunk in bytes, including the axes that are not drawn.
    most_pixels : int
        Maximum number of pixels along an axis.
    most_bytes : int
        Maximum bytes of decoded chunks.

    Examples
    --------
    >>> plan_overview([(0, 10), (0, 5000)], [10, 100], 4000).parts
    (slice(0, 10, 1), slice(0, 5000, 5))
    >>> plan_overview([(0, 10**6), (0, 10**6)], [1000, 1000], 4 << 20, most_bytes=1 << 30).coarse
    True
    """
    steps = [max(ceil((stop - start) / most_pixels), 1) for start, stop in windows]
    coarse = False
    while _touched(windows, chunks, steps) * chunk_bytes > most_bytes:
        # Only strides longer than a chunk skip chunks. Increase the stride of the axis with the most chunks.
        counts = [_count(w, c, s) for w, c, s in zip(windows, chunks, steps)]
        axis = counts.index(max(counts))
        if counts[axis] <= 1:
            break
        steps[axis] = max(steps[axis], chunks[axis]) * 2
        coarse = True
    parts = tuple(slice(start, stop, step) for (start, stop), step in zip(windows, steps))
    return Overview(parts, coarse)


def _count(window: tuple[int, int], chunk: int, step: int) -> int:
    """Return the maximum number of chunks that a strided slice touches along an axis."""
    length = window[1] - window[0]
    return max(min(ceil(length / max(chunk, 1)) + 1, ceil(length / step)), 1)


def _touched(windows: Sequence[tuple[int, int]], chunks: Sequence[int], steps: Sequence[int]) -> int:
    return prod(_count(w, c, s) for w, c, s in zip(windows, chunks, steps))


#: Maximum number of values in memory.
_BLOCK = 4 << 20


@dataclass
class Statistics:
    """Statistics of numbers; :meth:`add` updates them with more values.

    Examples
    --------
    >>> s = Statistics()
    >>> s.add(np.ma.masked_invalid([1.0, np.nan, 3.0]))
    >>> s.valid, s.missing, s.low, s.high, s.mean, s.deviation
    (2, 1, 1.0, 3.0, 2.0, 1.0)
    """

    valid: int = 0
    missing: int = 0
    low: float = math.inf
    high: float = -math.inf
    mean: float = math.nan
    _squares: float = 0.0

    def add(self, values: np.ndarray) -> None:
        """Add values; masked values and NaN count as missing."""
        array = np.ma.masked_invalid(np.ma.asanyarray(values), copy=False)
        present = array.compressed().astype(np.float64, copy=False)
        self.missing += array.size - present.size
        if not present.size:
            return
        self.low = min(self.low, float(present.min()))
        self.high = max(self.high, float(present.max()))
        count, mean = present.size, float(present.mean())
        squares = float(np.square(present - mean).sum())
        # Chan's parallel algorithm is numerically stable for means that are large compared to the deviation.
        before = 0.0 if self.valid == 0 else self.mean
        total = self.valid + count
        shift = mean - before
        self._squares += squares + (shift * shift * self.valid * count / total if self.valid else 0.0)
        self.mean = before + shift * count / total if self.valid else mean
        self.valid = total

    @property
    def deviation(self) -> float:
        """Population standard deviation of the values."""
        return math.sqrt(self._squares / self.valid) if self.valid else math.nan


def whole_statistics(
    opened: OpenedDataset, fqn: str, progress: Callable[[float], bool] | None = None
) -> Statistics | None:
    """Read a whole variable in blocks, and return its statistics.

    `progress` is called with the fraction of the values read, from 0 to 1. If it returns False, reading stops and the
    result is None.
    """
    shape, result, done = opened.shape(fqn), Statistics(), 0
    total = max(prod(shape), 1)
    for region in _blocks(shape, opened.chunk_shape(fqn)):
        result.add(opened.read(fqn, region))
        done += prod(part.stop - part.start for part in region)
        if progress is not None and not progress(done / total):
            return None
    return result


def _blocks(shape: tuple[int, ...], chunks: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Yield blocks of as many whole chunks as fit into memory, extended along the last axes first."""
    if 0 in shape:
        return
    block = [min(c, n) for c, n in zip(chunks, shape)]
    for axis in reversed(range(len(shape))):
        room = max(_BLOCK // prod(block), 1)
        block[axis] = min(block[axis] * room, shape[axis])
    while prod(block) > 4 * _BLOCK and max(block) > 1:  # a single chunk exceeds the limit
        largest = block.index(max(block))
        block[largest] = -(-block[largest] // 2)
    yield from regions(shape, tuple(block))
