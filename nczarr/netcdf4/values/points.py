"""Read the elements of a variable at single points: each chunk is read once, however many points are in it.

An index of points has an array of positions for some axes, which are broadcast together as numpy does, and slices for
the others. The axes of the points come first in the result.
"""

from __future__ import annotations

import operator
from math import prod
from typing import Any

import numpy as np

from nczarr import errors
from nczarr.dataclass import dataclass
from nczarr.indices import one_for_each_axis
from nczarr.netcdf4.values.access import present, read
from nczarr.netcdf4.values.indexing import AxisIndex, Index, reordered
from nczarr.netcdf4.values.types import Settings
from nczarr.session import Session, VariableNode
from nczarr.zarr.pool import run

#: Without chunks, elements within so many bytes are read together: it costs as much as another request.
_TOGETHER = 64 << 10
#: Positions are read instead of the box around them if the box is large, and has so many times more elements. A plan of
#: positions costs as much as the bytes of a small box.
_SPARSE, _SMALL_BOX = 4, 256 << 10


@dataclass(frozen=True)
class PointIndexer:
    """Selects elements of a variable at single points: ``variable.vindex[times, rows, columns]``."""

    session: Session
    node: VariableNode
    settings: Settings

    def __getitem__(self, key: object) -> Any:
        return read_points(self.session, self.node, self.settings, key)

    def __repr__(self) -> str:
        return f"<points of {self.node.fqn}>"


def read_points(session: Session, node: VariableNode, settings: Settings, key: object) -> Any:
    """Return ``variable.vindex[key]``, masked and unpacked as the settings ask.

    Parameters
    ----------
    key : tuple of (int, array_like of int, slice or Ellipsis), or mask
        For each axis an integer or an array of integers of any shape, which are broadcast together, or a slice. A
        mask is a boolean array of the variable's shape.

    Returns
    -------
    MaskedArray, ndarray or scalar
        Its shape is the broadcast shape of the positions, then the lengths of the slices.

    Raises
    ------
    SelectionError
        If a position is no integer or outside of the variable, the arrays cannot be broadcast, or there are too many.
    """
    session.rules.check_open()
    shape = node.shape
    axes, points = _parse(key, shape[:-1] if settings.paired else shape, node.fqn)
    if points is None:
        return read(session, node, settings, key)
    index = Index((*axes, range(2)) if settings.paired else axes)
    data = _read(session, node, index, shape)
    data = present(node, settings, data.reshape(points + data.shape[1:]), index, shape)
    return data if data.ndim else data[()]


def read_stored_points(session: Session, node: VariableNode, key: object) -> np.ndarray:
    """Return the stored values at single points; see :func:`read_points`."""
    axes, points = _parse(key, node.shape, node.fqn)
    assert points is not None
    data = _read(session, node, Index(axes), node.shape)
    return data.reshape(points + data.shape[1:])


def _parse(
    key: object, shape: tuple[int, ...], fqn: str
) -> tuple[tuple[AxisIndex, ...], tuple[int, ...] | None]:
    """Return a flat array of positions or a range for each axis, and the shape of the points; None without points."""
    mask = np.asarray(key) if isinstance(key, np.ndarray | list) else None
    if mask is not None and mask.dtype == bool:
        if mask.shape != shape:
            raise errors.SelectionError(f"the mask has the shape {mask.shape}, not {shape}", fqn=fqn)
        return np.nonzero(mask), (int(mask.sum()),)
    entries = one_for_each_axis(key if isinstance(key, tuple) else [key], len(shape), fqn)
    positions = {
        axis: _positions(entry, size, fqn)
        for axis, (entry, size) in enumerate(zip(entries, shape, strict=True))
        if not isinstance(entry, slice)
    }
    if not positions:
        return (), None
    try:
        together = np.broadcast_arrays(*positions.values())
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in positions.values())
        raise errors.SelectionError(f"the positions have the shapes {shapes}", fqn=fqn) from None
    flat = dict(zip(positions, (array.reshape(-1) for array in together), strict=True))
    axes = (
        range(*entry.indices(size)) if isinstance(entry, slice) else flat[axis]
        for axis, (entry, size) in enumerate(zip(entries, shape, strict=True))
    )
    return tuple(axes), together[0].shape


def _positions(entry: object, size: int, fqn: str) -> np.ndarray:
    """Return non-negative positions along an axis."""
    try:
        array = np.asarray(entry if hasattr(entry, "__len__") else operator.index(entry))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        array = None
    if array is None or (array.size and array.dtype.kind not in "iu"):
        raise errors.SelectionError(f"{entry!r} is no integer position, array of them, or slice", fqn=fqn)
    array = array.astype(np.int64, copy=False)
    # Two looks check all positions.
    low, high = (int(array.min()), int(array.max())) if array.size else (0, -1)
    if low < -size or high >= size:
        found = low if low < -size else high
        raise errors.SelectionError(f"the position {found} is outside of a dimension of size {size}", fqn=fqn)
    return np.where(array < 0, array + size, array) if low < 0 else array


def _read(session: Session, node: VariableNode, index: Index, shape: tuple[int, ...]) -> np.ndarray:
    """Return stored elements: points along the first axis, then the axes of ranges."""
    places = {axis: entry for axis, entry in enumerate(index.axes) if isinstance(entry, np.ndarray)}
    ranges = Index(tuple([range(0) if axis in places else entry for axis, entry in enumerate(index.axes)]))
    plain, orders = ranges.divided()
    rest = tuple([count for axis, count in enumerate(ranges.counts) if axis not in places])
    count = len(next(iter(places.values())))
    out = np.empty((count, *rest), node.type.dtype)
    if not out.size:
        return out
    kept = tuple([order for axis, order in enumerate(orders) if axis not in places])
    axes = tuple([places.get(axis, entry) for axis, entry in enumerate(plain)])
    data = session.read_points(node, axes)
    if data is not None:
        return reordered(data, (None, *kept))
    on_zarr = session.stored.disk_format == "ZARR"
    unit = node.storage.chunk_shape or (shape if on_zarr else _rows(shape, node.type.dtype.itemsize))
    is_leading = list(places) == list(range(len(places)))
    order, bounds = _by_chunk(places, unit, shape)
    # The box around the points of each chunk, along each axis of points.
    ordered = {axis: positions[order] for axis, positions in places.items()}
    firsts = bounds[:-1]
    lows = {axis: np.minimum.reduceat(own, firsts).tolist() for axis, own in ordered.items()}
    highs = {axis: (np.maximum.reduceat(own, firsts) + 1).tolist() for axis, own in ordered.items()}
    itemsize = node.type.dtype.itemsize

    def read_chunk(number: int) -> None:
        first, stop = bounds[number], bounds[number + 1]
        selection, inside = list(plain), []
        sizes = [highs[axis][number] - lows[axis][number] for axis in places]
        is_sparse = prod(sizes) > _SPARSE * (stop - first) ** len(places)
        # A box of a small chunk costs less than its plan: 1,000 points took five times as long.
        if is_sparse and prod(sizes) * itemsize > _SMALL_BOX:
            for axis, own in ordered.items():
                selection[axis], inverse = np.unique(own[first:stop], return_inverse=True)
                inside.append(inverse)
        else:
            for axis, own in ordered.items():
                low = lows[axis][number]
                selection[axis] = slice(low, highs[axis][number], 1)
                inside.append(own[first:stop] - low)
        block = session.read(node, tuple(selection))
        if not is_leading:
            block = np.moveaxis(block, list(places), range(len(places)))
        out[order[first:stop]] = reordered(block[tuple(inside)], (None, *kept))

    # HDF5 and the classic formats are read by one thread.
    run(read_chunk, range(len(firsts)), None if on_zarr else 1)
    return out


def _rows(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the shape of a block of whole rows of at most :data:`_TOGETHER` bytes."""
    unit, size = [1] * len(shape), itemsize
    for axis in range(len(shape) - 1, -1, -1):
        unit[axis] = max(1, min(shape[axis], _TOGETHER // size))
        size *= shape[axis]
        if size > _TOGETHER:
            break
    return tuple(unit)


def _by_chunk(
    places: dict[int, np.ndarray], unit: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[np.ndarray, list[int]]:
    """Return the numbers of the points in the order of their chunks, and the first and the end of each chunk."""
    chunk = np.zeros(len(next(iter(places.values()))), np.int64)
    for axis, positions in places.items():
        chunk = chunk * -(-shape[axis] // unit[axis]) + positions // unit[axis]
    order = np.argsort(chunk, kind="stable")
    return order, [0, *(np.flatnonzero(np.diff(chunk[order])) + 1).tolist(), len(order)]
