"""Hold the state of the page, and store it in the page's URL, so that a link restores it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, quote, unquote, urlencode

import numpy as np

from nczarr.errors import NCZarrError
from nczarr.view.coordinates import Coordinates
from nczarr.view.opened import OpenedDataset
from nczarr.view.picture.colours import DIVERGING, SEQUENTIAL, Colours, adjust_colours, choose_colours
from nczarr.view.picture.drawer import Spread
from nczarr.view.picture.drawings import Drawing
from nczarr.view.picture.selection import Selection, first_selection, with_drawn
from nczarr.view.planes import PROJECTIONS

#: Lines above a picture.
OVERLAYS = ("contours", "vectors")


@dataclass
class Address:
    """The part of the state that the URL stores.

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
    projection : str
        Projection of a map; if empty, that of the grid.
    overlay : tuple of str
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
    per_step: bool = False
    place: tuple[int, ...] = ()
    projection: str = ""
    overlay: tuple[str, ...] = ()
    other: str = ""

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
            "projection": self.projection,
            "overlay": ",".join(self.overlay),
            "other": self.other,
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
        colours, projection = texts.get("colours", ""), texts.get("projection", "")
        return cls(
            texts.get("variable", ""),
            at,
            tuple(unquote(name) for name in texts.get("axes", "").split(",") if name),
            colours if colours in (*SEQUENTIAL, *DIVERGING) else "",
            parse_limit(texts.get("low", "")),
            parse_limit(texts.get("high", "")),
            texts.get("limits") == "step",
            tuple(map(int, place)) if all(map(_is_index, place)) else (),
            projection if projection in PROJECTIONS else "",
            tuple(o for o in OVERLAYS if o in texts.get("overlay", "").split(",")),
            texts.get("other", ""),
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
        return replace(selection, projection=self.projection)


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def parse_limit(text: str) -> float | None:
    """Return a finite number; None if the text is not one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None


@dataclass
class State:
    """The state of a page: the variable and the axes that the user chose, and the drawing made of them.

    Parameters
    ----------
    address : Address
        The user's choices, in the form that the URL stores.
    selection : Selection or None
        None until a variable is shown.
    drawing : Drawing or None
        The newest complete drawing; it is older than `selection` while the next one is made.
    spread : Spread or None
        Minimum and maximum of all steps of `drawing`.
    colours : Colours
        Colours of `drawing`.
    """

    address: Address = field(default_factory=Address)
    selection: Selection | None = None
    drawing: Drawing | None = None
    spread: Spread | None = None
    colours: Colours = field(default_factory=lambda: Colours("viridis", 0, 1))

    @property
    def fqn(self) -> str:
        """The FQN of the selected variable; empty if there is none."""
        return self.selection.fqn if self.selection else ""

    @property
    def is_sampled(self) -> bool:
        """True if the colours have limits of all steps, and not all steps were read."""
        spread = self.spread
        return not (spread is None or spread.is_whole or self.address.per_step or self.colours.categories)

    def choose_colours(self, opened: OpenedDataset) -> None:
        """Set the colours of the drawing, with the limits of all steps or of this step, as the user chose."""
        assert self.drawing is not None
        values = self.limits_of(self.drawing, self.spread)
        chosen = choose_colours(opened.variable(self.drawing.selection.fqn), values)
        self.colours = adjust_colours(
            chosen, self.address.colours or None, self.address.low, self.address.high
        )

    def limits_of(self, drawing: Drawing, spread: Spread | None) -> np.ma.MaskedArray:
        """Return the values that the colours of a drawing cover."""
        if spread is None or self.address.per_step:
            return drawing.sample
        return np.ma.array([spread.low, spread.high])

    def to_search(self, opened: OpenedDataset, coordinates: Coordinates) -> str:
        """Store the selection in the address, and return it as the query string of a URL."""
        selection, address = self.selection, self.address
        assert selection is not None
        axes = selection.axes
        address.variable = selection.fqn
        address.at = {axes[i].name: selection.at[i] for i in selection.fixed if selection.at[i]}
        is_first = selection.drawn == first_selection(opened, coordinates, selection.fqn).drawn
        address.drawn = () if is_first else tuple(axes[i].name for i in selection.drawn)
        return address.to_search()
