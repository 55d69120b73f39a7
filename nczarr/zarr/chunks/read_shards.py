"""Read the selected inner chunks of shards, from files or stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from operator import is_, itemgetter
from typing import NamedTuple

import numpy as np

from nczarr.errors import CodecError
from nczarr.zarr.chunks import scatter
from nczarr.zarr.chunks.chunks import Chunks, Index
from nczarr.zarr.chunks.plan import Item, Part, is_whole, plan_axis, take
from nczarr.zarr.chunks.selection import Axis
from nczarr.zarr.codecs.base import Buffer, as_bytes_array
from nczarr.zarr.codecs.sharding import ShardIndex, ShardingCodec
from nczarr.zarr.pool import run

#: Inner chunks are read together if the gaps between them have at most this many bytes.
GAP = 32 << 10
#: The largest number of bytes of one run.
RUN = 1 << 20

#: Inner chunks of fewer decoded bytes are planned in rows, because a separate plan would cost more than their bytes.
SMALL = 16 << 10

InnerItem = tuple[int, tuple[Part, ...]]


class Piece(NamedTuple):
    """One inner chunk in a run: its number, its part of the selection, and its bytes in the run."""

    number: int
    item: tuple[Part, ...]
    start: int
    stop: int


class Row(NamedTuple):
    """Whole inner chunks of a run that are contiguous in the shard and along the last dimension of the result.

    `number` is the number of the first inner chunk, `item` the part of all of them. `bounds` is an array of the start
    and stop of each in the run, so that thousands cost little more than a few.
    """

    number: int
    item: tuple[Part, ...]
    bounds: np.ndarray

    def pieces(self) -> Iterator[Piece]:
        """Yield the inner chunks one by one."""
        *head, last = self.item
        for i, (start, stop) in enumerate(self.bounds.tolist()):
            low = last.out.start + i * last.size
            yield Piece(self.number + i, (*head, last._replace(out=slice(low, low + last.size))), start, stop)


class Run(NamedTuple):
    """Neighbouring inner chunks of a shard that are read together."""

    start: int
    length: int
    pieces: list[Piece]
    rows: list[Row]


#: The start and stop of stored bytes with their inner chunk, or with a row of inner chunks (its bounds begin at 0).
Entry = tuple[int, int, InnerItem | Row]


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
        if where is None:
            chunks.miss()
            scatter.put_fill(target, take(item, "out"), codec.inner.spec.fill)
            continue
        needed, missing = _plan_runs(where, *_items_and_rows(codec, item), scatter.row_length(codec.inner))
        for _, inner in missing:
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


def _within(part: Part, length: int) -> Part | None:
    """Return the part of the only selected inner chunk along a dimension; None if there are several."""
    if type(part.inner) is not slice:
        return None
    start, stop, step = part.inner.start, part.inner.stop, part.inner.step
    number = start // length
    low = number * length
    if stop > low + length:
        return None
    full = step == 1 and stop - start == length
    return Part(number, part.out, slice(start - low, stop - low, step), full, full, length)


def single_inner_item(codec: ShardingCodec, item: Sequence[Part]) -> InnerItem | None:
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


def _split(part: Part, length: int) -> list[Part]:
    """Return the parts of the inner chunks along one dimension, for a part of a shard."""
    piece = _within(part, length)
    if piece is not None:
        return [piece]
    if isinstance(part.inner, slice):
        step = part.inner.step
        axis = Axis(part.inner.start, (part.inner.stop - part.inner.start - 1) // step + 1, step)
    else:
        axis = Axis(0, part.inner.size, indices=part.inner)
    result = []
    for piece in plan_axis(axis, part.size, length):
        out: slice | np.ndarray
        if isinstance(part.out, slice):
            if isinstance(piece.out, slice):
                out = slice(part.out.start + piece.out.start, part.out.start + piece.out.stop)
            else:
                out = piece.out + part.out.start
        else:
            out = part.out[piece.out]
        result.append(piece._replace(out=out))
    return result


def inner_items(codec: ShardingCodec, item: Sequence[Part]) -> list[InnerItem]:
    """Return the selected inner chunks of a shard in C order: their numbers and parts."""
    return _combined(_heads(codec, item), _split(item[-1], codec.inner_shape[-1])) if item else [(0, ())]


def _heads(codec: ShardingCodec, item: Sequence[Part]) -> list[InnerItem]:
    """Return the parts along all dimensions but the last, each with the number of its first inner chunk."""
    axes = []
    weight = codec.grid[-1]
    for i in range(len(item) - 2, -1, -1):
        axes.append([(piece.chunk * weight, piece) for piece in _split(item[i], codec.inner_shape[i])])
        weight *= codec.grid[i]
    axes.reverse()
    return [(sum([n for n, _ in pieces]), tuple([p for _, p in pieces])) for pieces in product(*axes)]


def _combined(heads: Sequence[InnerItem], last: Sequence[Part]) -> list[InnerItem]:
    return [(number + part.chunk, (*head, part)) for number, head in heads for part in last]


def _items_and_rows(codec: ShardingCodec, item: Sequence[Part]) -> tuple[list[InnerItem], list[InnerItem]]:
    """Return the selected inner chunks, one by one and, for small ones, in rows.

    A row has the number of its first inner chunk, and the part of all of them.
    """
    middle = _whole_middle(codec, item[-1], codec.inner_shape[-1]) if item else None
    if middle is None:
        return inner_items(codec, item), []
    last, length = item[-1], codec.inner_shape[-1]
    heads = _heads(codec, item)
    whole = [head for head in heads if all(map(is_whole, head[1]))]
    others = [head for head in heads if not all(map(is_whole, head[1]))]
    items = _combined(
        whole, [piece for edge in _edges(last, middle, length) for piece in _split(edge, length)]
    )
    if others:
        items += _combined(others, _split(last, length))
    return items, _combined(whole, [middle])


def _whole_middle(codec: ShardingCodec, part: Part, length: int) -> Part | None:
    """Return the part of the small, fully selected inner chunks along the last dimension; None if there are none."""
    if type(part.inner) is not slice or type(part.out) is not slice or part.inner.step != 1:
        return None
    first, stop = -(-part.inner.start // length), part.inner.stop // length
    if stop - first < 2 or not scatter.fits_rows(codec.inner) or (codec.inner.decoded_size or 0) >= SMALL:
        return None
    low = part.out.start + first * length - part.inner.start
    return Part(first, slice(low, low + (stop - first) * length), slice(0, length, 1), True, True, length)


def _edges(part: Part, middle: Part, length: int) -> Iterator[Part]:
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
) -> tuple[list[Run], list[InnerItem]]:
    """Return the runs of stored inner chunks in the order of their bytes, and the missing inner chunks.

    `rows` are inner chunks along the last dimension, of which at most `length` form a row.
    """
    stored: list[Entry] = []
    items = list(items)
    for row in rows:
        _plan_row(index, row, length, stored, items)
    missing = []
    if items:
        numbers = np.array([number for number, _ in items])
        starts = index.offsets[numbers]
        stops = (starts + index.lengths[numbers]).tolist()
        present = index.present[numbers].tolist()
        for there, start, stop, pair in zip(present, starts.tolist(), stops, items, strict=True):
            if there:
                stored.append((start, stop, pair))
            else:
                missing.append(pair)
    stored.sort(key=itemgetter(0))
    result: list[Run] = []
    low = high = 0
    for start, stop, entry in stored:
        if not result or start > high + GAP or max(high, stop) - low > RUN:
            low = high = start
            result.append(Run(low, 0, [], []))
        high = max(high, stop)
        current = result[-1] = result[-1]._replace(length=high - low)
        if isinstance(entry, Row):
            current.rows.append(entry._replace(bounds=entry.bounds + (start - low)))
        else:
            current.pieces.append(Piece(*entry, start - low, stop - low))
    return result, missing


def _plan_row(
    index: ShardIndex, row: InnerItem, length: int, stored: list[Entry], items: list[InnerItem]
) -> None:
    """Add a row to `stored` in parts of at most `length` contiguous inner chunks, and the other chunks to `items`."""
    number, (*head, last) = row
    count = (last.out.stop - last.out.start) // last.size
    for first in range(0, count, length):
        some = min(length, count - first)
        here = slice(number + first, number + first + some)
        starts, lengths = index.offsets[here], index.lengths[here]
        low = last.out.start + first * last.size
        if index.present[here].all() and (starts[1:] == starts[:-1] + lengths[:-1]).all():
            begin = int(starts[0])
            bounds = np.stack([starts, starts + lengths], axis=1) - begin
            part = last._replace(out=slice(low, low + some * last.size))
            stored.append((begin, begin + int(bounds[-1, 1]), Row(number + first, (*head, part), bounds)))
            continue
        for i in range(some):
            at = low + i * last.size
            items.append((here.start + i, (*head, last._replace(out=slice(at, at + last.size)))))


def _scatter_run(codec: ShardingCodec, job: Run, data: Buffer, target: np.ndarray) -> None:
    """Decode the inner chunks of a run, and copy their selected elements into the result.

    Raises
    ------
    CodecError
        If an inner chunk is damaged; the message has its number.
    """
    whole = as_bytes_array(data)
    for stored in job.rows:
        if not _scatter_row(codec, stored.bounds, target[take(stored.item, "out")], whole):
            _scatter_pieces(codec, stored.pieces(), data, target)
    for row in _rows(codec, job.pieces):
        if len(row) > 1:
            bounds = np.array([(piece.start, piece.stop) for piece in row])
            if _scatter_row(codec, bounds, scatter.row_view([piece.item for piece in row], target), whole):
                continue
        _scatter_pieces(codec, row, data, target)


def _scatter_pieces(codec: ShardingCodec, pieces: Iterable[Piece], data: Buffer, target: np.ndarray) -> None:
    """Decode inner chunks one by one."""
    for piece in pieces:
        try:
            scatter.scatter(codec.inner, piece.item, data[piece.start : piece.stop], target)
        except CodecError as error:
            raise CodecError(f"inner chunk {piece.number}: {error.message}", hint=error.hint) from error


def _rows(codec: ShardingCodec, pieces: list[Piece]) -> list[list[Piece]]:
    """Return rows of whole inner chunks that are contiguous in the shard and in the result, and the others alone."""
    chain = codec.inner
    length = scatter.row_length(chain) if scatter.fits_rows(chain) else 1
    size = chain.decoded_size if chain.is_raw else None
    return scatter.groups(pieces, length, lambda row, piece: _is_next(row[-1], piece, size))


def _scatter_row(codec: ShardingCodec, bounds: np.ndarray, view: np.ndarray, data: np.ndarray) -> bool:
    """Decode a row of inner chunks into its region of the result; return False if one of them is damaged."""
    chain = codec.inner
    if chain.is_raw and (bounds[:, 1] - bounds[:, 0] != chain.decoded_size).any():
        return False
    try:
        scatter.scatter_row(chain, data, bounds.tolist(), view)
    except CodecError:
        return False
    return True


def _is_next(before: Piece, piece: Piece, size: int | None) -> bool:
    """Return True if a piece directly follows another one along the last dimension and in the shard.

    `size` is the required number of stored bytes of both; None allows any number.
    """
    return (
        piece.start == before.stop
        and (size is None or piece.stop - piece.start == size == before.stop - before.start)
        and scatter.follows(before.item[-1:], piece.item[-1])
        and all(map(is_, before.item[:-1], piece.item[:-1]))
        and all(map(is_whole, piece.item[:-1]))
    )
