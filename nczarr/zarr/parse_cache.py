"""A cache for what is made from JSON values: many arrays of a hierarchy have the same encoding."""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")


class ParseCache(Generic[Made]):
    """Remember immutable objects by the JSON values that they were made from.

    Parameters
    ----------
    limit : int
        How many objects are kept; then all are forgotten. Values larger than 4 KiB are not kept.

    Examples
    --------
    >>> cache = ParseCache[tuple]()
    >>> first = cache.get(([1, 2],), lambda: (1, 2))
    >>> cache.get(([1, 2],), lambda: (3, 4)) is first, cache.get(([1.0, 2],), lambda: (3, 4))
    (True, (3, 4))
    """

    def __init__(self, limit: int = 1024) -> None:
        self._limit = limit
        self._made: dict[bytes, Made] = {}

    def get(self, parts: tuple[Any, ...], make: Callable[[], Made]) -> Made:
        """Return what `make` made for the same parts before, or now."""
        try:
            # Version 2 has no references: equal bytes if and only if equal values, types included.
            key = marshal.dumps(parts, 2)
        except ValueError:  # no JSON, or nested too deep: `make` will say so
            return make()
        made = self._made.get(key)
        if made is None:
            made = make()
            if len(key) <= 4096:
                if len(self._made) >= self._limit:
                    self._made.clear()
                self._made[key] = made
        return made
