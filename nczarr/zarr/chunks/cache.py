"""Keep shard indexes and decoded chunks in LRU caches, each within a bound."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

import numpy as np

from nczarr.zarr.limits import LIMITS

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
        self._lock = threading.Lock()

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
            for name in [name for name in self._values if condition(name)]:
                self._drop(name)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._weight = 0

    def _drop(self, name: Hashable) -> None:
        self._weight -= self._values.pop(name)[2]


#: Decoded chunks of all arrays, by owner and place in the grid. A loop over time steps finds here the chunk that
#: holds several of them.
CHUNKS: BoundedCache[np.ndarray] = BoundedCache(LIMITS.cache_bytes)

_owners = itertools.count()


def new_owner() -> int:
    """Return a number that no other array of this process has."""
    return next(_owners)


def forget_chunks(owners: Collection[int]) -> None:
    """Forget the decoded chunks of some arrays, which nobody will ask for again."""
    CHUNKS.forget(lambda name: isinstance(name, tuple) and name[0] in owners)
