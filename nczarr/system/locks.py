"""Lock a directory or a file against other writers.

The lock is ``flock`` on the directory or file itself. The system releases it when the process ends, and no lock file
exists. File systems without locks (some network file systems; Windows) keep no other writer away.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections import Counter
from collections.abc import Iterator

from nczarr.system.forks import inheriting

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]  # Windows

#: Locks that a forked child closes without releasing.
_INHERITING = inheriting("forget")

_TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
#: Number of locks of this process on each inode, by device and inode number.
_own: Counter[tuple[int, int]] = Counter()
#: Number of attempts and pause in seconds of `in_turn`.
_TRIES, _PAUSE = 100, 0.01


class Lock:
    """Lock one directory or file, exclusively or (`shared`) together with other shared locks.

    Raises
    ------
    BlockingIOError
        If another lock conflicts with this one.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = Lock(folder)
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
            os.close(descriptor)
            if error.errno in _TAKEN:
                raise BlockingIOError(error.errno, "it is locked", path) from error
            return  # no locks here
        self._descriptor, self._inode = descriptor, _inode(descriptor)
        _own[self._inode] += 1
        _INHERITING.add(self)  # else a child would keep the lock of a parent that ended

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
            lock = Lock(path)
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
    ...     lock = Lock(folder)
    ...     is_locked(folder)
    ...     lock.release()
    True
    """
    try:
        Lock(path).release()
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
    try:
        Lock(path).release()
    except BlockingIOError:
        status = os.stat(path)
        return not _own[status.st_dev, status.st_ino]
    return False


def _inode(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino
