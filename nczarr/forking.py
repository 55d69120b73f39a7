"""Renew in a forked child what threads that are not there may have held.

A child has one thread, the one that forked. A lock that another thread held at that moment is never released there,
and what it was changing stays half changed. So whoever has such a lock says here how it gets a new one. Until all have
one the garbage collector stands still: what it closes may need them.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from nczarr import collector

_F = TypeVar("_F", bound=Callable[[], Any])

_functions: list[Callable[[], Any]] = []


def in_forked_child(renew: _F) -> _F:
    """Call a function in every forked child, before anything else is done there.

    Examples
    --------
    >>> import threading
    >>> def _renew():
    ...     global _lock
    ...     _lock = threading.Lock()
    >>> in_forked_child(_renew) is _renew
    True
    """
    _functions.append(renew)
    return renew


def inheriting(method: str = "inherit") -> weakref.WeakSet[Any]:
    """Return a set of objects of which a method is called in every forked child, as long as they live.

    Examples
    --------
    >>> import threading
    >>> shelves = inheriting()
    >>> class Shelf:
    ...     def __init__(self):
    ...         self.inherit()
    ...         shelves.add(self)
    ...     def inherit(self):
    ...         self.lock = threading.Lock()
    >>> shelf = Shelf()
    """
    owners: weakref.WeakSet[Any] = weakref.WeakSet()

    def inherit() -> None:
        for owner in list(owners):
            getattr(owner, method)()

    in_forked_child(inherit)
    return owners


_forking = threading.local()


def _before() -> None:
    _forking.paused = collector.pause()


def _in_parent() -> None:
    if _forking.paused:
        collector.go_on()


def _in_child() -> None:
    try:
        for renew in list(_functions):
            renew()
    finally:
        collector.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
