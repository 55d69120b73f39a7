"""Read and write small chunks that lie side by side together.

What a chunk costs beyond its bytes (the interpreter, a context of the compressor, a copy in short lines) is paid
once for a row of them. A row is whole chunks that follow each other along the last dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np

from nczarr.zarr.arrays.plan import Item, Part, is_whole
from nczarr.zarr.codecs import Buffer, Chain
from nczarr.zarr.codecs.base import as_bytes_array
from nczarr.zarr.pool import run, scratch, worker_count

#: The decoded chunks of a row have about this many bytes, which the processor's cache holds.
ROW_BYTES = 1 << 20


def fits_rows(chain: Chain) -> bool:
    """True if chunks can be put together: their serialized bytes are the elements, and always as many."""
    return chain.stored_dtype is not None and bool(chain.decoded_size) and len(chain.spec.shape) > 0


def row_length(chain: Chain, count: int = 2**31, workers: int = 1) -> int:
    """Return how many chunks a row has at most, where `workers` threads share `count` chunks."""
    fair = -(-count // (4 * workers))
    return max(1, min(ROW_BYTES // (chain.decoded_size or ROW_BYTES), fair))


def rows(parts: Sequence[Sequence[Part]], length: int) -> Iterator[list[Item]]:
    """Yield the chunks of a plan: rows of at most `length` chunks, and other chunks one by one.

    Examples
    --------
    >>> a, b, c = (Part(i, slice(2 * i, 2 * i + 2), slice(0, 2, 1), i < 2, True, 2) for i in range(3))
    >>> [[item[1].chunk for item in row] for row in rows([[a], [a, b, c]], 8)]
    [[0, 1], [2]]
    """
    *leading, last = parts
    groups: list[list[Part]] = []
    for part in last:
        group = groups[-1] if groups else []
        if 0 < len(group) < length and follows(group[-1], part):
            group.append(part)
        else:
            groups.append([part])
    for head in product(*leading):
        if all(map(is_whole, head)):
            for group in groups:
                yield [(*head, part) for part in group]
        else:
            for part in last:
                yield [(*head, part)]


def follows(before: Part, part: Part) -> bool:
    """True if two whole parts go to neighbouring places."""
    return is_whole(before) and is_whole(part) and bool(before.out.stop == part.out.start)


def run_rows(
    chain: Chain | None,
    parts: Sequence[Sequence[Part]],
    items: Sequence[Item],
    workers: int | None,
    work_chunk: Callable[[Item], None],
    work_row: Callable[[Sequence[Item]], bool],
) -> None:
    """Do the work of all chunks of a plan in several threads, in rows where that is possible.

    `parts` are the plan and `items` its product; without `chain`, the codecs of all chunks, each chunk is done for
    itself. `work_row` returns False if anything is not as usual: then `work_chunk` does its chunks one by one, and
    finds what it is.
    """
    if chain is None or not fits_rows(chain):
        run(work_chunk, items, workers)
        return

    def work(row: Sequence[Item]) -> None:
        if len(row) == 1 or not work_row(row):
            for item in row:
                work_chunk(item)

    run(work, rows(parts, row_length(chain, len(items), workers or worker_count())), workers)


def row_view(items: Sequence[Item], target: np.ndarray) -> np.ndarray:
    """Return the part of the result that the chunks of a row fill."""
    first, last = items[0], items[-1]
    *head, tail = [part.out for part in first]
    return target[(*head, slice(tail.start, last[-1].out.stop))]


def place_row(chain: Chain, data: np.ndarray, bounds: Sequence[tuple[int, int]], view: np.ndarray) -> None:
    """Decode the chunks of a row, and put them into their part of the result.

    `bounds` say where in `data` each stored chunk begins and ends; chunks that are stored as they are follow each
    other, and have their proper length. `view` is what :func:`row_view` returns.

    Raises
    ------
    CodecError
        Some chunk is damaged; part of `view` may have been changed.
    """
    stored = chain.stored_dtype
    assert stored is not None
    place = chain.in_stored_order(view, _grid(chain, len(bounds)))
    if chain.is_raw:
        decoded = data[bounds[0][0] : bounds[-1][1]]
    elif place.flags.c_contiguous and place.dtype == stored:
        chain.decode_row(data, bounds, as_bytes_array(place))
        return
    else:
        size = len(bounds) * (chain.decoded_size or 0)
        decoded = scratch("row", size)[:size]
        chain.decode_row(data, bounds, decoded)
    np.copyto(place, decoded.view(stored).reshape(place.shape))


def encode_row(chain: Chain, count: int, view: np.ndarray) -> Sequence[Buffer]:
    """Return the stored bytes of each of `count` chunks of a row; valid until this thread encodes another row.

    Only where the chain's `writes_rows` is set; `view` is what :func:`row_view` returns.

    Raises
    ------
    CodecError
        A codec cannot encode these values.
    """
    size = count * (chain.decoded_size or 0)
    serialized = scratch("row", size)[:size]
    chain.serialize(view, _grid(chain, count), serialized)
    return chain.encode_row(serialized, count)


def _grid(chain: Chain, count: int) -> tuple[int, ...]:
    return (1,) * (len(chain.spec.shape) - 1) + (count,)
