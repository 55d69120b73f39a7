"""Copy the selected elements of decoded chunks into the result, one by one or in rows.

A row consists of consecutive small chunks along the last dimension. The fixed costs of a chunk (Python code, a
compressor context, a strided copy) arise once for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, product
from operator import mul
from typing import TypeVar

import numpy as np

from nczarr.errors import CodecError
from nczarr.zarr.chunks.plan import ChunkDimProjection, Item, bounds, is_whole, take, within
from nczarr.zarr.codecs.base import Buffer, as_bytes_array, scratch
from nczarr.zarr.codecs.chain import Chain
from nczarr.zarr.pool import worker_count

T = TypeVar("T")

#: Chunks of fewer bytes are always decoded as a whole.
START_BYTES = 128 << 10


def is_covered(item: Sequence[ChunkDimProjection]) -> bool:
    """Return True if a selection contains the whole part of a chunk inside the array."""
    return all(part.covers for part in item)


def put_fill(target: np.ndarray, index: tuple[slice | np.ndarray, ...], fill: object) -> None:
    """Assign the fill value to a region, as a single object in object arrays."""
    if target.dtype.hasobject and target.dtype.names is None:
        value = np.empty((), object)
        value[()] = fill
        target[index] = value
    else:
        target[index] = fill


def scatter(
    chain: Chain, item: Sequence[ChunkDimProjection], data: Buffer | None, target: np.ndarray
) -> None:
    """Copy the selected elements of one chunk into the result.

    `data` are the stored bytes of the chunk, None if it is missing; `item` has a part for each dimension.
    """
    out = take(item, "out")
    if data is None:
        put_fill(target, out, chain.spec.fill)
    elif all(map(is_whole, item)):
        chain.decode_into(data, target[out])
    elif not scatter_start(chain, item, data, target):
        decode = chain.decode if chain.stored_dtype is None else chain.decode_raw
        target[out] = decode(data)[take(item, "inner")]


def strides(chain: Chain) -> list[int]:
    """Return the strides of a serialized chunk, in bytes."""
    stored = chain.stored_dtype
    assert stored is not None
    assert chain.order is not None
    lengths = [chain.spec.shape[dimension] for dimension in reversed(chain.order)]
    distances = accumulate(lengths, mul, initial=stored.itemsize)
    return [distance for _, distance in sorted(zip(reversed(chain.order), distances))]


def needed_bytes(chain: Chain, item: Sequence[ChunkDimProjection]) -> tuple[int, int]:
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
    chain: Chain, item: Sequence[ChunkDimProjection], data: Buffer, span: tuple[int, int], target: np.ndarray
) -> None:
    """Copy the selected elements of a chunk into the result; `data` are only the bytes of :func:`needed_bytes`."""
    source = as_bytes_array(data)
    # A truncated file answers with fewer bytes, and no error.
    if source.nbytes != span[1]:
        raise CodecError(f"the stored chunk ends after {span[0] + source.nbytes} bytes")
    assert chain.stored_dtype is not None
    limits = [bounds(part) for part in item]
    counts = [limit.stop - limit.start for limit in limits]
    box: np.ndarray = np.ndarray(counts, chain.stored_dtype, source, 0, strides(chain))
    target[take(item, "out")] = box[take(within(item, limits), "inner")]


def scatter_start(chain: Chain, item: Sequence[ChunkDimProjection], data: Buffer, target: np.ndarray) -> bool:
    """Decode a large chunk up to the last selected element; return False if the codecs cannot, or it saves nothing."""
    if chain.stored_dtype is None or (chain.decoded_size or 0) < START_BYTES:
        return False
    span = needed_bytes(chain, item)
    decoded = chain.decode_start(data, sum(span))
    if decoded is None:
        return False
    scatter_span(chain, item, decoded[span[0] :], span, target)
    return True


#: The decoded size of a row, which fits into the processor's cache.
ROW_BYTES = 1 << 20


def fits_rows(chain: Chain) -> bool:
    """Return True if chunks can form rows: their serialized bytes are only the elements, and have a fixed size."""
    return chain.stored_dtype is not None and bool(chain.decoded_size) and len(chain.spec.shape) > 0


def row_length(chain: Chain, count: int = 2**31, workers: int = 1) -> int:
    """Return the largest number of chunks in a row if `workers` threads share `count` chunks."""
    # Rows that are too long leave threads without work.
    fair = -(-count // (4 * workers))
    return max(1, min(ROW_BYTES // (chain.decoded_size or ROW_BYTES), fair))


def rows(
    parts: Sequence[Sequence[ChunkDimProjection]], length: int, evenly: bool = False
) -> Iterator[list[Item]]:
    """Yield the chunks of a plan: rows of at most `length` chunks, and other chunks one by one.

    With `evenly`, partly selected chunks form rows, too, if the step between selected elements is constant across
    the chunks.

    Examples
    --------
    >>> a, b, c = (ChunkDimProjection(i, slice(2 * i, 2 * i + 2), slice(0, 2, 1), i < 2, True, 2) for i in range(3))
    >>> [[item[1].chunk for item in row] for row in rows([[a], [a, b, c]], 8)]
    [[0, 1], [2]]
    >>> [[item[1].chunk for item in row] for row in rows([[a], [a, b, c]], 8, evenly=True)]
    [[0, 1], [2]]
    """
    *leading, last = parts
    joined = groups(last, length, goes_on if evenly else follows)
    for head in product(*leading):
        if all(map(_is_sliced if evenly else is_whole, head)):
            for group in joined:
                yield [(*head, part) for part in group]
        else:
            for part in last:
                yield [(*head, part)]


def groups(items: Iterable[T], length: int, belongs: Callable[[Sequence[T], T], bool]) -> list[list[T]]:
    """Divide items into groups of at most `length`; an item stays in the last group if it belongs to it."""
    result: list[list[T]] = []
    for item in items:
        if result and len(result[-1]) < length and belongs(result[-1], item):
            result[-1].append(item)
        else:
            result.append([item])
    return result


def _is_sliced(part: ChunkDimProjection) -> bool:
    return type(part.out) is slice and type(part.inner) is slice


def _distance(group: Sequence[ChunkDimProjection]) -> int:
    """Return the step between selected elements in a row of one or more parts; 0 for a single element."""
    first = group[0]
    if first.inner.stop - first.inner.start > 1:
        step: int = first.inner.step
        return step
    if len(group) == 1:
        return 0
    second = group[1]
    return first.size - int(first.inner.start) + int(second.inner.start)


def goes_on(group: Sequence[ChunkDimProjection], part: ChunkDimProjection) -> bool:
    """Return True if a part of the next chunk continues a row with the same step."""
    if follows(group, part):
        return True
    before = group[-1]
    if not (_is_sliced(before) and _is_sliced(part)) or is_whole(before) != is_whole(part):
        return False
    if part.chunk != before.chunk + 1 or part.size != before.size or part.out.start != before.out.stop:
        return False
    distance = before.size - (before.inner.stop - 1) + part.inner.start
    step = _distance(group)
    if step == 0:
        step = distance
    return bool(step == distance and (part.inner.stop - part.inner.start == 1 or part.inner.step == step))


def follows(group: Sequence[ChunkDimProjection], part: ChunkDimProjection) -> bool:
    """Return True if a whole part directly follows the last whole part of a row in the result."""
    before = group[-1]
    return is_whole(before) and is_whole(part) and bool(before.out.stop == part.out.start)


def shared_rows(
    chain: Chain | None,
    parts: Sequence[Sequence[ChunkDimProjection]],
    items: Sequence[Item],
    workers: int | None,
    evenly: bool = False,
) -> Iterator[Sequence[Item]]:
    """Return the chunks of a plan as tasks for `workers` threads: in rows if possible, else one by one.

    `parts` are the plan and `items` its product. `chain` are the codecs of all chunks; without it there are no rows.
    For `evenly` see :func:`rows`.
    """
    if chain is None or not fits_rows(chain):
        return ([item] for item in items)
    return rows(parts, row_length(chain, len(items), workers or worker_count()), evenly)


def row_view(items: Sequence[Item], target: np.ndarray) -> np.ndarray:
    """Return a view of the region of the result that belongs to a row."""
    first, last = items[0], items[-1]
    *head, tail = [part.out for part in first]
    return target[(*head, slice(tail.start, last[-1].out.stop))]


def scatter_row(chain: Chain, data: np.ndarray, bounds: Sequence[tuple[int, int]], view: np.ndarray) -> None:
    """Decode the chunks of a row into their region of the result.

    `bounds` are the start and stop of each stored chunk in `data`; uncompressed chunks must be contiguous and have the
    correct length. `view` is from :func:`row_view`.

    Raises
    ------
    CodecError
        If a chunk is damaged; parts of `view` may have changed.
    """
    stored = chain.stored_dtype
    assert stored is not None
    grid = [size // length for size, length in zip(view.shape, chain.spec.shape, strict=True)]
    region = chain.in_stored_order(view, grid)
    # The decompressor writes into the result: a copy of each row costs as much as decoding it.
    if not chain.is_raw and region.flags.c_contiguous and region.dtype == stored:
        chain.decode_row(data, bounds, as_bytes_array(region))
    else:
        np.copyto(region, _decoded_row(chain, data, bounds).view(stored).reshape(region.shape))


def _decoded_row(chain: Chain, data: np.ndarray, bounds: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return the serialized bytes of the chunks of a row, in a reusable buffer of the thread if they are encoded."""
    if chain.is_raw:
        return data[bounds[0][0] : bounds[-1][1]]
    size = len(bounds) * (chain.decoded_size or 0)
    decoded = scratch("row", size)[:size]
    chain.decode_row(data, bounds, decoded)
    return decoded


def gather_row(
    chain: Chain, data: np.ndarray, bounds: Sequence[tuple[int, int]], row: Sequence[Item], target: np.ndarray
) -> None:
    """Decode the chunks of a row, and copy the selected elements into the result with one or two copies.

    The row is from :func:`rows` with `evenly`; else see :func:`scatter_row`.
    """
    stored = chain.stored_dtype
    assert stored is not None
    assert chain.order is not None
    count = len(row)
    decoded = _decoded_row(chain, data, bounds)
    shape = chain.spec.shape
    *head, first = row[0]
    last = row[-1][-1]
    # The dimensions in the array's order, with the number of the chunk in the row before the last one.
    where = [1 + chain.order.index(i) for i in range(len(shape))]
    values = decoded.view(stored).reshape(count, *[shape[i] for i in chain.order])
    values = values.transpose(*where[:-1], 0, where[-1])[tuple([part.inner for part in head])]
    region = target[(*[part.out for part in head], slice(first.out.start, last.out.stop))]
    if first.full:
        np.copyto(region.reshape(values.shape), values)  # to split a dimension never needs a copy
        return
    rows_shape = (*values.shape[:-2], count * shape[-1])
    nbytes = values.size * stored.itemsize
    lines = scratch("lines", nbytes)[:nbytes].view(stored).reshape(rows_shape)
    np.copyto(lines.reshape(values.shape), values)
    begin = first.inner.start
    end = (count - 1) * shape[-1] + last.inner.stop
    np.copyto(region, lines[..., begin : end : max(_distance([part[-1] for part in row]), 1)])


def encode_row(chain: Chain, count: int, view: np.ndarray) -> Sequence[Buffer]:
    """Return the stored bytes of each of `count` chunks of a row; the thread's next row overwrites them.

    Requires the chain's `writes_rows`; `view` is from :func:`row_view`.

    Raises
    ------
    CodecError
        If a codec cannot encode these values.
    """
    size = count * (chain.decoded_size or 0)
    serialized = scratch("row", size)[:size]
    chain.serialize(view, (1,) * (view.ndim - 1) + (count,), serialized)
    return chain.encode_row(serialized, count)
