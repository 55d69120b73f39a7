"""Move the values of a model from sources to a sink: cut into blocks, with bounded memory and writes side by side.

It knows the model alone, and no format: whoever has lazy data and a :class:`~nczarr.model.DatasetSink` can use it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, Queue
from threading import Event
from typing import Protocol

import numpy as np

from nczarr.model import ArraySource, DatasetSink, Region, Variable, regions
from nczarr.model.sources import region_shape

#: Upper bound of a block's size in bytes, unless one chunk of the output is larger. The memory of larger ones goes
#: back to the system each time, and is cleared by it again.
BLOCK_BYTES = 8 << 20
#: Usual bound on the values that are in memory at once.
MEMORY = 512 << 20
#: Blocks smaller than this go over to another thread together, up to this many bytes and so many blocks.
_TOGETHER_BYTES = 1 << 20
_TOGETHER = 64
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


class Progress(Protocol):
    """Receives the progress of a copy; the methods are called from one thread."""

    def start(self, total: int) -> None:
        """The copy begins; `total` is the number of bytes to move."""

    def advance(self, count: int, fqn: str) -> None:
        """`count` more bytes, of the variable `fqn`, are written."""

    def finish(self) -> None:
        """The copy has ended, well or not."""


class NoProgress:
    """Tells nobody."""

    def start(self, total: int) -> None:
        """Do nothing."""

    def advance(self, count: int, fqn: str) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""


class PartOfProgress:
    """Passes on what parts of a job report, for a job that has begun with the total of all."""

    def __init__(self, whole: Progress) -> None:
        self._whole = whole

    def start(self, total: int) -> None:
        """Do nothing: the job has begun."""

    def advance(self, count: int, fqn: str) -> None:
        """Pass it on."""
        self._whole.advance(count, fqn)

    def finish(self) -> None:
        """Do nothing: other parts follow."""


def transfer(
    blocks: Iterable[Block],
    sink: DatasetSink,
    progress: Progress,
    workers: int,
    memory: int,
    done: Callable[[str, Region], None] = lambda fqn, region: None,
) -> None:
    """Read and write all blocks; `done` is told of each one that is written."""
    # An interrupt reaches the main thread, wherever that is. It only waits here, so that no lock of the HDF5
    # library is held by somebody who was thrown out of it.
    stop = Event()
    reports: Queue[tuple[int, str] | None] = Queue()
    with ThreadPoolExecutor(1, thread_name_prefix="nczarr-read") as pool:
        moving = pool.submit(
            _move, blocks, sink, workers, memory, stop, lambda *report: reports.put(report), done
        )
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
        # Without a time limit a wait cannot be interrupted on Windows.
        with suppress(Empty):
            return reports.get(timeout=0.5)


def _move(
    blocks: Iterable[Block],
    sink: DatasetSink,
    workers: int,
    memory: int,
    stop: Event,
    report: Callable[[int, str], None],
    done: Callable[[str, Region], None],
) -> None:
    """Read block after block here and write them in other threads, until all is done or `stop` is set."""
    under_way: deque[tuple[Future[None], list[Block], int]] = deque()
    held = 0

    def settle() -> None:
        nonlocal held
        future, some, weight = under_way.popleft()
        future.result()
        held -= weight
        for fqn, region, _ in some:
            done(fqn, region)
        report(weight, some[-1][0])

    writers = workers if sink.concurrent else 1
    with ThreadPoolExecutor(writers, thread_name_prefix="nczarr-copy") as pool:
        try:
            for some, weight in _together(blocks, min(_TOGETHER_BYTES, memory // (2 * (writers + 2)))):
                # A block is there twice while it is encoded.
                while under_way and (2 * (held + weight) > memory or len(under_way) > writers):
                    settle()
                if stop.is_set():
                    break
                values = [data.read(region) for _, region, data in some]
                held += weight
                under_way.append((pool.submit(_write, sink, some, values), some, weight))
                del values
            while under_way:
                settle()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _together(blocks: Iterable[Block], limit: int) -> Iterator[tuple[list[Block], int]]:
    """Yield blocks with their bytes: large ones alone, small ones with those that follow.

    What it costs to hand a block over to another thread is as much as to write a few kilobytes.
    """
    some: list[Block] = []
    held = 0
    for block in blocks:
        _, region, data = block
        weight = math.prod(region_shape(region)) * value_bytes(data.dtype)
        if some and (held + weight > limit or len(some) == _TOGETHER):
            yield some, held
            some, held = [], 0
        some.append(block)
        held += weight
    if some:
        yield some, held


def _write(sink: DatasetSink, blocks: list[Block], values: list[np.ndarray]) -> None:
    """Write blocks one after the other, and let go of the values of each."""
    for fqn, region, _ in blocks:
        sink.write(fqn, region, values.pop(0))
