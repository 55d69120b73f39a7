"""Spread the blocks of a copy over a Dask cluster: each task reads one block and writes its whole chunks or shards.

No two tasks write the same chunk, so nothing is locked, and a task that is run again after the death of its worker
writes the same bytes again. The process that asked creates the dataset, records finished blocks, and completes it.
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
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nczarr.convert.recipe import Recipe
from nczarr.convert.values.raw import Twin, put_stored, twin_of
from nczarr.convert.values.resume import checksum
from nczarr.errors import NCZarrError, UnsupportedError
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
    """The scheduler of a Dask cluster, or all of its workers, cannot be reached any more."""


@dataclass(frozen=True)
class Job:
    """What workers need to know of a copy."""

    token: str
    recipe: Recipe
    states: tuple[tuple[int, int] | None, ...]
    target: DetachedDataset
    #: Where the values are, if not in the source.
    between: DetachedDataset | None
    raw: bool
    recorded: bool


class _Opened:
    """Source and target of a copy, open in a worker."""

    def __init__(self, job: Job) -> None:
        self._stack = ExitStack()
        self.job = job
        try:
            self.target = job.target.open()
            self._stack.callback(self.target.close)
            self.between = None if job.between is None else job.between.open()
            if self.between is not None:
                self._stack.callback(self.between.close)
            self.source: Dataset = self._stack.enter_context(job.recipe.open(job.states))
        except BaseException:
            self._stack.close()
            raise
        self._twins: dict[str, Twin | None] = {}

    def move(self, fqn: str, region: Region) -> int | None:
        """Move one block; return the checksum of its values if blocks are recorded."""
        if not self.target.is_awaited():
            raise NCZarrError("the copy has ended", path=self.job.target.place)
        variable = self.source.variable_at(fqn)
        assert variable.data is not None
        if self.job.raw:
            if fqn not in self._twins:  # another thread may find the same
                self._twins[fqn] = twin_of(fqn, variable, variable.data, self.target)
            twin = self._twins[fqn]
            if twin is not None:
                for key, read in twin(region):
                    put_stored(self.target.store, key, read)
                return None
        data = variable.data if self.between is None else self.between.data(fqn)
        values = data.read(region)
        crc = checksum(values, variable.type) if self.job.recorded else None
        self.target.write(fqn, region, values)
        return crc

    def close(self) -> None:
        self._stack.close()


_opened: dict[str, _Opened] = {}
_ended: set[str] = set()
_running: Counter[str] = Counter()
_lock = make_lock(Rank.OWNER)


def _run(job: Job, fqn: str, region: Region) -> int | None:
    """Move one block; runs in a worker."""
    with _lock:
        if job.token in _ended:
            raise NCZarrError("the copy has ended")
        found = _opened.get(job.token)
        if found is None:
            found = _opened[job.token] = _Opened(job)
        _running[job.token] += 1
    try:
        return found.move(fqn, region)
    finally:
        with _lock:
            _running[job.token] -= 1


async def _end(token: str) -> None:
    """Let no block of a copy begin, wait for those that have, and close; runs in a worker."""
    with _lock:
        _ended.add(token)
    while _running[token]:
        await asyncio.sleep(0.02)
    with _lock:
        _running.pop(token, None)
        found = _opened.pop(token, None)
    if found is not None:
        found.close()


class Cluster:
    """A Dask cluster on which a copy runs.

    Attributes
    ----------
    threads : int
        Tasks that run at once.
    local : bool
        All of it is on this machine.
    shares : int
        How many of `memory` there are: one for each worker, or one for all of them where they are on this machine.
    may_write : bool
        Workers that could not be stopped may still write to the target.
    """

    def __init__(self, client: Any, recipe: Recipe, *, local: bool) -> None:
        self._client, self._recipe, self.local = client, recipe, local
        self._address = client.scheduler.address
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

    def block_limit(self, memory: int) -> int:
        """Return how many bytes a block may have, so that those under way keep to `memory`."""
        return max(1, memory * self.shares // (2 * self.threads))

    def transfer(
        self,
        blocks: Iterable[Block],
        target: DetachedDataset,
        progress: Progress,
        memory: int,
        *,
        raw: bool,
        done: Callable[[str, Region, int], None] | None,
        between: DetachedDataset | None = None,
    ) -> None:
        """Move all blocks; `done` is told of each one that is written, and of the checksum of its values.

        Parameters
        ----------
        raw : bool
            Copy stored chunks as they are where the target's are the same bytes.
        between : DetachedDataset, optional
            Where the values are, if not in the source.

        Raises
        ------
        LostClusterError
            If the scheduler, or for ``NCZARR_DASK_SECONDS`` every worker, cannot be reached.
        NCZarrError
            What a worker met; or that workers died in the same block again and again.
        """
        from distributed.scheduler import KilledWorker

        states = self._recipe.states()
        job = Job(uuid.uuid4().hex, self._recipe, states, target, between, raw, done is not None)
        before = self._workers()
        # As a task, and not as scattered data, it is made again where a worker dies with it.
        shared = self._client.submit(pickle.loads, _pickled(job), pure=False)
        waiting, limit = iter(blocks), self.block_limit(memory)
        under_way: dict[Any, tuple[str, Region, int]] = {}
        held = 0
        finished: queue.Queue[Any] = queue.Queue()

        def fits(weight: int) -> bool:
            # What waits in a queue takes no memory, but a chunk that is larger than a block may not run
            # beside others of its kind.
            crowded = weight > limit and 2 * (held + weight) > memory * self.shares
            return not under_way or not (crowded or len(under_way) >= 2 * self.threads)

        try:
            block = next(waiting, None)
            while block is not None or under_way:
                if block is not None and fits(_weight(block)):
                    fqn, region, _ = block
                    future = self._client.submit(_run, shared, fqn, region, pure=False)
                    under_way[future] = fqn, region, _weight(block)
                    held += _weight(block)
                    future.add_done_callback(finished.put)
                    block = next(waiting, None)
                    continue
                future, crc = self._next(finished)
                fqn, region, weight = under_way.pop(future)
                held -= weight
                try:
                    if future.status == "error":
                        future.result()
                except KilledWorker as error:
                    raise NCZarrError(
                        "workers of the Dask cluster died again and again while they copied this",
                        fqn=fqn,
                        hint="perhaps of want of memory: give less --memory, or workers fewer threads",
                    ) from error
                if done is not None and crc is not None:
                    done(fqn, region, crc)
                progress.advance(weight, fqn)
        finally:
            self._stop(job, list(under_way))
            shared.release()
            local = job.target.writer is None and os.path.isdir(job.target.place)
            if local and not self.may_write and self._workers() != before:
                remove_partial_values(Path(job.target.place))

    def _next(self, finished: queue.Queue[Any]) -> tuple[Any, int | None]:
        """Return a future that is done, and its result.

        Waits as long as there are workers, and a bounded time without any. A result that cannot be fetched has gone
        with its worker: Dask does the task again.
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
            except Exception:  # of the connection; that of a task is found by the status
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
                self.may_write = True  # a worker that the scheduler does not reach may reach the target
                raise LostClusterError(
                    f"the Dask cluster has had no workers for {seconds} s", path=self._address
                )

    def _lost(self) -> LostClusterError:
        return LostClusterError("the connection to the Dask scheduler is lost", path=self._address)

    def _stop(self, job: Job, under_way: list[Any]) -> None:
        """Make sure that no worker writes any more when what was written is completed, or removed."""
        before, self.may_write = self.may_write, True
        if self._client.status != "running":
            self._warn("the connection to the scheduler is lost; waiting for Dask to connect again")
        with suppress(Exception):  # whatever Dask raises without a scheduler
            self._client.cancel(under_way)
            self._client.run(_end, job.token, on_error="ignore")
            self.may_write = before

    def _warn(self, message: str) -> None:
        warnings.warn(f"--dask: {self._address}: {message}", stacklevel=2)

    def _workers(self) -> set[str]:
        try:
            return {w["id"] for w in self._client.scheduler_info(n_workers=-1)["workers"].values()}
        except Exception as error:  # whatever Dask raises without a scheduler
            raise self._lost() from error


def _weight(block: Block) -> int:
    """The bytes of its values in memory."""
    _, region, data = block
    return math.prod(region_shape(region)) * value_bytes(data.dtype)


@contextmanager
def cluster(dask: Any, workers: int, recipe: Recipe) -> Iterator[Cluster]:
    """Connect to a cluster, for the copy of what a recipe makes.

    Parameters
    ----------
    dask : str or distributed.Client
        The address of a scheduler; ``local``: as many processes on this machine as `workers` says; or a client.

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
    with ExitStack() as stack:
        if not isinstance(dask, str):
            if not hasattr(dask, "scheduler_info"):
                raise UnsupportedError(f"dask={dask!r}: neither an address, nor 'local', nor a client")
            yield Cluster(dask, recipe, local=False)
            return
        if dask == "local":
            # Without a dashboard the scheduler opens a port for the web all the same, always the same, to everybody.
            web = {"dashboard_address": "127.0.0.1:0"}
            made = stack.enter_context(
                LocalCluster(
                    n_workers=workers, threads_per_worker=1, dashboard_address=None, scheduler_kwargs=web
                )
            )
            client = stack.enter_context(Client(made, set_as_default=False))
        else:
            try:
                client = stack.enter_context(Client(dask, set_as_default=False))
            except (OSError, ValueError) as error:
                raise UnsupportedError(f"--dask: no scheduler answers: {error}", path=dask) from error
        yield Cluster(client, recipe, local=dask == "local")


def _pickled(job: Job) -> bytes:
    from distributed.protocol.pickle import dumps

    try:
        return bytes(dumps(job))
    except Exception as error:
        raise UnsupportedError(
            f"--dask: the source cannot be sent to workers: {error}",
            hint="give a path or a URL that they can open",
        ) from error
