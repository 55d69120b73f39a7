"""Store Dask arrays: each task encodes one chunk of Dask, and writes whole chunks or shards of the output."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import accumulate, pairwise
from secrets import token_hex
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.mapping import DetachedDataset, DetachedValues, StoredDataset
from nczarr.model import DatasetSink, Region
from nczarr.system.locks import Rank, make_lock
from nczarr.transfer import Work


class TaskDataset(Protocol):
    """A dataset that a task opens to write values."""

    def open(self) -> Any:
        """Return an object with the methods ``write(fqn, region, values)`` and ``close()``."""


@dataclass(frozen=True)
class _Here:
    """A sink that only this process can write to."""

    sink: DatasetSink

    def open(self) -> _Here:
        return self

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        self.sink.write(fqn, region, values)

    def close(self) -> None:
        """Leave the sink open."""


def place_of(
    sink: DatasetSink, target: object, options: Mapping[str, object] | None
) -> tuple[TaskDataset, bool]:
    """Return where tasks write the values of a sink, and whether other processes can."""
    if isinstance(sink, StoredDataset):
        try:
            return DetachedDataset.of(sink, target, options), True
        # A store that has no name, such as one in memory, is written by this process only.
        except UnsupportedError:
            pass
    return _Here(sink), False


@dataclass(frozen=True)
class _TaskVariable:
    """A variable to which tasks write its chunks."""

    place: TaskDataset
    fqn: str
    source: Any
    shape: tuple[int, ...]
    start: tuple[int, ...]

    def write(self, key: tuple[slice, ...], values: np.ndarray) -> None:
        """Write values that the program sees at a place of the array."""
        inside = (*key, *[slice(0, n) for n in self.shape[len(key) :]])
        region = tuple(slice(k.start + n, k.stop + n, 1) for k, n in zip(inside, self.start, strict=True))
        block = self.source.block(self.source.part(values), tuple(slice(k.start, k.stop, 1) for k in inside))
        opened = self.place.open()
        try:
            # A worker of a cluster that comes late would write into a dataset that is complete, or has gone.
            if isinstance(opened, DetachedValues):
                opened.refuse_late()
            opened.write(self.fqn, region, block)
        finally:
            opened.close()


class _RunningTasks:
    """The tasks of one call that write in this process.

    Dask raises the first error of a task while other tasks run on: they wrote chunks into a directory that the error
    had removed, so that a refused write left a dataset behind.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._condition = threading.Condition(make_lock(Rank.TABLE))
        self._running = 0
        self._ended = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _running_tasks, (self.name,)

    @contextmanager
    def task(self) -> Iterator[None]:
        """Run one task, or refuse it after the end."""
        with self._condition:
            if self._ended:
                # Dask raises the first error while tasks write on: a late chunk made a removed directory anew.
                raise NCZarrError("the write has ended")
            self._running += 1
        try:
            yield
        finally:
            with self._condition:
                self._running -= 1
                self._condition.notify_all()

    def end(self) -> None:
        """Refuse further tasks, and wait for those that run."""
        with self._condition:
            self._ended = True
            self._condition.wait_for(lambda: not self._running)


# A worker outlives the calls: their tasks alone keep an entry.
_running: WeakValueDictionary[str, _RunningTasks] = WeakValueDictionary()


def _running_tasks(name: str) -> _RunningTasks:
    """Return the tasks of a call: those of this process where it made them, else new ones, as in a worker."""
    return _running.get(name) or _running.setdefault(name, _RunningTasks(name))


def is_chunked(work: Work) -> bool:
    """Return True if the values of a variable are a Dask array."""
    return getattr(work[2], "chunked", None) is not None


def store_chunked(
    work: Iterable[Work],
    place: TaskDataset,
    blocks: Mapping[str, tuple[int, ...]],
    *,
    starts: Mapping[str, tuple[int, ...]] | None = None,
    compute: bool = True,
    elsewhere: bool = True,
    concurrent: bool = True,
) -> Any:
    """Write variables whose values are Dask arrays.

    Parameters
    ----------
    blocks : mapping
        The shapes of the chunks or shards of the output, by FQN.
    starts : mapping, optional
        The positions of the first values in the output, by FQN.
    compute : bool
        False returns a delayed object.
    elsewhere, concurrent : bool
        Other processes, and several threads, can write.
    """
    import dask
    from dask.array.core import slices_from_chunks
    from dask.utils import SerializableLock

    tasks = []
    writing = _running_tasks(token_hex(8))
    # A netCDF file is written by one thread.
    lock = nullcontext() if concurrent else SerializableLock()
    for fqn, _, data in work:
        source: Any = data
        start = (starts or {}).get(fqn, (0,) * len(source.shape))
        array = source.chunked.rechunk(aligned(source.chunked.chunks, start, blocks[fqn]))
        target = dask.delayed(
            _TaskVariable(place, fqn, source.detached(), source.shape, start), traverse=False
        )
        delayed = array.to_delayed(optimize_graph=False).ravel()  # variables compute their common parts once
        parts = zip(delayed, slices_from_chunks(array.chunks), strict=True)
        tasks += [dask.delayed(_store)(target, key, part, lock, writing) for part, key in parts]
    if not compute:
        return dask.delayed(_finished)(tasks)
    # A file, or a store in memory, is open in this process only.
    try:
        dask.compute(*tasks, **({} if elsewhere else {"scheduler": "threads"}))
    finally:
        writing.end()
    return None


def _store(
    target: _TaskVariable,
    key: tuple[slice, ...],
    values: np.ndarray,
    lock: AbstractContextManager[Any],
    writing: _RunningTasks,
) -> None:
    with lock, writing.task():
        target.write(key, values)


def _finished(tasks: object) -> None:
    """Wait for tasks, as their last task."""


def aligned(
    chunks: tuple[tuple[int, ...], ...], start: tuple[int, ...], blocks: tuple[int, ...]
) -> tuple[tuple[int, ...], ...]:
    """Return chunks of Dask that end where blocks of the output end, so that no two write to one block.

    Examples
    --------
    >>> aligned(((4, 4, 2),), (0,), (3,)), aligned(((4, 4),), (2,), (3,))
    (((3, 3, 4),), ((4, 4),))
    """
    return tuple(_axis(c, s, b) for c, s, b in zip(chunks, start, blocks, strict=False))


def _axis(chunks: tuple[int, ...], start: int, block: int) -> tuple[int, ...]:
    size = sum(chunks)
    ends = [(start + end) // block * block - start for end in accumulate(chunks[:-1])]
    cuts = [0, *sorted({end for end in ends if 0 < end < size}), size]
    return tuple(b - a for a, b in pairwise(cuts))
