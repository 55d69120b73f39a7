"""Define the data types of array elements, in memory, in chunks, and in metadata documents.

A :class:`DataType` has a numpy dtype, and converts itself and its fill values to and from JSON without loss.
:func:`parse_data_type` finds a type by its Zarr name, :func:`data_type_for` by a numpy dtype. Other packages add types
to the registry :data:`DATA_TYPES` (``docs/extending.md``). In JSON, bytes are base64.
"""

from __future__ import annotations

import base64
import binascii
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from nczarr.dataclass import dataclass
from nczarr.errors import MetadataError, UnsupportedError
from nczarr.json_values import (
    Json,
    JsonMapping,
    as_list,
    as_object,
    as_text,
    bad,
    checked_flag,
    checked_name,
    checked_object,
    checked_text,
    only_integers,
    show,
)
from nczarr.lazy import cached_property, pattern
from nczarr.zarr.plugins import Registry

Endian = Literal["little", "big"]
Scalar = Any
"""A value of a data type: a numpy scalar of its dtype, or text or bytes of variable length."""


#: numpy stores the item size in a C int.
MAX_ITEM_BYTES = 2**31 - 1


@dataclass(frozen=True)
class DataType(ABC):
    """A Zarr data type: its name, its values in memory, and its fill value in JSON.

    Implements the sections *Data types* and *Fill value* of the Zarr v3 core specification and the data types
    of its registry. Objects are immutable, and arrays share them.

    Parameters
    ----------
    name : str
        The registered name, such as ``int32`` or ``numpy.datetime64``.

    Examples
    --------
    >>> from nczarr.zarr.types import parse_data_type
    >>> t = parse_data_type("float32")
    >>> t.dtype, t.itemsize, float(t.fill_from_json("NaN")), t.to_json()
    (dtype('float32'), 4, nan, 'float32')
    """

    name: str

    @property
    @abstractmethod
    def dtype(self) -> np.dtype:
        """The numpy dtype in memory, in native byte order; object for string and bytes."""

    @abstractmethod
    def fill_from_json(self, value: object) -> Scalar:
        """Return the fill value for its JSON in a v3 document.

        Returns
        -------
        numpy scalar, str or bytes
            A value of `dtype`.

        Raises
        ------
        MetadataError
            If `value` is not a fill value of this type.
        """

    @abstractmethod
    def fill_to_json(self, value: object) -> Json:
        """Return a fill value as JSON of a v3 document; the exact inverse of `fill_from_json`."""

    @property
    def configuration(self) -> JsonMapping:
        """The configuration in the document; empty for types without parameters."""
        return {}

    def to_json(self) -> Json:
        """Return the value of ``data_type`` in a v3 document: the name, or an object with a configuration."""
        configuration = self.configuration
        return {"name": self.name, "configuration": dict(configuration)} if configuration else self.name

    @property
    def is_variable(self) -> bool:
        """True if the values have no fixed number of bytes (string, bytes)."""
        return bool(self.dtype.hasobject)

    @property
    def itemsize(self) -> int | None:
        """The number of bytes of one value in a chunk; None if it varies."""
        return None if self.is_variable else self.dtype.itemsize

    @property
    def needs_endian(self) -> bool:
        """True if the ``bytes`` codec requires a byte order."""
        return not self.is_variable and self.stored_dtype("little") != self.stored_dtype("big")

    @property
    def has_array_fields(self) -> bool:
        """True if a field, at any depth, has dimensions; Zarr v3 documents cannot express this."""
        return False

    def stored_dtype(self, endian: Endian | None = None) -> np.dtype:
        """Return the numpy dtype of the values in a chunk, in byte order `endian` (default: native).

        Raises
        ------
        UnsupportedError
            If the type has no fixed size.
        """
        if self.is_variable:
            raise UnsupportedError(f"the values of data type {self.name!r} have no fixed size")
        if endian is None:
            return self.dtype
        return self.dtype.newbyteorder("<" if endian == "little" else ">")

    @property
    def is_time(self) -> bool:
        """True if the values are times or durations of numpy, whichever package defines the type."""
        return self.dtype.kind in "mM"

    def zero(self) -> Scalar:
        """Return the default fill value: zero, false or empty; not-a-time, because 1970-01-01 is a valid time."""
        return np.array(_NAT, np.int64).view(self.dtype)[()] if self.is_time else np.zeros((), self.dtype)[()]

    def to_scalar(self, value: Scalar) -> Scalar:
        """Return `value` as a scalar of `dtype`.

        Raises
        ------
        MetadataError
            If the value does not fit.
        """
        # numpy's own message names neither the value nor the data type of the document.
        try:
            return np.asarray(value, self.dtype)[()]
        except (TypeError, ValueError, OverflowError):
            raise bad(f"{show(value)} is not a value of {self.name}") from None


#: The words of Zarr's documents for the numbers that JSON lacks.
SPECIAL_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NAN, _INFINITY, _MINUS_INFINITY = SPECIAL_NUMBERS
_HEX = pattern(r"0x[0-9a-fA-F]+")
_NAT = -(2**63)
_TIME_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "μs", "ns", "ps", "fs", "as", "generic")


def special_number_word(number: float) -> str:
    """Return the word of Zarr's documents for NaN or an infinity.

    Examples
    --------
    >>> special_number_word(float("-inf"))
    '-Infinity'
    """
    return _NAN if math.isnan(number) else _INFINITY if number > 0 else _MINUS_INFINITY


class _NumpyType(DataType):
    """A type with numpy's name."""

    @cached_property
    def dtype(self) -> np.dtype:
        return np.dtype(self.name)


@dataclass(frozen=True)
class BoolType(_NumpyType):
    """True or false, one byte each."""

    name: str = "bool"

    def fill_from_json(self, value: object) -> np.bool_:
        return np.bool_(checked_flag(value))

    def fill_to_json(self, value: object) -> bool:
        return bool(value)


@dataclass(frozen=True)
class IntegerType(_NumpyType):
    """``int8`` to ``int64`` and ``uint8`` to ``uint64``; the fill value is a JSON integer."""

    def fill_from_json(self, value: object) -> Scalar:
        # For Python, true is an integer, too.
        if type(value) is not int:
            raise bad(f"{show(value)} is not an integer")
        limits = np.iinfo(self.dtype)
        if not limits.min <= value <= limits.max:
            raise bad(f"{show(value)} is outside the range of {self.name}")
        return self.dtype.type(value)

    def fill_to_json(self, value: object) -> int:
        return int(self.to_scalar(value))

    def to_scalar(self, value: Scalar) -> Scalar:
        if type(value) is self.dtype.type:
            return value
        result = super().to_scalar(value)
        if np.ndim(value) or result != value:  # numpy truncates fractions and wraps around
            raise bad(f"{show(value)} is not a value of {self.name}")
        return result


@dataclass(frozen=True)
class FloatType(_NumpyType):
    """``float16``, ``float32``, ``float64``.

    The fill value is a JSON number, ``"NaN"``, ``"Infinity"``, ``"-Infinity"``, or the bits as a hexadecimal string
    with the most significant byte first. NaNs with another payload are written as such strings.

    Examples
    --------
    >>> t = FloatType("float32")
    >>> t.fill_to_json(t.fill_from_json("0x7fc00001"))
    '0x7fc00001'
    """

    @property
    def _bits(self) -> np.dtype:
        return np.dtype(f"u{self.dtype.itemsize}")

    def fill_from_json(self, value: Json) -> Scalar:
        # Any text, also an empty one, which has its error here.
        if isinstance(value, str):
            if value in SPECIAL_NUMBERS:
                return self.dtype.type(SPECIAL_NUMBERS[value])
            # The bits of a NaN; those of another length belong to another type.
            digits = 2 * self.dtype.itemsize
            if _HEX.fullmatch(value) and len(value) == digits + 2:
                return np.array(int(value, 16), self._bits).view(self.dtype)[()]
            words = ", ".join(SPECIAL_NUMBERS)
            raise bad(f"{show(value)} is not {words} or 0x with {digits} hexadecimal digits")
        if type(value) not in (int, float):
            raise bad(f"{show(value)} is not a number")
        try:
            # JSON has integers of any length, and Python makes no float of the longest.
            number = float(value)
        except OverflowError:
            raise bad(f"{show(value)} is outside the range of {self.name}") from None
        with np.errstate(over="ignore"):
            result = self.dtype.type(number)
        # A number beyond the type would become an infinity in silence.
        if np.isinf(result) and math.isfinite(number):
            raise bad(f"{show(value)} is outside the range of {self.name}")
        return result

    def to_scalar(self, value: Scalar) -> Scalar:
        if type(value) is self.dtype.type:
            return value
        with np.errstate(over="ignore"):
            result = super().to_scalar(value)
        if np.ndim(value) or (np.isinf(result) and not np.isinf(value)):
            raise bad(f"{show(value)} is not a value of {self.name}")
        return result

    def fill_to_json(self, value: object) -> float | str:
        scalar = np.asarray(self.to_scalar(value), self.dtype)
        number = float(scalar)
        if math.isfinite(number):
            return number
        if math.isinf(number):
            return special_number_word(number)
        # A NaN with other bits than numpy's keeps them in the document, and so in a copy.
        bits = int(scalar.view(self._bits))
        if bits == int(np.array(math.nan, self.dtype).view(self._bits)):
            return _NAN
        return f"0x{bits:0{2 * self.dtype.itemsize}x}"


@dataclass(frozen=True)
class ComplexType(_NumpyType):
    """``complex64`` and ``complex128``; the fill value is a list of two float fill values."""

    @cached_property
    def _part(self) -> FloatType:
        return FloatType(f"float{self.dtype.itemsize * 4}")

    def fill_from_json(self, value: object) -> Scalar:
        pair = as_list(value)
        if len(pair) != 2:
            raise bad(f"{show(value)} is not a list of two numbers")
        # A view of an array of parts keeps NaN payloads and signed zeros; arithmetic does not.
        parts = np.array([self._part.fill_from_json(part) for part in pair], self._part.dtype)
        return parts.view(self.dtype)[0]

    def fill_to_json(self, value: object) -> list[float | str]:
        parts = np.array([self.to_scalar(value)], self.dtype).view(self._part.dtype)
        return [self._part.fill_to_json(part) for part in parts]


@dataclass(frozen=True)
class TimeType(DataType):
    """``numpy.datetime64`` and ``numpy.timedelta64``: int64 counts of `scale_factor` units.

    Parameters
    ----------
    unit : str
        numpy's code: ``Y M W D h m s ms us ns ps fs as`` or ``generic``.
    scale_factor : int
        The number of units in one count.

    Examples
    --------
    >>> TimeType("numpy.datetime64", "s", 10).dtype
    dtype('<M8[10s]')
    """

    unit: str = "generic"
    scale_factor: int = 1

    @cached_property
    def dtype(self) -> np.dtype:
        code = "M8" if self.name == "numpy.datetime64" else "m8"
        if self.unit == "generic":
            return np.dtype(code)
        return np.dtype(f"{code}[{self.scale_factor}{self.unit}]")

    @classmethod
    def parse(cls, name: str, configuration: JsonMapping) -> TimeType:
        """Return the type for a name and the ``configuration`` of a document."""
        unit, scale = configuration.get("unit"), configuration.get("scale_factor", 1)
        if unit not in _TIME_UNITS:
            raise bad(f"configuration.unit: {show(unit)} is not one of {', '.join(_TIME_UNITS)}")
        # numpy keeps the factor in a C int.
        if type(scale) is not int or not 1 <= scale < 2**31:
            raise bad(f"configuration.scale_factor: {show(scale)} is not an integer between 1 and 2147483647")
        if unit == "generic" and scale != 1:
            raise bad("configuration.scale_factor: generic units cannot be scaled")
        # numpy has no μs.
        return cls(name, "us" if unit == "μs" else unit, scale)

    @property
    def configuration(self) -> JsonMapping:
        return {"unit": self.unit, "scale_factor": self.scale_factor}

    def fill_from_json(self, value: object) -> Scalar:
        if value == "NaT":
            value = _NAT
        if type(value) is not int or not -(2**63) <= value < 2**63:
            raise bad(f'{show(value)} is not a 64-bit integer or "NaT"')
        return np.array(value, np.int64).view(self.dtype)[()]

    def fill_to_json(self, value: object) -> int | str:
        count = int(np.asarray(self.to_scalar(value), self.dtype).view(np.int64))
        return "NaT" if count == _NAT else count


#: The numeric core types by name.
NUMERIC_TYPES: dict[str, DataType] = {
    "bool": BoolType(),
    **{f"{u}int{8 * n}": IntegerType(f"{u}int{8 * n}") for u in ("", "u") for n in (1, 2, 4, 8)},
    **{f"float{8 * n}": FloatType(f"float{8 * n}") for n in (2, 4, 8)},
    **{f"complex{8 * n}": ComplexType(f"complex{8 * n}") for n in (8, 16)},
}


def encode_base64(data: bytes) -> str:
    """Return `data` in standard base64."""
    return base64.b64encode(data).decode("ascii")


def decode_base64(text: str, length: int | None = None) -> bytes:
    """Return the bytes of a base64 string; `length` is their required number.

    Raises
    ------
    MetadataError
        If the string is not base64, or has another decoded length.

    Examples
    --------
    >>> decode_base64("YWI=")
    b'ab'
    """
    try:
        # Without validate, Python skips characters that are not base64, and the rest is another value.
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise bad(f"{show(text)} is not base64") from None
    if length is not None and len(data) != length:
        raise bad(f"the base64 string has {len(data)} bytes, the data type has {length}")
    return data


def _bytes_from_json(value: object) -> bytes:
    if isinstance(value, str):
        return decode_base64(value)
    numbers = only_integers(value)
    if numbers is None or max(numbers, default=0) > 255:
        raise bad(f"{show(value)} is not base64 text or a list of integers from 0 to 255")
    return bytes(numbers)


def _bytes_of(value: object) -> bytes:
    """Return the bytes of a value in memory: of a buffer, but not of text and numbers."""
    # For Python, bytes(7) is seven zeros.
    if not isinstance(value, bytes | bytearray | memoryview | np.void | np.ndarray):
        raise bad(f"{show(value)} is not bytes")
    return bytes(value) if isinstance(value, bytes | bytearray) else value.tobytes()


def _item_length(configuration: JsonMapping) -> int:
    """Return the number of bytes of an element, within numpy's limit."""
    value = configuration.get("length_bytes")
    if type(value) is not int or not 1 <= value <= MAX_ITEM_BYTES:
        raise bad(f"configuration.length_bytes: {show(value)} is not a length between 1 and {MAX_ITEM_BYTES}")
    return value


class _ObjectType(DataType):
    """A type of variable length."""

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(object)


class _FixedType(DataType):
    """A type of values of `length_bytes` bytes each."""

    length_bytes: int

    @property
    def configuration(self) -> JsonMapping:
        return {"length_bytes": self.length_bytes}


@dataclass(frozen=True)
class StringType(_ObjectType):
    """``string``: variable-length Unicode text; the fill value is a JSON string."""

    name: str = "string"

    def fill_from_json(self, value: object) -> str:
        text = checked_text(value)
        try:
            # Bytes of other programs that are not UTF-8 come as surrogate escapes; half a surrogate pair has
            # no bytes.
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise bad(f"{show(value)} contains a lone surrogate, so it is not valid text") from None
        return text

    def fill_to_json(self, value: object) -> str:
        text = self.fill_from_json(value)
        # np.str_ has another repr since numpy 2, and other subclasses of str have their own.
        return str(text) if type(text) is np.str_ else text

    def zero(self) -> str:
        return ""

    def to_scalar(self, value: object) -> str:
        return self.fill_to_json(value)


@dataclass(frozen=True)
class BytesType(_ObjectType):
    """``bytes`` (older name: ``variable_length_bytes``): variable-length bytes.

    The fill value is a base64 string; a list of integers is read, too.
    """

    name: str = "bytes"

    def fill_from_json(self, value: object) -> bytes:
        return _bytes_from_json(value)

    def fill_to_json(self, value: object) -> str:
        return encode_base64(self.to_scalar(value))

    def zero(self) -> bytes:
        return b""

    def to_scalar(self, value: object) -> bytes:
        return _bytes_of(value)


@dataclass(frozen=True)
class FixedTextType(_FixedType):
    """``fixed_length_utf32``: numpy's ``U``; the fill value is a JSON string.

    Parameters
    ----------
    length_bytes : int
        The number of bytes: four for each character.
    """

    name: str = "fixed_length_utf32"
    length_bytes: int = 4

    @cached_property
    def dtype(self) -> np.dtype:
        return np.dtype(f"U{self.length_bytes // 4}")

    @classmethod
    def parse(cls, name: str, configuration: JsonMapping) -> FixedTextType:
        """Return the type for a name and the ``configuration`` of a document."""
        length = _item_length(configuration)
        if length % 4:
            raise bad(f"configuration.length_bytes: {length} is not a multiple of 4")
        return cls(name, length)

    def fill_from_json(self, value: object) -> np.str_:
        text = checked_text(value)
        # An array of the type would cut the text in silence.
        if len(text) > self.length_bytes // 4:
            raise bad(f"{show(value)} is longer than {self.length_bytes // 4} characters")
        return np.str_(text)

    def fill_to_json(self, value: object) -> str:
        return str(self.fill_from_json(str(value)))


@dataclass(frozen=True)
class FixedBytesType(_FixedType):
    """``null_terminated_bytes`` (numpy's ``S``) and ``raw_bytes`` (numpy's ``V``); the fill value is base64."""

    name: str
    length_bytes: int = 1

    @cached_property
    def dtype(self) -> np.dtype:
        return np.dtype(f"{'S' if self.name == 'null_terminated_bytes' else 'V'}{self.length_bytes}")

    @classmethod
    def parse(cls, name: str, configuration: JsonMapping) -> FixedBytesType:
        """Return the type for a name and the ``configuration`` of a document."""
        return cls(name, _item_length(configuration))

    def fill_from_json(self, value: object) -> Scalar:
        data = _bytes_from_json(value)
        # Some writers write an empty string for raw bytes that are zero.
        too_short = self.dtype.kind == "V" and 0 < len(data) < self.length_bytes
        if too_short or len(data) > self.length_bytes:
            raise bad(f"the fill value has {len(data)} bytes, the data type has {self.length_bytes}")
        return self.to_scalar(data)

    def fill_to_json(self, value: object) -> str:
        scalar = self.to_scalar(value)
        return encode_base64(bytes(scalar) if self.dtype.kind == "S" else scalar.tobytes())

    def to_scalar(self, value: Scalar) -> Scalar:
        data = _bytes_of(value)
        # An array of the type would cut the bytes in silence.
        if len(data) > self.length_bytes:
            raise bad(f"the value has {len(data)} bytes, the data type has {self.length_bytes}")
        return np.bytes_(data) if self.dtype.kind == "S" else np.void(data.ljust(self.length_bytes, b"\0"))


@dataclass(frozen=True)
class RawBitsType(DataType):
    """``r<N>``: N raw bits, a multiple of eight; the fill value is a list of N/8 integers.

    Examples
    --------
    >>> RawBitsType("r16").dtype
    dtype('V2')
    """

    @property
    def length_bytes(self) -> int:
        """The number of bytes."""
        return int(self.name[1:]) // 8

    @cached_property
    def dtype(self) -> np.dtype:
        return np.dtype(f"V{self.length_bytes}")

    def fill_from_json(self, value: object) -> np.void:
        data = _bytes_from_json(value)  # tensorstore writes base64
        if len(data) != self.length_bytes:
            raise bad(f"the fill value has {len(data)} bytes, {self.name} has {self.length_bytes}")
        return np.void(data)

    def fill_to_json(self, value: object) -> list[int]:
        return list(self.to_scalar(value).tobytes())

    def to_scalar(self, value: Scalar) -> Scalar:
        data = _bytes_of(value)
        if len(data) != self.length_bytes:
            raise bad(f"{show(value)} is not a value of {self.length_bytes} bytes")
        return np.void(data)


_RAW = pattern(r"r([1-9][0-9]{0,10})")
_PLAIN: dict[str, DataType] = {
    **NUMERIC_TYPES,
    "string": StringType(),
    "bytes": BytesType(),
    "variable_length_bytes": BytesType("variable_length_bytes"),
}
_BY_KIND = {(t.dtype.kind, t.dtype.itemsize): t for t in NUMERIC_TYPES.values()}
#: Parsers of a name and a configuration, for the types with parameters.
DATA_TYPES = Registry[Callable[[str, JsonMapping], DataType]]("nczarr.data_types", "data type", MetadataError)


def parse_data_type(value: object) -> DataType:
    """Return the data type for the ``data_type`` of a v3 document.

    Parameters
    ----------
    value : str or dict
        A name, or an object with ``name`` and ``configuration``.

    Raises
    ------
    MetadataError
        If the data type is unknown.
    MetadataError
        If the value is not a data type.

    Examples
    --------
    >>> parse_data_type("uint8").dtype
    dtype('uint8')
    >>> parse_data_type({"name": "raw_bytes", "configuration": {"length_bytes": 3}}).dtype
    dtype('V3')
    """
    # Zarr 3.1 allows a bare name for an object without a configuration.
    document = {"name": value} if as_text(value) else checked_object(value, "", "a data type")
    name = checked_text(document.get("name"), "name")
    configuration = checked_object(document.get("configuration", {}), "configuration")
    # A reader that skips the data type cannot read anything.
    if document.get("must_understand", True) is not True:
        raise bad("must_understand: false is not allowed for a data type")
    if extra := document.keys() - {"name", "configuration", "must_understand"}:
        raise bad(f"the keys {show(sorted(extra))} are unknown")
    if (plain := _PLAIN.get(name)) is not None:
        if configuration:
            raise bad(f"configuration: the data type {name} has no configuration")
        return plain
    if match := _RAW.fullmatch(name):
        bits = int(match[1])
        # A document of a few bytes may ask for an element that no memory holds.
        if bits % 8 or bits // 8 > MAX_ITEM_BYTES:
            raise bad(f"{name}: the number of bits is not a multiple of 8 below {8 * MAX_ITEM_BYTES}")
        return RawBitsType(name)
    parse = DATA_TYPES.find(name)
    if parse is None:
        known = ", ".join((*_PLAIN, *DATA_TYPES.names()))
        raise MetadataError(f"the data type {show(name)} is unknown", hint=f"known data types: {known}, r<N>")
    return parse(name, configuration)


def data_type_for(dtype: np.dtype | str | type) -> DataType:
    """Return the data type for a numpy dtype of any byte order, or for the name of a Zarr data type.

    Raises
    ------
    UnsupportedError
        If Zarr has no such type. The dtype object is ambiguous: pass ``"string"`` or ``"bytes"`` instead.

    Examples
    --------
    >>> data_type_for(">i4").name, data_type_for("S8").to_json()
    ('int32', {'name': 'null_terminated_bytes', 'configuration': {'length_bytes': 8}})
    >>> data_type_for("string").name
    'string'
    """
    name = as_text(dtype)
    # Zarr's names come first: numpy reads `bytes` and `string` as types of another kind, and `r16` as none.
    if name in _PLAIN or _RAW.fullmatch(name):
        return parse_data_type(name)
    try:
        dt = np.dtype(dtype)
    except TypeError:
        if name and DATA_TYPES.find(name) is not None:
            return parse_data_type(name)
        raise UnsupportedError(f"{show(dtype)} is not a dtype") from None
    # The byte order belongs to the codec bytes, not to the data type.
    numeric = _BY_KIND.get((dt.kind, dt.itemsize))
    if numeric is not None:
        return numeric
    if dt.kind == "T":
        return _PLAIN["string"]
    if dt.names is not None:
        record: np.dtype = dt
        members = [(name, record[name]) for name in dt.names]
        fields = [StructField(name, data_type_for(member.base), member.shape) for name, member in members]
        return StructType.checked("struct", tuple(fields))
    # numpy's U and S without a length are texts of no character, which Zarr lacks.
    if dt.kind in "USV" and dt.itemsize and dt.subdtype is None:
        if dt.kind == "U":
            return FixedTextType(length_bytes=dt.itemsize)
        return FixedBytesType("null_terminated_bytes" if dt.kind == "S" else "raw_bytes", dt.itemsize)
    if dt.kind in "Mm":
        unit, scale = np.datetime_data(dt)  # type: ignore[arg-type]
        return TimeType("numpy.datetime64" if dt.kind == "M" else "numpy.timedelta64", unit, scale)
    hint = 'use "string" or "bytes" as the dtype' if dt.hasobject else None
    raise UnsupportedError(f"Zarr has no data type for the dtype {dt}", hint=hint)


@dataclass(frozen=True)
class StructField:
    """A field: its name, data type and shape (only Zarr v2 has array fields)."""

    name: str
    data_type: DataType
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class StructType(DataType):
    """``struct``: records of named fields of fixed size, packed; the fill value is an object.

    The older name ``structured`` (fields as pairs, fill value in base64) is read, and kept on rewriting.

    Examples
    --------
    >>> from nczarr.zarr.types import parse_data_type
    >>> t = parse_data_type({"name": "struct", "configuration": {"fields": [
    ...     {"name": "a", "data_type": "int16"}, {"name": "b", "data_type": "float64"}]}})
    >>> t.dtype.itemsize, t.fill_from_json({"a": 1, "b": "NaN"}).item()
    (10, (1, nan))
    """

    name: str = "struct"
    fields: tuple[StructField, ...] = ()

    @cached_property
    def dtype(self) -> np.dtype:
        return np.dtype([(field.name, field.data_type.dtype, field.shape) for field in self.fields])

    @classmethod
    def parse(cls, name: str, configuration: JsonMapping) -> StructType:
        """Return the type for a name and the ``configuration`` of a document."""
        items = configuration.get("fields")
        if not as_list(items):
            raise bad(f"configuration.fields: {show(items)} is not a list of fields")
        fields = []
        for i, item in enumerate(as_list(items)):
            # An object in `struct`, a pair in the older `structured`.
            pair = as_list(item) or [as_object(item).get(key) for key in ("name", "data_type")]
            if len(pair) != 2 or None in pair:
                raise bad(f"configuration.fields[{i}]: {show(item)} is not a field")
            field_name, type_json = checked_name(pair[0], f"configuration.fields[{i}].name"), pair[1]
            try:
                data_type = parse_data_type(type_json)
            except MetadataError as error:
                error.message = f"configuration.fields[{i}].data_type.{error.message}"
                raise
            fields.append(StructField(field_name, data_type))
        return cls.checked(name, tuple(fields))

    @classmethod
    def checked(cls, name: str, fields: tuple[StructField, ...]) -> StructType:
        """Return the type, after a check of the fields: unique names, fixed sizes, total size."""
        names = [field.name for field in fields]
        # numpy refuses such a dtype with an error of its own, without the key.
        if len(set(names)) != len(names):
            raise bad(f"configuration.fields: the field names {show(names)} are not unique")
        size = 0
        for field in fields:
            if field.data_type.itemsize is None:
                raise bad(f"configuration.fields: {field.name!r} has no fixed size")
            count = 1
            for length in field.shape:
                if not 1 <= length <= MAX_ITEM_BYTES:
                    raise bad(f"configuration.fields: {field.name!r} has a dimension of length {length}")
                count *= length
            size += field.data_type.itemsize * count
            if size > MAX_ITEM_BYTES:
                raise bad(f"configuration.fields: the record has more than {MAX_ITEM_BYTES} bytes")
        return cls(name, fields)

    @property
    def has_array_fields(self) -> bool:
        return any(field.shape or field.data_type.has_array_fields for field in self.fields)

    @property
    def configuration(self) -> JsonMapping:
        # The registry has no fixed-size list yet, so that v3 has no fields with dimensions.
        if any(field.shape for field in self.fields):
            raise UnsupportedError(
                "a Zarr v3 struct cannot have array fields",
                hint="use one field or nested struct for each element",
            )
        # zarr-python before 3.2 reads records under this name only.
        if self.name == "structured":
            return {"fields": [[field.name, field.data_type.to_json()] for field in self.fields]}
        return {"fields": [{"name": f.name, "data_type": f.data_type.to_json()} for f in self.fields]}

    def fill_from_json(self, value: object) -> Scalar:
        # The older `structured` has its fill value in base64.
        if isinstance(value, str):
            data = decode_base64(value, self.dtype.itemsize)
            return np.frombuffer(data, self.stored_dtype("little")).astype(self.dtype)[0]
        given = checked_object(value, "", "an object with the fields of the struct")
        # A field without a value would be zero, and a misspelled one would be dropped.
        if set(given) != {field.name for field in self.fields}:
            raise bad(f"the keys {show(list(given))} are not the fields of the struct")
        record = np.zeros((), self.dtype)
        for field in self.fields:
            try:
                record[field.name] = field.data_type.fill_from_json(given[field.name])
            except MetadataError as error:
                error.message = f"{field.name}: {error.message}"
                raise
        return record[()]

    def fill_to_json(self, value: object) -> Json:
        scalar = np.asarray(self.to_scalar(value), self.dtype)
        # zarr-python writes base64 here, and version 2 has no other form.
        if self.name == "structured" or self.has_array_fields:
            return encode_base64(scalar.astype(self.stored_dtype("little")).tobytes())
        return {field.name: field.data_type.fill_to_json(scalar[field.name][()]) for field in self.fields}


_PARSERS: tuple[tuple[tuple[str, ...], Callable[[str, JsonMapping], DataType]], ...] = (
    (("numpy.datetime64", "numpy.timedelta64"), TimeType.parse),
    (("fixed_length_utf32",), FixedTextType.parse),
    (("null_terminated_bytes", "raw_bytes"), FixedBytesType.parse),
    (("struct", "structured"), StructType.parse),
)
for _names, _parse in _PARSERS:
    for _name in _names:
        DATA_TYPES.register(_name, _parse)
#: The names of the data types in this module; those of other packages have other names.
BUILT_IN = frozenset((*_PLAIN, *(name for names, _ in _PARSERS for name in names)))
