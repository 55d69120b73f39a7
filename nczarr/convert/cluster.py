"""Distribute the blocks of a copy over a Dask cluster: each task reads one block and writes whole chunks or shards.

No two tasks write the same chunk, so that no locks are needed. If a worker dies, Dask runs its task again, which writes
the same bytes again. The calling process creates the dataset, records finished blocks, and completes the dataset.
"""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import queue
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nczarr.convert.change.shaping import OutputOptions, shape
from nczarr.convert.request import Request
from nczarr.convert.sources import FileStates, Sources
from nczarr.convert.values.raw import Twin, put_stored, twin_of
from nczarr.convert.values.resume import checksum
from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.formats import Kind
from nczarr.mapping import DetachedDataset
from nczarr.model import Dataset, Region
from nczarr.model.sources import region_shape
from nczarr.system.atomic import remove_partial_values
from nczarr.system.environment import limit
from nczarr.system.locks import Rank, make_lock
from nczarr.transfer import Block, Progress, value_bytes

#: Seconds without a finished block after which the workers are counted.
_LOOK = 2.0


class LostClusterError(NCZarrError):
    """The connection to the scheduler of a Dask cluster, or to all of its workers, is lost."""


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
        self.sources.refuse_changes(states)
        with self.sources.open() as opened:
            part = self.sources.part(opened)
            yield shape(part, self.output, source=self.source, target="zarr").dataset


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
            self.between = stack.enter_context(closing(job.between.open())) if job.between else None
            self.source = stack.enter_context(job.recipe.open(job.states))
            self._twins: dict[str, Twin | None] = {}
            self.close = stack.pop_all().close

    def move(self, fqn: str, region: Region) -> int | None:
        """Copy one block; return the checksum of its values if blocks are recorded."""
        if not self.target.is_awaited():
            raise NCZarrError("the copy has ended", path=self.job.target.place)
        variable = self.source.variable_at(fqn)
        assert variable.data is not None
        if self.job.raw:
            if fqn not in self._twins:  # another thread may find the same
                self._twins[fqn] = twin_of(fqn, variable, variable.data, self.target)
            twin = self._twins[fqn]
            if twin is not None:
                for chunk in twin(region):
                    put_stored(self.target.store, chunk)
                return None
        data = variable.data if self.between is None else self.between.data(fqn)
        values = data.read(region)
        crc = checksum(values, variable.type) if self.job.recorded else None
        self.target.write(fqn, region, values)
        return crc


_open_jobs: dict[str, _OpenJob] = {}
_ended: set[str] = set()
_running: Counter[str] = Counter()
_lock = make_lock(Rank.OWNER)


def _run(job: Job, fqn: str, region: Region) -> int | None:
    """Copy one block, in a worker."""
    with _lock:
        if job.token in _ended:
            raise NCZarrError("the copy has ended")
        found = _open_jobs.get(job.token)
        if found is None:
            found = _open_jobs[job.token] = _OpenJob(job)
        _running[job.token] += 1
    try:
        return found.move(fqn, region)
    finally:
        with _lock:
            _running[job.token] -= 1


async def _end(token: str) -> None:
    """Refuse further blocks of a copy, wait for the running ones, and close the job; in a worker."""
    with _lock:
        _ended.add(token)
    while _running[token]:
        await asyncio.sleep(0.02)
    with _lock:
        _running.pop(token, None)
        found = _open_jobs.pop(token, None)
    if found is not None:
        found.close()


class Cluster:
    """A Dask cluster that runs a copy.

    Attributes
    ----------
    threads : int
        Number of tasks that run concurrently.
    local : bool
        The whole cluster is on this machine.
    shares : int
        Number of times that `memory` is available: for each worker, or once for all workers of this machine.
    may_write : bool
        Workers that could not be stopped may still write to the target.
    """

    def __init__(self, client: Any, recipe: Recipe, memory: int, *, local: bool) -> None:
        self._client, self._recipe, self._memory, self.local = client, recipe, memory, local
        self._address: str = client.scheduler.address
        self.may_write = False
        seconds = limit("NCZARR_DASK_SECONDS")
        if not self._workers():
            self._warn(f"the cluster has no workers; waiting {seconds} s for one")
        try:
            client.wait_for_workers(1, timeout=seconds)
        except TimeoutError:
            raise UnsupportedError("--dask: the cluster has no workers", path=self._address) from None
        workers = client.scheduler_info(n_workers=-1)["workers"]
        self.threads = sum(w["nthreads"] for w in workers.values())
        self.shares = 1 if local else len(workers)

    @property
    def block_limit(self) -> int:
        """The maximum size of a block in bytes, so that the running tasks do not exceed the memory."""
        return max(1, self._memory * self.shares // (2 * self.threads))

    def transfer(
        self,
        blocks: Iterable[Block],
        target: DetachedDataset,
        progress: Progress,
        *,
        raw: bool,
        done: Callable[[str, Region, int], None] | None,
        between: DetachedDataset | None = None,
    ) -> None:
        """Copy all blocks; call `done` with each written block and the checksum of its values.

        Parameters
        ----------
        raw : bool
            Copy chunks undecoded where source and target store the same bytes.
        between : DetachedDataset, optional
            The intermediate dataset with the values; default: the values are in the sources.

        Raises
        ------
        LostClusterError
            If the scheduler, or for ``NCZARR_DASK_SECONDS`` every worker, cannot be reached.
        NCZarrError
            If a task failed in a worker, or if workers died repeatedly in the same block.
        """
        from distributed.scheduler import KilledWorker

        states = self._recipe.sources.states()
        job = Job(uuid.uuid4().hex, self._recipe, states, target, between, raw, done is not None)
        before = self._workers()
        # A task, unlike scattered data, is computed again if its worker dies.
        shared = self._client.submit(pickle.loads, _pickled(job), pure=False)
        waiting, limit = iter(blocks), self.block_limit
        running: dict[Any, tuple[str, Region, int]] = {}
        running_bytes = 0
        finished: queue.Queue[Any] = queue.Queue()

        def fits(weight: int) -> bool:
            # Tasks in the queue take no memory, but a chunk larger than a block must not run beside another one.
            crowded = weight > limit and 2 * (running_bytes + weight) > self._memory * self.shares
            return not running or not (crowded or len(running) >= 2 * self.threads)

        try:
            block = next(waiting, None)
            while block is not None or running:
                if block is not None and fits(_weight(block)):
                    fqn, region, _ = block
                    future = self._client.submit(_run, shared, fqn, region, pure=False)
                    running[future] = fqn, region, _weight(block)
                    running_bytes += _weight(block)
                    future.add_done_callback(finished.put)
                    block = next(waiting, None)
                    continue
                future, crc = self._next(finished)
                fqn, region, weight = running.pop(future)
                running_bytes -= weight
                try:
                    if future.status == "error":
                        future.result()
                except KilledWorker as error:
                    raise NCZarrError(
                        "workers of the Dask cluster died repeatedly while they copied this variable",
                        fqn=fqn,
                        hint="if they lacked memory: less --memory, or fewer threads for each worker",
                    ) from error
                if done is not None and crc is not None:
                    done(fqn, region, crc)
                progress.advance(weight, fqn)
        finally:
            self._stop(job, list(running))
            shared.release()
            local = job.target.writer is None and os.path.isdir(job.target.place)
            if local and not self.may_write and self._workers() != before:
                remove_partial_values(Path(job.target.place))

    def _next(self, finished: queue.Queue[Any]) -> tuple[Any, int | None]:
        """Return a finished future and its result.

        The method waits while there are workers, and a limited time without workers. If a result cannot be fetched,
        its worker has died, and Dask runs the task again.
        """
        from concurrent.futures import CancelledError

        seconds, alone_since = limit("NCZARR_DASK_SECONDS"), None
        while True:
            future: Any = None
            try:
                future = finished.get(timeout=_LOOK)
                if future.status == "error":
                    return future, None
                return future, future.result(timeout=_LOOK)
            except CancelledError:
                raise self._lost() from None
            except queue.Empty:
                pass
            except Exception:  # an error of the connection; errors of tasks have the status "error"
                time.sleep(_LOOK / 10)
                future.add_done_callback(finished.put)
            if self._client.status == "closed":
                raise self._lost()
            try:
                alone = not self._workers()
            except LostClusterError:
                continue  # Dask cancels all futures, or closes the client
            if not alone:
                alone_since = None
            elif alone_since is None:
                alone_since = time.monotonic()
                self._warn(f"no worker is left; waiting {seconds} s for one")
            elif time.monotonic() - alone_since >= seconds:
                self.may_write = (
                    True  # a worker without connection to the scheduler may still reach the target
                )
                raise LostClusterError(
                    f"the Dask cluster has had no workers for {seconds} s", path=self._address
                )

    def _lost(self) -> LostClusterError:
        return LostClusterError("the connection to the Dask scheduler is lost", path=self._address)

    def _stop(self, job: Job, running: list[Any]) -> None:
        """Stop all writing, before the output is completed or removed."""
        before, self.may_write = self.may_write, True
        if self._client.status != "running":
            self._warn("the connection to the scheduler is lost; waiting for Dask to connect again")
        with suppress(Exception):  # without a scheduler, Dask raises any error
            self._client.cancel(running)
            self._client.run(_end, job.token, on_error="ignore")
            self.may_write = before

    def _warn(self, message: str) -> None:
        warnings.warn(f"--dask: {self._address}: {message}", stacklevel=2)

    def _workers(self) -> set[str]:
        try:
            return {w["id"] for w in self._client.scheduler_info(n_workers=-1)["workers"].values()}
        except Exception as error:  # without a scheduler, Dask raises any error
            raise self._lost() from error


def _weight(block: Block) -> int:
    """Return the size of a block in memory, in bytes."""
    _, region, data = block
    return math.prod(region_shape(region)) * value_bytes(data.dtype)


@contextmanager
def cluster(request: Request, recipe: Recipe) -> Iterator[Cluster]:
    """Connect to the cluster of a copy: the address of a scheduler, processes on this machine, or a client.

    Raises
    ------
    UnsupportedError
        If distributed is not installed, or no scheduler answers.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise UnsupportedError(
            "--dask: distributed is not installed", hint="pip install distributed"
        ) from None
    dask, memory = request.dask, request.memory
    with ExitStack() as stack:
        if not isinstance(dask, str):
            if not hasattr(dask, "scheduler_info"):
                raise UnsupportedError(f"dask={dask!r}: neither an address, nor 'local', nor a client")
            yield Cluster(dask, recipe, memory, local=False)
            return
        address: object = dask
        if dask == "local":
            # Without a dashboard, the scheduler still opens a web port: by default a fixed one, on all interfaces.
            web = {"dashboard_address": "127.0.0.1:0"}
            count = {"n_workers": request.workers, "threads_per_worker": 1}
            address = stack.enter_context(LocalCluster(**count, dashboard_address=None, scheduler_kwargs=web))
        try:
            client = stack.enter_context(Client(address, set_as_default=False))
        except (OSError, ValueError) as error:
            raise UnsupportedError(f"--dask: no scheduler answers: {error}", path=dask) from error
        yield Cluster(client, recipe, memory, local=dask == "local")


def _pickled(job: Job) -> bytes:
    from distributed.protocol.pickle import dumps

    try:
        return bytes(dumps(job))
    except Exception as error:
        raise UnsupportedError(
            f"--dask: the source cannot be sent to workers: {error}",
            hint="give a path or a URL that they can open",
        ) from error
