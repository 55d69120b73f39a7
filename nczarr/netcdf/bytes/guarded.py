"""Provide a file object to HDF5 whose writes never fail, and keep the error for the caller.

HDF5 does not survive a full disk: it retries its pending writes whenever an object is closed, loses count of
its objects, and crashes the process. HDF5 therefore writes through a :class:`GuardedFile`. Bytes that the
disk refuses stay in memory, where HDF5 can read them, and the writer checks `failure`.

HDF5 writes its metadata at any time and in the order of file offsets. A process that is killed between two
such writes leaves a file whose parts do not match. In a file that is edited, small writes therefore stay pending
until the editor flushes them, in an order in which each part refers only to bytes that are in the file: see
:meth:`PendingWrites.inside`.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING

from nczarr.errors import NetCDFFileError
from nczarr.netcdf.bytes.file import ByteFile, DiskFile

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Larger pieces are values, not HDF5 metadata, and are written at once.
_LARGEST = 64 << 10
#: Upper limit of the pending bytes.
_MOST = 16 << 20
#: The signatures of a version 2 object header and of its continuation block.
_HEADERS = (b"OHDR", b"OCHK")
#: The signature of a heap of strings and sequences.
_TEXTS = b"GCOL"


#: The file objects of this process that are not closed.
_open: set[GuardedFile] = set()


def has_readers(path: str) -> bool:
    """Return True if readers of this process share the handle of an editor of the file, who may have closed it.

    HDF5 keeps the file's metadata for them. They would read wrong values after a change through another handle.

    Examples
    --------
    >>> import tempfile
    >>> from nczarr.model import Dataset
    >>> from nczarr.netcdf import create_file, open_dataset, open_file
    >>> path = os.path.join(tempfile.mkdtemp(), "a.nc")
    >>> create_file(path, Dataset("a", format="netCDF-4")).close()
    >>> writer = open_file(path)
    >>> reader = open_dataset(path)
    >>> writer.close()
    >>> has_readers(path)
    True
    >>> reader.close()
    >>> has_readers(path)
    False
    """
    found = os.stat(path)
    # Another thread may open or close a file meanwhile.
    return any(file.is_at(found) for file in list(_open))


class PendingWrites:
    """Pending bytes at offsets of a file, without overlaps.

    Examples
    --------
    >>> pending = PendingWrites()
    >>> pending.put(0, b"abcd")
    >>> pending.put(2, b"xyz")
    >>> pending.inside(100), pending.behind(100), pending.size
    ([(0, b'abxyz')], [], 5)
    """

    def __init__(self) -> None:
        self._parts: dict[int, bytes] = {}
        self._starts: list[int] = []
        #: Number of pending bytes.
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def put(self, place: int, data: bytes) -> None:
        """Add bytes. They replace older bytes at the same offsets."""
        before = self._parts.get(place)
        if before is not None and len(before) == len(data):
            self._parts[place] = data
            return
        concerned = self._within(place, place + len(data))
        if concerned:
            first = min(place, concerned[0])
            end = max(place + len(data), *(start + len(self._parts[start]) for start in concerned))
            joined = bytearray(end - first)
            for start in concerned:
                old = self.take(start)
                joined[start - first : start - first + len(old)] = old
            joined[place - first : place - first + len(data)] = data
            place, data = first, bytes(joined)
        self._parts[place] = data
        self.size += len(data)
        if self._starts and place < self._starts[-1]:
            insort(self._starts, place)
        else:
            self._starts.append(place)

    def take(self, start: int) -> bytes:
        """Remove and return the bytes that begin at an offset."""
        data = self._parts.pop(start)
        self.size -= len(data)
        del self._starts[bisect_left(self._starts, start)]
        return data

    def covers(self, place: int, size: int) -> bool:
        """Return True if any byte of the range is pending."""
        return bool(self._within(place, place + size))

    def lay_over(self, place: int, view: memoryview) -> None:
        """Copy pending bytes over a buffer that was read from the file."""
        for start in self._within(place, place + len(view)):
            data = self._parts[start]
            low, high = max(start, place), min(start + len(data), place + len(view))
            view[low - place : high - place] = data[low - start : high - start]

    def _within(self, low: int, high: int) -> list[int]:
        """Return the parts that overlap a range."""
        starts = self._starts
        if not starts or starts[-1] + len(self._parts[starts[-1]]) <= low or high <= starts[0]:
            return []
        first = bisect_right(starts, low) - 1
        if first < 0 or starts[first] + len(self._parts[starts[first]]) <= low:
            first += 1
        return starts[first : bisect_left(starts, high)]

    def behind(self, end: int) -> list[tuple[int, bytes]]:
        """Return the parts behind an offset."""
        return [(start, self._parts[start]) for start in self._starts[bisect_left(self._starts, end) :]]

    def inside(self, end: int) -> list[tuple[int, bytes]]:
        """Return the parts before an offset, ordered: superblock, indexes, values, object headers.

        In this order, a consistent file that has received the bytes behind its end stays consistent. The
        superblock states where the file ends. The object headers state the counts, and come last. Of a split
        index, the upper node has the lower offset and comes first.
        """
        parts = [(start, self._parts[start]) for start in self._starts[: bisect_left(self._starts, end)]]
        parts.sort(key=lambda part: _rank(*part))
        return parts


def _rank(place: int, data: bytes) -> int:
    if not place:
        return 0
    if data.startswith(_TEXTS):
        return 1
    return 3 if data.startswith(_HEADERS) else 2


class GuardedFile:
    """A file object for h5py's ``fileobj`` driver. The caller of its methods holds HDF5's lock.

    With `ordering`, small writes stay pending until :meth:`flush_pending`.

    Attributes
    ----------
    failure : BaseException or None
        The first failure: an OSError, or an interrupt that arrived while HDF5 was writing.
    """

    def __init__(self, file: ByteFile, *, ordering: bool = False) -> None:
        self._file = file
        self._users = 1
        self._place = 0
        self._size = file.size
        self._ordering = ordering
        #: Bytes that are not in the file: pending, or refused by the disk.
        self._pending = PendingWrites()
        #: The size of the complete file after the last :meth:`flush_pending`.
        self._flushed = self._size
        self._end = self._size
        self._cut = False
        self.failure: BaseException | None = None
        _open.add(self)

    def check(self, path: str) -> None:
        """Raise the first failure, if any."""
        if self.failure is None:
            return
        if isinstance(self.failure, OSError):
            reason = self.failure.strerror or str(self.failure)
            raise NetCDFFileError(f"the file cannot be written: {reason}", path=path) from self.failure
        raise self.failure

    # Methods of h5py's driver. None of them may raise.

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        """Set the offset of the next read or write."""
        self._place = place + (self._size if whence == os.SEEK_END else 0)
        return self._place

    def tell(self) -> int:
        """Return the offset of the next read or write."""
        return self._place

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill a buffer. Bytes beyond the end are zero."""
        view = memoryview(buffer).cast("B")
        data: bytes | memoryview = b""
        try:
            data = self._file.read(self._place, len(view))
        except BaseException as error:
            self.failure = self.failure or error
        view[: len(data)] = data
        view[len(data) :] = bytes(len(view) - len(data))
        if self._pending:
            self._pending.lay_over(self._place, view)
        self._place += len(view)
        return len(view)

    def write(self, data: bytes | memoryview) -> int:
        """Write bytes, or keep them pending. Bytes whose write fails stay pending."""
        place, size = self._place, len(data)
        self._place = end = place + size
        if end > self._size:
            self._size = end
        try:
            if self.failure is None:
                if not self._ordering or size > _LARGEST:
                    # Older pending bytes would later overwrite these.
                    if not self._pending.covers(place, size):
                        self._put(place, data)
                        return size
                # The memory is bounded: a change of very many objects is flushed in
                # parts.
                elif self._pending.size > _MOST:
                    self._flush()
        except BaseException as error:
            self.failure = self.failure or error
        self._pending.put(place, bytes(data))
        return size

    def truncate(self, size: int) -> int:
        """Set the size."""
        self._size = size
        self._cut = True
        try:
            if self.failure is None and not self._ordering:
                self._file.truncate(size)
        except BaseException as error:
            self.failure = self.failure or error
        return size

    def flush(self) -> None:
        """Do nothing: the editor calls :meth:`flush_pending`."""

    def _put(self, place: int, data: bytes | memoryview) -> None:
        if place + len(data) > self._end:
            self._end = place + len(data)
        done = self._file.write(place, data)
        # The system may write fewer bytes than it was given.
        if done < len(data):
            view = memoryview(data).cast("B")
            while done < len(view):
                done += self._file.write(place + done, view[done:])

    def _flush(self) -> None:
        """Write the pending bytes: first those that no metadata refers to yet."""
        if not self._pending and not self._cut:
            return
        for place, data in self._pending.behind(self._flushed):
            self._put(place, data)
        if self._end < self._size:  # HDF5 refuses a file that is shorter than its superblock states
            self._file.truncate(self._size)
            self._end = self._size
        inside = self._pending.inside(self._flushed)
        if inside:  # they refer to the bytes behind
            self._file.sync()
        for place, data in inside:
            self._put(place, data)
        self._pending = PendingWrites()
        if self._cut and self._end > self._size:
            self._file.truncate(self._size)
            self._end = self._size
        self._cut = False
        self._flushed = self._size

    # Methods of the writer.

    def order_writes(self) -> None:
        """Keep small writes pending from now on. All bytes are in the file."""
        self._ordering = True
        self._flushed = self._end = self._size
        self._cut = False

    def flush_pending(self) -> None:
        """Write all pending bytes to the file; see `failure`."""
        try:
            if self.failure is None and self._ordering:
                self._flush()
        except OSError as error:
            self.failure = error

    def sync(self) -> None:
        """Wait until all bytes are on the disk; see `failure`."""
        self.flush_pending()
        try:
            if self.failure is None:
                self._file.sync()
        except OSError as error:
            self.failure = error

    def is_at(self, found: os.stat_result) -> bool:
        """Return True if it is this process's file of a path, by the status of the path."""
        return isinstance(self._file, DiskFile) and self._file.is_at(found)

    def share(self) -> GuardedFile:
        """Register one more user, each of whom calls :meth:`close`."""
        self._users += 1
        return self

    def close(self) -> None:
        """Close the file after the last user's call."""
        self._users -= 1
        self.flush_pending()
        if self._users:
            return
        _open.discard(self)
        try:
            self._file.close()
        except OSError as error:
            self.failure = self.failure or error
