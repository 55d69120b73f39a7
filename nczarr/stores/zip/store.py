"""Keep keys and values as the members of a zip file."""

from __future__ import annotations

import bz2
import contextlib
import errno
import io
import os
import struct
import threading
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from nczarr.errors import StoreError
from nczarr.stores.base import (
    Buffer,
    Names,
    Request,
    Store,
    Values,
    as_view,
    check_key,
    check_prefix,
    clip,
    split_names,
)
from nczarr.stores.zip.source import FileSource, Source, StoreSource
from nczarr.system.atomic import Output, partials_of
from nczarr.system.durability import sync_descriptor
from nczarr.system.forks import inheriting
from nczarr.system.locks import Lock, in_turn, is_locked

#: Objects whose locks are renewed in a forked child.
_INHERITING = inheriting()

_HEADER = struct.Struct("<4s5H3I2H")  # of a member, before its name
_MAGIC = b"PK\3\4"
# Room for the "extra" field when header and data are fetched in one piece.
_SLACK = 128
_PIECE = 1 << 20  # copied at a time
# Names that make a top folder the root of a hierarchy.
_ROOT_DOCUMENTS = frozenset({"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata", ".nczarr"})
# Deflate cannot do better, so a member that claims more is damaged or malicious.
_LARGEST_RATIO = 1032

#: Most bytes that a compressed member may have: a small file must not fill the memory.
MAX_COMPRESSED = 4 << 30
#: Most bytes that a compressed metadata document may have.
MAX_COMPRESSED_DOCUMENT = 256 << 20


class ZipStore(Store):
    """The members of a zip file.

    Both usual forms are read: members named by their keys, and all members below one top folder (as netcdf-c
    writes it), which is then not part of the keys. Members may be stored, deflated or bzip2-compressed; parts of
    stored members are read without the rest. Checksums are verified whenever a member is read whole.

    Writing appends: new members are stored uncompressed. A key that is set again or deleted loses its place in the
    directory of the zip file, but its bytes stay. All goes to a temporary file beside the target, which takes the
    target's place at :meth:`sync` and when the store is closed; leaving a ``with`` block by an error leaves the
    target as it was at the last :meth:`sync`. A target that another program has changed since it was opened is not
    replaced: the first change is refused, or the :meth:`sync`.

    Parameters
    ----------
    target : path, or (Store, str)
        A local file; or a key of another store, for reading.
    mode : {"r", "r+", "w"}
        ``"r"`` and ``"r+"`` need an existing file; ``"w"`` creates it if it does not exist.
    replace : bool
        Begin with an empty zip file; the one that exists is there until the new one takes its place.

    Raises
    ------
    DatasetNotFoundError
        There is no such file.
    StoreError
        The file is no zip file, or its directory is damaged.

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

    is_one_file = True
    lists_all = True

    def __init__(
        self, target: str | os.PathLike[str] | tuple[Store, str], mode: str = "r", *, replace: bool = False
    ) -> None:
        self.inherit()
        _INHERITING.add(self)
        self._process = os.getpid()
        self._writer: zipfile.ZipFile | None = None
        self._file: Any = None
        self._output: Output | None = None
        self._seen: tuple[int, ...] | None = None  # which file the target was when it was last looked at
        self._path = ""
        #: Locks of what is under the name and of what is to take its place, if this store wrote them.
        self._hold: Lock | None = None
        self._next_hold: Lock | None = None
        self._changed = self._closed = False
        self.writable = mode != "r"
        self._prefix = ""
        self._members: dict[str, zipfile.ZipInfo] = {}
        self._starts: dict[str, int] = {}
        self._source: Source | None = None
        if isinstance(target, tuple):
            parent, key = target
            self.url = parent.place(key)
            if self.writable:
                raise StoreError("a zip file inside another store is for reading only", path=self.url)
            self._source = StoreSource(parent, key)
        else:
            self._path = os.path.realpath(os.fspath(target))
            self.url = os.fspath(target)
            self._seen = _identity(self._path)
            if replace or (mode == "w" and self._seen is None):
                self._begin_alone()
                return
            # It would be replaced by a new file, which asks for permission in the folder only.
            if self.writable and self._seen is not None and not os.access(self._path, os.W_OK):
                raise StoreError("cannot open for writing: the file is read-only", path=self.url)
            self._source = FileSource(self._path, self.url)
        self._read_directory(self._source)

    def inherit(self) -> None:
        """Renew the lock in a forked child."""
        self._lock = threading.RLock()

    @property
    def path(self) -> str:
        """The local file; empty if the zip file is in another store."""
        return self._path

    def __reduce__(self) -> Any:
        if self.writable:
            raise StoreError("a zip file that is being written cannot go to another process", path=self.url)
        target: Any = (
            (self._source.store, self._source.key) if isinstance(self._source, StoreSource) else self._path
        )
        return (type(self), (target,))

    # --- the directory

    def _read_directory(self, source: Source) -> None:
        try:
            with zipfile.ZipFile(io.BufferedReader(source.as_file(), 1 << 16)) as archive:
                members = archive.infolist()
        except (zipfile.BadZipFile, struct.error, ValueError, OverflowError, NotImplementedError) as error:
            raise StoreError(f"not a readable zip file: {error}", path=self.url) from error
        self._take(members)

    def _take(self, members: list[zipfile.ZipInfo]) -> None:
        keys = {}
        for member in members:
            # netcdf-c has written names with a leading slash; a later member of the same name wins.
            name = member.filename.lstrip("/")
            if name and not name.endswith("/"):
                with contextlib.suppress(StoreError):  # "../x" and the like name nothing here
                    keys[check_key(name)] = member
        self._prefix = _top_folder(keys)
        skip = len(self._prefix)
        self._members = {key[skip:]: member for key, member in keys.items() if len(key) > skip}
        self._starts = {}

    # --- reading

    def get(self, key: str) -> bytes | None:
        return self.get_many([key])[0]

    def get_many(self, keys: Sequence[str]) -> Values:
        with self._lock if self.writable else contextlib.nullcontext():
            source = self._readable()
            wanted = [(key, self._member(key, source)) for key in keys]
            pieces = [
                (
                    member.header_offset,
                    _HEADER.size + len(_raw_name(member)) + _SLACK + member.compress_size,
                )
                for _, member in wanted
                if member is not None
            ]
            found = iter(source.read_many(pieces))
            return [
                None if member is None else self._unpack(key, member, next(found), source)
                for key, member in wanted
            ]

    def get_range(self, key: str, start: int, length: int | None = None) -> bytes | None:
        return self.get_ranges([(key, start, length)])[0]

    def get_ranges(self, requests: Sequence[Request]) -> Values:
        with self._lock if self.writable else contextlib.nullcontext():
            source = self._readable()
            self._find_starts({key for key, _, _ in requests if self._is_stored(key)}, source)
            whole = [key for key, _, _ in requests if not self._is_stored(key)]
            values = dict(zip(whole, self.get_many(whole), strict=True)) if whole else {}
            pieces = []
            for key, start, length in requests:
                if key not in values:
                    first, last = clip(self._members[key].file_size, start, length)
                    pieces.append((self._starts[key] + first, last - first))
            found = iter(source.read_many(pieces))
            result: Values = []
            for key, start, length in requests:
                if key not in values:
                    result.append(next(found))
                    continue
                value = values[key]
                if value is not None:
                    first, last = clip(len(value), start, length)
                    value = value[first:last]
                result.append(value)
            return result

    def size(self, key: str) -> int | None:
        member = self._members.get(check_key(key))
        return None if member is None else member.file_size

    def exists(self, key: str) -> bool:
        return check_key(key) in self._members

    def _is_stored(self, key: str) -> bool:
        member = self._members.get(check_key(key))
        return member is not None and member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & 1

    def _member(self, key: str, source: Source) -> zipfile.ZipInfo | None:
        """Return the entry of a key, once it is sure that reading it cannot ask for more than there is."""
        member = self._members.get(check_key(key))
        if member is None:
            return None
        size = member.file_size
        if member.compress_type == zipfile.ZIP_STORED:
            possible = size == member.compress_size or bool(member.flag_bits & 1)
        else:
            possible = size <= (MAX_COMPRESSED_DOCUMENT if _is_document(key) else MAX_COMPRESSED)
        if not possible or member.header_offset + member.compress_size > source.size():
            raise StoreError(
                f"the member claims an impossible size, or one above the limit: {size} bytes, of which"
                f" {member.compress_size} are stored",
                path=self.place(key),
            )
        return member

    def _find_starts(self, keys: set[str], source: Source) -> None:
        unknown = sorted(key for key in keys if key not in self._starts)  # others may add to them meanwhile
        members = [self._member(key, source) for key in unknown]
        headers = source.read_many(
            [(member.header_offset, _HEADER.size + len(_raw_name(member))) for member in members if member]
        )
        for key, member, header in zip(unknown, members, headers, strict=True):
            assert member is not None
            self._starts[key] = member.header_offset + self._header_size(key, member, header)

    def _header_size(self, key: str, member: zipfile.ZipInfo, header: bytes) -> int:
        name = _raw_name(member)
        if len(header) >= _HEADER.size and header[:4] == _MAGIC:
            fields = _HEADER.unpack_from(header)
            if header[_HEADER.size :][: int(fields[9])] == name:
                return _HEADER.size + int(fields[9]) + int(fields[10])
        raise StoreError(
            "the zip file is damaged, or has changed: its directory names another place", path=self.place(key)
        )

    def _unpack(self, key: str, member: zipfile.ZipInfo, piece: bytes, source: Source) -> bytes:
        if member.flag_bits & 1:
            raise StoreError("the member is encrypted", path=self.place(key))
        start = self._header_size(key, member, piece)
        data = piece[start : start + member.compress_size]
        missing = member.compress_size - len(data)
        if missing > 0:
            data += source.read_many([(member.header_offset + start + len(data), missing)])[0]
        if member.compress_type != zipfile.ZIP_STORED:
            data = self._decompress(key, member, data)
        if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
            raise StoreError("the member is damaged: its checksum is wrong", path=self.place(key))
        return data

    def _decompress(self, key: str, member: zipfile.ZipInfo, data: bytes) -> bytes:
        try:
            if member.compress_type == zipfile.ZIP_DEFLATED:
                if member.file_size > _LARGEST_RATIO * len(data) + 64:
                    raise StoreError("the member claims an impossible size", path=self.place(key))
                # One byte more than there should be, to notice a wrong size.
                return zlib.decompressobj(-15).decompress(data, member.file_size + 1)
            if member.compress_type == zipfile.ZIP_BZIP2:
                return bz2.BZ2Decompressor().decompress(data, member.file_size + 1)
        except (zlib.error, OSError, ValueError) as error:
            raise StoreError(f"the member is damaged: {error}", path=self.place(key)) from error
        raise StoreError(f"compression method {member.compress_type} is not supported", path=self.place(key))

    # --- writing

    def _begin_alone(self) -> None:
        """Begin a new zip file, unless somebody else is writing one of the same name.

        What is unfinished is locked, so that it can be told from what a process left that died.
        """
        folder = os.path.dirname(self._path)
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot open for writing: {_reason(error)}", path=self.url) from error
        with in_turn(folder):
            self._begin()
            assert self._output is not None
            others = [path for path in partials_of(self._output.target) if path != self._output.path]
            if any(is_locked(str(path)) for path in others):
                self.discard()
                raise StoreError(
                    "the zip file is being written, here or in another process",
                    path=self.url,
                    hint="close it there",
                ) from BlockingIOError(errno.EWOULDBLOCK, "it is locked")

    def _refuse_changed(self) -> None:
        """Raise an error if the target is not what it was when this store last read or wrote it."""
        if _identity(self._path) != self._seen:
            raise StoreError(
                "another program has changed the zip file meanwhile; it stays as that program left it",
                path=self.url,
                hint="let one program write at a time",
            )

    def _begin(self) -> None:
        """Open the temporary file that takes the target's place later, with all that the target has now."""
        try:
            self._output = Output(self._path)
            self._file = self._output.path.open("x+b")
            self._next_hold = Lock(str(self._output.path))
            if self._source is not None:
                for start in range(0, self._source.size(), _PIECE):
                    self._file.write(self._source.read_many([(start, _PIECE)])[0])
            self._writer = zipfile.ZipFile(self._file, "a", zipfile.ZIP_STORED, strict_timestamps=False)
            if len(self._writer.infolist()) < len(self._members):
                raise zipfile.BadZipFile("the zip file has changed")
            source = FileSource(str(self._output.path), self.url)
        except (OSError, zipfile.BadZipFile) as error:
            self._drop()
            raise StoreError(f"cannot open for writing: {_reason(error)}", path=self.url) from error
        if self._source is not None:
            self._source.close()
        self._source = source
        self._take(self._writer.infolist())

    def _readable(self) -> Source:
        if self._writer is not None and self._changed:
            self._file.flush()
        if self._source is None:
            raise StoreError("the store is closed", path=self.url)
        return self._source

    def _open(self, key: str) -> zipfile.ZipFile:
        self.check_writable(key)
        if self._closed:
            raise StoreError("the store is closed", path=self.place(key))
        if self._writer is None:
            self._refuse_changed()
            self._begin()
        assert self._writer is not None
        return self._writer

    def set(self, key: str, data: Buffer) -> None:
        check_key(key)
        with self._lock:
            writer = self._open(key)
            self._forget(key)
            # With a fixed date, so that equal content gives equal files.
            member = zipfile.ZipInfo(self._prefix + key)
            member.external_attr = 0o644 << 16
            try:
                writer.writestr(member, as_view(data))
            except (OSError, ValueError, struct.error) as error:
                raise StoreError(f"cannot write: {_reason(error)}", path=self.place(key)) from error
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
            # Setting the comment makes zipfile write the directory anew.
            self._writer.comment = self._writer.comment
            self._changed = True

    # --- listing and closing

    def list(self, prefix: str = "") -> Iterator[str]:
        prefix = check_prefix(prefix)
        start = f"{prefix}/" if prefix else ""
        with self._lock:
            return iter(sorted(key for key in self._members if key.startswith(start)))

    def list_dir(self, prefix: str = "") -> Names:
        prefix = check_prefix(prefix)
        skip = len(prefix) + 1 if prefix else 0
        return split_names(key[skip:] for key in self.list(prefix))

    def discard(self) -> None:
        """Close without keeping what was written since the last :meth:`sync`."""
        with self._lock:
            self._closed = True
            self._drop()
            self._release()
            if self._source is not None:
                self._source.close()

    def _release(self) -> None:
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    def _drop(self) -> None:
        """Remove the temporary file."""
        if self._next_hold is not None:
            self._next_hold.release()
            self._next_hold = None
        if self._file is not None and os.getpid() != self._process:
            # A forked child: what its buffers hold must not get into the parent's file.
            with contextlib.suppress(OSError, ValueError), open(os.devnull, "r+b") as nowhere:
                os.dup2(nowhere.fileno(), self._file.fileno(), inheritable=False)
        if self._writer is not None:
            # Left open, it would be closed by the garbage collector, after its file.
            with contextlib.suppress(OSError, ValueError):
                self._writer.close()
            self._writer = None
        self._changed = False
        if self._file is not None:
            with contextlib.suppress(OSError):  # what could not be flushed is not wanted either
                self._file.close()
            self._file = None
        if self._output is not None:
            self._output.discard()
            self._output = None

    def sync(self) -> None:
        """Put all that was written into the target's place, durably; the store stays open."""
        with self._lock:
            if self._writer is None or not (self._changed and (self._members or self._seen)):
                return
            assert self._output is not None
            try:
                self._writer.close()
                self._file.flush()
                sync_descriptor(self._file.fileno())
                self._file.close()
                with in_turn(os.path.dirname(self._path)):
                    self._refuse_changed()
                    self._output.commit()
            except StoreError:
                self.discard()
                raise
            except (OSError, ValueError) as error:
                self.discard()
                raise StoreError(f"cannot write: {_reason(error)}", path=self.url) from error
            except BaseException:  # an interrupt may come after the renaming: this is no other program's file
                self.discard()
                raise
            self._release()
            self._hold, self._next_hold = self._next_hold, None
            # The next change begins with a copy; reading goes on from the same file.
            self._writer = self._file = self._output = None
            self._changed = False
            self._seen = _identity(self._path)

    def close(self) -> None:
        try:
            if not self._closed:
                self.sync()
        finally:
            self.discard()

    def __del__(self) -> None:
        if getattr(self, "_changed", False) and os.getpid() == self._process:
            warnings.warn(
                f"{self.url} was not closed: what was written is lost", ResourceWarning, stacklevel=1
            )
        if getattr(self, "_output", None) is not None:
            self.discard()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _top_folder(keys: Any) -> str:
    """Return the one folder that holds everything, with its slash; empty if the keys begin at the top."""
    tops = {key.partition("/")[0] for key in keys}
    if len(tops) != 1:
        return ""
    top = f"{tops.pop()}/"
    return top if any(top + name in keys for name in _ROOT_DOCUMENTS) else ""


def _is_document(key: str) -> bool:
    return key.rpartition("/")[2] in _ROOT_DOCUMENTS


def _raw_name(member: zipfile.ZipInfo) -> bytes:
    """Return a member's name as it is in the file."""
    return member.orig_filename.encode("utf-8" if member.flag_bits & 0x800 else "cp437")


def _identity(path: str) -> tuple[int, ...] | None:
    """Return what tells one state of a file from another; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
