"""What all ways of reading have in common: putting a chunk where it belongs, and naming it in errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nczarr.errors import ChunkError, CodecError
from nczarr.zarr.codec_base import Buffer
from nczarr.zarr.pipeline import Chain
from nczarr.zarr.plan import Part, take
from nczarr.zarr.threads import scratch

if TYPE_CHECKING:
    from nczarr.zarr.array import Array

__all__ = ["Item", "chunk_error", "place", "put_fill", "put_whole"]

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


def put_whole(chain: Chain, data: Buffer, view: np.ndarray) -> None:
    """Decode a chunk into its place: at once if the place is contiguous, else by way of the thread's own buffer."""
    if chain.stored_dtype is not None:
        stored = view if chain.order is None else view.transpose(chain.order)
        if not stored.flags.c_contiguous or stored.dtype.names is not None:
            np.copyto(view, chain.decode_raw(data, scratch("chunk", chain.decoded_size or 0)))
            return
    chain.decode_into(data, view)


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
        put_whole(chain, data, target[out])
    else:
        target[out] = chain.decode(data)[take(item, "inner")]
