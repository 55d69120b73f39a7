"""Choose the strided part of an array that a picture needs: few pixels, few bytes of chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

#: More pixels along an axis nobody sees.
MOST_PIXELS = 1000
#: Bytes of decoded chunks that one picture may cost.
MOST_BYTES = 512 << 20


@dataclass(frozen=True)
class Overview:
    """One slice for each axis that is drawn.

    Parameters
    ----------
    parts : tuple of slice
    coarse : bool
        True if fewer pixels are read than would be seen, because their chunks would cost too much.
    """

    parts: tuple[slice, ...]
    coarse: bool = False

    @property
    def steps(self) -> tuple[int, ...]:
        """The step of each slice."""
        return tuple(part.step for part in self.parts)

    @property
    def is_whole(self) -> bool:
        """True if every value is read."""
        return all(step == 1 for step in self.steps)


def plan_overview(
    windows: Sequence[tuple[int, int]],
    chunks: Sequence[int],
    chunk_bytes: int,
    *,
    most_pixels: int = MOST_PIXELS,
    most_bytes: int = MOST_BYTES,
) -> Overview:
    """Choose the steps.

    Parameters
    ----------
    windows : sequence of (int, int)
        Start and stop along each axis that is drawn.
    chunks : sequence of int
        Sizes of a chunk along these axes.
    chunk_bytes : int
        Bytes of a whole decoded chunk, with the axes that are not drawn.

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
        # Only a step beyond a whole chunk saves anything; take it where most chunks are.
        counts = [_count(w, c, s) for w, c, s in zip(windows, chunks, steps)]
        axis = counts.index(max(counts))
        if counts[axis] <= 1:
            break
        steps[axis] = max(steps[axis], chunks[axis]) * 2
        coarse = True
    parts = tuple(slice(start, stop, step) for (start, stop), step in zip(windows, steps))
    return Overview(parts, coarse)


def _count(window: tuple[int, int], chunk: int, step: int) -> int:
    """How many chunks along an axis are touched, at most."""
    length = window[1] - window[0]
    return max(min(ceil(length / max(chunk, 1)) + 1, ceil(length / step)), 1)


def _touched(windows: Sequence[tuple[int, int]], chunks: Sequence[int], steps: Sequence[int]) -> int:
    return prod(_count(w, c, s) for w, c, s in zip(windows, chunks, steps))
