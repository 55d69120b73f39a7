"""Define the three kinds of codecs and the chunks between them, and find codecs by name.

Each module of codecs registers its own codecs; other packages add more by entry points of the group
``nczarr.codecs``.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, TypeVar

import numpy as np

from nczarr.compression import NamedConfig, no_compression, parse_codecs
from nczarr.dataclass import dataclass
from nczarr.errors import CodecError
from nczarr.json_values import JsonMapping
from nczarr.zarr.plugins import Registry

Buffer = Any
"""An object with the buffer protocol."""

#: Each thread reuses its scratch buffers; larger ones are freed after use.
_kept = threading.local()
_MOST_KEPT = 64 << 20


@dataclass(frozen=True, eq=False)
class ChunkSpec:
    """The shape, dtype and fill value of a chunk before or after a codec.

    Parameters
    ----------
    dtype : numpy.dtype
        In native byte order; object for variable-length values.
    fill : scalar
        The value of elements that are not stored, of `dtype`.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    fill: object

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """The number of bytes of one element; 1 for variable-length values, which a codec encodes as bytes."""
        return 1 if self.dtype.hasobject else self.dtype.itemsize

    def filled(self) -> np.ndarray:
        """Return a new chunk in which every element is the fill value."""
        try:
            result = np.empty(self.shape, self.dtype)
        # A document of a few bytes may state a chunk that no memory holds.
        except (MemoryError, ValueError) as error:
            raise CodecError(f"a chunk of shape {self.shape} does not fit into memory") from error
        if self.dtype == object:
            result.fill(self.fill)
        else:
            result[...] = self.fill
        return result


class ArrayArrayCodec(ABC):
    """Encodes a chunk as another chunk."""

    #: True if encoding only permutes the dimensions, by :meth:`moved_axes`.
    only_moves = False

    def moved_axes(self, ndim: int) -> tuple[int, ...] | None:
        """Return the order of the dimensions in an encoded chunk; None if decoding does more than permute them."""
        return None

    def resolve(self, spec: ChunkSpec) -> ChunkSpec:
        """Return the description of an encoded chunk; raise CodecError if the codec cannot encode such a chunk."""
        fill = self.encode(ChunkSpec((1,), spec.dtype, spec.fill).filled(), spec)[0]
        return ChunkSpec(spec.shape, fill.dtype.newbyteorder("="), fill)

    @abstractmethod
    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        """Return the encoded chunk; `spec` describes the chunk before encoding."""

    @abstractmethod
    def decode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        """Return the decoded chunk; `spec` describes the chunk after decoding."""


class ArrayBytesCodec(ABC):
    """Encodes a chunk as bytes."""

    #: The dtype of the stored elements, if the bytes are only the elements in C order; else None.
    stored: np.dtype | None = None

    def encoded_size(self, spec: ChunkSpec) -> int | None:
        """Return the number of bytes of every encoded chunk; None if it varies."""
        return None

    def encoded_bound(self, spec: ChunkSpec) -> int | None:
        """Return an upper bound on the number of bytes of an encoded chunk; None if there is no bound."""
        return None

    @abstractmethod
    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> Buffer:
        """Return the bytes of a chunk."""

    @abstractmethod
    def decode(self, data: Buffer, spec: ChunkSpec) -> np.ndarray:
        """Return the chunk; it may be a view of `data` and may have non-native byte order."""


class BytesBytesCodec(ABC):
    """Encodes bytes as other bytes."""

    def encoded_size(self, size: int) -> int | None:
        """Return the encoded size of `size` bytes; None if it varies."""
        return None

    def encoded_bound(self, size: int) -> int | None:
        """Return an upper bound on the encoded size of at most `size` bytes, for codecs of variable output."""
        return size + size // 4 + 65536

    @abstractmethod
    def encode(self, data: Buffer) -> Buffer:
        """Return the encoded bytes of a contiguous buffer."""

    @abstractmethod
    def decode(self, data: Buffer, size: int | None, limit: int, out: np.ndarray | None = None) -> Buffer:
        """Return the decoded bytes.

        Parameters
        ----------
        size : int or None
            The decoded size, where it is known; any other size raises CodecError.
        limit : int
            The largest decoded size; a larger one raises CodecError.
        out : ndarray of uint8, optional
            A contiguous array of exactly `size` bytes that receives the result, and is returned.
        """

    def decode_start(self, data: np.ndarray, size: int, out: np.ndarray) -> bool:
        """Decode only the first bytes into `out`, as many as it has; all of `data` decodes to `size` bytes.

        Return False if the codec cannot decode a part, if the data have a checksum, or if they seem damaged. The
        caller then decodes all data, which raises the exact error.
        """
        return False

    def decode_joined(self, data: np.ndarray, bounds: Sequence[tuple[int, int]], out: np.ndarray) -> bool:
        """Decode several pieces of `data` at once, to equal sizes, one after another in `out`.

        Return False if the codec cannot do so, or if a piece seems damaged. The caller then decodes the pieces one
        by one, which raises the exact error.

        Parameters
        ----------
        bounds : sequence of (int, int)
            The start and stop of each piece in `data`.
        out : ndarray of uint8
            Contiguous; the decoded size of each piece is its length divided by the number of pieces.
        """
        return False


def as_bytes_array(data: Buffer) -> np.ndarray:
    """Return a view of a contiguous buffer as an array of bytes.

    Examples
    --------
    >>> as_bytes_array(b"ab").tolist()
    [97, 98]
    """
    if isinstance(data, np.ndarray):
        flat = data.reshape(-1)
        return flat if flat.dtype == np.uint8 else flat.view(np.uint8)
    return np.frombuffer(data, np.uint8)


def scratch(slot: str, nbytes: int) -> np.ndarray:
    """Return the reusable buffer of this thread for `slot`, with at least `nbytes` bytes of undefined content.

    The next call of the same thread for the same slot overwrites the content.

    Raises
    ------
    CodecError
        If the allocation fails.
    """
    buffers = _kept.__dict__
    buffer = buffers.get(slot)
    if buffer is None or buffer.nbytes < nbytes:
        try:
            buffer = np.empty(max(nbytes, 65536), np.uint8)
        except (MemoryError, ValueError) as error:
            raise CodecError(f"a chunk of {nbytes} bytes does not fit into memory") from error
        # One huge chunk would stay in memory as long as its thread.
        if nbytes <= _MOST_KEPT:
            buffers[slot] = buffer
    return buffer


def codec_error(name: str, problem: str, hint: str | None = None) -> CodecError:
    """Return the error for a problem of one codec."""
    return CodecError(f"codec {name!r}: {problem}", hint=hint)


def check_size(name: str, found: int, size: int | None, limit: int) -> None:
    """Raise CodecError if a decoded size is not the expected one, or above the limit of the chunk."""
    if size is not None and found != size:
        raise codec_error(name, f"the decoded data have {found} bytes, expected {size}")
    # A frame whose header omits the size is decoded up to the limit.
    if found > limit:
        raise too_large(name, limit)


def too_large(name: str, limit: int) -> CodecError:
    """Return the error for a decoded size above the limit of the chunk."""
    hint = "NCZARR_MAX_VARIABLE_CHUNK_BYTES sets the limit for variable-length values"
    return codec_error(name, f"the decoded data exceed the chunk's limit of {limit} bytes", hint)


def deliver(name: str, data: Buffer, size: int | None, limit: int, out: np.ndarray | None) -> Buffer:
    """Check the length of a result, and return it, copied into `out` if given."""
    check_size(name, memoryview(data).nbytes, size, limit)
    if out is None:
        return data
    out[...] = as_bytes_array(data)
    return out


def check_keys(name: str, configuration: JsonMapping, *known: str) -> None:
    """Raise CodecError if a configuration has keys that are not in the codec's specification."""
    extra = sorted(set(configuration) - set(known))
    # An unknown option may change what the bytes mean.
    if extra:
        raise codec_error(name, f"unknown configuration {', '.join(map(repr, extra))}")


def configured_int(name: str, configuration: JsonMapping, key: str, default: int, low: int, high: int) -> int:
    """Return an integer of a configuration; netcdf-c writes some of them as strings.

    Examples
    --------
    >>> configured_int("gzip", {"level": "4"}, "level", 5, 0, 9)
    4
    """
    value = configuration.get(key, default)
    # netCDF-C 4.9.1 to 4.9.3 write "level": "4".
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    # For Python, true is the integer 1.
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise codec_error(name, f"{key} is {str(value)[:50]!r}, not an integer from {low} to {high}")
    return value


def configured_choice(name: str, configuration: JsonMapping, key: str, default: str, *others: str) -> str:
    """Return a word of a configuration: `default` or one of the `others`.

    Examples
    --------
    >>> configured_choice("crc32", {"location": "end"}, "location", "start", "end")
    'end'
    """
    value = configuration.get(key, default)
    if value != default and value not in others:
        raise codec_error(
            name, f"{key} is {str(value)[:50]!r}, not {' or '.join(map(repr, (default, *others)))}"
        )
    return str(value)


Codec = ArrayArrayCodec | ArrayBytesCodec | BytesBytesCodec
#: Builds a codec from its name, its configuration, and the description of its input chunk.
Factory = Callable[[str, JsonMapping, ChunkSpec], Codec]
Made = TypeVar("Made", bound=Factory)

PREFIX = "numcodecs."
#: The key of the factory for all codecs of numcodecs without a factory of their own.
ANY_NUMCODECS = "numcodecs.*"


def _callable(loaded: object) -> Factory:
    if not callable(loaded):
        raise TypeError("the object is not callable with a name, a configuration and a ChunkSpec")
    factory: Factory = loaded
    return factory


CODECS = Registry[Factory]("nczarr.codecs", "codec", CodecError, _callable)


def register_codec(*names: str) -> Callable[[Made], Made]:
    """Return a decorator that registers a codec class, or another factory, under names.

    Examples
    --------
    >>> @register_codec("example.negate")
    ... class Negate(ArrayArrayCodec):
    ...     def __init__(self, name, configuration, spec): ...
    ...     def encode(self, chunk, spec): return -chunk
    ...     def decode(self, chunk, spec): return -chunk
    >>> find_codec("example.negate")[0]
    'example.negate'
    >>> CODECS.unregister("example.negate")
    """

    def register(factory: Made) -> Made:
        for name in names:
            CODECS.register(name, factory)
        return factory

    return register


def find_codec(name: str) -> tuple[str, Factory] | None:
    """Return the full name and the factory of a codec; None if no codec has this name.

    Some documents omit the prefix of the numcodecs names.

    Examples
    --------
    >>> find_codec("delta")[0], find_codec("example.unknown")
    ('numcodecs.delta', None)
    """
    for full in (name, PREFIX + name):
        if (factory := CODECS.registered(full)) is not None:
            return full, factory
    found = CODECS.find(name)
    if found is None and name.startswith(PREFIX):
        found = CODECS.registered(ANY_NUMCODECS)
    return None if found is None else (name, found)


def requested_codecs(asked: object) -> tuple[NamedConfig, ...]:
    """Return the codecs that a user asks for in any form of :func:`parse_codecs`, under their full names.

    Raises
    ------
    UnsupportedError
        If there is no such codec.

    Examples
    --------
    >>> requested_codecs("lz4")
    (NamedConfig(name='numcodecs.lz4', configuration={}, must_understand=True),)
    """
    codecs = []
    for codec in parse_codecs(asked):
        found = find_codec(codec.name)
        if found is None:
            raise no_compression(codec.name)
        codecs.append(replace(codec, name=found[0]))
    return tuple(codecs)


def known_codecs() -> list[str]:
    """Return the names of all registered codecs; ``numcodecs.<id>`` finds the others of numcodecs.

    Examples
    --------
    >>> from nczarr.zarr.codecs.base import known_codecs
    >>> "zstd" in known_codecs()
    True
    """
    return [name for name in CODECS.names() if name != ANY_NUMCODECS]
