"""Read the classic netCDF formats (CDF-1, CDF-2, CDF-5) without a netCDF library, and make their headers.

The source is *The NetCDF Classic Format Specification*. A classic file is a small header and plain big-endian arrays.
All numbers are big-endian. Names and values are padded to four bytes. CDF-2 has 64-bit offsets; CDF-5 also has 64-bit
counts and five more types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from nczarr import model
from nczarr.dataclass import dataclass
from nczarr.errors import LossError, NetCDFFileError
from nczarr.formats import CLASSIC, incomplete_file
from nczarr.lazy import cached_property
from nczarr.model.nodes import LARGEST_DIMENSION
from nczarr.netcdf.bytes.file import (
    DiskFile,
    FilePlaces,
    ReadableFile,
    bytes_of,
    file_errors,
    read_all,
    text_of,
)

#: The version byte in files of each format, by its netCDF name.
FORMATS = {name: version for version, name in CLASSIC.items()}
#: The types by their number in files: all but strings in CDF-5, the classic ones in CDF-1 and CDF-2.
_TYPES = {t.number: t for t in model.PRIMITIVES.values() if t is not model.STRING}
#: NC_DIMENSION, NC_VARIABLE and NC_ATTRIBUTE of the format's specification.
_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12
_BLOCK = 1 << 16
#: Up to this many bytes, one read covers all values of a region, with the bytes between them.
_SPAN = 1 << 20
#: Largest size of a chunk in references, in bytes.
_CHUNK = 16 << 20


def padded(size: int) -> int:
    """Return `size` rounded up to a multiple of four."""
    return -(-size // 4) * 4


def count_size(version: int) -> int:
    """Return the size in bytes of a count in a format."""
    return 8 if version == 5 else 4


def _offset_size(version: int) -> int:
    return 4 if version == 1 else 8


@dataclass(frozen=True)
class Header:
    """The header of a classic file: everything before the data.

    Attributes
    ----------
    dataset : Dataset
        The content, in the order of the file. The length of its record dimension does not count.
    records : int
        The number of records.
    begins : tuple of int
        The offset of the first value of each variable.
    counted : bool
        False if the file leaves the number of records to its size, as in a stream.
    """

    version: int
    dataset: model.Dataset
    records: int = 0
    begins: tuple[int, ...] = ()
    counted: bool = True

    def is_record(self, variable: model.Variable) -> bool:
        """Return True if the variable has the record dimension."""
        return bool(variable.dimensions) and self.dataset.is_unlimited(variable.dimensions[0])

    def slab(self, variable: model.Variable) -> int:
        """Return the unpadded size of the variable in bytes: of one record for a record variable."""
        return math.prod(self.shape_of(variable)[self.is_record(variable) :]) * variable.type.dtype.itemsize

    @cached_property
    def record_size(self) -> int:
        """Return the distance of two records in bytes. The record of a single record variable is not padded."""
        slabs = [self.slab(v) for v in self.dataset.variables if self.is_record(v)]
        return slabs[0] if len(slabs) == 1 else sum(padded(slab) for slab in slabs)

    def shape_of(self, variable: model.Variable) -> tuple[int, ...]:
        """Return the current shape of a variable."""
        dimensions = [self.dataset.all_dimensions[str(reference)] for reference in variable.dimensions]
        return tuple([self.records if d.unlimited else d.size for d in dimensions])

    def strides(self, variable: model.Variable) -> tuple[int, ...]:
        """Return the distance of two neighbouring elements in bytes, for each axis."""
        shape, itemsize = self.shape_of(variable), variable.type.dtype.itemsize
        strides = [math.prod(shape[axis + 1 :]) * itemsize for axis in range(len(shape))]
        # Records of all variables follow each other.
        if self.is_record(variable):
            strides[0] = self.record_size
        return tuple(strides)

    def end(self, index: int) -> int:
        """Return the offset behind the last value of a variable; 0 without records."""
        variable, begin = self.dataset.variables[index], self.begins[index]
        if self.is_record(variable):
            if not self.records:
                return 0
            begin += (self.records - 1) * self.record_size
        return begin + self.slab(variable)

    @property
    def file_size(self) -> int:
        """Return the size of the complete file, which has padding at its end."""
        if not self.begins:
            return len(format_header(self))
        return padded(max(min(self.begins), *map(self.end, range(len(self.begins)))))


def refuse_losses(path: str, dataset: model.Dataset, format_: str) -> None:
    """Raise :class:`LossError` for the first part that a classic format cannot represent.

    `format_` is a key of :data:`FORMATS` or ``netCDF-4 classic model``.
    """
    for fqn, problem in _losses(dataset, format_):
        raise LossError(f"the format {format_!r} cannot represent this: {problem}", path=path, fqn=fqn)


def _losses(dataset: model.Dataset, format_: str) -> Iterator[tuple[str, str]]:
    if dataset.groups:
        yield f"/{dataset.groups[0].name}", "the format has no groups"
    if dataset.types:
        yield dataset.types[0].fqn, "the format has no user-defined types"
    unlimited = [d.name for d in dataset.dimensions if d.unlimited]
    if len(unlimited) > 1:
        yield f"/{unlimited[1]}", f"the format has only one unlimited dimension, which is {unlimited[0]!r}"
    for d in dataset.dimensions:
        # Length 0 marks the record dimension in the file.
        if not d.size and not d.unlimited and format_ in FORMATS:
            yield f"/{d.name}", "the format has no dimensions of size 0 except the unlimited one"
        if d.size > LARGEST_DIMENSION.get(format_, d.size):
            yield f"/{d.name}", f"the format's dimensions have at most {LARGEST_DIMENSION[format_]} elements"
    typed: list[tuple[str, str, model.Type]] = [
        ("/", f"attribute {a.name!r}: ", a.type) for a in dataset.attributes
    ]
    for v in dataset.variables:
        typed += [(f"/{v.name}", "", v.type)]
        typed += [(f"/{v.name}", f"attribute {a.name!r}: ", a.type) for a in v.attributes]
        for axis, reference in enumerate(v.dimensions):
            if axis and dataset.is_unlimited(reference) and format_ in FORMATS:
                wrong = f"the unlimited dimension must be the first of a variable, and {reference} is not"
                yield f"/{v.name}", wrong
    for fqn, part, type_ in typed:
        if not (type_.is_classic or (format_ == "cdf5" and type_ in _TYPES.values())):
            yield fqn, f"{part}the format has no type {type_.name}"


def check_places(header: Header) -> None:
    """Raise :class:`LossError` if an offset or a size exceeds the range of the format's numbers."""
    variables = header.dataset.variables
    for v, begin in zip(variables, header.begins, strict=True):
        # CDF-1 has offsets in 32 bits with a sign.
        if begin >= 1 << (31 if header.version == 1 else 63):
            raise LossError("the data do not fit: the format has offsets of 31 bits", fqn=f"/{v.name}")
        # The specification permits it for the last variable only.
        if header.version != 5 and header.slab(v) > 0xFFFFFFFC and v is not variables[-1]:
            raise LossError("the variable is larger than 4 GiB", fqn=f"/{v.name}")


def format_header(header: Header) -> bytes:
    """Return the bytes of a header. The inverse of :func:`parse_header`."""
    width, dataset = count_size(header.version), header.dataset
    numbers = {fqn: i for i, fqn in enumerate(dataset.all_dimensions)}

    def count(number: int) -> bytes:
        return number.to_bytes(width, "big")

    def name(name: str) -> bytes:
        text = bytes_of(name)
        return count(len(text)) + text.ljust(padded(len(text)), b"\0")

    def listing(tag: int, items: list[bytes]) -> bytes:
        return (tag if items else 0).to_bytes(4, "big") + count(len(items)) + b"".join(items)

    def kind(type_: model.Type) -> bytes:
        assert isinstance(type_, model.PrimitiveType)
        return type_.number.to_bytes(4, "big")

    def attributes(items: tuple[model.Attribute, ...]) -> bytes:
        made = []
        for a in items:
            data = a.values.astype(a.type.dtype.newbyteorder(">")).tobytes()
            head = name(a.name) + kind(a.type) + count(a.values.size)
            made.append(head + data.ljust(padded(len(data)), b"\0"))
        return listing(_ATTRIBUTES, made)

    variables = [
        name(v.name)
        + count(len(v.dimensions))
        + b"".join([count(numbers[str(reference)]) for reference in v.dimensions])
        + attributes(v.attributes)
        + kind(v.type)
        # The specification has all ones for a size that does not fit. Readers compute it from the
        # shape.
        + count(min(padded(header.slab(v)), (1 << 8 * width) - 1))
        + begin.to_bytes(_offset_size(header.version), "big")
        for v, begin in zip(dataset.variables, header.begins, strict=True)
    ]
    start = b"CDF" + bytes([header.version]) + count(header.records)
    # Length 0 marks the record dimension.
    lengths = [name(d.name) + count(0 if d.unlimited else d.size) for d in dataset.dimensions]
    dimensions = listing(_DIMENSIONS, lengths)
    return start + dimensions + attributes(dataset.attributes) + listing(_VARIABLES, variables)


class ClassicFile:
    """A classic file, open for reads at any offset from any thread."""

    def __init__(self, path: str, content: ReadableFile) -> None:
        self.path = path
        self.size = content.size
        self.content = content
        self.is_open = True

    @classmethod
    def open(cls, path: str) -> ClassicFile:
        """Open a file."""
        with file_errors(path, "read"):
            return cls(path, DiskFile(path, "r"))

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """Return `size` bytes from `offset`. Raises :class:`NetCDFFileError` if the file ends before."""
        if not self.is_open:
            raise NetCDFFileError("the file is closed", path=self.path)
        return read_all(self.content, offset, size, self.path)

    def close(self) -> None:
        """Close the file. Its sources are no longer readable."""
        self.is_open = False
        self.content.close()


def read_classic(file: ClassicFile, name: str) -> model.Dataset:
    """Read the header of an open file into a model whose variables load their data on access.

    Raises
    ------
    NetCDFFileError
        If the file is damaged, or ends before the end of the data that its header states.
    """
    header = parse_header(file)
    variables = []
    for index, v in enumerate(header.dataset.variables):
        # A file that is still written, or was cut, would fail only at the read of its last
        # values.
        if header.end(index) > file.size:
            raise incomplete_file(
                f"the file is truncated: it has {file.size} bytes, "
                f"the variable {v.name!r} ends at {header.end(index)}",
                file.path,
            )
        begin = header.begins[index]
        data = ClassicSource(file, v.type.dtype, header.shape_of(v), header.strides(v), begin)
        variables.append(v.with_data(data))
    return replace(header.dataset, name=name, variables=tuple(variables))


def parse_header(file: ClassicFile) -> Header:
    """Parse the header of a classic file.

    :class:`NetCDFFileError` names the offset of the first invalid byte.
    """
    return _HeaderParser(file).header()


class _HeaderParser:
    def __init__(self, file: ClassicFile) -> None:
        self.file = file
        self.buffer = b""
        self.position = 0

    def take(self, size: int) -> bytes:
        end = self.position + size
        if end > self.file.size:
            problem = f"the header is truncated: {size} bytes are needed and the file ends"
            raise incomplete_file(self.wrong(problem).message, self.file.path)
        # A header is read in blocks: its length is not known before its end.
        if end > len(self.buffer):
            more = min(max(end, 2 * len(self.buffer), _BLOCK), self.file.size) - len(self.buffer)
            self.buffer += self.file.read(len(self.buffer), more)
        found = self.buffer[self.position : end]
        self.position = end
        return found

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def wrong(self, message: str, position: int | None = None) -> NetCDFFileError:
        at = self.position if position is None else position
        return NetCDFFileError(f"damaged header at byte {at}: {message}", path=self.file.path)

    def header(self) -> Header:
        self.version = self.take(4)[3]
        records = self.count()
        self.dimensions: tuple[model.Dimension, ...] = self.listing(_DIMENSIONS, self.dimension)
        if sum(d.unlimited for d in self.dimensions) > 1:
            raise self.wrong("two dimensions are unlimited")
        # The variables of this name would have either length.
        if len(set(self.dimensions)) > len({d.name for d in self.dimensions}):
            raise self.wrong("two dimensions have one name")
        attributes = self.listing(_ATTRIBUTES, self.attribute)
        variables = self.listing(_VARIABLES, self.variable)
        dataset = model.Dataset(
            "",
            attributes=attributes,
            dimensions=self.dimensions,
            variables=tuple(v for v, _ in variables),
            format=CLASSIC[self.version],
        )
        # All ones: the writer of a stream did not know the number of records. The file's size
        # tells it.
        counted = records != (1 << 8 * count_size(self.version)) - 1
        header = Header(self.version, dataset, records, tuple(begin for _, begin in variables), counted)
        # A file that was written as a stream does not say how many records it has.
        if not counted:
            begins = [begin for v, begin in variables if header.is_record(v)]
            size = header.record_size
            records = max((self.file.size - min(begins)) // size, 0) if begins and size else 0
        dimensions = tuple(replace(d, size=records) if d.unlimited else d for d in self.dimensions)
        return replace(header, dataset=replace(dataset, dimensions=dimensions), records=records)

    def count(self) -> int:
        return self.number(count_size(self.version))

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

    def name(self) -> str:
        size = self.count()
        # On an in-place rename, netCDF-C pads a shorter name with NULs.
        return model.normalize_name(text_of(self.take(padded(size))[:size].partition(b"\0")[0]))

    def dimension(self) -> model.Dimension:
        name, length = self.name(), self.count()
        return model.Dimension(name, length, length == 0)

    def type(self) -> model.PrimitiveType:
        start = self.position
        number = self.number(4)
        found = _TYPES.get(number)
        if found is None or not (self.version == 5 or found.is_classic):
            raise self.wrong(f"there is no type with the number {number}", start)
        return found

    def attribute(self) -> model.Attribute:
        name, type_, count = self.name(), self.type(), self.count()
        dtype = type_.dtype.newbyteorder(">")
        data = self.take(padded(count * dtype.itemsize))
        return model.Attribute(name, type_, np.frombuffer(data, dtype, count).astype(type_.dtype))

    def variable(self) -> tuple[model.Variable, int]:
        """Return the variable and the offset of its first value."""
        name = self.name()
        start = self.position
        rank = self.count()
        # A damaged rank would ask for thousands of millions of numbers.
        if rank > self.file.size:
            raise self.wrong(f"{rank} dimensions cannot be in a file of {self.file.size} bytes", start)
        ids = tuple(self.count() for _ in range(rank))
        for axis, number in enumerate(ids):
            if number >= len(self.dimensions):
                raise self.wrong(f"there is no dimension with the number {number}", start)
            if axis and self.dimensions[number].unlimited:
                raise self.wrong("the unlimited dimension is not the first of a variable", start)
        attributes, type_ = self.listing(_ATTRIBUTES, self.attribute), self.type()
        self.count()  # the stored size in bytes overflows for large variables and is ignored
        references = tuple(model.join_fqn("/", self.dimensions[number].name) for number in ids)
        made = model.Variable(name, type_, references, attributes=attributes)
        return made, self.number(_offset_size(self.version))


@dataclass(frozen=True, eq=False)
class ClassicSource:
    """An :class:`~nczarr.model.ArraySource` on a part of a classic file: a strided array."""

    file: ClassicFile
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    begin: int

    def read(self, region: model.Region, out: np.ndarray | None = None) -> np.ndarray:
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
        rows = 1
        if self.strides[0] == row:  # the largest divisor of the length within the limit
            most = max(1, min(_CHUNK // row, self.shape[0]))
            rows = next(n for n in range(most, 0, -1) if self.shape[0] % n == 0)
        places = {
            (i, *(0,) * (len(self.shape) - 1)): (self.begin + i * rows * self.strides[0], rows * row)
            for i in range(self.shape[0] // rows)
        }
        chunk, is_big = (rows, *self.shape[1:]), self.dtype.itemsize > 1
        return FilePlaces(self.file, self.file.path, chunk, (), is_big, places)

    def _fill(self, out: np.ndarray, offset: int, axes: list[range], strides: tuple[int, ...]) -> None:
        """Read the bytes from the first to the last value if they are few. Otherwise split the first axis."""
        offset += sum(axis[0] * stride for axis, stride in zip(axes, strides, strict=True))
        axes = [range(0, axis[-1] - axis[0] + 1, axis.step) for axis in axes]
        span = self.dtype.itemsize
        span += sum(axis[-1] * stride for axis, stride in zip(axes, strides, strict=True))
        # One read of a few bytes more costs less than a call for each row.
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
