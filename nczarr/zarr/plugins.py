"""Register objects by name, and load objects of installed packages from entry points.

The registries of codecs, data types, chunk grids, chunk key encodings and extensions use this. The first unregistered
name triggers the search for entry points, so opening an ordinary store never searches them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nczarr.errors import MetadataError, NCZarrError
from nczarr.system.locks import TABLES

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


@cache
def optional_module(name: str) -> Any:
    """Return a module of an optional package; None if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        return None


class Registry(Generic[T]):
    """A registry of objects: built-in ones, registered ones, and those of installed packages.

    Parameters
    ----------
    group : str
        The group of entry points; the name of an entry point is the name of its object.
    kind : str
        The kind of the objects, for messages.
    error : type of NCZarrError
        Raised if an entry point cannot be loaded.
    accept : callable, optional
        Converts the loaded object of an entry point to an object of the registry; raises TypeError if it cannot.

    Examples
    --------
    >>> colours = Registry[str]("example.colours", "colour", NCZarrError)
    >>> colours.register("red", "#f00")
    >>> colours.find("red"), colours.find("blue"), colours.names()
    ('#f00', None, ['red'])
    """

    def __init__(
        self, group: str, kind: str, error: type[NCZarrError], accept: Callable[[object], T] | None = None
    ) -> None:
        self.group = group
        self._kind = kind
        self._error = error
        self._accept = accept
        self._objects: dict[str, T] = {}
        #: Changes whenever an object is registered or unregistered.
        self.version = 0
        self._entry_points: dict[str, EntryPoint] | None = None

    def register(self, name: str, value: T) -> None:
        """Register an object under a name; it replaces an earlier one of that name."""
        with TABLES:
            self._objects[name] = value
            self.version += 1

    def unregister(self, name: str) -> None:
        """Remove the object of a name; unknown names are ignored."""
        with TABLES:
            self._objects.pop(name, None)
            self.version += 1

    def registered(self, name: str) -> T | None:
        """Return the registered or loaded object of a name, without a search for entry points."""
        return self._objects.get(name)

    def names(self) -> list[str]:
        """Return the registered names, and those of installed packages."""
        return sorted({*self._objects, *self._installed()})

    def find(self, name: str) -> T | None:
        """Return the object of a name, registered or from an installed package; else None.

        Raises
        ------
        NCZarrError
            If a package provides the object, but loading it fails; the class is `error` of the registry.
        """
        found = self._objects.get(name)
        if found is not None:
            return found
        point = self._installed().get(name)
        if point is None:
            return None
        try:
            loaded = point.load()
            value = loaded if self._accept is None else self._accept(loaded)
        except NCZarrError:
            raise
        except Exception as error:  # other packages raise any type
            raise self._error(
                f"the {self._kind} {name!r} cannot be loaded: {error}",
                hint=f"the entry point {point.value!r} in the group {self.group!r} provides it",
            ) from error
        with TABLES:
            # Two threads may load it at once; all get the same object.
            return self._objects.setdefault(name, value)

    def need(self, name: str, key: str) -> T:
        """Return the object of a name in a document; raise MetadataError with the key if it is unknown."""
        found = self.find(name)
        if found is None:
            hint = f"known {self._kind}s: {', '.join(self.names())}"
            raise MetadataError(f"{key}: {name[:64]!r} is unknown", hint=hint)
        return found

    def _installed(self) -> dict[str, EntryPoint]:
        # The search reads the metadata of all installed packages.
        if self._entry_points is None:
            from importlib.metadata import entry_points

            self._entry_points = {point.name: point for point in entry_points(group=self.group)}
        return self._entry_points
