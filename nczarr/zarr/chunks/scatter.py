"""Copy the selected elements of decoded chunks into the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nczarr.errors import CodecError
from nczarr.zarr.chunks.plan import Part, bounds, is_whole, moved, take
from nczarr.zarr.codecs.base import Buffer, as_bytes_array, scratch
from nczarr.zarr.codecs.chain import Chain

#: Chunks of fewer bytes are always decoded as a whole.
START_BYTES = 128 << 10


def put_fill(target: np.ndarray, index: Any, fill: Any) -> None:
    """Assign the fill value to a region, as a single object in object arrays."""
    if target.dtype.hasobject and target.dtype.names is None:
        value = np.empty((), object)
        value[()] = fill
        target[index] = value
    else:
        target[index] = fill


def put_whole(chain: Chain, data: Buffer, view: np.ndarray) -> None:
    """Decode a whole chunk into `view`: directly if it is contiguous, else through the thread's scratch buffer."""
    if chain.stored_dtype is not None:
        stored = view if chain.order is None else view.transpose(chain.order)
        if not stored.flags.c_contiguous or stored.dtype.names is not None:
            np.copyto(view, chain.decode_raw(data, scratch("chunk", chain.decoded_size or 0)))
            return
    chain.decode_into(data, view)


def scatter(chain: Chain, item: Sequence[Part], data: Buffer | None, target: np.ndarray) -> None:
    """Copy the selected elements of one chunk into the result.

    `data` are the stored bytes of the chunk, None if it is missing; `item` has a part for each dimension.
    """
    out = take(item, "out")
    if data is None:
        put_fill(target, out, chain.spec.fill)
    elif all(map(is_whole, item)):
        put_whole(chain, data, target[out])
    elif not scatter_start(chain, item, data, target):
        target[out] = chain.decode(data)[take(item, "inner")]


def strides(chain: Chain) -> list[int]:
    """Return the strides of a serialized chunk, in bytes."""
    stored = chain.stored_dtype
    assert stored is not None
    assert chain.order is not None
    result = [0] * len(chain.order)
    distance = stored.itemsize
    for dimension in reversed(chain.order):
        result[dimension] = distance
        distance *= chain.spec.shape[dimension]
    return result


def needed_bytes(chain: Chain, item: Sequence[Part]) -> tuple[int, int]:
    """Return the start and length of the serialized bytes from the first to the last selected element.

    Requires the chain's `stored_dtype`.
    """
    assert chain.stored_dtype is not None
    start, last = 0, chain.stored_dtype.itemsize
    for part, stride in zip(item, strides(chain), strict=True):
        limit = bounds(part)
        start += limit.start * stride
        last += (limit.stop - 1) * stride
    return start, last - start


def scatter_span(
    chain: Chain, item: Sequence[Part], data: Buffer, span: tuple[int, int], target: np.ndarray
) -> None:
    """Copy the selected elements of a chunk into the result; `data` are only the bytes of :func:`needed_bytes`."""
    source = as_bytes_array(data)
    if source.nbytes != span[1]:
        raise CodecError(f"the stored chunk ends after {span[0] + source.nbytes} bytes")
    assert chain.stored_dtype is not None
    limits = [bounds(part) for part in item]
    counts = [limit.stop - limit.start for limit in limits]
    box: np.ndarray = np.ndarray(counts, chain.stored_dtype, source, 0, strides(chain))
    inside = [moved(part, limit.start) for part, limit in zip(item, limits, strict=True)]
    target[take(item, "out")] = box[take(inside, "inner")]


def scatter_start(chain: Chain, item: Sequence[Part], data: Buffer, target: np.ndarray) -> bool:
    """Decode a large chunk up to the last selected element; return False if the codecs cannot, or it saves nothing."""
    if chain.stored_dtype is None or (chain.decoded_size or 0) < START_BYTES:
        return False
    span = needed_bytes(chain, item)
    decoded = chain.decode_start(data, sum(span))
    if decoded is None:
        return False
    scatter_span(chain, item, decoded[span[0] :], span, target)
    return True
