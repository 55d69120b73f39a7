"""Writing a region: whole chunks as they are, others read, changed and written under a lock."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from nczarr.errors import CodecError
from nczarr.stores import LocalStore, MemoryStore
from nczarr.zarr.arrays.place import chunk_error
from nczarr.zarr.arrays.plan import Item, Part, take
from nczarr.zarr.arrays.read_shards import inner_items
from nczarr.zarr.codecs.base import Buffer
from nczarr.zarr.codecs.chain import Chain
from nczarr.zarr.pool import ALONE_BYTES, run

if TYPE_CHECKING:
    from nczarr.zarr.arrays.array import Array

#: Encoded chunks of about this many bytes wait for the store at a time.
BATCH_BYTES = 64 << 20

# One of these guards each chunk, in all arrays; two chunks may share one, which only costs time.
_LOCKS = [threading.Lock() for _ in range(257)]


def _number(array: Array, key: str) -> int:
    return hash((array.store.url, key)) % len(_LOCKS)


def lock_of(array: Array, key: str) -> threading.Lock:
    """Return the lock that guards a chunk."""
    return _LOCKS[_number(array, key)]


@contextmanager
def locked(array: Array, keys: Sequence[str]) -> Iterator[None]:
    """Hold the locks of several chunks, always taken in the same order."""
    with ExitStack() as stack:
        for number in sorted({_number(array, key) for key in keys}):
            stack.enter_context(_LOCKS[number])
        yield


def is_covered(item: Sequence[Part]) -> bool:
    """True if all of a chunk that lies inside the array is written."""
    return all(part.covers for part in item)


def encode_chunk(
    array: Array, chain: Chain, item: Sequence[Part], old: Buffer | None, source: np.ndarray
) -> Buffer:
    """Return the new bytes of a chunk.

    Parameters
    ----------
    array : Array
    chain : Chain
    item : sequence of Part
    old : buffer or None
        The bytes that are stored; needed only where not all of the chunk is replaced.
    source : ndarray
        The values, with the full shape of the selection.
    """
    covered = is_covered(item)
    if array.sharding is not None and not covered:
        return array.sharding.update(old, inner_items(array.sharding, item), source)
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


def write_to_store(array: Array, parts: list[list[Part]], source: np.ndarray) -> None:
    """Write the chunks of a plan from `source`, which has the full shape of the selection."""
    store = array.store
    items = product(*parts)
    chunk_bytes = prod(array.chunk_shape) * max(array.dtype.itemsize, 1)
    if isinstance(store, LocalStore | MemoryStore):

        def work(item: Item) -> None:
            key = array.chunk_key(tuple([part.chunk for part in item]))
            with lock_of(array, key):
                store.set(key, _encode(array, item, None if is_covered(item) else store.get(key), source))

        every = list(items)
        run(work, every, 1 if chunk_bytes * len(every) <= ALONE_BYTES else None)
        return
    # A store behind a network: requests and answers in batches.
    batch_size = max(1, BATCH_BYTES // max(chunk_bytes, 1))
    while batch := list(islice(items, batch_size)):
        keys = [array.chunk_key(tuple([part.chunk for part in item])) for item in batch]
        with locked(array, keys):
            _write_batch(array, batch, keys, source)


def _encode(array: Array, item: Item, old: Buffer | None, source: np.ndarray) -> Buffer:
    index = tuple([part.chunk for part in item])
    try:
        return encode_chunk(array, array.chain(index), item, old, source)
    except CodecError as error:
        raise chunk_error(array, index, error) from error


def _write_batch(array: Array, batch: list[Item], keys: list[str], source: np.ndarray) -> None:
    partial = [i for i, item in enumerate(batch) if not is_covered(item)]
    found = array.store.get_many([keys[i] for i in partial]) if partial else []
    old = dict(zip(partial, found, strict=True))
    encoded: dict[int, Buffer] = {}

    def encode(job: int) -> None:
        encoded[job] = _encode(array, batch[job], old.get(job), source)

    run(encode, range(len(batch)))
    array.store.set_many((keys[i], encoded[i]) for i in range(len(batch)))
