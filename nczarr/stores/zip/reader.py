"""Read the members of a zip file, from a local file or from a key of another store."""

from __future__ import annotations

import bz2
import contextlib
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from nczarr.errors import DatasetNotFoundError, StoreError
from nczarr.stores.base import DOCUMENTS, Buffer, Request, Store, Values, check_key, clip, start_of
from nczarr.stores.local import system_error
from nczarr.system.descriptors import read_at

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


class Source(Protocol):
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

    def __init__(self, source: Source) -> None:
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
            raise ValueError("negative position")
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


class ZipReader(Store):
    """The members of a zip file, for reading.

    Two forms are read: members named by their keys, and all members below one top folder (as netcdf-c writes it), which
    is not part of the keys. Members may be stored, deflated or bzip2-compressed; parts of stored members are read
    without the rest. Each read of a whole member verifies its checksum.

    Parameters
    ----------
    source : Source
    url : str
        For messages.

    Raises
    ------
    StoreError
        If the file is not a zip file, or its directory is damaged.
    """

    writable = False
    is_one_file = True
    lists_all = True

    def __init__(self, source: Source, url: str) -> None:
        self.url = url
        self._source: Source | None = source
        try:
            with zipfile.ZipFile(io.BufferedReader(_SourceFile(source), 1 << 16)) as archive:
                self._index(archive.infolist())
        except (zipfile.BadZipFile, struct.error, ValueError, OverflowError, NotImplementedError) as error:
            raise StoreError(f"not a readable zip file: {error}", path=self.url) from error

    def _index(self, members: Iterable[zipfile.ZipInfo]) -> None:
        """Find the members by their keys."""
        keys = {}
        for member in members:
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

    def _open_source(self) -> Source:
        if self._source is None:
            raise StoreError("the store is closed", path=self.url)
        return self._source

    # --- reading

    def get(self, key: str) -> bytes | None:
        return self.get_many([key])[0]

    def get_many(self, keys: Sequence[str]) -> Values:
        source = self._open_source()
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
        source = self._open_source()
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

    def _is_stored(self, key: str) -> bool:
        member = self._members.get(check_key(key))
        return member is not None and member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & 1

    def _member(self, key: str, source: Source) -> zipfile.ZipInfo | None:
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
        if not possible or member.header_offset + member.compress_size > source.size():
            stored = f"{size} bytes, of which {member.compress_size} are stored"
            problem = f"the member claims an impossible size, or one above the limit: {stored}"
            raise StoreError(problem, path=self.place(key))
        return member

    def _find_starts(self, keys: set[str], source: Source) -> None:
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
            if header[_HEADER.size :][: int(fields[9])] == name:
                return _HEADER.size + int(fields[9]) + int(fields[10])
        problem = "the zip file is damaged, or has changed: its directory names another place"
        raise StoreError(problem, path=self.place(key))

    def _unpack(self, key: str, member: zipfile.ZipInfo, piece: bytes, source: Source) -> bytes:
        if member.flag_bits & 1:
            raise StoreError("the member is encrypted", path=self.place(key))
        start = self._header_size(key, member, piece)
        data = piece[start : start + member.compress_size]
        missing = member.compress_size - len(data)
        if missing > 0:
            data += source.read_many([(member.header_offset + start + len(data), missing)])[0]
        data = self._decompress(key, member, data)
        if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
            raise StoreError("the member is damaged: its checksum is wrong", path=self.place(key))
        return data

    def _decompress(self, key: str, member: zipfile.ZipInfo, data: bytes) -> bytes:
        try:
            if member.compress_type == zipfile.ZIP_STORED:
                return data
            if member.compress_type == zipfile.ZIP_DEFLATED:
                if member.file_size > _LARGEST_RATIO * len(data) + 64:
                    raise StoreError("the member claims an impossible size", path=self.place(key))
                # One byte more than the claimed size reveals a wrong size.
                return zlib.decompressobj(-15).decompress(data, member.file_size + 1)
            if member.compress_type == zipfile.ZIP_BZIP2:
                return bz2.BZ2Decompressor().decompress(data, member.file_size + 1)
        except (zlib.error, OSError, ValueError) as error:
            raise StoreError(f"the member is damaged: {error}", path=self.place(key)) from error
        raise StoreError(f"compression method {member.compress_type} is not supported", path=self.place(key))

    # --- listing and writing

    def list(self, prefix: str = "") -> Iterator[str]:
        start = start_of(prefix)
        return iter(sorted(key for key in self._members if key.startswith(start)))

    def set(self, key: str, data: Buffer) -> None:
        self.check_writable(key)

    def delete(self, key: str) -> None:
        self.check_writable(check_key(key))

    def close(self) -> None:
        if self._source is not None:
            self._source.close()


def _top_folder(keys: Iterable[str]) -> str:
    """Return the one folder that contains all keys, with its slash; empty if the keys begin at the top."""
    tops = {key.partition("/")[0] for key in keys}
    if len(tops) != 1:
        return ""
    top = f"{tops.pop()}/"
    # Only a top folder with a document is the root of a hierarchy.
    return top if any(top + name in keys for name in DOCUMENTS) else ""


def _raw_name(member: zipfile.ZipInfo) -> bytes:
    """Return the name of a member as it is in the file."""
    return member.orig_filename.encode("utf-8" if member.flag_bits & 0x800 else "cp437")
