"""Sync the files of a new dataset to disk in the background, while later ones are made."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from contextlib import suppress

from nczarr.system.durability import MOST_THREADS, opened_to_sync, sync_descriptor
from nczarr.system.locks import TABLES

#: Number of files that wait for a thread. Fewer are synced faster at the end, by one commit of the journal.
_FILES_PER_THREAD = 8
#: Seconds after which a change of a file gives it another time: the clock of a file system has ticks of up to 10 ms.
_TICK = 0.02
_SECOND = 1_000_000_000
#: Maximum number of files to know as synced; each takes some hundred bytes. Later ones are synced at the end.
_MOST_KNOWN = 200_000


class EarlySync:
    """The files of a directory that are on the disk before the caller waits for all of it.

    Threads take the recorded files, and end when none is left. Nothing depends on them: :meth:`is_synced` is false for
    a file that no thread has come to, that has changed since, or that another process has made.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     early = EarlySync()
    ...     early.note(file.name)
    ...     early.end()
    ...     early.is_synced(file.name)  # one file starts no thread
    False
    """

    def __init__(self) -> None:
        #: False: new files are not synced in the background.
        self.wanted = True
        self._left: deque[str] = deque()
        #: The number and the time of change of each synced file, as one integer.
        self._synced: set[int] = set()
        self._threads: list[threading.Thread] = []
        self._working = 0
        self._errors: list[OSError] = []

    def note(self, path: str) -> None:
        """Record a new file, and sync it soon."""
        if not self.wanted or len(self._synced) >= _MOST_KNOWN:
            return
        self._left.append(path)
        with TABLES:
            if self._working >= min(len(self._left) // _FILES_PER_THREAD, MOST_THREADS):
                return
            self._working += 1
            self._threads = [known for known in self._threads if known.ident is None or known.is_alive()]
            thread = threading.Thread(target=self._work, name="nczarr-sync", daemon=True)
            self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError:  # no thread can start while the interpreter shuts down
            with TABLES:
                self._working -= 1
                self._threads.remove(thread)

    def end(self) -> None:
        """Wait for the threads, and leave the files that they have not begun.

        Raises
        ------
        OSError
            If the disk has refused a file. Linux reports that once, so a later sync of the file would not tell it.
        """
        self._left.clear()
        for thread in list(self._threads):
            thread.join()
        if self._errors:
            raise self._errors[0]

    def is_synced(self, path: str) -> bool:
        """Return True if the disk has the present bytes of a file."""
        try:
            return _state(os.stat(path)) in self._synced
        except OSError:
            return False

    def _work(self) -> None:
        try:
            with suppress(IndexError):  # the empty list ends each thread
                while path := self._left.popleft():
                    self._sync(path)
        except OSError as error:
            self._errors.append(error)
        finally:
            with TABLES:
                self._working -= 1

    def _sync(self, path: str) -> None:
        with opened_to_sync(path) as descriptor:
            if descriptor is None:
                return
            # A change in the same tick as this look would not show in the time.
            age = time.time() - os.fstat(descriptor).st_ctime
            if age < _TICK:
                time.sleep(min(_TICK, _TICK - age))
            status = os.fstat(descriptor)
            # ext3, and ext4 with inodes of 128 bytes, count whole seconds: a change in the same second looks the same.
            tick = _TICK if status.st_ctime_ns % _SECOND else 1.0 + _TICK
            is_certain = time.time() - status.st_ctime >= tick
            sync_descriptor(descriptor)
            if is_certain:
                self._synced.add(_state(status))


def _state(status: os.stat_result) -> int:
    return status.st_ino << 64 | status.st_ctime_ns
