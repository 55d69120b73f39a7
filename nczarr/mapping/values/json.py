"""Write one value of any netCDF type as JSON, exactly, and read it (``docs/spec/nczarr-v3.md``, *Values in JSON*).

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
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from nczarr.errors import MetadataError
from nczarr.model import (
    CHAR,
    STRING,
    CompoundType,
    EnumType,
    Field,
    OpaqueType,
    PrimitiveType,
    Type,
    VlenType,
)
from nczarr.model.names import is_unicode

_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def show(value: Any) -> str:
    """A JSON value, shortened, for messages."""
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _base64(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(data).decode("ascii")}


def from_base64(value: Any) -> bytes:
    """Return the bytes of ``{"base64": text}``, or of the text alone.

    Raises
    ------
    MetadataError
        If it is neither.
    """
    text = value.get("base64") if isinstance(value, dict) and len(value) == 1 else value
    if isinstance(text, str):
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise MetadataError(f"{show(value)} is not base64")


def bytes_to_json(data: bytes) -> Any:
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


def bytes_from_json(value: Any) -> bytes:
    """The exact inverse of :func:`bytes_to_json`."""
    if isinstance(value, str):
        try:
            return value.encode("utf-8")
        except UnicodeEncodeError:
            raise MetadataError(f"{show(value)} is not Unicode text") from None
    return from_base64(value)


def check_unicode(text: str, what: str) -> None:
    """Refuse text with half a surrogate pair, which JSON can spell and nobody can write again.

    Surrogate escapes stay: they stand for bytes that are no UTF-8.
    """
    if not (text.isascii() or is_unicode(text)):  # most are ASCII, and there are thousands
        raise MetadataError(f"{what}: {show(text)} is not Unicode text")


def float_to_json(value: Any) -> Any:
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
        return "Infinity" if number > 0 else "-Infinity"
    bits = np.asarray(value).tobytes()
    if bits == np.asarray(math.nan, value.dtype).tobytes():
        return "NaN"
    return "0x" + np.asarray(value, value.dtype.newbyteorder(">")).tobytes().hex()


def float_from_json(value: Any, dtype: np.dtype) -> Any:
    """The exact inverse of :func:`float_to_json`; integers are taken too."""
    if isinstance(value, str):
        if value in _SPECIAL:
            return dtype.type(_SPECIAL[value])
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
                return dtype.type(value)
        except OverflowError:
            pass
    raise MetadataError(f"{show(value)} is not a value of {dtype}")


def int_from_json(value: Any, dtype: np.dtype) -> Any:
    """Return an integer scalar; whole real numbers are taken, as some JSON writers make them."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        low, high = _limits(dtype)
        if low <= value <= high:
            return dtype.type(value)
    raise MetadataError(f"{show(value)} is not a value of {dtype}")


@lru_cache(maxsize=32)
def _limits(dtype: np.dtype) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def scalar_to_json(type_: Type, value: Any) -> Any:
    """Return one value of a type, in memory form (see :mod:`nczarr.model.types`), as JSON.

    Examples
    --------
    >>> from nczarr.model import INT, OpaqueType
    >>> scalar_to_json(VlenType("/v", INT), np.array([1, 2], "i4"))
    [1, 2]
    >>> scalar_to_json(OpaqueType("/o", 2), np.void(b"ab"))
    'YWI='
    """
    if isinstance(type_, CompoundType):
        return {f.name: _field_to_json(f, value[f.name]) for f in type_.fields}
    if isinstance(type_, VlenType):
        if type_.base == CHAR:
            return bytes_to_json(np.asarray(value).tobytes())
        return [scalar_to_json(type_.base, item) for item in value]
    if isinstance(type_, OpaqueType):
        return base64.b64encode(np.asarray(value, type_.dtype).tobytes()).decode("ascii")
    if type_ == STRING:
        return bytes_to_json((value or "").encode("utf-8", "surrogateescape"))
    if type_ == CHAR:
        return _char_to_json(np.asarray(value, "S1").tobytes())
    assert isinstance(type_, PrimitiveType | EnumType)
    return float_to_json(value) if type_.dtype.kind == "f" else int(value)


def _char_to_json(raw: bytes) -> Any:
    return raw.decode("ascii") if raw[0] < 0x80 else _base64(raw)


def _field_to_json(field: Field, value: Any) -> Any:
    if not field.shape:
        item = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
        return scalar_to_json(field.type, item)
    if field.type == CHAR:
        # A row of chars is text; the length is known, so the zeros at the end need not be written.
        if len(field.shape) == 1:
            return bytes_to_json(value.tobytes().rstrip(b"\0"))
        return [_field_to_json(Field(field.name, CHAR, field.shape[1:]), row) for row in value]
    if len(field.shape) == 1:
        return [scalar_to_json(field.type, item) for item in value]
    return [_field_to_json(Field(field.name, field.type, field.shape[1:]), row) for row in value]


def scalar_from_json(type_: Type, value: Any) -> Any:
    """Return the value that :func:`scalar_to_json` wrote; its exact inverse.

    Raises
    ------
    MetadataError
        If the JSON is not a value of the type.

    Examples
    --------
    >>> from nczarr.model import SHORT
    >>> t = CompoundType("/c", (Field("a", SHORT), Field("b", CHAR, (3,))))
    >>> scalar_from_json(t, {"a": 1, "b": "xy"})["b"].tolist()
    [b'x', b'y', b'']
    """
    if isinstance(type_, CompoundType):
        return _record_from_json(type_, value)[()]
    if isinstance(type_, VlenType):
        if type_.base == CHAR:
            return np.frombuffer(bytes_from_json(value), "S1").copy()
        if not isinstance(value, list):
            raise MetadataError(f"{show(value)} is not a list, as a value of {type_.fqn} has to be")
        return array_of(type_.base, [scalar_from_json(type_.base, item) for item in value])
    if isinstance(type_, OpaqueType):
        data = from_base64(value)
        if len(data) != type_.size:
            raise MetadataError(f"{len(data)} bytes for a value of {type_.fqn}, which has {type_.size}")
        return np.void(data)
    if type_ == STRING:
        return bytes_from_json(value).decode("utf-8", "surrogateescape")
    if type_ == CHAR:
        data = bytes_from_json(value)
        if len(data) != 1:
            raise MetadataError(f"{show(value)} is not one char")
        return np.bytes_(data)
    if type_.dtype.kind == "f":
        return float_from_json(value, type_.dtype)
    return int_from_json(value, type_.dtype)


def _record_from_json(type_: CompoundType, value: Any) -> np.ndarray:
    if not isinstance(value, dict) or set(value) != {f.name for f in type_.fields}:
        raise MetadataError(f"{show(value)} is not an object with the fields of {type_.fqn}")
    record = np.zeros((), type_.dtype)
    for f in type_.fields:
        _set_field(record, f, value[f.name])
    return record


def _set_field(record: np.ndarray, field: Field, value: Any) -> None:
    target = record[field.name]
    if not field.shape:
        if field.type.dtype.hasobject and field.type.dtype.names is None:
            target[()] = scalar_from_json(field.type, value)
        else:
            record[field.name] = scalar_from_json(field.type, value)
        return
    _fill(target, field.type, value, field.shape)


def _fill(target: np.ndarray, type_: Type, value: Any, shape: tuple[int, ...]) -> None:
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
            _fill(target[i], type_, item, shape[1:])
        else:
            target[i] = scalar_from_json(type_, item)


def array_of(type_: Type, values: Sequence[Any]) -> np.ndarray:
    """Return values of a type as a one-dimensional array in memory form.

    Examples
    --------
    >>> array_of(STRING, ["a", "b"])
    array(['a', 'b'], dtype=object)
    """
    array = (
        np.empty(len(values), type_.dtype) if type_.dtype == object else np.zeros(len(values), type_.dtype)
    )
    for i, value in enumerate(values):
        array[i] = value
    return array
