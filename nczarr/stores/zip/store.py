"""Keep keys and values as the members of a zip file, which a new file replaces when it is complete."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from nczarr.errors import StoreError
from nczarr.stores.base import Buffer, Request, Store, Values, as_view, check_key
from nczarr.stores.local import system_error
from nczarr.stores.zip.reader import FileSource, Source, StoreSource, ZipReader
from nczarr.system.atomic import Output, partials_of
from nczarr.system.durability import sync_descriptor
from nczarr.system.forks import Origin
from nczarr.system.locks import FileLock, Rank, in_turn, is_locked, make_lock

#: Bytes that are copied at a time.
_PIECE = 1 << 20


class ZipStore(ZipReader):
    """The members of a zip file; see :class:`~nczarr.stores.zip.reader.ZipReader` for the forms that are read.

    Writing appends: new members are stored uncompressed. A key that is set again or deleted loses its place in the
    directory of the zip file, but its bytes stay. A temporary file beside the target receives all bytes, and replaces
    the target at :meth:`sync` and when the store is closed. An error that ends a ``with`` block leaves the target as it
    was at the last :meth:`sync`. A target that another program has changed since it was opened is not replaced: the
    first change or the :meth:`sync` raises an error.

    Parameters
    ----------
    target : path, or (Store, str)
        A local file; or a key of another store, for reading.
    mode : {"r", "r+", "w"}
        ``"r"`` and ``"r+"`` need an existing file; ``"w"`` creates it if it does not exist.
    replace : bool
        Begin with an empty zip file; an existing one stays until the new one replaces it.

    Raises
    ------
    DatasetNotFoundError
        If the file does not exist.
    StoreError
        If the file is not a zip file, or its directory is damaged.

    Examples
    --------
    >>> import os, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "run42.zip")
    >>> with ZipStore(path, "w") as store:
    ...     store.set("v/c/0", b"abcdef")
    >>> with ZipStore(path) as store:
    ...     store.get("v/c/0"), store.list_dir()
    (b'abcdef', ([], ['v']))
    >>> folder.cleanup()
    """

    def __init__(
        self, target: str | os.PathLike[str] | tuple[Store, str], mode: str = "r", *, replace: bool = False
    ) -> None:
        self._lock = make_lock(Rank.STORE)
        self._origin = Origin()
        self._writer: zipfile.ZipFile | None = None
        self._file: BinaryIO | None = None
        self._output: Output | None = None
        #: The local file; empty if the zip file is in another store.
        self.path = ""
        #: Identity of the target when this store last read or wrote it; None if there was none.
        self._seen: tuple[int, ...] | None = None
        #: Locks of the target and of the temporary file, if this store wrote them.
        self._target_lock: FileLock | None = None
        self._output_lock: FileLock | None = None
        self._changed = self._closed = False
        self.writable = mode != "r"
        if isinstance(target, tuple):
            parent, key = target
            if self.writable:
                raise StoreError(
                    "a zip file inside another store is for reading only", path=parent.place(key)
                )
            super().__init__(StoreSource(parent, key), parent.place(key))
            return
        self.path = os.path.realpath(os.fspath(target))
        self.url = os.fspath(target)
        self._seen = _identity(self.path)
        if replace or (mode == "w" and self._seen is None):
            self._source = None
            self._index(())
            self._begin_alone()
            return
        # A new file would replace it, which needs a permission of the folder only.
        if self.writable and self._seen is not None and not os.access(self.path, os.W_OK):
            raise StoreError("cannot open for writing: the file is read-only", path=self.url)
        super().__init__(FileSource(self.path, self.url), self.url)

    def __reduce__(self) -> tuple[type[ZipStore], tuple[str | tuple[Store, str]]]:
        if self.writable:
            raise StoreError("a zip file that is being written cannot go to another process", path=self.url)
        source = self._source
        return type(self), ((source.store, source.key) if isinstance(source, StoreSource) else self.path,)

    # --- reading what is written

    def _open_source(self) -> Source:
        if self._file is not None and self._changed:
            self._file.flush()
        return super()._open_source()

    def get_many(self, keys: Sequence[str]) -> Values:
        with self._lock if self.writable else contextlib.nullcontext():
            return super().get_many(keys)

    def get_ranges(self, requests: Sequence[Request]) -> Values:
        with self._lock if self.writable else contextlib.nullcontext():
            return super().get_ranges(requests)

    def list(self, prefix: str = "") -> Iterator[str]:
        with self._lock:
            return super().list(prefix)

    # --- writing

    def _begin_alone(self) -> None:
        """Begin a new zip file, unless another writer is writing one of the same name.

        The lock on an unfinished file tells it from one that a dead process has left.
        """
        folder = os.path.dirname(self.path)
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise system_error("open for writing", self.url, error) from error
        with in_turn(folder):
            output = self._begin()
            others = [path for path in partials_of(output.target) if path != output.path]
            if any(is_locked(str(path)) for path in others):
                self.discard()
                raise StoreError(
                    "the zip file is being written, here or in another process",
                    path=self.url,
                    hint="close it there",
                ) from BlockingIOError(errno.EWOULDBLOCK, "it is locked")

    def _check_unchanged(self) -> None:
        """Raise an error if the target is not what it was when this store last read or wrote it."""
        if _identity(self.path) != self._seen:
            raise StoreError(
                "another program has changed the zip file meanwhile; it stays as that program left it",
                path=self.url,
                hint="let one program write at a time",
            )

    def _begin(self) -> Output:
        """Open the temporary file that replaces the target later, with a copy of the target's bytes."""
        try:
            output = self._output = Output(self.path)
            file = self._file = output.path.open("x+b")
            self._output_lock = FileLock(str(output.path))
            if self._source is not None:
                for start in range(0, self._source.size(), _PIECE):
                    file.write(self._source.read_many([(start, _PIECE)])[0])
            self._writer = zipfile.ZipFile(file, "a", zipfile.ZIP_STORED, strict_timestamps=False)
            if len(self._writer.infolist()) < len(self._members):
                raise zipfile.BadZipFile("the zip file has changed")
            source = FileSource(str(output.path), self.url)
        except (OSError, zipfile.BadZipFile) as error:
            self._drop()
            raise system_error("open for writing", self.url, error) from error
        if self._source is not None:
            self._source.close()
        self._source = source
        self._index(self._writer.infolist())
        return output

    def _open(self, key: str) -> zipfile.ZipFile:
        self.check_writable(key)
        if self._closed:
            raise StoreError("the store is closed", path=self.place(key))
        if not self._origin.is_here:
            raise StoreError(
                "the zip file was opened for writing before the fork, and belongs to the parent process",
                path=self.place(key),
                hint="open it again in this process",
            )
        if self._writer is None:
            self._check_unchanged()
            self._begin()
        assert self._writer is not None
        return self._writer

    def set(self, key: str, data: Buffer) -> None:
        check_key(key)
        with self._lock:
            writer = self._open(key)
            self._forget(key)
            # The fixed date gives equal files for equal content.
            member = zipfile.ZipInfo(self._prefix + key)
            member.external_attr = 0o644 << 16
            try:
                writer.writestr(member, as_view(data))
            except (OSError, ValueError, struct.error) as error:
                raise system_error("write", self.place(key), error) from error
            if not member.filename.isascii():
                member.flag_bits |= 0x800  # as zipfile writes it: the name is UTF-8
            self._members[key] = member
            self._changed = True

    def delete(self, key: str) -> None:
        self.check_writable(check_key(key))
        with self._lock:
            if key in self._members:
                self._open(key)
                self._forget(key)

    def _forget(self, key: str) -> None:
        member = self._members.pop(key, None)
        if member is not None and self._writer is not None:
            self._starts.pop(key, None)
            self._writer.filelist[:] = [other for other in self._writer.filelist if other is not member]
            self._writer.NameToInfo.pop(member.filename, None)
            # Setting the comment makes zipfile write a new directory.
            self._writer.comment = self._writer.comment
            self._changed = True

    # --- closing

    def discard(self) -> None:
        """Close, and drop all that was written since the last :meth:`sync`."""
        with self._lock:
            self._closed = True
            self._drop()
            if self._target_lock is not None:
                self._target_lock.release()
            super().close()

    def _drop(self) -> None:
        """Remove the temporary file."""
        if self._output_lock is not None:
            self._output_lock.release()
            self._output_lock = None
        if self._file is not None and not self._origin.is_here:
            # A forked child must not flush its copy of the buffer to the parent's file.
            with contextlib.suppress(OSError, ValueError), open(os.devnull, "r+b") as nowhere:
                os.dup2(nowhere.fileno(), self._file.fileno(), inheritable=False)
        if self._writer is not None:
            # The garbage collector would close it after its file.
            with contextlib.suppress(OSError, ValueError):
                self._writer.close()
            self._writer = None
        self._changed = False
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
        if self._output is not None:
            self._output.discard()
            self._output = None

    def sync(self) -> None:
        """Replace the target with all that was written, durably; the store stays open."""
        with self._lock:
            if self._writer is None or not (self._changed and (self._members or self._seen)):
                return
            assert self._output is not None
            assert self._file is not None
            try:
                self._writer.close()
                self._file.flush()
                sync_descriptor(self._file.fileno())
                self._file.close()
                with in_turn(os.path.dirname(self.path)):
                    self._check_unchanged()
                    self._output.commit()
            except BaseException as error:  # after an interrupt, the target may be this store's file
                self.discard()
                if isinstance(error, OSError | ValueError) and not isinstance(error, StoreError):
                    raise system_error("write", self.url, error) from error
                raise
            if self._target_lock is not None:
                self._target_lock.release()
            self._target_lock, self._output_lock = self._output_lock, None
            # The next change begins with a copy; reads use the same file.
            self._writer = self._file = self._output = None
            self._changed = False
            self._seen = _identity(self.path)

    def close(self) -> None:
        try:
            if not self._closed:
                self.sync()
        finally:
            self.discard()

    def __del__(self) -> None:
        if getattr(self, "_changed", False) and self._origin.is_here:
            warnings.warn(
                f"{self.url} was not closed: what was written is lost", ResourceWarning, stacklevel=1
            )
        if getattr(self, "_output", None) is not None:
            self.discard()

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def _identity(path: str) -> tuple[int, ...] | None:
    """Return the inode, time and size of a file; None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
