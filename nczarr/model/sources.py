"""Define where the values of a variable come from, and where they go: the protocols, and values in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

#: One slice per axis, start and stop set and inside the array, step >= 1.
Region = tuple[slice, ...]


@runtime_checkable
class ArraySource(Protocol):
    """Values of one variable, read when they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Current shape: the sizes of the variable's dimensions."""

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the variable's type (see :mod:`nczarr.model.types`)."""

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region.

        Parameters
        ----------
        region : tuple of slice
            As :data:`Region`; ``()`` for a scalar.
        out : ndarray, optional
            Buffer of the region's shape and of :attr:`dtype` to fill; it is returned.

        Returns
        -------
        ndarray
            Of the region's shape and of :attr:`dtype`, native byte order; the caller may change it.
        """


class DatasetSink(Protocol):
    """A dataset that is being written: all metadata are there, the values follow region by region."""

    #: True if :meth:`write` may be called from several threads.
    concurrent: bool

    def write_shape(self, fqn: str) -> tuple[int, ...]:
        """Shape of the blocks in which the variable `fqn` is best written: regions start at multiples of it."""

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        """Write `values` (of the variable's dtype and of the region's shape) to a region with steps of 1."""

    def commit(self) -> None:
        """Make the dataset complete and visible, and close it."""

    def abort(self) -> None:
        """Close, and remove all that was written."""


def handed(values: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """Return values as a read does: in `out` if there is one."""
    if out is None:
        return values
    out[...] = values
    return out


def region_shape(region: Region) -> tuple[int, ...]:
    """Return the shape of what is read of a region."""
    return tuple([len(range(s.start, s.stop, s.step or 1)) for s in region])


@dataclass(frozen=True, eq=False)
class ChangedSource:
    """The values of another source, changed as they are read: the base of sources that stand in front of one."""

    inner: ArraySource

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inner.shape

    @property
    def dtype(self) -> np.dtype:
        return self.inner.dtype

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`ArraySource.read`."""
        return handed(self.changed(self.inner.read(region)), out)

    def changed(self, values: np.ndarray) -> np.ndarray:
        """Return what stands for values that were just read."""
        return values


@dataclass(frozen=True, eq=False)
class MemorySource:
    """Values that are in memory already.

    Examples
    --------
    >>> MemorySource(np.arange(4)).read((slice(1, 3),))
    array([1, 2])
    """

    array: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        index: tuple[Any, ...] = (*region, ...)  # the dots keep a scalar an array, so that objects stay whole
        picked = self.array[index]
        return np.array(picked, copy=True) if out is None else handed(picked, out)


@dataclass(frozen=True, eq=False)
class RepeatedSource:
    """One value everywhere, as in a variable that was never written.

    Parameters
    ----------
    value
        A value of `dtype`; for object dtypes any object.
    shape : tuple of int
    dtype : numpy.dtype

    Examples
    --------
    >>> RepeatedSource(7, (2, 3), np.dtype("i4")).read((slice(0, 1), slice(1, 3)))
    array([[7, 7]], dtype=int32)
    """

    value: Any
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def beginning_shape(self) -> tuple[int, ...]:
        """The corner of the array outside of which every element is `value`: nothing."""
        return (0,) * len(self.shape)

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        if out is None:
            out = np.empty(region_shape(region), self.dtype)
        if self.dtype == object:  # fill() takes a sequence as one object
            out.fill(self.value)
        else:
            out[...] = self.value
        return out


@dataclass(frozen=True, eq=False)
class CornerSource:
    """The first elements along each axis of another source.

    Examples
    --------
    >>> CornerSource(MemorySource(np.arange(6).reshape(2, 3)), (1, 2)).read((slice(0, 1), slice(0, 2)))
    array([[0, 1]])
    """

    inner: ArraySource
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        return self.inner.dtype

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        return self.inner.read(region, out)


def regions(shape: tuple[int, ...], block: tuple[int, ...]) -> Iterator[Region]:
    """Cut an array into blocks one after the other, in row-major order.

    Parameters
    ----------
    shape, block : tuple of int
        Shape of the array and of a block (all at least 1); blocks at the far edges are cut.

    Examples
    --------
    >>> list(regions((3,), (2,)))
    [(slice(0, 2, 1),), (slice(2, 3, 1),)]
    >>> list(regions((), ()))
    [()]
    >>> next(regions((2**60, 2**60), (1, 1)))
    (slice(0, 1, 1), slice(0, 1, 1))
    """
    # Only the current block is kept: an array may have more blocks than memory holds.
    if not shape:
        yield ()
        return
    for start in range(0, shape[0], block[0]):
        first = slice(start, min(start + block[0], shape[0]), 1)
        for rest in regions(shape[1:], block[1:]):
            yield (first, *rest)
