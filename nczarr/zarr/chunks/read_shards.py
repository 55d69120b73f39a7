"""Read the inner chunks of shards that a selection needs, wherever the shards' bytes come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from operator import is_
from typing import Any, NamedTuple, Protocol

import numpy as np

from nczarr.errors import CodecError
from nczarr.zarr.chunks.chunks import Chunks, Index
from nczarr.zarr.chunks.neighbours import fits_rows, follows, place_row, row_length, row_view
from nczarr.zarr.chunks.place import place, put_fill
from nczarr.zarr.chunks.plan import Item, Part, is_whole, plan_axis, take
from nczarr.zarr.chunks.selection import Axis
from nczarr.zarr.codecs import Buffer, ShardIndex, ShardingCodec, as_bytes_array
from nczarr.zarr.pool import run

#: Inner chunks with no more unwanted bytes between them than this are read together,
GAP = 32 << 10
#: but not more than this at a time.
RUN = 1 << 20

InnerItem = tuple[int, tuple[Part, ...]]


class Piece(NamedTuple):
    """One inner chunk in a run: its number, what of it goes where, and which bytes of the run it is."""

    number: int
    item: tuple[Part, ...]
    start: int
    stop: int


class Run(NamedTuple):
    """Neighbouring inner chunks of a shard that are read together."""

    start: int
    length: int
    pieces: list[Piece]


class ShardSource(Protocol):
    """Where the bytes of some shards come from: open files, values in memory, or requests to a store."""

    def indexes(self, places: Sequence[Index]) -> list[ShardIndex | None]:
        """Return the index of each shard, None for one that is not stored."""

    def request(self, jobs: Sequence[tuple[int, Run]]) -> None:
        """Prepare for reading runs, each of the shard with this number, in few requests if that is better."""

    def read(self, number: int, job: Run, target: np.ndarray) -> Buffer | None:
        """Return the bytes of a run; None if the source has put what is selected of them into `target`."""


def read_shards(
    chunks: Chunks, items: Sequence[Item], source: ShardSource, target: np.ndarray, workers: int | None
) -> None:
    """Read what a plan selects of some shards into `target`, which has the full shape of the selection."""
    codec = chunks.sharding
    assert codec is not None
    places = [tuple([part.chunk for part in item]) for item in items]
    jobs: list[tuple[int, Run]] = []
    for number, where in enumerate(source.indexes(places)):
        item = items[number]
        if where is None:
            put_fill(target, take(item, "out"), codec.inner.spec.fill)
            continue
        needed, missing = plan_runs(where, inner_items(codec, item))
        for _, inner in missing:
            put_fill(target, take(inner, "out"), codec.inner.spec.fill)
        jobs.extend([(number, job) for job in needed])
    if not jobs:
        return
    source.request(jobs)

    def work(entry: tuple[int, Run]) -> None:
        number, job = entry
        try:
            data = source.read(number, job, target)
            if data is not None:
                _place_run(codec, job, data, target)
        except CodecError as error:
            raise chunks.damaged(places[number], error) from error

    run(work, jobs, workers)


def _split(part: Part, length: int) -> list[Part]:
    """Return what a part of a shard takes from the inner chunks along one dimension."""
    if isinstance(part.inner, slice):
        step = part.inner.step
        axis = Axis(part.inner.start, (part.inner.stop - part.inner.start - 1) // step + 1, step)
    else:
        axis = Axis(0, part.inner.size, indices=part.inner)
    result = []
    for piece in plan_axis(axis, part.size, length):
        out: Any
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
    """Return the numbers of the inner chunks that are needed, in C order, and what of each goes where."""
    if not item:
        return [(0, ())]
    axes = []
    weight = 1
    for part, length, count in zip(
        reversed(item), reversed(codec.inner_shape), reversed(codec.grid), strict=True
    ):
        axes.append([(piece.chunk * weight, piece) for piece in _split(part, length)])
        weight *= count
    axes.reverse()
    if len(axes) == 1:
        return [(number, (piece,)) for number, piece in axes[0]]
    return [(sum([n for n, _ in pieces]), tuple([p for _, p in pieces])) for pieces in product(*axes)]


def plan_runs(index: ShardIndex, items: Sequence[InnerItem]) -> tuple[list[Run], list[InnerItem]]:
    """Return which bytes to read, and the inner chunks that are not stored."""
    missing = []
    stored = []
    if len(items) < 16:
        for pair in items:
            if index.present[pair[0]]:
                stored.append((int(index.offsets[pair[0]]), int(index.lengths[pair[0]]), pair))
            else:
                missing.append(pair)
    else:
        numbers = np.array([pair[0] for pair in items])
        present = index.present[numbers].tolist()
        offsets = index.offsets[numbers].tolist()
        lengths = index.lengths[numbers].tolist()
        for there, offset, length, pair in zip(present, offsets, lengths, items, strict=True):
            if there:
                stored.append((offset, length, pair))
            else:
                missing.append(pair)
    stored.sort(key=lambda entry: entry[0])
    result: list[Run] = []
    pieces: list[Piece] = []
    start = stop = 0
    for offset, length, (number, item) in stored:
        if pieces and (offset > stop + GAP or max(stop, offset + length) - start > RUN):
            result.append(Run(start, stop - start, pieces))
            pieces = []
        if not pieces:
            start = stop = offset
        stop = max(stop, offset + length)
        pieces.append(Piece(number, item, offset - start, offset - start + length))
    if pieces:
        result.append(Run(start, stop - start, pieces))
    return result, missing


def _place_run(codec: ShardingCodec, job: Run, data: Buffer, target: np.ndarray) -> None:
    """Decode the inner chunks of a run, and put what is selected of them into the result.

    Raises
    ------
    CodecError
        An inner chunk is damaged; the message has its number.
    """
    for row in _rows(codec, job.pieces):
        if len(row) > 1 and _place_row(codec, row, data, target):
            continue
        for piece in row:
            try:
                place(codec.inner, piece.item, data[piece.start : piece.stop], target)
            except CodecError as error:
                raise CodecError(f"inner chunk {piece.number}: {error.message}", hint=error.hint) from error


def _rows(codec: ShardingCodec, pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Yield rows of whole inner chunks that lie side by side, in the shard and in the result; others alone."""
    chain = codec.inner
    if len(pieces) < 2 or not fits_rows(chain):
        yield from ([piece] for piece in pieces)
        return
    length = row_length(chain)
    size = chain.decoded_size if chain.is_raw else None
    row: list[Piece] = []
    for piece in pieces:
        if row and (len(row) == length or not _is_next(row[-1], piece, size)):
            yield row
            row = []
        row.append(piece)
    yield row


def _place_row(codec: ShardingCodec, row: list[Piece], data: Buffer, target: np.ndarray) -> bool:
    """Put a row of inner chunks into the result; False if one of them is damaged."""
    bounds = [(piece.start, piece.stop) for piece in row]
    try:
        place_row(codec.inner, as_bytes_array(data), bounds, row_view([piece.item for piece in row], target))
    except CodecError:
        return False
    return True


def _is_next(before: Piece, piece: Piece, size: int | None) -> bool:
    """True if a piece follows another one along the last dimension, and in the shard.

    `size` is the number of stored bytes that both need, None if any number will do.
    """
    return (
        piece.start == before.stop
        and (size is None or piece.stop - piece.start == size == before.stop - before.start)
        and follows(before.item[-1:], piece.item[-1])
        and all(map(is_, before.item[:-1], piece.item[:-1]))
        and all(map(is_whole, piece.item[:-1]))
    )
