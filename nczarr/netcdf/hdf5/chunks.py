"""Read chunks of an HDF5 file without HDF5's lock, and decode them in parallel.

HDF5 reports where each chunk is. The positioned reads that follow do not involve the library: several threads
read and inflate at once, with libdeflate where it is installed.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from nczarr.errors import NetCDFFileError, error_context
from nczarr.model import Filter, Region
from nczarr.netcdf.bytes.ranges import Range, Ranges
from nczarr.netcdf.hdf5.filters import decode_chunk

_WORKERS = max(1, min(8, os.cpu_count() or 1))
#: Up to this number, one call lists all chunks of a dataset. Above it, each chunk is looked up separately.
_INDEXED = 200_000
#: Smaller reads are faster through HDF5 and its chunk cache,
SMALLEST = 256 << 10
#: except for reads of whole datasets, which are rarely repeated.
SMALLEST_WHOLE = 64 << 10


@dataclass(frozen=True)
class StoredChunk:
    """A stored chunk: its bytes, its mask of skipped filters, and the part of it that a selection needs."""

    offset: int
    size: int
    mask: int
    place: tuple[slice, ...]
    inside: tuple[slice, ...]


class ChunkPlaces:
    """The locations of a dataset's chunks. The caller holds HDF5's lock."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._found: dict[tuple[int, ...], tuple[int, int, int]] | None = None
        if hasattr(dataset, "chunk_iter") and dataset.get_num_chunks() <= _INDEXED:
            found: dict[tuple[int, ...], tuple[int, int, int]] = {}

            def note(info: Any) -> None:
                found[tuple(info.chunk_offset)] = info.byte_offset, info.size, info.filter_mask

            dataset.chunk_iter(note)
            self._found = found

    def __getitem__(self, origin: tuple[int, ...]) -> tuple[int, int, int] | None:
        """Return offset, size and mask of skipped filters, or None for a chunk that was never written."""
        if self._found is not None:
            return self._found.get(origin)
        info = self._dataset.get_chunk_info_by_coord(origin)
        return None if info.byte_offset is None else (info.byte_offset, info.size, info.filter_mask)


class DiskRanges:
    """Byte ranges of a file on disk. They stay valid when another file takes its name.

    Raises
    ------
    NetCDFFileError
        On reading, if the file ends before the range.
    """

    together = 0

    def __init__(self, descriptor: int) -> None:
        self._file = io.FileIO(descriptor, "rb")

    def fileno(self) -> int:
        """Return the file's descriptor."""
        return self._file.fileno()

    def read(self, offset: int, size: int) -> bytes:
        try:
            data = os.pread(self._file.fileno(), size, offset)
            while len(data) < size:
                more = os.pread(self._file.fileno(), size - len(data), offset + len(data))
                if not more:
                    raise NetCDFFileError(f"the file is truncated: it ends at byte {offset + len(data)}")
                data += more
        except OSError as error:
            raise NetCDFFileError(f"the file cannot be read: {error.strerror}") from error
        return data

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        return [self.read(*one) for one in ranges]

    def close(self) -> None:
        # Concurrent readers keep their reference. The last of them closes the file.
        pass


def ranges_of(file_id: Any, sec2: int) -> DiskRanges | None:
    """Return byte ranges of the file that HDF5 has open, or None if its driver does not permit them.

    A duplicate descriptor keeps them on the same file when another file takes its name.
    """
    if not hasattr(os, "pread") or file_id.get_access_plist().get_driver() != sec2:
        return None
    if file_id.get_create_plist().get_userblock():
        return None
    return DiskRanges(os.dup(file_id.get_vfd_handle()))


def read_chunks(
    file: Ranges,
    chunks: Sequence[StoredChunk],
    filters: Sequence[Filter],
    shape: tuple[int, ...],
    out: np.ndarray,
    *,
    path: str,
    fqn: str,
) -> None:
    """Read chunks of `shape` into their places in `out`, whose dtype is that of the file."""
    size = math.prod(shape) * out.itemsize

    def put(chunk: StoredChunk, data: Any) -> None:
        with error_context(path, fqn=fqn):
            values = decode_chunk(data, filters, chunk.mask, out.itemsize, size)
            out[chunk.place] = values.view(out.dtype).reshape(shape)[chunk.inside]

    def one(chunk: StoredChunk) -> None:
        with error_context(path, fqn=fqn):
            data = file.read(chunk.offset, chunk.size)
        put(chunk, data)

    workers = min(_WORKERS, len(chunks)) if size * len(chunks) > SMALLEST else 1
    if workers <= 1 and not file.together:
        for chunk in chunks:
            one(chunk)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="nczarr-hdf5") as pool:
        try:
            if not file.together:
                for _ in pool.map(one, chunks):
                    pass
                return
            # Fetch the next ranges while the previous ones are decoded.
            decoding: list[Future[None]] = []
            for batch in _batches(chunks, file.together):
                with error_context(path, fqn=fqn):
                    found = file.read_many([(chunk.offset, chunk.size) for chunk in batch])
                for done in decoding:
                    done.result()
                decoding = [pool.submit(put, *pair) for pair in zip(batch, found, strict=True)]
            for done in decoding:
                done.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _batches(chunks: Sequence[StoredChunk], limit: int) -> Iterator[list[StoredChunk]]:
    """Split chunks into batches by their stored size."""
    batch: list[StoredChunk] = []
    held = 0
    for chunk in chunks:
        if batch and held + chunk.size > limit:
            yield batch
            batch, held = [], 0
        batch.append(chunk)
        held += chunk.size
    if batch:
        yield batch


@dataclass(frozen=True)
class StoredBytes:
    """The stored bytes of a chunk. A call reads them."""

    file: Ranges
    path: str
    offset: int
    size: int

    def __call__(self) -> Any:
        with error_context(self.path):
            return self.file.read(self.offset, self.size)

    @property
    def on_disk(self) -> tuple[int, int, int] | None:
        """Return descriptor, offset and size, or None if the file is behind a URL."""
        return (self.file.fileno(), self.offset, self.size) if isinstance(self.file, DiskRanges) else None


@dataclass(frozen=True)
class StoredChunks:
    """All chunks of a dataset in their stored form.

    Attributes
    ----------
    shape, extent : tuple of int
        The shapes of a chunk and of the dataset.
    places : dict
        Offset and size in the file, by the chunk's origin.
    """

    file: Ranges
    path: str
    shape: tuple[int, ...]
    extent: tuple[int, ...]
    big_endian: bool
    places: dict[tuple[int, ...], tuple[int, int]]

    def chunks(self, region: Region | None = None) -> Iterator[tuple[tuple[int, ...], Callable[[], Any]]]:
        """Yield the origin of each chunk and the reader of its bytes, for all chunks or those of a region."""

        origins: Iterable[tuple[int, ...]] = self.places
        if region is not None:
            origins = product(*(range(s.start, s.stop, c) for s, c in zip(region, self.shape, strict=True)))
        for origin in origins:
            yield origin, StoredBytes(self.file, self.path, *self.places[origin])
