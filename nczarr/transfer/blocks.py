"""Cut the values of variables into the blocks in which they are read and written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from nczarr.model import ArraySource, DatasetSink, Region, Variable, regions

#: Upper bound of a block's size in bytes, unless one chunk of the output is larger. The memory of larger ones goes
#: back to the system each time, and is cleared by it again.
BLOCK_BYTES = 8 << 20
#: Usual bound on the values that are in memory at once.
MEMORY = 512 << 20
#: What an element of an object array (a string, a sequence) is taken to weigh.
_OBJECT_BYTES = 64

#: A variable whose values are to be moved: FQN, the variable, its data.
Work = tuple[str, Variable, ArraySource]
#: One block: FQN, the region, the data.
Block = tuple[str, Region, ArraySource]


def value_bytes(dtype: np.dtype) -> int:
    """Return about how many bytes a value takes in memory.

    Examples
    --------
    >>> value_bytes(np.dtype("f8")), value_bytes(np.dtype(object))
    (8, 64)
    """
    return _OBJECT_BYTES if dtype.hasobject else dtype.itemsize


def data_bytes(data: ArraySource) -> int:
    """Return about how many bytes all values of a source take in memory."""
    return math.prod(data.shape) * value_bytes(data.dtype)


def blocks_of(work: Iterable[Work], sink: DatasetSink, limit: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the blocks in which values are moved: whole chunks (shards) of the sink."""
    for fqn, variable, data in work:
        read = getattr(data, "chunk_shape", None) or variable.storage.chunk_shape
        block = block_shape(data.shape, sink.write_shape(fqn), read, value_bytes(data.dtype), limit)
        for region in regions(data.shape, block):
            yield fqn, region, data


def block_shape(
    shape: tuple[int, ...],
    write_shape: tuple[int, ...],
    read_shape: tuple[int, ...] | None,
    itemsize: int,
    limit: int = BLOCK_BYTES,
) -> tuple[int, ...]:
    """Choose the blocks of a copy: whole output chunks, and whole input chunks where memory allows.

    Parameters
    ----------
    shape : tuple of int
        Shape of the variable.
    write_shape : tuple of int
        The block in which the output is best written; the result is a multiple of it (or the whole axis).
    read_shape : tuple of int, optional
        Chunk shape of the input.
    itemsize : int
        Bytes an element.
    limit : int
        Bytes a block, unless one output block is larger.

    Returns
    -------
    tuple of int
        At least 1 on each axis.

    Examples
    --------
    >>> block_shape((100, 1000), (1, 1000), (10, 500), 8, limit=1 << 20)
    (100, 1000)
    >>> block_shape((100, 1000), (1, 100), (50, 100), 8, limit=1 << 16)
    (50, 100)
    """
    block = [max(1, min(w, n)) for w, n in zip(write_shape, shape, strict=True)]

    def grow(axis: int, wanted: int) -> None:
        others = math.prod(block) // block[axis] * itemsize
        step = block[axis]
        most = max(limit // others, block[axis])
        size = min(-(-wanted // step) * step, most // step * step)
        block[axis] = max(block[axis], min(size, max(shape[axis], 1)))

    for axis in reversed(range(len(shape))):
        grow(axis, read_shape[axis] if read_shape else block[axis])
    for axis in reversed(range(len(shape))):
        grow(axis, shape[axis])
    return tuple(block)
