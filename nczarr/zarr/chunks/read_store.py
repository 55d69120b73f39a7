"""Read a region of an array from any store with batched requests, and decode the chunks in the thread pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from math import prod

import numpy as np

from nczarr.errors import CodecError
from nczarr.stores import MemoryStore
from nczarr.zarr.chunks.chunks import CHUNKS, Chunks, Index
from nczarr.zarr.chunks.plan import Item, Part, take
from nczarr.zarr.chunks.read_shards import Run, read_shards
from nczarr.zarr.chunks.scatter import needed_bytes, scatter, scatter_span
from nczarr.zarr.codecs.base import Buffer, as_bytes_array
from nczarr.zarr.codecs.sharding import ShardIndex, ShardingCodec
from nczarr.zarr.pool import ALONE_BYTES, run

#: The size of the chunks in one batch of requests; larger regions need several batches.
BATCH_BYTES = 256 << 20


def read_from_store(chunks: Chunks, parts: list[list[Part]], target: np.ndarray) -> None:
    """Read the chunks of a plan into `target`, which has the full shape of the selection."""
    items = product(*parts)
    chunk_bytes = prod(chunks.chunk_shape) * max(chunks.dtype.itemsize, 1)
    batch_size = max(1, BATCH_BYTES // max(chunk_bytes, 1))
    # A store in memory returns whole values without a copy.
    ranges = not isinstance(chunks.store, MemoryStore)
    while batch := list(islice(items, batch_size)):
        workers = 1 if chunk_bytes * len(batch) <= ALONE_BYTES else None
        codec = chunks.sharding
        if codec is None:
            _read_chunks(chunks, batch, target, ranges, workers)
            continue
        whole = [item for item in batch if not ranges or all(part.covers for part in item)]
        if whole:
            read_shards(chunks, whole, _WholeShards(chunks, codec), target, workers)
        if len(whole) < len(batch):
            others = [item for item in batch if not all(part.covers for part in item)]
            read_shards(chunks, others, _StoredShards(chunks, codec), target, workers)


def _read_chunks(
    chunks: Chunks, batch: list[Item], target: np.ndarray, ranges: bool, workers: int | None
) -> None:
    indices = [tuple([part.chunk for part in item]) for item in batch]
    spans: list[tuple[int, int] | None] = [None] * len(batch)
    size = chunks.chain(indices[0]).decoded_size
    # Cached chunks cannot be validated; see _StoredShards.
    keep = (
        ranges and not chunks.store.writable and size is not None and size * len(batch) <= CHUNKS.bound // 2
    )
    if keep:
        batch, indices = _scatter_cached(chunks, batch, indices, target)
        if not batch:
            return
        spans = spans[: len(batch)]
    keys = [chunks.key(index) for index in indices]
    values: Sequence[Buffer | None]
    if ranges and chunks.chain(indices[0]).is_raw:
        for number, item in enumerate(batch):
            chain = chunks.chain(indices[number])
            start, length = needed_bytes(chain, item)
            if length <= (chain.decoded_size or 0) // 2:
                spans[number] = start, length
    if any(span is not None for span in spans):
        values = chunks.store.get_ranges(
            [(key, *(span or (0, None))) for key, span in zip(keys, spans, strict=True)]
        )
    else:
        values = chunks.stored(indices)

    def work(number: int) -> None:
        index, item, data, span = indices[number], batch[number], values[number], spans[number]
        if data is None:
            chunks.miss()
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

    run(work, range(len(batch)), workers)


def _scatter_cached(
    chunks: Chunks, batch: list[Item], indices: list[Index], target: np.ndarray
) -> tuple[list[Item], list[Index]]:
    """Copy cached chunks into the result, and return the remaining ones."""
    rest = []
    for item, index in zip(batch, indices, strict=True):
        chunk = CHUNKS.get((chunks.owner, *index), None)
        if chunk is None:
            rest.append((item, index))
        else:
            target[take(item, "out")] = chunk[take(item, "inner")]
    return [item for item, _ in rest], [index for _, index in rest]


@dataclass
class _WholeShards:
    """Read whole shards from a store."""

    chunks: Chunks
    codec: ShardingCodec
    _values: Sequence[np.ndarray | None] = ()

    def indexes(self, places: Sequence[Index]) -> list[ShardIndex | None]:
        """Fetch the shards, and return their indexes."""
        values = self.chunks.stored(places)
        self._values = [None if data is None else as_bytes_array(data) for data in values]
        result: list[ShardIndex | None] = []
        for index, data in zip(places, self._values, strict=True):
            try:
                result.append(None if data is None else self.codec.index_of(data))
            except CodecError as error:
                raise self.chunks.damaged(index, error) from error
        return result

    def request(self, jobs: Sequence[tuple[int, Run]]) -> None:
        """Do nothing: `indexes` has fetched all bytes."""

    def read(self, number: int, job: Run, target: np.ndarray) -> Buffer | None:
        """Return a part of a shard."""
        data = self._values[number]
        assert data is not None
        return data[job.start : job.start + job.length]


@dataclass
class _StoredShards:
    """Read parts of shards from a store: one batch of requests for the indexes, one for the inner chunks."""

    chunks: Chunks
    codec: ShardingCodec
    _places: Sequence[Index] = ()
    _found: dict[tuple[int, int], Buffer | None] = field(default_factory=dict)

    def indexes(self, places: Sequence[Index]) -> list[ShardIndex | None]:
        """Return the index of each shard; fetch those that are not cached.

        Stores do not report changes by other programs. So indexes are cached only if the store is open for reading,
        which promises a view of its earlier state.
        """
        self._places = places
        chunks, codec = self.chunks, self.codec
        keep = not chunks.store.writable
        known = [chunks.shard_indexes.get(index, None) if keep else None for index in places]
        unknown = [number for number, where in enumerate(known) if where is None]
        requests = [(chunks.key(places[n]), codec.index_start, codec.index_size) for n in unknown]
        values = chunks.store.get_ranges(requests)
        for number, data in zip(unknown, values, strict=True):
            if data is None:
                continue
            try:
                where = codec.parse_index(data, None)
            except CodecError as error:
                raise chunks.damaged(places[number], error) from error
            known[number] = where
            if keep:
                chunks.shard_indexes.put(places[number], None, where)
        return known

    def request(self, jobs: Sequence[tuple[int, Run]]) -> None:
        """Fetch all runs in one batch."""
        keys = [self.chunks.key(index) for index in self._places]
        requests = [(keys[number], job.start, job.length) for number, job in jobs]
        values = self.chunks.store.get_ranges(requests)
        self._found = {(number, job.start): data for (number, job), data in zip(jobs, values, strict=True)}

    def read(self, number: int, job: Run, target: np.ndarray) -> Buffer | None:
        """Return the bytes of a run that was fetched."""
        data = self._found.pop((number, job.start))
        if data is None or len(data) != job.length:
            raise CodecError(
                "the shard is truncated, or changed during reading",
                hint="open the dataset again, and read again",
            )
        return as_bytes_array(data)
