"""Keep keys and values as files below a directory."""

from __future__ import annotations

import codecs
import contextlib
import errno
import itertools
import os
import stat
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from nczarr.errors import DatasetNotFoundError, StoreError
from nczarr.formats import special_kind
from nczarr.stores.base import Buffer, Names, Store, as_view, check_key, check_prefix, clip, start_of
from nczarr.system.atomic import create_file, is_partial, move_to_free_name, value_name
from nczarr.system.descriptors import pread, read_at
from nczarr.system.durability import WriteOrder, sync_tree
from nczarr.system.early_sync import EarlySync
from nczarr.system.failures import system_error

#: The key has no file: there is no such file, or a file stands in the place of a directory.
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EILSEQ})

#: A link has no target.
_NO_WAY = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENAMETOOLONG})

# Opening a pipe does not wait for its other end; the store refuses pipes afterwards.
READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
#: Bytes that are copied at a time where the system does not copy.
_PIECE = 4 << 20
#: Number of directories that are remembered as not being links.
_REMEMBERED = 4096


class LocalStore(Store):
    """A directory: each key is a file.

    A value is written under a temporary name and renamed, so a reader sees the old value or the new one.
    Directories appear with their first key and disappear with their last. No key names a file outside the
    root. Reads follow symbolic links inside the root; writes and deletions refuse them.

    Parameters
    ----------
    root : path
        The directory.
    mode : {"r", "r+", "w"}
        ``"r"``: read; ``"r+"``: read and write; both need an existing directory. ``"w"``: read and write; the
        first key creates the directory. No mode deletes anything.
    case_sensitive : bool, optional
        Whether the file system tells ``T`` from ``t``; by default, the first write determines it. If it does
        not, setting a key that differs from another only in case is an error.

    Raises
    ------
    DatasetNotFoundError
        The directory does not exist (modes ``"r"`` and ``"r+"``).

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = LocalStore(folder.name, "r+")
    >>> store.set("v/c/0", b"abcdef")
    >>> store.get_range("v/c/0", 1, 2), store.list_dir("v")
    (b'bc', ([], ['c']))
    >>> folder.cleanup()
    """

    lists_all = True
    is_local = True
    lists_by_folder = True

    def __init__(
        self, root: str | os.PathLike[str], mode: str = "r", *, case_sensitive: bool | None = None
    ) -> None:
        self.root = Path(os.path.abspath(os.fspath(root)))
        self.url = os.fspath(root)
        self.writable = mode != "r"
        self._base = self.root.as_posix().rstrip("/") + "/"
        self._case_sensitive = case_sensitive
        self._plain: set[str] = set()  # directories without a symbolic link in their path below the root
        self._held: HeldDirectory | None = None
        #: True if other processes change values at the same time: parts of chunks are then written under a lock.
        self.is_shared = False
        #: Keeps the order of :meth:`keep_order`.
        self.order: WriteOrder | None = None
        #: The files of a new dataset that may be on the disk; it needs no order.
        self.early: EarlySync | None = None
        self._unordered = False  # there may be writes since an order was kept
        self._exact: set[str] = set()  # existing names, below a root that ignores case
        if mode != "w" and not self.root.is_dir():
            found = "it is not a directory" if self.root.exists() else "No such file or directory"
            raise DatasetNotFoundError(found, path=self.url)

    def parent(self) -> tuple[Store, str] | None:
        above = self.root.parent
        return (LocalStore(above), self.root.name) if above != self.root and above.is_dir() else None

    def __getstate__(self) -> dict[str, Any]:
        # A Dask worker opens the directory by its name: a number of a descriptor means another file there.
        return {**self.__dict__, "_held": None, "early": None}

    # --- the identity of the directory

    def _look(self) -> HeldDirectory | None:
        if self._held is not None and self._held.is_there:
            return self._held
        # Readers of an earlier dataset keep their own HeldDirectory.
        try:
            return HeldDirectory(str(self.root))
        except OSError:
            return None

    def _compare(self, held: HeldDirectory | None) -> None:
        # After `mv` or a replacement, the path leads to another dataset, and a mixture of both is no dataset.
        # (tests/mapping/test_replaced_elsewhere.py)
        if held is not None and not held.is_there:
            raise self._replaced_error()

    def close(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()

    # --- the disk

    def keep_order(self, wanted: bool = True) -> None:
        if not wanted:
            self.order, self._unordered = None, True
        elif self.order is None:
            self.order = WriteOrder(self._base, unknown=self._unordered)
            self._unordered = False

    def sync_early(self, wanted: bool = True) -> None:
        if self.early is None and wanted:
            self.early = EarlySync()
        elif self.early is not None:
            self.early.wanted = wanted  # it keeps the errors of the disk

    def settle(self) -> None:
        early, self.early = self.early, None
        try:
            if early is not None:
                early.end()
            if self.order is None:
                sync_tree(self.root, None if early is None else early.is_synced)
            else:
                self.order.settle()
        except OSError as error:
            self._fail("write", "", error)

    # --- names

    def check_names(self, paths: Iterable[str]) -> None:
        # Zarr's names are UTF-8. With another encoding of file names, Python would look for other names; ASCII names
        # are equal in all encodings.
        if not _has_utf8_names():
            for path in paths:
                if not path.isascii():
                    raise _unknown_name(self.place(path))

    def file_path(self, key: str) -> str:
        """Return the path of the file that holds `key`, whether it exists or not."""
        check_key(key)
        if not key.isascii():
            self.check_names([key])
        # `nczarr clean` removes such files, and listings leave them out: a value under this name would disappear.
        if key.endswith(".tmp") and is_partial(key.rpartition("/")[2]):
            raise StoreError("names of this form are reserved for unfinished files", path=self.place(key))
        return self._base + key

    def _fail(self, what: str, key: str, error: OSError) -> NoReturn:
        if isinstance(error, StoreError):
            raise error
        # The error of a key would point into a directory that cannot be created, or is gone.
        if what == "write" and not self.root.is_dir():
            raise system_error("create the directory", self.url, error, str(self.root)) from error
        raise system_error(what, self.place(key), error) from error

    # --- reading

    def open_file(self, key: str) -> int | None:
        """Return a file descriptor for reading the bytes of a value; None if the key is missing.

        The caller reads with ``os.pread`` or ``os.preadv`` and closes it.
        """
        try:
            return os.open(self.file_path(key), READ)
        except FileNotFoundError:
            refuse_dangling(self._base + key, self.place(key))
            return None
        except OSError as error:
            self._fail("read", key, error)

    def get(self, key: str) -> bytes | None:
        return self.get_range(key, 0, None)

    def get_range(self, key: str, start: int, length: int | None = None) -> bytes | None:
        descriptor = self.open_file(key)
        if descriptor is None:
            return None
        try:
            status = os.fstat(descriptor)
            refuse_special(status, self.place(key))
            first, last = clip(status.st_size, start, length)
            return read_at(descriptor, first, last - first)
        except OSError as error:
            self._fail("read", key, error)
        finally:
            os.close(descriptor)

    def size(self, key: str) -> int | None:
        try:
            status = os.stat(self.file_path(key))
        except FileNotFoundError:
            refuse_dangling(self._base + key, self.place(key))
            return None
        except OSError as error:
            self._fail("read", key, error)
        refuse_special(status, self.place(key))
        return status.st_size

    def exists(self, key: str) -> bool:
        return self.size(key) is not None

    # --- writing

    def set(self, key: str, data: Buffer) -> None:
        self._put(key, partial(write_bytes, as_view(data)))

    def set_from_file(self, key: str, descriptor: int, offset: int, size: int) -> None:
        """Set a value to bytes of an open file; the operating system copies them if it can.

        Raises
        ------
        StoreError
            If the file ends earlier, or as from :meth:`set`.
        """

        def write(target: int) -> None:
            done = _copy_bytes(descriptor, offset, size, target)
            # A file that another program cuts during a copy would become a chunk that is too short.
            if done != size:
                raise StoreError(
                    f"the source file is truncated: it ends at byte {offset + done}", path=self.place(key)
                )

        self._put(key, write)

    def set_if_absent(self, key: str, data: Buffer) -> bool:
        try:
            self._put(key, partial(write_bytes, as_view(data)), move_to_free_name)
        except StoreError as error:
            if isinstance(error.__cause__, FileExistsError):
                return False
            raise
        return True

    def set_before(self, earlier: Iterable[tuple[str, Buffer]], key: str, data: Buffer) -> None:
        """Set some values, then the value of `key`. Until then, their files are as old as the present file of `key`.

        So a reader that compares times does not take them for newer than the present value of `key`.
        """
        try:
            time = os.stat(self.file_path(key)).st_mtime_ns
        except OSError:
            time = None

        def write(view: memoryview, file: int) -> None:
            write_bytes(view, file)
            if time is not None:
                os.utime(file, ns=(time, time))

        with self._deferring(documents=True):
            for name, value in earlier:
                self._put(name, partial(write, as_view(value)))
            self.set(key, data)

    def set_many(self, items: Iterable[tuple[str, Buffer]]) -> None:
        with self._deferring(documents=True):
            super().set_many(items)

    def together(self) -> AbstractContextManager[None]:
        return self._deferring(documents=False)

    @contextlib.contextmanager
    def _deferring(self, *, documents: bool) -> Iterator[None]:
        """Let replacements of files wait for the disk together."""
        order = self.order
        if self._case_sensitive is None and os.path.lexists(f"{self._base}zarr.json"):
            self._case_sensitive = not os.path.lexists(f"{self._base}ZARR.JSON")
        if order is None or not self._case_sensitive or (self.is_shared and not documents):
            yield
            return
        try:
            with order.deferring(documents=documents):
                yield
        except OSError as error:
            self._fail("write", "", error)

    def _put(
        self, key: str, write: Callable[[int], None], place: Callable[[str, str], object] | None = None
    ) -> None:
        self.check_writable(key)
        path = self.file_path(key)
        self.check_current()
        # A name that differs from another one only in case must not be created first.
        (self.prepare_folder if self._case_sensitive else self.check_links)(key.rpartition("/")[0])

        def place_checked(temporary: str, path: str) -> None:
            if self._case_sensitive is None:
                folder, _, name = temporary.rpartition("/")
                self._case_sensitive = not os.path.lexists(f"{folder}/{name.upper()}")
                if not self._case_sensitive:
                    self._check_case(key)
            (place or os.replace)(temporary, path)

        try:
            if self._case_sensitive is False:
                self._check_case(key)
            put_file(path, write, place_checked, self.order, early=self.early, document=_is_document(key))
        except OSError as error:
            self._fail("write", key, error)

    def prepare_folder(self, folder: str) -> None:
        """Create a directory if it is not known, and check it as :meth:`check_links` does."""
        if folder and folder not in self._plain:
            self._check_folders(folder, create=True)

    def check_links(self, folder: str) -> None:
        """Refuse to change files in a directory whose path has a symbolic link below the root.

        They may belong to another dataset.
        """
        if folder and folder not in self._plain:
            self._check_folders(folder, create=False)

    def _check_folders(self, folder: str, *, create: bool) -> None:
        known = folder.rpartition("/")[0] in self._plain
        for place in [folder] if known else itertools.accumulate(folder.split("/"), "{}/{}".format):
            path = self._base + place
            if not (create and _make(path)) and os.path.islink(path):
                raise StoreError(
                    f"this is a link to {os.path.realpath(path)}, and nczarr writes and deletes nothing through links",
                    path=path,
                    hint="open the target of the link",
                )
            # An archive of millions of directories would fill the memory.
            if len(self._plain) >= _REMEMBERED:
                self._plain.clear()
            self._plain.add(place)

    @staticmethod
    def make_folder(path: str) -> None:
        """Create a directory, and its parents if they are missing."""
        try:
            os.makedirs(path, exist_ok=True)
        except FileExistsError:
            # If it has disappeared, another thread removed the directory; the caller tries again.
            if os.path.lexists(path) and not os.path.isdir(path):
                raise
        except UnicodeEncodeError:
            raise _unknown_name(path) from None

    def _check_case(self, key: str) -> None:
        """Refuse a key that the file system confuses with one of different case."""
        folder = ""
        for name in key.split("/"):
            path = folder + name
            if name.lower() != name.upper() and path not in self._exact:
                try:
                    names = os.listdir(self._base + folder)
                except FileNotFoundError:
                    return
                if name not in names:
                    clash = next((other for other in names if other.casefold() == name.casefold()), None)
                    if clash is not None:
                        raise StoreError(
                            "the file system does not distinguish upper from lower case",
                            path=self.place(key),
                            hint=f"{folder}{clash} exists",
                        )
                self._exact.add(path)
            folder = f"{path}/"

    def _begin_removing(self, key: str) -> None:
        self.check_current()
        self.check_links(key.rpartition("/")[0])
        # Removing may take the directories of remembered names, and another case may get them next.
        self._exact.clear()
        if self.order is not None:
            self.settle()

    def delete(self, key: str) -> None:
        self.check_writable(key)
        path = self.file_path(key)
        self._begin_removing(key)
        try:
            os.unlink(path)
        except OSError as error:
            # Unlinking a directory gives EPERM on some systems, EISDIR on others.
            if error.errno in _NOT_THERE or os.path.isdir(path):
                return
            self._fail("delete", key, error)
        self._prune(key)
        if self.order is not None:
            self.order.note_removed(path)

    def _prune(self, key: str) -> None:
        parent = key.rpartition("/")[0]
        while parent:
            try:
                os.rmdir(self._base + parent)
            except OSError:  # it is not empty, or another thread has removed it
                return
            parent = parent.rpartition("/")[0]

    def delete_prefix(self, prefix: str) -> None:
        self.check_writable(prefix)
        prefix = check_prefix(prefix)
        self._begin_removing(prefix)
        folder = self._base + prefix
        try:
            # The link goes, and its target stays, which may be another dataset (tests/trust: writing followed links).
            if os.path.islink(folder.rstrip("/")) and prefix:
                os.unlink(folder)
            else:
                _empty(folder)
                if prefix:
                    self._prune(f"{prefix}/")
            if self.order is not None:
                self.order.note_removed(folder)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                self._fail("delete", prefix, error)

    # --- listing

    def list(self, prefix: str = "") -> Iterator[str]:
        pending = [start_of(prefix)]
        while pending:
            start = pending.pop()
            files, folders = self._scan(start)
            yield from [start + name for name in files]
            pending.extend(f"{start}{name}/" for name in reversed(folders))

    def list_dir(self, prefix: str = "") -> Names:
        return self._scan(start_of(prefix))

    def _scan(self, start: str) -> Names:
        try:
            with os.scandir(self._base + start) as found:
                entries = list(found)
            self.check_names(entry.name for entry in entries)
            folders = {entry.name for entry in entries if _is_directory(entry)}
        except FileNotFoundError:
            refuse_dangling(f"{self._base}{start}".rstrip("/"), self.place(start))
            return [], []
        except OSError as error:
            # A listing that fails is an error: as an empty one, it would make fill values of all chunks.
            if error.errno != errno.ENOTDIR:  # this is a key
                self._fail("list", start, error)
            return [], []
        names = [entry.name for entry in entries]
        if folders:
            names = [name for name in names if name not in folders]
        names.sort()
        # Unfinished files are adjacent now.
        first = bisect_left(names, ".nczarr-")
        if first < len(names) and names[first].startswith(".nczarr-"):
            names[first:] = [name for name in names[first:] if not is_partial(name)]
        return names, sorted(folders)


def refuse_special(status: os.stat_result, place: str) -> None:
    """Raise an error for a directory, a pipe, a socket or a device."""
    kind = "directory" if stat.S_ISDIR(status.st_mode) else special_kind(status.st_mode)
    if kind:
        raise StoreError(f"cannot read: this is a {kind}, not a file", path=place)


def _is_document(key: str) -> bool:
    """True for the documents of Zarr and nczarr, which describe other values."""
    name = key.rpartition("/")[2]
    return name.startswith(".") or name.endswith(".json")


def _unknown_name(place: str) -> StoreError:
    return StoreError(
        f"the name is not ASCII, and the encoding of file names is {sys.getfilesystemencoding()}",
        path=place,
        hint="set the environment variable PYTHONUTF8=1, or a UTF-8 locale",
    )


@cache
def _has_utf8_names() -> bool:
    """True if Python encodes file names as UTF-8; only rare locales and settings differ."""
    return codecs.lookup(sys.getfilesystemencoding()).name == "utf-8"


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """True if an entry is a directory or a link to one; a link without a target is a name."""
    try:
        return entry.is_dir()
    except OSError as error:
        # Any other error is no proof that the entry is a file.
        if error.errno not in _NO_WAY:
            raise
        return False


def refuse_dangling(path: str, place: str) -> None:
    """Raise an error if a file is missing because a symbolic link in its path has no target.

    The target may be on a disk that is not mounted, so the key does not count as missing. `place` is for the message.
    """
    while path:
        try:
            status = os.lstat(path)
        except OSError:
            path = path.rpartition("/")[0]
            continue
        if stat.S_ISLNK(status.st_mode):
            try:
                os.stat(path)
            except OSError as error:
                raise StoreError(
                    f"cannot read: the symbolic link {path} has no target", path=place
                ) from error
        return


def put_file(
    path: str,
    write: Callable[[int], None],
    place: Callable[[str, str], object],
    order: WriteOrder | None,
    *,
    early: EarlySync | None = None,
    document: bool = False,
) -> None:
    """Write a file under a temporary name, and move it to its place; missing directories are created.

    Parameters
    ----------
    write : callable
        Writes the bytes to a file descriptor.
    place : callable
        Moves the file from the first path to the second.
    early : EarlySync, optional
        Syncs the file in the background.
    document : bool
        True for a document: it describes chunks, and an empty one would make all unreadable.
    """
    temporary = path[: path.rfind("/") + 1] + value_name()
    file = _create(temporary)
    waits = False

    def change(wanted: bool) -> None:
        if not wanted:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            return
        try:
            place(temporary, path)
            if order is not None:
                order.note(path, synced=waits)
            elif early is not None:
                early.note(path)
        except BaseException:
            # An interrupt may come after the rename.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise

    try:
        try:
            write(file)
            # A document that has its name before its bytes is empty after a loss of power.
            waits = order is not None and (document or os.path.lexists(path))
            if order is not None and waits:
                if order.defer(temporary, path, change, document=document):
                    return
                order.before_replacing(file, document=document)
        finally:
            os.close(file)
    except BaseException:
        if order is not None:
            # The file goes below; a deferred change of it would later rename a file that is not there.
            order.withdraw(temporary)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    change(True)


def _make(path: str) -> bool:
    """Create a directory whose parent exists; return False if it exists already or cannot be created."""
    try:
        os.mkdir(path)
    except OSError:
        return False
    return True


def _create(path: str) -> int:
    # A directory disappears before its use if another thread deletes its last key.
    for _ in range(100):
        try:
            return create_file(path)
        except FileNotFoundError:
            with contextlib.suppress(FileNotFoundError):
                LocalStore.make_folder(path.rpartition("/")[0])
    return create_file(path)


def _copy_bytes(source: int, offset: int, size: int, target: int) -> int:
    """Copy bytes to the end of a file, and return their number."""
    done = 0
    if hasattr(os, "copy_file_range"):
        # Some file systems refuse, and so do pairs of different ones.
        with contextlib.suppress(OSError):
            while done < size and (count := os.copy_file_range(source, target, size - done, offset + done)):
                done += count
    while done < size and (data := pread(source, min(size - done, _PIECE), offset + done)):
        write_bytes(memoryview(data), target)
        done += len(data)
    return done


def write_bytes(view: memoryview, descriptor: int) -> None:
    """Write all of a flat view; the system writes only a part at a time, for example above 2 GiB."""
    done = 0
    while done < len(view):
        done += os.write(descriptor, view[done:] if done else view)


def _empty(folder: str) -> None:
    """Empty a directory; symbolic links are removed, not followed."""
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        try:
            if entry.is_dir(follow_symlinks=False):
                _empty(entry.path)
                os.rmdir(entry.path)
            else:
                os.unlink(entry.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            # A key that another thread sets meanwhile stays, and so does its directory.
            if error.errno != errno.ENOTEMPTY:
                raise


#: Maximum number of directories that are held at a time; replacements of others are not noticed.
MAX_HELD = 256


class HeldDirectory:
    """An open directory, to notice that another one has taken its name.

    While it is open, the system gives its inode number to no other directory; so one `stat` of the name tells.

    Raises
    ------
    OSError
        If it cannot be opened, or too many are held.
    """

    #: The descriptors of all held directories. No lock: the garbage collector may release one at any instruction.
    all: ClassVar[set[int]] = set()

    def __init__(self, path: str) -> None:
        self._descriptors: list[int] = []
        self._path = path
        # A program may have thousands of datasets open, and has 1,024 descriptors on most systems.
        if len(HeldDirectory.all) >= MAX_HELD:
            raise OSError("too many directories are held")
        flags = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(path, flags)
        self._descriptors.append(descriptor)
        HeldDirectory.all.add(descriptor)
        status = os.fstat(descriptor)
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
        """Close the directory."""
        try:
            # A pop, which one thread alone can win: the garbage collector may release in the middle of `close`.
            descriptor = self._descriptors.pop()
        except IndexError:
            return
        HeldDirectory.all.discard(descriptor)
        os.close(descriptor)

    def __del__(self) -> None:
        self.release()
