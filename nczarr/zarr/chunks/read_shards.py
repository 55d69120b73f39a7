"""Read the selected inner chunks of shards, from files or stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from math import prod
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from nczarr.errors import CodecError
from nczarr.zarr.chunks import scatter
from nczarr.zarr.chunks.chunks import Chunks, Index
from nczarr.zarr.chunks.plan import (
    ChunkDimProjection,
    Item,
    PointItem,
    divide_points,
    is_whole,
    split_part,
    take,
)
from nczarr.zarr.codecs.base import Buffer, as_bytes_array
from nczarr.zarr.codecs.sharding import ShardIndex, ShardingCodec
from nczarr.zarr.pool import run

#: Inner chunks are read together if the gaps between them have at most this many bytes.
#: At 20 ms and 100 MB/s with 64 requests at a time, a request costs as much as 32 KiB.
GAP = 32 << 10
#: The largest number of bytes of one run.
RUN = 1 << 20

InnerItem = tuple[int, tuple[ChunkDimProjection, ...]]


class Piece(NamedTuple):
    """One inner chunk, or a row of whole ones that are contiguous in the shard and along one dimension.

    Parameters
    ----------
    start, stop : int
        The place of the bytes in the shard.
    number : int
        The number of the (first) inner chunk.
    item : tuple of ChunkDimProjection
        The part of the selection, of a row together.
    bounds : ndarray, optional
        The start and stop of each inner chunk of a row, so that thousands cost little more than a few.
    """

    start: int
    stop: int
    number: int
    item: tuple[ChunkDimProjection, ...]
    bounds: np.ndarray | None = None

    def each(self) -> Iterator[Piece]:
        """Yield the inner chunks one by one."""
        if self.bounds is None:
            yield self
            return
        for i, (start, stop) in enumerate(self.bounds.tolist()):
            yield Piece(start, stop, self.number + i, _along(self.item, i, 1))


class Run(NamedTuple):
    """Neighbouring inner chunks of a shard that are read together."""

    start: int
    length: int
    pieces: list[Piece]


def plan_shards(
    chunks: Chunks, items: Sequence[Item], indexes: Sequence[ShardIndex | None], target: np.ndarray
) -> list[tuple[int, Run]]:
    """Return the runs to read, each with the number of its shard; copy the fill value for missing inner chunks.

    `indexes` has the index of each shard, None for a missing shard.
    """
    codec = chunks.sharding
    assert codec is not None
    jobs: list[tuple[int, Run]] = []
    for number, (item, where) in enumerate(zip(items, indexes, strict=True)):
        # A missing shard that the array's record names is a loss, and no fill.
        if where is None:
            chunks.miss(tuple([part.chunk for part in item]))
            scatter.put_fill(target, take(item, "out"), codec.inner.spec.fill)
            continue
        needed, missing = _plan_runs(where, *_items_and_rows(codec, item), scatter.row_length(codec.inner))
        for inner in missing:
            scatter.put_fill(target, take(inner, "out"), codec.inner.spec.fill)
        jobs.extend([(number, job) for job in needed])
    return jobs


def read_runs(
    chunks: Chunks,
    places: Sequence[Index],
    jobs: Sequence[tuple[int, Run]],
    read: Callable[[int], Buffer | None],
    target: np.ndarray,
    workers: int | None,
) -> None:
    """Copy the selected elements of runs into `target`, which has the full shape of the selection.

    `read` takes the position of a run in `jobs`, and returns its bytes; None if it has copied the elements.
    """
    codec = chunks.sharding
    assert codec is not None

    def work(position: int) -> None:
        number, job = jobs[position]
        try:
            data = read(position)
            if data is not None:
                _scatter_run(codec, job, data, target)
        except CodecError as error:
            raise chunks.damaged(places[number], error) from error

    run(work, range(len(jobs)), workers)


def _within(part: ChunkDimProjection, length: int) -> ChunkDimProjection | None:
    """Return the part of the only selected inner chunk along a dimension; None if there are several."""
    if type(part.inner) is not slice:
        return None
    start, stop, step = part.inner.start, part.inner.stop, part.inner.step
    number = start // length
    low = number * length
    if stop > low + length:
        return None
    full = step == 1 and stop - start == length
    return ChunkDimProjection(number, part.out, slice(start - low, stop - low, step), full, full, length)


def single_inner_item(codec: ShardingCodec, item: Sequence[ChunkDimProjection]) -> InnerItem | None:
    """Return the inner chunk of a selection by slices; None if there are several, or an index array."""
    number = 0
    parts = []
    for part, length, count in zip(item, codec.inner_shape, codec.grid, strict=True):
        piece = _within(part, length)
        if piece is None:
            return None
        number = number * count + piece.chunk
        parts.append(piece)
    return number, tuple(parts)


def _split(part: ChunkDimProjection, length: int) -> list[ChunkDimProjection]:
    """Return the parts of the inner chunks along one dimension, for a part of a shard."""
    piece = _within(part, length)
    if piece is not None:
        # One inner chunk needs no plan of the axis.
        return [piece]
    return split_part(part, length)


def inner_items(codec: ShardingCodec, item: Sequence[ChunkDimProjection]) -> list[InnerItem]:
    """Return the selected inner chunks of a shard in C order: their numbers and parts."""
    if type(item) is PointItem:
        points = divide_points(item, [(length, None) for length in codec.inner_shape])
        return [(_number(codec, parts), parts) for parts in points]
    return _combined(_heads(codec, item), _split(item[-1], codec.inner_shape[-1])) if item else [(0, ())]


def _number(codec: ShardingCodec, item: Item) -> int:
    number = 0
    for part, count in zip(item, codec.grid, strict=True):
        number = number * count + part.chunk
    return number


def _heads(codec: ShardingCodec, item: Sequence[ChunkDimProjection]) -> list[InnerItem]:
    """Return the parts along the first dimensions, each with the number of its first inner chunk.

    `item` has the first parts of a shard, up to the one along which the inner chunks are rows.
    """
    axes = []
    weight = prod(codec.grid[len(item) - 1 :])
    for i in range(len(item) - 2, -1, -1):
        axes.append([(piece.chunk * weight, piece) for piece in _split(item[i], codec.inner_shape[i])])
        weight *= codec.grid[i]
    axes.reverse()
    return [(sum([n for n, _ in pieces]), tuple([p for _, p in pieces])) for pieces in product(*axes)]


def _combined(
    heads: Sequence[InnerItem], last: Sequence[ChunkDimProjection], tail: Item = ()
) -> list[InnerItem]:
    return [(number + part.chunk, (*head, part, *tail)) for number, head in heads for part in last]


def _items_and_rows(
    codec: ShardingCodec, item: Sequence[ChunkDimProjection]
) -> tuple[list[InnerItem], list[InnerItem]]:
    """Return the selected inner chunks, one by one or, for whole ones, in rows.

    A row has the number of its first inner chunk, and the part of all of them.
    """
    # A row is decoded by one call: most of the time of small chunks goes into each call.
    # Along the last dimension with several inner chunks: bounds of times are pairs.
    axis = max([i for i, count in enumerate(codec.grid) if count > 1], default=0)
    tail = tuple(item[axis + 1 :])
    fits = (
        item and type(item) is not PointItem and scatter.fits_rows(codec.inner) and all(map(is_whole, tail))
    )
    middle = _whole_middle(item[axis], codec.inner_shape[axis]) if fits else None
    if middle is None:
        return inner_items(codec, item), []
    last, length = item[axis], codec.inner_shape[axis]
    heads = _heads(codec, item[: axis + 1])
    whole = [head for head in heads if all(map(is_whole, head[1]))]
    others = [head for head in heads if not all(map(is_whole, head[1]))]
    items = _combined(
        whole, [piece for edge in _edges(last, middle, length) for piece in _split(edge, length)], tail
    )
    if others:
        items += _combined(others, _split(last, length), tail)
    return items, _combined(whole, [middle], tail)


def _whole_middle(part: ChunkDimProjection, length: int) -> ChunkDimProjection | None:
    """Return the part of the fully selected inner chunks along a dimension; None if there are fewer than two."""
    if type(part.inner) is not slice or type(part.out) is not slice or part.inner.step != 1:
        return None
    first, stop = -(-part.inner.start // length), part.inner.stop // length
    if stop - first < 2:
        return None
    low = part.out.start + first * length - part.inner.start
    return ChunkDimProjection(
        first, slice(low, low + (stop - first) * length), slice(0, length, 1), True, True, length
    )


def _edges(part: ChunkDimProjection, middle: ChunkDimProjection, length: int) -> Iterator[ChunkDimProjection]:
    """Yield the remainders of a part before and after its middle."""
    low = middle.chunk * length
    high = low + middle.out.stop - middle.out.start
    before = slice(part.inner.start, low, 1), slice(part.out.start, middle.out.start)
    after = slice(high, part.inner.stop, 1), slice(middle.out.stop, part.out.stop)
    for inner, out in (before, after):
        if inner.start < inner.stop:
            yield part._replace(inner=inner, out=out, full=False)


def _plan_runs(
    index: ShardIndex, items: list[InnerItem], rows: Sequence[InnerItem], length: int
) -> tuple[list[Run], list[Item]]:
    """Return the runs of stored inner chunks in the order of their bytes, and the parts of missing ones.

    `rows` are inner chunks along one dimension, of which at most `length` form a row.
    """
    stored: list[Piece] = []
    items = list(items)
    for row in rows:
        _plan_row(index, row, length, stored, items)
    missing = []
    if items:
        numbers = np.array([number for number, _ in items])
        starts = index.offsets[numbers]
        stops = (starts + index.lengths[numbers]).tolist()
        present = index.present[numbers].tolist()
        for there, start, stop, (number, item) in zip(present, starts.tolist(), stops, items, strict=True):
            if there:
                stored.append(Piece(start, stop, number, item))
            else:
                missing.append(item)
    stored.sort(key=itemgetter(0))
    result: list[Run] = []
    low = high = 0
    for piece in stored:
        # A gap costs its bytes, a further request its latency.
        if not result or piece.start > high + GAP or max(high, piece.stop) - low > RUN:
            low = high = piece.start
            result.append(Run(low, 0, []))
        high = max(high, piece.stop)
        result[-1] = result[-1]._replace(length=high - low)
        result[-1].pieces.append(piece)
    return result, missing


def _plan_row(
    index: ShardIndex, row: InnerItem, length: int, stored: list[Piece], items: list[InnerItem]
) -> None:
    """Add the contiguous inner chunks of a row to `stored`, at most `length` together, and the others to `items`."""
    number, item = row
    along = item[_row_axis(item)]
    count = (along.out.stop - along.out.start) // along.size
    here = slice(number, number + count)
    bounds = np.stack([index.offsets[here], index.offsets[here] + index.lengths[here]], axis=1)
    present = index.present[here]
    # Inner chunks that were written again lie elsewhere in a growing shard.
    joined = present[:-1] & present[1:] & (bounds[:-1, 1] == bounds[1:, 0])
    edges = sorted({*range(0, count, length), *(np.flatnonzero(~joined) + 1).tolist(), count})
    for first, end in pairwise(edges):
        part = _along(item, first, end - first)
        if end - first == 1:
            items.append((number + first, part))
        else:
            some = bounds[first:end]
            stored.append(Piece(int(some[0, 0]), int(some[-1, 1]), number + first, part, some))


def _along(item: Sequence[ChunkDimProjection], first: int, count: int) -> tuple[ChunkDimProjection, ...]:
    """Return the part of some of the inner chunks of a row."""
    axis = _row_axis(item)
    part = item[axis]
    low = part.out.start + first * part.size
    return (*item[:axis], part._replace(out=slice(low, low + count * part.size)), *item[axis + 1 :])


def _row_axis(item: Sequence[ChunkDimProjection]) -> int:
    """Return the dimension of a row: the only one with several chunks."""
    return next(i for i, part in enumerate(item) if part.out.stop - part.out.start > part.size)


def _scatter_run(codec: ShardingCodec, job: Run, data: Buffer, target: np.ndarray) -> None:
    """Decode the inner chunks of a run, and copy their selected elements into the result.

    Raises
    ------
    CodecError
        If an inner chunk is damaged; the message has its number.
    """
    whole = as_bytes_array(data)
    for found in job.pieces:
        if found.bounds is not None:
            view = target[take(found.item, "out")]
            if _scatter_row(codec, found.bounds - job.start, view, whole):
                continue
        for piece in found.each():
            try:
                part = data[piece.start - job.start : piece.stop - job.start]
                scatter.scatter(codec.inner, piece.item, part, target)
            except CodecError as error:
                raise CodecError(f"inner chunk {piece.number}: {error.message}", hint=error.hint) from error


def _scatter_row(codec: ShardingCodec, bounds: np.ndarray, view: np.ndarray, data: np.ndarray) -> bool:
    """Decode a row of inner chunks into its region of the result; return False if one of them is damaged."""
    chain = codec.inner
    # An inner chunk of a wrong length would shift all others of the row.
    if chain.is_raw and (bounds[:, 1] - bounds[:, 0] != chain.decoded_size).any():
        return False
    try:
        scatter.scatter_row(chain, data, bounds.tolist(), view)
    # The inner chunks are then decoded one by one, which names the damaged one.
    except CodecError:
        return False
    return True
