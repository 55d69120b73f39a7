"""Read and write bytes at any offset of a file, on disk or in memory, and describe the places of chunks in a file."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Literal, Protocol

from nczarr.dataclass import dataclass
from nczarr.errors import NCZarrError, NetCDFFileError, error_context
from nczarr.formats import incomplete_file
from nczarr.model import Filter, Region
from nczarr.system.descriptors import pwrite, read_at
from nczarr.system.durability import sync_descriptor, sync_folder_of
from nczarr.system.failures import hint_for
from nczarr.system.forks import Origin
from nczarr.system.locks import TABLES

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_FLAGS = {
    "x": os.O_RDWR | os.O_CREAT | os.O_EXCL,
    "w": os.O_RDWR | os.O_CREAT | os.O_TRUNC,
    "r+": os.O_RDWR,
    "r": os.O_RDONLY,
}


class file_errors(error_context):
    """Turn an OSError into :class:`NetCDFFileError` with the path: the file cannot be written, or `done` otherwise.

    Examples
    --------
    >>> with file_errors("a.nc", "read"):
    ...     raise OSError("no disk")
    Traceback (most recent call last):
    nczarr.errors.NetCDFFileError: a.nc: the file cannot be read: no disk
    """

    __slots__ = ("done",)

    def __init__(self, path: str | None, done: str = "written") -> None:
        super().__init__(path)
        self.done = done

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # Errors of ours name their place already.
        if isinstance(error, OSError) and not isinstance(error, NCZarrError):
            reason = error.strerror or error
            hint = hint_for(error, self.path or "") if self.done == "written" else None
            raise NetCDFFileError(
                f"the file cannot be {self.done}: {reason}", path=self.path, hint=hint
            ) from error


class ReadableFile(Protocol):
    """Bytes that are read by offset, safely from any thread."""

    @property
    def size(self) -> int:
        """Number of bytes in the file."""

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """Return bytes; fewer if the file ends before."""

    def close(self) -> None:
        """Release the file. A second call has no effect."""


class ByteFile(ReadableFile, Protocol):
    """Random access to bytes by offset. Methods raise OSError and are safe to call from any thread."""

    def write(self, offset: int, data: ReadableBuffer) -> int:
        """Write bytes, and return the number of bytes written, which is at least one."""

    def truncate(self, size: int) -> None:
        """Set the size. New bytes are zero."""

    durable: bool

    def sync(self) -> None:
        """Wait until the bytes are on the disk, if the file is `durable`."""


class DiskFile:
    """A file on disk, open for writing: created (``x``), truncated (``w``), as it is (``r+``); or for reading (``r``).

    A forked child inherits the file but must not change it: its writes are ignored. A given `descriptor`
    is that of the file, which is open already.

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

    def __init__(self, path: str, mode: Literal["x", "w", "r+", "r"], descriptor: int | None = None) -> None:
        if descriptor is None:
            # Without O_BINARY, Windows translates line ends.
            flags = _FLAGS[mode] | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
            descriptor = os.open(path, flags, 0o666)
        self._descriptor: int | None = descriptor
        self._origin = Origin()
        self.durable = True
        self._unsynced = mode in ("x", "w")
        #: The path of a new file, until its name is on the disk.
        self._unnamed = path if self._unsynced else None

    @property
    def _open(self) -> int:
        if self._descriptor is None:
            raise OSError("the file is closed")
        return self._descriptor

    @property
    def size(self) -> int:
        return os.fstat(self._open).st_size

    def is_at(self, found: os.stat_result) -> bool:
        """Return True if it is open in this process and has a status's device and number."""
        here = self._origin.is_here and self._descriptor is not None
        return here and os.path.samestat(os.fstat(self._open), found)

    def read(self, offset: int, size: int) -> bytes:
        return read_at(self._open, offset, size)

    def write(self, offset: int, data: ReadableBuffer) -> int:
        # A forked child would write its parent's cache into the file a second time.
        if not self._origin.is_here:
            return len(memoryview(data).cast("B"))
        self._unsynced = True
        return pwrite(self._open if self._descriptor is None else self._descriptor, data, offset)

    def truncate(self, size: int) -> None:
        if self._origin.is_here:
            # A forked child shares the descriptor, and would cut the file of its parent.
            self._unsynced = True
            os.ftruncate(self._open, size)

    def sync(self) -> None:
        # A forked child leaves the file to its parent.
        if not self.durable or not self._unsynced or not self._origin.is_here:
            return
        self._unsynced = False
        try:
            sync_descriptor(self._open)
        # Otherwise the next sync would take bytes for stored that are not on the disk.
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

    def read(self, offset: int, size: int) -> bytes:
        with TABLES:
            return bytes(self._bytes[offset : offset + size])

    def write(self, offset: int, data: ReadableBuffer) -> int:
        view = memoryview(data).cast("B")
        with TABLES:
            missing = offset - len(self._bytes)
            # As in a file on disk, bytes between the old end and the new ones are zero.
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


class Ranges:
    """Byte ranges of a file that a library has open, safe to read from several threads.

    A range that the file does not have completely raises :class:`NetCDFFileError`.
    """

    #: The total size of an efficient request, in bytes. 0 if separate reads cost no more.
    together = 0

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """Return the bytes of a range."""
        return self.read_many([(offset, size)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
        """Return the bytes of ranges, given by offset and size."""
        return [self.read(*one) for one in ranges]

    def close(self) -> None:
        """Release the file after the last read."""


class DiskRanges(Ranges):
    """Ranges of a file on disk. They stay valid when another file takes its name.

    Concurrent readers keep their reference. The last of them closes the descriptor. This is no file object of Python,
    which would warn of such an end.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # A reader of chunks may outlive the dataset: the last one closes the descriptor, and the system does
        # at the exit.
        weakref.finalize(self, os.close, descriptor).atexit = False

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def read(self, offset: int, size: int) -> bytes:
        with file_errors(None, "read"):
            data = read_at(self.fileno(), offset, size)
        # A read behind the end of a file returns less, and no error.
        if len(data) < size:
            raise incomplete_file(f"the file is truncated: it ends at byte {offset + len(data)}")
        return data


@dataclass(frozen=True)
class RemoteRanges(Ranges):
    """Ranges of a file behind a URL. `fetch` reads them in one concurrent batch, with None for a missing one."""

    together = 16 << 20

    fetch: Callable[[Sequence[tuple[int, int]]], Sequence[bytes | memoryview | None]]
    release: Callable[[], None]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes | memoryview]:
        found = []
        for (offset, size), data in zip(ranges, self.fetch(ranges), strict=True):
            # A server may end an answer early without an error.
            if data is None or len(data) != size:
                there = 0 if data is None else len(data)
                raise NetCDFFileError(
                    f"the file is truncated: it has {there} of the {size} bytes at byte {offset}"
                )
            found.append(data)
        return found

    def close(self) -> None:
        self.release()


class ExactReads(Protocol):
    """Bytes of a file. A read returns all bytes of the range or raises."""

    def read(self, offset: int, size: int) -> bytes | memoryview: ...


@dataclass(frozen=True)
class StoredBytes:
    """The stored bytes of a chunk. A call reads them."""

    file: ExactReads
    path: str
    offset: int
    size: int

    def __call__(self) -> bytes | memoryview:
        with error_context(self.path):
            return self.file.read(self.offset, self.size)

    @property
    def on_disk(self) -> tuple[int, int, int] | None:
        """Return descriptor, offset and size, or None if the file is behind a URL."""
        return (self.file.fileno(), self.offset, self.size) if isinstance(self.file, DiskRanges) else None


@dataclass(frozen=True)
class FilePlaces:
    """The stored chunks of a variable.

    Attributes
    ----------
    file : ExactReads, optional
        The bytes of the file. None if it may be closed before the chunks are read.
    path : str
        The path of the file in messages.
    shape : tuple of int
        The shape of a chunk.
    filters : tuple of Filter
        The filters, in the order of their application.
    places : dict
        Offset and size in the file, by the chunk's position in the grid. Chunks that were never written are
        absent.
    skipped : bool
        True if a chunk left out a filter.
    """

    file: ExactReads | None
    path: str
    shape: tuple[int, ...]
    filters: tuple[Filter, ...]
    big_endian: bool
    places: dict[tuple[int, ...], tuple[int, int]]
    skipped: bool = False

    def chunks(self, region: Region | None = None) -> Iterator[tuple[tuple[int, ...], StoredBytes]]:
        """Yield the position of each chunk and the reader of its bytes, for all chunks or those of a region."""
        indices: Iterable[tuple[int, ...]] = self.places
        if region is not None:
            indices = product(
                *(range(s.start // c, -(-s.stop // c)) for s, c in zip(region, self.shape, strict=True))
            )
        assert self.file is not None
        for index in indices:
            yield index, StoredBytes(self.file, self.path, *self.places[index])


def cut_at_chunks(
    axes: tuple[range, ...], chunk: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[range, ...]]]:
    """Divide a selection at chunk boundaries: the chunk's origin, its place in the selection, its part of the ranges.

    Examples
    --------
    >>> [(origin, inside) for origin, _, inside in cut_at_chunks((range(1, 8, 3),), (4,))]
    [((0,), (range(1, 4, 3),)), ((4,), (range(4, 10, 3),))]
    """
    for parts in product(*(_cut(axis, size) for axis, size in zip(axes, chunk, strict=True))):
        yield tuple(p[0] for p in parts), tuple(p[1] for p in parts), tuple(p[2] for p in parts)


def _cut(axis: range, size: int) -> list[tuple[int, slice, range]]:
    parts = []
    place = 0
    while place < len(axis):
        start = axis[place] // size * size
        end = place + len(range(axis[place], min(start + size, axis.stop), axis.step))
        parts.append((start, slice(place, end), axis[place:end]))
        place = end
    return parts


def read_all(file: ReadableFile, offset: int, size: int, path: str) -> bytes | memoryview:
    """Read exactly `size` bytes, or raise :class:`NetCDFFileError`.

    Examples
    --------
    >>> bytes(read_all(MemoryFile(b"abcd"), 1, 2, "a.nc"))
    b'bc'
    """
    with file_errors(path, "read"):
        data = file.read(offset, size)
    if len(data) < size:
        raise incomplete_file(f"the file is truncated: it ends at byte {offset + len(data)}", path)
    return data


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
    with file_errors(path):
        # Linux writes at most 2 GiB in one call.
        while view:
            count = file.write(offset, view)
            offset += count
            view = view[count:]


def text_of(name: bytes) -> str:
    """Return a name, or another text, of a file."""
    return name.decode("utf-8", "surrogateescape")


def bytes_of(name: str) -> bytes:
    """Return the bytes of a name or text in a file."""
    return name.encode("utf-8", "surrogateescape")
