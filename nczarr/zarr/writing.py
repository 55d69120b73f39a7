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
from nczarr.zarr.codec_base import Buffer
from nczarr.zarr.plan import Part, take
from nczarr.zarr.reading import ALONE_BYTES, Item, chunk_error
from nczarr.zarr.shard_reading import inner_items
from nczarr.zarr.threads import run

if TYPE_CHECKING:
    from nczarr.zarr.array import Array

__all__ = ["locked", "write_to_store"]

#: Encoded chunks of about this many bytes wait for the store at a time.
BATCH_BYTES = 64 << 20

# One of these guards each chunk, in all arrays; two chunks may share one, which only costs time.
_LOCKS = [threading.Lock() for _ in range(257)]


@contextmanager
def locked(array: Array, keys: Sequence[str]) -> Iterator[None]:
    """Hold the locks of chunks, always taken in the same order."""
    place = hash(array.store.url)
    with ExitStack() as stack:
        for number in sorted({(place ^ hash(key)) % len(_LOCKS) for key in keys}):
            stack.enter_context(_LOCKS[number])
        yield


def _encode(array: Array, item: Sequence[Part], old: Buffer | None, source: np.ndarray) -> Buffer:
    """Return the new bytes of a chunk; `old` is asked for only where not all of the chunk is replaced."""
    index = tuple([part.chunk for part in item])
    chain = array.chain(index)
    try:
        if array.sharding is not None and not _covered(item):
            return array.sharding.update(old, inner_items(array.sharding, item), source)
        values = source[take(item, "out")]
        if _covered(item):
            if values.shape == chain.spec.shape:
                return chain.encode(values)
            chunk = chain.spec.filled()
            chunk[tuple([slice(0, length) for length in values.shape])] = values
            return chain.encode(chunk)
        if old is None:
            chunk = chain.spec.filled()
        else:
            chunk = np.empty(chain.spec.shape, chain.spec.dtype)
            chain.decode_into(old, chunk)
        chunk[take(item, "inner")] = values
        return chain.encode(chunk)
    except CodecError as error:
        raise chunk_error(array, index, error) from error


def _covered(item: Sequence[Part]) -> bool:
    return all(part.covers for part in item)


def write_to_store(array: Array, parts: list[list[Part]], source: np.ndarray) -> None:
    """Write the chunks of a plan from `source`, which has the full shape of the selection."""
    store = array.store
    items = product(*parts)
    chunk_bytes = prod(array.chunk_shape) * max(array.dtype.itemsize, 1)
    if isinstance(store, LocalStore | MemoryStore):

        def work(item: Item) -> None:
            key = array.chunk_key(tuple([part.chunk for part in item]))
            with locked(array, [key]):
                old = None if _covered(item) else store.get(key)
                store.set(key, _encode(array, item, old, source))

        every = list(items)
        run(work, every, 1 if chunk_bytes * len(every) <= ALONE_BYTES else None)
        return
    # A store behind a network: requests and answers in batches.
    batch_size = max(1, BATCH_BYTES // max(chunk_bytes, 1))
    while batch := list(islice(items, batch_size)):
        keys = [array.chunk_key(tuple([part.chunk for part in item])) for item in batch]
        with locked(array, keys):
            partial = [i for i, item in enumerate(batch) if not _covered(item)]
            found = store.get_many([keys[i] for i in partial]) if partial else []
            old = dict(zip(partial, found, strict=True))
            encoded: dict[int, Buffer] = {}

            def encode(
                job: int,
                batch: list[Item] = batch,
                old: dict[int, bytes | None] = old,
                encoded: dict[int, Buffer] = encoded,
            ) -> None:
                encoded[job] = _encode(array, batch[job], old.get(job), source)

            run(encode, range(len(batch)))
            store.set_many((keys[i], encoded[i]) for i in range(len(batch)))
