"""Lock chunks against concurrent changes by other threads of this process.

Each store has locks of its own, which all that have opened it share.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from nczarr.system.forks import in_forked_child, inheriting

T = TypeVar("T")

_INHERITING = inheriting()

#: The number of locks of a store. Two chunks may share a lock, which only costs time.
COUNT = 257
_RLock = type(threading.RLock())


def while_held(locks: Sequence[threading.RLock], work: Callable[[], T]) -> T:
    """Do work while all of some locks are held, none of which this thread holds.

    An interrupt leaves none of them held: it never comes inside a function in C, and one such function takes all of
    them, another one releases all.

    Examples
    --------
    >>> while_held([threading.RLock(), threading.RLock()], lambda: "done")
    'done'
    """
    release = map(_RLock.release, locks)
    try:
        deque(map(_RLock.acquire, locks), 0)
        return work()
    finally:
        # Not `suppress`: an interrupt may come at the beginning of a function in Python.
        try:  # noqa: SIM105
            deque(release, 0)
        except RuntimeError:  # an interrupt ended the waiting for one: this one is not held, nor are the next
            pass


class StoreLocks:
    """The locks of all chunks of a store, shared by all datasets on this store."""

    def __init__(self) -> None:
        self.inherit()
        _INHERITING.add(self)

    def inherit(self) -> None:
        """Make the locks; anew in a forked child."""
        self.all = [threading.RLock() for _ in range(COUNT)]

    def of(self, key: str) -> threading.RLock:
        """Return the lock that guards a chunk."""
        return self.all[hash(key) % len(self.all)]

    def of_all(self, keys: Iterable[str]) -> list[threading.RLock]:
        """Return the locks of several chunks, in the order in which they are always taken."""
        return [self.all[number] for number in sorted({hash(key) % len(self.all) for key in keys})]


_stores: weakref.WeakValueDictionary[str, StoreLocks] = weakref.WeakValueDictionary()
_adding = threading.RLock()


@in_forked_child
def _renew() -> None:
    global _adding
    _adding = threading.RLock()


def locks_of(url: str) -> StoreLocks:
    """Return the locks of a store, shared while any caller has a reference to them."""
    with _adding:
        found = _stores.get(url)
        return _stores.setdefault(url, StoreLocks()) if found is None else found
