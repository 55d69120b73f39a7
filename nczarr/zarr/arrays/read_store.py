"""Reading a region through any store: few batched requests, then decoding in the pool."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from nczarr.errors import CodecError
from nczarr.stores import MemoryStore
from nczarr.stores.base import Request
from nczarr.zarr.arrays.cache import CHUNK_BYTES, CHUNKS
from nczarr.zarr.arrays.place import chunk_error, needed_bytes, place, place_span, put_fill
from nczarr.zarr.arrays.plan import Item, Part, take
from nczarr.zarr.arrays.read_shards import Run, inner_items, place_missing, place_run, runs
from nczarr.zarr.codecs.base import Buffer, as_bytes_array
from nczarr.zarr.codecs.chain import Chain
from nczarr.zarr.codecs.sharding import ShardIndex, ShardingCodec
from nczarr.zarr.pool import ALONE_BYTES, run

if TYPE_CHECKING:
    from nczarr.zarr.arrays.array import Array

#: Chunks of about this many bytes are asked for in one request; larger regions take several.
BATCH_BYTES = 256 << 20

Index = tuple[int, ...]


def read_from_store(array: Array, parts: list[list[Part]], target: np.ndarray) -> None:
    """Read the chunks of a plan into `target`, which has the full shape of the selection."""
    items = product(*parts)
    chunk_bytes = prod(array.chunk_shape) * max(array.dtype.itemsize, 1)
    batch_size = max(1, BATCH_BYTES // max(chunk_bytes, 1))
    # A store in memory gives whole values away for nothing.
    ranges = not isinstance(array.store, MemoryStore)
    while batch := list(islice(items, batch_size)):
        indices = [tuple([part.chunk for part in item]) for item in batch]
        workers = 1 if chunk_bytes * len(batch) <= ALONE_BYTES else None
        if array.sharding is not None:
            _read_shards(array, array.sharding, batch, indices, target, ranges, workers)
        else:
            _read_chunks(array, batch, indices, target, ranges, workers)


def _read_chunks(
    array: Array,
    batch: list[Item],
    indices: list[Index],
    target: np.ndarray,
    ranges: bool,
    workers: int | None,
) -> None:
    spans: list[tuple[int, int] | None] = [None] * len(batch)
    size = array.chain(indices[0]).decoded_size
    # Nothing tells that somebody else has changed a chunk; see _indexes.
    keep = ranges and not array.store.writable and size is not None and size * len(batch) <= CHUNK_BYTES // 2
    if keep:
        batch, indices = _place_remembered(array, batch, indices, target)
        if not batch:
            return
        spans = spans[: len(batch)]
    keys = [array.chunk_key(index) for index in indices]
    values: Sequence[Buffer | None]
    if ranges and array.chain(indices[0]).is_raw:
        spans = [_span(array.chain(index), item) for index, item in zip(indices, batch, strict=True)]
    if any(span is not None for span in spans):
        values = array.store.get_ranges(
            [(key, *(span or (0, None))) for key, span in zip(keys, spans, strict=True)]
        )
    else:
        values = array.store.get_many(keys)

    def work(number: int) -> None:
        index, item, data, span = indices[number], batch[number], values[number], spans[number]
        try:
            chain = array.chain(index)
            if data is not None and span is not None:
                place_span(chain, item, data, span, target)
            elif data is not None and keep and not all(part.full for part in item):
                chunk = chain.decode(data)
                CHUNKS.put((array.owner, *index), None, chunk, size or 0)
                target[take(item, "out")] = chunk[take(item, "inner")]
            else:
                place(chain, item, data, target)
        except CodecError as error:
            raise chunk_error(array, index, error) from error

    run(work, range(len(batch)), workers)


def _place_remembered(
    array: Array, batch: list[Item], indices: list[Index], target: np.ndarray
) -> tuple[list[Item], list[Index]]:
    """Take what is remembered from there, and return what is still to be read."""
    rest = []
    for item, index in zip(batch, indices, strict=True):
        chunk = CHUNKS.get((array.owner, *index), None)
        if chunk is None:
            rest.append((item, index))
        else:
            target[take(item, "out")] = chunk[take(item, "inner")]
    return [item for item, _ in rest], [index for _, index in rest]


def _span(chain: Chain, item: Item) -> tuple[int, int] | None:
    """Return start and length of the bytes that are needed; None for the whole chunk."""
    start, length = needed_bytes(chain, item)
    return None if length > (chain.decoded_size or 0) // 2 else (start, length)


def _read_shards(
    array: Array,
    codec: ShardingCodec,
    batch: list[Item],
    indices: list[Index],
    target: np.ndarray,
    ranges: bool,
    workers: int | None,
) -> None:
    whole = [number for number, item in enumerate(batch) if not ranges or all(part.covers for part in item)]
    others = sorted(set(range(len(batch))) - set(whole))
    if whole:
        values = array.store.get_many([array.chunk_key(indices[number]) for number in whole])

        def work(job: tuple[int, bytes | None]) -> None:
            number, data = job
            if data is None:
                put_fill(target, take(batch[number], "out"), codec.inner.spec.fill)
                return
            try:
                _place_shard(codec, batch[number], data, target)
            except CodecError as error:
                raise chunk_error(array, indices[number], error) from error

        run(work, zip(whole, values, strict=True), workers)
    if others:
        _read_parts(array, codec, [batch[n] for n in others], [indices[n] for n in others], target, workers)


def _place_shard(codec: ShardingCodec, item: Item, data: Buffer, target: np.ndarray) -> None:
    source = as_bytes_array(data)
    jobs, missing = runs(codec.index_of(source), inner_items(codec, item))
    place_missing(codec, missing, target)
    for job in jobs:
        place_run(codec, job, source[job.start : job.start + job.length], target)


def _read_parts(
    array: Array,
    codec: ShardingCodec,
    batch: list[Item],
    indices: list[Index],
    target: np.ndarray,
    workers: int | None,
) -> None:
    """Read inner chunks: one batch for the indexes that are not known, one for the inner chunks."""
    found = _indexes(array, codec, indices)
    requests: list[Request] = []
    jobs: list[tuple[int, Run]] = []
    for number, (item, index) in enumerate(zip(batch, indices, strict=True)):
        where = found[number]
        if where is None:
            put_fill(target, take(item, "out"), codec.inner.spec.fill)
            continue
        several, missing = runs(where, inner_items(codec, item))
        place_missing(codec, missing, target)
        key = array.chunk_key(index)
        for job in several:
            requests.append((key, job.start, job.length))
            jobs.append((number, job))
    values = array.store.get_ranges(requests) if requests else []

    def work(job: tuple[tuple[int, Run], bytes | None]) -> None:
        (number, wanted), data = job
        try:
            if data is None or len(data) != wanted.length:
                raise CodecError("the shard changed while it was read, or is cut short")
            place_run(codec, wanted, as_bytes_array(data), target)
        except CodecError as error:
            raise chunk_error(array, indices[number], error) from error

    run(work, zip(jobs, values, strict=True), workers)


def _indexes(array: Array, codec: ShardingCodec, indices: list[Index]) -> list[ShardIndex | None]:
    # Nothing tells that somebody else has changed a shard; so indexes are remembered only for a store
    # that is open for reading, as a view of what was there.
    keep = not array.store.writable
    known = [array.shard_indexes.get(index, None) if keep else None for index in indices]
    wanted = [number for number, where in enumerate(known) if where is None]
    start, length = codec.index_range()
    values = array.store.get_ranges([(array.chunk_key(indices[n]), start, length) for n in wanted])
    for number, data in zip(wanted, values, strict=True):
        if data is None:
            continue
        try:
            where = codec.parse_index(data, None)
        except CodecError as error:
            raise chunk_error(array, indices[number], error) from error
        known[number] = where
        if keep:
            array.shard_indexes.put(indices[number], None, where)
    return known
