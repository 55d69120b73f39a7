"""Store the state of the page in its URL, so that a link restores it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlencode

from nczarr.errors import NCZarrError
from nczarr.view.colours import DIVERGING, SEQUENTIAL
from nczarr.view.coordinates import Coordinates
from nczarr.view.opened import OpenedDataset
from nczarr.view.selection import Selection, first_selection, with_drawn


@dataclass
class Address:
    """The state of a page.

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
    per_step : bool
        If True, each step has its own colour limits; if False, all steps have the same limits.
    place : tuple of int
        Indices of the point whose series is shown.

    Examples
    --------
    >>> state = Address("/ocean/temp", {"time": 3}, ("lat", "lon"), place=(2, 5))
    >>> state.to_query()
    {'variable': '/ocean/temp', 'at': 'time=3', 'axes': 'lat,lon', 'place': '2,5'}
    >>> Address.from_query(state.to_query()) == state
    True
    """

    variable: str = ""
    at: dict[str, int] = field(default_factory=dict)
    drawn: tuple[str, ...] = ()
    colours: str = ""
    low: float | None = None
    high: float | None = None
    per_step: bool = False
    place: tuple[int, ...] = ()

    def to_query(self) -> dict[str, str]:
        """Return the state as the query parameters of a URL; omit defaults."""
        query = {
            "variable": self.variable,
            "at": ",".join(f"{quote(name, safe='')}={index}" for name, index in self.at.items()),
            "axes": ",".join(quote(name, safe="") for name in self.drawn),
            "colours": self.colours,
            "low": "" if self.low is None else repr(self.low),
            "high": "" if self.high is None else repr(self.high),
            "limits": "step" if self.per_step else "",
            "place": ",".join(map(str, self.place)),
        }
        return {name: text for name, text in query.items() if text}

    def to_search(self) -> str:
        """Return the state as the query string of a URL, with question mark."""
        return "?" + urlencode(self.to_query(), errors="surrogateescape")

    @classmethod
    def from_search(cls, search: str) -> Address:
        """Parse the query string of a URL; see :meth:`from_query`."""
        return cls.from_query(dict(parse_qsl(search.removeprefix("?"), errors="surrogateescape")))

    @classmethod
    def from_query(cls, texts: Mapping[str, str]) -> Address:
        """Parse the query parameters of a URL; ignore invalid parameters."""
        at = {}
        for item in texts.get("at", "").split(","):
            name, _, index = item.rpartition("=")
            if name and _is_index(index):
                at[unquote(name)] = int(index)
        place = texts.get("place", "").split(",")
        colours = texts.get("colours", "")
        return cls(
            texts.get("variable", ""),
            at,
            tuple(unquote(name) for name in texts.get("axes", "").split(",") if name),
            colours if colours in (*SEQUENTIAL, *DIVERGING) else "",
            _number(texts.get("low")),
            _number(texts.get("high")),
            texts.get("limits") == "step",
            tuple(map(int, place)) if all(map(_is_index, place)) else (),
        )

    def selection(self, opened: OpenedDataset, coordinates: Coordinates) -> Selection | None:
        """Return the selection in a dataset; None if the dataset has no such variable."""
        try:
            selection = first_selection(opened, coordinates, self.variable)
        except NCZarrError:
            return None
        names = {axis.name: i for i, axis in enumerate(selection.axes)}
        for name, index in self.at.items():
            if name in names:
                selection = selection.moved(names[name], index)
        drawn = tuple(names[name] for name in self.drawn if name in names)
        if 1 <= len(set(drawn)) == len(drawn) <= 2 and selection.drawn:
            selection = with_drawn(opened, coordinates, selection, drawn)
        return selection


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None
