"""Read a region of an array from local files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from nczarr.errors import ChunkError, CodecError
from nczarr.stores import LocalStore
from nczarr.zarr.chunks import scatter
from nczarr.zarr.chunks.chunks import CHUNKS, Chunks, Index
from nczarr.zarr.chunks.files import Directory, longest, read_box, read_exactly, read_file
from nczarr.zarr.chunks.plan import Item, Part, bounds, is_whole, moved, take
from nczarr.zarr.chunks.read_shards import SMALL, InnerItem, Run, read_shards, single_inner_item
from nczarr.zarr.chunks.shard_files import read_index
from nczarr.zarr.codecs.base import Buffer, scratch
from nczarr.zarr.codecs.chain import Chain
from nczarr.zarr.codecs.sharding import ShardIndex, ShardingCodec
from nczarr.zarr.pool import local_workers, run

Reader = Callable[[Chain, Item, int, os.stat_result], None]

#: The reader opens the directory first if it reads at least this many files.
FEW_FILES = 4
#: Each thread reads whole shards if there are at least this many.
FEW_SHARDS = 4
#: The size of a Python object of a variable-length value, without its characters.
OBJECT_BYTES = 64
#: Uncompressed chunks up to this size are read at once, and copied if their region is not contiguous.
WHOLE_BYTES = 256 << 10


def read_from_files(chunks: Chunks, parts: list[list[Part]], target: np.ndarray) -> None:
    """Read the chunks of a plan into `target`, which has the full shape of the selection."""
    store = chunks.store
    assert isinstance(store, LocalStore)
    items = list(product(*parts))
    folder = f"{store.root}/{chunks.prefix}"
    fixed, sharding = chunks.fixed
    if len(items) == 1 and _read_one(chunks, folder, items[0], target):
        return
    shape = chunks.chunk_shape if sharding is None else sharding.inner_shape
    workers = local_workers(target.nbytes, prod(shape) * target.itemsize, len(items))
    with Directory(folder, chunks.place, few=len(items) < FEW_FILES) as directory:
        read: Reader

        def work(item: Item) -> None:
            _read_item(chunks, directory, item, target, read)

        if sharding is not None:
            # Few shards: the threads share the inner chunks of each shard. Many shards: each thread reads whole ones.
            few = len(items) < FEW_SHARDS
            read = _shard_reader(chunks, sharding, target, workers if few else 1)
            run(work, items, 1 if few else workers)
            return
        chain = fixed or chunks.chain()
        # A region of many chunks would only evict the cached chunks.
        keep = not chain.is_raw and _weight(chain) * len(items) <= CHUNKS.bound // 2
        read = _raw_reader(target) if chain.is_raw else _reader(chunks, target, keep)
        evenly = not keep

        def work_row(row: Sequence[Item]) -> None:
            # If a row fails, its chunks are read one by one, which raises the exact error.
            if len(row) == 1 or not _read_row(chunks, directory, row, target):
                for item in row:
                    work(item)

        run(work_row, scatter.shared_rows(fixed, parts, items, workers, evenly), workers)


def _read_one(chunks: Chunks, folder: str, item: Item, target: np.ndarray) -> bool:
    """Read a single chunk without opening its directory; return False if several chunks of a shard are needed."""
    if chunks.are_kept and _scatter_cached(chunks, folder, item, target):
        return True
    fixed, sharding = chunks.fixed
    directory = Directory(folder, chunks.place, few=True)
    if sharding is not None:
        inner = single_inner_item(sharding, item)
        if inner is None:
            return False
        read = _inner_reader(chunks, sharding, inner, target)
    else:
        chain = fixed or chunks.chain(tuple([part.chunk for part in item]))
        if chain.is_raw:
            read = _raw_reader(target)
        else:
            read = _reader(chunks, target, _weight(chain) <= CHUNKS.bound // 2)
    _read_item(chunks, directory, item, target, read)
    return True


def _read_item(chunks: Chunks, directory: Directory, item: Item, target: np.ndarray, read: Reader) -> None:
    """Read a chunk, or a part of a shard; copy the fill value if it is missing."""
    index = tuple([part.chunk for part in item])
    chain = chunks.fixed_chain or chunks.chain(index)
    found = directory.open(chunks.name(index))
    if found is None:
        chunks.miss()
        scatter.put_fill(target, take(item, "out"), chain.spec.fill)
        return
    descriptor, status = found
    try:
        read(chain, item, descriptor, status)
    except ChunkError:  # has the location
        raise
    except CodecError as error:
        raise chunks.damaged(index, error) from error
    except OSError as error:
        raise chunks.failed("read", index, error) from error
    finally:
        os.close(descriptor)


def _read_row(chunks: Chunks, directory: Directory, row: Sequence[Item], target: np.ndarray) -> bool:
    """Read a row of chunks; return False if a chunk is missing, too long or damaged."""
    chain = chunks.chain()
    whole = all(map(is_whole, row[0]))
    names = [chunks.name(tuple([part.chunk for part in item])) for item in row]
    size = chain.decoded_size or 0
    # One extra byte reveals a file that is too long.
    buffer = scratch("file", (len(row) + 1) * size + 1)
    try:
        # A chunk is read as a whole if at least half of it lies between the first and the last selected element.
        if chain.is_raw and not whole and 2 * scatter.needed_bytes(chain, row[0])[1] < size:
            bounds = _read_stretches(chain, directory, names, row, buffer)
        else:
            bounds = _read_whole(chain, directory, names, buffer)
        if bounds is None:
            return False
        if whole:
            scatter.scatter_row(chain, buffer, bounds, scatter.row_view(row, target))
        else:
            scatter.gather_row(chain, buffer, bounds, row, target)
    except (OSError, CodecError):
        return False
    return True


def _read_whole(
    chain: Chain, directory: Directory, names: Sequence[str], buffer: np.ndarray
) -> list[tuple[int, int]] | None:
    """Read files into one buffer, and return the bounds of each; None if a file is missing or has another size."""
    size = chain.decoded_size or 0
    bounds = []
    start = 0
    for name in names:
        count = directory.read_into(name, buffer[start:])
        if count <= 0 or start + count == buffer.nbytes or (chain.is_raw and count != size):
            return None
        bounds.append((start, start + count))
        start += count
    return bounds


def _read_stretches(
    chain: Chain, directory: Directory, names: Sequence[str], row: Sequence[Item], buffer: np.ndarray
) -> list[tuple[int, int]] | None:
    """Read only the bytes between the selected elements of uncompressed chunks, each at its offset in a whole chunk."""
    size = chain.decoded_size or 0
    begin, length = scatter.needed_bytes(chain, row[0])
    distance = scatter.strides(chain)[-1]
    bounds = []
    before = row[0][-1].inner
    low = 0
    for name, item in zip(names, row, strict=True):
        inner = item[-1].inner  # the chunks of a row have equal parts in all other dimensions
        begin += (inner.start - before.start) * distance
        length += (inner.stop - inner.start - before.stop + before.start) * distance
        if not directory.read_stretch(name, buffer[low + begin : low + begin + length], begin, size):
            return None
        bounds.append((low, low + size))
        before = inner
        low += size
    return bounds


def _weight(chain: Chain) -> int:
    """Return the size of a decoded chunk in memory; a lower bound for variable-length values."""
    size = chain.decoded_size
    return chain.spec.size * OBJECT_BYTES if size is None else size


def _reader(chunks: Chunks, target: np.ndarray, keep: bool) -> Reader:
    """Return the reader of encoded chunks; with `keep`, it caches partly read chunks."""

    def read(chain: Chain, item: Sequence[Part], descriptor: int, status: os.stat_result) -> None:
        out = take(item, "out")
        if all(map(is_whole, item)):
            scatter.put_whole(chain, read_file(descriptor, status.st_size, longest(chain)), target[out])
            return
        if keep:
            chunk = _kept(chunks, chain, item, descriptor, status)
        else:
            data = read_file(descriptor, status.st_size, longest(chain))
            if scatter.scatter_start(chain, item, data, target):
                return
            if chain.stored_dtype is None:
                chunk = chain.decode(data)
            else:
                chunk = chain.decode_raw(data, scratch("chunk", chain.decoded_size or 0))
        target[out] = chunk[take(item, "inner")]

    return read


def _fingerprint(status: os.stat_result) -> tuple[int, int, int]:
    return (status.st_ino, status.st_size, status.st_mtime_ns)


def _scatter_cached(chunks: Chunks, folder: str, item: Item, target: np.ndarray) -> bool:
    """Copy the selected elements of a chunk from the cache; return False if it is not cached or its file changed."""
    index = tuple([part.chunk for part in item])
    try:
        status = os.stat(folder + chunks.name(index))
    except OSError:  # the reader raises the exact error
        return False
    chunk = CHUNKS.get((chunks.owner, *index), _fingerprint(status))
    if chunk is None:
        return False
    target[take(item, "out")] = chunk[take(item, "inner")]
    return True


def _kept(
    chunks: Chunks, chain: Chain, item: Sequence[Part], descriptor: int, status: os.stat_result
) -> np.ndarray:
    """Return a decoded chunk, from the cache if its file is unchanged."""
    name = (chunks.owner, *[part.chunk for part in item])
    mark = _fingerprint(status)
    chunk = CHUNKS.get(name, mark) if chunks.are_kept else None
    if chunk is not None:
        return chunk
    data = read_file(descriptor, status.st_size, longest(chain))
    if chain.stored_dtype is not None:
        chunk = chain.decode_raw(data, np.empty(chain.decoded_size or 0, np.uint8))
    elif not chain.spec.dtype.hasobject:
        chunk = np.array(chain.decode(data))  # a copy, because it may be a view of the scratch buffer
    else:
        chunk = chain.decode(data)
    weight = _weight(chain)
    if chunk.dtype.hasobject:
        values = chunk.ravel().tolist()
        if not all(isinstance(value, str | bytes) for value in values):
            return chunk  # not cached: callers could change mutable objects
        weight += sum(map(len, values))
    CHUNKS.put(name, mark, chunk, weight)
    chunks.are_kept = True
    return chunk


def _raw_reader(target: np.ndarray) -> Reader:
    """Return the reader of uncompressed chunks, which reads only the necessary bytes."""

    def read(chain: Chain, item: Sequence[Part], descriptor: int, status: os.stat_result) -> None:
        _check_size(chain, status.st_size)
        _read_raw(chain, item, descriptor, 0, target)

    return read


def _check_size(chain: Chain, found: int) -> None:
    if found != chain.decoded_size:
        raise CodecError(
            f"the chunk has {found} bytes, its shape {chain.spec.shape} needs {chain.decoded_size}",
            hint="the chunk is damaged or incomplete; restore it from a copy",
        )


def _read_raw(chain: Chain, item: Sequence[Part], descriptor: int, base: int, target: np.ndarray) -> None:
    """Read the selected elements of an uncompressed chunk at offset `base` of a file."""
    stored = chain.stored_dtype
    assert stored is not None
    order = chain.order or ()
    shape = chain.stored_spec.shape
    whole = sliced = True
    for part in item:
        whole = whole and part.full
        sliced = sliced and type(part.out) is slice and type(part.inner) is slice
    if sliced:
        view = target[take(item, "out")].transpose(order)
        if whole and view.flags.c_contiguous and view.dtype == stored:
            read_exactly(descriptor, view.reshape(-1).view(np.uint8), base)
        elif whole and (chain.decoded_size or 0) <= WHOLE_BYTES and not view.flags.c_contiguous:
            size = chain.decoded_size or 0
            buffer = scratch("box", size)[:size]
            read_exactly(descriptor, buffer, base)
            np.copyto(view, buffer.view(stored).reshape(shape))
        else:
            read_box(descriptor, view, [item[i].inner for i in order], shape, stored, base)
        return
    # Index arrays: read the bounding box, then select from it.
    limits = [bounds(part) for part in item]
    box = np.empty([limit.stop - limit.start for limit in limits], chain.spec.dtype)
    read_box(descriptor, box.transpose(order), [limits[i] for i in order], shape, stored, base)
    inside = [moved(part, limit.start) for part, limit in zip(item, limits, strict=True)]
    target[take(item, "out")] = box[take(inside, "inner")]


# --- shards


def _inner_reader(chunks: Chunks, codec: ShardingCodec, inner: InnerItem, target: np.ndarray) -> Reader:
    """Return the reader of a single inner chunk of a shard."""
    number, parts = inner

    def read(chain: Chain, item: Sequence[Part], descriptor: int, status: os.stat_result) -> None:
        where = _ShardFile(chunks, codec, descriptor, status).index(tuple([part.chunk for part in item]))
        if where.present[number]:
            start, length = int(where.offsets[number]), int(where.lengths[number])
            _scatter_inner(codec.inner, inner, descriptor, start, length, target)
        else:
            scatter.put_fill(target, take(parts, "out"), codec.inner.spec.fill)

    return read


def _scatter_inner(
    chain: Chain, inner: InnerItem, descriptor: int, start: int, length: int, target: np.ndarray
) -> None:
    """Read the selected elements of an inner chunk at offset `start` of a file into the result."""
    number, parts = inner
    try:
        if chain.is_raw:
            _check_size(chain, length)
            _read_raw(chain, parts, descriptor, start, target)
        else:
            data = scratch("run", length)[:length]
            read_exactly(descriptor, data, start)
            scatter.scatter(chain, parts, data, target)
    except CodecError as error:
        raise CodecError(f"inner chunk {number}: {error.message}", hint=error.hint) from error


def _shard_reader(chunks: Chunks, codec: ShardingCodec, target: np.ndarray, workers: int | None) -> Reader:
    """Return the reader of several inner chunks of a shard."""

    def read(chain: Chain, item: Item, descriptor: int, status: os.stat_result) -> None:
        read_shards(chunks, [item], _ShardFile(chunks, codec, descriptor, status), target, workers)

    return read


@dataclass(slots=True)
class _ShardFile:
    """Read one shard from an open file."""

    chunks: Chunks
    codec: ShardingCodec
    descriptor: int
    status: os.stat_result

    def index(self, index: Index) -> ShardIndex:
        """Return the index of the shard, from the cache if the file is unchanged.

        Raises
        ------
        CodecError
            If the index is damaged.
        """
        codec, status = self.codec, self.status
        mark = _fingerprint(status)
        known = self.chunks.shard_indexes.get(index, mark)
        if known is None:
            known = read_index(codec, self.descriptor)
            self.chunks.shard_indexes.put(index, mark, known)
        return known

    def indexes(self, places: Sequence[Index]) -> list[ShardIndex | None]:
        """Return the index of the shard."""
        (index,) = places
        try:
            return [self.index(index)]
        except CodecError as error:
            raise self.chunks.damaged(index, error) from error

    def request(self, jobs: Sequence[tuple[int, Run]]) -> None:
        """Do nothing: files need no batched requests."""

    def read(self, number: int, job: Run, target: np.ndarray) -> Buffer | None:
        """Read a run into the thread's scratch buffer, or large uncompressed inner chunks directly into the result."""
        chain = self.codec.inner
        is_large = chain.is_raw and (chain.decoded_size or 0) >= SMALL
        if is_large and _alone(job.pieces[0].item, target):
            for piece in job.pieces:
                start, length = job.start + piece.start, piece.stop - piece.start
                _scatter_inner(chain, (piece.number, piece.item), self.descriptor, start, length, target)
            return None
        buffer = scratch("run", job.length)[: job.length]
        read_exactly(self.descriptor, buffer, job.start)
        return buffer


def _alone(item: Sequence[Part], target: np.ndarray) -> bool:
    """Return True if an uncompressed inner chunk is read separately: it is partly selected, or contiguous."""
    return not all(part.full for part in item) or target[take(item, "out")].flags.c_contiguous
