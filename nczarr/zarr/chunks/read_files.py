"""Read a region of an array from local files, without extra copies, and without locks during system calls.

The operating system copies bytes directly into the result: whole chunks, or only the necessary bytes of an
uncompressed chunk.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, product
from math import prod
from operator import mul

import numpy as np

from nczarr.dataclass import dataclass
from nczarr.errors import ChunkError, CodecError, StoreError
from nczarr.stores.base import batched
from nczarr.stores.local import READ, refuse_dangling, refuse_special
from nczarr.system.failures import system_error
from nczarr.zarr.chunks import scatter
from nczarr.zarr.chunks.chunks import CHUNKS, Chunks, Index
from nczarr.zarr.chunks.plan import ChunkDimProjection, Item, PointItem, bounds, is_whole, take, within
from nczarr.zarr.chunks.read_shards import InnerItem, plan_shards, read_runs, single_inner_item
from nczarr.zarr.codecs.base import Buffer, scratch
from nczarr.zarr.codecs.chain import Chain
from nczarr.zarr.codecs.sharding import ShardIndex, ShardingCodec
from nczarr.zarr.limits import LIMITS
from nczarr.zarr.pool import local_workers, run, run_while_quick

#: The size of a buffered read, which fits into the processor's cache.
PIECE = 1024 << 10
#: Reading this many unnecessary bytes costs as much as another system call.
GAP = 96 << 10
#: Uncompressed inner chunks of fewer bytes are not read one by one.
SMALL = 16 << 10


def supported() -> bool:
    """Return True if the system can read into several buffers (not Windows)."""
    return hasattr(os, "preadv")


def _open(chunks: Chunks, name: str) -> int | None:
    """Return the descriptor of a chunk's file, opened for reading; None if it does not exist."""
    try:
        return os.open(chunks.folder + name, READ)
    except FileNotFoundError:
        refuse_dangling(chunks.folder + name, chunks.place(name))
        return None


def open_chunk(chunks: Chunks, name: str) -> tuple[int, os.stat_result] | None:
    """Return the descriptor and the status of a chunk's file, opened for reading; None if it does not exist.

    Raises
    ------
    StoreError
        If the file cannot be opened, or is not a regular file.
    """
    try:
        descriptor = _open(chunks, name)
    except StoreError:  # a dangling link
        raise
    except OSError as error:
        raise system_error("read", chunks.place(name), error) from error
    if descriptor is None:
        return None
    status = os.fstat(descriptor)
    # A directory opens without an error, and a read of it fails later.
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        refuse_special(status, chunks.place(name))
    return descriptor, status


def read_exactly(descriptor: int, buffer: Buffer, offset: int) -> None:
    """Fill `buffer` (contiguous bytes) from an offset of a file.

    Raises
    ------
    CodecError
        If the file is too short.
    """
    size = buffer.nbytes
    done = os.preadv(descriptor, [buffer], offset)
    while done < size:
        more = os.preadv(descriptor, [buffer[done:]], offset + done)
        if more <= 0:
            raise CodecError(
                f"the stored chunk ends after {offset + done} bytes, but {offset + size} are needed",
                hint="the file is incomplete; restore it from a copy",
            )
        done += more


def read_file(descriptor: int, size: int, limit: int) -> np.ndarray:
    """Return all bytes of a file, in the thread's scratch buffer.

    Raises
    ------
    CodecError
        If the file has more than `limit` bytes (a huge sparse file is easy to write), or ends too early.
    """
    # A sparse file of a terabyte costs its owner nothing, and its reader all memory.
    if size > limit:
        raise CodecError(f"the stored chunk has {size} bytes; a chunk of this array has at most {limit}")
    buffer = scratch("file", size)[:size]
    if size:
        read_exactly(descriptor, buffer, 0)
    return buffer


def read_box(
    descriptor: int,
    target: np.ndarray,
    slices: Sequence[slice],
    shape: Sequence[int],
    stored: np.dtype,
    base: int = 0,
) -> None:
    """Read a part of an uncompressed chunk.

    Parameters
    ----------
    target : ndarray
        Receives the elements; any strides, dimensions in stored order.
    slices : sequence of slice
        The part of the chunk: start, stop, and a step of at least 1.
    shape : sequence of int
        The shape of the chunk.
    stored : numpy.dtype
        The dtype of the stored elements.
    base : int
        The offset of the chunk in the file.
    """
    distances = [*accumulate(reversed(shape[1:]), mul, initial=stored.itemsize)][::-1][: len(slices)]
    base += sum([part.start * distance for part, distance in zip(slices, distances, strict=True)])
    steps = [part.step * distance for part, distance in zip(slices, distances, strict=True)]
    # Leading dimensions of length 1 only change the offset.
    first = next((i for i, count in enumerate(target.shape) if count != 1), target.ndim)
    _read_steps(descriptor, target[(0,) * first + (Ellipsis,)], steps[first:], stored, base)


def _read_steps(descriptor: int, target: np.ndarray, steps: list[int], stored: np.dtype, base: int) -> None:
    """Read elements with the strides `steps` in the file, the first one at offset `base`."""
    if target.flags.c_contiguous and target.strides == tuple(steps) and target.dtype == stored:
        read_exactly(descriptor, target.reshape(-1).view(np.uint8), base)
        return
    if target.ndim == 0:
        _read_span(descriptor, target, steps, stored, base)
        return
    row_span = _span(target.shape[1:], steps[1:], stored.itemsize)
    together = PIECE // steps[0] if steps[0] - row_span <= GAP else 0
    if together >= 1 or (row_span <= PIECE and steps[0] - row_span <= GAP):
        together = max(together, 1)
        for row in range(0, target.shape[0], together):
            _read_span(descriptor, target[row : row + together], steps, stored, base + row * steps[0])
    else:
        for row in range(target.shape[0]):
            _read_steps(descriptor, target[row, ...], steps[1:], stored, base + row * steps[0])


def _span(shape: Sequence[int], steps: Sequence[int], itemsize: int) -> int:
    """Return the number of bytes from the first to the last element."""
    return itemsize + sum([(n - 1) * step for n, step in zip(shape, steps, strict=True)])


def _read_span(
    descriptor: int, target: np.ndarray, steps: Sequence[int], stored: np.dtype, base: int
) -> None:
    length = _span(target.shape, steps, stored.itemsize)
    buffer = scratch("box", length)[:length]
    read_exactly(descriptor, buffer, base)
    view: np.ndarray = np.ndarray(target.shape, stored, buffer, 0, tuple(steps))
    np.copyto(target, view)


#: Attempts to read an index while another process replaces it.
_ATTEMPTS = 5
#: Each thread reads whole shards if there are at least this many.
FEW_SHARDS = 4
#: The size of a Python object of a variable-length value, without its characters.
OBJECT_BYTES = 64


def read_from_files(chunks: Chunks, parts: list[list[ChunkDimProjection]], target: np.ndarray) -> None:
    """Read the chunks of a plan into `target`, which has the full shape of the selection."""
    _read_items(chunks, list(product(*parts)), parts, target)


def read_items_from_files(chunks: Chunks, items: Iterator[Item], target: np.ndarray) -> None:
    """Read chunks one by one into `target`: those of single points, which form no rows."""
    for batch in batched(items, LIMITS.plan_chunks):
        _read_items(chunks, batch, None, target)
    chunks.had_points = True


def _read_items(
    chunks: Chunks, items: list[Item], parts: list[list[ChunkDimProjection]] | None, target: np.ndarray
) -> None:
    count = len(items)
    if count == 1 and chunks.are_kept and _scatter_cached(chunks, items[0], target):
        return
    chain, sharding = chunks.fixed_chain, chunks.sharding
    unit = prod(chunks.chunk_shape if sharding is None else sharding.inner_shape) * target.itemsize
    # The chunks of single points take the time.
    workers = local_workers(target.nbytes if parts is not None else unit * count, unit, count)
    if sharding is not None:
        # Few shards: the threads share the inner chunks of each shard. Many shards: each thread reads whole ones.
        few = count < FEW_SHARDS
        run(_ChunkFileReader(chunks, target, workers if few else 1).read, items, 1 if few else workers)
        return
    # A region of many chunks would only evict the cached chunks.
    keep = _weight(chain or chunks.chain()) * count <= CHUNKS.bound // 2
    # Most programs read the points of an array once, and new memory costs a fifth of decoding: a loop has it from its
    # second step on.
    keep = keep and (parts is not None or count == 1 or chunks.had_points)
    reader = _ChunkFileReader(chunks, target, workers, keep and not (chain and chain.is_raw))
    if count == 1:
        reader.read(items[0])
    elif parts is None:
        # Chunks in memory, or a few bytes of a file, take less time than another thread needs.
        run_while_quick(reader.read, items, workers)
    else:
        run(reader.read_row, scatter.shared_rows(chain, parts, items, workers, not reader.keep), workers)


def _weight(chain: Chain) -> int:
    """Return the size of a decoded chunk in memory; a lower bound for variable-length values."""
    size = chain.decoded_size
    return chain.spec.size * OBJECT_BYTES if size is None else size


def _fingerprint(status: os.stat_result) -> tuple[int, int, int]:
    return (status.st_ino, status.st_size, status.st_mtime_ns)


def _scatter_cached(chunks: Chunks, item: Item, target: np.ndarray) -> bool:
    """Copy the selected elements of a chunk from the cache; return False if it is not cached or its file changed."""
    index = tuple([part.chunk for part in item])
    try:
        status = os.stat(chunks.folder + chunks.name(index))
    except OSError:  # the reader raises the exact error
        return False
    chunk = CHUNKS.get((chunks.owner, *index), _fingerprint(status))
    if chunk is None:
        return False
    target[take(item, "out")] = chunk[take(item, "inner")]
    return True


@dataclass(slots=True)
class _ChunkFileReader:
    """Read chunks, or parts of shards, from files into the result.

    Parameters
    ----------
    workers : int or None
        The number of threads that share the inner chunks of one shard.
    keep : bool
        True: partly read chunks are cached.
    """

    chunks: Chunks
    target: np.ndarray
    workers: int | None
    keep: bool = False

    def read(self, item: Item) -> None:
        """Read a chunk, or a part of a shard; copy the fill value if it is missing."""
        chunks = self.chunks
        index = tuple([part.chunk for part in item])
        chain = chunks.fixed_chain or chunks.chain(index)
        found = open_chunk(chunks, chunks.name(index))
        if found is None:
            chunks.miss(index)
            scatter.put_fill(self.target, take(item, "out"), chain.spec.fill)
            return
        descriptor, status = found
        try:
            if chunks.sharding is not None:
                self._read_shard(chunks.sharding, index, item, descriptor, status)
            elif chain.is_raw:
                _check_size(chain, status.st_size)
                _read_raw(chain, item, descriptor, 0, self.target)
            else:
                self._read_encoded(chain, item, descriptor, status)
        except ChunkError:  # has the location
            raise
        except CodecError as error:
            raise chunks.damaged(index, error) from error
        except OSError as error:
            raise chunks.failed("read", index, error) from error
        finally:
            os.close(descriptor)

    def read_row(self, row: Sequence[Item]) -> None:
        """Read a row of chunks. If that fails, they are read one by one, which raises the exact error."""
        if len(row) == 1 or not _read_row(self.chunks, row, self.target):
            for item in row:
                self.read(item)

    def _read_encoded(self, chain: Chain, item: Item, descriptor: int, status: os.stat_result) -> None:
        target, is_part = self.target, not all(map(is_whole, item))
        name, mark = (self.chunks.owner, *[part.chunk for part in item]), _fingerprint(status)
        chunk = CHUNKS.get(name, mark) if is_part and self.keep and self.chunks.are_kept else None
        if chunk is None:
            data = read_file(descriptor, status.st_size, chain.longest)
            if not (is_part and self.keep):
                scatter.scatter(chain, item, data, target)
                return
            chunk = self._cached(name, mark, data, chain)
        target[take(item, "out")] = chunk[take(item, "inner")]

    def _cached(self, name: Index, mark: tuple[int, ...], data: Buffer, chain: Chain) -> np.ndarray:
        """Decode a chunk, and put it into the cache."""
        weight = _weight(chain)
        if chain.stored_dtype is not None:
            chunk = chain.decode_raw(data, np.empty(chain.decoded_size or 0, np.uint8))
        else:
            chunk = chain.decode(data)
            if chunk.dtype.hasobject:
                values = chunk.ravel().tolist()
                if not all(issubclass(type_, str | bytes) for type_ in set(map(type, values))):
                    return chunk  # not cached: callers could change mutable objects
                weight += sum(map(len, values))
            else:
                chunk = np.array(chunk)  # a copy, because it may be a view of the scratch buffer
        CHUNKS.put(name, mark, chunk, weight)
        self.chunks.are_kept = True
        return chunk

    def _read_shard(
        self, codec: ShardingCodec, index: Index, item: Item, descriptor: int, status: os.stat_result
    ) -> None:
        chunks, target, chain, mark = self.chunks, self.target, codec.inner, _fingerprint(status)
        where = chunks.shard_indexes.get(index, mark)
        if where is None:
            where = read_index(codec, descriptor)
            chunks.shard_indexes.put(index, mark, where)
        inner = single_inner_item(codec, item)
        if inner is not None:
            number, parts = inner
            if where.present[number]:
                start, length = int(where.offsets[number]), int(where.lengths[number])
                _scatter_inner(chain, inner, descriptor, start, length, target)
            else:
                scatter.put_fill(target, take(parts, "out"), chain.spec.fill)
            return
        jobs = plan_shards(chunks, [item], [where], target)

        def read(position: int) -> Buffer | None:
            """Read a run into the scratch buffer, or large uncompressed inner chunks directly into the result."""
            job = jobs[position][1]
            is_large = chain.is_raw and (chain.decoded_size or 0) >= SMALL
            if is_large and _alone(next(job.pieces[0].each()).item, target):
                for piece in [one for some in job.pieces for one in some.each()]:
                    length = piece.stop - piece.start
                    _scatter_inner(chain, (piece.number, piece.item), descriptor, piece.start, length, target)
                return None
            buffer = scratch("run", job.length)[: job.length]
            read_exactly(descriptor, buffer, job.start)
            return buffer

        read_runs(chunks, [index], jobs, read, target, self.workers)


def _read_row(chunks: Chunks, row: Sequence[Item], target: np.ndarray) -> bool:
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
            bounds = _read_stretches(chunks, chain, names, row, buffer)
        else:
            bounds = _read_whole(chunks, chain, names, buffer)
        if bounds is None:
            return False
        if whole:
            scatter.scatter_row(chain, buffer, bounds, scatter.row_view(row, target))
        else:
            scatter.gather_row(chain, buffer, bounds, row, target)
    # The row is read again chunk by chunk, which names the damaged one.
    except (OSError, CodecError):
        return False
    return True


def _read_whole(
    chunks: Chunks, chain: Chain, names: Sequence[str], buffer: Buffer
) -> list[tuple[int, int]] | None:
    """Read files into one buffer, and return the bounds of each; None if a file is missing or has another size."""
    bounds = []
    start = 0
    for name in names:
        descriptor = _open(chunks, name)
        if descriptor is None:
            return None
        try:
            count = os.preadv(descriptor, [buffer[start:]], 0)
        finally:
            os.close(descriptor)
        # A file that fills the buffer may have more bytes than the buffer.
        if count == 0 or start + count == buffer.nbytes or (chain.is_raw and count != chain.decoded_size):
            return None
        bounds.append((start, start + count))
        start += count
    return bounds


def _read_stretches(
    chunks: Chunks, chain: Chain, names: Sequence[str], row: Sequence[Item], buffer: Buffer
) -> list[tuple[int, int]] | None:
    """Read only the bytes between the selected elements of uncompressed chunks, each at its offset in a whole chunk."""
    size = chain.decoded_size or 0
    begin, length = scatter.needed_bytes(chain, row[0])
    distance = scatter.strides(chain)[-1]
    before = row[0][-1].inner
    for number, (name, item) in enumerate(zip(names, row, strict=True)):
        inner = item[-1].inner  # the chunks of a row have equal parts in all other dimensions
        begin += (inner.start - before.start) * distance
        length += (inner.stop - inner.start - before.stop + before.start) * distance
        before = inner
        stretch = buffer[number * size + begin :][:length]
        descriptor = _open(chunks, name)
        if descriptor is None:
            return None
        try:
            # A read of two bytes at the end returns only one: cheaper than fstat.
            end = os.pread(descriptor, 2, size - 1)
            # A short read says that the chunk is damaged: it is read as a whole, which names the fault.
            if len(end) != 1 or os.preadv(descriptor, [stretch], begin) != length:
                return None
        finally:
            os.close(descriptor)
    return [(number * size, (number + 1) * size) for number in range(len(row))]


def _check_size(chain: Chain, found: int) -> None:
    if found != chain.decoded_size:
        raise CodecError(
            f"the chunk has {found} bytes, its shape {chain.spec.shape} needs {chain.decoded_size}",
            hint="the chunk is damaged or incomplete; restore it from a copy",
        )


def _read_raw(
    chain: Chain, item: Sequence[ChunkDimProjection], descriptor: int, base: int, target: np.ndarray
) -> None:
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
        else:
            read_box(descriptor, view, [item[i].inner for i in order], shape, stored, base)
        return
    if type(item) is PointItem:
        _read_places(chain, item, descriptor, base, target)
        return
    # Index arrays: read the bounding box, then select from it.
    limits = [bounds(part) for part in item]
    box = np.empty([limit.stop - limit.start for limit in limits], chain.spec.dtype)
    read_box(descriptor, box.transpose(order), [limits[i] for i in order], shape, stored, base)
    target[take(item, "out")] = box[take(within(item, limits), "inner")]


def _read_places(chain: Chain, item: PointItem, descriptor: int, base: int, target: np.ndarray) -> None:
    """Read single points of an uncompressed chunk: as a whole if it is small, else the bytes around neighbours."""
    stored, size = chain.stored_dtype, chain.decoded_size or 0
    assert stored is not None
    if size <= scatter.START_BYTES:
        data = scratch("box", size)[:size]
        read_exactly(descriptor, data, base)
        scatter.scatter(chain, item, data, target)
        return
    places = sum(
        [p * distance for p, distance in zip(item.mesh("inner"), scatter.strides(chain), strict=True)]
    )
    order = np.argsort(places, axis=None)
    ordered = places.reshape(-1)[order]
    values = np.empty(places.shape, stored)
    # Far points are no reason to read, or to keep in memory, all bytes between.
    is_far = (np.diff(ordered) > GAP) | (np.diff(ordered // PIECE) > 0)
    for some in np.split(np.arange(order.size), np.flatnonzero(is_far) + 1):
        start = int(ordered[some[0]])
        length = int(ordered[some[-1]]) + stored.itemsize - start
        data = scratch("box", length)[:length]
        read_exactly(descriptor, data, base + start)
        values.reshape(-1)[order[some]] = data.view(stored)[(ordered[some] - start) // stored.itemsize]
    target[take(item, "out")] = values


# --- shards


def read_index(codec: ShardingCodec, descriptor: int) -> ShardIndex:
    """Return the index of an open shard file; its copy, where the index at the start is being replaced.

    Raises
    ------
    CodecError
        If the index and its copy are damaged.
    """

    def read(at_end: bool) -> tuple[np.ndarray, int]:
        """Read the index or its copy. Return it with the size of the file, which is at least as new."""
        size = os.fstat(descriptor).st_size
        data = np.empty(min(codec.index_size, size), np.uint8)
        read_exactly(descriptor, data, size - data.nbytes if at_end else 0)
        return data, size if at_end else os.fstat(descriptor).st_size

    for _ in range(_ATTEMPTS if codec.grows else 0):
        with suppress(CodecError):
            return codec.find_index(read)
    return codec.find_index(read)


def _scatter_inner(
    chain: Chain, inner: InnerItem, descriptor: int, start: int, length: int, target: np.ndarray
) -> None:
    """Read the selected elements of an inner chunk at offset `start` of a file into the result."""
    number, parts = inner
    try:
        # Without a codec, only the length tells an index that is wrong.
        if chain.is_raw:
            _check_size(chain, length)
            _read_raw(chain, parts, descriptor, start, target)
        else:
            data = scratch("run", length)[:length]
            read_exactly(descriptor, data, start)
            scatter.scatter(chain, parts, data, target)
    except CodecError as error:
        raise CodecError(f"inner chunk {number}: {error.message}", hint=error.hint) from error


def _alone(item: Sequence[ChunkDimProjection], target: np.ndarray) -> bool:
    """Return True if an uncompressed inner chunk is read separately: it is partly selected, or contiguous."""
    return not all(part.full for part in item) or target[take(item, "out")].flags.c_contiguous
