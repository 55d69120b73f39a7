"""Write a region of an array: replace whole chunks, and read, change and rewrite partial ones under a lock.

One writer works on any store, with batched requests over a network. The other one writes local files: it writes each
chunk to a temporary file and renames it, so that readers see either the old chunk or the new one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import islice, product
from math import prod

import numpy as np

from nczarr.errors import CodecError, StoreError
from nczarr.stores import LocalStore, MemoryStore
from nczarr.system.atomic import value_name
from nczarr.system.durability import WriteOrder
from nczarr.system.locks import while_held
from nczarr.zarr.chunks.chunks import CHUNK_LOCKS, Chunks
from nczarr.zarr.chunks.files import MAX_BUFFERS, ROW, Directory, longest, read_file
from nczarr.zarr.chunks.plan import Item, Part, take
from nczarr.zarr.chunks.read_shards import InnerItem, inner_items
from nczarr.zarr.chunks.scatter import encode_row, row_view, shared_rows
from nczarr.zarr.codecs.base import Buffer, as_bytes_array, scratch
from nczarr.zarr.codecs.chain import Chain
from nczarr.zarr.codecs.sharding import ShardingCodec
from nczarr.zarr.pool import ALONE_BYTES, run, run_while_quick, writing_workers

#: The size of the encoded chunks in one batch.
BATCH_BYTES = 64 << 20


def is_covered(item: Sequence[Part]) -> bool:
    """Return True if the write covers the whole part of a chunk inside the array."""
    return all(part.covers for part in item)


def encode_chunk(
    chunks: Chunks, chain: Chain, item: Sequence[Part], old: Buffer | None, source: np.ndarray
) -> Buffer:
    """Return the new bytes of a chunk.

    `old` are the stored bytes, which only a partial write needs; `source` has the full shape of the selection.
    """
    covered = is_covered(item)
    if chunks.sharding is not None and not covered:
        return _updated_shard(chunks.sharding, old, inner_items(chunks.sharding, item), source)
    values = source[take(item, "out")]
    if covered and values.shape == chain.spec.shape:
        return chain.encode(values)
    if covered or old is None:
        chunk = chain.spec.filled()
    else:
        chunk = np.empty(chain.spec.shape, chain.spec.dtype)
        chain.decode_into(old, chunk)
    if covered:
        chunk[tuple([slice(0, length) for length in values.shape])] = values
    else:
        chunk[take(item, "inner")] = values
    return chain.encode(chunk)


def _updated_shard(
    codec: ShardingCodec, old: Buffer | None, changes: list[InnerItem], source: np.ndarray
) -> np.ndarray:
    """Return a shard with changed inner chunks; the other inner chunks keep their stored bytes."""
    stored: list[np.ndarray | None] = [None] * codec.count
    if old is not None:
        data = as_bytes_array(old)
        index = codec.index_of(data)
        for number in np.flatnonzero(index.present).tolist():
            start = int(index.offsets[number])
            stored[number] = data[start : start + int(index.lengths[number])]
    for number, item in changes:
        values = source[take(item, "out")]
        if all(part.full for part in item):
            chunk = values
        else:
            before = stored[number]
            if before is None:
                chunk = codec.inner.spec.filled()
            else:
                chunk = np.empty(codec.inner_shape, codec.inner.spec.dtype)
                codec.decode_inner(before, number, chunk)
            chunk[take(item, "inner")] = values
        stored[number] = as_bytes_array(codec.inner.encode(chunk))
    return codec.assemble(stored)


def write_whole(chunks: Chunks, index: tuple[int, ...], values: np.ndarray) -> None:
    """Write one whole chunk, including its part outside the array."""
    key = chunks.key(index)
    with CHUNK_LOCKS.of(chunks.lock_name(key)):
        try:
            data = (chunks.fixed_chain or chunks.chain(index)).encode(values)
        except CodecError as error:
            raise chunks.damaged(index, error) from error
        chunks.store.set(key, data)


def write_to_store(chunks: Chunks, parts: list[list[Part]], source: np.ndarray) -> None:
    """Write the chunks of a plan from `source`, which has the full shape of the selection."""
    store = chunks.store
    items = product(*parts)
    chunk_bytes = prod(chunks.chunk_shape) * max(chunks.dtype.itemsize, 1)
    if isinstance(store, LocalStore | MemoryStore):

        def work(item: Item) -> None:
            key = chunks.key(tuple([part.chunk for part in item]))
            with CHUNK_LOCKS.of(chunks.lock_name(key)):
                store.set(key, _encode(chunks, item, None if is_covered(item) else store.get(key), source))

        every = list(items)
        run(work, every, 1 if chunk_bytes * len(every) <= ALONE_BYTES else None)
        return
    # A store over a network: batched requests.
    batch_size = max(1, BATCH_BYTES // max(chunk_bytes, 1))
    while batch := list(islice(items, batch_size)):
        keys = [chunks.key(tuple([part.chunk for part in item])) for item in batch]
        while_held(
            CHUNK_LOCKS.of_all(map(chunks.lock_name, keys)),
            partial(_write_batch, chunks, batch, keys, source),
        )


def _encode(chunks: Chunks, item: Item, old: Buffer | None, source: np.ndarray) -> Buffer:
    index = tuple([part.chunk for part in item])
    try:
        return encode_chunk(chunks, chunks.chain(index), item, old, source)
    except CodecError as error:
        raise chunks.damaged(index, error) from error


def _write_batch(chunks: Chunks, batch: list[Item], keys: list[str], source: np.ndarray) -> None:
    partial = [i for i, item in enumerate(batch) if not is_covered(item)]
    found = chunks.store.get_many([keys[i] for i in partial]) if partial else []
    old = dict(zip(partial, found, strict=True))
    encoded: dict[int, Buffer] = {}

    def encode(job: int) -> None:
        encoded[job] = _encode(chunks, batch[job], old.get(job), source)

    run(encode, range(len(batch)))
    chunks.store.set_many((keys[i], encoded[i]) for i in range(len(batch)))


_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
#: A directory may disappear after its creation, if another thread deletes its last chunk.
_ATTEMPTS = 100


def write_to_files(chunks: Chunks, parts: list[list[Part]], source: np.ndarray) -> None:
    """Write the chunks of a plan from `source`, which has the full shape of the selection."""
    store = chunks.store
    assert isinstance(store, LocalStore)
    folder = os.path.join(store.root, chunks.prefix)
    store.check_links(chunks.prefix.rstrip("/"))
    try:
        store.check_names([chunks.prefix])
        store.make_folder(folder.rstrip("/"))
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"cannot write: {error.strerror}", path=chunks.place("")) from error
    items = list(product(*parts))
    with Directory(folder, chunks.place) as directory:
        name = chunks.metadata.chunk_key_encoding.key

        def work(item: Item) -> None:
            index = tuple([part.chunk for part in item])
            key = name(index)
            parent = key.rpartition("/")[0]
            if parent:
                store.prepare_folder(chunks.prefix + parent, parent, directory.descriptor)
            try:
                with CHUNK_LOCKS.of(chunks.lock_name(chunks.prefix + key)):
                    _write_chunk(chunks, directory, folder, key, index, item, source)
            except CodecError as error:
                raise chunks.damaged(index, error) from error
            except OSError as error:
                raise chunks.failed("write", index, error) from error

        chunk_bytes = prod(chunks.chunk_shape) * source.itemsize
        workers = writing_workers(source.nbytes, chunk_bytes)
        chain = chunks.fixed_chain

        def work_row(row: Sequence[Item]) -> None:
            # If a row fails, its chunks are written one by one, which raises the exact error.
            if len(row) == 1 or not _write_row(chunks, directory, folder, row, source):
                for item in row:
                    work(item)

        if len(items) == 1:
            work(items[0])
        else:
            in_rows = chain if chain and chain.writes_rows else None
            share = run if workers is None else run_while_quick
            share(work_row, shared_rows(in_rows, parts, items, workers), workers)


def _write_row(
    chunks: Chunks, directory: Directory, folder: str, row: Sequence[Item], source: np.ndarray
) -> bool:
    """Write a row of whole chunks; return False if the write of a chunk fails."""
    name = chunks.metadata.chunk_key_encoding.key
    try:
        pieces = encode_row(chunks.chain(), len(row), row_view(row, source))
        for item, data in zip(row, pieces, strict=True):
            key = name(tuple([part.chunk for part in item]))
            chunks.store.check_links((chunks.prefix + key).rpartition("/")[0])  # type: ignore[attr-defined]
            with CHUNK_LOCKS.of(chunks.lock_name(chunks.prefix + key)):
                _replace(directory.descriptor, folder, key, [data], _order(chunks))
    except (CodecError, OSError):
        return False
    return True


def _write_chunk(
    chunks: Chunks,
    directory: Directory,
    folder: str,
    key: str,
    index: tuple[int, ...],
    item: Item,
    source: np.ndarray,
) -> None:
    chain = chunks.fixed_chain or chunks.chain(index)
    buffers: Sequence[Buffer]
    if is_covered(item):
        values = source[take(item, "out")]
        if values.shape == chain.spec.shape and chain.is_raw:
            buffers = _rows(values, chain)
        elif values.shape == chain.spec.shape and chunks.sharding is not None:
            buffers = [chunks.sharding.encode_shard(values, _reused)]
        elif values.shape == chain.spec.shape and chain.writes_rows and not values.flags.c_contiguous:
            # Reuse the scratch buffer of the thread: a new one of this size costs as much as the copy.
            buffers = [as_bytes_array(encode_row(chain, 1, values)[0])]
        else:
            buffers = [as_bytes_array(encode_chunk(chunks, chain, item, None, source))]
    else:
        buffers = [
            as_bytes_array(encode_chunk(chunks, chain, item, _old(directory, key, longest(chain)), source))
        ]
    _replace(directory.descriptor, folder, key, buffers, _order(chunks))


def _reused(size: int) -> np.ndarray:
    return scratch("shard", size)[:size]


def _old(directory: Directory, key: str, limit: int) -> Buffer | None:
    found = directory.open(key)
    if found is None:
        return None
    descriptor, status = found
    try:
        return read_file(descriptor, status.st_size, limit)
    finally:
        os.close(descriptor)


def _rows(values: np.ndarray, chain: Chain) -> Sequence[Buffer]:
    """Return the bytes of an uncompressed chunk as few contiguous buffers; copy them only if they are short."""
    stored = values.transpose(chain.order or ())
    if stored.dtype == chain.stored_dtype:
        if stored.flags.c_contiguous:
            return [as_bytes_array(stored)]
        if (
            stored.ndim == 2
            and stored.strides[1] == stored.itemsize
            and stored.shape[1] * stored.itemsize >= ROW
        ):
            return list(stored.view(np.uint8))
    assert chain.stored_dtype is not None
    size = stored.size * stored.itemsize
    buffer = scratch("write", size)[:size]
    np.copyto(buffer.view(chain.stored_dtype).reshape(stored.shape), stored)
    return [buffer]


def _order(chunks: Chunks) -> WriteOrder | None:
    order: WriteOrder | None = chunks.store.order  # type: ignore[attr-defined]
    return order


def _replace(
    descriptor: int | None, folder: str, key: str, buffers: Sequence[Buffer], order: WriteOrder | None
) -> None:
    parent = key[: key.rfind("/") + 1]
    temporary = parent + value_name()
    for attempt in range(_ATTEMPTS):
        try:
            file = os.open(temporary, _CREATE, 0o666, dir_fd=descriptor)
            break
        except FileNotFoundError:
            if attempt == _ATTEMPTS - 1:
                raise
            with suppress(FileNotFoundError):  # the parent directory disappeared again
                LocalStore.make_folder(os.path.join(folder, parent))
    try:
        try:
            _write_all(file, buffers)
            replaces = order is not None and _exists(key, descriptor)
            if order is not None and replaces:
                order.before_replacing(file, document=False)
        finally:
            os.close(file)
        os.rename(temporary, key, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        if order is not None:
            order.note(os.path.join(folder, key), synced=replaces)
    except BaseException:
        with suppress(FileNotFoundError):  # an interrupt may occur after the rename
            os.unlink(temporary, dir_fd=descriptor)
        raise


def _exists(name: str, folder: int | None) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _write_all(file: int, buffers: Sequence[Buffer]) -> None:
    """Write flat buffers of equal length, one after another."""
    if len(buffers) == 1:
        (buffer,) = buffers
        done = os.write(file, buffer)
        size = memoryview(buffer).nbytes
        while done < size:  # rare: a partial write, as above 2 GiB
            done += os.write(file, memoryview(buffer)[done:])
        return
    for start in range(0, len(buffers), MAX_BUFFERS):
        some = buffers[start : start + MAX_BUFFERS]
        done = os.writev(file, some)
        if done == len(some) * some[0].nbytes:
            continue
        # Rare: a partial write, as above 2 GiB.
        for buffer in some:
            rest = buffer[min(done, buffer.nbytes) :]
            done = max(0, done - buffer.nbytes)
            while rest.nbytes:
                rest = rest[os.write(file, rest) :]
