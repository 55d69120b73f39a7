"""Say where the values of a variable are in a file: the places of its chunks, for readers that need no library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nczarr.model import Filter


@dataclass(frozen=True)
class StoredChunks:
    """How the chunks of a variable are stored.

    Attributes
    ----------
    shape : tuple of int
        Of a chunk.
    filters : tuple of Filter
        In the order in which they were applied.
    """

    shape: tuple[int, ...]
    filters: tuple[Filter, ...]
    big_endian: bool


@dataclass(frozen=True)
class FilePlaces(StoredChunks):
    """The chunks of a variable as they are in a file.

    Attributes
    ----------
    places : dict
        Offset and size by the chunk's place in the grid; a chunk that was never written has none.
    read : callable
        Reads a region.
    """

    places: dict[tuple[int, ...], tuple[int, int]]
    read: Callable[..., Any]


def largest_part(length: int, limit: int) -> int:
    """Return the largest divisor of `length` that is at most `limit`.

    Examples
    --------
    >>> largest_part(12, 5), largest_part(7, 5)
    (4, 1)
    """
    return max(d for d in range(1, max(1, min(limit, length)) + 1) if length % d == 0)
