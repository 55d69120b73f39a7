"""Write to one session of Icechunk from several processes: each changes a fork, and their changes come back.

A session without uncommitted changes is forked once. The driver makes the dataset in the fork, so that an error leaves
the session as it was. Workers get copies of the fork as bytes. Their changes are merged into it, and the fork, when
the dataset is complete, into the session. The program commits the session, as always.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeGuard

from nczarr.errors import UnsupportedError
from nczarr.stores.base import Store

if TYPE_CHECKING:
    from icechunk import IcechunkStore
    from icechunk.session import ForkSession


def is_session_store(target: object) -> TypeGuard[IcechunkStore]:
    """Return whether an object is the store of an Icechunk session.

    Examples
    --------
    >>> is_session_store("data.zarr")
    False
    """
    return type(target).__module__.startswith("icechunk") and hasattr(target, "set_virtual_refs")


@contextmanager
def forked(target: IcechunkStore) -> Iterator[IcechunkStore]:
    """Yield the store of a fork of a session, and merge the fork into the session at the end of the block.

    Raises
    ------
    UnsupportedError
        If the session is read-only, or has changes that are not committed.
    """
    session = target.session
    if session.read_only or session.has_uncommitted_changes:
        why = "is read-only" if session.read_only else "has changes that are not committed"
        raise UnsupportedError(
            f"the session of Icechunk {why}, so that workers cannot get a fork of it",
            path=str(target),
            hint="commit it, and give the store of a new session",
        )
    fork = session.fork()
    yield fork.store
    session.merge(fork)


def fork_of(store: Store) -> bytes | None:
    """Return the fork of a session with its changes, for another process; None if the store is not that of a fork."""
    session = _fork(store)
    return None if session is None else pickle.dumps(session)


def open_fork(fork: bytes) -> Store:
    """Open the store of a fork that :func:`fork_of` has returned."""
    from nczarr.stores.remote.zarr_store import ZarrStore

    return ZarrStore(pickle.loads(fork).store)


def merge_fork(store: Store, fork: bytes) -> None:
    """Take the changes over that another process has made in a copy of the fork."""
    session = _fork(store)
    assert session is not None
    session.merge(pickle.loads(fork))


def _fork(store: Store) -> ForkSession | None:
    """Return the fork whose store this is."""
    found = getattr(store, "store", None)
    if not is_session_store(found):
        return None
    from icechunk.session import ForkSession

    return found.session if isinstance(found.session, ForkSession) else None
