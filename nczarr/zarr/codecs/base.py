"""Define the three kinds of codecs, the chunks and buffers that pass between them, and find codecs by their names.

Each module of codecs registers its own; other packages add theirs by entry points of the group ``nczarr.codecs``.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np

from nczarr.errors import CodecError
from nczarr.zarr.plugins import Registry

Buffer = Any
"""Anything with the buffer protocol."""

#: Buffers that each thread keeps for the next chunk; none is larger than this.
_kept = threading.local()
_MOST_KEPT = 64 << 20


@dataclass(frozen=True, eq=False)
class ChunkSpec:
    """A chunk as it enters or leaves a codec.

    Parameters
    ----------
    dtype : numpy.dtype
        In native byte order; object for values of any length.
    fill : scalar
        The value of elements that are not stored, of `dtype`.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    fill: Any

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """The number of bytes of one element; 1 for values of any length, which become bytes."""
        return 1 if self.dtype.hasobject else self.dtype.itemsize

    def filled(self) -> np.ndarray:
        """Return a new chunk that holds the fill value everywhere."""
        try:
            result = np.empty(self.shape, self.dtype)
        except (MemoryError, ValueError) as error:
            raise CodecError(f"a chunk of shape {self.shape} does not fit into memory") from error
        if self.dtype == object:
            result.fill(self.fill)
        else:
            result[...] = self.fill
        return result


class ArrayArrayCodec(ABC):
    """Turns a chunk into another chunk."""

    #: True if encoding only moves elements, by :meth:`moved_axes`.
    only_moves = False

    def moved_axes(self, ndim: int) -> tuple[int, ...] | None:
        """Return the order of the dimensions in an encoded chunk, if decoding does no more than move them back."""
        return None

    def resolve(self, spec: ChunkSpec) -> ChunkSpec:
        """Return what a chunk becomes; raise CodecError if the codec cannot take it."""
        fill = self.encode(ChunkSpec((1,), spec.dtype, spec.fill).filled(), spec)[0]
        return ChunkSpec(spec.shape, fill.dtype.newbyteorder("="), fill)

    @abstractmethod
    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        """Return the encoded chunk; `spec` describes the chunk before encoding."""

    @abstractmethod
    def decode(self, chunk: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        """Return the decoded chunk; `spec` describes the chunk after decoding."""


class ArrayBytesCodec(ABC):
    """Turns a chunk into bytes."""

    #: The dtype of the stored elements, if the bytes are these and nothing else, in C order.
    stored: np.dtype | None = None

    def encoded_size(self, spec: ChunkSpec) -> int | None:
        """Return the number of bytes of every encoded chunk; None if it varies."""
        return None

    def encoded_bound(self, spec: ChunkSpec) -> int | None:
        """Return a number of bytes that no encoded chunk exceeds, where it varies; None if there is none."""
        return None

    @abstractmethod
    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> Buffer:
        """Return the bytes of a chunk."""

    @abstractmethod
    def decode(self, data: Buffer, spec: ChunkSpec) -> np.ndarray:
        """Return the chunk; it may be a view of `data`, and in another byte order."""


class BytesBytesCodec(ABC):
    """Turns bytes into other bytes."""

    def encoded_size(self, size: int) -> int | None:
        """Return the number of bytes that `size` bytes become; None if it varies."""
        return None

    def encoded_bound(self, size: int) -> int | None:
        """Return a bound on the number of bytes that at most `size` bytes become, where it varies."""
        return size + size // 4 + 65536

    @abstractmethod
    def encode(self, data: Buffer) -> Buffer:
        """Return the encoded bytes of a contiguous buffer."""

    def encode_joined(self, data: np.ndarray, count: int) -> Sequence[Buffer]:
        """Return what :meth:`encode` gives for each of `count` pieces of equal length, which make up `data`."""
        return [self.encode(piece) for piece in data.reshape(count, -1)]

    @abstractmethod
    def decode(self, data: Buffer, size: int | None, limit: int, out: np.ndarray | None = None) -> Buffer:
        """Return the decoded bytes.

        Parameters
        ----------
        size : int or None
            The number of bytes that must come out, where it is known.
        limit : int
            More than this never comes out: a CodecError stops it.
        out : ndarray of uint8, optional
            Exactly `size` contiguous bytes that receive the result, and are returned.
        """

    def decode_start(self, data: np.ndarray, size: int, out: np.ndarray) -> bool:
        """Decode only the first bytes, as many as `out` has, of the `size` bytes that all data give.

        False if the codec can only decode all; also if there is a checksum, or if the data are not as they should
        be: decoding all will tell.
        """
        return False

    def decode_joined(self, data: np.ndarray, bounds: Sequence[tuple[int, int]], out: np.ndarray) -> bool:
        """Decode several pieces of `data` at once, each to the same number of bytes, one after another in `out`.

        False if the codec cannot, or if a piece is not as it should be: decoding them one by one will tell.

        Parameters
        ----------
        bounds : sequence of (int, int)
            Where each piece begins and ends.
        out : ndarray of uint8
            Contiguous; its length divided by the number of pieces is what each piece must give.
        """
        return False


def as_bytes_array(data: Buffer) -> np.ndarray:
    """Return a contiguous buffer as an array of bytes, not copied.

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
    """Return a buffer of this thread, of at least `nbytes` bytes and with undefined content, to be reused.

    Its content is lost when the same thread asks for the same slot again.

    Raises
    ------
    CodecError
        There is not so much memory.
    """
    buffers: dict[str, Any] = _kept.__dict__
    buffer = buffers.get(slot)
    if buffer is None or buffer.nbytes < nbytes:
        try:
            buffer = np.empty(max(nbytes, 65536), np.uint8)
        except (MemoryError, ValueError) as error:
            raise CodecError(f"a chunk of {nbytes} bytes does not fit into memory") from error
        if nbytes <= _MOST_KEPT:
            buffers[slot] = buffer
    return buffer


def wrong_size(name: str, found: int, size: int) -> CodecError:
    """Return the error of a codec that gave another number of bytes than is needed."""
    return CodecError(f"codec {name!r}: {found} bytes came out, {size} are needed")


def too_large(name: str, limit: int) -> CodecError:
    """Return the error of a codec that gives more bytes than a chunk may have."""
    return CodecError(
        f"codec {name!r}: more than {limit} bytes come out, which is too much for the chunk",
        hint="for values of any length NCZARR_MAX_VARIABLE_CHUNK_BYTES sets the limit",
    )


def deliver(name: str, data: Buffer, size: int | None, limit: int, out: np.ndarray | None) -> Buffer:
    """Check the length of a result, and put it where it is wanted."""
    length = memoryview(data).nbytes
    if size is not None and length != size:
        raise wrong_size(name, length, size)
    if length > limit:
        raise too_large(name, limit)
    if out is None:
        return data
    out[...] = as_bytes_array(data)
    return out


def check_keys(name: str, configuration: Mapping[str, Any], *known: str) -> None:
    """Raise CodecError if a configuration has keys that the codec's specification does not allow."""
    extra = sorted(set(configuration) - set(known))
    if extra:
        raise CodecError(f"codec {name!r}: unknown configuration {', '.join(map(repr, extra))}")


def configured_int(
    name: str, configuration: Mapping[str, Any], key: str, default: int, low: int, high: int
) -> int:
    """Return an integer of a configuration; netcdf-c writes some of them as text.

    Examples
    --------
    >>> configured_int("gzip", {"level": "4"}, "level", 5, 0, 9)
    4
    """
    value = configuration.get(key, default)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise CodecError(f"codec {name!r}: {key} is {str(value)[:50]!r}, not an integer from {low} to {high}")
    return value


Codec = ArrayArrayCodec | ArrayBytesCodec | BytesBytesCodec
#: Makes a codec from its name, its configuration, and the chunk that it gets.
Factory = Callable[[str, Mapping[str, Any], ChunkSpec], Codec]
Made = TypeVar("Made", bound=Factory)

PREFIX = "numcodecs."
#: Stands for every codec that numcodecs knows and no other factory makes.
ANY_NUMCODECS = "numcodecs.*"


def _callable(loaded: Any) -> Factory:
    if not callable(loaded):
        raise TypeError("it is not callable with a name, a configuration and a ChunkSpec")
    factory: Factory = loaded
    return factory


CODECS = Registry[Factory]("nczarr.codecs", "codec", CodecError, _callable)


def register_codec(*names: str) -> Callable[[Made], Made]:
    """Return a decorator that makes a codec's class, or another factory, known under names.

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
    """Return a codec's full name and its factory; None if there is no such codec.

    Some documents name the codecs of numcodecs without their prefix.
    """
    for full in (name, PREFIX + name):
        if (factory := CODECS.registered(full)) is not None:
            return full, factory
    found = CODECS.find(name)
    if found is None and name.startswith(PREFIX):
        found = CODECS.registered(ANY_NUMCODECS)
    return None if found is None else (name, found)


def known_codecs() -> list[str]:
    """Return the names of all codecs; others of numcodecs are found by ``numcodecs.<id>``.

    Examples
    --------
    >>> from nczarr.zarr.codecs import known_codecs
    >>> "zstd" in known_codecs()
    True
    """
    return [name for name in CODECS.names() if name != ANY_NUMCODECS]
