"""Normalise orthogonal selections of an array.

A selection consists of integers, slices with any step, an ellipsis, integer arrays and boolean masks, as in numpy. But
arrays and masks are one-dimensional, and each selects only along its own dimension, as in netCDF4-python and h5py.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import NamedTuple, SupportsIndex

import numpy as np

from nczarr.errors import SelectionError
from nczarr.indices import one_for_each_axis


class DimensionSelection(NamedTuple):
    """The selection along one dimension.

    Parameters
    ----------
    start, count, step : int
        The first index, the number of indices, and the step between them (at least 1).
    indices : ndarray of int64, optional
        The indices, if they are not evenly spaced; `start` and `step` are unused then.
    flip : bool
        True: the result has the indices in descending order.
    drop : bool
        True: a single index, whose dimension is removed from the result.
    """

    start: int
    count: int  # type: ignore[assignment]  # of a tuple it would be the method
    step: int = 1
    indices: np.ndarray | None = None
    flip: bool = False
    drop: bool = False

    @property
    def stop(self) -> int:
        """The largest index plus one; 0 for an empty selection."""
        if self.count == 0:
            return 0
        if self.indices is not None:
            return int(self.indices.max()) + 1
        return self.start + (self.count - 1) * self.step + 1

    @property
    def places(self) -> np.ndarray:
        """The indices, in the order of :meth:`Selection.expand`."""
        if self.indices is not None:
            return self.indices
        return self.start + self.step * np.arange(self.count)


class Selection(NamedTuple):
    """A normalised selection of an array.

    :meth:`nczarr.zarr.Array.read` and ``write`` accept it instead of an index.

    Parameters
    ----------
    axes : tuple of DimensionSelection
        One for each dimension.

    Examples
    --------
    >>> Selection.of([2, range(4, -1, -2), np.array([0, 5, 1])]).shape
    (3, 3)
    """

    axes: tuple[DimensionSelection, ...]

    @classmethod
    def of(cls, axes: Iterable[int | range | np.ndarray]) -> Selection:
        """Return the selection of non-negative indices; an integer removes its dimension from the result."""
        return cls(tuple([_places(axis) for axis in axes]))

    def followed_by(self, shape: tuple[int, ...]) -> Selection:
        """Return this selection followed by fully selected dimensions of the given shape."""
        return Selection((*self.axes, *[DimensionSelection(0, size) for size in shape])) if shape else self

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Return True if all indices are inside an array of the given shape."""
        return len(shape) == len(self.axes) and all(
            axis.stop <= size for axis, size in zip(self.axes, shape, strict=True)
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result, without the dimensions that integers select."""
        return tuple([axis.count for axis in self.axes if not axis.drop])

    def expand(self, values: np.ndarray) -> np.ndarray:
        """Return a view of a result with all dimensions of the array, in ascending order along each."""
        index: list[slice | None] = []
        plain = True
        for axis in self.axes:
            if axis.drop:
                index.append(None)
                plain = False
            elif axis.flip:
                index.append(slice(None, None, -1))
                plain = False
            else:
                index.append(slice(None))
        return values if plain else values[tuple(index)]


def normalize(selection: object, shape: tuple[int, ...]) -> Selection:
    """Return the normalised selection of an array of the given shape.

    Parameters
    ----------
    selection : int, slice, ellipsis, sequence or array of int or bool, or a tuple of these
        Or a :class:`Selection`, which is returned unchanged.

    Raises
    ------
    SelectionError
        If there are too many indices, an index is outside the array, a mask has the wrong length, or an object is not
        an index.

    Examples
    --------
    >>> normalize((slice(None, None, -2), [0, 2]), (5, 4)).shape
    (3, 2)
    """
    if isinstance(selection, Selection):
        if not selection.fits(shape):
            stops = tuple(axis.stop for axis in selection.axes)
            raise SelectionError(f"the selection up to {stops} is outside the shape {shape}")
        return selection
    items = one_for_each_axis(selection if isinstance(selection, tuple) else (selection,), len(shape))
    return Selection(tuple([_axis(item, size, i) for i, (item, size) in enumerate(zip(items, shape))]))


def _axis(item: SupportsIndex | slice | None, size: int, dimension: int) -> DimensionSelection:
    if isinstance(item, slice):
        try:
            start, stop, step = item.indices(size)
        except (TypeError, ValueError) as error:
            raise SelectionError(f"dimension {dimension}: {error}") from None
        return (
            DimensionSelection(start, max(stop - start, 0)) if step == 1 else _range(range(start, stop, step))
        )
    # True is the index 1 for Python, and a mask or a new axis for numpy.
    if isinstance(item, bool | np.bool_) or item is None:
        raise SelectionError(f"{item!r} is not a valid index of dimension {dimension}")
    try:
        index = operator.index(item)
    except TypeError:
        return _indices(item, size, dimension)
    return DimensionSelection(_inside(index, size, dimension), 1, drop=True)


def _inside(index: int, size: int, dimension: int) -> int:
    # numpy would count from the end again.
    if not -size <= index < size:
        raise SelectionError(f"index {index} is outside dimension {dimension} of size {size}")
    return index + size if index < 0 else index


def _places(axis: int | range | np.ndarray) -> DimensionSelection:
    if isinstance(axis, range):
        return _range(axis)
    if isinstance(axis, np.ndarray):
        return even_axis(axis.astype(np.int64, copy=False))
    return DimensionSelection(axis, 1, drop=True)


def _range(places: range) -> DimensionSelection:
    count = len(places)
    if places.step > 0:
        return DimensionSelection(places.start, count, places.step if count > 1 else 1)
    if count <= 1:
        return DimensionSelection(places.start if count else 0, count)
    return DimensionSelection(places[-1], count, -places.step, flip=True)


def _indices(item: object, size: int, dimension: int) -> DimensionSelection:
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise SelectionError(f"dimension {dimension}: {error}") from None
    if array.ndim != 1:
        raise SelectionError(f"dimension {dimension}: {str(item)[:60]} is not a one-dimensional selection")
    if array.dtype == np.bool_:
        # numpy takes a short mask in silence.
        if array.size != size:
            raise SelectionError(
                f"a mask of {array.size} elements does not fit dimension {dimension} of size {size}"
            )
        places = np.flatnonzero(array)
    elif array.size == 0:
        places = np.empty(0, np.int64)
    elif array.dtype.kind in "iu":
        # Two looks check all indices.
        low, high = int(array.min()), int(array.max())
        _inside(low, size, dimension)
        _inside(high, size, dimension)
        places = array.astype(np.int64)
        if low < 0:
            places[places < 0] += size
    else:
        raise SelectionError(f"dimension {dimension}: an array of {array.dtype} is not a valid index")
    return even_axis(places)


def even_axis(places: np.ndarray) -> DimensionSelection:
    """Return the axis for an array of indices: a slice if they are ascending and evenly spaced."""
    count = places.size
    if count == 0:
        return DimensionSelection(0, 0)
    if count == 1:
        return DimensionSelection(int(places[0]), 1)
    step = int(places[1]) - int(places[0])
    # A slice is read without a gather of single elements.
    if step > 0 and (np.diff(places) == step).all():
        return DimensionSelection(int(places[0]), count, step)
    return DimensionSelection(0, count, indices=places)
