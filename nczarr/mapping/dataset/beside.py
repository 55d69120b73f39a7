"""Let several processes write values of one dataset at the same time.

In a directory they share the system's lock, and take turns at a chunk of which each writes a part. In an object store a
part is changed by a conditional write, which fails if another process has replaced the chunk since it was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nczarr.mapping.dataset.changes import BesideMark, WriterMark, locked
from nczarr.stores import LocalStore, Store
from nczarr.system.locks import Rank, Releasable, make_lock


class PartsMark:
    """Exclude the writers that hold a dataset in an object store alone, from the first change of a part of a chunk on.

    Whole chunks exclude no writer, and cost no mark. Where the store has no conditional replacement, only one process
    may change parts: it holds the dataset alone then.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> mark = PartsMark(store)
    >>> list(store.list())
    []
    >>> store.before_part()
    >>> list(store.list())
    ['.nczarr-writing']
    >>> mark.release()
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = make_lock(Rank.STORE)
        self._mark: Releasable | None = None
        store.is_shared = True
        store.before_part = self.take

    def take(self) -> None:
        """Set the mark, unless it is set already.

        Raises
        ------
        LockedError
            Another writer holds the dataset alone, or, without conditional replacement, writes parts too.
        """
        with self._lock:
            if self._mark is None:
                self._mark = BesideMark(self._store) if self._store.exchanges else WriterMark(self._store)

    def release(self) -> None:
        """Remove the mark."""
        mark, self._mark, self._store.before_part = self._mark, None, None
        if mark is not None:
            mark.release()


@contextmanager
def writing_beside(store: Store) -> Iterator[None]:
    """Exclude the writers that hold a dataset alone, and let those in that write values only, as this one does.

    Only for stores that :func:`lets_writers_in` names.

    Raises
    ------
    LockedError
        Another writer holds the dataset alone, in this or another process.

    Examples
    --------
    >>> import tempfile
    >>> from nczarr.stores import LocalStore
    >>> with LocalStore(tempfile.mkdtemp(), "r+") as store, writing_beside(store), writing_beside(store):
    ...     lets_writers_in(store)
    True
    """
    lock: Releasable
    if isinstance(store, LocalStore):
        lock = locked(store, str(store.root), shared=True)
        store.is_shared = True
    else:
        lock = PartsMark(store)
    try:
        yield
    finally:
        lock.release()


def lets_writers_in(store: Store) -> bool:
    """Return whether several processes may write values of one dataset at the same time.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> lets_writers_in(MemoryStore())
    False
    """
    # A store without requests is an object of this process; Icechunk commits changes as a whole.
    return isinstance(store, LocalStore) or (store.parallel_requests > 1 and store.takes_any_key)
