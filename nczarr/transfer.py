"""Copy values from sources to a sink in blocks, with bounded memory and concurrent writes.

The module depends on the model only. It copies any :class:`~nczarr.model.ArraySource` to any
:class:`~nczarr.model.DatasetSink`, whatever their formats.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, Queue
from threading import Event
from typing import Protocol

import numpy as np

from nczarr.model import ArraySource, Dataset, DatasetSink, Region, Variable, regions
from nczarr.model.sources import region_shape

#: Maximum size of a block in bytes, unless one chunk of the output is larger. The allocator returns the memory of
#: larger blocks to the operating system, which must clear it again for the next block.
BLOCK_BYTES = 8 << 20
#: Default limit in bytes on the values in memory.
MEMORY = 512 << 20
#: Maximum size in bytes, and maximum length, of a batch of small blocks for one writer thread.
_BATCH_BYTES = 1 << 20
_BATCH = 64
#: Assumed size in bytes of an element of an object array (a string, a sequence).
_OBJECT_BYTES = 64

#: A variable to copy: its FQN, the variable, its data.
Work = tuple[str, Variable, ArraySource]
#: One block: FQN, the region, the data.
Block = tuple[str, Region, ArraySource]


def value_bytes(dtype: np.dtype) -> int:
    """Return the approximate size of a value in memory, in bytes.

    Examples
    --------
    >>> value_bytes(np.dtype("f8")), value_bytes(np.dtype(object))
    (8, 64)
    """
    return _OBJECT_BYTES if dtype.hasobject else dtype.itemsize


def data_bytes(data: ArraySource) -> int:
    """Return the approximate size of all values of a source in memory, in bytes."""
    return math.prod(data.shape) * value_bytes(data.dtype)


def dataset_bytes(dataset: Dataset) -> int:
    """Return the approximate size of all values of a dataset in memory, in bytes."""
    return sum(data_bytes(v.data) for v in dataset.all_variables.values() if v.data is not None)


def blocks_of(work: Iterable[Work], sink: DatasetSink, limit: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the blocks to copy; each consists of whole chunks (or shards) of the sink."""
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
    """Choose the block shape of a copy: whole output chunks, and whole input chunks if memory allows.

    Parameters
    ----------
    shape : tuple of int
        Shape of the variable.
    write_shape : tuple of int
        Preferred block shape of the sink. Along each axis, the result is a multiple of it or the whole axis.
    read_shape : tuple of int, optional
        Chunk shape of the input.
    itemsize : int
        Bytes per element.
    limit : int
        Maximum size of a block in bytes, unless one output chunk is larger.

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

    def grow(axis: int, length: int) -> None:
        others = math.prod(block) // block[axis] * itemsize
        step = block[axis]
        most = max(limit // others, block[axis])
        size = min(-(-length // step) * step, most // step * step)
        block[axis] = max(block[axis], min(size, max(shape[axis], 1)))

    for axis in reversed(range(len(shape))):
        grow(axis, read_shape[axis] if read_shape else block[axis])
    for axis in reversed(range(len(shape))):
        grow(axis, shape[axis])
    return tuple(block)


class Progress(Protocol):
    """Receive the progress of a copy. All methods are called from the same thread."""

    def start(self, total: int) -> None:
        """Begin a copy of `total` bytes."""

    def advance(self, count: int, fqn: str) -> None:
        """Report `count` more bytes written to the variable `fqn`."""

    def finish(self) -> None:
        """End the copy, successful or not."""


class NoProgress:
    """Ignore the progress of a copy."""

    def start(self, total: int) -> None:
        """Do nothing."""

    def advance(self, count: int, fqn: str) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""


class PartOfProgress(NoProgress):
    """Forward the progress of one part of a job to the progress of the whole job, which has already started."""

    def __init__(self, whole: Progress) -> None:
        self._whole = whole

    def advance(self, count: int, fqn: str) -> None:
        """Report the bytes to the whole job."""
        self._whole.advance(count, fqn)


@contextmanager
def reporting(progress: Progress, total: int) -> Iterator[None]:
    """Start the progress of a job of `total` bytes, and finish it on exit."""
    progress.start(total)
    try:
        yield
    finally:
        progress.finish()


def transfer(
    blocks: Iterable[Block], sink: DatasetSink, progress: Progress, workers: int, memory: int
) -> None:
    """Read and write all blocks."""
    # KeyboardInterrupt is raised in the main thread. The main thread only waits here, so that an interrupt never
    # leaves HDF5 code with the HDF5 lock acquired.
    from concurrent.futures import ThreadPoolExecutor  # a dataset that is opened needs none

    stop = Event()
    reports: Queue[tuple[int, str] | None] = Queue()
    with ThreadPoolExecutor(1, thread_name_prefix="nczarr-read") as pool:
        moving = pool.submit(_move, blocks, sink, workers, memory, stop, reports)
        moving.add_done_callback(lambda _: reports.put(None))
        try:
            while (report := _next(reports)) is not None:
                progress.advance(*report)
        except BaseException:
            stop.set()
            raise
        moving.result()


def _next(reports: Queue[tuple[int, str] | None]) -> tuple[int, str] | None:
    while True:
        # On Windows, only a wait with a timeout is interruptible.
        with suppress(Empty):
            return reports.get(timeout=0.5)


def _move(
    blocks: Iterable[Block],
    sink: DatasetSink,
    workers: int,
    memory: int,
    stop: Event,
    reports: Queue[tuple[int, str] | None],
) -> None:
    """Read blocks in this thread and write them in other threads, until all are written or `stop` is set."""
    from concurrent.futures import Future, ThreadPoolExecutor

    pending: deque[tuple[Future[None], list[Block], int]] = deque()
    pending_bytes = 0

    def finish_oldest() -> None:
        nonlocal pending_bytes
        future, batch, size = pending.popleft()
        future.result()
        pending_bytes -= size
        reports.put((size, batch[-1][0]))

    writers = workers if sink.concurrent else 1
    with ThreadPoolExecutor(writers, thread_name_prefix="nczarr-copy") as pool:
        try:
            for batch, size in _batches(blocks, min(_BATCH_BYTES, memory // (2 * (writers + 2)))):
                # While the sink encodes a block, memory contains it twice.
                while pending and (2 * (pending_bytes + size) > memory or len(pending) > writers):
                    finish_oldest()
                if stop.is_set():
                    break
                values = [data.read(region) for _, region, data in batch]
                pending_bytes += size
                pending.append((pool.submit(_write, sink, batch, values), batch, size))
                del values
            while pending:
                finish_oldest()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _batches(blocks: Iterable[Block], limit: int) -> Iterator[tuple[list[Block], int]]:
    """Yield batches of consecutive small blocks, or single large blocks, with their sizes in bytes.

    Passing a batch to another thread takes as long as writing a few kilobytes.
    """
    batch: list[Block] = []
    batch_bytes = 0
    for block in blocks:
        _, region, data = block
        size = math.prod(region_shape(region)) * value_bytes(data.dtype)
        if batch and (batch_bytes + size > limit or len(batch) == _BATCH):
            yield batch, batch_bytes
            batch, batch_bytes = [], 0
        batch.append(block)
        batch_bytes += size
    if batch:
        yield batch, batch_bytes


def _write(sink: DatasetSink, blocks: list[Block], values: list[np.ndarray]) -> None:
    """Write blocks one after the other, and release the values of each written block."""
    for fqn, region, _ in blocks:
        sink.write(fqn, region, values.pop(0))
