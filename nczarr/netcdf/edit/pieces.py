"""Split selections and blocks of a variable into regular pieces, the unit that each format reads and writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np

#: One range for each axis.
Axes = tuple[range, ...]
#: A single read may cover at most this multiple of the selected elements …
_WASTE = 4
#: … or have so many elements.
_SMALL = 1 << 16


class EditedValues(ABC):
    """The values of a variable of an editable file. `shape` is the shape of its dimensions."""

    shape: tuple[int, ...]
    #: True if a partial block is written without reading the rest.
    in_place = False
    limited = False

    @property
    @abstractmethod
    def chunk_shape(self) -> tuple[int, ...]:
        """Return the shape of a block that is contiguous in the file."""

    @abstractmethod
    def _write(self, axes: Axes, values: np.ndarray) -> None:
        """Write to ranges, one for each axis."""

    def write(self, selection: Any, values: np.ndarray) -> None:
        """Write to slices or increasing positions, one for each axis."""
        for axes, place in pieces(selection):
            self._write(axes, values[place] if place else values)

    def write_chunk(self, index: tuple[int, ...], values: np.ndarray) -> None:
        """Write a block. Its part outside the shape is dropped."""
        block = self.chunk_shape
        axes = tuple(
            [range(i * c, min((i + 1) * c, n)) for i, c, n in zip(index, block, self.shape, strict=True)]
        )
        self._write(axes, values[tuple([slice(0, len(axis)) for axis in axes])])


def read_selected(read: Callable[[Axes], np.ndarray], selection: Any, dtype: np.dtype) -> np.ndarray:
    """Read slices or increasing positions, one for each axis, from a reader of regular pieces.

    Examples
    --------
    >>> held = np.arange(100)
    >>> read_selected(lambda axes: held[np.ix_(*axes)], (np.array([1, 2, 90]),), held.dtype).tolist()
    [1, 2, 90]
    """
    if all(isinstance(s, slice) for s in selection):
        return read(tuple([range(s.start, s.stop, s.step or 1) for s in selection]))
    whole: Axes = tuple(
        [
            range(s.start, s.stop, s.step or 1) if isinstance(s, slice) else range(int(s[0]), int(s[-1]) + 1)
            for s in selection
        ]
    )
    lengths = [len(a) if isinstance(s, slice) else len(s) for s, a in zip(selection, whole, strict=True)]
    if prod(map(len, whole)) <= max(_WASTE * prod(lengths), _SMALL):
        block = read(whole)
        for axis, s in enumerate(selection):
            if not isinstance(s, slice):
                block = np.take(block, s - s[0], axis)
        return block
    out = np.empty(lengths, dtype)
    for axes, place in pieces(selection):
        out[place] = read(axes)
    return out


def pieces(selection: Any) -> Iterator[tuple[Axes, tuple[slice, ...]]]:
    """Yield the regular pieces of a selection, and their places in it.

    Examples
    --------
    >>> [axes for axes, _ in pieces((np.array([1, 2, 5]), slice(0, 4, 2)))]
    [(range(1, 3), range(0, 4, 2)), (range(5, 6), range(0, 4, 2))]
    """
    for found in product(*map(_runs, selection)):
        yield tuple([axis for axis, _ in found]), tuple([place for _, place in found])


def _runs(selector: Any) -> list[tuple[range, slice]]:
    if isinstance(selector, slice):
        axis = range(selector.start, selector.stop, selector.step or 1)
        return [(axis, slice(0, len(axis)))]
    positions = np.asarray(selector)
    edges = [0, *(np.flatnonzero(np.diff(positions) != 1) + 1).tolist(), len(positions)]
    return [
        (range(int(positions[a]), int(positions[b - 1]) + 1), slice(a, b))
        for a, b in pairwise(edges)
        if b > a
    ]
