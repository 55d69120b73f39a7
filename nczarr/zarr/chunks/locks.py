"""Guard chunks against other threads of this process that change them.

Each store has locks of its own. The collector may close a dropped dataset anywhere, also in a thread for which another
one waits that has locked chunks: it then takes the locks of another store, which nobody holds.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from nczarr.forking import in_forked_child, inheriting

_INHERITING = inheriting()

#: Locks of a store. Two chunks may share one, which only costs time.
COUNT = 257


class StoreLocks:
    """The locks of the chunks of one store, of all its arrays, whoever has opened it."""

    def __init__(self) -> None:
        self.inherit()
        _INHERITING.add(self)

    def inherit(self) -> None:
        """Make the locks; anew in a forked child."""
        # A thread may take one twice: the collector may close a dropped dataset of the same store.
        self.all = [threading.RLock() for _ in range(COUNT)]

    def of(self, key: str) -> threading.RLock:
        """Return the lock that guards a chunk."""
        return self.all[hash(key) % len(self.all)]

    @contextmanager
    def held(self, keys: Iterable[str]) -> Iterator[None]:
        """Hold the locks of several chunks, always taken in the same order."""
        with ExitStack() as stack:
            for number in sorted({hash(key) % len(self.all) for key in keys}):
                stack.enter_context(self.all[number])
            yield


_stores: weakref.WeakValueDictionary[str, StoreLocks] = weakref.WeakValueDictionary()
_adding = threading.RLock()


@in_forked_child
def _renew() -> None:
    global _adding
    _adding = threading.RLock()


def locks_of(url: str) -> StoreLocks:
    """Return the locks of a store, the same ones as long as anybody has them."""
    with _adding:
        found = _stores.get(url)
        return _stores.setdefault(url, StoreLocks()) if found is None else found
