"""Distribute the blocks of a copy over workers: each task reads some blocks and writes whole chunks or shards.

No two tasks write the same chunk, so that no locks are needed. If a worker is lost, its task runs again, which writes
the same bytes again. The calling process creates the dataset, records finished blocks, and completes the dataset.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import pickle
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from nczarr.convert.change.shaping import OutputOptions, with_storage
from nczarr.convert.engine import Call, Engine
from nczarr.convert.request import FileStates, Sources
from nczarr.convert.values.raw import Twin, put_stored, twin_of
from nczarr.convert.values.resume import checksum
from nczarr.errors import NCZarrError, UnsupportedError, error_context
from nczarr.formats import Kind
from nczarr.mapping import DetachedDataset, DetachedValues
from nczarr.mapping.dataset.destination import JOB
from nczarr.model import Dataset, Region
from nczarr.model.sources import region_shape
from nczarr.system.atomic import remove_partial_values
from nczarr.system.locks import Rank, make_lock
from nczarr.transfer import Block, Progress, value_bytes

#: At most so many bytes of one task, which is repeated as a whole if its worker is lost; and tasks of each worker.
_TASK_BYTES, _TASKS_OF_WORKER = 1 << 30, 64
#: A block: the FQN of its variable, and the region.
Place: TypeAlias = tuple[str, Region]


@dataclass(frozen=True)
class Recipe:
    """How to open the dataset of a copy in another process.

    Attributes
    ----------
    joined : Dataset, optional
        The joined dataset as it is written. A process opens only the files that it reads, and checks their states.
    """

    sources: Sources
    output: OutputOptions
    source: Kind | None
    joined: Dataset | None = None

    @contextmanager
    def open(self, states: FileStates) -> Iterator[Dataset]:
        """Open the dataset as it is written; an error if a file has not the same state as in `states`."""
        if self.joined is not None:
            yield self.joined
            return
        # A worker on another machine may see an older file, or none.
        self.sources.refuse_changes(states)
        with self.sources.open() as opened:
            part = self.sources.part(opened)
            yield with_storage(part, self.output, source=self.source, target="zarr").dataset


@dataclass(frozen=True)
class Job:
    """The parameters of the tasks of a copy.

    Attributes
    ----------
    between : DetachedDataset or None
        The intermediate dataset with the values; None: the values are in the sources.
    raw : bool
        Copy chunks undecoded where source and target store the same bytes.
    """

    token: str
    recipe: Recipe
    states: FileStates
    target: DetachedDataset
    between: DetachedDataset | None
    raw: bool
    recorded: bool


class _OpenJob:
    """The source and the target of a copy, open in a worker."""

    def __init__(self, job: Job) -> None:
        with ExitStack() as stack:
            self.job = job
            self.target = stack.enter_context(closing(job.target.open()))
            self._is_forked = job.target.fork is not None
            self.between = stack.enter_context(closing(job.between.open())) if job.between else None
            self.source = stack.enter_context(job.recipe.open(job.states))
            self._twins: dict[str, Twin | None] = {}
            self.close = stack.pop_all().close

    def writing(self) -> AbstractContextManager[DetachedValues]:
        """Return the target of one task."""
        # A fork has all changes since its opening, which each task would send again.
        return closing(self.job.target.open()) if self._is_forked else nullcontext(self.target)

    def move(self, fqn: str, region: Region, target: DetachedValues) -> int | None:
        """Copy one block; return the checksum of its values if blocks are recorded."""
        # A worker that comes back late would write into a dataset that is complete, or has gone.
        target.refuse_late()
        variable = self.source.variable_at(fqn)
        assert variable.data is not None
        if self.job.raw:
            if fqn not in self._twins:  # another thread may find the same
                self._twins[fqn] = twin_of(fqn, variable, variable.data, self.target)
            twin = self._twins[fqn]
            if twin is not None:
                for chunk in twin(region):
                    put_stored(target.store, chunk)
                return None
        data = variable.data if self.between is None else self.between.data(fqn)
        values = data.read(region)
        crc = checksum(values, variable.type) if self.job.recorded else None
        target.write(fqn, region, values)
        return crc


@dataclass(frozen=True)
class _StoredJob:
    """A job that workers read from the unfinished dataset which they write.

    Attributes
    ----------
    digest : str
        Of the content, which another program may have replaced.
    target : DetachedDataset
        Without its arrays.
    data : bytes or None
        The content, where the store of the dataset takes no other keys than those of Zarr.
    """

    token: str
    digest: str
    target: DetachedDataset
    data: bytes | None = None

    @classmethod
    def of(cls, job: Job) -> _StoredJob:
        """Store a job."""
        try:
            try:
                from cloudpickle import dumps  # also functions of the main program
            # Only cloudpickle sends functions of the main program.
            except ImportError:
                from pickle import dumps
            data = dumps(job)
        # cloudpickle raises any error of the objects inside.
        except Exception as error:
            raise UnsupportedError(
                f"the source cannot be sent to workers: {error}",
                hint="give a path or a URL that they can open",
            ) from error
        # Each task has it with it; the arrays, of which there may be thousands, are in the stored job.
        place, digest = replace(job.target, arrays={}), hashlib.sha256(data).hexdigest()
        if job.target.fork is not None:
            return cls(job.token, digest, replace(place, fork=None), data)
        with closing(place.open()) as opened:
            opened.store.set(JOB, data)
        return cls(job.token, digest, place)

    def load(self) -> Job:
        """Read the job."""
        data = self.data
        if data is None:
            with closing(self.target.open()) as opened:
                data = opened.store.get(JOB)
        # Unpickling runs code: only the job that this copy has stored is loaded.
        if data is None or hashlib.sha256(data).hexdigest() != self.digest:
            raise NCZarrError("the copy has ended", path=self.target.place)
        job: Job = pickle.loads(data)
        return job

    def remove(self) -> None:
        """Delete the job."""
        if self.data is not None:
            return
        with suppress(NCZarrError), closing(self.target.open()) as opened:
            opened.store.delete(JOB)


@dataclass(frozen=True)
class Moved:
    """The result of a task: the checksum of each block if blocks are recorded, and changes that the driver merges."""

    checksums: Sequence[int | None]
    changes: bytes | None = None


_open_jobs: dict[str, _OpenJob] = {}
_ended: set[str] = set()
_running: Counter[str] = Counter()
_lock = make_lock(Rank.OWNER)


def _run(stored: _StoredJob, blocks: Sequence[Place]) -> Moved:
    """Copy some blocks, one after the other, in a worker."""
    token = stored.token
    # The first two tasks in a process would open the source twice.
    with _lock:
        # A task that begins after the copy has ended would write below a target that is removed.
        if token in _ended:
            raise NCZarrError("the copy has ended")
        found = _open_jobs.get(token)
        if found is None:
            # A worker lives longer than a copy, and would keep its files open.
            for old in [old for old in _open_jobs if not _running[old]]:  # of copies that have ended
                _open_jobs.pop(old).close()
            found = _open_jobs[token] = _OpenJob(stored.load())
        _running[token] += 1
    try:
        checksums = []
        with found.writing() as target:
            for fqn, region in blocks:
                with error_context(fqn=fqn):
                    checksums.append(found.move(fqn, region, target))
            return Moved(checksums, target.changes())
    finally:
        with _lock:
            _running[token] -= 1


async def _end(token: str) -> None:
    """Refuse further blocks of a copy, wait for the running ones, and close the job; in a worker of Dask."""
    with _lock:
        _ended.add(token)
    # A block that still runs would write to a closed dataset.
    while _running[token]:
        await asyncio.sleep(0.02)
    with _lock:
        _running.pop(token, None)
        found = _open_jobs.pop(token, None)
    if found is not None:
        found.close()


@dataclass
class Cluster:
    """The workers of an engine that run a copy."""

    engine: Engine
    recipe: Recipe

    def task_bytes(self, total: int) -> int:
        """Return how many bytes one task moves, if there are `total` in all.

        A driver needs 45 µs for each task, a scheduler more: 10⁸ blocks as tasks of their own would take hours before
        a byte moves. More than enough tasks for each worker are left, so that none waits long for the last one.
        """
        return max(1, min(_TASK_BYTES, total // (_TASKS_OF_WORKER * self.engine.threads)))

    def transfer(
        self,
        blocks: Iterable[Block],
        target: DetachedDataset,
        progress: Progress,
        *,
        task_bytes: int,
        raw: bool,
        done: Callable[[str, Region, int], None] | None,
        merge: Callable[[bytes], None],
        between: DetachedDataset | None = None,
    ) -> None:
        """Copy all blocks; call `done` with each written block and the checksum of its values.

        Parameters
        ----------
        task_bytes : int
            How many bytes one task moves, or one block.
        raw : bool
            Copy chunks undecoded where source and target store the same bytes.
        merge : callable
            Takes the changes over that a worker has made in a fork of the target.
        between : DetachedDataset, optional
            The intermediate dataset with the values; default: the values are in the sources.

        Raises
        ------
        LostWorkersError
            If the workers, or the connection to them, are lost.
        NCZarrError
            If a task failed in a worker, or if workers died repeatedly in the same block.
        """
        sizes: dict[str, int] = {}

        def size_of(block: Place) -> int:
            return math.prod(region_shape(block[1])) * sizes[block[0]]

        def calls() -> Iterator[Call]:
            together, size = list[Place](), 0
            for fqn, region, data in blocks:
                sizes[fqn] = value_bytes(data.dtype)
                if together and size + size_of((fqn, region)) > task_bytes:
                    yield stored, together
                    together, size = [], 0
                together.append((fqn, region))
                size += size_of((fqn, region))
            if together:
                yield stored, together

        def weigh(call: Call) -> int:
            return max(map(size_of, call[1]))  # one block after the other is in memory

        states = self.recipe.sources.states()
        job = Job(uuid.uuid4().hex, self.recipe, states, target, between, raw, done is not None)
        stored = _StoredJob.of(job)
        try:
            with closing(self.engine.run(_run, calls(), weigh)) as finished:
                for (_, together), future in finished:
                    found: Moved = self.engine.result(future, fqn=together[0][0])
                    if found.changes is not None:
                        merge(found.changes)
                    for (fqn, region), crc in zip(together, found.checksums, strict=True):
                        if done is not None and crc is not None:
                            done(fqn, region, crc)
                        progress.advance(size_of((fqn, region)), fqn)
        finally:
            self.engine.end(_end, job.token)
            stored.remove()
            local = target.writer is None and os.path.isdir(target.place)
            # A worker that was killed leaves temporary files beside its chunks.
            if local and self.engine.has_lost and not self.engine.may_write:
                remove_partial_values(Path(target.place))
