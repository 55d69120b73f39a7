"""Read and write the values of one variable of an editable classic file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np

from nczarr.lazy import cached_property
from nczarr.model import PrimitiveType, Region, Variable, default_fill
from nczarr.model.sources import handed
from nczarr.netcdf.bytes.file import read_all, write_all
from nczarr.netcdf.classic.format import Header
from nczarr.netcdf.classic.reader import ClassicSource
from nczarr.netcdf.edit.classic_layout import ClassicBytes
from nczarr.netcdf.edit.pieces import Axes, EditedValues, read_selected
from nczarr.netcdf.sink import block_shape

#: Target size of the blocks in which values are written, in bytes.
_BLOCK = 256 << 10
#: Size of one write of fill values, in bytes.
_FILL = 4 << 20
#: Above this number of runs, a write reads the whole range, changes it and writes it back, unless the gaps
#: are large.
_RUNS = 8
_SPAN = 4 << 20


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
        For a variable without records: the blocks that have values or fill in the file. None means all
        blocks.
    records : int
        For a record variable: the number of records that have values or fill in the file.
    """

    in_place = True

    owner: Owner
    fqn: str
    index: int
    type: PrimitiveType
    shape: tuple[int, ...]
    fill: Any
    fills: bool
    marks: np.ndarray | None = None
    records: int = 0

    @property
    def dtype(self) -> np.dtype:
        return self.type.dtype

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
            return block_shape(self.shape, (1,) * len(self.shape), itemsize, _BLOCK)
        inner = block_shape(self.shape[1:], (1,) * (len(self.shape) - 1), itemsize, _BLOCK)
        whole = inner == self.shape[1:]
        return (max(1, _BLOCK // 4 // max(1, math.prod(inner) * itemsize)) if whole else 1, *inner)

    def check(self, values: np.ndarray) -> None:
        """Do nothing: the format can store each value of the type."""

    def filled(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return an array of the unwritten value."""
        return np.full(shape, self.fill, self.dtype)

    # -- reading

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        values = self._read(tuple([range(s.start, s.stop, s.step or 1) for s in region]))
        return handed(values, out)

    def read_orthogonal(self, selection: Any) -> np.ndarray:
        """Read slices or increasing positions, one for each axis."""
        return read_selected(self._read, selection, self.dtype)

    def _read(self, axes: Axes) -> np.ndarray:
        if self.is_record:
            inside = range(axes[0].start, min(axes[0].stop, self.records), axes[0].step)
            if len(inside) == len(axes[0]):
                return self._stored(axes)
            out = self.filled(tuple(map(len, axes)))
            if inside:
                out[: len(inside)] = self._stored((inside, *axes[1:]))
            return out
        if self.marks is None or self.marks.all():
            return self._stored(axes)
        out = self.filled(tuple(map(len, axes)))
        for index, place, part in self._blocks(axes):
            if self.marks[index]:
                out[place] = self._stored(part)
        return out

    def _stored(self, axes: Axes) -> np.ndarray:
        header = self.owner.header
        variable = header.variables[self.index]
        source = ClassicSource(
            self.owner.file, self.dtype, self.shape, header.strides(variable), variable.begin
        )
        return source.read(tuple([slice(a.start, a.stop, a.step) for a in axes]))

    def _blocks(self, axes: Axes) -> list[tuple[tuple[int, ...], tuple[slice, ...], Axes]]:
        """Split ranges at block boundaries: the block, its place in the selection, its part of the ranges."""
        cut: list[list[tuple[int, slice, range]]] = []
        for axis, length in zip(axes, self.chunk_shape, strict=True):
            found, done = [], 0
            while done < len(axis):
                block = axis[done] // length
                count = len(range(axis[done], min((block + 1) * length, axis.stop), axis.step))
                found.append((block, slice(done, done + count), axis[done : done + count]))
                done += count
            cut.append(found)
        return [
            (tuple(i[0] for i in item), tuple(i[1] for i in item), tuple(i[2] for i in item))
            for item in product(*cut)
        ]

    # -- writing

    def _write(self, axes: Axes, values: np.ndarray) -> None:
        if not values.size:
            return
        with self.owner.file.lock:
            if self.is_record:
                self._prepare_records(axes)
            elif self.marks is not None:
                self._prepare_blocks(axes)
            self._put(axes, values)
            if self.is_record:
                self.records = max(self.records, axes[0][-1] + 1)

    def _prepare_records(self, axes: Axes) -> None:
        """Write fill values to new records that the write does not cover."""
        first, stop = axes[0].start, axes[0][-1] + 1
        inner = all(len(axis) == n for axis, n in zip(axes[1:], self.shape[1:], strict=True))
        whole = inner and axes[0].step == 1
        self.fill_records(first if whole else stop)

    def _prepare_blocks(self, axes: Axes) -> None:
        """Write fill values to blocks before their first partial write."""
        assert self.marks is not None
        block = self.chunk_shape
        for index, _, part in self._blocks(axes):
            if self.marks[index]:
                continue
            place = tuple(
                range(i * b, min((i + 1) * b, n)) for i, b, n in zip(index, block, self.shape, strict=True)
            )
            if tuple(map(len, part)) != tuple(map(len, place)) and self.fills:
                self._put(place, self.filled(tuple(map(len, place))))
            self.marks[index] = True

    def fill_records(self, count: int) -> None:
        """Ensure that the first `count` records have values or fill in the file."""
        with self.owner.file.lock:
            if self.fills and self.records < count:
                inner = self.shape[1:]
                rows = max(1, _FILL // max(1, math.prod(inner) * self.dtype.itemsize))
                for start in range(self.records, count, rows):
                    part = range(start, min(start + rows, count))
                    self._put((part, *map(range, inner)), self.filled((len(part), *inner)))
            self.records = max(self.records, count)

    def fill_blocks(self) -> None:
        """Ensure that all values are in the file, or fill in their place."""
        if self.marks is None:
            return
        with self.owner.file.lock:
            block = self.chunk_shape
            for index in np.argwhere(~self.marks) if self.fills else ():
                place = tuple(
                    range(i * b, min((i + 1) * b, n))
                    for i, b, n in zip(index.tolist(), block, self.shape, strict=True)
                )
                self._put(place, self.filled(tuple(map(len, place))))
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
            held = bytearray(span)
            there = min(span, max(0, file.content.size - offset))
            if there:
                held[:there] = read_all(file.content, offset, there, file.path)
            np.ndarray(big.shape, big.dtype, held, 0, steps)[...] = big
            write_all(file.content, offset, held, file.path)
        else:
            self._runs(offset, big, steps)

    def _runs(self, offset: int, values: np.ndarray, steps: tuple[int, ...]) -> None:
        """Write an array run by run. A run is contiguous in the file."""
        if _together(values.shape, steps, values.itemsize) == values.nbytes:
            write_all(self.owner.file.content, offset, values.tobytes(), self.owner.file.path)
            return
        for i in range(values.shape[0]):
            self._runs(offset + i * steps[0], values[i, ...], steps[1:])

    def grow(self, shape: tuple[int, ...]) -> None:
        """Accept a larger shape."""
        if self.is_record:
            self.owner.count_in_header()
        self.shape = tuple(shape)

    def clear_outside(self, axes: tuple[int, ...]) -> None:
        """Do nothing: new records get fill values."""


def _together(shape: tuple[int, ...], steps: tuple[int, ...], itemsize: int) -> int:
    """Return the size in bytes of the contiguous runs of an array with these strides."""
    size = itemsize
    for length, step in zip(shape[::-1], steps[::-1], strict=True):
        if length != 1 and step != size:
            break
        size *= length
    return size


def fill_of(variable: Variable) -> Any:
    """Return the value of unwritten elements."""
    fill = variable.attribute.get("_FillValue")
    if fill is not None and fill.type == variable.type and len(fill.values) == 1:
        return fill.values[0]
    return default_fill(variable.type)
