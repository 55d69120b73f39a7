"""Write one value of any netCDF type, exactly, as JSON or as bytes, and read it.

The JSON (``docs/spec/nczarr-v3.md``, *Values in JSON*):

==================  ============================================================================================
type                JSON
==================  ============================================================================================
integers, enum      number
float, double       number; ``"NaN"``, ``"Infinity"``, ``"-Infinity"``; other NaNs as ``"0x"`` and the bits
char                text of one character; ``{"base64": …}`` where the byte is not ASCII
string              text; ``{"base64": …}`` where the bytes are not UTF-8
opaque              base64 text
compound            object: field name to value; fields with dimensions are nested lists
vlen                list; of char: text
==================  ============================================================================================

The packed form (*The packed form* there): numbers are little-endian and without padding; a string is its length as
uint32 and its bytes; a sequence inside another value is its number of elements as uint32 and the elements; a compound
is its fields in order, a field with dimensions its elements in row-major order. A sequence that is the whole value has
no count: it ends with the bytes. A string that is the whole value has a length.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np

from nczarr.errors import ChunkError, MetadataError
from nczarr.json_values import show
from nczarr.model import CHAR, STRING, CompoundType, Field, OpaqueType, Type, VlenType
from nczarr.model.names import is_unicode
from nczarr.zarr.types import SPECIAL_NUMBERS, special_number_word

#: One value in memory form (see :mod:`nczarr.model.types`): a numpy scalar, an array (vlen), a string or None.
Scalar: TypeAlias = Any
Packer = Callable[[Scalar], bytes]
Unpacker = Callable[[bytes], Scalar]
#: Reads a value at an offset; returns it and the offset of the next one.
_Reader = Callable[[bytes, int], tuple[Scalar, int]]

_COUNT = struct.Struct("<I")


def array_of(type_: Type, values: Sequence[Scalar]) -> np.ndarray:
    """Return values of a type as a one-dimensional array in memory form.

    Examples
    --------
    >>> array_of(STRING, ["a", "b"])
    array(['a', 'b'], dtype=object)
    """
    # The padding of compounds is part of their bytes.
    array = (np.empty if type_.dtype == object else np.zeros)(len(values), type_.dtype)
    for i, value in enumerate(values):
        # numpy would take lists of one length apart.
        array[i] = value
    return array


# --- text and bytes as JSON


def _base64(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(data).decode("ascii")}


def from_base64(value: object) -> bytes:
    """Return the bytes of ``{"base64": text}``, or of the text alone; raise MetadataError for anything else."""
    text = value.get("base64") if isinstance(value, dict) and len(value) == 1 else value
    if isinstance(text, str):
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise MetadataError(f"{show(value)} is not base64")


def bytes_to_json(data: bytes) -> str | dict[str, str]:
    """Return bytes as text, or as ``{"base64": …}`` where they are not UTF-8.

    Examples
    --------
    >>> bytes_to_json(b"caf\\xc3\\xa9"), bytes_to_json(b"\\xff")
    ('café', {'base64': '/w=='})
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _base64(data)


def bytes_from_json(value: object) -> bytes:
    """Return the bytes that :func:`bytes_to_json` wrote; its exact inverse."""
    if isinstance(value, str):
        try:
            return value.encode("utf-8")
        except UnicodeEncodeError:
            raise MetadataError(f"{show(value)} is not Unicode text") from None
    return from_base64(value)


def check_unicode(text: str, what: str) -> None:
    """Refuse text with an unpaired surrogate, which JSON can spell but UTF-8 cannot encode.

    Surrogate escapes are accepted: they stand for bytes that are not UTF-8.
    """
    if not (text.isascii() or is_unicode(text)):  # avoids a call for ASCII, the usual case
        raise MetadataError(f"{what}: {show(text)} is not Unicode text")


# --- numbers as JSON


def float_to_json(value: np.floating) -> float | str:
    """Return a float32 or float64 scalar as JSON.

    Examples
    --------
    >>> float_to_json(np.float32(0.1)), float_to_json(np.float64("-inf"))
    (0.10000000149011612, '-Infinity')
    """
    number = float(value)
    if math.isfinite(number):
        return number
    if math.isinf(number):
        return special_number_word(number)
    bits = np.asarray(value).tobytes()
    # Only the quiet NaN without payload has a word.
    if bits == np.asarray(math.nan, value.dtype).tobytes():
        return special_number_word(number)
    return "0x" + np.asarray(value, value.dtype.newbyteorder(">")).tobytes().hex()


def float_from_json(value: object, dtype: np.dtype) -> Scalar:
    """Return the scalar that :func:`float_to_json` wrote; integers are accepted too."""
    if isinstance(value, str):
        if value in SPECIAL_NUMBERS:
            return dtype.type(SPECIAL_NUMBERS[value])
        # The bits of a NaN; those of another length belong to another type.
        if value.startswith("0x") and len(value) == 2 + 2 * dtype.itemsize:
            try:
                raw = bytes.fromhex(value[2:])
            except ValueError:
                raw = b""
            if len(raw) == dtype.itemsize:
                return np.frombuffer(raw, dtype.newbyteorder(">")).astype(dtype)[0]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        try:
            with np.errstate(over="ignore"):
                found: Scalar = dtype.type(value)
            if np.isfinite(found) or not math.isfinite(value):  # 1e300 is no infinity of float32
                return found
        except OverflowError:
            pass
    raise MetadataError(f"{show(value)} is not a value of {dtype}")


def int_from_json(value: object, dtype: np.dtype) -> Scalar:
    """Return an integer scalar; whole real numbers are accepted, because some JSON writers produce them."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is int:  # bool is a subclass of int
        low, high = _limits(dtype)
        if low <= value <= high:
            return dtype.type(value)
    raise MetadataError(f"{show(value)} is not a value of {dtype}")


@lru_cache(maxsize=32)
def _limits(dtype: np.dtype) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


# --- values of any type as JSON


def scalar_to_json(type_: Type, value: Scalar) -> object:
    """Return one value of a type as JSON.

    Examples
    --------
    >>> from nczarr.model import INT, OpaqueType
    >>> scalar_to_json(VlenType("/v", INT), np.array([1, 2], "i4"))
    [1, 2]
    >>> scalar_to_json(OpaqueType("/o", 2), np.void(b"ab"))
    'YWI='
    """
    match type_:
        case CompoundType(fields=fields):
            return {f.name: _field_to_json(f, value[f.name]) for f in fields}
        case VlenType(base=base):
            if base == CHAR:
                return bytes_to_json(np.asarray(value).tobytes())
            return values_to_json(base, value)
        case OpaqueType():
            return _base64(np.asarray(value, type_.dtype).tobytes())["base64"]
    if type_ == STRING:
        return bytes_to_json((value or "").encode("utf-8", "surrogateescape"))
    if type_ == CHAR:
        raw = np.asarray(value, "S1").tobytes()
        return raw.decode("ascii") if raw[0] < 0x80 else _base64(raw)
    return float_to_json(value) if type_.dtype.kind == "f" else int(value)


def values_to_json(type_: Type, values: np.ndarray) -> list[object]:
    """Return the values of an array as :func:`scalar_to_json` writes each of them; numbers all at once.

    Examples
    --------
    >>> from nczarr.model import FLOAT
    >>> values_to_json(FLOAT, np.array([0.5, 2], "f4")), values_to_json(FLOAT, np.array([0.5, np.inf], "f4"))
    ([0.5, 2.0], [0.5, 'Infinity'])
    """
    # Numbers one by one: half a second for an attribute of 160,000 doubles.
    if type_.dtype.kind in "iuf":
        numbers = np.asarray(values, type_.dtype)
        if np.isfinite(numbers).all():
            return numbers.tolist()
    return [scalar_to_json(type_, value) for value in values]


def _field_to_json(field: Field, value: Scalar) -> object:
    if not field.shape:
        return scalar_to_json(field.type, _unwrapped(value))
    if len(field.shape) > 1:
        return [_field_to_json(Field(field.name, field.type, field.shape[1:]), row) for row in value]
    if field.type == CHAR:
        # A row of chars is text. The field has a fixed length, so trailing NULs are omitted.
        return bytes_to_json(value.tobytes().rstrip(b"\0"))
    return [scalar_to_json(field.type, item) for item in value]


def _unwrapped(value: Scalar) -> Scalar:
    """Return the value of an array without dimensions, as numpy returns fields; any other value unchanged."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def scalar_from_json(type_: Type, value: object) -> Scalar:
    """Return the value that :func:`scalar_to_json` wrote; its exact inverse.

    Raises
    ------
    MetadataError
        The JSON is not a value of the type.

    Examples
    --------
    >>> from nczarr.model import SHORT
    >>> t = CompoundType("/c", (Field("a", SHORT), Field("b", CHAR, (3,))))
    >>> scalar_from_json(t, {"a": 1, "b": "xy"})["b"].tolist()
    [b'x', b'y', b'']
    """
    match type_:
        case CompoundType():
            return _record_from_json(type_, value)[()]
        case VlenType(fqn=fqn, base=base):
            if base == CHAR:
                return np.frombuffer(bytes_from_json(value), "S1").copy()
            if not isinstance(value, list):
                raise MetadataError(f"{show(value)} is not a list, as values of {fqn} are")
            return values_from_json(base, value)
        case OpaqueType(fqn=fqn, size=size):
            data = from_base64(value)
            if len(data) != size:
                raise MetadataError(f"{len(data)} bytes for a value of {fqn}, which has {size}")
            return np.void(data)
    if type_ == STRING:
        return bytes_from_json(value).decode("utf-8", "surrogateescape")
    if type_ == CHAR:
        data = bytes_from_json(value)
        if len(data) != 1:
            raise MetadataError(f"{show(value)} is not one char")
        return np.bytes_(data)
    return (float_from_json if type_.dtype.kind == "f" else int_from_json)(value, type_.dtype)


def values_from_json(type_: Type, items: Sequence[object]) -> np.ndarray:
    """Return the array of the values that :func:`values_to_json` wrote; see :func:`scalar_from_json`.

    Examples
    --------
    >>> from nczarr.model import FLOAT
    >>> values_from_json(FLOAT, [0.5, 2.0]), values_from_json(FLOAT, [1, "-Infinity"])
    (array([0.5, 2. ], dtype=float32), array([  1., -inf], dtype=float32))
    """
    kinds, dtype = {*map(type, items)}, type_.dtype
    if dtype.kind == "f" and kinds == {float}:
        with np.errstate(over="ignore"):
            numbers = np.array(items, np.float64).astype(dtype)
        if np.isfinite(numbers).all():  # others are judged one by one
            return numbers
    if dtype.kind in "iu" and kinds == {int}:
        with suppress(OverflowError):  # the value that does not fit is named below
            return np.array(items, dtype)
    return array_of(type_, [scalar_from_json(type_, item) for item in items])


def _record_from_json(type_: CompoundType, value: object) -> np.ndarray:
    if not isinstance(value, dict) or set(value) != {f.name for f in type_.fields}:
        raise MetadataError(f"{show(value)} is not an object with the fields of {type_.fqn}")
    record = np.zeros((), type_.dtype)
    for f in type_.fields:
        if f.shape:
            _set_elements(record[f.name], f.type, value[f.name], f.shape)
        else:
            _set_field(record, f.name, scalar_from_json(f.type, value[f.name]), f.type)
    return record


def _set_field(record: np.ndarray, name: str, value: Scalar, type_: Type) -> None:
    """Set a field without dimensions. numpy takes an array that is assigned to a field by name for its elements."""
    if type_.dtype.names is None:
        record[name][()] = value
    else:
        record[name] = value


def _set_elements(target: np.ndarray, type_: Type, value: object, shape: tuple[int, ...]) -> None:
    if type_ == CHAR and len(shape) == 1:
        data = bytes_from_json(value)
        if len(data) > shape[0]:
            raise MetadataError(f"{show(value)} is longer than {shape[0]} chars")
        target[...] = np.frombuffer(data.ljust(shape[0], b"\0"), "S1")
        return
    if not isinstance(value, list) or len(value) != shape[0]:
        raise MetadataError(f"{show(value)} is not a list of {shape[0]} values")
    for i, item in enumerate(value):
        if len(shape) > 1:
            _set_elements(target[i], type_, item, shape[1:])
        else:
            target[i] = scalar_from_json(type_, item)


# --- the packed form


@lru_cache(maxsize=256)
def packer(type_: Type) -> Packer:
    """Return the function that packs one value of a type.

    Examples
    --------
    >>> from nczarr.model import SHORT
    >>> packer(VlenType("/v", SHORT))(np.array([1, 2], "i2"))
    b'\\x01\\x00\\x02\\x00'
    """
    return _elements_packer(type_.base) if isinstance(type_, VlenType) else _packer(type_)


def _packer(type_: Type) -> Packer:
    if type_.is_fixed_size:
        return _elements_packer(type_)
    if type_ == STRING:
        return _pack_string
    if isinstance(type_, VlenType):
        elements = _elements_packer(type_.base)
        return lambda value: _COUNT.pack(len(value)) + elements(value)
    assert isinstance(type_, CompoundType)
    fields = [(f.name, _packer(f.type), f.shape) for f in type_.fields]

    def record(value: Scalar) -> bytes:
        parts = []
        for name, pack, shape in fields:
            item = value[name]
            if shape:
                parts.extend([pack(item[index]) for index in np.ndindex(shape)])
            else:
                parts.append(pack(_unwrapped(item)))
        return b"".join(parts)

    return record


def _elements_packer(base: Type) -> Packer:
    """Return the function that packs an array of a type, or one value of a fixed size."""
    if base.is_fixed_size:
        dtype, stored = base.dtype, base.dtype.newbyteorder("<")
        return lambda value: np.asarray(value, dtype).astype(stored, copy=False).tobytes()
    pack = _packer(base)
    return lambda value: b"".join([pack(item) for item in value])


def _pack_string(value: str | None) -> bytes:
    raw = (value or "").encode("utf-8", "surrogateescape")
    return _COUNT.pack(len(raw)) + raw


@lru_cache(maxsize=256)
def unpacker(type_: Type) -> Unpacker:
    """Return the function that unpacks one value; it raises :class:`ChunkError` for bytes that do not fit.

    Examples
    --------
    >>> from nczarr.model import SHORT
    >>> unpacker(VlenType("/v", SHORT))(b"\\x01\\x00\\x02\\x00")
    array([1, 2], dtype=int16)
    """
    if isinstance(type_, VlenType) and type_.base.is_fixed_size:
        name, native, stored = type_.base.name, type_.base.dtype, type_.base.dtype.newbyteorder("<")

        def numbers(data: bytes) -> np.ndarray:
            if len(data) % stored.itemsize:
                raise ChunkError(f"{len(data)} packed bytes are not a whole number of values of {name}")
            return np.frombuffer(data, stored).astype(native)

        return numbers
    if isinstance(type_, VlenType):
        base, read_item = type_.base, _reader(type_.base)
        return lambda data: _items(base, read_item, data, 0)[0]
    read = _reader(type_)

    def unpack(data: bytes) -> Scalar:
        value, end = read(data, 0)
        if end != len(data):
            raise ChunkError(f"{len(data)} packed bytes for a value of {end} bytes of the type {type_.name}")
        return value

    return unpack


def _take(data: bytes, offset: int, length: int) -> int:
    end = offset + length
    if end > len(data):
        raise ChunkError(f"the packed bytes end after {len(data)}, in the middle of a value")
    return end


def _count(data: bytes, offset: int) -> tuple[int, int]:
    end = _take(data, offset, 4)
    return _COUNT.unpack_from(data, offset)[0], end


def _items(
    base: Type, read: _Reader, data: bytes, offset: int, count: int | None = None
) -> tuple[np.ndarray, int]:
    """Return a number of values, or all up to the end of the data, and the offset behind them."""
    values: list[Scalar] = []
    while offset < len(data) if count is None else len(values) < count:
        value, offset = read(data, offset)
        values.append(value)
    return array_of(base, values), offset


def _reader(type_: Type) -> _Reader:
    if type_.is_fixed_size:
        numbers = _numbers_reader(type_.dtype)

        def fixed(data: bytes, offset: int) -> tuple[Scalar, int]:
            values, end = numbers(data, offset, 1)
            return values[0], end

        return fixed
    if type_ == STRING:
        return _read_string
    if isinstance(type_, VlenType):
        base = type_.base
        if base.is_fixed_size:
            elements = _numbers_reader(base.dtype)
        else:
            elements = partial(_items, base, _reader(base))

        def sequence(data: bytes, offset: int) -> tuple[np.ndarray, int]:
            count, start = _count(data, offset)
            return elements(data, start, count)

        return sequence
    assert isinstance(type_, CompoundType)
    fields = [(f.name, f.type, _reader(f.type), f.shape) for f in type_.fields]
    dtype = type_.dtype

    def record(data: bytes, offset: int) -> tuple[Scalar, int]:
        value = np.zeros((), dtype)
        for name, field_type, read, shape in fields:
            if shape:
                for index in np.ndindex(shape):
                    value[name][index], offset = read(data, offset)
            else:
                item, offset = read(data, offset)
                _set_field(value, name, item, field_type)
        return value[()], offset

    return record


def _numbers_reader(native: np.dtype) -> Callable[[bytes, int, int], tuple[np.ndarray, int]]:
    stored = native.newbyteorder("<")

    def numbers(data: bytes, offset: int, count: int) -> tuple[np.ndarray, int]:
        end = _take(data, offset, count * stored.itemsize)
        return np.frombuffer(data, stored, count, offset).astype(native), end

    return numbers


def _read_string(data: bytes, offset: int) -> tuple[str, int]:
    length, start = _count(data, offset)
    end = _take(data, start, length)
    return data[start:end].decode("utf-8", "surrogateescape"), end
