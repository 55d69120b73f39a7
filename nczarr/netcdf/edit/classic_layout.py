"""Lay out a classic file whose header changes: the offset of each variable, and the bytes to move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nczarr.netcdf.bytes.file import ByteFile, read_all, write_all
from nczarr.netcdf.classic.format import Header, padded
from nczarr.netcdf.classic.reader import ClassicFile
from nczarr.netcdf.classic.writer import format_header
from nczarr.system.locks import Rank, make_lock

#: Number of bytes in one step of a move.
_BLOCK = 8 << 20


class ClassicBytes(ClassicFile):
    """A reader of a classic file on the bytes that an editor writes to. Writers hold `lock`."""

    def __init__(self, path: str, content: ByteFile) -> None:
        self.path = path
        self.content = content
        self.size = content.size
        self.lock = make_lock(Rank.STORE)
        self._descriptor = -1

    def _read_at(self, offset: int, size: int) -> bytes:
        buffer = bytearray(size)
        return bytes(buffer[: self.content.readinto(offset, buffer)])

    def extend(self, size: int) -> None:
        """Extend the file to at least this size."""
        if self.content.size < size:
            self.content.truncate(size)

    def close(self) -> None:
        """Close the file."""
        self._descriptor = None
        self.content.close()

    def move(self, source: int, target: int, size: int) -> None:
        """Move bytes towards the end, from the last to the first, since the ranges may overlap."""
        while size:
            part = min(size, _BLOCK)
            size -= part
            data = read_all(self.content, source + size, part, self.path)
            write_all(self.content, target + size, data, self.path)

    def spread(self, source: int, target: int, count: int, old: int, new: int) -> None:
        """Move `count` records of `old` bytes towards the end, to slots of `new` bytes."""
        rows = max(1, _BLOCK // max(old, new, 1))
        for start in range((count - 1) // rows * rows, -1, -rows):
            n = min(rows, count - start)
            # The last record may lack its padding.
            wanted = n * old
            there = min(wanted, self.content.size - (source + start * old))
            held = np.zeros(wanted, np.uint8)
            held[:there] = np.frombuffer(
                read_all(self.content, source + start * old, there, self.path), np.uint8
            )
            moved = np.zeros((n, new), np.uint8)
            moved[:, :old] = held.reshape(n, old)
            write_all(self.content, target + start * new, moved.data, self.path)


#: Minimum spare room behind a header that has grown, for its next growth.
_ROOM = 1024


def laid_out(old: Header, new: Header) -> Header:
    """Return the new header with the offset of every variable.

    The first variables are those of the old header, in order. No variable moves towards the beginning.
    Variables without records precede the records, and all are in the order of the header. The netCDF library
    rejects any other layout.

    Examples
    --------
    >>> from nczarr.model import INT
    >>> from nczarr.netcdf.classic.format import ClassicDimension, ClassicVariable
    >>> x = (ClassicDimension(b"x", 5),)
    >>> old = Header(1, 0, x, (), (ClassicVariable(b"v", INT, (0,), (), 200),))
    >>> new = replace(old, variables=(*old.variables, ClassicVariable(b"w", INT, (0,), ())))
    >>> [v.begin for v in laid_out(old, new).variables]
    [200, 220]
    """
    size = len(format_header(new))
    place = size
    if old.variables:
        first = min(v.begin for v in old.variables)
        place = first if size <= first else padded(size + max(_ROOM, size // 2))
    begins = [0] * len(new.variables)
    held = [v.begin for v in old.variables]
    for record in (False, True):
        if record:
            moved = [b for v, b in zip(old.variables, held, strict=True) if old.is_record(v)]
            place = max([place, *moved[:1]])
        for i, v in enumerate(new.variables):
            if new.is_record(v) != record:
                continue
            if i < len(held) and not record:
                place = max(place, held[i])
            begins[i] = place
            place += padded(new.slab(v))
    variables = tuple(replace(v, begin=b) for v, b in zip(new.variables, begins, strict=True))
    return replace(new, variables=variables)


def moves(old: Header, new: Header) -> bool:
    """Return True if the offset of any existing data differs."""
    return any(a.begin != b.begin for a, b in zip(old.variables, new.variables, strict=False)) or (
        old.record_size != new.record_size and any(map(old.is_record, old.variables))
    )


def move_data(file: ClassicBytes, old: Header, new: Header, records: Sequence[int]) -> None:
    """Move all data from their old offsets to the new ones. `records` has the record count of each variable."""
    pairs = list(zip(old.variables, new.variables, strict=False))
    growing = [(a, b) for a, b in pairs if old.is_record(a)]
    count = max(records, default=0)
    if growing and count:
        source, target = growing[0][0].begin, growing[0][1].begin
        if old.record_size == new.record_size:
            size = min(count * old.record_size, file.content.size - source)
            if source != target:
                file.move(source, target, size)
        else:
            file.spread(source, target, count, old.record_size, new.record_size)
    for a, b in reversed([pair for pair in pairs if not old.is_record(pair[0])]):
        if a.begin != b.begin:
            file.move(a.begin, b.begin, old.slab(a))
