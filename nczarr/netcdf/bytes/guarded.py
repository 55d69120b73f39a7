"""Provide a file object to HDF5 whose writes never fail, and keep the error for the caller.

HDF5 does not survive a full disk: it retries its pending writes whenever an object is closed, loses count of
its objects, and crashes the process. HDF5 therefore writes through a :class:`GuardedFile`. Bytes that the
disk refuses stay in memory, where HDF5 can read them, and the writer checks `failure`.

In a file that is edited, the editor decides when bytes reach the file, in an order that limits the damage of
a kill.
"""

from __future__ import annotations

import os
from typing import Any

from nczarr.errors import NetCDFFileError
from nczarr.netcdf.bytes.file import ByteFile
from nczarr.netcdf.bytes.held import HeldBytes

#: Larger pieces are values, not HDF5 metadata, and are written at once.
_LARGEST = 64 << 10
#: Upper limit of the pending bytes.
_MOST = 16 << 20


class GuardedFile:
    """A file object for h5py's ``fileobj`` driver. The caller of its methods holds HDF5's lock.

    With `holding`, small writes stay pending until :meth:`settle`.

    Attributes
    ----------
    failure : BaseException or None
        The first failure: an OSError, or an interrupt that arrived while HDF5 was writing.
    """

    def __init__(self, file: ByteFile, *, holding: bool = False) -> None:
        self._file = file
        self._users = 1
        self._place = 0
        self._size = file.size
        self._holding = holding
        #: Bytes that are not in the file: pending, or refused by the disk.
        self._held = HeldBytes()
        #: The size of the complete file after the last :meth:`settle`.
        self._settled = self._size
        self._end = self._size
        self._cut = False
        self.failure: BaseException | None = None

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

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer. Bytes beyond the end are zero."""
        view = memoryview(buffer).cast("B")
        done = 0
        try:
            done = self._file.readinto(self._place, view)
        except BaseException as error:
            self.failure = self.failure or error
        view[done:] = bytes(len(view) - done)
        if self._held:
            self._held.lay_over(self._place, view)
        self._place += len(view)
        return len(view)

    def write(self, data: Any) -> int:
        """Write bytes, or keep them pending. Bytes whose write fails stay pending."""
        place, size = self._place, len(data)
        self._place = end = place + size
        if end > self._size:
            self._size = end
        try:
            if self.failure is None:
                if not self._holding or size > _LARGEST:
                    if not self._held.covers(place, size):
                        self._put(place, data)
                        return size
                elif self._held.size > _MOST:
                    self._settle()
        except BaseException as error:
            self.failure = self.failure or error
        self._held.put(place, bytes(data))
        return size

    def truncate(self, size: int) -> int:
        """Set the size."""
        self._size = size
        self._cut = True
        try:
            if self.failure is None and not self._holding:
                self._file.truncate(size)
        except BaseException as error:
            self.failure = self.failure or error
        return size

    def flush(self) -> None:
        """Do nothing: the editor calls :meth:`settle`."""

    def _put(self, place: int, data: Any) -> None:
        if place + len(data) > self._end:
            self._end = place + len(data)
        done = self._file.write(place, data)
        if done < len(data):
            view = memoryview(data).cast("B")
            while done < len(view):
                done += self._file.write(place + done, view[done:])

    def _settle(self) -> None:
        """Write the pending bytes: first those that no metadata refers to yet."""
        if not self._held and not self._cut:
            return
        for place, data in self._held.behind(self._settled):
            self._put(place, data)
        if self._end < self._size:  # HDF5 refuses a file that is shorter than its superblock states
            self._file.truncate(self._size)
            self._end = self._size
        inside = self._held.inside(self._settled)
        if inside:  # they refer to the bytes behind
            self._file.sync()
        for place, data in inside:
            self._put(place, data)
        self._held = HeldBytes()
        if self._cut and self._end > self._size:
            self._file.truncate(self._size)
            self._end = self._size
        self._cut = False
        self._settled = self._size

    # Methods of the writer.

    def settle(self) -> None:
        """Write all pending bytes to the file; see `failure`."""
        try:
            if self.failure is None and self._holding:
                self._settle()
        except OSError as error:
            self.failure = error

    def sync(self) -> None:
        """Wait until all bytes are on the disk; see `failure`."""
        self.settle()
        try:
            if self.failure is None:
                self._file.sync()
        except OSError as error:
            self.failure = error

    def share(self) -> GuardedFile:
        """Register one more user, each of whom calls :meth:`close`."""
        self._users += 1
        return self

    def close(self) -> None:
        """Close the file after the last user's call."""
        self._users -= 1
        self.settle()
        if self._users:
            return
        try:
            self._file.close()
        except OSError as error:
            self.failure = self.failure or error
