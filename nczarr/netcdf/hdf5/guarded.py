"""Give HDF5 a file whose writes never fail, and keep the failure for the caller.

HDF5 does not survive a full disk: it tries again to write what it holds whenever an object is closed, loses count of
its objects, and takes the whole process down. So it writes through a :class:`GuardedFile`: when the disk refuses
bytes, they are kept in memory instead, where HDF5 finds them again, and the writer asks for the failure.
"""

from __future__ import annotations

import os
from typing import Any

from nczarr.errors import NetCDFFileError
from nczarr.netcdf.byte_file import ByteFile
from nczarr.netcdf.hdf5.library import hdf5


class GuardedFile:
    """A file in the form that h5py's driver ``fileobj`` takes; its methods are called with HDF5's lock held.

    Attributes
    ----------
    failure : BaseException or None
        What went wrong first: an OSError, or an interrupt that came while HDF5 was writing.
    """

    def __init__(self, file: ByteFile) -> None:
        self._file = file
        self._users = 1
        self._place = 0
        self._size = file.size
        self._kept: list[
            tuple[int, bytes]
        ] = []  # what could not be written: place and bytes, the oldest first
        self.failure: BaseException | None = None

    def check(self, path: str) -> None:
        """Raise what went wrong."""
        if isinstance(self.failure, OSError):
            reason = self.failure.strerror or str(self.failure)
            raise NetCDFFileError(f"the file cannot be written: {reason}", path=path) from self.failure
        if self.failure is not None:
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
        for start, data in self._kept:
            low, high = max(start, self._place), min(start + len(data), self._place + len(view))
            if low < high:
                view[low - self._place : high - self._place] = data[low - start : high - start]
        self._place += len(view)
        return len(view)

    def write(self, data: Any) -> int:
        """Write bytes; keep them if that fails."""
        view = memoryview(data).cast("B")
        place, size = self._place, len(view)
        self._place += size
        self._size = max(self._size, self._place)
        done = 0
        try:
            if self.failure is None:
                while done < size:
                    done += self._file.write(place + done, view[done:])
        except BaseException as error:
            self.failure = self.failure or error
        if self.failure is not None and done < size:
            self._kept.append((place + done, bytes(view[done:])))
        return size

    def truncate(self, size: int) -> int:
        """Set the size."""
        self._size = size
        try:
            if self.failure is None:
                self._file.truncate(size)
        except BaseException as error:
            self.failure = self.failure or error
        return size

    def flush(self) -> None:
        """Do nothing: no byte is held back."""

    # What the writer calls.

    def sync(self) -> None:
        """Wait until the disk has all bytes; see `failure`."""
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
        if self._users:
            return
        try:
            self._file.close()
        except OSError as error:
            self.failure = self.failure or error

    def access(self) -> Any:
        """Return a list of HDF5's access properties with which a file is this one."""
        api = hdf5()
        made = api.h5p.create(api.h5p.FILE_ACCESS)
        # Objects that an exception still holds must not keep the file open behind our back.
        made.set_fclose_degree(api.h5f.CLOSE_STRONG)
        made.set_fileobj_driver(api.h5fd.fileobj_driver, self)
        return made
