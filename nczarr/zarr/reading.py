"""Reading a region through any store: one batched request, then decoding in the pool."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nczarr.errors import ChunkError, CodecError
from nczarr.zarr.codec_base import Buffer
from nczarr.zarr.pipeline import Chain
from nczarr.zarr.plan import Part, take
from nczarr.zarr.threads import run

if TYPE_CHECKING:
    from nczarr.zarr.array import Array

__all__ = ["chunk_error", "place", "put_fill", "read_from_store"]

#: Chunks of about this many bytes are asked for in one request; larger regions take several.
BATCH_BYTES = 256 << 20
#: Below this it costs more to wake another thread than to do the work.
ALONE_BYTES = 256 << 10

Item = tuple[Part, ...]


def chunk_error(array: Array, index: tuple[int, ...], error: CodecError) -> ChunkError:
    """Return the error that names the key, the array and the region of a chunk."""
    region = ", ".join(f"{part.start}:{part.stop}" for part in array.chunk_region(index))
    return ChunkError(
        f"chunk {index}, region [{region}]: {error.message}",
        path=array.store.place(array.chunk_key(index)),
        fqn="/" + array.path,
        hint=error.hint,
    )


def put_fill(target: np.ndarray, index: Any, fill: Any) -> None:
    """Assign the fill value; as one object if the array holds objects."""
    if target.dtype.hasobject and target.dtype.names is None:
        value = np.empty((), object)
        value[()] = fill
        target[index] = value
    else:
        target[index] = fill


def place(chain: Chain, item: Sequence[Part], data: Buffer | None, target: np.ndarray) -> None:
    """Put what is selected of one chunk into the result.

    Parameters
    ----------
    chain : Chain
    item : sequence of Part
        One for each dimension.
    data : buffer or None
        The stored chunk; None if it is missing.
    target : ndarray
    """
    out = take(item, "out")
    if data is None:
        put_fill(target, out, chain.spec.fill)
    elif all(part.full and type(part.out) is slice for part in item):
        chain.decode_into(data, target[out])
    else:
        target[out] = chain.decode(data)[take(item, "inner")]


def read_from_store(array: Array, parts: list[list[Part]], target: np.ndarray) -> None:
    """Read the chunks of a plan into `target`, which has the full shape of the selection."""
    items = product(*parts)
    chunk_bytes = prod(array.chunk_shape) * max(array.dtype.itemsize, 1)
    batch_size = max(1, BATCH_BYTES // max(chunk_bytes, 1))
    while batch := list(islice(items, batch_size)):
        indices = [tuple([part.chunk for part in item]) for item in batch]
        values = array.store.get_many([array.chunk_key(index) for index in indices])

        def work(job: tuple[Item, tuple[int, ...], bytes | None]) -> None:
            item, index, data = job
            try:
                place(array.chain(index), item, data, target)
            except CodecError as error:
                raise chunk_error(array, index, error) from error

        alone = chunk_bytes * len(batch) <= ALONE_BYTES
        run(work, zip(batch, indices, values, strict=True), 1 if alone else None)
