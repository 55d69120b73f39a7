"""Define the protocols that read and write the values of variables, and sources of values in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nczarr.dataclass import dataclass
from nczarr.errors import ModelError

#: One slice per axis; start and stop are set and inside the array, and step >= 1.
Region = tuple[slice, ...]
#: Slices with positive steps or increasing positions, one for each axis.
OrthogonalIndex = tuple[slice | np.ndarray, ...]


@runtime_checkable
class ArraySource(Protocol):
    """The values of one variable, read on demand."""

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
            See :data:`Region`; ``()`` for a scalar.
        out : ndarray, optional
            Buffer of the region's shape and of :attr:`dtype`; it is filled and returned.

        Returns
        -------
        ndarray
            Of the region's shape and of :attr:`dtype`, in native byte order. The caller may modify it.
        """


class DatasetSink(Protocol):
    """A new dataset with complete metadata; its values are written region by region."""

    #: True if several threads may call :meth:`write` concurrently.
    concurrent: bool

    def write_shape(self, fqn: str) -> tuple[int, ...]:
        """Return the shape of the blocks to write of the variable `fqn`; regions start at its multiples."""

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        """Write `values`, of the variable's dtype and the region's shape, to a region with steps of 1.

        Raises
        ------
        ModelError
            If the values have another dtype.
        """

    def commit(self) -> None:
        """Complete the dataset, make it visible to readers, and close it."""

    def abort(self) -> None:
        """Close the dataset and remove everything written."""


def refuse_cast(values: np.ndarray, dtype: np.dtype, fqn: str) -> None:
    """Raise :class:`ModelError` for values of another dtype than the variable's, which a cast could change."""
    # A float64 source for an int was cast silently.
    if values.dtype != dtype:
        raise ModelError(
            f"values of the dtype {values.dtype} cannot be written to a variable of {dtype}",
            fqn=fqn,
            hint="convert them, for example with astype",
        )


def handed(values: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """Return `values`, copied to `out` if that is given."""
    if out is None:
        return values
    out[...] = values
    return out


def region_shape(region: Region) -> tuple[int, ...]:
    """Return the shape of the values of a region."""
    return tuple([len(range(s.start, s.stop, s.step or 1)) for s in region])


@dataclass(frozen=True, eq=False)
class ChangedSource:
    """Base class of sources that transform the values of another source on reading."""

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
        """Transform values read from the inner source."""
        return values


@dataclass(frozen=True, eq=False)
class MemorySource:
    """The values of an array in memory.

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
        # With the Ellipsis, numpy returns a 0-d array instead of its object.
        index: tuple[Any, ...] = (*region, ...)
        picked = self.array[index]
        return np.array(picked, copy=True) if out is None else handed(picked, out)


@dataclass(frozen=True, eq=False)
class RepeatedSource:
    """The same value everywhere, as in an unwritten variable.

    Parameters
    ----------
    value
        A value of `dtype`; any object if `dtype` is an object dtype.
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
        """Shape of the leading corner of the array that may differ from `value`; empty here."""
        return (0,) * len(self.shape)

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        if out is None:
            out = np.empty(region_shape(region), self.dtype)
        if self.dtype == object:  # unlike assignment, fill() treats a sequence as one object
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
    """Divide an array into blocks and yield their regions in row-major order.

    Parameters
    ----------
    shape, block : tuple of int
        Shape of the array and of a block (at least 1 along each axis). Blocks at the upper edges are clipped.

    Examples
    --------
    >>> list(regions((3,), (2,)))
    [(slice(0, 2, 1),), (slice(2, 3, 1),)]
    >>> list(regions((), ()))
    [()]
    >>> next(regions((2**60, 2**60), (1, 1)))
    (slice(0, 1, 1), slice(0, 1, 1))
    """
    # Generate one block at a time: the list of all blocks may exceed the memory.
    if not shape:
        yield ()
        return
    for start in range(0, shape[0], block[0]):
        first = slice(start, min(start + block[0], shape[0]), 1)
        for rest in regions(shape[1:], block[1:]):
            yield (first, *rest)
