"""Look objects up by name, and say what the name may have been meant to be."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, ValuesView
from difflib import get_close_matches
from typing import Any, TypeVar

from nczarr.netcdf4.errors import NetCDFKeyError

T = TypeVar("T")


def meant(name: Any, names: Iterable[str]) -> str | None:
    """A hint with the name that is nearest to one that is not there.

    Examples
    --------
    >>> meant("tmp", ["temp", "salinity"])
    "did you mean 'temp'?"
    """
    names = list(names)
    text = str(name)
    near = get_close_matches(text, names, 1) or [n for n in names if n.casefold() == text.casefold()]
    return f"did you mean {near[0]!r}?" if near else None


class Named(dict[str, T]):
    """Objects by name; a name that is not there is an error with a hint (a :class:`KeyError`).

    Whoever goes through them gets what was there at the beginning: another thread may make more meanwhile.

    Examples
    --------
    >>> Named("variable", {"temp": 1})["tmp"]
    Traceback (most recent call last):
    nczarr.session.errors.UnknownNameError: there is no variable 'tmp' (did you mean 'temp'?)
    """

    __slots__ = ("kind",)

    def __init__(self, kind: str, content: dict[str, T]) -> None:
        super().__init__(content)
        self.kind = kind

    def __missing__(self, name: Any) -> T:
        raise NetCDFKeyError(f"there is no {self.kind} {name!r}", hint=meant(name, self))

    def __iter__(self) -> Iterator[str]:
        # A list of a dict's own is made in one step, in builds without the interpreter lock too.
        return iter(list(super().keys()))

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """The names that are there, whenever one looks."""
        return _Keys(self)

    def values(self) -> ValuesView[T]:  # type: ignore[override]
        """The objects that are there, whenever one looks."""
        return _Values(self)

    def items(self) -> ItemsView[str, T]:  # type: ignore[override]
        """Names and objects that are there, whenever one looks."""
        return _Items(self)

    def __reduce__(self) -> Any:
        return Named, (self.kind, dict(self))


class _View:
    """Behave as the view of a dict; going through it is going through what was there at the beginning."""

    __slots__ = ()

    def __reversed__(self: Iterable[Any]) -> Iterator[Any]:
        return reversed(list(self))

    def __repr__(self: Iterable[Any]) -> str:
        return f"dict{type(self).__name__.lower()}({list(self)})"


class _Keys(_View, KeysView[str]):
    """The names of a :class:`Named`."""

    __slots__ = ()


class _Values(_View, ValuesView[T]):
    """The objects of a :class:`Named`."""

    __slots__ = ()
    _mapping: Named[T]

    def __iter__(self) -> Iterator[T]:
        return iter(list(dict.values(self._mapping)))

    def __contains__(self, value: object) -> bool:
        return value in list(self)


class _Items(_View, ItemsView[str, T]):
    """The names and objects of a :class:`Named`."""

    __slots__ = ()
    _mapping: Named[T]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return iter(list(dict.items(self._mapping)))
