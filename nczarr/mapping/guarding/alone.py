"""Keep other writers away from a dataset while it is changed as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nczarr.errors import StoreError
from nczarr.locks import Lock
from nczarr.stores import LocalStore, Store


@contextmanager
def writing_alone(store: Store) -> Iterator[None]:
    """Lock the dataset in a directory; other stores have no locks.

    Raises
    ------
    StoreError
        If somebody, here or in another process, has it open for writing.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> with writing_alone(MemoryStore()):
    ...     pass
    """
    if not isinstance(store, LocalStore):
        yield
        return
    try:
        lock = Lock(str(store.root))
    except BlockingIOError as error:
        raise StoreError(
            "the dataset is open for writing, here or in another process",
            path=store.url,
            hint="close it there",
        ) from error
    try:
        yield
    finally:
        lock.release()
