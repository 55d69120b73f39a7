"""Parse an index into one selector per axis: orthogonal indexing.

Each index applies to its own axis: ``v[[0, 1], [2, 3, 4]]`` has the shape (2, 3). An index may have the elements of
netCDF4-python: integers, slices, one ellipsis, one-dimensional sequences of integers or booleans, and numbers or
strings that represent an integer.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nczarr.errors import ArgumentError, ArgumentTypeError, RangeError, SelectionError
from nczarr.indices import one_for_each_axis

_VALID_INDICES = (
    "only integers, slices (`:`), ellipsis (`...`), and 1-d integer or boolean arrays are valid indices"
)

#: The largest position with 63 bits.
_MAX_PLACE = 2**63 - 1

#: A normalized index of one axis: an integer, a range, or positions.
AxisIndex = int | range | np.ndarray


class Index(NamedTuple):
    """A selection: for each axis an integer, which removes the axis, a range, or positions in any order.

    Parameters
    ----------
    axes : tuple
        One entry for each axis of the variable (one for a scalar variable, too).
    """

    axes: tuple[AxisIndex, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of elements along each axis; 1 for an integer."""
        return tuple([1 if isinstance(axis, int) else len(axis) for axis in self.axes])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result, without the axes of integers."""
        return tuple(len(axis) for axis in self.axes if not isinstance(axis, int))

    @property
    def extent(self) -> tuple[int, ...]:
        """The required sizes of the axes; 0 for an empty selection."""
        return tuple([_last(axis) + 1 for axis in self.axes])

    def divided(
        self, *, writing: bool = False
    ) -> tuple[tuple[slice | np.ndarray, ...], tuple[slice | np.ndarray | None, ...]]:
        """Divide the selection into a plain selection and an index.

        Returns
        -------
        plain : tuple of (slice or ndarray)
            Slices with positive steps or increasing positions, which stores read and write efficiently.
        order : tuple of (slice, ndarray or None)
            The index of each axis of the plain result, or of the data before they are written; None: the whole
            axis. For a repeated position, the last value is written.
        """
        pairs = [_divided(axis, writing) for axis in self.axes]
        return tuple([plain for plain, _ in pairs]), tuple([order for _, order in pairs])


def reordered(block: np.ndarray, orders: tuple[slice | np.ndarray | None, ...]) -> np.ndarray:
    """Apply the index of :meth:`Index.divided` to values."""
    for axis, order in enumerate(orders):
        if isinstance(order, np.ndarray):
            block = np.take(block, order, axis)
        elif order is not None:
            block = np.flip(block, axis)
    return block


def _divided(axis: AxisIndex, writing: bool) -> tuple[slice | np.ndarray, slice | np.ndarray | None]:
    """Divide the index of one axis; see :meth:`Index.divided`."""
    if isinstance(axis, int):
        return slice(axis, axis + 1, 1), None
    if isinstance(axis, np.ndarray):
        if bool((axis[1:] > axis[:-1]).all()):
            return axis, None
        backward = _as_range(axis[::-1])
        # A store reads each position once. Of repeated positions, the last value is written, as by numpy.
        if isinstance(backward, np.ndarray):
            plain, last = np.unique(axis[::-1], return_index=True)
            return plain, len(axis) - 1 - last if writing else np.searchsorted(plain, axis)
        axis = backward[::-1]
    if not len(axis):
        return slice(0, 0, 1), None
    if axis.step > 0:
        return slice(axis[0], axis[-1] + 1, axis.step), None
    return slice(axis[-1], axis[0] + 1, -axis.step), slice(None, None, -1)


def _last(axis: AxisIndex) -> int:
    if isinstance(axis, int):
        return axis
    if not len(axis):
        return -1
    return max(axis[0], axis[-1]) if isinstance(axis, range) else int(axis.max())


def parse_selection(
    elem: object,
    shape: tuple[int, ...],
    *,
    growable: Sequence[bool] | None = None,
    data_shape: tuple[int, ...] | None = None,
) -> Index:
    """Parse an index.

    Parameters
    ----------
    elem : object
    shape : tuple of int
        Current shape of the variable; a scalar variable counts as one axis of size 1.
    growable : sequence of bool, optional
        For writing: the axes that may grow. None: the selection must be inside the shape.
    data_shape : tuple of int, optional
        For writing: the shape of the data, which sets the length of an open slice of an axis that may grow.

    Raises
    ------
    SelectionError
        If an index has an unknown kind or more than one dimension, or is outside of the shape. On writing, an integer
        behind the end is accepted: the writer checks the growth of the axis after the shape of the data.
    ArgumentError
        If there are more indices than axes (also a :class:`IndexError`), or the step of a slice is zero.
    ArgumentTypeError
        If the parts of a slice are not integers.
    RangeError
        If a position has more than 63 bits.

    Examples
    --------
    >>> parse_selection((slice(None, None, -1), [0, 2]), (3, 4)).axes
    (range(2, -1, -1), range(0, 3, 2))
    """
    writing = growable is not None
    any_integer = (
        not shape and not writing
    )  # netCDF4-python reads a scalar by each index that is not negative
    if not shape:
        shape, growable = (1,), (False,) if writing else None
    if (
        type(elem) is tuple
        and not any_integer
        and len(elem) == len(shape)
        and all(type(item) is int for item in elem)
    ):
        return Index(tuple([axis_integer(i, n, writing=writing) for i, n in zip(elem, shape, strict=True)]))
    grows = tuple(growable) if growable is not None else (False,) * len(shape)
    if type(elem) is int and not any_integer and not any(grows[1:]):  # one step: the loops of most programs
        return Index((axis_integer(elem, shape[0], writing=writing), *map(range, shape[1:])))
    items = _expand(elem, len(shape))
    kinds = [_classify(item, size, grow) for item, size, grow in zip(items, shape, grows, strict=True)]
    lengths = _data_lengths(kinds, shape, data_shape) if data_shape is not None else None
    axes: list[AxisIndex] = []
    for i, (kind, size, grow) in enumerate(zip(kinds, shape, grows, strict=True)):
        if isinstance(kind, slice):
            written = (not data_shape, lengths[i]) if grow and lengths is not None else None
            # A single value makes one record, unless the records themselves have a size.
            axes.append(_range(kind, size, written, shape[-1] == 0))
        elif isinstance(kind, int):
            axes.append(
                0 if any_integer and 0 < kind <= _MAX_PLACE else axis_integer(kind, size, writing=writing)
            )
        else:
            axes.append(kind)
    return Index(tuple(axes))


def _expand(elem: Any, ndim: int) -> list[object]:
    """Return one item for each axis, with full slices for an ellipsis and missing axes."""
    if type(elem) is int:
        return [elem] + [slice(None)] * (ndim - 1)
    if isinstance(elem, tuple):
        items = list(elem)
    # netCDF4-python takes numbers as text, too: v["-1"].
    elif isinstance(elem, np.ndarray | str | bytes) or not np.iterable(elem):
        items = [elem]
    else:
        listed = list(elem)
        items = [elem] if all(_means_integer(e) for e in listed) else listed
    return one_for_each_axis(items, ndim)


def _means_integer(value: Any) -> bool:
    try:
        return bool(int(value) == value)
    except (TypeError, ValueError, OverflowError):
        return False


def _classify(item: object, size: int, grow: bool) -> int | slice | AxisIndex:
    """Return an integer or a slice unchanged, or checked positions."""
    if isinstance(item, slice) or type(item) is int:
        return item
    # netCDF4-python takes a number as text for an index: v["-1"].
    if isinstance(item, str | bytes):
        try:
            return int(item)
        except ValueError:
            raise SelectionError(_VALID_INDICES) from None
    try:
        array = np.asarray(item)
    except ValueError:
        raise SelectionError(_VALID_INDICES) from None
    # numpy drops the mask in silence.
    if np.ma.is_masked(item):
        raise SelectionError(f"{_VALID_INDICES}, and of these some are masked")
    # The index is orthogonal: each axis has one list of its own.
    if array.ndim > 1:
        raise SelectionError("Index cannot be multidimensional")
    if array.ndim == 0:
        return _scalar(array)
    # numpy takes a mask that is too short in silence.
    if array.dtype.kind == "b":
        if not grow and len(array) != size:
            raise SelectionError("Boolean array must have the same shape as the data along this dimension.")
        array = np.flatnonzero(array)
    if array.dtype.kind not in "iu":
        raise SelectionError(_VALID_INDICES)
    # A cast to int64 makes these negative, which count from the end.
    if array.dtype.kind == "u" and array.size and int(array.max()) > _MAX_PLACE:
        raise SelectionError("integer index exceeds dimension size")
    positions = array.astype(np.intp)
    positions = np.where(positions < 0, positions + size, positions)
    if positions.size and (positions.min() < 0 or (not grow and positions.max() >= size)):
        raise SelectionError("integer index exceeds dimension size")
    return _as_range(positions)


def _scalar(array: np.ndarray) -> int:
    if array.dtype.kind in "biu":
        return int(array)
    # netCDF4-python takes whole floats as indices.
    if array.dtype.kind == "f" and np.isfinite(array) and array == np.floor(array):
        return int(array)
    if array.dtype == object:
        try:
            return operator.index(array.item())
        except TypeError:
            pass
    raise SelectionError(_VALID_INDICES)


def _as_range(positions: np.ndarray) -> range | np.ndarray:
    """Return positions with equal positive distances as a range, since stores read slices faster.

    Decreasing positions are unchanged: they select characters, where ``[::-1]`` selects text.
    """
    if not positions.size:
        return range(0)
    first = int(positions[0])
    if positions.size == 1:
        return range(first, first + 1)
    step = int(positions[1]) - first
    if step <= 0 or not bool((np.diff(positions) == step).all()):
        return positions
    return range(first, int(positions[-1]) + 1, step)


def axis_integer(index: int, size: int, *, writing: bool) -> int:
    """Return an integer index from the start of the axis; errors as :func:`parse_selection`."""
    if index < 0:
        if -index > size:
            raise SelectionError("Index out of range")
        return index + size
    if index >= size:
        # Such a place in an unlimited dimension was stored, and the dataset could not be opened again.
        if index > _MAX_PLACE:
            raise RangeError(f"the index {index} needs more than 63 bits")
        if not writing:
            raise SelectionError("index exceeds dimension bounds")
    return index


def _data_lengths(
    kinds: Sequence[object], shape: tuple[int, ...], data_shape: tuple[int, ...]
) -> tuple[int | None, ...]:
    """Return the sizes of the data along the axes of the variable. The data may lack axes with an integer."""
    if len(data_shape) == len(kinds):
        return data_shape
    wide = [not isinstance(kind, int) for kind in kinds]
    if len(data_shape) == sum(wide):
        sizes = iter(data_shape)
        return tuple(next(sizes) if w else None for w in wide)
    return tuple(data_shape[i] if i < len(data_shape) else None for i in range(len(kinds)))


def _range(item: slice, size: int, written: tuple[bool, int | None] | None, lone: bool) -> range:
    """Return the positions of a slice; `written` tells of an axis that grows if the data are a single value.

    Its second item is the length of the data, as in :func:`_data_lengths`.
    """
    try:
        length = size if written is None else _grown(item, size, *written, lone)
        # HDF5 and Zarr count places in 64 bits with a sign.
        if length > _MAX_PLACE:
            raise RangeError(f"the slice ends at {length}, which needs more than 63 bits")
        found = range(*item.indices(length))
    except TypeError as error:
        raise ArgumentTypeError(f"{_VALID_INDICES}: {error}") from error
    except ValueError as error:
        raise ArgumentError(str(error)) from error
    # The step of a single position is irrelevant, and may exceed the store's integers.
    return range(found[0], found[0] + 1) if len(found) == 1 else found


def _grown(item: slice, size: int, single: bool, count: int | None, lone: bool) -> int:
    """Return the length of an unlimited axis after `count` positions, or a single value, are written to a slice."""
    start = 0 if item.start is None else operator.index(item.start)
    if item.stop is not None:
        return max(size, operator.index(item.stop))
    # As in netCDF4-python, one value for v[:] makes one record of an empty variable.
    if single:
        return 1 if size == 0 and lone else size
    if count is None:
        raise SelectionError("shape of data does not conform to slice")
    if start >= 0:
        return start + count
    if -start > size and count and (item.step is None or operator.index(item.step) > 0):
        raise ArgumentError(f"the slice begins {-start} before the end of an axis of {size}")
    return max(size, size + start + count) if -start <= size else size
