"""Define data types of text and bytes, of fixed and variable length; in JSON, bytes are base64."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nczarr.lazy import cached_property
from nczarr.zarr.types.base import MAX_ITEM_BYTES, DataType, bad, show


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
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise bad(f"{show(text)} is not base64") from None
    if length is not None and len(data) != length:
        raise bad(f"the base64 string has {len(data)} bytes, the data type has {length}")
    return data


def _byte_list(value: list[Any]) -> bytes:
    if not all(type(item) is int and 0 <= item <= 255 for item in value):
        raise bad(f"{show(value)} is not a list of integers from 0 to 255")
    return bytes(value)


def _item_length(configuration: Mapping[str, Any]) -> int:
    """Return the number of bytes of an element, within numpy's limit."""
    value = configuration.get("length_bytes")
    if type(value) is not int or not 1 <= value <= MAX_ITEM_BYTES:
        raise bad(f"configuration.length_bytes: {show(value)} is not a length between 1 and {MAX_ITEM_BYTES}")
    return value


@dataclass(frozen=True)
class StringType(DataType):
    """``string``: variable-length Unicode text; the fill value is a JSON string."""

    name: str = "string"

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(object)

    def fill_from_json(self, value: Any) -> str:
        if not isinstance(value, str):
            raise bad(f"{show(value)} is not a string")
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise bad(f"{show(value)} contains a lone surrogate, so it is not valid text") from None
        return value

    def fill_to_json(self, value: Any) -> str:
        return self.fill_from_json(value if not isinstance(value, np.str_) else str(value))

    def zero(self) -> str:
        return ""

    def to_scalar(self, value: Any) -> str:
        return self.fill_to_json(value)


@dataclass(frozen=True)
class BytesType(DataType):
    """``bytes`` (older name: ``variable_length_bytes``): variable-length bytes.

    The fill value is a base64 string; a list of integers is read, too.
    """

    name: str = "bytes"

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(object)

    def fill_from_json(self, value: Any) -> bytes:
        if isinstance(value, list):
            return _byte_list(value)
        if not isinstance(value, str):
            raise bad(f"{show(value)} is not base64 text or a list of integers")
        return decode_base64(value)

    def fill_to_json(self, value: Any) -> str:
        return encode_base64(self.to_scalar(value))

    def zero(self) -> bytes:
        return b""

    def to_scalar(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray):
            return value.tobytes()
        if not isinstance(value, bytes | bytearray | memoryview):
            raise bad(f"{show(value)} is not bytes")
        return bytes(value)


@dataclass(frozen=True)
class FixedTextType(DataType):
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
    def parse(cls, name: str, configuration: Mapping[str, Any]) -> FixedTextType:
        """Return the type for a name and the ``configuration`` of a document."""
        length = _item_length(configuration)
        if length % 4:
            raise bad(f"configuration.length_bytes: {length} is not a multiple of 4")
        return cls(name, length)

    @property
    def configuration(self) -> Mapping[str, Any]:
        return {"length_bytes": self.length_bytes}

    def fill_from_json(self, value: Any) -> np.str_:
        if not isinstance(value, str):
            raise bad(f"{show(value)} is not a string")
        if len(value) > self.length_bytes // 4:
            raise bad(f"{show(value)} is longer than {self.length_bytes // 4} characters")
        return np.str_(value)

    def fill_to_json(self, value: Any) -> str:
        return str(self.fill_from_json(str(value)))


@dataclass(frozen=True)
class FixedBytesType(DataType):
    """``null_terminated_bytes`` (numpy's ``S``) and ``raw_bytes`` (numpy's ``V``); the fill value is base64."""

    name: str
    length_bytes: int = 1

    @cached_property
    def dtype(self) -> np.dtype:
        return np.dtype(f"{'S' if self.name == 'null_terminated_bytes' else 'V'}{self.length_bytes}")

    @classmethod
    def parse(cls, name: str, configuration: Mapping[str, Any]) -> FixedBytesType:
        """Return the type for a name and the ``configuration`` of a document."""
        return cls(name, _item_length(configuration))

    @property
    def configuration(self) -> Mapping[str, Any]:
        return {"length_bytes": self.length_bytes}

    def fill_from_json(self, value: Any) -> Any:
        if isinstance(value, list):
            data = _byte_list(value)
        elif isinstance(value, str):
            data = decode_base64(value)
        else:
            raise bad(f"{show(value)} is not base64 text")
        if len(data) > self.length_bytes:
            raise bad(f"the fill value has {len(data)} bytes, the data type has {self.length_bytes}")
        if self.dtype.kind == "V" and len(data) != self.length_bytes:
            # Some writers write an empty string for a value of zero bytes.
            if data:
                raise bad(f"the fill value has {len(data)} bytes, the data type has {self.length_bytes}")
            data = bytes(self.length_bytes)
        return np.bytes_(data) if self.dtype.kind == "S" else np.void(data)

    def fill_to_json(self, value: Any) -> str:
        scalar = self.to_scalar(value)
        return encode_base64(bytes(scalar) if self.dtype.kind == "S" else scalar.tobytes())

    def to_scalar(self, value: Any) -> Any:
        if not isinstance(value, bytes | bytearray | np.void):
            raise bad(f"{show(value)} is not bytes")
        data = value.tobytes() if isinstance(value, np.void) else bytes(value)
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

    def fill_from_json(self, value: Any) -> np.void:
        if isinstance(value, str):  # tensorstore writes base64
            return np.void(decode_base64(value, self.length_bytes))
        if not isinstance(value, list):
            raise bad(f"{show(value)} is not a list of integers")
        if len(value) != self.length_bytes:
            raise bad(f"the fill value has {len(value)} bytes, {self.name} has {self.length_bytes}")
        return np.void(_byte_list(value))

    def fill_to_json(self, value: Any) -> list[int]:
        return list(self.to_scalar(value).tobytes())

    def to_scalar(self, value: Any) -> Any:
        data = value.tobytes() if isinstance(value, np.void) else value
        if not isinstance(data, bytes | bytearray) or len(data) != self.length_bytes:
            raise bad(f"{show(value)} is not a value of {self.length_bytes} bytes")
        return np.void(bytes(data))
