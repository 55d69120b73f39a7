"""Make the locks of threads, each with its rank, and lock files and directories against other processes.

A thread takes locks in the order of their ranks. All locks come from :func:`make_lock`, and a forked child finds all
of them free: the threads that held them are not there.

A file lock is ``flock`` on the directory or file itself. The system releases it when the process ends, and no lock file
exists. File systems without locks (some network file systems; Windows) keep no other writer away.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import IntEnum
from operator import methodcaller
from typing import Protocol, TypeVar

from nczarr.errors import ArgumentError, LockedError
from nczarr.system.forks import in_forked_child

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]  # Windows

T = TypeVar("T")


class Rank(IntEnum):
    """The order of locks: a thread that holds a lock takes only locks of higher ranks."""

    #: An object that opens, reads and closes datasets: a source of xarray, the files of a copy, the viewer's dataset.
    OWNER = 1
    #: Closes the gate of a session, so that the structure of its store can change.
    GATE = 2
    #: One thread passes the gate of a session.
    PASS = 3
    #: A decoded chunk in the cache of a session; several in the order of the chunks.
    BLOCK = 4
    #: The tree of nodes and the table of cached chunks of a session.
    SESSION = 5
    #: The nodes of a hierarchy, and the lengths of its arrays.
    STRUCTURE = 6
    #: A stored chunk; several in the order of the table.
    CHUNK = 7
    #: A store or file with one position or one table of contents.
    STORE = 8
    #: All small tables of the process: registries, caches of chunks, the pool. Held for a moment, never for input or
    #: output.
    TABLE = 9


_make: Callable[[Rank], threading.RLock] = lambda rank: threading.RLock()  # noqa: E731  (tests replace it)
_made: weakref.WeakSet[threading.RLock] = weakref.WeakSet()


def make_lock(rank: Rank) -> threading.RLock:
    """Return a new lock.

    Examples
    --------
    >>> lock = make_lock(Rank.STORE)
    >>> with lock, TABLES:
    ...     "the ranks ascend"
    'the ranks ascend'
    """
    lock = _make(rank)
    if (
        rank is not Rank.BLOCK
    ):  # these are many, and a forked child does not use the chunks of an open dataset
        _made.add(lock)
    return lock


#: Guards the small tables of the process.
TABLES = make_lock(Rank.TABLE)


class LockTable:
    """A fixed number of locks for any number of names. Two names may share a lock, which only costs time.

    Examples
    --------
    >>> table = LockTable(Rank.CHUNK)
    >>> with table.of(("memory", "v/c/0")):
    ...     "the chunk is written"
    'the chunk is written'
    """

    def __init__(self, rank: Rank, count: int = 257) -> None:
        self._locks = [make_lock(rank) for _ in range(count)]

    def of(self, name: Hashable) -> threading.RLock:
        """Return the lock of a name."""
        return self._locks[hash(name) % len(self._locks)]

    def of_all(self, names: Iterable[Hashable]) -> list[threading.RLock]:
        """Return the locks of several names, in the order in which every thread takes them."""
        return [self._locks[number] for number in sorted({hash(name) % len(self._locks) for name in names})]


_acquire, _release = methodcaller("acquire"), methodcaller("release")


def while_held(locks: Sequence[threading.RLock], work: Callable[[], T]) -> T:
    """Call `work` while this thread holds several locks; it must hold none of them before.

    An interrupt leaves none of them held: it never comes inside a function in C. One such function takes all locks,
    and another one releases all.

    Examples
    --------
    >>> while_held([make_lock(Rank.BLOCK), make_lock(Rank.BLOCK)], lambda: "done")
    'done'
    """
    release = map(_release, locks)
    try:
        deque(map(_acquire, locks), 0)
        return work()
    finally:
        # Not `suppress`: an interrupt may come at the beginning of a function in Python.
        try:  # noqa: SIM105
            deque(release, 0)
        except RuntimeError:  # an interrupt ended the wait for a lock: this one is not held, nor are the next
            pass


@in_forked_child
def _free_all() -> None:
    for lock in list(_made):
        if not lock._is_owned():  # type: ignore[attr-defined]  # else this thread releases it
            lock._at_fork_reinit()  # type: ignore[attr-defined]  # as the standard library does
    for file_lock in list(_held):
        file_lock.forget()  # otherwise the child would keep the lock of a parent that ended


_TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
#: Number of locks of this process on each inode, by device and inode number.
_own: Counter[tuple[int, int]] = Counter()
#: Number of attempts and pause in seconds of `in_turn`.
_TRIES, _PAUSE = 100, 0.01


#: The first and the longest pause of `in_time`, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


class Releasable(Protocol):
    """A lock that excludes other writers of a dataset."""

    def release(self) -> None:
        """Let other writers in."""


class FileLock:
    """Lock one directory or file, exclusively or (`shared`) together with other shared locks.

    Raises
    ------
    BlockingIOError
        If another lock conflicts with this one; its `strerror` is "open for reading" or "open for writing".

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = FileLock(folder)
    ...     lock.release()
    """

    def __init__(self, path: str, *, shared: bool = False) -> None:
        self._descriptor: int | None = None
        self._inode = (0, 0)
        if fcntl is None:  # pragma: no cover
            return
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            held = error.errno in _TAKEN
            use = _use_of(descriptor) if held else ""
            os.close(descriptor)
            if held:
                raise BlockingIOError(error.errno, use, path) from error
            return  # no locks here
        status = os.fstat(descriptor)
        self._descriptor, self._inode = descriptor, (status.st_dev, status.st_ino)
        _own[self._inode] += 1
        _held.add(self)

    @property
    def held(self) -> bool:
        """False where the file system has no locks."""
        return self._descriptor is not None

    def is_on(self, path: str) -> bool:
        """True if the lock is on this directory or file."""
        with contextlib.suppress(OSError):
            status = os.stat(path)
            return self._descriptor is not None and (status.st_dev, status.st_ino) == self._inode
        return False

    def release(self) -> None:
        """Release the lock."""
        descriptor = self._let_go()
        if descriptor is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def forget(self) -> None:
        """Close the descriptor in a forked child; the parent keeps the lock."""
        descriptor = self._let_go()
        if descriptor is not None:
            os.close(descriptor)

    def _let_go(self) -> int | None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _own[self._inode] -= 1
        return descriptor


def in_time(take: Callable[[], T], wait: float) -> T:
    """Call a function that takes the lock of a dataset, again while others hold it, for a number of seconds.

    The function takes the lock before it does anything else: a refused call has changed nothing.

    Raises
    ------
    ArgumentError
        If `wait` is not a number of seconds.
    LockedError
        If another writer still holds the lock then.

    Examples
    --------
    >>> in_time(lambda: "opened", wait=60)
    'opened'
    """
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not wait >= 0:
        raise ArgumentError(f"wait={wait!r}: not a number of seconds", hint="wait=60")
    end, pause = time.monotonic() + wait, _FIRST_PAUSE
    while True:
        try:
            return take()
        except LockedError:
            left = end - time.monotonic()
            if left <= 0:
                raise
        # Writers that began together do not ask together again.
        from random import uniform  # few programs wait

        time.sleep(min(left, pause * uniform(0.5, 1)))
        pause = min(2 * pause, _LONGEST_PAUSE)


def _use_of(descriptor: int) -> str:
    """Return the use of a file that another lock keeps: HDF5's readers share theirs, and writers do not."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return "open for writing"
    return "open for reading"


def lock_open_file(descriptor: int) -> None:
    """Wait until no other process has locked an open file or directory, and lock it until it is closed."""
    if fcntl is not None:
        with contextlib.suppress(OSError):  # no locks here
            fcntl.flock(descriptor, fcntl.LOCK_EX)


#: Locks that a forked child closes without releasing.
_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


@contextlib.contextmanager
def in_turn(path: str) -> Iterator[None]:
    """Run a short operation while no other process or thread runs it in the same directory.

    After one second of waiting, the operation runs without the lock: its owner does something else.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, in_turn(folder):
    ...     os.listdir(folder)
    []
    """
    lock = None
    for _ in range(_TRIES):
        try:
            lock = FileLock(path)
            break
        except BlockingIOError:
            time.sleep(_PAUSE)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def is_locked(path: str) -> bool:
    """True if a directory or file is locked, in this process or in another one.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = FileLock(folder)
    ...     is_locked(folder)
    ...     lock.release()
    True
    """
    try:
        FileLock(path).release()
    except BlockingIOError:
        return True
    return False


def is_locked_elsewhere(path: str) -> bool:
    """True if another process has locked a directory or a file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     is_locked_elsewhere(folder)
    False
    """
    if not is_locked(path):
        return False
    status = os.stat(path)
    return not _own[status.st_dev, status.st_ino]
