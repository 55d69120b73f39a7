"""Read and move the bytes of a classic file that is edited."""

from __future__ import annotations

import threading

import numpy as np

from nczarr.netcdf.bytes import ByteFile, read_all, write_all
from nczarr.netcdf.classic import ClassicFile

#: Bytes that are moved at a time.
_BLOCK = 8 << 20


class ClassicBytes(ClassicFile):
    """A classic file for readers, on what an editor writes to; `lock` is held by who writes."""

    def __init__(self, path: str, content: ByteFile) -> None:
        self.path = path
        self.content = content
        self.size = content.size
        self.lock = threading.RLock()
        self._descriptor = -1

    def _read_at(self, offset: int, size: int) -> bytes:
        buffer = bytearray(size)
        return bytes(buffer[: self.content.readinto(offset, buffer)])

    def extend(self, size: int) -> None:
        """Make the file at least so long."""
        if self.content.size < size:
            self.content.truncate(size)

    def close(self) -> None:
        """Close the file."""
        self._descriptor = None
        self.content.close()

    def move(self, source: int, target: int, size: int) -> None:
        """Move bytes towards the end, from the last to the first: they may overlap."""
        while size:
            part = min(size, _BLOCK)
            size -= part
            data = read_all(self.content, source + size, part, self.path)
            write_all(self.content, target + size, data, self.path)

    def spread(self, source: int, target: int, count: int, old: int, new: int) -> None:
        """Move `count` records of `old` bytes towards the end, to where each has `new` bytes."""
        rows = max(1, _BLOCK // max(old, new, 1))
        for start in range((count - 1) // rows * rows, -1, -rows):
            n = min(rows, count - start)
            # The last record may be without its padding.
            wanted = n * old
            there = min(wanted, self.content.size - (source + start * old))
            held = np.zeros(wanted, np.uint8)
            held[:there] = np.frombuffer(
                read_all(self.content, source + start * old, there, self.path), np.uint8
            )
            moved = np.zeros((n, new), np.uint8)
            moved[:, :old] = held.reshape(n, old)
            write_all(self.content, target + start * new, moved.data, self.path)
