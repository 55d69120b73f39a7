"""Renew in a forked child what threads that are not there may have held.

A child has one thread, the one that forked. A lock that another thread held at that moment is never released there,
and what it was changing stays half changed. So whoever has such a lock says here how it gets a new one.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[[], Any])

_functions: list[Callable[[], Any]] = []
_owners: dict[int, tuple[weakref.ref[Any], str]] = {}
_numbers = itertools.count()


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


def inherited_by(owner: Any, method: str = "inherit") -> None:
    """Call a method of an object, as long as it lives, in every forked child.

    Examples
    --------
    >>> import threading
    >>> class Shelf:
    ...     def __init__(self):
    ...         self.inherit()
    ...         inherited_by(self)
    ...     def inherit(self):
    ...         self.lock = threading.Lock()
    >>> shelf = Shelf()
    """
    number = next(_numbers)

    def forget(_: object, number: int = number) -> None:
        _owners.pop(number, None)

    _owners[number] = weakref.ref(owner, forget), method


def _renew() -> None:
    if sys.version_info < (3, 12):
        _renew_cached_properties()
    for renew in list(_functions):
        renew()
    for reference, method in list(_owners.values()):
        owner = reference()
        if owner is not None:
            getattr(owner, method)()


def _renew_cached_properties() -> None:
    """Before Python 3.12 each has one lock for all objects, which is held while a value is made."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "nczarr":
            for kind in [value for value in vars(module).values() if isinstance(value, type)]:
                for value in vars(kind).values():
                    if isinstance(value, functools.cached_property):
                        value.lock = threading.RLock()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
