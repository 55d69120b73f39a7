"""Tell a forked child from its parent, and make the tables of the process anew in it.

A child has one thread, the one that forked. All locks are free in it (:mod:`nczarr.system.locks`). Sessions and stores
that the parent has opened for writing are closed to it: an :class:`Origin` tells. Readers stay usable: they share
nothing with the parent but files that are read at given positions.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

_F = TypeVar("_F", bound=Callable[[], object])

_functions: list[Callable[[], object]] = []
#: The number of forks between the first process and this one.
_generation = 0


def in_forked_child(function: _F) -> _F:
    """Call a function in every forked child, before anything else happens there.

    This is for state of the whole process: locks, threads, queues. An object has an :class:`Origin` instead.

    Examples
    --------
    >>> @in_forked_child
    ... def _forget_threads() -> None:
    ...     global _threads
    ...     _threads = None
    """
    _functions.append(function)
    return function


class Origin:
    """The process that opened an object. After pickling it is the process that unpickled the object.

    Examples
    --------
    >>> Origin().is_here
    True
    """

    __slots__ = ("_generation",)

    def __init__(self) -> None:
        self._generation = _generation

    @property
    def is_here(self) -> bool:
        """False in a forked child of the process."""
        return self._generation == _generation

    def __reduce__(self) -> tuple[type[Origin], tuple[()]]:
        return Origin, ()


def _in_child() -> None:
    global _generation
    _generation += 1
    for function in _functions:
        function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
