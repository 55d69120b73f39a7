"""Data of which the text has only the beginning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nczarr.model import Region, RepeatedSource


@dataclass(frozen=True, eq=False)
class BeginningSource:
    """The first elements of an array in row-major order, and one value everywhere else.

    Parameters
    ----------
    beginning : ndarray
        One-dimensional.
    fill
        A value of the dtype.
    shape : tuple of int

    Examples
    --------
    >>> BeginningSource(np.array([1, 2, 3]), 0, (2, 2)).read((slice(0, 2), slice(1, 2))).tolist()
    [[2], [0]]
    """

    beginning: np.ndarray
    fill: Any
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        return self.beginning.dtype

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        out = RepeatedSource(self.fill, self.shape, self.dtype).read(region, out)
        if not self.shape:
            out[...] = self.beginning[0]
            return out
        positions = np.zeros((1,) * len(region), np.int64)
        step = 1
        for axis in range(len(self.shape) - 1, -1, -1):
            part = region[axis]
            along = np.arange(part.start, part.stop, part.step or 1, dtype=np.int64) * step
            positions = positions + along.reshape([-1 if a == axis else 1 for a in range(len(region))])
            step *= self.shape[axis]
        given = positions < len(self.beginning)
        out[given] = self.beginning[positions[given]]
        return out
