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
    nczarr.netcdf4.edit.errors.UnknownNameError: there is no variable 'tmp' (did you mean 'temp'?)
    """

    __slots__ = ("kind",)

    def __init__(self, kind: str, content: dict[str, T]) -> None:
        super().__init__(content)
        self.kind = kind

    def __missing__(self, name: Any) -> T:
        raise NetCDFKeyError(f"there is no {self.kind} {name!r}", hint=meant(name, self))

    def _now(self) -> dict[str, T]:
        # A list of a dict's own items is made in one step, in builds without the interpreter lock too.
        return dict(list(super().items()))

    def __iter__(self) -> Iterator[str]:
        return iter(list(super().keys()))

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """The names that are there now."""
        return self._now().keys()

    def values(self) -> ValuesView[T]:  # type: ignore[override]
        """The objects that are there now."""
        return self._now().values()

    def items(self) -> ItemsView[str, T]:  # type: ignore[override]
        """Names and objects that are there now."""
        return self._now().items()

    def __reduce__(self) -> Any:
        return Named, (self.kind, dict(self))
