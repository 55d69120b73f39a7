"""Load the names of a package's front when they are first used, so that a program loads only what it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


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
