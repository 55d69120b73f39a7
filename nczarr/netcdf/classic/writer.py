"""Write classic files (CDF-1, CDF-2, CDF-5) from the model, without a netCDF library."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from nczarr.errors import LossError, NCZarrError, NetCDFFileError
from nczarr.model import (
    Attribute,
    Dataset,
    PrimitiveType,
    Region,
    Type,
    Variable,
    fill_value_of,
    regions,
)
from nczarr.model.nodes import LARGEST_DIMENSION
from nczarr.netcdf.classic.format import (
    FORMATS,
    TYPES,
    ClassicAttribute,
    ClassicDimension,
    ClassicVariable,
    Header,
    Widths,
    padded,
)
from nczarr.netcdf.sink import FileSink

_NUMBERS = {type_: number for number, type_ in TYPES.items()}


def classic_problems(dataset: Dataset, format_: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a dataset that a classic format cannot represent: pairs of FQN and reason.

    `format_` is a key of :data:`FORMATS` or ``netCDF-4 classic model``.
    """
    if dataset.groups:
        yield f"/{dataset.groups[0].name}", "the format has no groups"
    if dataset.types:
        yield dataset.types[0].fqn, "the format has no user-defined types"
    unlimited = [d.name for d in dataset.dimensions if d.unlimited]
    if len(unlimited) > 1:
        yield f"/{unlimited[1]}", f"the format has only one unlimited dimension, which is {unlimited[0]!r}"
    for d in dataset.dimensions:
        if not d.size and not d.unlimited and format_ in FORMATS:
            yield f"/{d.name}", "the format has no dimensions of size 0 except the unlimited one"
        if d.size > LARGEST_DIMENSION.get(format_, d.size):
            yield f"/{d.name}", f"the format's dimensions have at most {LARGEST_DIMENSION[format_]} elements"
    for a in dataset.attributes:
        yield from _attribute_problems("/", a, format_)
    for v in dataset.variables:
        fqn = f"/{v.name}"
        if wrong := _type_problem(v.type, format_):
            yield fqn, wrong
        for axis, reference in enumerate(v.dimensions):
            if axis and dataset.is_unlimited(reference) and format_ in FORMATS:
                yield fqn, f"the unlimited dimension must be the first of a variable, and {reference} is not"
        for a in v.attributes:
            yield from _attribute_problems(fqn, a, format_)


def refuse_losses(path: str, dataset: Dataset, format_: str) -> None:
    """Raise :class:`LossError` for the first part that a classic format cannot represent."""
    for fqn, problem in classic_problems(dataset, format_):
        raise LossError(f"the format {format_!r} cannot represent this: {problem}", path=path, fqn=fqn)


def _attribute_problems(fqn: str, attribute: Attribute, format_: str) -> Iterator[tuple[str, str]]:
    if wrong := _type_problem(attribute.type, format_):
        yield fqn, f"attribute {attribute.name!r}: {wrong}"


def _type_problem(type_: Type, format_: str) -> str | None:
    limit = 11 if format_ == "cdf5" else 6
    if isinstance(type_, PrimitiveType) and _NUMBERS.get(type_, 12) <= limit:
        return None
    return f"the format has no type {type_.name}"


def header_of(dataset: Dataset, version: int) -> Header:
    """Return the header of a dataset, without the offsets of the variables."""
    numbers = {fqn: i for i, fqn in enumerate(dataset.all_dimensions)}
    records = next((d.size for d in dataset.dimensions if d.unlimited), 0)
    dimensions = tuple(
        ClassicDimension(_bytes(d.name), 0 if d.unlimited else d.size) for d in dataset.dimensions
    )
    attributes = tuple(_attribute(a) for a in dataset.attributes)
    variables = []
    for v in dataset.variables:
        assert isinstance(v.type, PrimitiveType)
        ids = tuple(numbers[str(reference)] for reference in v.dimensions)
        variables.append(
            ClassicVariable(_bytes(v.name), v.type, ids, tuple(_attribute(a) for a in v.attributes))
        )
    return Header(version, records, dimensions, attributes, tuple(variables))


def make_header(dataset: Dataset, version: int) -> Header:
    """Return the header of a dataset, with the offset of every variable; see :func:`check_places`."""
    header = header_of(dataset, version)
    begins = [0] * len(dataset.variables)
    place = len(format_header(header))
    for wanted in (False, True):  # variables of fixed size first, then the record variables
        for i, v in enumerate(header.variables):
            if header.is_record(v) == wanted:
                begins[i] = place
                place += padded(header.slab(v))
    placed = tuple(replace(v, begin=b) for v, b in zip(header.variables, begins, strict=True))
    header = replace(header, variables=placed)
    check_places(header)
    return header


def check_places(header: Header) -> None:
    """Raise :class:`LossError` if an offset or a size exceeds the range of the format's numbers."""
    version = header.version
    limit = 1 << (31 if version == 1 else 63)
    for v in header.variables:
        if v.begin >= limit:
            raise LossError("the data do not fit: the format has offsets of 31 bits", fqn=f"/{_text(v.name)}")
        if version != 5 and header.slab(v) > 0xFFFFFFFC and v is not header.variables[-1]:
            raise LossError("the variable is larger than 4 GiB", fqn=f"/{_text(v.name)}")


def _attribute(attribute: Attribute) -> ClassicAttribute:
    assert isinstance(attribute.type, PrimitiveType)
    big = attribute.values.astype(attribute.type.dtype.newbyteorder(">"))
    return ClassicAttribute(_bytes(attribute.name), attribute.type, big)


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def format_header(header: Header) -> bytes:
    """Return the bytes of a header. The inverse of :func:`nczarr.netcdf.classic.reader.parse_header`."""
    widths = Widths.of(header.version)

    def count(number: int) -> bytes:
        return number.to_bytes(widths.count, "big")

    def name(text: bytes) -> bytes:
        return count(len(text)) + text.ljust(padded(len(text)), b"\0")

    def listing(tag: int, items: list[bytes]) -> bytes:
        return (tag if items else 0).to_bytes(4, "big") + count(len(items)) + b"".join(items)

    def kind(type_: PrimitiveType) -> bytes:
        return _NUMBERS[type_].to_bytes(4, "big")

    def attributes(items: tuple[ClassicAttribute, ...]) -> bytes:
        made = []
        for a in items:
            data = a.values.tobytes()
            made.append(
                name(a.name) + kind(a.type) + count(a.values.size) + data.ljust(padded(len(data)), b"\0")
            )
        return listing(12, made)

    largest = (1 << 8 * widths.count) - 1
    variables = [
        name(v.name)
        + count(len(v.dimensions))
        + b"".join(count(i) for i in v.dimensions)
        + attributes(v.attributes)
        + kind(v.type)
        + count(min(padded(header.slab(v)), largest))
        + v.begin.to_bytes(widths.offset, "big")
        for v in header.variables
    ]
    return b"".join(
        [
            b"CDF" + bytes([header.version]),
            count(header.records),
            listing(10, [name(d.name) + count(d.length) for d in header.dimensions]),
            attributes(header.attributes),
            listing(11, variables),
        ]
    )


class ClassicSink(FileSink):
    """Writes a classic file. Unwritten values become the fill value at the end."""

    def __init__(self, path: str, dataset: Dataset, overwrite: bool, format_: str) -> None:
        super().__init__(path, dataset, overwrite)
        refuse_losses(path, dataset, format_)
        self.header = make_header(dataset, FORMATS[format_])
        self._variables = dict(zip(dataset.all_variables, self.header.variables, strict=True))
        # One flag per block of a variable: True once the whole block has values.
        self._filled: dict[str, np.ndarray] = {}
        for fqn in self._variables:
            grid = self._grid(fqn)
            self._filled[fqn] = np.zeros(grid, bool)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            self._descriptor: int | None = os.open(self.temporary, flags, 0o666)
        except OSError as error:
            raise NetCDFFileError(f"the file cannot be written: {error.strerror}", path=path) from error
        try:
            head = format_header(self.header)
            self._put(0, head)
            ends = [self.header.end(v) for v in self.header.variables]
            os.ftruncate(self._descriptor, padded(max([len(head), *ends])))
        except OSError as error:
            self.abort()
            raise NetCDFFileError(f"the file cannot be written: {error.strerror}", path=path) from error
        except NCZarrError:
            self.abort()
            raise

    def _chunk_shape(self, fqn: str, variable: Variable) -> tuple[int, ...]:
        return (1,) * len(variable.dimensions)

    def _grid(self, fqn: str) -> tuple[int, ...]:
        shape = self.dataset.shape(self.dataset.variable_at(fqn))
        return tuple(-(-n // b) for n, b in zip(shape, self.write_shape(fqn), strict=True))

    def _write(self, fqn: str, variable: Variable, region: Region, values: np.ndarray) -> None:
        with self._lock:
            self._prepare(fqn, variable, region)
            self._store(fqn, region, values)

    def _prepare(self, fqn: str, variable: Variable, region: Region) -> None:
        """Write fill values to the blocks that a region covers in part, and mark all blocks that it touches."""
        marks = self._filled[fqn]
        block = self.write_shape(fqn)
        shape = self.dataset.shape(variable)
        touched = [range(s.start // b, -(-s.stop // b)) for s, b in zip(region, block, strict=True)]
        for index in product(*touched):
            if marks[index]:
                continue
            place = tuple(
                slice(i * b, min((i + 1) * b, n)) for i, b, n in zip(index, block, shape, strict=True)
            )
            if any(p.start < s.start or p.stop > s.stop for p, s in zip(place, region, strict=True)):
                self._fill(fqn, variable, place)
            marks[index] = True

    def _fill(self, fqn: str, variable: Variable, region: Region) -> None:
        if variable.storage.no_fill:
            return
        shape = [s.stop - s.start for s in region]
        self._store(fqn, region, np.full(shape, fill_value_of(variable), variable.type.dtype))

    def _store(self, fqn: str, region: Region, values: np.ndarray) -> None:
        variable = self._variables[fqn]
        strides = self.header.strides(variable)
        big = np.ascontiguousarray(values, values.dtype.newbyteorder(">")).reshape(values.shape)
        offset = variable.begin + sum(s.start * stride for s, stride in zip(region, strides, strict=True))
        self._runs(offset, big, strides)

    def _runs(self, offset: int, values: np.ndarray, strides: tuple[int, ...]) -> None:
        """Write an array run by run. A run is contiguous in the file."""
        if values.strides == strides or values.size == 1:
            self._put(offset, values.tobytes())
            return
        for i in range(values.shape[0]):
            self._runs(offset + i * strides[0], values[i, ...], strides[1:])

    def _put(self, offset: int, data: bytes) -> None:
        view = memoryview(data)
        assert self._descriptor is not None
        try:
            with self._lock:
                os.lseek(self._descriptor, offset, os.SEEK_SET)
                while view:
                    view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            raise NetCDFFileError(f"the file cannot be written: {error.strerror}", path=self.path) from error

    def _finish(self) -> None:
        for fqn, marks in self._filled.items():
            variable = self.dataset.variable_at(fqn)
            blocks = regions(self.dataset.shape(variable), self.write_shape(fqn))
            for done, region in zip(marks.reshape(-1).tolist(), blocks, strict=True):
                if not done:
                    self._fill(fqn, variable, region)
        self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            os.close(descriptor)
        except OSError as error:  # a network file system may report a full disk only on closing
            raise NetCDFFileError(f"the file cannot be written: {error.strerror}", path=self.path) from error
