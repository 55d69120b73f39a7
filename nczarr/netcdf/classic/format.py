"""Describe the header of a classic file (CDF-1, CDF-2, CDF-5) as data.

The source is *The NetCDF Classic Format Specification*. All numbers are big-endian. Names and values are
padded to four bytes. CDF-2 has 64-bit offsets; CDF-5 also has 64-bit counts and five more types.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nczarr.lazy import cached_property
from nczarr.model import PRIMITIVES, PrimitiveType

#: The netCDF name of each format, and its version byte in files.
FORMATS = {"classic": 1, "64-bit offset": 2, "cdf5": 5}
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
    variables: tuple[ClassicVariable, ...] = field(default=())

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
