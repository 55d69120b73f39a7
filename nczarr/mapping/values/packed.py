"""Pack one value of any type into bytes, and unpack it (``docs/spec/nczarr-v3.md``, *The packed form*).

Numbers are little-endian and without padding; a string is its length as uint32 and its bytes; a sequence inside
another value is its number of elements as uint32 and the elements; a compound is its fields in order, a field
with dimensions its elements in row-major order. A sequence that is the value itself has no count: it ends with
the bytes. A string that is the value itself has a length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from nczarr.errors import ChunkError
from nczarr.mapping.values.json import array_of
from nczarr.model import STRING, CompoundType, Type, VlenType

Packer = Callable[[Any], bytes]
Unpacker = Callable[[bytes], Any]
#: Reads a value at an offset; returns it and the offset behind it.
_Reader = Callable[[bytes, int], tuple[Any, int]]

_COUNT = struct.Struct("<I")


def little(dtype: np.dtype) -> np.dtype:
    """The dtype with every number little-endian."""
    return dtype.newbyteorder("<")


@lru_cache(maxsize=256)
def packer(type_: Type) -> Packer:
    """Return the function that packs one value of a type.

    Examples
    --------
    >>> from nczarr.model import SHORT
    >>> packer(VlenType("/v", SHORT))(np.array([1, 2], "i2"))
    b'\\x01\\x00\\x02\\x00'
    """
    if isinstance(type_, VlenType):
        return _elements_packer(type_.base)
    return _packer(type_)


@lru_cache(maxsize=256)
def unpacker(type_: Type) -> Unpacker:
    """Return the function that unpacks one value; it raises :class:`ChunkError` for bytes that do not fit.

    Examples
    --------
    >>> from nczarr.model import SHORT
    >>> unpacker(VlenType("/v", SHORT))(b"\\x01\\x00\\x02\\x00")
    array([1, 2], dtype=int16)
    """
    if isinstance(type_, VlenType):
        return _elements_unpacker(type_.base)
    read = _reader(type_)

    def unpack(data: bytes) -> Any:
        value, end = read(data, 0)
        if end != len(data):
            raise ChunkError(f"{len(data)} packed bytes for a value of {end} bytes of the type {type_.name}")
        return value

    return unpack


def _elements_packer(base: Type) -> Packer:
    if base.is_fixed_size:
        stored = little(base.dtype)
        return lambda value: np.asarray(value, base.dtype).astype(stored, copy=False).tobytes()
    pack = _packer(base)
    return lambda value: b"".join([pack(item) for item in value])


def _elements_unpacker(base: Type) -> Unpacker:
    if base.is_fixed_size:
        stored = little(base.dtype)

        def fixed(data: bytes) -> Any:
            if len(data) % stored.itemsize:
                raise ChunkError(f"{len(data)} packed bytes are no whole number of values of {base.name}")
            return np.frombuffer(data, stored).astype(base.dtype)

        return fixed
    read = _reader(base)

    def items(data: bytes) -> Any:
        values, offset = [], 0
        while offset < len(data):
            value, offset = read(data, offset)
            values.append(value)
        return array_of(base, values)

    return items


def _packer(type_: Type) -> Packer:
    if type_.is_fixed_size:
        stored = little(type_.dtype)
        return lambda value: np.asarray(value, type_.dtype).astype(stored, copy=False).tobytes()
    if type_ == STRING:
        return _pack_string
    if isinstance(type_, VlenType):
        elements = _elements_packer(type_.base)
        return lambda value: _COUNT.pack(len(value)) + elements(value)
    assert isinstance(type_, CompoundType)
    fields = [(f.name, _packer(f.type), f.shape) for f in type_.fields]

    def record(value: Any) -> bytes:
        parts = []
        for name, pack, shape in fields:
            item = value[name]
            if shape:
                parts.extend([pack(item[index]) for index in np.ndindex(shape)])
            else:
                parts.append(pack(item[()] if isinstance(item, np.ndarray) and item.ndim == 0 else item))
        return b"".join(parts)

    return record


def _pack_string(value: Any) -> bytes:
    raw = (value or "").encode("utf-8", "surrogateescape")
    return _COUNT.pack(len(raw)) + raw


def _take(data: bytes, offset: int, length: int) -> int:
    end = offset + length
    if end > len(data):
        raise ChunkError(f"the packed bytes end after {len(data)}, in the middle of a value")
    return end


def _count(data: bytes, offset: int) -> tuple[int, int]:
    end = _take(data, offset, 4)
    return _COUNT.unpack_from(data, offset)[0], end


def _reader(type_: Type) -> _Reader:
    if type_.is_fixed_size:
        stored, native = little(type_.dtype), type_.dtype

        def fixed(data: bytes, offset: int) -> tuple[Any, int]:
            end = _take(data, offset, stored.itemsize)
            return np.frombuffer(data, stored, 1, offset).astype(native)[0], end

        return fixed
    if type_ == STRING:
        return _read_string
    if isinstance(type_, VlenType):
        return _sequence_reader(type_.base)
    assert isinstance(type_, CompoundType)
    return _record_reader(type_)


def _read_string(data: bytes, offset: int) -> tuple[Any, int]:
    length, start = _count(data, offset)
    end = _take(data, start, length)
    return data[start:end].decode("utf-8", "surrogateescape"), end


def _sequence_reader(base: Type) -> _Reader:
    if base.is_fixed_size:
        stored = little(base.dtype)

        def fixed(data: bytes, offset: int) -> tuple[Any, int]:
            count, start = _count(data, offset)
            end = _take(data, start, count * stored.itemsize)
            return np.frombuffer(data, stored, count, start).astype(base.dtype), end

        return fixed
    read = _reader(base)

    def items(data: bytes, offset: int) -> tuple[Any, int]:
        count, offset = _count(data, offset)
        values = []
        for _ in range(count):
            value, offset = read(data, offset)
            values.append(value)
        return array_of(base, values), offset

    return items


def _record_reader(type_: CompoundType) -> _Reader:
    fields = [(f.name, _reader(f.type), f.shape, f.type.dtype.names is None) for f in type_.fields]

    def record(data: bytes, offset: int) -> tuple[Any, int]:
        value = np.zeros((), type_.dtype)
        for name, read, shape, simple in fields:
            target = value[name]
            if shape:
                for index in np.ndindex(shape):
                    target[index], offset = read(data, offset)
            else:
                item, offset = read(data, offset)
                if simple:
                    target[()] = item
                else:
                    value[name] = item
        return value[()], offset

    return record
