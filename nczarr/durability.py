"""Bring files and their names to the disk, so that after a loss of power the old data are there, or the new.

A system keeps what is written in memory, and writes it to the disk up to half a minute later, in an order of its own. A
renaming may reach the disk before the bytes of the renamed file: after a loss of power the file is empty, and the file
that it replaced is gone. So :class:`WriteOrder` waits for the bytes before something is replaced or removed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from nczarr.forking import inheriting

#: The file system cannot do it, or has nothing to do.
_NO_SUCH_WAY = frozenset(
    {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EROFS, errno.ENOTTY, errno.EBADF}
)
#: A directory that may be searched and not read cannot be opened to be synced.
_UNOPENED = frozenset({errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOENT, errno.ENOTDIR, errno.ENXIO})
#: Of more files than this the whole file system is synced, where the system can do that.
FEW_FILES = 1000
#: Files that are synced at a time: the journal of a file system writes them together.
_THREADS = 16
#: Fewer are synced one after the other.
_FEW_AT_ONCE = 4
#: So many names are remembered at most.
_MOST_NOTED = 20_000
_OPEN = (os.O_RDWR if os.name == "nt" else os.O_RDONLY) | getattr(os, "O_CLOEXEC", 0)

_INHERITING = inheriting("_inherit")


def sync_descriptor(descriptor: int) -> None:
    """Wait until the disk has the bytes of an open file; do nothing where the file system has no such call.

    Raises
    ------
    OSError
        The disk refuses the bytes.
    """
    try:
        if sys.platform == "darwin":
            import fcntl

            try:
                fcntl.fcntl(
                    descriptor, fcntl.F_FULLFSYNC
                )  # fsync there leaves bytes in the cache of the disk
                return
            except OSError as error:
                if error.errno == errno.EIO:
                    raise
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SUCH_WAY:
            raise


def sync_path(path: str | os.PathLike[str]) -> None:
    """Wait until the disk has the bytes of a file, or the names in a directory; one that is gone needs nothing.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     sync_path(file.name); sync_path(os.path.dirname(file.name))
    """
    try:
        descriptor = os.open(path, _OPEN)
    except OSError as error:
        if error.errno in _UNOPENED:
            return
        raise
    try:
        sync_descriptor(descriptor)
    finally:
        os.close(descriptor)


def sync_folder_of(path: str | os.PathLike[str]) -> None:
    """Wait until the disk has the name of a file or directory."""
    sync_path(os.path.dirname(os.path.abspath(path)))


def sync_file_system(path: str) -> bool:
    """Wait until the disk has all files of a file system; False where the system cannot, or a disk refuses bytes."""
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


def sync_all(paths: Iterable[str], root: str) -> None:
    """Wait until the disk has files and directories, all of the file system of `root`.

    The caller names files before the directories that hold them.
    """
    listed = list(paths)
    if len(listed) > FEW_FILES and sync_file_system(root):
        return
    if len(listed) > _FEW_AT_ONCE:
        try:
            with ThreadPoolExecutor(min(_THREADS, len(listed))) as pool:
                for _ in pool.map(sync_path, listed):
                    pass
            return
        except RuntimeError:  # the interpreter ends: no thread can begin any more
            pass
    for path in listed:
        sync_path(path)


def sync_tree(root: str | os.PathLike[str]) -> None:
    """Wait until the disk has everything below a directory, and the directory's own name."""
    root = os.fspath(root)
    sync_all(_below(root), root)
    sync_folder_of(root)


def _below(root: str) -> Iterator[str]:
    folders = []
    for folder, _, names in os.walk(root):
        folders.append(folder)
        yield from (f"{folder}/{name}" for name in names)
    yield from folders


class WriteOrder:
    """What was written below a directory and the disk may not have.

    Parameters
    ----------
    root : str
    unknown : bool
        Something may have been written before, and nothing tells what it was.

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
        #: Directories in which names have changed.
        self._folders: set[str] = set()
        #: Directories of which the disk has the name.
        self._named: set[str] = set()
        self._all = unknown
        self._inherit()
        _INHERITING.add(self)

    def _inherit(self) -> None:
        self._noting = threading.Lock()
        self._settling = threading.RLock()

    def __reduce__(self) -> tuple[Callable[[str], WriteOrder], tuple[str]]:
        return WriteOrder, (self.root,)

    def note(self, path: str, *, synced: bool = False) -> None:
        """Remember a new name. `synced`: the disk has its bytes."""
        folder = path.rpartition("/")[0]
        with self._noting:
            if not synced and not self._all:
                self._files.add(path)
                if len(self._files) > _MOST_NOTED:
                    self._files.clear()
                    self._all = True
            self._folders.add(folder)
            while len(folder) > len(self.root) and folder not in self._named:
                self._named.add(folder)
                folder = folder.rpartition("/")[0]
                self._folders.add(folder)

    def note_removed(self, path: str) -> None:
        """Remember that a name has gone."""
        with self._noting:
            self._named.clear()  # empty directories go with it
            self._folders.add(path.rpartition("/")[0])

    def before_replacing(self, descriptor: int, *, document: bool) -> None:
        """Wait for the bytes of an open file that takes the place of another; for a document, for all that it names."""
        if document:
            self.settle()
        sync_descriptor(descriptor)

    def settle(self) -> None:
        """Wait until the disk has everything.

        Raises
        ------
        OSError
            The disk refuses it. It is tried again the next time.
        """
        with self._settling:
            with self._noting:
                files, folders, everything = self._files, self._folders, self._all
                if not files and not folders and not everything:
                    return
                self._files, self._folders, self._all = set(), set(), False
            try:
                if not everything:
                    sync_all([*files, *sorted(folders, reverse=True)], self.root)
                elif not sync_file_system(self.root):
                    sync_tree(self.root)
            except BaseException:
                with self._noting:
                    self._files |= files
                    self._folders |= folders
                    self._all |= everything
                raise
