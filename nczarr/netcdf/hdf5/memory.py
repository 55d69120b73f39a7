"""Convert values between HDF5's layout in memory and the model's.

HDF5 passes a string as a pointer, and a sequence as a length and a pointer, at any depth inside a compound.
h5py converts the simple cases only. This module therefore reads and writes values in the file's own type,
without conversion by HDF5 (which also preserves every bit of a float), and converts them to the model's form
along a :class:`MemoryLayout`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from nczarr.errors import UnsupportedError
from nczarr.model import CompoundType, Type, VlenType
from nczarr.model.types import NullText
from nczarr.netcdf.bytes.file import bytes_of, text_of

_POINTER = np.dtype(f"u{ctypes.sizeof(ctypes.c_void_p)}")
_SEQUENCE = np.dtype([("length", f"u{ctypes.sizeof(ctypes.c_size_t)}"), ("data", _POINTER)])


@dataclass(frozen=True)
class MemoryLayout:
    """The layout of one value in memory. `dtype` has pointers as unsigned integers."""

    dtype: np.dtype


@dataclass(frozen=True)
class Plain(MemoryLayout):
    """A value without pointers, which numpy can read directly in any byte order."""


@dataclass(frozen=True)
class Converted(Plain):
    """A number whose form in the file netCDF lacks: HDF5 converts it to the next larger type."""


@dataclass(frozen=True)
class FixedText(MemoryLayout):
    """A string of fixed size. The netCDF library never writes them; other programs do.

    Attributes
    ----------
    room : int
        The maximum number of bytes of text.
    pad : bytes
        The byte that fills the rest.
    """

    room: int
    pad: bytes = b"\0"


@dataclass(frozen=True)
class Text(MemoryLayout):
    """A pointer to a string that ends with a NUL."""

    dtype: np.dtype = _POINTER


@dataclass(frozen=True)
class Sequence(MemoryLayout):
    """A length, and a pointer to that many values of `base`."""

    dtype: np.dtype = _SEQUENCE
    base: MemoryLayout = field(kw_only=True)


@dataclass(frozen=True)
class Record(MemoryLayout):
    """A compound with pointers inside: one layout for each field of `dtype`."""

    fields: tuple[MemoryLayout, ...]


def has_pointers(layout: MemoryLayout) -> bool:
    """Return True if HDF5 allocates memory for values of the layout."""
    if isinstance(layout, Record):
        return any(has_pointers(part) for part in layout.fields)
    return isinstance(layout, Text | Sequence)


def is_raw(layout: MemoryLayout) -> bool:
    """Return True if values are readable without HDF5: their bytes in the file are those in memory."""
    return not has_pointers(layout) and not isinstance(layout, Converted)


def decode(layout: MemoryLayout, raw: np.ndarray, type_: Type) -> np.ndarray:
    """Copy a buffer of ``layout.dtype`` that HDF5 filled into values of the model."""
    if isinstance(layout, Plain):
        return raw.astype(type_.dtype)
    return _decode(layout, raw.reshape(-1), type_).reshape(raw.shape)


def _decode(layout: MemoryLayout, raw: np.ndarray, type_: Type) -> np.ndarray:
    if isinstance(layout, Plain):
        return raw.astype(type_.dtype)
    out = np.empty(raw.shape, type_.dtype)
    if isinstance(layout, Text):
        out[:] = [text_of(ctypes.string_at(at)) if at else NullText() for at in raw.tolist()]
    elif isinstance(layout, FixedText):
        size = layout.dtype.itemsize
        data = raw.tobytes()
        out[:] = [text_of(data[i : i + size].split(b"\0", 1)[0]) for i in range(0, len(data), size)]
    elif isinstance(layout, Sequence):
        assert isinstance(type_, VlenType)
        for i, (length, address) in enumerate(raw.tolist()):
            out[i] = _sequence_at(layout.base, length, address, type_.base)
    else:
        assert isinstance(layout, Record)
        assert isinstance(type_, CompoundType)
        for field, part in zip(type_.fields, layout.fields, strict=True):
            inside = raw[field.name]
            out[field.name] = _decode(part, inside.reshape(-1), field.type).reshape(inside.shape)
    return out


def _sequence_at(base: MemoryLayout, length: int, address: int, type_: Type) -> np.ndarray:
    if not length or not address:
        return np.empty(0, type_.dtype)
    data = ctypes.string_at(address, length * base.dtype.itemsize)
    return _decode(base, np.frombuffer(data, base.dtype), type_)


def encode(layout: MemoryLayout, values: np.ndarray, type_: Type, keep: list[object]) -> np.ndarray:
    """Encode values of the model into a buffer for HDF5. The inverse of :func:`decode`.

    The function appends the targets of the pointers to `keep`. The contiguous buffer is valid as long as that
    list is.

    Raises
    ------
    UnsupportedError
        If a string contains a NUL, or is too long for strings of fixed size.
    """
    if isinstance(layout, Plain):
        return np.ascontiguousarray(values, layout.dtype).reshape(values.shape)
    return _encode(layout, values.reshape(-1), type_, keep).reshape(values.shape)


def _encode(layout: MemoryLayout, values: np.ndarray, type_: Type, keep: list[object]) -> np.ndarray:
    if isinstance(layout, Plain):
        return np.ascontiguousarray(values, layout.dtype)
    out = np.zeros(values.shape, layout.dtype)
    if isinstance(layout, Text):
        out[:] = [0 if isinstance(text, NullText | None) else _keep_text(text, keep) for text in values]
    elif isinstance(layout, FixedText):
        out[:] = [_fixed_text("" if text is None else text, layout) for text in values]
    elif isinstance(layout, Sequence):
        assert isinstance(type_, VlenType)
        for i, items in enumerate(values):
            items = _as_vector(items, type_.base)
            if len(items):
                data = _encode(layout.base, items, type_.base, keep)
                keep.append(data)
                out[i] = len(items), data.ctypes.data
    else:
        assert isinstance(layout, Record)
        assert isinstance(type_, CompoundType)
        for field, part in zip(type_.fields, layout.fields, strict=True):
            inside = values[field.name]
            out[field.name] = _encode(part, inside.reshape(-1), field.type, keep).reshape(inside.shape)
    return out


def has_fixed_text(layout: MemoryLayout) -> bool:
    """Return True if strings of the layout have a maximum length."""
    if isinstance(layout, Record):
        return any(has_fixed_text(part) for part in layout.fields)
    if isinstance(layout, Sequence):
        return has_fixed_text(layout.base)
    return isinstance(layout, FixedText)


def _fixed_text(text: str, layout: FixedText) -> bytes:
    data = _text_bytes(text)
    if len(data) > layout.room:
        raise UnsupportedError(
            f"the text {text[:40]!r} has {len(data)} bytes, and the file's strings have at most {layout.room}"
        )
    return data.ljust(layout.dtype.itemsize, layout.pad)


def _text_bytes(text: str) -> bytes:
    data = bytes_of(text)
    if b"\0" in data:
        raise UnsupportedError(f"netCDF-4 cannot store a string with a NUL inside: {text!r}")
    return data


def _keep_text(text: str, keep: list[object]) -> int:
    data = _text_bytes(text)
    buffer = ctypes.create_string_buffer(data)
    keep.append(buffer)
    return ctypes.addressof(buffer)


def _as_vector(items: Collection[object] | None, type_: Type) -> np.ndarray:
    if items is None:
        return np.empty(0, type_.dtype)
    if isinstance(items, np.ndarray) and items.dtype == type_.dtype and items.ndim == 1:
        return items
    vector = np.empty(len(items), type_.dtype)
    for i, item in enumerate(items):
        vector[i] = item
    return vector
