"""Which inner chunks of a shard a selection needs, and which bytes of the shard these are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from nczarr.errors import CodecError
from nczarr.zarr.codec_base import Buffer, as_bytes_array
from nczarr.zarr.plan import Part, plan_axis, take
from nczarr.zarr.reading import place, put_fill
from nczarr.zarr.selection import Axis
from nczarr.zarr.shards import ShardIndex, ShardingCodec

__all__ = ["InnerItem", "Piece", "Run", "inner_items", "place_run", "runs"]

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
    """Neighbouring inner chunks that are read together."""

    start: int
    length: int
    pieces: list[Piece]


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


def runs(index: ShardIndex, items: Sequence[InnerItem]) -> tuple[list[Run], list[InnerItem]]:
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


def place_run(codec: ShardingCodec, run: Run, data: Buffer, target: np.ndarray) -> None:
    """Decode the inner chunks of a run, and put what is selected of them into the result.

    Raises
    ------
    CodecError
        An inner chunk is damaged; the message has its number.
    """
    pieces = _place_rows(codec, run.pieces, data, target) if codec.inner.is_raw else run.pieces
    for piece in pieces:
        try:
            place(codec.inner, piece.item, data[piece.start : piece.stop], target)
        except CodecError as error:
            raise CodecError(f"inner chunk {piece.number}: {error.message}", hint=error.hint) from error


def _place_rows(codec: ShardingCodec, pieces: list[Piece], data: Buffer, target: np.ndarray) -> list[Piece]:
    """Copy whole uncompressed inner chunks that lie side by side, in the shard and in the result, all at once.

    Returns the pieces that are not among these.
    """
    chain = codec.inner
    shape = chain.spec.shape
    size = chain.decoded_size or 0
    if len(pieces) < 2 or chain.order != tuple(range(len(shape))) or chain.stored_dtype is None:
        return pieces
    raw = as_bytes_array(data)
    rest = []
    first = 0
    while first < len(pieces):
        end = first + 1
        head = pieces[first]
        if head.stop - head.start == size and all(p.full and type(p.out) is slice for p in head.item):
            while end < len(pieces) and _is_next(pieces[end - 1], pieces[end], size):
                end += 1
        if end == first + 1:
            rest.append(head)
        else:
            count = end - first
            last = slice(head.item[-1].out.start, pieces[end - 1].item[-1].out.stop)
            out = target[(*(part.out for part in head.item[:-1]), last)]
            row = raw[head.start : head.start + count * size].view(chain.stored_dtype)
            np.copyto(
                np.moveaxis(out.reshape(*shape[:-1], count, shape[-1]), -2, 0), row.reshape(count, *shape)
            )
        first = end
    return rest


def _is_next(before: Piece, piece: Piece, size: int) -> bool:
    """True if a piece follows another one along the last dimension, and in the shard."""
    old, new = before.item[-1], piece.item[-1]
    return (
        piece.start == before.stop
        and piece.stop - piece.start == size
        and new.full
        and type(new.out) is slice
        and new.out.start == old.out.stop
        and all(map(is_, before.item[:-1], piece.item[:-1]))
    )


def place_missing(codec: ShardingCodec, items: Sequence[InnerItem], target: np.ndarray) -> None:
    """Put the fill value where inner chunks are not stored."""
    for _, item in items:
        put_fill(target, take(item, "out"), codec.inner.spec.fill)
