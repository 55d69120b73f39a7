"""Say where the chunks of one array lie and which codecs they have: all that a reader or writer needs."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from nczarr.errors import ChunkError, CodecError, StoreError, placed
from nczarr.stores import Store
from nczarr.zarr.chunks.cache import BoundedCache, new_owner
from nczarr.zarr.codecs import Chain, ShardIndex, ShardingCodec, chain_of
from nczarr.zarr.metadata import ArrayMetadata

#: The indexes of this many shards are kept for each array.
SHARD_INDEXES = 1024

Index = tuple[int, ...]
"""The place of a chunk in the grid."""


class Chunks:
    """The chunks of an array: keys, regions, codecs, and the shard indexes that are kept.

    Safe among threads; only the array that owns it sets `metadata`.

    Parameters
    ----------
    prefix : str
        The part of the keys before ``c/0/0``.
    path : str
        The path of the node, for messages.
    """

    def __init__(self, store: Store, prefix: str, metadata: ArrayMetadata, path: str) -> None:
        self.store = store
        self.prefix = prefix
        self.metadata = metadata
        self.path = path
        #: Tells the array's chunks in the common cache from those of others.
        self.owner = new_owner()
        #: True once a decoded chunk was put there.
        self.are_kept = False
        #: Another object each time that a chunk was missing: so a reader tells whether one was, of its own or others'.
        self.missed = object()
        self._chains: dict[tuple[int, ...], Chain] = {}
        self._shared: tuple[Chain | None, ShardingCodec | None] | None = None

    @cached_property
    def shard_indexes(self) -> BoundedCache[ShardIndex]:
        """The indexes of shards that are kept."""
        return BoundedCache(SHARD_INDEXES)

    @property
    def fqn(self) -> str:
        """The array's name in messages."""
        return "/" + self.path

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.metadata.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of values in memory."""
        return self.metadata.data_type.dtype

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """The shape of the largest chunk (or shard)."""
        return self.metadata.chunk_grid.chunk_shape

    @property
    def inner_shape(self) -> tuple[int, ...]:
        """The shape in which the array can be read: of a chunk, or of a chunk inside a shard."""
        return self.chunk_shape if self.sharding is None else self.sharding.inner_shape

    # --- codecs

    @property
    def sharding(self) -> ShardingCodec | None:
        """The shards' codec, if the chunks are shards and nothing but it makes their bytes."""
        return self.fixed()[1]

    @property
    def fixed_chain(self) -> Chain | None:
        """The codecs, if all chunks have one shape."""
        return self.fixed()[0]

    def fixed(self) -> tuple[Chain | None, ShardingCodec | None]:
        """Return :attr:`fixed_chain` and :attr:`sharding`."""
        shared = self._shared
        if shared is None:
            chain = self.chain() if self.metadata.chunk_grid.is_regular else None
            codec = chain.serializer if chain is not None and chain.is_bare else None
            shared = (chain, codec if isinstance(codec, ShardingCodec) else None)
            self._shared = shared
        return shared

    def chain(self, index: Index | None = None) -> Chain:
        """Return the codecs for the chunk at a place of the grid; for the largest chunk without one."""
        grid = self.metadata.chunk_grid
        if index is None or grid.is_regular:
            shape = grid.chunk_shape
        else:
            shape = grid.chunk_shape_at(index, self.metadata.shape)
        chain = self._chains.get(shape)
        if chain is None:
            with placed(self.store.url, fqn=self.fqn):
                chain = chain_of(self.metadata.codecs, shape, self.dtype, self.metadata.fill)
            self._chains[shape] = chain
        return chain

    # --- places

    def name(self, index: Index) -> str:
        """Return the key of a chunk relative to the array."""
        return self.metadata.chunk_key_encoding.key(index)

    def key(self, index: Index) -> str:
        """Return the key under which a chunk is stored."""
        return self.prefix + self.metadata.chunk_key_encoding.key(index)

    def region(self, index: Index) -> tuple[slice, ...]:
        """Return the part of the array that a chunk holds."""
        grid = self.metadata.chunk_grid
        region = []
        for dimension, (number, size) in enumerate(zip(index, self.metadata.shape, strict=True)):
            lengths = grid.lengths(dimension, size)
            if isinstance(lengths, int):
                low, high = number * lengths, (number + 1) * lengths
            else:
                low, high = grid.offsets(dimension, size)[number : number + 2].tolist()
            region.append(slice(low, min(high, size), 1))
        return tuple(region)

    def miss(self) -> None:
        """Note that a chunk is missing, and was taken for fill."""
        self.missed = object()

    # --- errors

    def place(self, name: str) -> str:
        """Return the place of a key below the array, for messages."""
        return self.store.place((self.prefix + name).rstrip("/"))

    def damaged(self, index: Index, error: CodecError) -> ChunkError:
        """Return the error that names the key, the array and the region of a chunk."""
        region = ", ".join(f"{part.start}:{part.stop}" for part in self.region(index))
        return ChunkError(
            f"chunk {index}, region [{region}]: {error.message}",
            path=self.store.place(self.key(index)),
            fqn=self.fqn,
            hint=error.hint,
        )

    def failed(self, what: str, index: Index, error: OSError) -> StoreError:
        """Return the error of a system call that failed on a chunk."""
        return StoreError(f"cannot {what}: {error.strerror}", path=self.place(self.name(index)), fqn=self.fqn)
