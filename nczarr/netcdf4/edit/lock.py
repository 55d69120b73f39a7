"""Keep other writers away from a dataset in the local file system.

The lock is the system's own on the directory (or the zip file) itself: nothing is left of it when its owner dies,
however that happens, and no other program sees a file of it. Where the file system has no locks (some network
file systems; Windows), nobody is kept away.
"""

from __future__ import annotations

import contextlib
import errno
import os

from nczarr.netcdf4.errors import NetCDFLockedError

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]  # Windows

_TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


class WriterLock:
    """The right to write to one dataset, alone or (`shared`) together with others who asked for the same.

    Raises
    ------
    NetCDFLockedError
        If somebody has it who does not share it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = WriterLock(folder)
    ...     lock.release()
    """

    def __init__(self, path: str, *, shared: bool = False) -> None:
        self._descriptor: int | None = None
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
                raise NetCDFLockedError(
                    "the dataset is open for writing, here or in another process",
                    path=path,
                    hint="close it there; or open it with shared=True, here and there, to write different chunks",
                ) from error
            return  # no locks here
        self._descriptor = descriptor

    def release(self) -> None:
        """Let others write."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def forget(self) -> None:
        """Let go of it in a forked child; the parent keeps it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
