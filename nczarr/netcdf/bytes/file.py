"""Read and write bytes at any offset of a file, on disk or in memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, Protocol

from nczarr.errors import NetCDFFileError
from nczarr.system.descriptors import pread, pwrite
from nczarr.system.durability import sync_descriptor, sync_folder_of
from nczarr.system.forks import Origin
from nczarr.system.locks import TABLES

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_FLAGS = {"x": os.O_CREAT | os.O_EXCL, "w": os.O_CREAT | os.O_TRUNC, "r+": 0}


class ByteFile(Protocol):
    """Random access to bytes by offset. Methods raise OSError and are safe to call from any thread."""

    @property
    def size(self) -> int:
        """Number of bytes in the file."""

    def readinto(self, offset: int, buffer: WriteableBuffer) -> int:
        """Fill the buffer up to the end of the file, and return the number of bytes read."""

    def write(self, offset: int, data: ReadableBuffer) -> int:
        """Write bytes, and return the number of bytes written, which is at least one."""

    def truncate(self, size: int) -> None:
        """Set the size. New bytes are zero."""

    durable: bool

    def sync(self) -> None:
        """Wait until the bytes are on the disk, if the file is `durable`."""

    def close(self) -> None:
        """Release the file. A second call has no effect."""


class DiskFile:
    """A file on disk, open for reading and writing: created (``x``), truncated (``w``) or as it is (``r+``).

    A forked child inherits the file but must not change it: its writes are ignored.

    Attributes
    ----------
    durable : bool
        True if :meth:`sync` and :meth:`close` wait until the bytes and a new file's name are on the disk.

    Examples
    --------
    >>> import tempfile
    >>> file = DiskFile(os.path.join(tempfile.mkdtemp(), "a"), "x")
    >>> file.write(2, b"ab"), file.size
    (2, 4)
    >>> file.close()
    """

    def __init__(self, path: str, mode: Literal["x", "w", "r+"]) -> None:
        flags = os.O_RDWR | _FLAGS[mode] | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        self._descriptor: int | None = os.open(path, flags, 0o666)
        self._origin = Origin()
        self.durable = True
        self._unsynced = mode != "r+"
        #: The path of a new file, until its name is on the disk.
        self._unnamed = path if mode != "r+" else None

    @property
    def _open(self) -> int:
        if self._descriptor is None:
            raise OSError("the file is closed")
        return self._descriptor

    @property
    def size(self) -> int:
        return os.fstat(self._open).st_size

    def readinto(self, offset: int, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view):
            count = self._read(view[done:], offset + done)
            if not count:
                break
            done += count
        return done

    def _read(self, view: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._open, [view], offset)
        data = pread(self._open, len(view), offset)
        view[: len(data)] = data
        return len(data)

    def write(self, offset: int, data: ReadableBuffer) -> int:
        if not self._origin.is_here:
            return len(memoryview(data).cast("B"))
        self._unsynced = True
        return pwrite(self._open if self._descriptor is None else self._descriptor, data, offset)

    def truncate(self, size: int) -> None:
        if self._origin.is_here:
            self._unsynced = True
            os.ftruncate(self._open, size)

    def sync(self) -> None:
        if not self.durable or not self._unsynced or not self._origin.is_here:
            return
        self._unsynced = False
        try:
            sync_descriptor(self._open)
        except BaseException:
            self._unsynced = True
            raise
        if self._unnamed is not None:
            sync_folder_of(self._unnamed)
            self._unnamed = None

    def close(self) -> None:
        if self._descriptor is None:
            return
        try:
            self.sync()
        finally:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                os.close(descriptor)


class MemoryFile:
    """A file in memory.

    Examples
    --------
    >>> file = MemoryFile(b"abc")
    >>> file.write(5, b"z"), file.content
    (1, b'abc\\x00\\x00z')
    """

    durable = False

    def __init__(self, content: bytes | memoryview = b"") -> None:
        self._bytes = bytearray(content)

    @property
    def content(self) -> bytes:
        """Return all bytes."""
        return bytes(self._bytes)

    @property
    def size(self) -> int:
        return len(self._bytes)

    def readinto(self, offset: int, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        with TABLES:
            data = self._bytes[offset : offset + len(view)]
        view[: len(data)] = data
        return len(data)

    def write(self, offset: int, data: ReadableBuffer) -> int:
        view = memoryview(data).cast("B")
        with TABLES:
            missing = offset - len(self._bytes)
            if missing > 0:
                self._bytes.extend(bytes(missing))
            self._bytes[offset : offset + len(view)] = view
        return len(view)

    def truncate(self, size: int) -> None:
        with TABLES:
            del self._bytes[size:]
            self._bytes.extend(bytes(size - len(self._bytes)))

    def sync(self) -> None:
        """Do nothing: memory has no disk to wait for."""

    def close(self) -> None:
        """Do nothing: the bytes stay available."""


def read_all(file: ByteFile, offset: int, size: int, path: str) -> bytearray:
    """Read exactly `size` bytes, or raise :class:`NetCDFFileError`.

    Examples
    --------
    >>> bytes(read_all(MemoryFile(b"abcd"), 1, 2, "a.nc"))
    b'bc'
    """
    buffer = bytearray(size)
    try:
        count = file.readinto(offset, buffer)
    except OSError as error:
        raise NetCDFFileError(f"the file cannot be read: {error.strerror or error}", path=path) from error
    if count < size:
        raise NetCDFFileError(f"the file is truncated: it ends at byte {offset + count}", path=path)
    return buffer


def write_all(file: ByteFile, offset: int, data: ReadableBuffer, path: str) -> None:
    """Write all bytes, or raise :class:`NetCDFFileError`.

    Examples
    --------
    >>> file = MemoryFile()
    >>> write_all(file, 0, b"ab", "a.nc")
    >>> file.content
    b'ab'
    """
    view = memoryview(data).cast("B")
    try:
        while view:
            count = file.write(offset, view)
            offset += count
            view = view[count:]
    except OSError as error:
        raise NetCDFFileError(f"the file cannot be written: {error.strerror or error}", path=path) from error


def text_of(name: bytes) -> str:
    """Return a name, or another text, of a file."""
    return name.decode("utf-8", "surrogateescape")


def bytes_of(name: str) -> bytes:
    """Return the bytes of a name or text in a file."""
    return name.encode("utf-8", "surrogateescape")
