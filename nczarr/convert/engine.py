"""Run tasks in other processes: on any executor of :mod:`concurrent.futures`, or on a Dask cluster.

A task whose worker is lost runs again, so that it must write the same each time.
"""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

from nczarr.convert.endpoints import named_function
from nczarr.errors import LostWorkersError, NCZarrError, UnsupportedError
from nczarr.options import named
from nczarr.system.environment import limit
from nczarr.system.warning import warn
from nczarr.text import missing_package

#: Seconds without a finished task after which the workers are counted.
_LOOK = 2
#: Number of times that an executor may break without a finished task in between.
_BREAKS = 3

#: The arguments of a task.
Call = tuple[Any, ...]


@dataclass(eq=False)
class Engine:
    """Runs tasks on an executor of :mod:`concurrent.futures`.

    Parameters
    ----------
    executor : Executor
    threads : int
        Number of tasks that run concurrently.
    memory : int
        Maximum size of the values in the memory of all workers, in bytes.
    local : bool
        All workers are on this machine.
    renew : callable, optional
        Returns a new executor after the old one is broken.
    """

    executor: Executor
    threads: int
    memory: int
    local: bool = False
    renew: Callable[[], Executor] | None = None

    #: Workers that could not be stopped may still write.
    may_write = False
    #: A worker was lost.
    has_lost = False
    #: Errors of tasks whose worker is lost each time.
    died = (BrokenExecutor,)
    _breaks = 0
    _looked = 0.0

    def __post_init__(self) -> None:
        self._finished: queue.Queue[Future[Any]] = queue.Queue()
        self._silence = limit("NCZARR_TASK_SECONDS")

    @property
    def forks(self) -> bool:
        """True if the workers begin as copies of this process, without its threads."""
        context = getattr(self.executor, "_mp_context", None)
        return context is not None and context.get_start_method() == "fork"

    @property
    def block_limit(self) -> int:
        """The maximum size of a block in bytes, so that the running tasks do not exceed the memory."""
        # A worker holds a block twice, as values and encoded.
        return max(1, self.memory // (2 * self.threads))

    def run(
        self, task: Callable[..., Any], calls: Iterable[Call], weigh: Callable[[Call], int] = lambda _: 0
    ) -> Generator[tuple[Call, Future[Any]]]:
        """Yield each call with its finished future, in the order of completion; few calls wait at the same time.

        Parameters
        ----------
        weigh : callable
            Returns the size of a call in memory, in bytes.
        """
        waiting = iter(calls)
        running: dict[Future[Any], Call] = {}
        call = next(waiting, None)
        weight = 0

        def fits(size: int) -> bool:
            # Tasks in the queue take no memory, but a chunk larger than a block must not run beside another one.
            crowded = size > self.block_limit and 2 * (weight + size) > self.memory
            # A second task for each thread waits in the queue: no worker waits for this process.
            return not running or not (crowded or len(running) >= 2 * self.threads)

        try:
            while call is not None or running:
                try:
                    if call is not None and fits(weigh(call)):
                        future = self.executor.submit(task, *call)
                        running[future] = call
                        weight += weigh(call)
                        future.add_done_callback(self._finished.put)
                        call = next(waiting, None)
                        continue
                    future = self._take(len(running))
                    if future not in running:  # of an executor that is broken
                        continue
                    # A cancelled future has no exception, and raises one when it is asked.
                    broken = None if future.cancelled() else future.exception()
                    if not isinstance(broken, BrokenExecutor) or not self._is_renewed(broken):
                        self._breaks = 0
                        done = running.pop(future)
                        weight -= weigh(done)
                        yield done, future
                        continue
                except BrokenExecutor as error:  # of the submission
                    if not self._is_renewed(error):
                        raise LostWorkersError("new workers die at once") from error
                # All are run again: each task writes whole chunks, the second time the same.
                waiting = chain(running.values(), [] if call is None else [call], waiting)
                running, weight = {}, 0
                call = next(waiting)
        finally:
            self._stop(list(running))

    def result(self, future: Future[Any], **where: Any) -> Any:
        """Return the result of a finished future; its error names the place of the task (`path`, `fqn`)."""
        try:
            return future.result()
        except self.died as error:
            raise NCZarrError(
                "workers died repeatedly in this task",
                hint=f"if they lacked memory: less {named('memory')}, or fewer threads for each worker",
                **where,
            ) from error
        except CancelledError:
            raise self._lost() from None

    def _take(self, tasks: int) -> Future[Any]:
        """Return a finished future of some tasks; wait a limited time."""
        if time.monotonic() - self._looked > _LOOK:  # tasks that end all the time must not hide new workers
            self._looked = time.monotonic()
            self._look()
        for _ in range(-(-self._silence // _LOOK)):  # the time while this process is stopped does not count
            with suppress(queue.Empty):
                return self._finished.get(timeout=_LOOK)
            self._look()
        # A worker that hangs on a dead file system was waited for without limit.
        self.may_write = not self._kill()
        raise LostWorkersError(
            f"waiting for {tasks} tasks of {type(self.executor).__name__}: none has ended for {self._silence} s",
            hint="look at the workers and their files; NCZARR_TASK_SECONDS sets another time",
        )

    def _kill(self) -> bool:
        """Kill the workers if they are processes that this engine has started; they would not end by themselves."""
        if self.renew is None or not isinstance(self.executor, ProcessPoolExecutor):
            return False
        for process in list(self.executor._processes.values()):
            process.kill()
        return True

    def _look(self) -> None:
        """Raise LostWorkersError if there have been no workers for too long; a broken executor says so itself."""

    def _is_renewed(self, error: BaseException) -> bool:
        """Replace a broken executor; return False if it breaks repeatedly, and raise an error without a new one."""
        self.has_lost = True
        self._breaks += 1
        if self.renew is None:
            # nczarr cannot make an executor that the program has made.
            raise LostWorkersError(f"the workers are lost: {error}") from error
        # Workers that die at once would be started again for ever.
        if self._breaks > _BREAKS:
            return False
        self.executor.shutdown()
        self.executor = self.renew()
        return True

    def _lost(self) -> LostWorkersError:
        return LostWorkersError("the workers have cancelled the tasks")

    def _stop(self, running: list[Future[Any]]) -> None:
        """Cancel the tasks that wait, and wait for those that run."""
        for future in running:
            future.cancel()
        # A worker that hangs would be waited for without limit.
        if not self.may_write:
            wait(running)

    def end(self, task: Callable[..., Any], *arguments: object) -> None:
        """Run a task that ends the work in each worker, where the engine can address them."""
        # Threads share the job that is open in this process: left alone, it would be open until the interpreter ends.
        if isinstance(self.executor, ThreadPoolExecutor) and not self.may_write:
            with suppress(RuntimeError):  # the caller has shut it down
                self.executor.submit(_ended, task, *arguments).result()

    def close(self) -> None:
        """Stop the workers. The tasks that wait are cancelled already; loky does not know `cancel_futures`."""
        self.executor.shutdown(wait=not self.may_write)


def _ended(task: Callable[..., Any], *arguments: object) -> None:
    """Run a task that ends the work, in a thread without an event loop of its own."""
    asyncio.run(task(*arguments))


class DaskEngine(Engine):
    """Runs tasks on a Dask cluster, whose scheduler repeats the tasks of lost workers."""

    def __init__(self, client: Any, memory: int, *, local: bool) -> None:
        from distributed.scheduler import KilledWorker

        # Dask takes equal calls for one task by default, and would not run the second.
        super().__init__(client.get_executor(pure=False), 1, memory, local=local)
        self._client, self.died, self._alone_since = client, (KilledWorker,), 0.0
        self._address: str = client.scheduler.address
        self._seconds = limit("NCZARR_DASK_SECONDS")
        self._memory_of_one = memory
        self._has_had_workers = False
        workers = self._workers()
        # An adaptive cluster starts workers when tasks wait for them.
        if not workers:
            self._warn(f"the cluster has no workers; waiting {self._seconds} s for one")
            self._alone_since = time.monotonic()
        self._before = set(workers)
        self._adapt(workers)

    def _adapt(self, workers: dict[str, Any]) -> None:
        """Let as many tasks run as the workers have threads."""
        self._has_had_workers |= bool(workers)
        self.threads = max(1, sum(w["nthreads"] for w in workers.values()))
        self.memory = self._memory_of_one * (1 if self.local else max(1, len(workers)))

    def _look(self) -> None:
        if self._client.status == "closed":
            raise self._lost()
        try:
            workers = self._workers()
        except LostWorkersError as error:
            # The scheduler does not answer, so its workers may still write.
            if isinstance(error.__cause__, TimeoutError):
                self.may_write = True
                raise
            return  # Dask cancels all futures, or closes the client
        self._adapt(workers)
        if workers:
            self._alone_since = 0.0
        elif not self._alone_since:
            self._alone_since = time.monotonic()
            self._warn(f"no worker is left; waiting {self._seconds} s for one")
        # An adaptive cluster starts workers only for tasks, so a short time without any is normal.
        elif time.monotonic() - self._alone_since >= self._seconds:
            self.may_write = (
                self._has_had_workers
            )  # one without connection to the scheduler may still reach the target
            raise LostWorkersError(
                f"the Dask cluster has had no workers for {self._seconds} s", path=self._address
            )

    def _lost(self) -> LostWorkersError:
        return LostWorkersError("the connection to the Dask scheduler is lost", path=self._address)

    def _stop(self, running: list[Future[Any]]) -> None:
        if self._client.status != "running":
            self._warn("the connection to the scheduler is lost; waiting for Dask to connect again")
        with suppress(Exception):  # without a scheduler, Dask raises any error
            self.executor.shutdown(wait=False)
        # Dask's executor takes no task after its shutdown.
        self.executor = self._client.get_executor(pure=False)

    def end(self, task: Callable[..., Any], *arguments: object) -> None:
        if self.may_write:  # they would be waited for
            return
        # An interrupt of the wait leaves workers that may write.
        self.may_write = True
        with suppress(Exception):  # without a scheduler, Dask raises any error
            self._client.run(task, *arguments, on_error="ignore")
            self.may_write = False
        with suppress(LostWorkersError):
            self.has_lost = set(self._workers()) != self._before

    def close(self) -> None:
        """Leave the cluster running."""

    def _warn(self, message: str) -> None:
        warn(f"{named('dask')}: {self._address}: {message}")

    def _workers(self) -> dict[str, Any]:
        """Return the properties of the workers by their identity, as the scheduler tells them."""
        client = self._client
        try:
            # A scheduler that did not answer was waited for without limit.
            found = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=self._silence)
        except Exception as error:  # without a scheduler, Dask raises any error
            raise self._lost() from error
        return {worker["id"]: worker for worker in found["workers"].values()}


@contextmanager
def open_engine(executor: object, dask: object, workers: int, memory: int) -> Iterator[Engine | None]:
    """Open the engine that a command requests; None without a request.

    Parameters
    ----------
    executor : Executor, callable or str
        An executor; a function that gets the number of workers and returns one; its name, ``module:function``; or
        ``"processes"`` for processes of this machine.
    dask : str or distributed.Client
        The address of a scheduler, ``"local"`` for a cluster on this machine, or a client.

    Raises
    ------
    UnsupportedError
        If there is no such engine, or no scheduler answers.
    """
    if executor is not None and dask is not None:
        raise UnsupportedError(f"{named('executor')} cannot be combined with {named('dask')}")
    with ExitStack() as stack:
        if dask is not None:
            yield _dask_engine(dask, workers, memory, stack)
        elif executor is None:
            yield None
        else:
            engine = _engine(executor, workers, memory)
            if not isinstance(executor, Executor):
                stack.callback(engine.close)
            yield engine


def _engine(executor: object, workers: int, memory: int) -> Engine:
    if isinstance(executor, str) and executor != "processes":
        executor = named_function(executor, "executor")
    make: Any = _processes if executor == "processes" else executor
    try:
        found = executor if isinstance(executor, Executor) else make(workers)
    except TypeError:
        found = None
    if not isinstance(found, Executor):
        raise UnsupportedError(
            f"{named('executor', executor)}: neither an executor of concurrent.futures, nor a function that returns one"
        )
    # The names of concurrent.futures and loky, and of mpi4py.
    numbers = [getattr(found, name, None) for name in ("_max_workers", "num_workers")]
    threads = next((n for n in numbers if isinstance(n, int) and n > 0), workers)
    local = isinstance(found, ProcessPoolExecutor)
    renew = None if found is executor else lambda: make(workers)
    return Engine(found, threads, memory if local else memory * threads, local=local, renew=renew)


def _processes(workers: int) -> Executor:
    """Return new processes of this machine, which end with this process."""
    from multiprocessing import get_context

    # A forked child would have the locks of threads that it does not have.
    return ProcessPoolExecutor(workers, get_context("spawn"), _end_with_parent)


def _end_with_parent() -> None:
    """End this process when its parent ends, and only then; the parent handles interrupts."""
    from multiprocessing import parent_process

    # Ctrl-C in a terminal reaches all processes. The parent ends its workers in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        parent = parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _dask_engine(dask: object, workers: int, memory: int, stack: ExitStack) -> Engine:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise UnsupportedError(
            f"{named('dask')}: distributed is not installed", hint=missing_package("distributed", "dask")
        ) from None
    if not isinstance(dask, str):
        if not hasattr(dask, "scheduler_info"):
            raise UnsupportedError(f"dask={dask!r}: neither an address, nor 'local', nor a client")
        return DaskEngine(dask, memory, local=False)
    address: object = dask
    if dask == "local":
        # Without a dashboard, the scheduler still opens a web port: by default a fixed one, on all interfaces.
        web = {"dashboard_address": "127.0.0.1:0"}
        count = {"n_workers": workers, "threads_per_worker": 1}
        address = stack.enter_context(LocalCluster(**count, dashboard_address=None, scheduler_kwargs=web))
    try:
        # The program's own Dask computations keep their client.
        client = stack.enter_context(Client(address, set_as_default=False))
    except (OSError, ValueError) as error:
        raise UnsupportedError(f"{named('dask')}: no scheduler answers: {error}", path=dask) from error
    return DaskEngine(client, memory, local=dask == "local")
