"""Decode and encode chunks whose filters are HDF5 plugins, without installed plugins.

HDF5 itself provides deflate, shuffle, fletcher32 and usually szip. zstd, blosc and bzip2 are plugins, which
may be missing or belong to another copy of the library in the process. HDF5 transfers such chunks in their
stored form, and numcodecs encodes and decodes them here.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numcodecs import blosc
from numcodecs.fletcher32 import Fletcher32
from numcodecs.zstd import Zstd

from nczarr.errors import NetCDFFileError
from nczarr.filters import BLOSC_COMPRESSORS, BUILT_IN, ENCODED, FILTERS, blosc_parameters, level_of
from nczarr.model import Filter

try:  # libdeflate is more than twice as fast as zlib
    import deflate as _libdeflate
except ImportError:
    _libdeflate = None

_PLUGINS = ENCODED - BUILT_IN
_COMPRESS = _PLUGINS | {Filter.DEFLATE}


def describe_filter(number: int) -> str:
    """Return a filter's number and name for messages.

    Examples
    --------
    >>> describe_filter(32013), describe_filter(40000)
    ('32013 (zfp)', '40000')
    """
    return f"{number} ({FILTERS[number].name})" if number in FILTERS else str(number)


def is_ours(filters: Sequence[Filter]) -> bool:
    """Return True if this module handles these filters: it knows all of them, and one is a plugin.

    Examples
    --------
    >>> is_ours([Filter(2), Filter(32015, (3,))]), is_ours([Filter(2), Filter(1, (4,))])
    (True, False)
    """
    numbers = {f.id for f in filters}
    return bool(numbers & _PLUGINS) and numbers <= ENCODED


def is_known(filters: Sequence[Filter]) -> bool:
    """Return True if this module can decode chunks with these filters.

    Examples
    --------
    >>> is_known([Filter(2), Filter(1, (4,))]), is_known([Filter(4)])
    (True, False)
    """
    return {f.id for f in filters} <= ENCODED


def complete(filter_: Filter, itemsize: int, size: int) -> Filter:
    """Return the filter with the parameters that its plugin would add for a chunk of `size` bytes.

    Examples
    --------
    >>> complete(Filter(32001, (0, 0, 0, 0, 4, 1, 1)), 8, 8000).parameters
    (0, 0, 8, 8000, 4, 1, 1)
    """
    if filter_.id != Filter.BLOSC:
        return filter_
    current = blosc_parameters(filter_.parameters)
    return replace(filter_, parameters=(*current[:2], min(itemsize, 255), size & 0xFFFFFFFF, *current[4:]))


def decode_chunk(data: bytes, filters: Sequence[Filter], mask: int, itemsize: int, size: int) -> np.ndarray:
    """Decode a chunk.

    `filters` are in the order of encoding. Bit `i` of `mask` is set if the chunk skipped filter `i`. The
    result has `size` bytes.

    Raises
    ------
    NetCDFFileError
        If the chunk is damaged.
    """
    made: Any = data
    for i in reversed(range(len(filters))):
        if mask >> i & 1:
            continue
        try:
            before = [f.id for j, f in enumerate(filters[:i]) if not mask >> j & 1]
            made = _decode(
                filters[i], made, itemsize, _room(before, size), exact=not _COMPRESS.intersection(before)
            )
        except (ValueError, RuntimeError, OSError, EOFError, zlib.error, MemoryError) as error:
            name = describe_filter(filters[i].id)
            raise NetCDFFileError(f"a chunk is damaged: filter {name}: {error}") from error
    found = np.frombuffer(made, np.uint8)
    if found.size != size:
        raise NetCDFFileError(f"a chunk is damaged: it has {found.size} bytes and should have {size}")
    return found


def encode_chunk(data: np.ndarray, filters: Sequence[Filter], itemsize: int) -> bytes:
    """Encode a chunk.

    Examples
    --------
    >>> chain = [Filter(2), Filter(32015, (3,)), Filter(3)]
    >>> data = np.arange(100, dtype="i4")
    >>> decode_chunk(encode_chunk(data, chain, 4), chain, 0, 4, 400).view("i4")[-3:].tolist()
    [97, 98, 99]
    """
    made: Any = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    for filter_ in filters:
        made = _encode(filter_, made, itemsize)
    return bytes(made)


def _room(before: Sequence[int], size: int) -> int:
    """Return the size of a chunk after the filters before a given one; for compressors, the upper limit."""
    for number in before:
        if number == Filter.FLETCHER32:
            size += 4
        elif number in _COMPRESS:
            size += size // 50 + 1024  # incompressible data grow
    return size


def _decode(filter_: Filter, data: Any, itemsize: int, size: int, *, exact: bool) -> Any:
    """Undo a filter whose input had `size` bytes, or at most that many if not `exact`."""
    if filter_.id == Filter.SHUFFLE:
        return _unshuffle(np.frombuffer(data, np.uint8), itemsize)
    if filter_.id == Filter.FLETCHER32:
        return Fletcher32().decode(np.frombuffer(data, np.uint8))
    if filter_.id == Filter.DEFLATE:
        return _inflate(data, size)
    if filter_.id == Filter.BZIP2:
        return bz2.BZ2Decompressor().decompress(bytes(data), size + 1)
    data = bytes(data)
    if filter_.id == Filter.ZSTD:
        said = _zstd_size(data)
        if said is not None and not _fits(said, size, exact):
            raise ValueError("its header does not state the chunk's size")
        return Zstd().decode(data)
    said = int.from_bytes(data[4:8], "little")
    if len(data) < 16 or not _fits(said, size, exact):
        raise ValueError("its header does not state the chunk's size")
    out = np.empty(said, np.uint8)
    blosc.decompress(data, out)
    return out


def _fits(said: int, size: int, exact: bool) -> bool:
    return said == size if exact else said <= size


def _zstd_size(data: bytes) -> int | None:
    """Return the content size in a frame's header, or None if the header has none (RFC 8878, 3.1.1.1)."""
    if len(data) < 6 or data[:4] != b"\x28\xb5\x2f\xfd":
        raise ValueError("the data are not a zstd frame")
    flag, single, dictionary = data[4] >> 6, data[4] >> 5 & 1, data[4] & 3
    width = (single, 2, 4, 8)[flag]
    if not width:
        return None
    start = 6 - single + (0, 1, 2, 4)[dictionary]
    return int.from_bytes(data[start : start + width], "little") + (256 if width == 2 else 0)


def _encode(filter_: Filter, data: Any, itemsize: int) -> Any:
    if filter_.id == Filter.SHUFFLE:
        return _shuffle(np.frombuffer(data, np.uint8), itemsize)
    if filter_.id == Filter.FLETCHER32:
        return Fletcher32().encode(np.frombuffer(data, np.uint8))
    if filter_.id == Filter.DEFLATE:
        return zlib.compress(data, level_of(filter_.id, filter_.parameters))
    if filter_.id == Filter.BZIP2:
        return bz2.compress(data, level_of(filter_.id, filter_.parameters))
    if filter_.id == Filter.ZSTD:
        return Zstd(level_of(filter_.id, filter_.parameters)).encode(data)
    level, shuffle, compressor = blosc_parameters(filter_.parameters)[4:7]
    name = BLOSC_COMPRESSORS[compressor] if compressor < len(BLOSC_COMPRESSORS) else "blosclz"
    if name not in blosc.list_compressors():
        name = "lz4"  # another compressor of the same container, which every reader supports
    raw = np.frombuffer(data, np.uint8)
    if len(raw) % itemsize == 0 and itemsize < 256:
        raw = raw.view(f"V{itemsize}")
    return blosc.compress(raw, name.encode(), min(level, 9), min(shuffle, 2))


def _inflate(data: Any, size: int) -> Any:
    """Inflate to `size` bytes, or to one byte more for a damaged chunk."""
    if _libdeflate is not None:
        with suppress(Exception):  # zlib reports the error
            return _libdeflate.zlib_decompress(data, size)
    return zlib.decompressobj().decompress(data, size + 1)


def _shuffle(data: np.ndarray, itemsize: int) -> np.ndarray:
    """Apply HDF5's shuffle: the first bytes of all elements, then the second bytes …

    The remainder stays at the end.
    """
    whole = len(data) // itemsize * itemsize
    return np.concatenate([data[:whole].reshape(-1, itemsize).T.reshape(-1), data[whole:]])


def _unshuffle(data: np.ndarray, itemsize: int) -> np.ndarray:
    count = len(data) // itemsize
    out = np.empty(len(data), np.uint8)
    elements = out[: count * itemsize].reshape(count, itemsize)
    for byte in range(itemsize):  # faster than one transposed copy
        elements[:, byte] = data[byte * count : (byte + 1) * count]
    out[count * itemsize :] = data[count * itemsize :]
    return out
