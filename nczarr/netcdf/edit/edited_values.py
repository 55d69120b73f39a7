"""Write selections and blocks of a variable as regular pieces, which each format writes in its own way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from nczarr.netcdf.edit.selecting import Axes, pieces


class EditedValues(ABC):
    """The values of a variable of an edited file; `shape` is that of its dimensions."""

    shape: tuple[int, ...]

    @property
    @abstractmethod
    def chunk_shape(self) -> tuple[int, ...]:
        """Blocks that lie together in the file."""

    @abstractmethod
    def _write(self, axes: Axes, values: np.ndarray) -> None:
        """Write to ranges, one for each axis."""

    def write(self, selection: Any, values: np.ndarray) -> None:
        """Write to slices or increasing positions, one for each axis."""
        for axes, place in pieces(selection):
            self._write(axes, values[place] if place else values)

    def write_chunk(self, index: tuple[int, ...], values: np.ndarray) -> None:
        """Write a block, of which nothing is kept behind the shape."""
        block = self.chunk_shape
        axes = tuple(
            [range(i * c, min((i + 1) * c, n)) for i, c, n in zip(index, block, self.shape, strict=True)]
        )
        self._write(axes, values[tuple([slice(0, len(axis)) for axis in axes])])
