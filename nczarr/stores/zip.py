"""Keep keys and values as the members of a zip file, which a new file replaces when it is complete."""

from __future__ import annotations

import bz2
import contextlib
import errno
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

from nczarr.errors import DatasetNotFoundError, StoreError
from nczarr.stores.base import (
    DOCUMENTS,
    Answers,
    Buffer,
    Request,
    Store,
    Values,
    as_view,
    check_key,
    clip,
    start_of,
)
from nczarr.system.atomic import Output, partials_of
from nczarr.system.descriptors import read_at
from nczarr.system.durability import sync_descriptor
from nczarr.system.failures import system_error
from nczarr.system.forks import Origin
from nczarr.system.locks import FileLock, Rank, in_turn, is_locked, make_lock
from nczarr.system.warning import warn

#: Bytes at the end of a remote zip file that are fetched first: its directory is there.
_TAIL = 1 << 17
_HEADER = struct.Struct("<4s5H3I2H")  # of a member, before its name
_MAGIC = b"PK\3\4"
#: Room for the "extra" field when header and data are fetched in one piece.
_SLACK = 128
#: Deflate compresses no better, so a member that claims more is damaged or malicious.
_LARGEST_RATIO = 1032

#: Maximum size in bytes of a compressed member: a small file must not fill the memory.
MAX_COMPRESSED = 4 << 30
#: Maximum size in bytes of a compressed metadata document.
MAX_COMPRESSED_DOCUMENT = 256 << 20


class ByteSource(Protocol):
    """Bytes at positions."""

    def read_many(self, pieces: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return pieces, each by start and length; cut short at the end of the file."""

    def size(self) -> int:
        """Return the number of bytes."""

    def close(self) -> None:
        """Close the file."""


class FileSource:
    """A local file. It stays open, so that replacing it does not disturb readers."""

    def __init__(self, path: str, url: str) -> None:
        self._url = url
        try:
            self._file = io.FileIO(path)
        except FileNotFoundError as error:
            raise DatasetNotFoundError("no such file", path=url) from error
        except OSError as error:
            raise system_error("open", url, error) from error

    def _descriptor(self) -> int:
        if self._file.closed:
            raise StoreError("the store is closed", path=self._url)
        return self._file.fileno()

    def read_many(self, pieces: Sequence[tuple[int, int]]) -> list[bytes]:
        if not pieces:
            return []
        descriptor = self._descriptor()
        try:
            return [read_at(descriptor, start, length) for start, length in pieces]
        except OSError as error:
            raise system_error("read", self._url, error) from error

    def size(self) -> int:
        return os.fstat(self._descriptor()).st_size

    def close(self) -> None:
        self._file.close()


class StoreSource:
    """A key of another store."""

    def __init__(self, store: Store, key: str) -> None:
        self.store = store
        self.key = key
        self._size: int | None = None

    def read_many(self, pieces: Sequence[tuple[int, int]]) -> list[bytes]:
        values = self.store.get_ranges([(self.key, start, length) for start, length in pieces])
        found = [value for value in values if value is not None]
        if len(found) != len(values):
            raise DatasetNotFoundError("no such file", path=self.store.place(self.key))
        return found

    def size(self) -> int:
        if self._size is None:
            self._size = self.store.size(self.key)
        if self._size is None:
            raise DatasetNotFoundError("no such file", path=self.store.place(self.key))
        return self._size

    def close(self) -> None:
        pass


class _SourceFile(io.RawIOBase):
    """A read-only file over a source, for the directory. One request fetches the bytes near its end."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._size = source.size()
        self._position = 0
        self._tail_start = max(self._size - _TAIL, 0)
        self._tail: bytes | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            # zipfile expects the error of a file.
            raise OSError(errno.EINVAL, "negative position")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        first, last = clip(self._size, self._position, len(buffer))
        if first == last:
            return 0
        if self._tail is None:
            self._tail = self._source.read_many([(self._tail_start, self._size - self._tail_start)])[0]
        if first >= self._tail_start:
            data = self._tail[first - self._tail_start : last - self._tail_start]
        else:
            data = self._source.read_many([(first, last - first)])[0]
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


#: Bytes that are copied at a time.
_PIECE = 1 << 20


class ZipStore(Store):
    """The members of a zip file.

    Two forms are read: members named by their keys, and all members below one top folder (as netcdf-c writes it), which
    is not part of the keys. Members may be stored, deflated or bzip2-compressed; parts of stored members are read
    without the rest. Each read of a whole member verifies its checksum.

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

    is_one_file = True
    lists_all = lists_free = lists_sizes = True

    def __init__(
        self, target: str | os.PathLike[str] | tuple[Store, str], mode: str = "r", *, replace: bool = False
    ) -> None:
        self._lock = make_lock(Rank.STORE)
        self._origin = Origin()
        self._source: ByteSource | None = None
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
            self.url = parent.place(key)
            self._read_directory(StoreSource(parent, key))
            return
        self.path = os.path.realpath(os.fspath(target))
        self.url = os.fspath(target)
        self._seen = _identity(self.path)
        if replace or (mode == "w" and self._seen is None):
            self._index(())
            self._begin_alone()
            return
        # A new file would replace it, which needs a permission of the folder only.
        if self.writable and self._seen is not None and not os.access(self.path, os.W_OK):
            raise StoreError("cannot open for writing: the file is read-only", path=self.url)
        self._read_directory(FileSource(self.path, self.url))

    def __reduce__(self) -> tuple[type[ZipStore], tuple[str | tuple[Store, str]]]:
        if self.writable:
            raise StoreError("a zip file that is being written cannot go to another process", path=self.url)
        source = self._source
        return type(self), ((source.store, source.key) if isinstance(source, StoreSource) else self.path,)

    def _read_directory(self, source: ByteSource) -> None:
        self._source = source
        # An empty file is no damaged zip file: its writer was killed, or has it open.
        if not source.size():
            hint = "the program that wrote it has not finished; remove it, and write it again"
            raise StoreError("the zip file is empty: it has no bytes", path=self.url, hint=hint)
        try:
            with zipfile.ZipFile(io.BufferedReader(_SourceFile(source), 1 << 16)) as archive:
                self._index(archive.infolist())
        except (zipfile.BadZipFile, struct.error, ValueError, OverflowError, NotImplementedError) as error:
            raise StoreError(f"not a readable zip file: {error}", path=self.url) from error

    def _index(self, members: Iterable[zipfile.ZipInfo]) -> None:
        """Find the members by their keys."""
        keys = {}
        for member in members:
            # zipfile writes the directory with this name, in UTF-8.
            member.filename = member_name(member)
            # netcdf-c has written names with a leading slash; a later member of the same name wins.
            name = member.filename.lstrip("/")
            if name and not name.endswith("/"):
                with contextlib.suppress(StoreError):  # "../x" and the like are not keys
                    keys[check_key(name)] = member
        #: The folder of all members, with its slash.
        self._prefix = _top_folder(keys)
        skip = len(self._prefix)
        self._members = {key[skip:]: member for key, member in keys.items() if len(key) > skip}
        #: Positions of the data of stored members, as far as they are known.
        self._starts: dict[str, int] = {}

    def _open_source(self) -> ByteSource:
        if self._source is None:
            raise StoreError("the store is closed", path=self.url)
        if self._file is not None and self._changed:
            self._file.flush()
        return self._source

    def _turn(self) -> AbstractContextManager[object]:
        """Return a block in which no other thread writes."""
        return self._lock if self.writable else contextlib.nullcontext()

    # --- reading

    def get(self, key: str) -> bytes | None:
        return self.get_many([key])[0]

    def get_many(self, keys: Sequence[str]) -> Values:
        with self._turn():
            return self._get_many(keys, self._open_source())

    def _get_many(self, keys: Sequence[str], source: ByteSource) -> Values:
        members = [(key, self._member(key, source)) for key in keys]
        pieces = [
            (member.header_offset, _HEADER.size + len(_raw_name(member)) + _SLACK + member.compress_size)
            for _, member in members
            if member is not None
        ]
        found = iter(source.read_many(pieces))
        return [
            None if member is None else self._unpack(key, member, next(found), source)
            for key, member in members
        ]

    def get_range(self, key: str, start: int, length: int | None = None) -> bytes | None:
        return self.get_ranges([(key, start, length)])[0]

    def get_ranges(self, requests: Sequence[Request]) -> Values:
        with self._turn():
            return self._get_ranges(requests, self._open_source())

    def _get_ranges(self, requests: Sequence[Request], source: ByteSource) -> Values:
        self._find_starts({key for key, _, _ in requests if self._is_stored(key)}, source)
        whole = [key for key, _, _ in requests if not self._is_stored(key)]
        values = dict(zip(whole, self._get_many(whole, source), strict=True)) if whole else {}
        pieces = []
        for key, start, length in requests:
            if key not in values:
                first, last = clip(self._members[key].file_size, start, length)
                pieces.append((self._starts[key] + first, last - first))
        found = iter(source.read_many(pieces))
        result: Values = []
        for key, start, length in requests:
            value = values[key] if key in values else next(found)
            if value is not None and key in values:
                value = value[slice(*clip(len(value), start, length))]
            result.append(value)
        return result

    def size(self, key: str) -> int | None:
        member = self._members.get(check_key(key))
        return None if member is None else member.file_size

    def exists(self, key: str) -> bool:
        return check_key(key) in self._members

    def exist_many(self, keys: Sequence[str]) -> Answers:
        members = self._members
        return [key in members for key in keys]

    def _is_stored(self, key: str) -> bool:
        member = self._members.get(check_key(key))
        return member is not None and member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & 1

    def _member(self, key: str, source: ByteSource) -> zipfile.ZipInfo | None:
        """Return the entry of a key after checking that it claims no more bytes than there can be."""
        member = self._members.get(check_key(key))
        if member is None:
            return None
        size = member.file_size
        if member.compress_type == zipfile.ZIP_STORED:
            possible = size == member.compress_size or bool(member.flag_bits & 1)
        else:
            is_document = key.rpartition("/")[2] in DOCUMENTS
            possible = size <= (MAX_COMPRESSED_DOCUMENT if is_document else MAX_COMPRESSED)
        # A damaged or hostile directory would make this program reserve any number of bytes (trial zip_files.py).
        if not possible or member.header_offset + member.compress_size > source.size():
            stored = f"{size} bytes, of which {member.compress_size} are stored"
            problem = f"the member claims an impossible size, or one above the limit: {stored}"
            raise StoreError(problem, path=self.place(key))
        return member

    def _find_starts(self, keys: set[str], source: ByteSource) -> None:
        unknown = sorted(key for key in keys if key not in self._starts)  # another thread may add to them
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
            # A file that was replaced while it is open has another member here: its bytes are values of another key
            # (tests/stores/test_zip.py).
            if header[_HEADER.size :][: int(fields[9])] == name:
                return _HEADER.size + int(fields[9]) + int(fields[10])
        problem = "the zip file is damaged, or has changed: its directory names another place"
        raise StoreError(problem, path=self.place(key))

    def _unpack(self, key: str, member: zipfile.ZipInfo, piece: bytes, source: ByteSource) -> bytes:
        if member.flag_bits & 1:
            raise StoreError("the member is encrypted", path=self.place(key))
        start = self._header_size(key, member, piece)
        data = piece[start : start + member.compress_size]
        missing = member.compress_size - len(data)
        # The extra field before the bytes is longer than the slack: some writers align members with it.
        if missing > 0:
            data += source.read_many([(member.header_offset + start + len(data), missing)])[0]
        data = self._decompress(key, member, data)
        # A flipped bit is an error, and not a value (trial zip_files.py).
        if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
            raise StoreError("the member is damaged: its checksum is wrong", path=self.place(key))
        return data

    def _decompress(self, key: str, member: zipfile.ZipInfo, data: bytes) -> bytes:
        try:
            if member.compress_type == zipfile.ZIP_STORED:
                return data
            if member.compress_type == zipfile.ZIP_DEFLATED:
                # Deflate cannot do more, so a larger claim only asks for memory.
                if member.file_size > _LARGEST_RATIO * len(data) + 64:
                    raise StoreError("the member claims an impossible size", path=self.place(key))
                # One byte more than the claimed size reveals a wrong size.
                return zlib.decompressobj(-15).decompress(data, member.file_size + 1)
            if member.compress_type == zipfile.ZIP_BZIP2:
                return bz2.BZ2Decompressor().decompress(data, member.file_size + 1)
        except (zlib.error, OSError, ValueError) as error:
            raise StoreError(f"the member is damaged: {error}", path=self.place(key)) from error
        raise StoreError(f"compression method {member.compress_type} is not supported", path=self.place(key))

    def list(self, prefix: str = "") -> Iterator[str]:
        start = start_of(prefix)
        with self._lock:
            return iter(sorted(key for key in self._members if key.startswith(start)))

    # --- writing

    def _begin_alone(self) -> None:
        """Begin a new zip file, unless another writer is writing one of the same name.

        The lock on an unfinished file tells it from one that a dead process has left.
        """
        folder = os.path.dirname(self.path)
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise system_error("open for writing", self.url, error, self.path) from error
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
            file = self._file = output.open()
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
            raise system_error("open for writing", self.url, error, self.path) from error
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
            if self._source is not None:
                self._source.close()

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
                    raise system_error("write", self.url, error, self.path) from error
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
            warn(f"{self.url} was not closed: what was written is lost", ResourceWarning)
        if getattr(self, "_output", None) is not None:
            self.discard()

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def _top_folder(keys: Iterable[str]) -> str:
    """Return the one folder that contains all keys, with its slash; empty if the keys begin at the top."""
    tops = {key.partition("/")[0] for key in keys}
    if len(tops) != 1:
        return ""
    top = f"{tops.pop()}/"
    # Only a top folder with a document is the root of a hierarchy.
    return top if any(top + name in keys for name in DOCUMENTS) else ""


#: The systems of `made by` whose programs write names in UTF-8: Unix and macOS.
_UNIX = frozenset({3, 19})
#: The extra field with the name in UTF-8: identifier, version, and checksum of the name in the directory.
_UNICODE_PATH = 0x7075


def member_name(member: zipfile.ZipInfo) -> str:
    """Return the name of a member as its archiver meant it.

    Without the flag for UTF-8, the name is in the code page 437 by the specification. Info-ZIP on Unix writes the bytes
    of the file's name there, in UTF-8, and other archivers add the name in UTF-8 as an extra field.

    Examples
    --------
    >>> member = zipfile.ZipInfo("é".encode().decode("cp437"))
    >>> member.create_system = 3
    >>> member_name(member)
    'é'
    """
    if member.flag_bits & 0x800 or member.orig_filename.isascii():
        return member.filename
    raw = _raw_name(member)
    named = _unicode_path(member.extra, raw)
    if named is not None:
        return named
    if member.create_system in _UNIX:
        with contextlib.suppress(UnicodeDecodeError):
            return raw.decode()
    return member.filename


def _unicode_path(extra: bytes, raw: bytes) -> str | None:
    """Return the name in an extra field that belongs to the name `raw`; None if there is none."""
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        content, extra = extra[4 : 4 + size], extra[4 + size :]
        if kind == _UNICODE_PATH and content[:5] == struct.pack("<BL", 1, zlib.crc32(raw)):
            with contextlib.suppress(UnicodeDecodeError):
                return content[5:].decode()
    return None


def _raw_name(member: zipfile.ZipInfo) -> bytes:
    """Return the name of a member as it is in the file."""
    return member.orig_filename.encode("utf-8" if member.flag_bits & 0x800 else "cp437")


def _identity(path: str) -> tuple[int, ...] | None:
    """Return the inode, time and size of a file; None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
