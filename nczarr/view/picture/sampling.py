"""Limit what is read: choose the strides of an overview."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

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
