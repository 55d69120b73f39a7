"""Describe the header of a classic file (CDF-1, CDF-2, CDF-5) as data.

After *The NetCDF Classic Format Specification*. All numbers are big-endian; names and values are padded to four
bytes; CDF-2 has 64-bit offsets, CDF-5 has 64-bit counts as well and five more types.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nczarr.lazy import cached_property
from nczarr.model import PRIMITIVES, PrimitiveType

#: netCDF's name of a format, and the number in its files.
FORMATS = {"classic": 1, "64-bit offset": 2, "cdf5": 5}
_NAMES = ("byte", "char", "short", "int", "float", "double", "ubyte", "ushort", "uint", "int64", "uint64")
#: The types by their number in files; CDF-1 and CDF-2 have the first six.
TYPES: dict[int, PrimitiveType] = {i: PRIMITIVES[name] for i, name in enumerate(_NAMES, 1)}


def padded(size: int) -> int:
    """`size` rounded up to a multiple of four."""
    return -(-size // 4) * 4


@dataclass(frozen=True)
class Widths:
    """Bytes of a count and of an offset in one of the formats."""

    count: int
    offset: int

    @classmethod
    def of(cls, version: int) -> Widths:
        return cls(8 if version == 5 else 4, 4 if version == 1 else 8)


@dataclass(frozen=True)
class ClassicDimension:
    """A dimension; length 0 marks the record dimension."""

    name: bytes
    length: int


@dataclass(frozen=True)
class ClassicAttribute:
    """An attribute; `values` are in file order (big-endian)."""

    name: bytes
    type: PrimitiveType
    values: np.ndarray


@dataclass(frozen=True)
class ClassicVariable:
    """A variable and the place of its first value."""

    name: bytes
    type: PrimitiveType
    dimensions: tuple[int, ...]
    attributes: tuple[ClassicAttribute, ...]
    begin: int = 0


@dataclass(frozen=True)
class Header:
    """All that stands before the data of a classic file."""

    version: int
    records: int
    dimensions: tuple[ClassicDimension, ...]
    attributes: tuple[ClassicAttribute, ...]
    variables: tuple[ClassicVariable, ...] = field(default=())

    def is_record(self, variable: ClassicVariable) -> bool:
        """True if the variable grows along the record dimension."""
        ids = variable.dimensions
        return bool(ids) and self.dimensions[ids[0]].length == 0

    def slab(self, variable: ClassicVariable) -> int:
        """Bytes of the variable, without padding; of one record if it is a record variable."""
        lengths = [self.dimensions[i].length for i in variable.dimensions]
        if self.is_record(variable):
            lengths = lengths[1:]
        size = variable.type.dtype.itemsize
        for length in lengths:
            size *= length
        return size

    @cached_property
    def record_size(self) -> int:
        """Bytes from one record to the next. A record variable that is alone is not padded."""
        slabs = [self.slab(v) for v in self.variables if self.is_record(v)]
        return slabs[0] if len(slabs) == 1 else sum(padded(slab) for slab in slabs)

    def shape(self, variable: ClassicVariable) -> tuple[int, ...]:
        """Current shape of a variable."""
        return tuple(self.dimensions[i].length or self.records for i in variable.dimensions)

    def strides(self, variable: ClassicVariable) -> tuple[int, ...]:
        """Bytes from one index to the next, for each axis."""
        step = variable.type.dtype.itemsize
        strides: list[int] = []
        for length in reversed(self.shape(variable)):
            strides.append(step)
            step *= length
        if self.is_record(variable):
            strides[-1] = self.record_size
        return tuple(reversed(strides))

    def end(self, variable: ClassicVariable) -> int:
        """Place after the variable's last value."""
        if self.is_record(variable):
            if not self.records:
                return 0
            return variable.begin + (self.records - 1) * self.record_size + self.slab(variable)
        return variable.begin + self.slab(variable)
