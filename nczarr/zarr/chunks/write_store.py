"""Write a region through any store: whole chunks as they are, others read, changed and written under a lock."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice, product
from math import prod

import numpy as np

from nczarr.errors import CodecError
from nczarr.stores import LocalStore, MemoryStore
from nczarr.zarr.chunks.chunks import Chunks
from nczarr.zarr.chunks.plan import Item, Part, take
from nczarr.zarr.chunks.read_shards import InnerItem, inner_items
from nczarr.zarr.codecs import Buffer, Chain, ShardingCodec, as_bytes_array
from nczarr.zarr.pool import ALONE_BYTES, run

#: Encoded chunks of about this many bytes wait for the store at a time.
BATCH_BYTES = 64 << 20

# One of these guards each chunk, in all arrays; two chunks may share one, which only costs time.
_LOCKS = [threading.Lock() for _ in range(257)]


def _number(chunks: Chunks, key: str) -> int:
    return hash((chunks.store.url, key)) % len(_LOCKS)


def lock_of(chunks: Chunks, key: str) -> threading.Lock:
    """Return the lock that guards a chunk."""
    return _LOCKS[_number(chunks, key)]


@contextmanager
def locked(chunks: Chunks, keys: Sequence[str]) -> Iterator[None]:
    """Hold the locks of several chunks, always taken in the same order."""
    with ExitStack() as stack:
        for number in sorted({_number(chunks, key) for key in keys}):
            stack.enter_context(_LOCKS[number])
        yield


def is_covered(item: Sequence[Part]) -> bool:
    """True if all of a chunk that lies inside the array is written."""
    return all(part.covers for part in item)


def encode_chunk(
    chunks: Chunks, chain: Chain, item: Sequence[Part], old: Buffer | None, source: np.ndarray
) -> Buffer:
    """Return the new bytes of a chunk.

    `old` are the bytes that are stored, needed only where not all of the chunk is replaced; `source` has the full
    shape of the selection.
    """
    covered = is_covered(item)
    if chunks.sharding is not None and not covered:
        return _updated_shard(chunks.sharding, old, inner_items(chunks.sharding, item), source)
    values = source[take(item, "out")]
    if covered and values.shape == chain.spec.shape:
        return chain.encode(values)
    if covered or old is None:
        chunk = chain.spec.filled()
    else:
        chunk = np.empty(chain.spec.shape, chain.spec.dtype)
        chain.decode_into(old, chunk)
    if covered:
        chunk[tuple([slice(0, length) for length in values.shape])] = values
    else:
        chunk[take(item, "inner")] = values
    return chain.encode(chunk)


def _updated_shard(
    codec: ShardingCodec, old: Buffer | None, changes: list[InnerItem], source: np.ndarray
) -> np.ndarray:
    """Return a shard with some inner chunks changed; the others keep their stored bytes."""
    stored: list[np.ndarray | None] = [None] * codec.count
    if old is not None:
        data = as_bytes_array(old)
        index = codec.index_of(data)
        for number in np.flatnonzero(index.present).tolist():
            start = int(index.offsets[number])
            stored[number] = data[start : start + int(index.lengths[number])]
    for number, item in changes:
        values = source[take(item, "out")]
        if all(part.full for part in item):
            chunk = values
        else:
            before = stored[number]
            if before is None:
                chunk = codec.inner.spec.filled()
            else:
                chunk = np.empty(codec.inner_shape, codec.inner.spec.dtype)
                codec.decode_inner(before, number, chunk)
            chunk[take(item, "inner")] = values
        stored[number] = as_bytes_array(codec.inner.encode(chunk))
    return codec.assemble(stored)


def write_whole(chunks: Chunks, index: tuple[int, ...], values: np.ndarray) -> None:
    """Write one chunk as a whole, what lies outside of the array included."""
    key = chunks.key(index)
    with lock_of(chunks, key):
        try:
            data = (chunks.fixed_chain or chunks.chain(index)).encode(values)
        except CodecError as error:
            raise chunks.damaged(index, error) from error
        chunks.store.set(key, data)


def write_to_store(chunks: Chunks, parts: list[list[Part]], source: np.ndarray) -> None:
    """Write the chunks of a plan from `source`, which has the full shape of the selection."""
    store = chunks.store
    items = product(*parts)
    chunk_bytes = prod(chunks.chunk_shape) * max(chunks.dtype.itemsize, 1)
    if isinstance(store, LocalStore | MemoryStore):

        def work(item: Item) -> None:
            key = chunks.key(tuple([part.chunk for part in item]))
            with lock_of(chunks, key):
                store.set(key, _encode(chunks, item, None if is_covered(item) else store.get(key), source))

        every = list(items)
        run(work, every, 1 if chunk_bytes * len(every) <= ALONE_BYTES else None)
        return
    # A store behind a network: requests and answers in batches.
    batch_size = max(1, BATCH_BYTES // max(chunk_bytes, 1))
    while batch := list(islice(items, batch_size)):
        keys = [chunks.key(tuple([part.chunk for part in item])) for item in batch]
        with locked(chunks, keys):
            _write_batch(chunks, batch, keys, source)


def _encode(chunks: Chunks, item: Item, old: Buffer | None, source: np.ndarray) -> Buffer:
    index = tuple([part.chunk for part in item])
    try:
        return encode_chunk(chunks, chunks.chain(index), item, old, source)
    except CodecError as error:
        raise chunks.damaged(index, error) from error


def _write_batch(chunks: Chunks, batch: list[Item], keys: list[str], source: np.ndarray) -> None:
    partial = [i for i, item in enumerate(batch) if not is_covered(item)]
    found = chunks.store.get_many([keys[i] for i in partial]) if partial else []
    old = dict(zip(partial, found, strict=True))
    encoded: dict[int, Buffer] = {}

    def encode(job: int) -> None:
        encoded[job] = _encode(chunks, batch[job], old.get(job), source)

    run(encode, range(len(batch)))
    chunks.store.set_many((keys[i], encoded[i]) for i in range(len(batch)))
