"""Share one pool of threads among all arrays of the process.

The libraries that decode and the system calls that read release the interpreter lock, so that a few threads
use all processors. The thread that asks for work takes part in it, and never waits for a helper that has not
begun; so work may be asked for from inside the pool too.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from nczarr.forking import in_forked_child

T = TypeVar("T")

#: Below this it costs more to wake another thread than to do the work.
ALONE_BYTES = 256 << 10
#: Smaller chunks are little more than calls of the system: more threads than processors would mostly wait for the
#: interpreter lock, and hand it to and fro.
SMALL_CHUNK = 256 << 10

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def _chosen() -> int:
    text = os.environ.get("NCZARR_THREADS", "").strip()
    if text.isdecimal() or not text:
        return int(text or 0)
    warnings.warn(f"NCZARR_THREADS is {text!r}, not a number of threads; it is ignored", stacklevel=2)
    return 0


_CHOSEN = _chosen()
_PROCESSORS = _processors()
# More than one for each processor: some wait for the disk.
_WORKERS = max(1, min(32, _CHOSEN or _PROCESSORS + max(1, _PROCESSORS // 2)))


def worker_count() -> int:
    """Return how many threads work on one request: half as many again as processors, or ``NCZARR_THREADS``."""
    return _WORKERS


def reading_workers(total: int, chunk: int, count: int) -> int | None:
    """Return how many threads read `count` local chunks of `chunk` bytes, for a result of `total` bytes.

    None stands for :func:`worker_count`. ``NCZARR_THREADS``, where it is set, overrules what suits small chunks.
    """
    if total <= ALONE_BYTES and count < 64:
        return 1
    return None if chunk >= SMALL_CHUNK or _CHOSEN else min(_PROCESSORS, _WORKERS)


def writing_workers(total: int, chunk: int) -> int | None:
    """Return how many threads write local chunks of `chunk` bytes, `total` bytes in all; see `reading_workers`."""
    if total <= ALONE_BYTES:
        return 1
    return None if chunk >= SMALL_CHUNK or _CHOSEN else min(_PROCESSORS, _WORKERS)


def _get_pool() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        with _lock:
            if _pool is None:
                _pool = _begin_pool(_WORKERS)
    return _pool


def _begin_pool(count: int) -> ThreadPoolExecutor:
    """Make a pool with all its threads.

    They are begun by another thread: a signal, which comes to the main one, in the middle of a beginning would leave
    a thread of which the pool does not know, and for which the program would wait at its end.
    """
    pool = ThreadPoolExecutor(count, thread_name_prefix="nczarr")
    together = threading.Barrier(count)

    def begin() -> None:
        try:
            for _ in range(count):
                pool.submit(together.wait)
        except RuntimeError:  # the system has no more threads
            together.abort()

    starter = threading.Thread(target=begin, name="nczarr-begin", daemon=True)
    starter.start()
    starter.join()
    return pool


@in_forked_child
def _forget_pool() -> None:
    # Its threads do not survive a fork.
    global _pool, _lock
    _pool = None
    _lock = threading.Lock()


#: An item that takes longer, in seconds, is worth another thread; and so much more they may take in all before.
_QUICK, _PATIENCE = 60e-6, 500e-6


def run_while_quick(work: Callable[[T], object], items: Iterable[T], workers: int | None) -> None:
    """Call `work` with each item, in this thread while that is quick, then in several as :func:`run` does.

    What a small file costs is known only once some are written: less than handing it over where the file system is in
    memory, fifty times as much on a disk.
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
    """Call `work` with each item, in several threads; the first error is raised when all have stopped.

    Parameters
    ----------
    workers : int, optional
        How many threads, this one included; by default :func:`worker_count`.

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
    # A deque's popleft is atomic, in builds without the interpreter lock too.
    take = queue.popleft

    def loop() -> None:
        while True:
            try:
                item = take()
            except IndexError:
                return
            try:
                work(item)
            except BaseException:
                queue.clear()
                raise

    helpers: list[Future[None]] = []
    with suppress(RuntimeError):  # Python ends, and takes no new work for threads
        pool = _get_pool()
        for _ in range(count - 1):
            helpers.append(pool.submit(loop))
    try:
        loop()
    finally:
        errors = [helper.exception() for helper in helpers if not helper.cancel()]
    for error in errors:
        if error is not None:
            raise error
