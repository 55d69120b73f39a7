"""Renew in a forked child what threads that are not there may have held.

A child has one thread, the one that forked. A lock that another thread held at that moment is never released there,
and what it was changing stays half changed. A module with such a lock registers a function that renews it.
Finalizers of nczarr take no lock (:mod:`nczarr.system.finalizing`): the garbage collector may run meanwhile.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

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


def _in_child() -> None:
    for renew in list(_functions):
        renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
