"""Read chunks of an HDF5 file outside HDF5's lock: positioned reads, and filters undone side by side.

HDF5 says where each chunk is. What is read then has nothing to do with the library: several threads read and
inflate at once, with libdeflate where it is installed.
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

from nczarr.errors import NetCDFFileError, placed
from nczarr.model import Filter, Region
from nczarr.netcdf.bytes import Range, Ranges
from nczarr.netcdf.hdf5.filters import decode_chunk

_WORKERS = max(1, min(8, os.cpu_count() or 1))
#: Files with more chunks are asked for each one, others once for all.
_INDEXED = 200_000
#: Smaller reads are quicker through HDF5 and its cache of chunks,
SMALLEST = 256 << 10
#: but for those of whole datasets, which mostly nobody reads again.
SMALLEST_WHOLE = 64 << 10


@dataclass(frozen=True)
class StoredChunk:
    """Where a chunk is in the file, which filters were left out, and what of it goes where."""

    offset: int
    size: int
    mask: int
    place: tuple[slice, ...]
    inside: tuple[slice, ...]


class ChunkPlaces:
    """Where the chunks of a dataset are; made and asked with HDF5's lock held."""

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
        """Offset, size and mask of the filters left out; None if the chunk was never written."""
        if self._found is not None:
            return self._found.get(origin)
        info = self._dataset.get_chunk_info_by_coord(origin)
        return None if info.byte_offset is None else (info.byte_offset, info.size, info.filter_mask)


class DiskRanges:
    """Ranges of a file on disk; the same file even when another takes its name.

    Raises
    ------
    NetCDFFileError
        From reading, if bytes are not there.
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
        # Whoever reads in this moment has the file still; it is closed with the last of them.
        pass


def ranges_of(file_id: Any, sec2: int) -> DiskRanges | None:
    """Return the bytes of the very file that HDF5 has open; None where they are not to be had so.

    The descriptor is one of their own: they are of the same file even when another takes its name.
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
    """Read chunks of `shape` into their places in `out`, which has the dtype of the file."""
    size = math.prod(shape) * out.itemsize

    def put(chunk: StoredChunk, data: Any) -> None:
        with placed(path, fqn=fqn):
            values = decode_chunk(data, filters, chunk.mask, out.itemsize, size)
            out[chunk.place] = values.view(out.dtype).reshape(shape)[chunk.inside]

    def one(chunk: StoredChunk) -> None:
        with placed(path, fqn=fqn):
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
            # The next ranges are under way while the last are decoded.
            decoding: list[Future[None]] = []
            for batch in _batches(chunks, file.together):
                with placed(path, fqn=fqn):
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
    """Cut chunks where their stored bytes become too many."""
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
    """The bytes of a chunk as they are in the file; calling it reads them."""

    file: Ranges
    path: str
    offset: int
    size: int

    def __call__(self) -> Any:
        with placed(self.path):
            return self.file.read(self.offset, self.size)

    @property
    def on_disk(self) -> tuple[int, int, int] | None:
        """Descriptor, offset and size; None if the file is behind a URL."""
        return (self.file.fileno(), self.offset, self.size) if isinstance(self.file, DiskRanges) else None


@dataclass(frozen=True)
class StoredChunks:
    """All chunks of a dataset as they are in the file.

    Attributes
    ----------
    shape, extent : tuple of int
        Of a chunk, and of the dataset.
    places : dict
        Offset and size by the chunk's origin.
    """

    file: Ranges
    path: str
    shape: tuple[int, ...]
    extent: tuple[int, ...]
    big_endian: bool
    places: dict[tuple[int, ...], tuple[int, int]]

    def chunks(self, region: Region | None = None) -> Iterator[tuple[tuple[int, ...], Callable[[], Any]]]:
        """Yield each chunk's origin, and what reads its bytes; those of a region of whole chunks, or all."""

        origins: Iterable[tuple[int, ...]] = self.places
        if region is not None:
            origins = product(*(range(s.start, s.stop, c) for s, c in zip(region, self.shape, strict=True)))
        for origin in origins:
            yield origin, StoredBytes(self.file, self.path, *self.places[origin])
