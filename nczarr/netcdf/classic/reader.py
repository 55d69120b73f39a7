"""Read classic files into the model, without a netCDF library."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nczarr.errors import NetCDFFileError
from nczarr.formats import CLASSIC
from nczarr.model import Attribute, Dataset, Dimension, Region, Variable, join_fqn, normalize_name
from nczarr.netcdf.bytes.file import DiskFile, ReadableFile, file_errors, read_all, text_of
from nczarr.netcdf.bytes.ranges import FilePlaces, largest_part
from nczarr.netcdf.classic.header import (
    TYPES,
    ClassicAttribute,
    ClassicDimension,
    ClassicVariable,
    Header,
    Widths,
    padded,
)

_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12
_BLOCK = 1 << 16
#: Up to this many bytes, one read covers all values of a region, with the bytes between them.
_SPAN = 1 << 20
#: Largest size of a chunk in references, in bytes.
_CHUNK = 16 << 20


class ClassicFile:
    """A classic file, open for reads at any offset from any thread."""

    def __init__(self, path: str, content: ReadableFile) -> None:
        self.path = path
        self.size = content.size
        self.content = content
        self._is_open = True

    @classmethod
    def open(cls, path: str) -> ClassicFile:
        """Open a file."""
        with file_errors(path, "read"):
            return cls(path, DiskFile(path, "r"))

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """Return `size` bytes from `offset`. Raises :class:`NetCDFFileError` if the file ends before."""
        if not self._is_open:
            raise NetCDFFileError("the file is closed", path=self.path)
        return read_all(self.content, offset, size, self.path)

    def close(self) -> None:
        """Close the file. Its sources are no longer readable."""
        self._is_open = False
        self.content.close()


def read_classic(file: ClassicFile, name: str) -> Dataset:
    """Read the header of an open file into a model whose variables load their data on access.

    Raises
    ------
    NetCDFFileError
        If the file is damaged, or ends before the end of the data that its header states.
    """
    header = parse_header(file)
    names = [normalize_name(text_of(d.name)) for d in header.dimensions]
    for variable in header.variables:
        if header.end(variable) > file.size:
            raise NetCDFFileError(
                f"the file is truncated: it has {file.size} bytes, "
                f"the variable {text_of(variable.name)!r} ends at {header.end(variable)}",
                path=file.path,
            )
    return Dataset(
        name,
        attributes=tuple(_attribute(a) for a in header.attributes),
        dimensions=tuple(
            Dimension(n, d.length or header.records, d.length == 0)
            for n, d in zip(names, header.dimensions, strict=True)
        ),
        variables=tuple(
            Variable(
                normalize_name(text_of(v.name)),
                v.type,
                tuple(join_fqn("/", names[i]) for i in v.dimensions),
                attributes=tuple(_attribute(a) for a in v.attributes),
                data=ClassicSource(file, v.type.dtype, header.shape(v), header.strides(v), v.begin),
            )
            for v in header.variables
        ),
        format=CLASSIC[header.version],
    )


def _attribute(attribute: ClassicAttribute) -> Attribute:
    values = attribute.values.astype(attribute.type.dtype)
    return Attribute(normalize_name(text_of(attribute.name)), attribute.type, values)


#: The record count of a stream, for which the header states no number.
_STREAM = b"\xff" * 8


def parse_header(file: ClassicFile) -> Header:
    """Parse the header of a classic file.

    :class:`NetCDFFileError` names the offset of the first invalid byte.
    """
    return _Parser(file).header()


def is_stream(file: ClassicFile) -> bool:
    """Return True if the header leaves the number of records to the file's size, as in a stream."""
    width = Widths.of(file.read(0, 4)[3]).count
    return file.read(4, width) == _STREAM[:width]


class _Parser:
    def __init__(self, file: ClassicFile) -> None:
        self.file = file
        self.buffer = b""
        self.position = 0

    def take(self, size: int) -> bytes:
        end = self.position + size
        if end > self.file.size:
            raise self.wrong(
                f"the header is truncated: {size} bytes are needed and the file ends", self.position
            )
        if end > len(self.buffer):
            more = min(max(end, 2 * len(self.buffer), _BLOCK), self.file.size) - len(self.buffer)
            self.buffer += self.file.read(len(self.buffer), more)
        found = self.buffer[self.position : end]
        self.position = end
        return found

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def wrong(self, message: str, position: int) -> NetCDFFileError:
        return NetCDFFileError(f"damaged header at byte {position}: {message}", path=self.file.path)

    def header(self) -> Header:
        self.version = self.take(4)[3]
        self.widths = Widths.of(self.version)
        records = self.count()
        streaming = records == int.from_bytes(_STREAM[: self.widths.count], "big")
        self.dimensions = self.listing(_DIMENSIONS, self.dimension)
        if sum(d.length == 0 for d in self.dimensions) > 1:
            raise self.wrong("two dimensions are unlimited", self.position)
        attributes = self.listing(_ATTRIBUTES, self.attribute)
        variables = self.listing(_VARIABLES, self.variable)
        header = Header(self.version, 0 if streaming else records, self.dimensions, attributes, variables)
        if not streaming:
            return header
        begins = [v.begin for v in variables if header.is_record(v)]
        size = header.record_size
        found = (self.file.size - min(begins)) // size if begins and size else 0
        return Header(self.version, max(found, 0), self.dimensions, attributes, variables)

    def count(self) -> int:
        return self.number(self.widths.count)

    def listing(self, tag: int, item: Callable[[], Any]) -> tuple[Any, ...]:
        start = self.position
        found, count = self.number(4), self.count()
        if found == 0 and count == 0:
            return ()
        if found != tag:
            raise self.wrong(f"the tag {tag} is expected here, not {found}", start)
        if count > self.file.size:  # each item needs at least one byte: do not try to read millions of them
            raise self.wrong(f"a list of {count} items cannot be in a file of {self.file.size} bytes", start)
        return tuple(item() for _ in range(count))

    def name(self) -> bytes:
        size = self.count()
        # On an in-place rename, netCDF-C pads a shorter name with NULs.
        return self.take(padded(size))[:size].partition(b"\0")[0]

    def dimension(self) -> ClassicDimension:
        return ClassicDimension(self.name(), self.count())

    def type(self) -> Any:
        start = self.position
        number = self.number(4)
        if number not in TYPES or (self.version != 5 and number > 6):
            raise self.wrong(f"there is no type with the number {number}", start)
        return TYPES[number]

    def attribute(self) -> ClassicAttribute:
        name = self.name()
        type_ = self.type()
        count = self.count()
        dtype = type_.dtype.newbyteorder(">")
        data = self.take(padded(count * dtype.itemsize))
        return ClassicAttribute(name, type_, np.frombuffer(data, dtype, count))

    def variable(self) -> ClassicVariable:
        name = self.name()
        start = self.position
        rank = self.count()
        if rank > self.file.size:
            raise self.wrong(f"{rank} dimensions cannot be in a file of {self.file.size} bytes", start)
        ids = tuple(self.count() for _ in range(rank))
        for axis, number in enumerate(ids):
            if number >= len(self.dimensions):
                raise self.wrong(f"there is no dimension with the number {number}", start)
            if axis and self.dimensions[number].length == 0:
                raise self.wrong("the unlimited dimension is not the first of a variable", start)
        attributes = self.listing(_ATTRIBUTES, self.attribute)
        type_ = self.type()
        self.count()  # the stored size in bytes overflows for large variables and is ignored
        return ClassicVariable(name, type_, ids, attributes, self.number(self.widths.offset))


@dataclass(frozen=True, eq=False)
class ClassicSource:
    """An :class:`~nczarr.model.ArraySource` on a part of a classic file: a strided array."""

    file: ClassicFile
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    begin: int

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        axes = [range(s.start, s.stop, s.step or 1) for s in region]
        if out is None:
            out = np.empty([len(axis) for axis in axes], self.dtype)
        if out.size:
            self._fill(out, self.begin, axes, self.strides)
        return out

    def chunk_places(self) -> FilePlaces | None:
        """Return the location of the values: one chunk, or one per record or per part of the first axis."""
        if not self.shape or 0 in self.shape:
            return None
        row = math.prod(self.shape[1:]) * self.dtype.itemsize
        together = self.strides[0] == row
        rows = largest_part(self.shape[0], max(1, _CHUNK // row)) if together else 1
        places = {
            (i, *(0,) * (len(self.shape) - 1)): (self.begin + i * rows * self.strides[0], rows * row)
            for i in range(self.shape[0] // rows)
        }
        return FilePlaces((rows, *self.shape[1:]), (), self.dtype.itemsize > 1, places, self.read)

    def _fill(self, out: np.ndarray, offset: int, axes: list[range], strides: tuple[int, ...]) -> None:
        """Read the bytes from the first to the last value if they are few. Otherwise split the first axis."""
        offset += sum(axis[0] * stride for axis, stride in zip(axes, strides, strict=True))
        axes = [range(0, axis[-1] - axis[0] + 1, axis.step) for axis in axes]
        span = self.dtype.itemsize
        span += sum(axis[-1] * stride for axis, stride in zip(axes, strides, strict=True))
        if span <= max(_SPAN, 2 * out.nbytes):
            steps = [axis.step * stride for axis, stride in zip(axes, strides, strict=True)]
            data = self.file.read(offset, span)
            out[...] = np.ndarray(out.shape, self.dtype.newbyteorder(">"), data, 0, steps)
            return
        first, *rest = axes
        if len(first) == 1:
            self._fill(out[0], offset, rest, strides[1:])
            return
        block = max(1, _SPAN // (first.step * strides[0]))
        for i in range(0, len(first), block):
            self._fill(out[i : i + block], offset, [first[i : i + block], *rest], strides)
