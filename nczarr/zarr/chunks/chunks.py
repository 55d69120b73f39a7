"""Say where the chunks of one array lie, which codecs they have and which are kept: what reading and writing need."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np

from nczarr.errors import ChunkError, CodecError, StoreError, placed
from nczarr.forking import inheriting
from nczarr.lazy import cached_property
from nczarr.stores import Store
from nczarr.zarr.chunks.files import longest
from nczarr.zarr.chunks.locks import StoreLocks, locks_of
from nczarr.zarr.codecs import Buffer, Chain, ShardIndex, ShardingCodec, chain_of
from nczarr.zarr.limits import LIMITS
from nczarr.zarr.metadata import ArrayMetadata

#: Objects whose locks are renewed in a forked child.
_INHERITING = inheriting()

T = TypeVar("T")


class BoundedCache(Generic[T]):
    """The values that were used last, within a bound; safe among threads.

    Each value has a mark, which says what it was made from (a file's inode, size and time). A value whose mark
    is another one now is forgotten.

    Parameters
    ----------
    bound : int
        How much the weights of all values may be together.

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
        # The collector may close a dropped dataset, whose chunks are forgotten, while this thread is at work here.
        self._lock = threading.RLock()
        _INHERITING.add(self)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: Hashable, mark: Hashable) -> T | None:
        """Return the value of a name, None if there is none with this mark."""
        if not self._values:
            return None
        with self._lock:
            entry = self._values.get(name)
            if entry is None:
                return None
            if entry[0] != mark:
                self._drop(name)
                return None
            self._values.move_to_end(name)
            return entry[1]

    def put(self, name: Hashable, mark: Hashable, value: T, weight: int = 1) -> None:
        """Remember a value, and forget those that were not used for longest."""
        if weight > self.bound:
            return
        with self._lock:
            if name in self._values:
                self._drop(name)
            self._values[name] = (mark, value, weight)
            self._weight += weight
            while self._weight > self.bound:
                self._drop(next(iter(self._values)))

    def forget(self, condition: Callable[[Hashable], bool]) -> None:
        """Forget the values of all names for which a condition holds."""
        with self._lock:
            for name in [name for name in list(self._values) if condition(name)]:
                self._drop(name)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._weight = 0

    def inherit(self) -> None:
        """Begin anew in a forked child: a thread that is not here may have held the lock, and changed half."""
        self._lock = threading.RLock()
        self.clear()

    def _drop(self, name: Hashable) -> None:
        entry = self._values.pop(name, None)
        if entry is not None:
            self._weight -= entry[2]


#: Decoded chunks of all arrays, by owner and place in the grid. A loop over time steps finds here the chunk that
#: holds several of them.
CHUNKS: BoundedCache[np.ndarray] = BoundedCache(LIMITS.cache_bytes)

#: Numbers that no other array of this process has.
_owners = itertools.count()


def forget_chunks(owners: Collection[int]) -> None:
    """Forget the decoded chunks of some arrays, which nobody will ask for again."""
    CHUNKS.forget(lambda name: isinstance(name, tuple) and name[0] in owners)


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
        self.owner = next(_owners)
        #: True once a decoded chunk was put there.
        self.are_kept = False
        #: Another object each time that a chunk was missing: so a reader tells whether one was, of its own or others'.
        self.missed = object()
        self._chains: dict[tuple[int, ...], Chain] = {}
        self._shared: tuple[Chain | None, ShardingCodec | None] | None = None
        self._locks: StoreLocks | None = None

    @property
    def locks(self) -> StoreLocks:
        """What guards the chunks of the store."""
        if self._locks is None:
            self._locks = locks_of(self.store.url)
        return self._locks

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

    def stored(self, indices: Sequence[Index]) -> Sequence[Buffer | None]:
        """Return the stored bytes of chunks, None for each that is missing; longer ones than can be are an error."""
        most = max([longest(self.chain(index)) for index in indices], default=0)
        return self.store.get_bounded([self.key(index) for index in indices], most)

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
