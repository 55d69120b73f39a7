"""Read chunks of an HDF5 file without HDF5's lock, decode them in parallel, and encode chunks.

HDF5 reports where each chunk is. The positioned reads that follow do not involve the library: several threads
read and inflate at once, with libdeflate where it is installed.

HDF5 itself provides deflate, shuffle, fletcher32 and usually szip. zstd, blosc and bzip2 are plugins, which
may be missing or belong to another copy of the library in the process. HDF5 transfers such chunks in their
stored form, and numcodecs encodes and decodes them here.
"""

from __future__ import annotations

import bz2
import math
import os
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numcodecs import blosc
from numcodecs.fletcher32 import Fletcher32
from numcodecs.zstd import Zstd

from nczarr.compression import BLOSC_COMPRESSORS, BUILT_IN, ENCODED, FILTERS, blosc_parameters, level_of
from nczarr.errors import NetCDFFileError
from nczarr.model import Filter
from nczarr.netcdf.bytes.file import DiskRanges, Ranges
from nczarr.netcdf.hdf5.library import hdf5

if TYPE_CHECKING:
    from h5py import h5d, h5f

try:  # libdeflate is more than twice as fast as zlib
    import deflate as _libdeflate
except ImportError:
    _libdeflate = None

#: The forms in which filters pass the bytes of a chunk on.
Bytes: TypeAlias = "bytes | bytearray | memoryview"

_WORKERS = max(1, min(8, os.cpu_count() or 1))
#: Up to this number, one call lists all chunks of a dataset. Above it, each chunk is looked up separately.
_INDEXED = 200_000
#: Smaller reads are faster through HDF5 and its chunk cache,
SMALLEST = 256 << 10
#: except for reads of whole datasets, which are rarely repeated.
SMALLEST_WHOLE = 64 << 10
_PLUGINS = ENCODED - BUILT_IN
_COMPRESS = _PLUGINS | {Filter.DEFLATE}


class StoredChunk(NamedTuple):
    """A stored chunk: its bytes, its mask of skipped filters, and the part of it that a selection needs."""

    offset: int
    size: int
    mask: int
    place: tuple[slice, ...]
    inside: tuple[slice, ...]


class ChunkPlaces:
    """The locations of a dataset's chunks. The caller holds HDF5's lock."""

    def __init__(self, dataset: h5d.DatasetID) -> None:
        self._dataset = dataset
        self._found: dict[tuple[int, ...], h5d.StoreInfo] | None = None
        if hasattr(dataset, "chunk_iter") and dataset.get_num_chunks() <= _INDEXED:
            found = self._found = {}
            dataset.chunk_iter(lambda info: found.update({info.chunk_offset: info}))

    def __getitem__(self, origin: tuple[int, ...]) -> tuple[int, int, int] | None:
        """Return offset, size and mask of skipped filters, or None for a chunk that was never written."""
        if self._found is not None:
            info = self._found.get(origin)
        else:
            info = self._dataset.get_chunk_info_by_coord(origin)
        if info is None or info.byte_offset is None:
            return None
        return info.byte_offset, info.size, info.filter_mask


def ranges_of(file: h5f.FileID) -> DiskRanges | None:
    """Return byte ranges of the file that HDF5 has open, or None if its driver does not permit them.

    A duplicate descriptor keeps them on the same file when another file takes its name.
    """
    driver = file.get_access_plist().get_driver() if hasattr(os, "pread") else None
    # Offsets count from behind a user block, and other drivers keep the bytes elsewhere.
    if driver != hdf5().h5fd.SEC2 or file.get_create_plist().get_userblock():
        return None
    return DiskRanges(os.dup(file.get_vfd_handle()))


def read_chunks(
    file: Ranges,
    chunks: Sequence[StoredChunk],
    filters: Sequence[Filter],
    shape: tuple[int, ...],
    out: np.ndarray,
) -> None:
    """Read chunks of `shape` into their places in `out`, whose dtype is that of the file."""
    size = math.prod(shape) * out.itemsize

    def put(chunk: StoredChunk, data: Bytes | None = None) -> None:
        data = file.read(chunk.offset, chunk.size) if data is None else data
        values = decode_chunk(data, filters, chunk.mask, out.itemsize, size)
        out[chunk.place] = values.view(out.dtype).reshape(shape)[chunk.inside]

    workers = min(_WORKERS, len(chunks)) if size * len(chunks) > SMALLEST else 1
    # One thread reads and decodes without the cost of a pool.
    if workers <= 1 and not file.together:
        for chunk in chunks:
            put(chunk)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="nczarr-hdf5") as pool:
        try:
            if not file.together:
                for _ in pool.map(put, chunks):
                    pass
                return
            # Fetch the next ranges while the previous ones are decoded.
            decoding: list[Future[None]] = []
            for batch in [*_batches(chunks, file.together), []]:
                found = file.read_many([(chunk.offset, chunk.size) for chunk in batch]) if batch else []
                for done in decoding:
                    done.result()
                decoding = [pool.submit(put, *pair) for pair in zip(batch, found, strict=True)]
        # Threads that go on would write into an array that the caller gives up.
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _batches(chunks: Sequence[StoredChunk], limit: int) -> Iterator[list[StoredChunk]]:
    """Split chunks into batches by their stored size."""
    batch: list[StoredChunk] = []
    total = 0
    for chunk in chunks:
        if batch and total + chunk.size > limit:
            yield batch
            batch, total = [], 0
        batch.append(chunk)
        total += chunk.size
    if batch:
        yield batch


# --- filters


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


def decode_chunk(data: Bytes, filters: Sequence[Filter], mask: int, itemsize: int, size: int) -> np.ndarray:
    """Decode a chunk.

    `filters` are in the order of encoding. Bit `i` of `mask` is set if the chunk skipped filter `i`. The
    result has `size` bytes.

    Raises
    ------
    NetCDFFileError
        If the chunk is damaged.
    """
    made: Bytes = data
    for i in reversed(range(len(filters))):
        # HDF5 notes for each chunk the filters that it has left out.
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
    # numpy would take other values from a chunk of another size.
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
    made: Bytes = np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
    for filter_ in filters:
        made = _encode(filter_, made, itemsize)
    return bytes(made)


def _room(before: Sequence[int], size: int) -> int:
    """Return the size of a chunk after the filters before a given one; for compressors, the upper limit."""
    for number in before:
        # The checksum stands behind the data.
        if number == Filter.FLETCHER32:
            size += 4
        elif number in _COMPRESS:
            size += size // 50 + 1024  # incompressible data grow
    return size


def _decode(filter_: Filter, data: Bytes, itemsize: int, size: int, *, exact: bool) -> Bytes:
    """Undo a filter whose input had `size` bytes, or at most that many if not `exact`."""
    if filter_.id == Filter.SHUFFLE:
        return _unshuffle(np.frombuffer(data, np.uint8), itemsize).data
    if filter_.id == Filter.FLETCHER32:
        return Fletcher32().decode(np.frombuffer(data, np.uint8))
    if filter_.id == Filter.DEFLATE:
        return _inflate(data, size)
    if filter_.id == Filter.BZIP2:
        # Without a bound, a small hostile chunk unpacks to any size.
        return bz2.BZ2Decompressor().decompress(bytes(data), size + 1)
    data = bytes(data)
    if filter_.id == Filter.ZSTD:
        stated = _zstd_size(data)
        # The size is checked before memory is taken for it.
        if stated is not None and not _fits(stated, size, exact):
            raise ValueError("its header does not state the chunk's size")
        return Zstd().decode(data)
    stated = int.from_bytes(data[4:8], "little")
    # c-blosc trusts its header, and would read beyond a damaged chunk.
    if len(data) < 16 or not _fits(stated, size, exact):
        raise ValueError("its header does not state the chunk's size")
    out = np.empty(stated, np.uint8)
    blosc.decompress(data, out)
    return out.data


def _fits(stated: int, size: int, exact: bool) -> bool:
    return stated == size if exact else stated <= size


def _zstd_size(data: bytes) -> int | None:
    """Return the content size in a frame's header, or None if the header has none (RFC 8878, 3.1.1.1)."""
    if len(data) < 6 or data[:4] != b"\x28\xb5\x2f\xfd":
        raise ValueError("the data are not a zstd frame")
    flag, single, dictionary = data[4] >> 6, data[4] >> 5 & 1, data[4] & 3
    width = (single, 2, 4, 8)[flag]
    # A frame may leave its size out, as that of a stream does.
    if not width:
        return None
    start = 6 - single + (0, 1, 2, 4)[dictionary]
    return int.from_bytes(data[start : start + width], "little") + (256 if width == 2 else 0)


def _encode(filter_: Filter, data: Bytes, itemsize: int) -> Bytes:
    if filter_.id == Filter.SHUFFLE:
        return _shuffle(np.frombuffer(data, np.uint8), itemsize).data
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
    # snappy was removed from the blosc library.
    if name not in blosc.list_compressors():
        name = "lz4"  # another compressor of the same container, which every reader supports
    raw = np.frombuffer(data, np.uint8)
    # blosc shuffles by the size of an element, which its header has in one byte.
    if len(raw) % itemsize == 0 and itemsize < 256:
        raw = raw.view(f"V{itemsize}")
    return blosc.compress(raw, name.encode(), min(level, 9), min(shuffle, 2))


def _inflate(data: Bytes, size: int) -> Bytes:
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
