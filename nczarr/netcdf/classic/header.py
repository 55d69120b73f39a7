"""Describe the header of a classic file (CDF-1, CDF-2, CDF-5), derive it from a model, and format it.

The source is *The NetCDF Classic Format Specification*. All numbers are big-endian. Names and values are
padded to four bytes. CDF-2 has 64-bit offsets; CDF-5 also has 64-bit counts and five more types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nczarr.errors import LossError
from nczarr.formats import CLASSIC
from nczarr.lazy import cached_property
from nczarr.model import PRIMITIVES, Attribute, Dataset, PrimitiveType, Type
from nczarr.model.nodes import LARGEST_DIMENSION
from nczarr.netcdf.bytes.file import bytes_of, text_of

#: The version byte in files of each format, by its netCDF name.
FORMATS = {name: version for version, name in CLASSIC.items()}
_NAMES = ("byte", "char", "short", "int", "float", "double", "ubyte", "ushort", "uint", "int64", "uint64")
#: The types by their number in files. CDF-1 and CDF-2 have the first six only.
TYPES: dict[int, PrimitiveType] = {i: PRIMITIVES[name] for i, name in enumerate(_NAMES, 1)}


def padded(size: int) -> int:
    """Return `size` rounded up to a multiple of four."""
    return -(-size // 4) * 4


@dataclass(frozen=True)
class Widths:
    """Return the size in bytes of a count and of an offset in a format."""

    count: int
    offset: int

    @classmethod
    def of(cls, version: int) -> Widths:
        return cls(8 if version == 5 else 4, 4 if version == 1 else 8)


@dataclass(frozen=True)
class ClassicDimension:
    """A dimension. Length 0 marks the record dimension."""

    name: bytes
    length: int


@dataclass(frozen=True)
class ClassicAttribute:
    """An attribute. `values` are in file order (big-endian)."""

    name: bytes
    type: PrimitiveType
    values: np.ndarray


@dataclass(frozen=True)
class ClassicVariable:
    """A variable and the offset of its first value."""

    name: bytes
    type: PrimitiveType
    dimensions: tuple[int, ...]
    attributes: tuple[ClassicAttribute, ...]
    begin: int = 0


@dataclass(frozen=True)
class Header:
    """The header of a classic file: everything before the data."""

    version: int
    records: int
    dimensions: tuple[ClassicDimension, ...]
    attributes: tuple[ClassicAttribute, ...]
    variables: tuple[ClassicVariable, ...] = ()

    def is_record(self, variable: ClassicVariable) -> bool:
        """Return True if the variable has the record dimension."""
        ids = variable.dimensions
        return bool(ids) and self.dimensions[ids[0]].length == 0

    def slab(self, variable: ClassicVariable) -> int:
        """Return the unpadded size of the variable in bytes: of one record for a record variable."""
        lengths = [self.dimensions[i].length for i in variable.dimensions]
        if self.is_record(variable):
            lengths = lengths[1:]
        size = variable.type.dtype.itemsize
        for length in lengths:
            size *= length
        return size

    @cached_property
    def record_size(self) -> int:
        """Return the distance of two records in bytes. The record of a single record variable is not padded."""
        slabs = [self.slab(v) for v in self.variables if self.is_record(v)]
        return slabs[0] if len(slabs) == 1 else sum(padded(slab) for slab in slabs)

    def shape(self, variable: ClassicVariable) -> tuple[int, ...]:
        """Return the current shape of a variable."""
        return tuple(self.dimensions[i].length or self.records for i in variable.dimensions)

    def strides(self, variable: ClassicVariable) -> tuple[int, ...]:
        """Return the distance of two neighbouring elements in bytes, for each axis."""
        step = variable.type.dtype.itemsize
        strides: list[int] = []
        for length in reversed(self.shape(variable)):
            strides.append(step)
            step *= length
        if self.is_record(variable):
            strides[-1] = self.record_size
        return tuple(reversed(strides))

    def end(self, variable: ClassicVariable) -> int:
        """Return the offset behind the variable's last value."""
        if self.is_record(variable):
            if not self.records:
                return 0
            return variable.begin + (self.records - 1) * self.record_size + self.slab(variable)
        return variable.begin + self.slab(variable)

    @property
    def file_size(self) -> int:
        """Return the size of the complete file, which has padding at its end."""
        return padded(max([len(format_header(self)), *map(self.end, self.variables)]))


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
        ClassicDimension(bytes_of(d.name), 0 if d.unlimited else d.size) for d in dataset.dimensions
    )
    attributes = tuple(_attribute(a) for a in dataset.attributes)
    variables = []
    for v in dataset.variables:
        assert isinstance(v.type, PrimitiveType)
        ids = tuple(numbers[str(reference)] for reference in v.dimensions)
        variables.append(
            ClassicVariable(bytes_of(v.name), v.type, ids, tuple(_attribute(a) for a in v.attributes))
        )
    return Header(version, records, dimensions, attributes, tuple(variables))


def make_header(dataset: Dataset, version: int) -> Header:
    """Return the header of a dataset, with the offset of every variable; see :func:`check_places`."""
    header = header_of(dataset, version)
    begins = [0] * len(dataset.variables)
    place = len(format_header(header))
    for of_records in (False, True):  # variables of fixed size first, then the record variables
        for i, v in enumerate(header.variables):
            if header.is_record(v) == of_records:
                begins[i] = place
                place += padded(header.slab(v))
    located = tuple(replace(v, begin=b) for v, b in zip(header.variables, begins, strict=True))
    header = replace(header, variables=located)
    check_places(header)
    return header


def check_places(header: Header) -> None:
    """Raise :class:`LossError` if an offset or a size exceeds the range of the format's numbers."""
    version = header.version
    limit = 1 << (31 if version == 1 else 63)
    for v in header.variables:
        if v.begin >= limit:
            raise LossError(
                "the data do not fit: the format has offsets of 31 bits", fqn=f"/{text_of(v.name)}"
            )
        if version != 5 and header.slab(v) > 0xFFFFFFFC and v is not header.variables[-1]:
            raise LossError("the variable is larger than 4 GiB", fqn=f"/{text_of(v.name)}")


def _attribute(attribute: Attribute) -> ClassicAttribute:
    assert isinstance(attribute.type, PrimitiveType)
    big = attribute.values.astype(attribute.type.dtype.newbyteorder(">"))
    return ClassicAttribute(bytes_of(attribute.name), attribute.type, big)


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
