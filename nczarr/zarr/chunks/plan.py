"""Plan the chunks of a selection, and the part of each chunk in the result.

numpy computes the plan separately along each dimension; the chunks are the product of the dimensions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, product, repeat
from math import prod
from typing import Any, NamedTuple

import numpy as np

from nczarr.zarr.chunks.selection import DimensionSelection, Selection
from nczarr.zarr.grids import ChunkGrid


class ChunkDimProjection(NamedTuple):
    """The intersection of a selection with a chunk along one dimension.

    Parameters
    ----------
    chunk : int
        The index of the chunk in the grid.
    out : slice or ndarray
        The indices in the result.
    inner : slice or ndarray
        The indices in the chunk; a slice has start, stop and a step of at least 1.
    full : bool
        True: the selection contains the whole chunk, in order.
    covers : bool
        True: the selection contains the whole part of the chunk inside the array, in order.
    size : int
        The length of the chunk.
    """

    chunk: int
    out: Any
    inner: Any
    full: bool
    covers: bool
    size: int


Item = tuple[ChunkDimProjection, ...]
"""A chunk of a plan: a part for each dimension."""


def plan(selection: Selection, grid: ChunkGrid, shape: tuple[int, ...]) -> list[list[ChunkDimProjection]]:
    """Return the parts along each dimension; their product are the chunks, in row-major order.

    Examples
    --------
    >>> from nczarr.zarr.grids import RegularGrid
    >>> from nczarr.zarr.chunks.selection import normalize
    >>> parts = plan(normalize(slice(1, 6), (8,)), RegularGrid((4,)), (8,))
    >>> [(p.chunk, p.out, p.inner) for p in parts[0]]
    [(0, slice(0, 3, None), slice(1, 4, 1)), (1, slice(3, 5, None), slice(0, 2, 1))]
    """
    axes = enumerate(zip(selection.axes, shape))
    return [plan_axis(axis, size, *_borders(grid, i, size)) for i, (axis, size) in axes]


#: The length of all chunks along a dimension, and None; or their offsets with the last end, and their lengths.
Borders = tuple[int | np.ndarray, np.ndarray | None]


def _borders(grid: ChunkGrid, dimension: int, size: int) -> Borders:
    lengths = grid.lengths(dimension, size)
    return (lengths, None) if isinstance(lengths, int) else (grid.offsets(dimension, size), lengths)


def chunk_count(selection: Selection, grid: ChunkGrid, shape: tuple[int, ...]) -> int:
    """Return an upper bound on the number of chunks of a selection."""
    return prod([_touched(axis, grid.lengths(i, shape[i])) for i, axis in enumerate(selection.axes)])


def steps(
    selection: Selection, grid: ChunkGrid, shape: tuple[int, ...], limit: int
) -> Iterator[tuple[Selection, tuple[slice, ...]]]:
    """Split a selection into parts of about `limit` chunks at most, and yield each with its region of the result.

    So the plan of an array with a billion chunks has a bounded size.

    Examples
    --------
    >>> from nczarr.zarr.grids import RegularGrid
    >>> from nczarr.zarr.chunks.selection import normalize
    >>> [part for _, part in steps(normalize(..., (10,)), RegularGrid((2,)), (10,), 3)]
    [(slice(0, 6, None),), (slice(6, 10, None),)]
    """
    pieces: list[list[tuple[DimensionSelection, slice]]] = []
    for i in reversed(range(len(selection.axes))):
        axis = selection.axes[i]
        lengths = grid.lengths(i, shape[i])
        cut = _cut(axis, lengths if isinstance(lengths, int) else grid.offsets(i, shape[i]), max(limit, 1))
        limit //= max(_touched(axis, lengths), 1)
        pieces.append(cut)
    for combination in product(*reversed(pieces)):
        yield Selection(tuple([axis for axis, _ in combination])), tuple([out for _, out in combination])


def _touched(axis: DimensionSelection, lengths: int | np.ndarray) -> int:
    """Return an upper bound on the number of selected chunks along a dimension."""
    if not isinstance(lengths, int):
        return min(axis.count, len(lengths))
    # Chunks that a stride leaves out must cost nothing.
    if axis.indices is not None or axis.step > lengths:
        return axis.count
    return ((axis.count - 1) * axis.step) // lengths + 2


def _cut(
    axis: DimensionSelection, chunk: int | np.ndarray, limit: int
) -> list[tuple[DimensionSelection, slice]]:
    """Split the selection along a dimension at chunk borders, into parts of at most `limit` chunks."""
    count = axis.count
    if axis.indices is not None or (isinstance(chunk, int) and axis.step > chunk):
        edges = list(range(0, count, limit))
    elif isinstance(chunk, int):
        first = axis.start // chunk
        last = (axis.start + (count - 1) * axis.step) // chunk
        lows = range((first + limit) * chunk, (last + 1) * chunk, limit * chunk)
        edges = [0, *[-(-(low - axis.start) // axis.step) for low in lows]]
    else:
        inside = [low - axis.start for low in chunk[:-1:limit].tolist() if low > axis.start]
        edges = [0, *[edge for low in inside if (edge := -(-low // axis.step)) < count]]
    result = []
    for begin, end in pairwise([*edges, count]):
        if axis.indices is not None:
            part = axis._replace(count=end - begin, indices=axis.indices[begin:end])
        else:
            part = axis._replace(start=axis.start + begin * axis.step, count=end - begin)
        result.append((part, slice(begin, end)))
    return result


def plan_axis(
    axis: DimensionSelection, size: int, chunk: int | np.ndarray, lengths: np.ndarray | None = None
) -> list[ChunkDimProjection]:
    """Return the parts along one dimension of length `size`.

    `chunk` is the length of all chunks, or an array of the offsets of all chunks and the end of the last one. `lengths`
    are the lengths of the chunks in the second case; the last chunk may extend beyond the array.
    """
    if axis.count == 0:
        return []
    if axis.indices is not None:
        return _plan_indices(axis.indices, size, chunk, lengths)
    start, count, step = axis.start, axis.count, axis.step
    last = start + (count - 1) * step
    if isinstance(chunk, int):
        first_chunk, last_chunk = start // chunk, last // chunk
        if step > chunk:  # most chunks are skipped, and must not cost time
            places = start + step * np.arange(count)
            return _plan_indices(places, size, chunk, None)
        if first_chunk == last_chunk:
            low = first_chunk * chunk
            return [_part(first_chunk, low, chunk, 0, count, start - low, step, size)]
        chunks = np.arange(first_chunk, last_chunk + 1)
        lows = chunks * chunk
        sizes = np.full(chunks.shape, chunk)
        highs = lows + chunk
    else:
        assert lengths is not None
        first_chunk = int(np.searchsorted(chunk, start, "right")) - 1
        last_chunk = int(np.searchsorted(chunk, last, "right")) - 1
        chunks = np.arange(first_chunk, last_chunk + 1)
        lows = chunk[chunks]
        sizes = lengths[chunks]
        highs = lows + sizes
    # The range of the selection's elements inside each chunk.
    begin = np.maximum(-(-(lows - start) // step), 0)
    end = np.minimum((highs - 1 - start) // step + 1, count)
    keep = begin < end
    inside = start + begin * step - lows
    rows = np.stack([chunks, lows, sizes, begin, end, inside])[:, keep].T.tolist()
    return [_part(i, low, n, k0, k1, at, step, size) for i, low, n, k0, k1, at in rows]


def _part(
    chunk: int, low: int, length: int, begin: int, end: int, at: int, step: int, size: int
) -> ChunkDimProjection:
    count = end - begin
    stop = at + (count - 1) * step + 1
    dense = at == 0 and count == stop
    full = dense and stop == length
    covers = dense and stop >= min(length, size - low)
    return ChunkDimProjection(
        chunk, slice(begin, end), slice(at, stop, 1 if count == 1 else step), full, covers, length
    )


def _plan_indices(
    places: np.ndarray, size: int, chunk: int | np.ndarray, lengths: np.ndarray | None
) -> list[ChunkDimProjection]:
    if isinstance(chunk, int):
        numbers = places // chunk
    else:
        numbers = np.searchsorted(chunk, places, "right") - 1
    ascending = bool((np.diff(numbers) >= 0).all())
    # Of two values for one element, the last counts, as in NumPy.
    order = None if ascending else np.argsort(numbers, kind="stable")
    ordered = numbers if order is None else numbers[order]
    edges = np.concatenate([[0], np.flatnonzero(np.diff(ordered)) + 1, [ordered.size]]).tolist()
    result = []
    for begin, end in pairwise(edges):
        number = int(ordered[begin])
        if isinstance(chunk, int):
            low, length = number * chunk, chunk
        else:
            assert lengths is not None
            low, length = int(chunk[number]), int(lengths[number])
        where: Any = slice(begin, end) if order is None else order[begin:end]
        inner = places[begin:end] - low if order is None else places[where] - low
        # Indices in any order and with repetitions; an equivalent slice if possible.
        steps = np.diff(inner)
        if inner.size == 1 or (steps[0] > 0 and (steps == steps[0]).all()):
            step = 1 if inner.size == 1 else int(steps[0])
            dense = step == 1 and int(inner[0]) == 0
            within = min(length, size - low)
            result.append(
                ChunkDimProjection(
                    number,
                    where,
                    slice(int(inner[0]), int(inner[-1]) + 1, step),
                    dense and inner.size == length,
                    dense and inner.size >= within,
                    length,
                )
            )
        else:
            result.append(ChunkDimProjection(number, where, inner, False, False, length))
    return result


def split_part(
    part: ChunkDimProjection, chunk: int | np.ndarray, lengths: np.ndarray | None = None
) -> list[ChunkDimProjection]:
    """Divide a part at the borders of smaller chunks, which are those of :func:`plan_axis`."""
    if type(part.inner) is slice:
        step = part.inner.step
        axis = DimensionSelection(
            part.inner.start, (part.inner.stop - part.inner.start - 1) // step + 1, step
        )
    else:
        axis = DimensionSelection(0, part.inner.size, indices=part.inner)
    result = []
    for piece in plan_axis(axis, part.size, chunk, lengths):
        out: slice | np.ndarray
        if type(part.out) is not slice:
            out = part.out[piece.out]
        elif type(piece.out) is slice:
            out = slice(part.out.start + piece.out.start, part.out.start + piece.out.stop)
        else:
            out = piece.out + part.out.start
        result.append(piece._replace(out=out))
    return result


class PointItem(tuple[ChunkDimProjection, ...]):
    """A chunk with single points: positions along some dimensions together, slices along the others.

    The result has the points along its first axis, then the axes of the slices. The first part with positions has the
    numbers of the points as `out`, the others None.
    """

    __slots__ = ()

    def mesh(self, attribute: str) -> tuple[Any, ...]:
        """Return one field of the parts as an index of the result, or of the chunk."""
        slices = [part for part in self if type(part.out) is slice]
        if attribute == "out":
            points = next(part.out for part in self if type(part.out) is np.ndarray)
            return (points, *[part.out for part in slices])
        if not slices:
            return tuple([part.inner for part in self])
        # The points along the first axis of a mesh, each slice along one of its own.
        result, own = [], 0
        for part in self:
            after = len(slices)
            places = part.inner
            if type(part.out) is slice:
                own += 1
                after -= own
                places = np.arange(places.start, places.stop, places.step)
            result.append(places.reshape(-1, *[1] * after))
        return tuple(result)


def plan_points(
    axes: Sequence[slice | np.ndarray], grid: ChunkGrid, shape: tuple[int, ...]
) -> Iterator[PointItem]:
    """Yield the chunks of single points: as many positions along each of some dimensions, slices along the others.

    Examples
    --------
    >>> from nczarr.zarr.grids import RegularGrid
    >>> places = np.array([5, 0, 4]), np.array([1, 3, 0])
    >>> for item in plan_points(places, RegularGrid((2, 2)), (6, 4)):
    ...     [p.chunk for p in item], item.mesh("out")[0].tolist(), [p.inner.tolist() for p in item]
    ([0, 1], [1], [[0], [1]])
    ([2, 0], [0, 2], [[1, 0], [1, 0]])
    """
    points: np.ndarray | None = None
    parts = []
    for axis, size in zip(axes, shape, strict=True):
        out: Any = None
        if isinstance(axis, slice):
            out = slice(0, len(range(axis.start, axis.stop, axis.step)))
        elif points is None:
            out = points = np.arange(len(axis))
        parts.append(ChunkDimProjection(0, out, axis, False, False, size))
    return divide_points(PointItem(parts), [_borders(grid, i, size) for i, size in enumerate(shape)])


def divide_points(item: PointItem, borders: Sequence[Borders]) -> Iterator[PointItem]:
    """Divide points of an array, or of a shard, at the borders of chunks."""
    numbers = {
        i: _chunk_numbers(part.inner, chunk)
        for i, (part, (chunk, _)) in enumerate(zip(item, borders, strict=True))
        if type(part.out) is not slice
    }
    order = np.lexsort(list(numbers.values())[::-1])
    is_first = np.arange(order.size) == 0
    for own in numbers.values():
        ordered = own[order]
        is_first[1:] |= ordered[1:] != ordered[:-1]
    edges = np.append(np.flatnonzero(is_first), order.size)
    axes: list[Iterable[Sequence[ChunkDimProjection]]] = []
    for i, (part, (chunk, lengths)) in enumerate(zip(item, borders, strict=True)):
        if i in numbers:
            axes.append(_point_parts(part, numbers[i], order, edges, chunk, lengths))
        else:
            axes.append(repeat(split_part(part, chunk, lengths)))
    for parts in zip(*axes, strict=False):
        yield from map(PointItem, product(*parts))


def _chunk_numbers(places: np.ndarray, chunk: int | np.ndarray) -> np.ndarray:
    numbers = places // chunk if isinstance(chunk, int) else np.searchsorted(chunk, places, "right") - 1
    # Keys of 16 bits are sorted ten times as fast.
    return numbers.astype(np.int16) if numbers.max() < 1 << 15 else numbers


def _point_parts(
    part: ChunkDimProjection,
    numbers: np.ndarray,
    order: np.ndarray,
    edges: np.ndarray,
    chunk: int | np.ndarray,
    lengths: np.ndarray | None,
) -> Iterator[Sequence[ChunkDimProjection]]:
    """Yield the part of each chunk along a dimension with positions: those between two edges of the order."""
    own = numbers[order[edges[:-1]]].astype(np.int64)
    inner = part.inner[order]
    inner -= np.repeat(own * chunk if lengths is None else chunk[own], np.diff(edges))  # type: ignore[index]
    out = None if part.out is None else part.out[order]
    sizes = repeat(chunk) if lengths is None else lengths[own].tolist()
    for number, size, (start, stop) in zip(own.tolist(), sizes, pairwise(edges.tolist()), strict=False):
        points = None if out is None else out[start:stop]
        yield (ChunkDimProjection(number, points, inner[start:stop], False, False, size),)


def is_whole(part: ChunkDimProjection) -> bool:
    """Return True if the whole chunk along a dimension maps to consecutive indices of the result."""
    return part.full and type(part.out) is slice


def bounds(part: ChunkDimProjection) -> slice:
    """Return the smallest slice of the chunk that contains the selected indices."""
    if isinstance(part.inner, slice):
        return slice(part.inner.start, part.inner.stop, 1)
    return slice(int(part.inner.min()), int(part.inner.max()) + 1, 1)


def within(item: Sequence[ChunkDimProjection], limits: Sequence[slice]) -> Item:
    """Return the item for a chunk of which only a box is at hand."""
    parts = [_moved(part, limit.start) for part, limit in zip(item, limits, strict=True)]
    return PointItem(parts) if type(item) is PointItem else tuple(parts)


def _moved(part: ChunkDimProjection, low: int) -> ChunkDimProjection:
    """Return the part for a chunk whose first `low` elements are cut off."""
    if isinstance(part.inner, slice):
        return part._replace(inner=slice(part.inner.start - low, part.inner.stop - low, part.inner.step))
    return part._replace(inner=part.inner - low)


def take(parts: Sequence[ChunkDimProjection], attribute: str) -> tuple[Any, ...]:
    """Return one field of the parts of a chunk as an index: plain slices, or an open mesh of arrays.

    Examples
    --------
    >>> take([ChunkDimProjection(0, slice(0, 2), slice(1, 3, 1), False, False, 4)], "inner")
    (slice(1, 3, 1),)
    """
    if not parts:
        return (Ellipsis,)  # returns a view; an empty index would return a scalar
    if type(parts) is PointItem:
        return parts.mesh(attribute)
    return each_axis([getattr(part, attribute) for part in parts])


def each_axis(items: Iterable[Any]) -> tuple[Any, ...]:
    """Return an orthogonal index: plain slices, or an open mesh of arrays.

    Examples
    --------
    >>> each_axis([slice(0, 2), slice(1, 3)])
    (slice(0, 2, None), slice(1, 3, None))
    >>> [axis.ravel().tolist() for axis in each_axis([slice(0, 2), np.array([4, 7])])]
    [[0, 1], [4, 7]]
    """
    items = tuple(items)
    for item in items:
        if type(item) is not slice:
            break
    else:
        return items
    if len(items) == 1:
        return items
    arrays = [np.arange(i.start, i.stop, i.step or 1) if isinstance(i, slice) else i for i in items]
    return np.ix_(*arrays)
