"""Read a region of an array from any store with batched requests, and decode the chunks in the thread pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, product
from math import prod
from operator import call

import numpy as np

from nczarr.errors import CodecError
from nczarr.stores import MemoryStore
from nczarr.zarr.chunks.chunks import CHUNKS, Chunks, Index
from nczarr.zarr.chunks.plan import ChunkDimProjection, Item, take
from nczarr.zarr.chunks.read_shards import plan_shards, read_runs
from nczarr.zarr.chunks.scatter import is_covered, needed_bytes, scatter, scatter_span
from nczarr.zarr.codecs.base import Buffer, as_bytes_array
from nczarr.zarr.codecs.sharding import ShardIndex, ShardingCodec
from nczarr.zarr.pool import ALONE_BYTES, run

#: The size of the chunks in one batch of requests; of larger regions, memory has two batches at a time.
BATCH_BYTES = 64 << 20

Work = Callable[[], None]


def read_from_store(chunks: Chunks, parts: list[list[ChunkDimProjection]], target: np.ndarray) -> None:
    """Read the chunks of a plan into `target`, which has the full shape of the selection."""
    read_items_from_store(chunks, product(*parts), target)


def read_items_from_store(chunks: Chunks, items: Iterator[Item], target: np.ndarray) -> None:
    """Read chunks one by one into `target`, as :func:`read_from_store` does."""
    chunk_bytes = prod(chunks.chunk_shape) * max(chunks.dtype.itemsize, 1)
    # A region in batches of 256 MiB took twice the time of tensorstore, and 420 MiB beyond the result.
    batch_size = max(1, BATCH_BYTES // max(chunk_bytes, 1))
    # A store in memory returns whole values without a copy.
    ranges = not isinstance(chunks.store, MemoryStore)
    fetched: list[Work] = []
    while batch := list(islice(items, batch_size)):
        workers = 1 if chunk_bytes * len(batch) <= ALONE_BYTES else None
        decode, fetched = fetched, []
        # The store answers while the batch before is decoded.
        fetch: Work = partial(_fetch, chunks, batch, ranges, target, workers, fetched)
        run(call, [fetch, *decode])
    run(call, fetched, 1)


def _fetch(
    chunks: Chunks,
    batch: Sequence[Item],
    ranges: bool,
    target: np.ndarray,
    workers: int | None,
    fetched: list[Work],
) -> None:
    """Fetch the chunks of a batch, and append the work that decodes them to `fetched`."""
    if chunks.sharding is None:
        fetched.append(_fetch_chunks(chunks, batch, target, ranges, workers))
        return
    for is_whole in (True, False):
        if some := [item for item in batch if (not ranges or is_covered(item)) == is_whole]:
            fetched.append(_fetch_shards(chunks, chunks.sharding, some, is_whole, target, workers))


def _fetch_chunks(
    chunks: Chunks, batch: Sequence[Item], target: np.ndarray, ranges: bool, workers: int | None
) -> Work:
    size = chunks.chain(tuple([part.chunk for part in batch[0]])).decoded_size
    # Cached chunks cannot be validated; see _indexes.
    keep = (
        ranges and not chunks.store.writable and size is not None and size * len(batch) <= CHUNKS.bound // 2
    )
    items = _not_cached(chunks, batch, target) if keep else batch
    indices = [tuple([part.chunk for part in item]) for item in items]
    spans = _spans(chunks, indices, items) if ranges else {}
    values: Sequence[Buffer | None]
    if spans:
        whole = (0, None)
        values = chunks.store.get_ranges(
            [(chunks.key(index), *spans.get(number, whole)) for number, index in enumerate(indices)]
        )
    else:
        values = chunks.stored(indices)

    def work(number: int) -> None:
        index, item, data, span = indices[number], items[number], values[number], spans.get(number)
        # Another program may remove or rename the variable meanwhile: its chunks would read as fill
        # values.
        if data is None:
            chunks.miss(index)
        try:
            chain = chunks.chain(index)
            if data is not None and span is not None:
                scatter_span(chain, item, data, span, target)
            elif data is not None and keep and not all(part.full for part in item):
                chunk = chain.decode(data)
                CHUNKS.put((chunks.owner, *index), None, chunk, size or 0)
                target[take(item, "out")] = chunk[take(item, "inner")]
            else:
                scatter(chain, item, data, target)
        except CodecError as error:
            raise chunks.damaged(index, error) from error

    return partial(run, work, range(len(items)), workers)


def _not_cached(chunks: Chunks, batch: Sequence[Item], target: np.ndarray) -> list[Item]:
    """Copy the parts of cached chunks to their place; return the items of the other chunks."""
    items = []
    for item in batch:
        chunk = CHUNKS.get((chunks.owner, *[part.chunk for part in item]), None)
        if chunk is None:
            items.append(item)
        else:
            target[take(item, "out")] = chunk[take(item, "inner")]
    return items


def _spans(chunks: Chunks, indices: Sequence[Index], items: Sequence[Item]) -> dict[int, tuple[int, int]]:
    """Return the first byte and the number of bytes by item, where at most half of an uncompressed chunk is needed.

    A chunk of which more is needed is read as a whole: it can be kept for the next part.
    """
    spans = {}
    for number, (index, item) in enumerate(zip(indices, items, strict=True)):
        chain = chunks.chain(index)
        if chain.is_raw:
            start, length = needed_bytes(chain, item)
            if length <= (chain.decoded_size or 0) // 2:
                spans[number] = start, length
    return spans


def _fetch_shards(
    chunks: Chunks,
    codec: ShardingCodec,
    items: Sequence[Item],
    whole: bool,
    target: np.ndarray,
    workers: int | None,
) -> Work:
    """Fetch whole shards in one batch of requests; or their indexes in one, and their inner chunks in another."""
    places = [tuple([part.chunk for part in item]) for item in items]
    if whole:
        shards = [None if data is None else as_bytes_array(data) for data in chunks.stored(places)]
        parsed = [
            None if data is None else _parsed(chunks, i, codec.index_of, data)
            for i, data in zip(places, shards)
        ]
        jobs = plan_shards(chunks, items, parsed, target)
        values: Sequence[Buffer | None] = [
            None if (shard := shards[number]) is None else shard[job.start : job.start + job.length]
            for number, job in jobs
        ]
    else:
        jobs = plan_shards(chunks, items, _indexes(chunks, codec, places), target)
        requests = [(chunks.key(places[number]), job.start, job.length) for number, job in jobs]
        values = chunks.store.get_ranges(requests) if requests else []

    def read(position: int) -> Buffer:
        data = values[position]
        # Another program may have replaced the shard between the reading of its index and of its chunks.
        if data is None or len(data) != jobs[position][1].length:
            raise CodecError(
                "the shard is truncated, or changed during reading",
                hint="open the dataset again, and read again",
            )
        return as_bytes_array(data)

    return partial(read_runs, chunks, places, jobs, read, target, workers)


def _indexes(chunks: Chunks, codec: ShardingCodec, places: Sequence[Index]) -> list[ShardIndex | None]:
    """Return the index of each shard; fetch those that are not cached.

    Stores do not report changes by other programs. So indexes are cached only if the store is open for reading, which
    promises a view of its earlier state.
    """
    keep = not chunks.store.writable
    known = [chunks.shard_indexes.get(index, None) if keep else None for index in places]
    unknown = [number for number, where in enumerate(known) if where is None]
    requests = [(chunks.key(places[n]), codec.index_start, codec.index_size) for n in unknown]
    for number, data in zip(unknown, chunks.store.get_ranges(requests), strict=True):
        if data is not None:
            where = known[number] = _parsed(
                chunks, places[number], partial(codec.parse_index, size=None), data
            )
            if keep:
                chunks.shard_indexes.put(places[number], None, where)
    return known


def _parsed(chunks: Chunks, index: Index, parse: Callable[[Buffer], ShardIndex], data: Buffer) -> ShardIndex:
    try:
        return parse(data)
    except CodecError as error:
        raise chunks.damaged(index, error) from error
