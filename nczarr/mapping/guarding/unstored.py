"""Mark a dataset whose last flush failed after its program had dropped it, so that readers report the loss."""

from __future__ import annotations

from contextlib import suppress

from nczarr.errors import NCZarrError
from nczarr.stores import LocalStore, Store

#: The key with the reason; `nczarr clean` removes it.
UNSTORED = ".nczarr-unstored"


def mark_unstored(store: Store, reason: str) -> None:
    """Record why a flush failed. A store that cannot be written at all gets no mark."""
    if store.takes_any_key:
        with suppress(NCZarrError, OSError):
            store.set(UNSTORED, reason.encode("utf-8", "replace"))


def unstored_reason(store: Store) -> str | None:
    """Return why the last flush of a dataset failed; None if there is no mark, or to look for it costs a request.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> unstored_reason(MemoryStore()) is None
    True
    """
    if not isinstance(store, LocalStore):
        return None
    data = store.get(UNSTORED)
    return None if data is None else data.decode("utf-8", "replace")
