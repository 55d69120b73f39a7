"""Give HDF5 a file whose writes never fail, and keep the failure for the caller.

HDF5 does not survive a full disk: it tries again to write what it holds whenever an object is closed, loses count of
its objects, and takes the whole process down. So it writes through a :class:`GuardedFile`: when the disk refuses
bytes, they are kept in memory instead, where HDF5 finds them again, and the writer asks for the failure.

A file that is edited gets its bytes when the editor says so, in an order that a kill in between does little harm to.
"""

from __future__ import annotations

import os
from typing import Any

from nczarr.errors import NetCDFFileError
from nczarr.netcdf.bytes.file import ByteFile
from nczarr.netcdf.bytes.held import HeldBytes

#: Larger pieces are values, not HDF5's books: they are not held back.
_LARGEST = 64 << 10
#: Bytes that are held back at most.
_MOST = 16 << 20


class GuardedFile:
    """A file in the form that h5py's driver ``fileobj`` takes; its methods are called with HDF5's lock held.

    If it is `holding`, small writes are held back until :meth:`settle`.

    Attributes
    ----------
    failure : BaseException or None
        What went wrong first: an OSError, or an interrupt that came while HDF5 was writing.
    """

    def __init__(self, file: ByteFile, *, holding: bool = False) -> None:
        self._file = file
        self._users = 1
        self._place = 0
        self._size = file.size
        self._holding = holding
        #: What is not in the file: held back, or refused by the disk.
        self._held = HeldBytes()
        #: The file was whole up to here when it was settled last.
        self._settled = self._size
        self._end = self._size
        self._cut = False
        self.failure: BaseException | None = None

    def check(self, path: str) -> None:
        """Raise what went wrong."""
        if self.failure is None:
            return
        if isinstance(self.failure, OSError):
            reason = self.failure.strerror or str(self.failure)
            raise NetCDFFileError(f"the file cannot be written: {reason}", path=path) from self.failure
        raise self.failure

    # What h5py's driver calls. Nothing may be raised here.

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        """Set the place of the next read or write."""
        self._place = place + (self._size if whence == os.SEEK_END else 0)
        return self._place

    def tell(self) -> int:
        """Return the place of the next read or write."""
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; what is beyond the end are zeros."""
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
        """Write bytes, or hold them back; hold them if writing fails."""
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
        """Do nothing: the editor settles."""

    def _put(self, place: int, data: Any) -> None:
        if place + len(data) > self._end:
            self._end = place + len(data)
        done = self._file.write(place, data)
        if done < len(data):
            view = memoryview(data).cast("B")
            while done < len(view):
                done += self._file.write(place + done, view[done:])

    def _settle(self) -> None:
        """Write what was held back: first what nothing speaks of yet."""
        if not self._held and not self._cut:
            return
        for place, data in self._held.behind(self._settled):
            self._put(place, data)
        if self._end < self._size:  # HDF5 refuses a file that is shorter than it says
            self._file.truncate(self._size)
            self._end = self._size
        inside = self._held.inside(self._settled)
        if inside:  # which speaks of what is behind
            self._file.sync()
        for place, data in inside:
            self._put(place, data)
        self._held = HeldBytes()
        if self._cut and self._end > self._size:
            self._file.truncate(self._size)
            self._end = self._size
        self._cut = False
        self._settled = self._size

    # What the writer calls.

    def settle(self) -> None:
        """Bring everything to the file; see `failure`."""
        try:
            if self.failure is None and self._holding:
                self._settle()
        except OSError as error:
            self.failure = error

    def sync(self) -> None:
        """Wait until the disk has all bytes; see `failure`."""
        self.settle()
        try:
            if self.failure is None:
                self._file.sync()
        except OSError as error:
            self.failure = error

    def share(self) -> GuardedFile:
        """Count one more who has to close it."""
        self._users += 1
        return self

    def close(self) -> None:
        """Close the file when all have done so."""
        self._users -= 1
        self.settle()
        if self._users:
            return
        try:
            self._file.close()
        except OSError as error:
            self.failure = self.failure or error
