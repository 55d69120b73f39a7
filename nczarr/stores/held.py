"""Hold a directory, to notice when another one has taken its name.

While it is held, the system gives its number to no other directory; so one look at what the name stands for tells.
"""

from __future__ import annotations

import os
import threading

#: Directories that are held at a time, at most; of more than that nothing is noticed.
MAX_HELD = 256

_lock = threading.RLock()  # a collection of garbage may come in between
_count = 0


class HeldDirectory:
    """A directory that is held.

    Raises
    ------
    OSError
        If it cannot be opened, or enough are held already.
    """

    def __init__(self, path: str) -> None:
        global _count
        self._descriptor: int | None = None
        self._path = path
        with _lock:
            if _count >= MAX_HELD:
                raise OSError("enough directories are held")
            flags = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
            self._descriptor = os.open(path, flags)
            _count += 1
        status = os.fstat(self._descriptor)
        self._inode = (status.st_ino, status.st_dev)

    @property
    def is_there(self) -> bool:
        """True if the directory still has its name."""
        try:
            status = os.stat(self._path)
        except OSError:
            return False
        return (status.st_ino, status.st_dev) == self._inode

    def release(self) -> None:
        """Hold it no more."""
        global _count
        with _lock:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is None:
                return
            _count -= 1
        os.close(descriptor)

    def __del__(self) -> None:
        self.release()
