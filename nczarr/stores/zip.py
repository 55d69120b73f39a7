"""A store in a zip file."""

from __future__ import annotations

import bz2
import contextlib
import io
import os
import shutil
import struct
import threading
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from nczarr.errors import DatasetNotFoundError, StoreError
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
from nczarr.stores.local import temporary_name
from nczarr.stores.zip_source import FileSource, Source, StoreSource

_HEADER = struct.Struct("<4s5H3I2H")  # of a member, before its name
_MAGIC = b"PK\3\4"
# Room for the "extra" field when header and data are fetched in one piece.
_SLACK = 128
# Names that make a top folder the root of a hierarchy.
_ROOT_DOCUMENTS = frozenset({"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata", ".nczarr"})
# Deflate cannot do better, so a member that claims more is damaged or malicious.
_LARGEST_RATIO = 1032


class ZipStore(Store):
    """The members of a zip file.

    Both usual forms are read: members named by their keys, and all members below one top folder (as netcdf-c
    writes it), which is then not part of the keys. Members may be stored, deflated or bzip2-compressed; parts of
    stored members are read without the rest. Checksums are verified whenever a member is read whole.

    Writing appends: new members are stored uncompressed. A key that is set again or deleted loses its place in the
    directory of the zip file, but its bytes stay. All goes to a temporary file beside the target, which takes the
    target's place when the store is closed; leaving a ``with`` block by an error leaves the target as it was.

    Parameters
    ----------
    target : path, or (Store, str)
        A local file; or a key of another store, for reading.
    mode : {"r", "r+", "w"}
        ``"r"`` and ``"r+"`` need an existing file; ``"w"`` creates it if it does not exist.

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

    def __init__(self, target: str | os.PathLike[str] | tuple[Store, str], mode: str = "r") -> None:
        self._lock = threading.RLock()
        self._writer: zipfile.ZipFile | None = None
        self._file: Any = None
        self._path = self._temporary = ""
        self._changed = False
        self.writable = mode != "r"
        self._prefix = ""
        self._source: Source
        if isinstance(target, tuple):
            parent, key = target
            self.url = parent.place(key)
            if self.writable:
                raise StoreError("a zip file inside another store is for reading only", path=self.url)
            self._source = StoreSource(parent, key)
        else:
            self._path = os.path.abspath(os.fspath(target))
            self.url = os.fspath(target)
            if self.writable:
                self._open_writer(create=mode == "w")
                return
            self._source = FileSource(self._path, self.url)
        self._read_directory()

    def __reduce__(self) -> Any:
        if self.writable:
            raise StoreError("a zip file that is being written cannot go to another process", path=self.url)
        target: Any = (
            (self._source.store, self._source.key) if isinstance(self._source, StoreSource) else self._path
        )
        return (type(self), (target,))

    # --- the directory

    def _read_directory(self) -> None:
        try:
            with zipfile.ZipFile(io.BufferedReader(self._source.as_file(), 1 << 16)) as archive:
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
        self._starts: dict[str, int] = {}

    # --- reading

    def get(self, key: str) -> bytes | None:
        return self.get_many([key])[0]

    def get_many(self, keys: Sequence[str]) -> Values:
        with self._lock if self.writable else contextlib.nullcontext():
            self._flush()
            wanted = [(key, self._members.get(check_key(key))) for key in keys]
            pieces = [
                (
                    member.header_offset,
                    _HEADER.size + len(member.orig_filename.encode()) + _SLACK + member.compress_size,
                )
                for _, member in wanted
                if member is not None
            ]
            found = iter(self._source.read_many(pieces))
            return [
                None if member is None else self._unpack(key, member, next(found)) for key, member in wanted
            ]

    def get_range(self, key: str, start: int, length: int | None = None) -> bytes | None:
        return self.get_ranges([(key, start, length)])[0]

    def get_ranges(self, requests: Sequence[Request]) -> Values:
        with self._lock if self.writable else contextlib.nullcontext():
            self._flush()
            self._find_starts({key for key, _, _ in requests if self._is_stored(key)})
            whole = [key for key, _, _ in requests if not self._is_stored(key)]
            values = dict(zip(whole, self.get_many(whole), strict=True)) if whole else {}
            pieces = []
            for key, start, length in requests:
                if key not in values:
                    first, last = clip(self._members[key].file_size, start, length)
                    pieces.append((self._starts[key] + first, last - first))
            found = iter(self._source.read_many(pieces))
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

    def _find_starts(self, keys: set[str]) -> None:
        unknown = sorted(keys - self._starts.keys())
        headers = self._source.read_many(
            [(self._members[key].header_offset, _HEADER.size) for key in unknown]
        )
        for key, header in zip(unknown, headers, strict=True):
            member = self._members[key]
            self._starts[key] = member.header_offset + self._header_size(key, header)

    def _header_size(self, key: str, header: bytes) -> int:
        if len(header) < _HEADER.size or header[:4] != _MAGIC:
            raise StoreError("the zip file is damaged, or has changed", path=self.place(key))
        fields = _HEADER.unpack_from(header)
        return _HEADER.size + int(fields[9]) + int(fields[10])

    def _unpack(self, key: str, member: zipfile.ZipInfo, piece: bytes) -> bytes:
        if member.flag_bits & 1:
            raise StoreError("the member is encrypted", path=self.place(key))
        start = self._header_size(key, piece)
        data = piece[start : start + member.compress_size]
        missing = member.compress_size - len(data)
        if missing > 0:
            data += self._source.read_many([(member.header_offset + start + len(data), missing)])[0]
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

    def _open_writer(self, *, create: bool) -> None:
        exists = os.path.exists(self._path)
        if not exists and not create:
            raise DatasetNotFoundError("no such file", path=self.url)
        try:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            temporary = os.path.join(os.path.dirname(self._path), temporary_name())
            self._file = open(temporary, "x+b")  # noqa: SIM115
            self._temporary = temporary
            if exists:
                if not zipfile.is_zipfile(self._path):
                    raise zipfile.BadZipFile("not a zip file, or damaged")
                with open(self._path, "rb") as old:
                    shutil.copyfileobj(old, self._file, 1 << 20)
                shutil.copymode(self._path, temporary)
            self._writer = zipfile.ZipFile(self._file, "a", zipfile.ZIP_STORED, strict_timestamps=False)
        except (OSError, zipfile.BadZipFile) as error:
            self.discard()
            raise StoreError(f"cannot open for writing: {error}", path=self.url) from error
        self._source = FileSource(self._temporary, self.url)
        self._take(self._writer.infolist())

    def _flush(self) -> None:
        if self._writer is not None and self._changed:
            self._file.flush()

    def _open(self, key: str) -> zipfile.ZipFile:
        self.check_writable(key)
        if self._writer is None:
            raise StoreError("the store is closed", path=self.place(key))
        return self._writer

    def set(self, key: str, data: Buffer) -> None:
        check_key(key)
        with self._lock:
            writer = self._open(key)
            self._forget(key)
            member = zipfile.ZipInfo(
                self._prefix + key
            )  # a fixed date, so that equal content gives equal files
            member.external_attr = 0o644 << 16
            try:
                writer.writestr(member, as_view(data))
            except (OSError, ValueError, struct.error) as error:
                raise StoreError(f"cannot write: {error}", path=self.place(key)) from error
            self._members[key] = member
            self._changed = True

    def delete(self, key: str) -> None:
        check_key(key)
        with self._lock:
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
        """Close without keeping what was written: the target stays as it was."""
        with self._lock:
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
            if self._temporary:
                with contextlib.suppress(OSError):
                    os.unlink(self._temporary)
                self._temporary = ""
            if hasattr(self, "_source"):
                self._source.close()

    def close(self) -> None:
        with self._lock:
            if self._writer is None or not (self._changed and (self._members or os.path.exists(self._path))):
                self.discard()
                return
            try:
                self._writer.close()
                self._file.close()
                os.replace(self._temporary, self._path)
                self._temporary = ""
            except OSError as error:
                raise StoreError(f"cannot write: {error}", path=self.url) from error
            finally:
                self.discard()

    def __del__(self) -> None:
        if getattr(self, "_temporary", ""):
            warnings.warn(
                f"{self.url} was not closed: what was written is lost", ResourceWarning, stacklevel=1
            )
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


def _top_folder(keys: Any) -> str:
    """Return the one folder that holds everything, with its slash; empty if the keys begin at the top."""
    tops = {key.partition("/")[0] for key in keys}
    if len(tops) != 1:
        return ""
    top = f"{tops.pop()}/"
    return top if any(top + name in keys for name in _ROOT_DOCUMENTS) else ""
