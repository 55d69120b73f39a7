"""Describe the chunks of one array for readers and writers: keys, codecs and caches."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np

from nczarr.errors import ChunkError, CodecError, StoreError, error_context
from nczarr.lazy import cached_property
from nczarr.stores import LocalStore, Store
from nczarr.system.locks import TABLES, LockTable, Rank
from nczarr.zarr.chunks.records import RECORD_KEY, read_record
from nczarr.zarr.codecs.base import Buffer
from nczarr.zarr.codecs.chain import Chain, chain_of
from nczarr.zarr.codecs.sharding import ShardIndex, ShardingCodec
from nczarr.zarr.limits import LIMITS
from nczarr.zarr.metadata import ArrayMetadata

T = TypeVar("T")


class BoundedCache(Generic[T]):
    """A thread-safe LRU cache with a bound on the total weight.

    Each value has a mark, which identifies its source (for a file: inode, size and time). A lookup with another mark
    removes the value.

    Parameters
    ----------
    bound : int
        The largest total weight of all values.

    Examples
    --------
    >>> cache = BoundedCache(2)
    >>> for name in "abc":
    ...     cache.put(name, 1, name.upper())
    >>> cache.get("a", 1), cache.get("c", 1), cache.get("c", 2)
    (None, 'C', None)
    """

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self._values: OrderedDict[Hashable, tuple[Hashable, T, int]] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: Hashable, mark: Hashable) -> T | None:
        """Return the value of a name; None if it is not cached, or has another mark."""
        if not self._values:
            return None
        with TABLES:
            entry = self._values.get(name)
            if entry is None:
                return None
            if entry[0] != mark:
                self._drop(name)
                return None
            self._values.move_to_end(name)
            return entry[1]

    def put(self, name: Hashable, mark: Hashable, value: T, weight: int = 1) -> None:
        """Add a value, and evict the least recently used ones above the bound."""
        if weight > self.bound:
            return
        with TABLES:
            if name in self._values:
                self._drop(name)
            self._values[name] = (mark, value, weight)
            self._weight += weight
            while self._weight > self.bound:
                self._drop(next(iter(self._values)))

    def forget(self, condition: Callable[[Hashable], bool]) -> None:
        """Remove the values of all names for which a condition is true."""
        with TABLES:
            for name in [name for name in list(self._values) if condition(name)]:
                self._drop(name)

    def _drop(self, name: Hashable) -> None:
        entry = self._values.pop(name, None)
        if entry is not None:
            self._weight -= entry[2]


#: Decoded chunks of all arrays, by owner and grid index. A loop over time steps reuses the chunk that contains several
#: of them.
CHUNKS: BoundedCache[np.ndarray] = BoundedCache(LIMITS.cache_bytes)

#: The locks of all stored chunks, by URL of the store and key.
CHUNK_LOCKS = LockTable(Rank.CHUNK)

#: Unique numbers of arrays in this process.
_owners = itertools.count()


def forget_chunks(owners: Collection[int]) -> None:
    """Remove the decoded chunks of closed arrays from the cache."""
    CHUNKS.forget(lambda name: isinstance(name, tuple) and name[0] in owners)


#: The number of cached shard indexes for each array.
SHARD_INDEXES = 1024

Index = tuple[int, ...]
"""The index of a chunk in the grid."""


class Chunks:
    """The chunks of an array: keys, regions, codecs, and cached shard indexes.

    Thread-safe; only the array that owns the object sets `metadata`.

    Parameters
    ----------
    prefix : str
        The part of the keys before ``c/0/0``.
    path : str
        The path of the node, for messages.
    omits_empty : bool
        Writers leave out new chunks in which every value is the fill value.
    """

    def __init__(
        self, store: Store, prefix: str, metadata: ArrayMetadata, path: str, *, omits_empty: bool = False
    ) -> None:
        self.store = store
        self.omits_empty = omits_empty
        self.prefix = prefix
        self.metadata = metadata
        self.path = path
        #: The path of the chunks' files before their names, in a directory.
        self.folder = f"{store.root}/{prefix}" if isinstance(store, LocalStore) else ""
        #: The array's name in messages.
        self.fqn = "/" + path
        #: The dtype of values in memory, and the shape of the largest chunk (or shard); only the array's shape changes.
        self.dtype = metadata.data_type.dtype
        self.chunk_shape = metadata.chunk_grid.chunk_shape
        #: Identifies the array's chunks in the shared cache.
        self.owner = next(_owners)
        #: True once the shared cache has received a chunk of this array.
        self.are_kept = False
        #: True once single points of this array were read.
        self.had_points = False
        #: Replaced by a new object after each missing chunk: a reader compares it to detect missing chunks.
        self.missed = object()
        self._chains: dict[tuple[int, ...], Chain] = {}
        #: The record of written chunks in the metadata, and its bits.
        self._record: tuple[object, np.ndarray | None] = (None, None)

    def lock_name(self, key: str) -> tuple[str, str]:
        """Return the name of a chunk in :data:`CHUNK_LOCKS`."""
        return self.store.url, key

    @cached_property
    def shard_indexes(self) -> BoundedCache[ShardIndex]:
        """The cached indexes of shards."""
        return BoundedCache(SHARD_INDEXES)

    # --- codecs

    @cached_property
    def fixed_chain(self) -> Chain | None:
        """The codecs, if all chunks have the same shape; else None."""
        return self.chain() if self.metadata.chunk_grid.is_regular else None

    @cached_property
    def sharding(self) -> ShardingCodec | None:
        """The sharding codec, if it is the only codec of the chunks; else None."""
        chain = self.fixed_chain
        codec = chain.serializer if chain is not None and chain.is_bare else None
        return codec if isinstance(codec, ShardingCodec) else None

    def stored(self, indices: Sequence[Index]) -> Sequence[Buffer | None]:
        """Return the stored bytes of chunks, None for missing ones; a chunk above its size limit is an error."""
        most = max([self.chain(index).longest for index in indices], default=0)
        values = self.store.get_bounded([self.key(index) for index in indices], most)
        for index, value in zip(indices, values, strict=True):
            if value is None:
                self.refuse_lost(index)
        return values

    def chain(self, index: Index | None = None) -> Chain:
        """Return the codecs for the chunk at a grid index; by default, for the largest chunk."""
        grid = self.metadata.chunk_grid
        if index is None or grid.is_regular:
            shape = grid.chunk_shape
        else:
            shape = grid.chunk_shape_at(index, self.metadata.shape)
        chain = self._chains.get(shape)
        if chain is None:
            with error_context(self.store.url, fqn=self.fqn):
                chain = chain_of(self.metadata.codecs, shape, self.dtype, self.metadata.fill)
            self._chains[shape] = chain
        return chain

    # --- places

    def name(self, index: Index) -> str:
        """Return the key of a chunk relative to the array."""
        return self.metadata.chunk_key_encoding.key(index)

    def key(self, index: Index) -> str:
        """Return the key of a chunk in the store."""
        return self.prefix + self.metadata.chunk_key_encoding.key(index)

    def region(self, index: Index) -> tuple[slice, ...]:
        """Return the region of a chunk in the array."""
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

    def miss(self, index: Index) -> None:
        """Note that a chunk is missing and reads as fill values.

        Raises
        ------
        StoreError
            If the array's record names the chunk.
        """
        self.refuse_lost(index)
        self.missed = object()

    def leaves_out(self, index: Index, values: np.ndarray) -> bool:
        """Return True for the values of a whole chunk that reads the same if it is not stored."""
        if not self.omits_empty or not _are_all(values, self.metadata.fill):
            return False
        # The values of an old chunk would stay, and a reader would take a recorded one for lost.
        return not self._is_recorded(index) and not self.store.exists(self.key(index))

    def _is_recorded(self, index: Index) -> bool:
        """Return True if the array's record names a chunk."""
        metadata = self.metadata
        if RECORD_KEY not in metadata.extra:
            return False
        value, bits = self._record
        if value is not metadata.extra[RECORD_KEY]:
            bits = read_record(metadata)
            self._record = metadata.extra[RECORD_KEY], bits
        if (
            bits is None
            or len(index) != bits.ndim
            or not all(i < n for i, n in zip(index, bits.shape, strict=True))
        ):
            return False
        return bool(bits[index])

    def refuse_lost(self, index: Index) -> None:
        """Raise StoreError if the array's record names a chunk, which is missing."""
        if self._is_recorded(index):
            raise StoreError(
                f"the chunk {self.key(index)} was written, but is missing",
                path=self.store.url,
                fqn=self.fqn,
                hint="restore it from a copy, or write the whole chunk again; nczarr check --data lists all",
                reason="lost",
            )

    # --- errors

    def place(self, name: str) -> str:
        """Return the location of a key below the array, for messages."""
        return self.store.place((self.prefix + name).rstrip("/"))

    def damaged(self, index: Index, error: CodecError) -> ChunkError:
        """Return the error for a damaged chunk, with its key, array and region."""
        region = ", ".join(f"{part.start}:{part.stop}" for part in self.region(index))
        return ChunkError(
            f"chunk {index}, region [{region}]: {error.message}",
            path=self.store.place(self.key(index)),
            fqn=self.fqn,
            hint=error.hint,
        )

    def failed(self, action: str, index: Index, error: OSError) -> StoreError:
        """Return the error for a failed system call on a chunk."""
        return StoreError(
            f"cannot {action}: {error.strerror}", path=self.place(self.name(index)), fqn=self.fqn
        )


def _are_all(values: np.ndarray, fill: object) -> bool:
    """Return True if each value has the bits of the fill value: -0.0 is no 0.0."""
    if values.dtype.hasobject:
        return isinstance(fill, str) and all(value == fill for value in values.flat)
    one = np.asarray(fill, values.dtype).reshape(1).view(np.uint8)
    # Most chunks differ in their first value.
    if not values.size or values.flat[:1].tobytes() != one.tobytes():
        return False
    flat = np.ascontiguousarray(values).reshape(-1)
    return bool((flat.view(np.uint8).reshape(flat.size, -1) == one).all())
