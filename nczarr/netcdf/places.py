"""Describe where a variable's chunks are in a file, for readers without a netCDF library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nczarr.model import Filter


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
    read: Callable[..., Any]


def largest_part(length: int, limit: int) -> int:
    """Return the largest divisor of `length` that is at most `limit`.

    Examples
    --------
    >>> largest_part(12, 5), largest_part(7, 5)
    (4, 1)
    """
    return max(d for d in range(1, max(1, min(limit, length)) + 1) if length % d == 0)
