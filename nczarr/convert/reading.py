"""Watch the values of a dataset being read, or read each variable whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from nczarr.model import ArraySource, Dataset, Region, Variable, rewrite
from nczarr.model.sources import ChangedSource, handed
from nczarr.transfer import Progress, data_bytes, value_bytes


@dataclass(frozen=True, eq=False)
class _Watched(ChangedSource):
    """Tells of every region that is read."""

    fqn: str
    progress: Progress

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        values = self.inner.read(region, out)
        self.progress.advance(values.size * value_bytes(values.dtype), self.fqn)
        return values


@contextmanager
def watch_reading(dataset: Dataset, fqns: Collection[str], progress: Progress) -> Iterator[Dataset]:
    """Yield a dataset that tells `progress` of the values of the variables `fqns` as they are read."""
    wanted = set(fqns)
    found = dataset.all_variables

    def watched(fqn: str, variable: Variable) -> Variable:
        if fqn not in wanted or variable.data is None:
            return variable
        return variable.with_data(_Watched(variable.data, fqn, progress))

    sources = [found[fqn].data for fqn in wanted]
    progress.start(sum(data_bytes(data) for data in sources if data is not None))
    try:
        yield rewrite(dataset, variable=watched)
    finally:
        progress.finish()


class _Shelf:
    """Holds the values of one variable: the one that was read last."""

    def __init__(self) -> None:
        self.fqn: str | None = None
        self.values: Any = None

    def of(self, fqn: str, source: ArraySource) -> np.ndarray:
        """Return all values of a variable."""
        if self.fqn != fqn:
            self.fqn, self.values = None, None  # the old ones go first
            self.values = source.read(tuple(slice(0, n) for n in source.shape))
            self.fqn = fqn
        return self.values


@dataclass(frozen=True, eq=False)
class _Whole(ChangedSource):
    """Reads all values at the first request."""

    fqn: str
    shelf: _Shelf

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        values = self.shelf.of(self.fqn, self.inner)[region]
        return values.copy() if out is None else handed(values, out)


def read_whole(dataset: Dataset) -> Dataset:
    """Return a dataset that fetches each variable whole, at the first value, and keeps it until the next one's."""
    shelf = _Shelf()

    def whole(fqn: str, variable: Variable) -> Variable:
        return variable if variable.data is None else variable.with_data(_Whole(variable.data, fqn, shelf))

    return rewrite(dataset, variable=whole)
