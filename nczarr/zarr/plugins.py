"""Keep objects by name, and load those that installed packages offer by entry points.

Codecs, data types, chunk grids, chunk key encodings and extensions are found this way. Entry points are looked up
when the first name comes along that nobody registered: opening an ordinary store never asks for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from nczarr.errors import NCZarrError
from nczarr.forking import inheriting

#: Objects whose locks are renewed in a forked child.
_INHERITING = inheriting()

T = TypeVar("T")


class Registry(Generic[T]):
    """Objects by name: built in, registered at run time, or offered by an installed package.

    Parameters
    ----------
    group : str
        The group of entry points; the name of an entry point is that of its object.
    kind : str
        What the objects are, for messages.
    error : type of NCZarrError
        Raised if an entry point cannot be loaded.
    accept : callable, optional
        Turns what an entry point loads into an object of the registry; raises TypeError if it is none.

    Examples
    --------
    >>> colours = Registry[str]("example.colours", "colour", NCZarrError)
    >>> colours.register("red", "#f00")
    >>> colours.find("red"), colours.find("blue"), colours.names()
    ('#f00', None, ['red'])
    """

    def __init__(
        self, group: str, kind: str, error: type[NCZarrError], accept: Callable[[Any], T] | None = None
    ) -> None:
        self.group = group
        self._kind = kind
        self._error = error
        self._accept = accept
        self._objects: dict[str, T] = {}
        #: Changes whenever an object is registered or unregistered.
        self.version = 0
        self._entry_points: dict[str, Any] | None = None
        self.inherit()
        _INHERITING.add(self)

    def inherit(self) -> None:
        """Renew the lock in a forked child."""
        self._lock = threading.Lock()

    def register(self, name: str, value: T) -> None:
        """Make an object known under a name, in place of another of that name."""
        with self._lock:
            self._objects[name] = value
            self.version += 1

    def unregister(self, name: str) -> None:
        """Forget the object of a name; no error if there is none."""
        with self._lock:
            self._objects.pop(name, None)
            self.version += 1

    def registered(self, name: str) -> T | None:
        """Return the object of a name if it was registered or loaded already."""
        return self._objects.get(name)

    def names(self) -> list[str]:
        """Return the names that are registered, and those that installed packages offer."""
        return sorted({*self._objects, *self._offered()})

    def find(self, name: str) -> T | None:
        """Return the object of a name: registered, or offered by an installed package; else None.

        Raises
        ------
        NCZarrError
            A package offers it and it cannot be loaded; of the class that the registry was made with.
        """
        found = self._objects.get(name)
        if found is not None:
            return found
        point = self._offered().get(name)
        if point is None:
            return None
        try:
            loaded = point.load()
            value = loaded if self._accept is None else self._accept(loaded)
        except NCZarrError:
            raise
        except Exception as error:  # a foreign package may raise anything
            raise self._error(
                f"the {self._kind} {name!r} cannot be loaded: {error}",
                hint=f"the entry point {point.value!r} in the group {self.group!r} offers it",
            ) from error
        with self._lock:
            return self._objects.setdefault(name, value)

    def _offered(self) -> dict[str, Any]:
        if self._entry_points is None:
            from importlib.metadata import entry_points

            self._entry_points = {point.name: point for point in entry_points(group=self.group)}
        return self._entry_points
