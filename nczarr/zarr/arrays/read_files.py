"""Reading a region of an array in local files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from nczarr.errors import CodecError, StoreError
from nczarr.stores import LocalStore
from nczarr.zarr.arrays.cache import CHUNK_BYTES, CHUNKS
from nczarr.zarr.arrays.files import Directory, read_box, read_exactly, read_file
from nczarr.zarr.arrays.neighbours import place_row, row_view, run_rows
from nczarr.zarr.arrays.place import chunk_error, place_start, put_fill, put_whole
from nczarr.zarr.arrays.plan import Item, Part, bounds, is_whole, moved, take
from nczarr.zarr.arrays.read_shards import Run, inner_items, place_missing, place_run, runs
from nczarr.zarr.codecs.chain import Chain
from nczarr.zarr.codecs.sharding import ShardIndex, ShardingCodec
from nczarr.zarr.pool import reading_workers, run, scratch

if TYPE_CHECKING:
    from nczarr.zarr.arrays.array import Array

Reader = Callable[[Chain, Sequence[Part], int, os.stat_result], None]

#: From this many files on, it pays to open their directory first.
FEW_FILES = 4
#: From this many shards on, each thread takes whole shards.
FEW_SHARDS = 4
#: Uncompressed chunks up to this size are read at once, and copied to their place if that is not contiguous.
WHOLE_BYTES = 256 << 10
#: Uncompressed inner chunks of at least this many bytes are read one by one, straight to their place.
DIRECT_BYTES = 16 << 10


def read_from_files(array: Array, parts: list[list[Part]], target: np.ndarray) -> None:
    """Read the chunks of a plan into `target`, which has the full shape of the selection."""
    store = array.store
    assert isinstance(store, LocalStore)
    items = list(product(*parts))
    chunk_bytes = prod(array.inner_chunk_shape) * array.dtype.itemsize
    workers = reading_workers(target.nbytes, chunk_bytes, len(items))
    folder = f"{store.root}/{array.prefix}"
    with Directory(folder, array.place, few=len(items) < FEW_FILES) as directory:
        if array.sharding is not None:
            _read_shards(array, directory, items, target, workers)
            return
        read = _raw_reader(target) if array.chain().is_raw else _reader(array, target, len(items))
        name = array.metadata.chunk_key_encoding.key
        fixed = array.fixed_chain

        def work(item: Item) -> None:
            index = tuple([part.chunk for part in item])
            chain = fixed or array.chain(index)
            found = directory.open(name(index))
            if found is None:
                put_fill(target, take(item, "out"), chain.spec.fill)
                return
            descriptor, status = found
            try:
                read(chain, item, descriptor, status)
            except CodecError as error:
                raise chunk_error(array, index, error) from error
            except OSError as error:
                raise _failed(array, index, error) from error
            finally:
                os.close(descriptor)

        def work_row(row: Sequence[Item]) -> bool:
            return _read_row(array, directory, row, target)

        run_rows(fixed, parts, items, workers, work, work_row)


def _read_row(array: Array, directory: Directory, row: Sequence[Item], target: np.ndarray) -> bool:
    """Read a row of chunks; False if anything is not as usual: a chunk is missing, too long or damaged."""
    chain = array.chain()
    size = chain.decoded_size or 0
    # One byte more than is expected shows that a file is longer.
    buffer = scratch("file", (len(row) + 1) * size + 1)
    bounds = []
    start = 0
    key = array.metadata.chunk_key_encoding.key
    for item in row:
        try:
            count = directory.read_into(key(tuple([part.chunk for part in item])), buffer[start:])
        except OSError:
            return False
        if count <= 0 or start + count == buffer.nbytes or (chain.is_raw and count != size):
            return False
        bounds.append((start, start + count))
        start += count
    try:
        place_row(chain, buffer, bounds, row_view(row, target))
    except CodecError:
        return False
    return True


def _failed(array: Array, index: tuple[int, ...], error: OSError) -> StoreError:
    return StoreError(
        f"cannot read: {error.strerror}", path=array.store.place(array.chunk_key(index)), fqn="/" + array.path
    )


def _reader(array: Array, target: np.ndarray, count: int) -> Reader:
    """Return the reader of chunks that have to be decoded; `count` is how many there are."""
    size = array.chain().decoded_size
    # A region of many chunks would only drive out what is remembered.
    remember = size is not None and size * count <= CHUNK_BYTES // 2

    def read(chain: Chain, item: Sequence[Part], descriptor: int, status: os.stat_result) -> None:
        out = take(item, "out")
        if all(map(is_whole, item)):
            put_whole(chain, read_file(descriptor, status.st_size), target[out])
            return
        if chain.stored_dtype is None or not remember:
            data = read_file(descriptor, status.st_size)
            if place_start(chain, item, data, target):
                return
            if chain.stored_dtype is None:
                chunk = chain.decode(data)
            else:
                chunk = chain.decode_raw(data, scratch("chunk", chain.decoded_size or 0))
        else:
            chunk = _remembered(array, chain, item, descriptor, status)
        target[out] = chunk[take(item, "inner")]

    return read


def _remembered(
    array: Array, chain: Chain, item: Sequence[Part], descriptor: int, status: os.stat_result
) -> np.ndarray:
    """Return a decoded chunk, from memory as long as the file stays what it was."""
    name = (array.owner, *[part.chunk for part in item])
    mark = (status.st_ino, status.st_size, status.st_mtime_ns)
    chunk = CHUNKS.get(name, mark)
    if chunk is None:
        size = chain.decoded_size or 0
        chunk = chain.decode_raw(read_file(descriptor, status.st_size), np.empty(size, np.uint8))
        CHUNKS.put(name, mark, chunk, size)
    return chunk


def _raw_reader(target: np.ndarray) -> Reader:
    """Return the reader of chunks whose bytes are the elements: it reads no more than is needed."""

    def read(chain: Chain, item: Sequence[Part], descriptor: int, status: os.stat_result) -> None:
        _check_size(chain, status.st_size)
        _read_raw(chain, item, descriptor, 0, target)

    return read


def _check_size(chain: Chain, found: int) -> None:
    if found != chain.decoded_size:
        raise CodecError(
            f"the chunk has {found} bytes, its shape {chain.spec.shape} needs {chain.decoded_size}"
        )


def _read_raw(chain: Chain, item: Sequence[Part], descriptor: int, base: int, target: np.ndarray) -> None:
    """Read what is selected of an uncompressed chunk that begins at `base`."""
    stored = chain.stored_dtype
    assert stored is not None
    order = chain.order or ()
    shape = chain.stored_spec.shape
    if all(type(part.out) is slice and type(part.inner) is slice for part in item):
        view = target[take(item, "out")].transpose(order)
        size = chain.decoded_size or 0
        if size <= WHOLE_BYTES and all(part.full for part in item) and not view.flags.c_contiguous:
            buffer = scratch("box", size)[:size]
            read_exactly(descriptor, buffer, base)
            np.copyto(view, buffer.view(stored).reshape(shape))
        else:
            read_box(descriptor, view, [item[i].inner for i in order], shape, stored, base)
        return
    # Places in any order: the box around them, and of it the places.
    limits = [bounds(part) for part in item]
    box = np.empty([limit.stop - limit.start for limit in limits], chain.spec.dtype)
    read_box(descriptor, box.transpose(order), [limits[i] for i in order], shape, stored, base)
    inside = [moved(part, limit.start) for part, limit in zip(item, limits, strict=True)]
    target[take(item, "out")] = box[take(inside, "inner")]


# --- shards


def _read_shards(
    array: Array, directory: Directory, items: list[Item], target: np.ndarray, workers: int | None
) -> None:
    codec = array.sharding
    assert codec is not None
    # Few shards: the threads share the inner chunks of each. Many shards: each thread takes whole ones.
    few = len(items) < FEW_SHARDS

    def work(item: Item) -> None:
        index = tuple([part.chunk for part in item])
        found = directory.open(array.metadata.chunk_key_encoding.key(index))
        if found is None:
            put_fill(target, take(item, "out"), codec.inner.spec.fill)
            return
        descriptor, status = found
        try:
            where = _index(array, codec, index, descriptor, status)
            _read_shard(codec, where, descriptor, item, target, workers if few else 1)
        except CodecError as error:
            raise chunk_error(array, index, error) from error
        except OSError as error:
            raise _failed(array, index, error) from error
        finally:
            os.close(descriptor)

    run(work, items, 1 if few else workers)


def _index(
    array: Array, codec: ShardingCodec, index: tuple[int, ...], descriptor: int, status: os.stat_result
) -> ShardIndex:
    """Return the index of a shard, remembered as long as the file stays what it was."""
    mark = (status.st_ino, status.st_size, status.st_mtime_ns)
    known = array.shard_indexes.get(index, mark)
    if known is None:
        size = status.st_size
        data = np.empty(min(codec.index_size, size), np.uint8)
        read_exactly(descriptor, data, 0 if codec.index_first else size - data.nbytes)
        known = codec.parse_index(data, size)
        array.shard_indexes.put(index, mark, known)
    return known


def _alone(item: Sequence[Part], target: np.ndarray) -> bool:
    """True if an uncompressed inner chunk is better read for itself: of only a part, or in one piece."""
    return not all(part.full for part in item) or target[take(item, "out")].flags.c_contiguous


def _read_shard(
    codec: ShardingCodec,
    where: ShardIndex,
    descriptor: int,
    item: Item,
    target: np.ndarray,
    workers: int | None,
) -> None:
    chain = codec.inner
    jobs, missing = runs(where, inner_items(codec, item))
    place_missing(codec, missing, target)
    large = chain.is_raw and (chain.decoded_size or 0) >= DIRECT_BYTES

    def work(job: Run) -> None:
        if large and _alone(job.pieces[0].item, target):
            for piece in job.pieces:
                try:
                    _check_size(chain, piece.stop - piece.start)
                except CodecError as error:
                    raise CodecError(f"inner chunk {piece.number}: {error.message}") from error
                _read_raw(chain, piece.item, descriptor, job.start + piece.start, target)
            return
        buffer = scratch("run", job.length)[: job.length]
        read_exactly(descriptor, buffer, job.start)
        place_run(codec, job, buffer, target)

    run(work, jobs, workers)
