"""Find netCDF types for Zarr data types that NCZarr does not write (``docs/spec/plain-zarr.md``).

==============================  ==================================================================================
Zarr data type                  netCDF
==============================  ==================================================================================
bool                            byte, 0 and 1, with the attribute ``dtype = "bool"`` (as xarray has it)
float16                         float
complex64, complex128           compound ``_PFNC_FLOAT_COMPLEX_TYPE``, ``_PFNC_DOUBLE_COMPLEX_TYPE`` {r, i}
numpy.datetime64                int64 with ``units = "… since 1970-01-01"``; not-a-time is ``_FillValue``
numpy.timedelta64               int64 with ``units``; not-a-time is ``_FillValue``
fixed_length_utf32              string
null_terminated_bytes, n > 1    string
raw_bytes, r<N>                 opaque
bytes                           vlen of ubyte
struct, structured              compound
==============================  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nczarr.errors import UnsupportedError
from nczarr.mapping.values.encodings import Encoding, PackedEncoding, ViewEncoding
from nczarr.model import (
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    INT64,
    STRING,
    UBYTE,
    Attribute,
    CompoundType,
    Field,
    OpaqueType,
    Type,
    UserType,
    VlenType,
    join_fqn,
    primitive_for_dtype,
)
from nczarr.zarr import DataType
from nczarr.zarr.types.base import TimeType
from nczarr.zarr.types.registry import StructType

#: Declares a user-defined type in the group at hand and returns it; the same content gives the same type.
Declare = Callable[[str, Callable[[str], UserType]], UserType]

_COMPLEX = {
    "complex64": ("_PFNC_FLOAT_COMPLEX_TYPE", FLOAT),
    "complex128": ("_PFNC_DOUBLE_COMPLEX_TYPE", DOUBLE),
}
_UNITS = {
    "W": "weeks",
    "D": "days",
    "h": "hours",
    "m": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "μs": "microseconds",
    "ns": "nanoseconds",
    "ps": "picoseconds",
    "fs": "femtoseconds",
    "as": "attoseconds",
}
_NAT = np.iinfo(np.int64).min


@dataclass(frozen=True)
class CastEncoding(Encoding):
    """Numbers that netCDF has only in a wider type."""

    @property
    def limited(self) -> bool:
        return True

    def encode(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            held = values.astype(self.data_type.dtype)
        if (np.isinf(held) & np.isfinite(values)).any():
            raise UnsupportedError(
                f"a value is beyond the range of {self.data_type.name}, which the array has"
            )
        return held

    def encode_fill(self, value: Any) -> Any:
        with np.errstate(over="ignore"):
            return self.data_type.dtype.type(value)

    def decode(self, raw: np.ndarray) -> np.ndarray:
        return raw.astype(self.dtype)


@dataclass(frozen=True)
class TruthEncoding(ViewEncoding):
    """Truth values as 0 and 1."""

    @property
    def limited(self) -> bool:
        return True

    def encode(self, values: np.ndarray) -> np.ndarray:
        if (values.view(np.uint8) > 1).any():
            raise UnsupportedError("a value is neither 0 nor 1, and the array holds truth values only")
        return super().encode(values)

    def encode_fill(self, value: Any) -> Any:
        return self.data_type.dtype.type(value)


@dataclass(frozen=True)
class TimeEncoding(Encoding):
    """Times as whole numbers of the unit `step`, which divides the unit of the array."""

    step: str = "s"

    @property
    def limited(self) -> bool:
        return True

    def encode(self, values: np.ndarray) -> np.ndarray:
        dtype = self.data_type.dtype
        whole = np.ascontiguousarray(values, np.int64)
        held = self._converted(whole.view(f"{dtype.kind}8[{self.step}]"), dtype)
        if (self.decode(held) != whole).any():
            raise UnsupportedError(f"a time lies between those that the array can hold, which is of {dtype}")
        return held

    def decode(self, raw: np.ndarray) -> np.ndarray:
        counted = self._converted(raw, np.dtype(f"{raw.dtype.kind}8[{self.step}]"))
        # Some versions of numpy let what is too large wrap around.
        if (self._converted(counted, raw.dtype).view(np.int64) != raw.view(np.int64)).any():
            raise self._too_large(raw.dtype)
        return counted.view(np.int64)

    def _converted(self, times: np.ndarray, dtype: np.dtype) -> np.ndarray:
        try:
            return times.astype(dtype)
        except OverflowError:
            raise self._too_large(self.data_type.dtype) from None

    def _too_large(self, dtype: np.dtype) -> UnsupportedError:
        return UnsupportedError(f"a time of {dtype} is too large to be counted in units of {self.step!r}")


@dataclass(frozen=True)
class TextEncoding(Encoding):
    """Text of a fixed number of characters or bytes."""

    @property
    def limited(self) -> bool:
        return True

    def encode(self, values: np.ndarray) -> np.ndarray:
        dtype = self.data_type.dtype
        texts = [v or "" for v in values.reshape(-1)]
        items: list[Any] = list(texts)
        limit = dtype.itemsize // 4
        if dtype.kind == "S":
            items = [t.encode("utf-8", "surrogateescape") for t in texts]
            limit = dtype.itemsize
        for item in items:
            if item[-1:] in ("\0", b"\0"):
                raise UnsupportedError(
                    f"the text {item!r} ends in NUL, which the array cannot tell from its padding"
                )
            if len(item) > limit:
                raise UnsupportedError(f"the text {item!r} is longer than the {limit} that the array holds")
        return np.array(items, dtype).reshape(values.shape)

    def decode(self, raw: np.ndarray) -> np.ndarray:
        if raw.dtype.kind == "U":
            self._check_unicode(raw)
        out = np.empty(raw.shape, object)
        flat = out.reshape(-1)
        for i, value in enumerate(raw.reshape(-1).tolist()):
            flat[i] = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        return out

    def _check_unicode(self, raw: np.ndarray) -> None:
        """numpy makes texts of any number; those that are no characters stop whoever writes them."""
        codes = np.ascontiguousarray(raw).reshape(-1).view(np.uint32)
        # U+DC80 to U+DCFF are bytes that are no UTF-8.
        wrong = codes[(codes > 0x10FFFF) | ((codes & ~np.uint32(0x7FF)) == 0xD800)]
        wrong = wrong[(wrong < 0xDC80) | (wrong > 0xDCFF)]
        if wrong.size:
            raise UnsupportedError(f"a text holds {wrong[0]:#x}, which is no character")


def special_encoding(data_type: DataType, declare: Declare, name: str) -> tuple[Encoding, list[Attribute]]:
    """Return how values of a Zarr data type become values of netCDF, and attributes that say what they are.

    Parameters
    ----------
    data_type : DataType
    declare : callable
        Declares a type: its wanted name, and a function from the FQN to the type.
    name : str
        The variable's name; types that have no name of their own are named after it.

    Raises
    ------
    UnsupportedError
        If netCDF has no type for it.
    """
    dtype = data_type.dtype
    if data_type.name in ("bytes", "variable_length_bytes"):
        return PackedEncoding(declare("bytes_t", lambda fqn: VlenType(fqn, UBYTE)), data_type), []
    if dtype.kind == "b":
        return TruthEncoding(BYTE, data_type), [Attribute.of("dtype", "bool")]
    if dtype.kind == "f" and dtype.itemsize == 2:
        return CastEncoding(FLOAT, data_type), []
    if dtype.kind == "c":
        return ViewEncoding(_complex_type(data_type.name, declare), data_type), []
    if isinstance(data_type, TimeType):
        return _time(data_type)
    if dtype.kind in "US":
        return TextEncoding(STRING, data_type), []
    if isinstance(data_type, StructType):
        return ViewEncoding(_compound(data_type, declare, f"{name}_t"), data_type), []
    if dtype.kind == "V":
        return ViewEncoding(_opaque(dtype.itemsize, declare), data_type), []
    raise UnsupportedError(f"netCDF has no type for the Zarr data type {data_type.name!r}")


def _complex_type(name: str, declare: Declare) -> UserType:
    type_name, part = _COMPLEX[name]
    return declare(type_name, lambda fqn: CompoundType(fqn, (Field("r", part), Field("i", part))))


def _opaque(size: int, declare: Declare) -> UserType:
    return declare(f"opaque_{size}", lambda fqn: OpaqueType(fqn, size))


def _time(data_type: TimeType) -> tuple[Encoding, list[Attribute]]:
    kind = data_type.dtype.kind
    unit = np.datetime_data(data_type.dtype)[0]
    step = unit
    if kind == "M":
        if unit in ("Y", "M", "generic"):  # of no fixed length: count days
            step = "D"
        attributes = [
            Attribute.of("units", f"{_UNITS[step]} since 1970-01-01"),
            Attribute.of("calendar", "proleptic_gregorian"),
        ]
    else:
        words = {"Y": "years", "M": "months", "generic": "1"}
        attributes = [Attribute.of("units", words.get(unit) or _UNITS[unit])]
    attributes.append(Attribute.of("_FillValue", _NAT, INT64))
    return TimeEncoding(INT64, data_type, step=step), attributes


def _compound(data_type: StructType, declare: Declare, name: str) -> UserType:
    """The compound of a struct; every field has the same bytes as in Zarr."""
    fields = []
    for f in data_type.fields:
        type_, shape = _field(f.data_type, declare, f"{name}_{f.name}")
        fields.append(Field(f.name, type_, (*f.shape, *shape)))
    return declare(name, lambda fqn: CompoundType(fqn, tuple(fields)))


def _field(data_type: DataType, declare: Declare, name: str) -> tuple[Type, tuple[int, ...]]:
    dtype = data_type.dtype
    if isinstance(data_type, StructType):
        return _compound(data_type, declare, name), ()
    if dtype.kind == "S":
        return CHAR, (dtype.itemsize,) if dtype.itemsize > 1 else ()
    if dtype.kind == "b":
        return UBYTE, ()
    if dtype.kind in "Mm":
        return INT64, ()
    if dtype.kind == "c":
        return _complex_type(data_type.name, declare), ()
    found = primitive_for_dtype(dtype)
    return (found, ()) if found is not None else (_opaque(dtype.itemsize, declare), ())


def declared_name(group: str, wanted: str, taken: set[str]) -> str:
    """Return the FQN of a new type in a group, with a number behind the name if it is taken."""
    name = wanted
    number = 2
    while name in taken:
        name = f"{wanted}_{number}"
        number += 1
    return join_fqn(group, name)
