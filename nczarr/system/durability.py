"""Sync files and directories to disk, so that either the old or the new data survive a power failure.

The operating system caches written data, and writes them to disk up to half a minute later, in any order. A rename may
reach the disk before the bytes of the renamed file. After a power failure the file is then empty, and the file that it
replaced is lost. :class:`WriteOrder` therefore syncs the bytes before a file is replaced or removed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from _thread import get_ident, start_new_thread
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import filterfalse, islice
from queue import SimpleQueue
from typing import NamedTuple

from nczarr.system.locks import TABLES, Rank, make_lock

#: Errors of file systems that do not support syncing, or do not need it.
_NO_SUCH_WAY = frozenset(
    {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EROFS, errno.ENOTTY, errno.EBADF}
)
#: Errors of files and directories that cannot be opened for syncing, such as directories without read permission.
_UNOPENED = frozenset({errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOENT, errno.ENOTDIR, errno.ENXIO})
#: Maximum number of files to sync sequentially.
_FEW_AT_ONCE = 4
#: Maximum number of files to sync concurrently: the journal of a file system writes them together.
MOST_THREADS = 16
#: Number of files for each thread after the first two: more threads cost more time than they save.
_FILES_PER_THREAD = 8
#: Maximum number of new files to record before they are synced.
_MOST_NOTED = 20_000
#: Number of paths to list at a time.
_LISTED = 50_000
#: Maximum number of deferred changes, each of which may keep a file open.
_MOST_DEFERRED = 64
_OPEN = (os.O_RDWR if os.name == "nt" else os.O_RDONLY) | getattr(os, "O_CLOEXEC", 0)


def sync_descriptor(descriptor: int, *, only_data: bool = False) -> None:
    """Sync the bytes of an open file to disk; do nothing if the file system does not support this.

    `only_data`: the times of the file may be lost, which saves the journal of the file system a write.

    Raises
    ------
    OSError
        If the disk reports an error.
    """
    try:
        if sys.platform == "darwin":
            import fcntl

            try:
                # On macOS, fsync leaves bytes in the cache of the disk.
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
                return
            except OSError as error:
                # Any other error means that the file system has no such call, as SMB; EIO means lost bytes.
                if error.errno == errno.EIO:
                    raise
        (getattr(os, "fdatasync", os.fsync) if only_data else os.fsync)(descriptor)
    except OSError as error:
        if error.errno not in _NO_SUCH_WAY:
            raise


def sync_path(path: str | os.PathLike[str], *, only_data: bool = False) -> None:
    """Sync the bytes of a file, or the names in a directory, to disk; do nothing if the path does not exist.

    `only_data`: as for :func:`sync_descriptor`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     sync_path(file.name); sync_path(os.path.dirname(file.name))
    """
    with opened_to_sync(path) as descriptor:
        if descriptor is not None:
            sync_descriptor(descriptor, only_data=only_data)


@contextmanager
def opened_to_sync(path: str | os.PathLike[str]) -> Iterator[int | None]:
    """Yield the descriptor of a file or directory; None of one that is gone, or that its user cannot open."""
    descriptor = None
    try:
        descriptor = os.open(path, _OPEN)
    except OSError as error:
        # A file may be removed by another thread before its turn, and a directory without permission to read
        # cannot be synced by its user at all.
        if error.errno not in _UNOPENED:
            raise
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def sync_folder_of(path: str | os.PathLike[str]) -> None:
    """Sync the name of a file or directory to disk."""
    sync_path(os.path.dirname(os.path.abspath(path)))


def sync_file_system(path: str) -> bool:
    """Sync all files of a file system to disk; return False if the system cannot, or a disk reports an error."""
    if sys.platform != "linux":
        return False
    try:
        descriptor = os.open(path, _OPEN)
    except OSError:
        return False
    try:
        return bool(ctypes.CDLL(None).syncfs(descriptor) == 0)
    except (AttributeError, OSError):
        return False
    finally:
        os.close(descriptor)


def sync_all(paths: Iterable[str], data: Container[str] = ()) -> None:
    """Sync files and directories to disk; of those in `data`, only the bytes.

    `paths` must list files before the directories that contain them.
    """
    paths = iter(paths)
    # One sync of the file system would also wait for the files of other programs.
    while some := deque(islice(paths, _LISTED)):
        _sync_listed(some, data)


def _sync_listed(left: deque[str], data: Container[str]) -> None:
    errors, ended = list[BaseException](), SimpleQueue[None]()

    def work() -> None:
        try:
            # Several threads take from one list: the empty list ends each.
            with suppress(IndexError):
                while path := left.popleft():
                    sync_path(path, only_data=path in data)
        except BaseException as error:
            # A thread cannot raise to its starter; an error that is lost would acknowledge what the disk refused.
            errors.append(error)
        finally:
            ended.put(None)

    # An interrupt can leave an executor waiting for ever. The pool of the engine has too few threads for a journal.
    helpers = 0
    with suppress(RuntimeError):  # no thread can start while the interpreter shuts down
        for _ in range(_helpers(len(left))):
            start_new_thread(work, ())
            helpers += 1
    work()
    for _ in range(helpers + 1):
        ended.get()
    if errors:
        raise errors[0]


def _helpers(files: int) -> int:
    """Return the number of threads that sync files beside the calling one."""
    return min(2 + files // _FILES_PER_THREAD, MOST_THREADS) if files > _FEW_AT_ONCE else 0


def sync_tree(root: str | os.PathLike[str], is_synced: Callable[[str], bool] | None = None) -> None:
    """Sync everything below a directory, and the name of the directory, to disk.

    Parameters
    ----------
    is_synced : callable, optional
        Tells of a file whether the disk has it already.
    """
    root = os.fspath(root)
    sync_all(filterfalse(is_synced or (lambda path: False), _below(root)))
    sync_folder_of(root)


def _below(root: str) -> Iterator[str]:
    folders = []
    for folder, _, names in os.walk(root):
        folders.append(folder)
        yield from (f"{folder}/{name}" for name in names)
    yield from folders


class _DeferredChange(NamedTuple):
    path: str
    target: str
    change: Callable[[bool], None]
    document: bool


class WriteOrder:
    """The files and directories below a directory that are not synced to disk yet.

    Parameters
    ----------
    root : str
    unknown : bool
        True if there may be unsynced files that are not recorded.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     order = WriteOrder(folder)
    ...     with open(f"{folder}/a", "wb") as file:
    ...         _ = file.write(b"abc")
    ...     order.note(f"{folder}/a")
    ...     order.settle()
    """

    def __init__(self, root: str, *, unknown: bool = False) -> None:
        self.root = root.rstrip("/") or "/"
        self._files: set[str] = set()
        #: Directories with new or removed names.
        self._folders: set[str] = set()
        #: Directories whose names are recorded or synced.
        self._named: set[str] = set()
        self._all = unknown
        #: Files in which bytes have changed, and their names not.
        self._changed: set[str] = set()
        #: Changes that follow when the disk has the file at a path; see :meth:`defer`.
        self._deferred: list[_DeferredChange] = []
        self._defers_values = False
        #: The thread whose documents are deferred.
        self._defers_documents: int | None = None
        #: Held while the disk is waited for.
        self._settling = make_lock(Rank.STORE)

    def __reduce__(self) -> tuple[Callable[[str], WriteOrder], tuple[str]]:
        return WriteOrder, (self.root,)

    def note(self, path: str, *, synced: bool = False) -> None:
        """Record a new file; `synced` is True if its bytes are synced."""
        folder = path.rpartition("/")[0]
        with TABLES:
            if not synced and not self._all:
                self._files.add(path)
            self._folders.add(folder)
            # A new directory is a name in the one above: without it, its files are unreachable after a loss of power.
            while len(folder) > len(self.root) and folder not in self._named:
                self._named.add(folder)
                folder = folder.rpartition("/")[0]
                self._folders.add(folder)
        if len(self._files) > _MOST_NOTED:  # the list of paths needs a bound
            self._sync_files()

    def _sync_files(self) -> None:
        with TABLES:
            files, self._files = self._files, set()
        try:
            sync_all(files)
        except BaseException:
            with TABLES:
                self._files |= files
            raise

    def note_changed(self, path: str) -> None:
        """Record new bytes in a file whose name is recorded or synced."""
        with TABLES:
            self._changed.add(path)

    @contextmanager
    def deferring(self, *, documents: bool) -> Iterator[None]:
        """Defer changes of values, or of the documents of this thread, until the end of the block.

        An error in the block drops them. No thread reads the values meanwhile.
        """
        before = self._defers_values, self._defers_documents
        if before == (False, None):
            self._drop()  # an interrupt may have ended the last block twice
        if documents:
            self._defers_documents = get_ident()
        else:
            self._defers_values = True
        try:
            yield
            if self._deferred:
                self.settle()
        except BaseException:
            self._drop()
            raise
        finally:
            self._defers_values, self._defers_documents = before

    def defer(
        self, path: str, target: str, change: Callable[[bool], None], *, document: bool = False
    ) -> bool:
        """Defer a change of the file `target` that waits for the bytes of the file `path`, so that many wait together.

        Parameters
        ----------
        change : callable
            True: make the change, and record it. False: drop it.
        document : bool
            True: the change also waits for all that is recorded, and for the changes of values.

        Returns
        -------
        bool
            False, without any effect, outside of :meth:`deferring`.
        """
        if not (self._defers_documents == get_ident() if document else self._defers_values):
            return False
        self._deferred.append(_DeferredChange(path, target, change, document))
        # Each keeps a file open, of which a process has 1,024 on most systems.
        if len(self._deferred) >= _MOST_DEFERRED:
            self.settle()
        return True

    def _drop(self) -> None:
        while self._deferred:
            self._deferred.pop().change(False)

    def withdraw(self, path: str) -> None:
        """Forget a deferred change whose file the caller removes."""
        for entry in [entry for entry in list(self._deferred) if entry.path == path]:
            self._deferred.remove(entry)  # in place: other threads add to the list

    def finish(self, target: str) -> None:
        """Make a deferred change of a file now, if there is one."""
        if any(entry.target == target for entry in list(self._deferred)):
            self.settle()

    def is_new(self, path: str) -> bool:
        """True if the disk has no part of a file yet, so that a loss of power can take none."""
        return path in self._files

    def note_removed(self, path: str) -> None:
        """Record the removal of a file."""
        with TABLES:
            self._named.clear()  # the removal may have removed empty directories too
            self._folders.add(path.rpartition("/")[0])

    def before_replacing(self, descriptor: int, *, document: bool) -> None:
        """Sync an open file before it replaces another; for a document, first sync all files that it refers to."""
        if document:
            self.settle()
        sync_descriptor(descriptor)

    def settle(self) -> None:
        """Sync all recorded files and directories to disk.

        Raises
        ------
        OSError
            If the disk reports an error. The next call tries again.
        """
        waited: list[_DeferredChange] = []
        with self._settling:
            while True:
                deferred = list(self._deferred)
                with TABLES:
                    files, changed, folders, everything = self._files, self._changed, self._folders, self._all
                    self._files, self._changed, self._folders, self._all = set(), set(), set(), False
                try:
                    if not everything:
                        paths = [*files, *changed, *(entry.path for entry in deferred if entry not in waited)]
                        sync_all([*paths, *sorted(folders, reverse=True)], changed)
                    elif not sync_file_system(self.root):
                        sync_tree(self.root)
                except BaseException:
                    with TABLES:
                        # The next call waits for them again; forgotten ones would count as synced. Linux reports an
                        # error of a file only once, so this call raises it (tests/system/test_durability.py).
                        self._files |= files
                        self._changed |= changed
                        self._folders |= folders
                        self._all |= everything
                    raise
                waited = deferred
                # A document must not name chunks that the disk lacks, so documents wait for one round more.
                for entry in [e for e in deferred if not e.document] or deferred:
                    self._deferred.remove(entry)
                    entry.change(True)
                if not deferred:
                    return
