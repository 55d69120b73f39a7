"""Run work in one thread pool, which all arrays of the process share.

The libraries that decode and the system calls that read release the interpreter lock, so that a few threads
use all processors. The thread that requests work also does some of it, and never waits for a helper that has not
begun; so threads of the pool may request work too.

An interrupt (Ctrl-C) comes in the main thread between any two instructions of Python. The executors of
`concurrent.futures` can keep a lock then, and wait for ever when Python ends. So the pool is a queue, and all that
its threads share are locks in ``with`` statements, which an interrupt cannot leave held.
"""

from __future__ import annotations

import os
import threading
import time
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from nczarr.system.environment import limit
from nczarr.system.forks import in_forked_child
from nczarr.system.locks import TABLES

T = TypeVar("T")

#: Below this size, waking another thread costs more than the work.
ALONE_BYTES = 256 << 10
#: Smaller chunks take mostly system calls: more threads than processors would compete for the interpreter lock.
SMALL_CHUNK = 256 << 10

#: The work of the pool's threads; None until they are begun.
_jobs: SimpleQueue[Callable[[], None]] | None = None


_CHOSEN = limit("NCZARR_THREADS")
_PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
# More threads than processors, because some wait for the disk.
_WORKERS = max(1, min(32, _CHOSEN or _PROCESSORS + max(1, _PROCESSORS // 2)))


def worker_count() -> int:
    """Return the number of threads for one call: ``NCZARR_THREADS``, by default 1.5 for each processor."""
    return _WORKERS


def local_workers(total: int, chunk: int, count: int = 0) -> int | None:
    """Return the number of threads to read or write `total` bytes in local chunks of `chunk` bytes.

    With `count` chunks to read, 64 are enough for several threads. None stands for :func:`worker_count`.
    ``NCZARR_THREADS`` overrides the smaller number for small chunks.
    """
    if total <= ALONE_BYTES and count < 64:
        return 1
    return None if chunk >= SMALL_CHUNK or _CHOSEN else min(_PROCESSORS, _WORKERS)


def _get_jobs() -> SimpleQueue[Callable[[], None]]:
    """Return the queue of the pool's threads; they are begun at the first call."""
    global _jobs
    if _jobs is None:
        with TABLES:
            if _jobs is None:
                jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
                # Beginning a `Thread` is no step that an interrupt leaves whole: another thread does it.
                with suppress(RuntimeError):  # the system has no more threads
                    start_new_thread(_begin, (jobs,))
                _jobs = jobs
    return _jobs


def _begin(jobs: SimpleQueue[Callable[[], None]]) -> None:
    with suppress(RuntimeError):
        for number in range(_WORKERS):
            threading.Thread(target=_work, args=(jobs,), name=f"nczarr_{number}", daemon=True).start()


def _work(jobs: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        jobs.get()()


def _drain(jobs: SimpleQueue[Callable[[], None]]) -> None:
    """Work until no job waits."""
    with suppress(Empty):
        while True:
            jobs.get_nowait()()


@in_forked_child
def _forget_threads() -> None:
    # They do not survive a fork.
    global _jobs
    _jobs = None


#: In seconds: the duration of a quick item, and the total excess over it before other threads start.
_QUICK, _PATIENCE = 60e-6, 500e-6


def run_while_quick(work: Callable[[T], object], items: Iterable[T], workers: int | None) -> None:
    """Call `work` with each item, in this thread as long as that is quick, then in several threads by :func:`run`.

    The cost of a small file is measured during the writes. On a file system in memory it is below the cost of another
    thread, on a disk it is fifty times as high.
    """
    queue = iter(items)
    late = 0.0
    for item in queue:
        start = time.perf_counter()
        work(item)
        late = max(0.0, late + time.perf_counter() - start - _QUICK)
        if late > _PATIENCE:
            run(work, queue, workers)
            return


def run(work: Callable[[T], object], items: Iterable[T], workers: int | None = None) -> None:
    """Call `work` with each item, in several threads; raise the first error after all threads have stopped.

    Parameters
    ----------
    workers : int, optional
        The number of threads, including the calling one; by default :func:`worker_count`. For more, as for requests to
        a server, threads are begun that end with the work.

    Examples
    --------
    >>> done = []
    >>> run(done.append, range(3), workers=1)
    >>> done
    [0, 1, 2]
    """
    if workers == 1:
        for item in items:
            work(item)
        return
    queue = deque(items)
    count = min(_WORKERS if workers is None else workers, len(queue))
    if count <= 1:
        for item in queue:
            work(item)
        return
    # A deque's popleft is atomic, also in builds without the interpreter lock.
    take = queue.popleft

    def loop() -> None:
        while True:
            try:
                item = take()
            except IndexError:
                return
            try:
                work(item)
            # The other threads must not begin items whose result is dropped.
            except BaseException:
                queue.clear()
                raise

    errors: list[BaseException] = []
    ended = False

    def help_out(begun: threading.Lock) -> None:
        with begun:  # the thread that requested the work waits for this lock after it has set `ended`
            if not ended:
                try:
                    loop()
                except BaseException as error:
                    errors.append(error)

    helpers = [threading.Lock() for _ in range(count - 1)]
    jobs = _get_jobs()
    for begun in helpers:
        jobs.put(partial(help_out, begun))
    try:
        with suppress(RuntimeError):  # the system has no more threads
            for _ in range(len(helpers) - _WORKERS):
                start_new_thread(_drain, (jobs,))
        loop()
    finally:
        ended = True
        _wait_for(helpers)
    for error in errors:
        raise error


def _wait_for(helpers: list[threading.Lock]) -> None:
    """Wait until no helper works, also after an interrupt: they use what the caller gives up next."""
    try:
        for begun in helpers:
            with begun:
                pass
    # A thread still writes into the result that the caller gives up.
    except BaseException:
        _wait_for(helpers)
        raise
