"""Make what is needed when it is first used: the names of a package's front, and the values of properties.

A value is kept with its object without a lock, as Python 3.12 does it. Before, one lock for all objects is held while a
value is made. The garbage collector may come then, and close a netCDF file, for which it needs HDF5's lock; a thread
that has that one may ask for a value, and both wait for ever.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):
        """A property that is computed once; by two threads at a time it may be twice."""

        def __init__(self, function: Callable[[Any], Any]) -> None:
            super().__init__(function)
            self.lock = nullcontext()


def lazy(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package's front.

    The front imports the same names under ``TYPE_CHECKING``, for readers and type checkers. No name may be that of a
    module of the package, which would take its place.

    Parameters
    ----------
    package : str
        Full name of the package.
    homes : mapping
        The names by the module that has them, which is named below the package.

    Examples
    --------
    >>> load = lazy("nczarr.model", {"names": ["join_fqn"]})
    >>> load("join_fqn")("/g", "v")
    '/g/v'
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, value)  # the next time it is there
        return value

    return load
