"""Load the public names of packages, compute properties, and compile regular expressions, on first use.

``functools.cached_property`` of Python 3.11 holds one lock for all instances while it computes a value. If that
computation waits for the HDF5 lock, a thread that holds the HDF5 lock and computes another property causes a deadlock.
The :class:`cached_property` of this module uses no lock, like that of Python 3.12.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):
        """A property that is computed on first use; concurrent first uses may compute it more than once."""

        def __init__(self, function: Callable[[Any], Any]) -> None:
            super().__init__(function)
            self.lock = nullcontext()


class _Pattern:
    """Stands for a regular expression, which is compiled when a method is asked for."""

    def __init__(self, text: str | Callable[[], str], flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        text = self._text
        value = getattr(re.compile(text if isinstance(text, str) else text(), self._flags), name)
        setattr(self, name, value)  # later uses do not call __getattr__
        return value


def pattern(text: str | Callable[[], str], flags: int = 0) -> re.Pattern[str]:
    r"""Return a regular expression that is compiled at its first use, for the constants of modules.

    A program uses few of them, and those of all modules took a tenth of the start of ``nczarr dump -h``.

    Parameters
    ----------
    text : str or callable
        The expression, or a function that composes it.
    flags : int

    Examples
    --------
    >>> digits = pattern(r"\d+")
    >>> digits.findall("1 of 20")
    ['1', '20']
    """
    return cast("re.Pattern[str]", _Pattern(text, flags))


def lazy(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` function for a package that imports its public names on first use.

    The package imports the same names under ``TYPE_CHECKING``, for readers and type checkers. A name must differ from
    the names of the package's modules, because importing such a module would overwrite it.

    Parameters
    ----------
    package : str
        Full name of the package.
    homes : mapping
        The public names by module; module names are relative to the package.

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
        setattr(sys.modules[package], name, value)  # later uses do not call __getattr__
        return value

    return load
