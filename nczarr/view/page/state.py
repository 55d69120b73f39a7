"""Store the choices of a user in the page's URL, so that a link restores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import get_args
from urllib.parse import parse_qsl, quote, unquote, urlencode

from nczarr.errors import NCZarrError
from nczarr.view.coordinates import Coordinates
from nczarr.view.picture.colours import MAPS, Progression, Reach
from nczarr.view.picture.selection import Hyperslab, first_selection, with_drawn
from nczarr.view.planes import PROJECTIONS

#: The choices that the URL has as they are.
_WORDS = ("colours", "limits", "projection", "other", "reach", "progression")
#: Lines above a picture.
OVERLAYS = ("contours", "vectors")


@dataclass
class Address:
    """The choices of a user, in the form that the URL stores.

    Parameters
    ----------
    variable : str
        FQN.
    at : dict of str to int
        Indices on the dimensions that are not drawn, by name.
    drawn : tuple of str
        Names of the drawn dimensions.
    colours : str
        Name of a colour map; if empty, it is chosen from the values.
    low, high : float or None
        Colour limits.
    limits : {'', 'step', 'level'}
        With ``step``, each step has its own colour limits, with ``level`` all steps of a level have the same; otherwise
        all steps have the same limits.
    reach, progression : str
        As for :func:`nczarr.view.plot`.
    place : tuple of int
        Indices of the point whose series is shown.
    projection : str
        Projection of a map; if empty, that of the grid.
    overlay : list of str
        ``contours``, ``vectors`` or both.
    other : str
        FQN of the variable to compare with.

    Examples
    --------
    >>> address = Address("/ocean/temp", {"time": 3}, ("lat", "lon"), place=(2, 5))
    >>> address.to_query()
    {'variable': '/ocean/temp', 'at': 'time=3', 'axes': 'lat,lon', 'place': '2,5'}
    >>> Address.from_query(address.to_query()) == address
    True
    """

    variable: str = ""
    at: dict[str, int] = field(default_factory=dict)
    drawn: tuple[str, ...] = ()
    colours: str = ""
    low: float | None = None
    high: float | None = None
    limits: str = ""
    place: tuple[int, ...] = ()
    projection: str = ""
    overlay: list[str] = field(default_factory=list)
    other: str = ""
    reach: Reach = ""
    progression: Progression = ""

    def to_query(self) -> dict[str, str]:
        """Return the choices as the query parameters of a URL; omit defaults."""
        texts = {
            "variable": self.variable,
            "at": ",".join(f"{quote(name, safe='')}={index}" for name, index in self.at.items()),
            "axes": ",".join(quote(name, safe="") for name in self.drawn),
            "place": ",".join(map(str, self.place)),
            "overlay": ",".join(self.overlay),
        }
        texts |= {name: limit_text(limit) for name, limit in (("low", self.low), ("high", self.high))}
        texts |= {name: getattr(self, name) for name in _WORDS}
        return {name: text for name, text in texts.items() if text}

    def to_search(self) -> str:
        """Return the choices as the query string of a URL, with question mark."""
        return "?" + urlencode(self.to_query(), errors="surrogateescape")

    @classmethod
    def from_search(cls, search: str) -> Address:
        """Parse the query string of a URL; see :meth:`from_query`."""
        return cls.from_query(dict(parse_qsl(search.removeprefix("?"), errors="surrogateescape")))

    @classmethod
    def from_query(cls, texts: Mapping[str, str]) -> Address:
        """Parse the query parameters of a URL; ignore invalid parameters."""

        def words(name: str) -> list[str]:
            return texts.get(name, "").split(",")

        def choice(name: str, *names: str) -> str:
            return texts[name] if texts.get(name) in names else ""

        places = [item.rpartition("=") for item in words("at")]
        return cls(
            texts.get("variable", ""),
            {unquote(name): int(index) for name, _, index in places if name and _is_index(index)},
            tuple(unquote(name) for name in words("axes") if name),
            choice("colours", *MAPS),
            parse_limit(texts.get("low", "")),
            parse_limit(texts.get("high", "")),
            limits=choice("limits", "step", "level"),
            reach=choice("reach", *get_args(Reach)),  # type: ignore[arg-type]
            progression=choice("progression", *get_args(Progression)),  # type: ignore[arg-type]
            place=tuple(map(int, words("place"))) if all(map(_is_index, words("place"))) else (),
            projection=choice("projection", *PROJECTIONS),
            overlay=[name for name in OVERLAYS if name in words("overlay")],
            other=texts.get("other", ""),
        )

    def selection(self, coordinates: Coordinates) -> Hyperslab | None:
        """Return the selection in a dataset; None if the dataset has no such variable."""
        try:
            selection = first_selection(coordinates, self.variable)
        # A link may be older than the dataset that it names.
        except NCZarrError:
            return None
        names = {axis.name: i for i, axis in enumerate(selection.axes)}
        for name in {*self.at} & {*names}:
            selection = selection.moved(names[name], self.at[name])
        drawn = tuple(names[name] for name in self.drawn if name in names)
        if 1 <= len(set(drawn)) == len(drawn) <= 2 and selection.drawn:
            selection = with_drawn(coordinates, selection, drawn)
        return replace(selection, projection=self.projection)


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def limit_text(limit: float | None) -> str:
    """Return a limit as text; empty if there is none."""
    return "" if limit is None else repr(limit)


def parse_limit(text: str) -> float | None:
    """Return a finite number; None if the text is not one."""
    # The URL has whatever a user types into it.
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None
