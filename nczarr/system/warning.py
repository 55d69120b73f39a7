"""Warn a program at its own line, and once of each variable."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

#: Packages that stand between a program and nczarr: a program calls them, and they call nczarr.
_BETWEEN = frozenset({"nczarr", "xarray", "contextlib", "functools", "concurrent", "threading"})


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the program that called nczarr, however many calls are between.

    A number of calls that a function counts by hand is wrong as soon as another function calls it. The warning then
    names a line of nczarr, and Python shows it for the first dataset only.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("the units are unknown")
    >>> str(caught[0].message), "nczarr/system" in caught[0].filename
    ('the units are unknown', False)
    """
    depth, frame = 2, sys._getframe(1)
    while _is_between(frame) and frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)


def _is_between(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__")
    # A doctest runs its lines under the name of the module.
    return (
        isinstance(name, str) and name.partition(".")[0] in _BETWEEN and "<" not in frame.f_code.co_filename
    )


def warn_once(given: set[str], key: str, message: str, category: type[Warning] = UserWarning) -> None:
    """Warn as :func:`warn`, unless the key is among those that were given: a loop would repeat the warning.

    Examples
    --------
    >>> import warnings
    >>> given = set()
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     for name in ("/v", "/v", "/w"):
    ...         warn_once(given, name, f"{name} changes")
    >>> [str(warning.message) for warning in caught]
    ['/v changes', '/w changes']
    """
    if key not in given:
        given.add(key)
        warn(message, category)
