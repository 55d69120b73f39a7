"""Read byte ranges of a file that a library has open, and describe those of a variable's chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol

import numpy as np

from nczarr.errors import NetCDFFileError
from nczarr.model import Filter, Region

#: Offset and size of a range.
Range = tuple[int, int]
#: Fetches ranges in one concurrent batch. The result has None for a missing range.
Fetch = Callable[[Sequence[Range]], Sequence[bytes | memoryview | None]]


class Ranges(Protocol):
    """Byte ranges of a file, safe to read from several threads.

    Attributes
    ----------
    together : int
        The total size of an efficient request, in bytes. 0 if separate reads cost no more.
    """

    together: int

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """Return the bytes of a range."""

    def read_many(self, ranges: Sequence[Range]) -> Sequence[bytes | memoryview]:
        """Return the bytes of ranges."""

    def close(self) -> None:
        """Release the file after the last read."""


class RemoteRanges:
    """Ranges of a file behind a URL."""

    together = 16 << 20

    def __init__(self, fetch: Fetch, close: Callable[[], None]) -> None:
        self._fetch, self._close = fetch, close

    def read(self, offset: int, size: int) -> bytes | memoryview:
        return self.read_many([(offset, size)])[0]

    def read_many(self, ranges: Sequence[Range]) -> list[bytes | memoryview]:
        found = []
        for (offset, size), data in zip(ranges, self._fetch(ranges), strict=True):
            if data is None or len(data) != size:
                there = 0 if data is None else len(data)
                raise NetCDFFileError(
                    f"the file is truncated: it has {there} of the {size} bytes at byte {offset}"
                )
            found.append(data)
        return found

    def close(self) -> None:
        self._close()


@dataclass(frozen=True)
class StoredChunks:
    """The storage of a variable's chunks.

    Attributes
    ----------
    shape : tuple of int
        The shape of a chunk.
    filters : tuple of Filter
        The filters, in the order of their application.
    """

    shape: tuple[int, ...]
    filters: tuple[Filter, ...]
    big_endian: bool


@dataclass(frozen=True)
class FilePlaces(StoredChunks):
    """The stored chunks of a variable.

    Attributes
    ----------
    places : dict
        Offset and size in the file, by the chunk's position in the grid. Chunks that were never written are
        absent.
    read : callable
        The function that reads a region.
    """

    places: dict[tuple[int, ...], tuple[int, int]]
    read: Callable[[Region], np.ndarray]


def cut_at_chunks(
    axes: tuple[range, ...], chunk: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[range, ...]]]:
    """Divide a selection at chunk boundaries: the chunk's origin, its place in the selection, its part of the ranges.

    Examples
    --------
    >>> [(origin, inside) for origin, _, inside in cut_at_chunks((range(1, 8, 3),), (4,))]
    [((0,), (range(1, 4, 3),)), ((4,), (range(4, 10, 3),))]
    """
    for parts in product(*(_cut(axis, size) for axis, size in zip(axes, chunk, strict=True))):
        yield tuple(p[0] for p in parts), tuple(p[1] for p in parts), tuple(p[2] for p in parts)


def _cut(axis: range, size: int) -> list[tuple[int, slice, range]]:
    parts = []
    place = 0
    while place < len(axis):
        start = axis[place] // size * size
        end = place + len(range(axis[place], min(start + size, axis.stop), axis.step))
        parts.append((start, slice(place, end), axis[place:end]))
        place = end
    return parts


def largest_part(length: int, limit: int) -> int:
    """Return the largest divisor of `length` that is at most `limit`.

    Examples
    --------
    >>> largest_part(12, 5), largest_part(7, 5)
    (4, 1)
    """
    return max(d for d in range(1, max(1, min(limit, length)) + 1) if length % d == 0)
