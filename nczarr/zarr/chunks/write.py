"""Write a region of an array: replace whole chunks, and read, change and rewrite partial ones under a lock.

One writer works on any store, with batched requests over a network. The other one writes local files: it writes each
chunk to a temporary file and renames it, so that readers see either the old chunk or the new one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from nczarr.errors import CodecError, StoreError
from nczarr.stores import LocalStore
from nczarr.stores.base import as_view
from nczarr.stores.local import READ, put_file, write_bytes
from nczarr.system.failures import system_error
from nczarr.system.locks import lock_open_file, while_held
from nczarr.zarr.chunks.chunks import CHUNK_LOCKS, Chunks, Index
from nczarr.zarr.chunks.plan import ChunkDimProjection, Item, take
from nczarr.zarr.chunks.read_files import open_chunk, read_file
from nczarr.zarr.chunks.read_shards import inner_items
from nczarr.zarr.chunks.scatter import encode_row, is_covered, row_view, shared_rows
from nczarr.zarr.chunks.shard_files import GrowingShard, open_in_place, write_at
from nczarr.zarr.codecs.base import Buffer, as_bytes_array, scratch
from nczarr.zarr.codecs.chain import Chain
from nczarr.zarr.codecs.sharding import ShardingCodec
from nczarr.zarr.pool import ALONE_BYTES, local_workers, run, run_while_quick

#: The size of the encoded chunks in one batch.
BATCH_BYTES = 64 << 20


def encode_chunk(
    chunks: Chunks, chain: Chain, item: Sequence[ChunkDimProjection], old: Buffer | None, source: np.ndarray
) -> Buffer:
    """Return the new bytes of a chunk.

    `old` are the stored bytes, which only a partial write needs; `source` has the full shape of the selection.
    """
    covered = is_covered(item)
    values = source[take(item, "out")]
    whole = covered and values.shape == chain.spec.shape
    if chunks.sharding is not None and not whole:
        return _updated_shard(chunks.sharding, old, _changes(chunks.sharding, item, source))
    if whole:
        return chain.encode(values)
    if covered or old is None:
        chunk = chain.spec.filled()
    else:
        chunk = np.empty(chain.spec.shape, chain.spec.dtype)
        chain.decode_into(old, chunk)
    where = tuple(map(slice, values.shape)) if covered else take(item, "inner")
    chunk[where] = values
    return chain.encode(chunk)


class InnerChunkValues(NamedTuple):
    """New values of an inner chunk: all of them, or those at some places."""

    number: int
    values: np.ndarray
    places: tuple[Any, ...] | None


def _changes(
    codec: ShardingCodec, item: Sequence[ChunkDimProjection], source: np.ndarray
) -> list[InnerChunkValues]:
    return [
        InnerChunkValues(
            number, source[take(part, "out")], None if all(p.full for p in part) else take(part, "inner")
        )
        for number, part in inner_items(codec, item)
    ]


def _encoded(
    codec: ShardingCodec, changes: Sequence[InnerChunkValues], inner: Callable[[int], Buffer | None]
) -> dict[int, Buffer]:
    """Return the bytes of changed inner chunks; `inner` returns their stored bytes, None if they are missing."""
    result: dict[int, Buffer] = {}

    def encode(change: InnerChunkValues) -> None:
        chunk = change.values
        if change.places is not None:
            before = inner(change.number)
            if before is None:
                chunk = codec.inner.spec.filled()
            else:
                chunk = np.empty(codec.inner_shape, codec.inner.spec.dtype)
                codec.decode_inner(before, change.number, chunk)
            chunk[change.places] = change.values
        result[change.number] = codec.inner.encode(chunk)

    run(encode, changes, 1 if sum(change.values.nbytes for change in changes) <= ALONE_BYTES else None)
    return dict(sorted(result.items()))


def _updated_shard(
    codec: ShardingCodec, old: Buffer | None, changes: Sequence[InnerChunkValues]
) -> np.ndarray:
    """Return a shard with changed inner chunks; the other inner chunks keep their stored bytes."""
    stored: list[Buffer | None] = [None] * codec.count
    if old is not None:
        data = as_bytes_array(old)
        index = codec.index_of(data)
        for number in np.flatnonzero(index.present).tolist():
            start = int(index.offsets[number])
            stored[number] = data[start : start + int(index.lengths[number])]
    for number, piece in _encoded(codec, changes, stored.__getitem__).items():
        stored[number] = piece
    return codec.assemble(stored)


def _is_left_out(chunks: Chunks, item: Item, source: np.ndarray) -> bool:
    """Return True if a chunk of a plan gets fill values alone, and the array stores none of those."""
    # A part of a chunk says nothing of the rest.
    if not chunks.omits_empty or not is_covered(item):
        return False
    return chunks.leaves_out(tuple([part.chunk for part in item]), source[take(item, "out")])


def write_whole(chunks: Chunks, index: tuple[int, ...], values: np.ndarray) -> None:
    """Write one whole chunk, including its part outside the array."""
    if chunks.leaves_out(index, values):
        return
    key = chunks.key(index)
    # Two threads that change parts of one chunk would each write back the old values of the other.
    with CHUNK_LOCKS.of(chunks.lock_name(key)):
        try:
            data = (chunks.fixed_chain or chunks.chain(index)).encode(values)
        except CodecError as error:
            raise chunks.damaged(index, error) from error
        chunks.store.set(key, data)


def write_to_store(chunks: Chunks, parts: list[list[ChunkDimProjection]], source: np.ndarray) -> None:
    """Write the chunks of a plan from `source`, which has the full shape of the selection, in batches of requests."""
    items = product(*parts)
    chunk_bytes = prod(chunks.chunk_shape) * max(chunks.dtype.itemsize, 1)
    batch_size = max(1, BATCH_BYTES // max(chunk_bytes, 1))
    while batch := list(islice(items, batch_size)):
        keys = [chunks.key(tuple([part.chunk for part in item])) for item in batch]
        workers = 1 if chunk_bytes * len(batch) <= ALONE_BYTES else None
        while_held(
            # All locks of a batch are taken together, in one order: two batches in turn would wait for
            # each other.
            CHUNK_LOCKS.of_all(map(chunks.lock_name, keys)),
            partial(_write_batch, chunks, batch, keys, source, workers),
        )


def _write_batch(
    chunks: Chunks, batch: list[Item], keys: list[str], source: np.ndarray, workers: int | None
) -> None:
    store = chunks.store

    def encoded_from(item: Item, old: Buffer | None) -> Buffer:
        index = tuple([part.chunk for part in item])
        if old is None and not is_covered(item):
            chunks.refuse_lost(index)  # the rest of a lost chunk would become fill values
        try:
            return encode_chunk(chunks, chunks.chain(index), item, old, source)
        except CodecError as error:
            raise chunks.damaged(index, error) from error

    jobs: Sequence[int] = range(len(batch))
    if chunks.omits_empty:  # most arrays store all chunks, and pay nothing for the question
        jobs = [i for i in jobs if not _is_left_out(chunks, batch[i], source)]
    parts = [i for i in jobs if not is_covered(batch[i])]
    # Parts of a chunk are exchanged under conditions; whole chunks ask the server for none.
    if parts and store.is_shared:
        if store.before_part is not None:
            store.before_part()
        if store.exchanges:
            # One after the other: a region has few chunks at its ends.
            for i in parts:
                store.exchange(keys[i], partial(encoded_from, batch[i]))
            jobs, parts = sorted({*jobs} - {*parts}), []
    old = dict(zip(parts, store.get_many([keys[i] for i in parts]) if parts else [], strict=True))
    encoded: dict[int, Buffer] = {}

    def encode(job: int) -> None:
        encoded[job] = encoded_from(batch[job], old.get(job))

    run(encode, jobs, workers)
    store.set_many((keys[i], encoded[i]) for i in jobs)


def write_to_files(
    chunks: Chunks, parts: list[list[ChunkDimProjection]], source: np.ndarray, claimed: int | None = None
) -> None:
    """Write the chunks of a plan from `source`, which has the full shape of the selection.

    `claimed` is the length of the first axis up to which readers may look.
    """
    items = list(product(*parts))
    files = _ChunkFiles(chunks)
    with files.turn(reads=not all(map(is_covered, items))):

        def work(item: Item) -> None:
            files.write(
                tuple([part.chunk for part in item]), lambda key: files.put(key, item, source, claimed)
            )

        def work_row(row: Sequence[Item]) -> None:
            stored = [item for item in row if not _is_left_out(chunks, item, source)]
            # A row has no gaps. If it fails, its chunks are written one by one, which raises the exact error.
            if len(row) == 1 or len(stored) < len(row) or not files.write_row(row, source):
                for item in stored:
                    work(item)

        if len(items) == 1:
            work_row(items)
            return
        chain = chunks.fixed_chain
        workers = local_workers(source.nbytes, prod(chunks.chunk_shape) * source.itemsize)
        rows = shared_rows(chain if chain and chain.writes_rows else None, parts, items, workers)
        (run if workers is None else run_while_quick)(work_row, rows, workers)


def write_blocks(chunks: Chunks, shard: Index, changes: Sequence[InnerChunkValues]) -> None:
    """Write inner chunks of one shard of a store of local files, in place if possible."""
    files = _ChunkFiles(chunks)
    with files.turn(reads=True):  # other inner chunks of the shard are kept
        files.write(shard, lambda key: files.change(shard, changes, afresh=False))


class _ChunkFiles:
    """Write the files of an array; missing directories are created."""

    def __init__(self, chunks: Chunks) -> None:
        assert isinstance(chunks.store, LocalStore)
        self.chunks, self.store = chunks, chunks.store
        self.store.check_names([chunks.prefix])

    @contextmanager
    def turn(self, *, reads: bool) -> Iterator[None]:
        """Wait until no other process writes the array, if stored chunks are read, changed and written."""
        # A write of whole chunks replaces files by rename, which needs no turn.
        if not (reads and self.store.is_shared):
            yield
            return
        try:
            self.store.make_folder(self.chunks.folder.rstrip("/"))
            descriptor = os.open(self.chunks.folder, READ)
        except OSError as error:
            raise system_error("write", self.chunks.place(""), error) from error
        try:
            lock_open_file(descriptor)
            yield
        finally:
            os.close(descriptor)

    def write(self, index: Index, write: Callable[[str], None]) -> None:
        """Call `write` with the name of a chunk's file while no other thread writes it; errors name the chunk."""
        chunks, store, key = self.chunks, self.store, self.chunks.name(index)
        store.prepare_folder((chunks.prefix + key).rpartition("/")[0])
        try:
            with CHUNK_LOCKS.of(chunks.lock_name(chunks.prefix + key)):
                if store.order is not None:
                    store.order.finish(chunks.folder + key)
                write(key)
        except CodecError as error:
            raise chunks.damaged(index, error) from error
        except StoreError:
            raise
        except OSError as error:
            raise chunks.failed("write", index, error) from error

    def write_row(self, row: Sequence[Item], source: np.ndarray) -> bool:
        """Write a row of whole chunks; return False if the write of a chunk fails."""
        chunks = self.chunks
        try:
            pieces = encode_row(chunks.chain(), len(row), row_view(row, source))
            for item, data in zip(row, pieces, strict=True):
                key = chunks.name(tuple([part.chunk for part in item]))
                # A linked folder would lead the write out of the store.
                self.store.check_links((chunks.prefix + key).rpartition("/")[0])
                with CHUNK_LOCKS.of(chunks.lock_name(chunks.prefix + key)):
                    self._replace(key, data)
        # The row is written again chunk by chunk, which names the one that fails.
        except (CodecError, OSError):
            return False
        return True

    def put(self, key: str, item: Item, source: np.ndarray, claimed: int | None) -> None:
        """Write one chunk of a plan."""
        chunks = self.chunks
        index = tuple([part.chunk for part in item])
        chain = chunks.fixed_chain or chunks.chain(index)
        covered = is_covered(item)
        values = source[take(item, "out")]
        whole = covered and values.shape == chain.spec.shape
        data: Buffer
        if whole and chain.is_raw:
            data = _serialized(values, chain)
        elif chunks.sharding is not None and not whole:
            self.change(index, _changes(chunks.sharding, item, source), afresh=covered)
            return
        elif self._write_unclaimed(chain, key, item, values, claimed):
            return
        else:
            data = encode_chunk(
                chunks, chain, item, None if covered else self._old(index, chain.longest), source
            )
        self._replace(key, data)

    def change(self, index: Index, changes: Sequence[InnerChunkValues], *, afresh: bool) -> None:
        """Change inner chunks of a shard: in place if possible. `afresh`: no other inner chunk is kept."""
        codec, key = self.chunks.sharding, self.chunks.name(index)
        assert codec is not None
        # A partial write read, assembled and replaced a whole shard.
        descriptor = open_in_place(self.chunks.folder + key) if codec.grows and not afresh else None
        if descriptor is not None:
            try:
                shard = GrowingShard(codec, self.chunks.folder + key, descriptor, self.store.order)
                if shard.add(_encoded(codec, changes, shard.inner)):
                    return
            finally:
                os.close(descriptor)
        old = None if afresh else self._old(index, self.chunks.chain().longest)
        self._replace(key, _updated_shard(codec, old, changes))

    def _write_unclaimed(
        self, chain: Chain, key: str, item: Item, values: np.ndarray, claimed: int | None
    ) -> bool:
        """Write rows that no reader looks at yet in place, to an uncompressed chunk; return False if impossible."""
        shape, rows = chain.spec.shape, item[0].inner if item else None
        # A sync of a few steps wrote the whole chunk each time.
        if (
            claimed is None
            or not (chain.is_raw and type(rows) is slice and rows.step == 1 and values.shape[1:] == shape[1:])
            or chain.order != tuple(range(len(shape)))
            # A reader may look at rows that a document claims: they are never changed in place.
            or item[0].chunk * shape[0] + rows.start < claimed
        ):
            return False
        descriptor = open_in_place(self.chunks.folder + key)
        if descriptor is None:
            return False
        try:
            # A file of another length is no chunk of this array: it is replaced as a whole.
            if os.fstat(descriptor).st_size != chain.encoded_size:
                return False
            data = as_bytes_array(np.ascontiguousarray(values, chain.stored_dtype))
            write_at(descriptor, data, rows.start * (data.nbytes // len(values)))
        finally:
            os.close(descriptor)
        # The bytes are on the disk before a document claims them.
        if self.store.order is not None:
            self.store.order.note_changed(self.chunks.folder + key)
        return True

    def _old(self, index: Index, limit: int) -> Buffer | None:
        found = open_chunk(self.chunks, self.chunks.name(index))
        if found is None:
            self.chunks.refuse_lost(index)  # the rest of a lost chunk would become fill values
            return None
        try:
            return read_file(found[0], found[1].st_size, limit)
        finally:
            os.close(found[0])

    def _replace(self, key: str, data: Buffer) -> None:
        write = partial(write_bytes, as_view(data))
        put_file(self.chunks.folder + key, write, os.replace, self.store.order, early=self.store.early)


def _serialized(values: np.ndarray, chain: Chain) -> Buffer:
    """Return the bytes of an uncompressed chunk, if possible without a copy."""
    stored = values.transpose(chain.order or ())
    if stored.dtype == chain.stored_dtype and stored.flags.c_contiguous:
        return as_bytes_array(stored)  # numpy gives no buffer of times
    assert chain.stored_dtype is not None
    size = stored.size * stored.itemsize
    buffer = scratch("write", size)[:size]
    np.copyto(buffer.view(chain.stored_dtype).reshape(stored.shape), stored)
    return buffer
