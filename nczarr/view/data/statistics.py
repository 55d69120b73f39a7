"""Compute count, minimum, maximum, mean and standard deviation of values in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from nczarr.model import regions
from nczarr.view.data.opened import OpenedDataset

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
