"""Read and write the values of one variable of an editable classic file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nczarr.lazy import cached_property
from nczarr.model import PrimitiveType
from nczarr.netcdf.bytes.file import ByteFile, read_all, write_all
from nczarr.netcdf.bytes.ranges import cut_at_chunks
from nczarr.netcdf.classic.header import Header
from nczarr.netcdf.classic.reader import ClassicFile, ClassicSource
from nczarr.netcdf.edit.editor import VALUE_BLOCK, Axes, EditedValues, block_shape
from nczarr.system.locks import Rank, make_lock

#: Size of one write of fill values, in bytes.
_FILL = 4 << 20
#: Above this number of runs, a write reads the whole range, changes it and writes it back, unless the gaps
#: are large.
_RUNS = 8
_SPAN = 4 << 20
#: Number of bytes in one step of a move.
_STEP = 8 << 20


class ClassicBytes(ClassicFile):
    """A reader of a classic file on the bytes that an editor writes to. Writers hold `lock`."""

    content: ByteFile

    def __init__(self, path: str, content: ByteFile) -> None:
        super().__init__(path, content)
        self.lock = make_lock(Rank.STORE)

    def move(self, source: int, target: int, size: int) -> None:
        """Move bytes towards the end, from the last to the first, since the ranges may overlap."""
        while size:
            part = min(size, _STEP)
            size -= part
            data = read_all(self.content, source + size, part, self.path)
            write_all(self.content, target + size, data, self.path)

    def spread(self, source: int, target: int, count: int, old: int, new: int) -> None:
        """Move `count` records of `old` bytes towards the end, to slots of `new` bytes."""
        rows = max(1, _STEP // max(old, new, 1))
        for start in range((count - 1) // rows * rows, -1, -rows):
            n = min(rows, count - start)
            # The last record may lack its padding.
            there = min(n * old, self.content.size - (source + start * old))
            data = bytes(read_all(self.content, source + start * old, there, self.path)).ljust(n * old, b"\0")
            moved = np.zeros((n, new), np.uint8)
            moved[:, :old] = np.frombuffer(data, np.uint8).reshape(n, old)
            write_all(self.content, target + start * new, moved.data, self.path)


class Owner(Protocol):
    """The file of the values."""

    file: ClassicBytes
    header: Header

    def count_in_header(self) -> None:
        """Write the number of records to a header that leaves it to the file's size."""


@dataclass(eq=False)
class ClassicValues(EditedValues):
    """The values of a variable. `shape` is the shape of its dimensions.

    Attributes
    ----------
    index : int
        The position of the variable in the header.
    marks : ndarray of bool, or None
        The blocks that have values or fill in the file. None means all blocks.
    records : int
        For a record variable: the number of records that have values or fill in the file.
    """

    in_place = True

    owner: Owner
    fqn: str
    index: int
    type: PrimitiveType
    shape: tuple[int, ...]
    fill: object
    fills: bool
    marks: np.ndarray | None = None
    records: int = 0

    @property
    def is_record(self) -> bool:
        """Return True if the variable has records."""
        return self.owner.header.is_record(self.owner.header.variables[self.index])

    @cached_property
    def chunk_shape(self) -> tuple[int, ...]:
        """Return the shape of a block that is contiguous in the file: some records."""
        if not self.shape:
            return ()
        itemsize = self.dtype.itemsize
        if not self.is_record:
            return block_shape(self.shape, (1,) * len(self.shape), itemsize)
        inner = block_shape(self.shape[1:], (1,) * (len(self.shape) - 1), itemsize)
        whole = inner == self.shape[1:]
        return (max(1, VALUE_BLOCK // 4 // max(1, math.prod(inner) * itemsize)) if whole else 1, *inner)

    def check(self, values: np.ndarray) -> None:
        """Do nothing: the format can store each value of the type."""

    def filled(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return an array of the unwritten value."""
        return np.full(shape, self.fill, self.dtype)

    # -- reading

    def _read(self, axes: Axes) -> np.ndarray:
        inside = axes
        if self.is_record:
            inside = (range(axes[0].start, min(axes[0].stop, self.records), axes[0].step), *axes[1:])
        if inside == axes and (self.marks is None or self.marks.all()):
            return self._stored(axes)
        out = self.filled(tuple(map(len, axes)))
        if self.marks is None and inside[0]:
            out[: len(inside[0])] = self._stored(inside)
        elif self.marks is not None:
            for origin, place, part in cut_at_chunks(inside, self.chunk_shape):
                if self.marks[self._index(origin)]:
                    out[place] = self._stored(part)
        return out

    def _stored(self, axes: Axes) -> np.ndarray:
        header = self.owner.header
        variable = header.variables[self.index]
        source = ClassicSource(
            self.owner.file, self.dtype, self.shape, header.strides(variable), variable.begin
        )
        return source.read(tuple([slice(a.start, a.stop, a.step) for a in axes]))

    def _index(self, origin: tuple[int, ...]) -> tuple[int, ...]:
        """Return the position of a block in `marks`."""
        return tuple([o // c for o, c in zip(origin, self.chunk_shape, strict=True)])

    # -- writing

    def _write(self, axes: Axes, values: np.ndarray) -> None:
        if not values.size:
            return
        with self.owner.file.lock:
            if self.is_record and axes[0][-1] >= self.records:
                # Records between the last one and the new ones need fill values, as do new ones that are incomplete.
                inner = all(len(axis) == n for axis, n in zip(axes[1:], self.shape[1:], strict=True))
                self.fill_records(axes[0].start if inner and axes[0].step == 1 else axes[0][-1] + 1)
            elif self.marks is not None:
                for origin, _, part in cut_at_chunks(axes, self.chunk_shape):
                    index = self._index(origin)
                    if not self.marks[index]:
                        if part != (place := self._block(index)):
                            self._fill(place)
                        self.marks[index] = True
            self._put(axes, values)
            if self.is_record:
                self.records = max(self.records, axes[0][-1] + 1)

    def _block(self, index: Sequence[int]) -> Axes:
        """Return the ranges of a block of `marks`."""
        shape = (self.records, *self.shape[1:]) if self.is_record else self.shape
        return tuple(
            [
                range(i * b, min((i + 1) * b, n))
                for i, b, n in zip(index, self.chunk_shape, shape, strict=True)
            ]
        )

    def _fill(self, axes: Axes) -> None:
        if self.fills:
            self._put(axes, self.filled(tuple(map(len, axes))))

    def fill_records(self, count: int) -> None:
        """Ensure that the first `count` records have values or fill in the file."""
        with self.owner.file.lock:
            if self.records < count:
                self.fill_blocks()
                inner = self.shape[1:]
                rows = max(1, _FILL // max(1, math.prod(inner) * self.dtype.itemsize))
                for start in range(self.records, count, rows):
                    self._fill((range(start, min(start + rows, count)), *map(range, inner)))
                self.records = count

    def fill_blocks(self) -> None:
        """Ensure that all blocks have values or fill in the file."""
        with self.owner.file.lock:
            if self.marks is not None:
                for index in np.argwhere(~self.marks).tolist() if self.fills else ():
                    self._fill(self._block(index))
                self.marks = None

    def _put(self, axes: Axes, values: np.ndarray) -> None:
        """Write values to the file. The caller holds its lock."""
        if not values.size:
            return
        header = self.owner.header
        variable = header.variables[self.index]
        strides = header.strides(variable)
        big = np.ascontiguousarray(values, self.dtype.newbyteorder(">")).reshape(values.shape)
        offset = variable.begin + sum(a.start * stride for a, stride in zip(axes, strides, strict=True))
        steps = tuple([a.step * stride for a, stride in zip(axes, strides, strict=True)])
        together = _together(big.shape, steps, self.dtype.itemsize)
        span = self.dtype.itemsize + sum((len(a) - 1) * step for a, step in zip(axes, steps, strict=True))
        if big.nbytes // together > _RUNS and span <= max(_SPAN, 2 * big.nbytes):
            file = self.owner.file
            current = bytearray(span)
            there = min(span, max(0, file.content.size - offset))
            if there:
                current[:there] = read_all(file.content, offset, there, file.path)
            np.ndarray(big.shape, big.dtype, current, 0, steps)[...] = big
            write_all(file.content, offset, current, file.path)
        else:
            self._runs(offset, big, steps)

    def _runs(self, offset: int, values: np.ndarray, steps: tuple[int, ...]) -> None:
        """Write an array run by run. A run is contiguous in the file."""
        if _together(values.shape, steps, values.itemsize) == values.nbytes:
            data = values.reshape(-1).view(np.uint8).data
            write_all(self.owner.file.content, offset, data, self.owner.file.path)
            return
        for i in range(values.shape[0]):
            self._runs(offset + i * steps[0], values[i, ...], steps[1:])

    def grow(self, shape: tuple[int, ...]) -> None:
        """Accept a larger shape."""
        if self.is_record:
            self.owner.count_in_header()
        super().grow(shape)


def _together(shape: tuple[int, ...], steps: tuple[int, ...], itemsize: int) -> int:
    """Return the size in bytes of the contiguous runs of an array with these strides."""
    size = itemsize
    for length, step in zip(shape[::-1], steps[::-1], strict=True):
        if length != 1 and step != size:
            break
        size *= length
    return size
