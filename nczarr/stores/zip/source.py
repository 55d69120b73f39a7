"""Read the bytes of a zip file from a local file or from a key of another store."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Sequence
from typing import Protocol

from nczarr.errors import DatasetNotFoundError, StoreError
from nczarr.stores.base import Store, clip
from nczarr.stores.local import read_at

# The directory of a zip file is at its end: this much is fetched first.
_TAIL = 1 << 17


class Source(Protocol):
    """Bytes at positions."""

    def read_many(self, pieces: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return pieces, each by start and length; cut short at the end of the file."""

    def size(self) -> int:
        """Return the number of bytes."""

    def as_file(self) -> io.RawIOBase:
        """Return a file to read the directory from."""

    def close(self) -> None:
        """Release what is held."""


class FileSource:
    """A local file, kept open: replacing it does not disturb readers."""

    def __init__(self, path: str, url: str) -> None:
        self._url = url
        try:
            self._file: io.FileIO | None = io.FileIO(path)
        except FileNotFoundError as error:
            raise DatasetNotFoundError("no such file", path=url) from error
        except OSError as error:
            raise StoreError(f"cannot open: {error.strerror}", path=url) from error

    def read_many(self, pieces: Sequence[tuple[int, int]]) -> list[bytes]:
        if not pieces:
            return []
        if self._file is None:
            raise StoreError("the store is closed", path=self._url)
        descriptor = self._file.fileno()
        try:
            return [read_at(descriptor, start, length) for start, length in pieces]
        except OSError as error:
            raise StoreError(f"cannot read: {error.strerror}", path=self._url) from error

    def status(self) -> os.stat_result:
        if self._file is None:
            raise StoreError("the store is closed", path=self._url)
        return os.fstat(self._file.fileno())

    def size(self) -> int:
        return self.status().st_size

    def as_file(self) -> io.RawIOBase:
        if self._file is None:
            raise StoreError("the store is closed", path=self._url)
        return io.FileIO(os.dup(self._file.fileno()))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


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

    def as_file(self) -> io.RawIOBase:
        return _RemoteFile(self, self.size())

    def close(self) -> None:
        pass


class _RemoteFile(io.RawIOBase):
    """A read-only file over a source; what is near its end is fetched once."""

    def __init__(self, source: StoreSource, size: int) -> None:
        self._source = source
        self._size = size
        self._position = 0
        self._tail_start = max(size - _TAIL, 0)
        self._tail: bytes | None = None
        self._lock = threading.Lock()

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
        with self._lock:
            if self._tail is None:
                self._tail = self._source.read_many([(self._tail_start, self._size - self._tail_start)])[0]
        if first >= self._tail_start:
            data = self._tail[first - self._tail_start : last - self._tail_start]
        else:
            data = self._source.read_many([(first, last - first)])[0]
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
