"""Store many inner chunks in one object with an index: the codec ``sharding_indexed``.

Implements the section *Sharding codec* of the Zarr v3 core specification. Inner chunks may be shards, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod
from types import EllipsisType

import numpy as np

from nczarr.compression import NamedConfig
from nczarr.errors import CodecError, MetadataError
from nczarr.json_values import JsonMapping
from nczarr.zarr.codecs import base
from nczarr.zarr.codecs.base import ArrayBytesCodec, Buffer, ChunkSpec, as_bytes_array, register_codec
from nczarr.zarr.codecs.chain import Chain
from nczarr.zarr.metadata import parse_named_configs

#: Offset and length of an inner chunk that is not stored.
MISSING = 2**64 - 1


class ShardIndex:
    """The offsets and lengths of the inner chunks of a shard.

    Parameters
    ----------
    entries : ndarray of uint64, shape (n, 2)
        Offset and length of each inner chunk, in C order; both ``2**64 - 1`` if it is not stored.
    size : int or None
        The number of bytes of the shard, where it is known.

    Raises
    ------
    CodecError
        If an entry points outside the shard.
    """

    def __init__(self, entries: np.ndarray, size: int | None) -> None:
        present = (entries[:, 0] != MISSING) | (entries[:, 1] != MISSING)
        limit = np.uint64(2**62 if size is None else size)
        # All three comparisons are necessary: the sum may overflow.
        beyond = (entries[:, 0] > limit) | (entries[:, 1] > limit) | (entries.sum(axis=1) > limit)
        bad = present & beyond
        # A damaged index would lead to bytes of other chunks.
        if bad.any():
            number = int(np.flatnonzero(bad)[0])
            offset, length = entries[number].tolist()
            raise CodecError(
                f"the shard's index has inner chunk {number} at offset {offset} with {length} bytes; "
                f"the shard has {'fewer' if size is None else size} bytes"
            )
        self.present = present
        self.offsets = np.where(present, entries[:, 0], 0).astype(np.int64)
        self.lengths = np.where(present, entries[:, 1], 0).astype(np.int64)

    def entries(self) -> np.ndarray:
        """Return the offsets and lengths as in the parameter of the same name."""
        entries = np.stack([self.offsets, self.lengths], axis=1).astype(np.uint64)
        entries[~self.present] = MISSING
        return entries


@register_codec("sharding_indexed")
class ShardingCodec(ArrayBytesCodec):
    """``sharding_indexed``, for shards of the shape in `spec`."""

    def __init__(self, name: str, configuration: JsonMapping, spec: ChunkSpec) -> None:
        self.name = name
        base.check_keys(name, configuration, "chunk_shape", "codecs", "index_codecs", "index_location")
        shape = configuration.get("chunk_shape")
        if not isinstance(shape, list | tuple) or not all(type(n) is int and n >= 1 for n in shape):
            raise base.codec_error(name, f"chunk_shape {str(shape)[:60]} is not a shape")
        if len(shape) != len(spec.shape) or any(n % m for n, m in zip(spec.shape, shape, strict=True)):
            raise base.codec_error(name, f"chunk_shape {shape} does not divide the shard shape {spec.shape}")
        self.inner_shape: tuple[int, ...] = tuple(shape)
        self.grid: tuple[int, ...] = tuple(n // m for n, m in zip(spec.shape, shape, strict=True))
        self.count = prod(self.grid)
        self.inner = Chain(
            self._configs(configuration, "codecs"), ChunkSpec(self.inner_shape, spec.dtype, spec.fill)
        )
        index_spec = ChunkSpec((*self.grid, 2), np.dtype(np.uint64), np.uint64(MISSING))
        index_codecs = self._configs(configuration, "index_codecs")
        self.index_chain = Chain(index_codecs, index_spec)
        # The place of the index follows from its size.
        if self.index_chain.encoded_size is None:
            problem = "the index_codecs give an index of variable size"
            raise base.codec_error(name, problem, "use index_codecs without compression")
        self.index_size: int = self.index_chain.encoded_size
        location = base.configured_choice(name, configuration, "index_location", "end", "start")
        self.index_first = location == "start"
        #: The offset of the index; a negative one counts from the end.
        self.index_start = 0 if self.index_first else -self.index_size
        #: True if a file can grow in place: a reader recognises an index that is being replaced by its checksum.
        self.grows = self.index_first and index_codecs[-1].name == "crc32c"
        #: Bytes of the index and, in a shard that grows, of its copy at the end.
        self._overhead = self.index_size * (2 if self.grows else 1)

    def _configs(self, configuration: JsonMapping, key: str) -> Sequence[NamedConfig]:
        value = configuration.get(key)
        if not isinstance(value, list | tuple) or not value:
            raise base.codec_error(self.name, f"{key} is missing or empty")
        try:
            return parse_named_configs(list(value), key)
        except MetadataError as error:
            raise base.codec_error(self.name, error.message) from error

    def encoded_bound(self, spec: ChunkSpec) -> int | None:
        # Twice the size, for shards that still contain replaced inner chunks.
        return 2 * (self.count * self.inner.encoded_bound + self._overhead)

    # --- the index

    def parse_index(self, data: Buffer, size: int | None) -> ShardIndex:
        """Decode the index; `size` is the size of the whole shard, where it is known.

        Raises
        ------
        CodecError
            If the index is damaged.
        """
        if memoryview(data).nbytes != self.index_size:
            found = memoryview(data).nbytes
            raise CodecError(f"the shard has {found} bytes; its index alone has {self.index_size}")
        entries = self.index_chain.decode(data).astype(np.uint64, copy=False).reshape(-1, 2)
        return ShardIndex(entries, size)

    def index_of(self, data: Buffer) -> ShardIndex:
        """Return the index of a whole shard; its copy at the end, where the index at the start is damaged."""
        source = as_bytes_array(data)
        first, last = source[: self.index_size], source[-self.index_size :]
        return self.find_index(lambda at_end: (last if at_end else first, source.nbytes))

    def find_index(self, read: Callable[[bool], tuple[Buffer, int]]) -> ShardIndex:
        """Return the index of a shard; its copy at the end, where the index at the start is damaged.

        `read` returns the bytes of the index at the start of the shard (False) or at its end, and the shard's size.
        """
        try:
            return self.parse_index(*read(not self.index_first))
        except CodecError:
            if self.grows:
                with suppress(CodecError):
                    return self.parse_index(*read(True))
            raise

    def encode_index(self, entries: np.ndarray) -> np.ndarray:
        """Return the bytes of an index of such entries as :class:`ShardIndex` takes."""
        return as_bytes_array(self.index_chain.encode(entries.reshape(*self.grid, 2)))

    # --- whole shards

    def _region(self, number: int) -> tuple[slice | EllipsisType, ...]:
        place = np.unravel_index(number, self.grid) if self.grid else ()
        slices = [slice(int(i) * n, (int(i) + 1) * n) for i, n in zip(place, self.inner_shape, strict=True)]
        return (*slices, Ellipsis)

    def decode(self, data: Buffer, spec: ChunkSpec) -> np.ndarray:
        source = as_bytes_array(data)
        index = self.index_of(source)
        chunk = np.empty(spec.shape, spec.dtype) if index.present.all() else spec.filled()
        for number in np.flatnonzero(index.present).tolist():
            start = int(index.offsets[number])
            piece = source[start : start + int(index.lengths[number])]
            self.decode_inner(piece, number, chunk[self._region(number)])
        return chunk

    def decode_inner(self, data: Buffer, number: int, out: np.ndarray) -> None:
        """Decode one inner chunk into `out`; errors name its number."""
        try:
            self.inner.decode_into(data, out)
        except CodecError as error:
            raise CodecError(f"inner chunk {number}: {error.message}", hint=error.hint) from error

    def encode(self, chunk: np.ndarray, spec: ChunkSpec) -> Buffer:
        inner = self.inner
        if not inner.writes_rows or not self.grid:
            return self.assemble([inner.encode(chunk[self._region(number)]) for number in range(self.count)])
        length = inner.decoded_size or 0
        if inner.is_raw:
            result = np.empty(self.count * length + self._overhead, np.uint8)
            lengths = np.full(self.count, length, np.uint64)
            inner.serialize(chunk, self.grid, self._finish(result, lengths, np.zeros(self.count, bool)))
            return result
        serialized = base.scratch("serialized", self.count * length)[: self.count * length]
        inner.serialize(chunk, self.grid, serialized)
        return self.assemble(inner.encode_row(serialized, self.count))

    def assemble(self, pieces: Sequence[Buffer | None]) -> np.ndarray:
        """Return the shard of encoded inner chunks in C order; None stands for a chunk that is not stored."""
        parts = [None if piece is None else as_bytes_array(piece) for piece in pieces]
        lengths = np.array([0 if part is None else part.nbytes for part in parts], np.uint64)
        missing = np.array([part is None for part in parts], bool)
        result = np.empty(int(lengths.sum()) + self._overhead, np.uint8)
        data = self._finish(result, lengths, missing)
        present = [part for part in parts if part is not None]
        if present:
            np.concatenate(present, out=data)
        return result

    def _finish(self, shard: np.ndarray, lengths: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """Write the index of a shard without gaps, and return the part of the shard for the inner chunks."""
        start = self.index_size if self.index_first else 0
        offsets = np.cumsum(lengths, dtype=np.uint64) - lengths + np.uint64(start)
        entries = np.stack([offsets, lengths], axis=1)
        entries[missing] = MISSING
        index = self.encode_index(entries)
        if self.grows or not self.index_first:
            # Some readers look for the index at the end in any case: of a shard that grows, they find the copy.
            shard[shard.nbytes - self.index_size :] = index
            shard = shard[: shard.nbytes - self.index_size]
        if not self.index_first:
            return shard
        shard[: self.index_size] = index
        return shard[self.index_size :]
