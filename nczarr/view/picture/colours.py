"""Choose colours for values: sequential, diverging around zero, or one for each category.

Files and the browser use the same colour maps of matplotlib.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nczarr.model import EnumType, Variable
from nczarr.model.coordinates import text_of

if TYPE_CHECKING:
    from matplotlib.colors import ListedColormap, Normalize

_UNIFORM = ("viridis", "cividis", "plasma", "inferno", "magma", "turbo")
SEQUENTIAL = (*_UNIFORM, "YlGnBu", "YlOrRd", "Blues", "gray")
DIVERGING = ("RdBu_r", "coolwarm", "PuOr_r", "BrBG", "PiYG", "seismic")
#: Colour of missing values: a grey outside of all colour maps except ``gray``.
MISSING = "#d3d3d3"
#: Minimum ratio of the smaller to the larger side of zero for a diverging map.
_TWO_SIDED = 0.25
#: Beyond it, the difference of two limits is infinite for matplotlib.
_LARGEST = 1e307
_COLOURS = 256
_ALWAYS_SIGNED = ("anomal", "difference", "tendency", "velocity", "bias")
_BY_SUBJECT = {
    "precipitation": "YlGnBu", "rainfall": "YlGnBu", "snow": "Blues", "cloud": "gray",
    "temperature": "plasma", "speed": "YlOrRd",
}  # fmt: skip


class Category(NamedTuple):
    """A named value and its colour."""

    value: int
    name: str
    colour: str


@dataclass(frozen=True)
class Colours:
    """A mapping from values to colours.

    Parameters
    ----------
    name : str
        matplotlib's name of the colour map, or ``categories``.
    low, high : float
        The values of the first and the last colour.
    categories : tuple of Category
    """

    name: str
    low: float
    high: float
    categories: tuple[Category, ...] = ()

    @property
    def palette(self) -> list[str]:
        """The colours as ``#rrggbb``."""
        if self.categories:
            return [category.colour for category in self.categories]
        return palette(self.name)

    def for_matplotlib(self) -> tuple[Normalize, ListedColormap]:
        """Return the range of the values and the colours for matplotlib."""
        from matplotlib.colors import ListedColormap, Normalize

        return Normalize(self.low, self.high), ListedColormap(self.palette, bad=MISSING)

    def numbered(self, values: np.ma.MaskedArray) -> np.ma.MaskedArray:
        """Replace values by category numbers and mask values without a category; without categories return `values`."""
        if not self.categories:
            return values
        result = np.ma.array(np.zeros(values.shape, np.int16), mask=True)
        for number, category in enumerate(self.categories):
            result[(values == category.value).filled(False)] = number
        return result

    def adjusted(self, name: str | None, low: float | None, high: float | None) -> Colours:
        """Return the colours with the user's colour map and limits, if any."""
        if self.categories:
            return self
        first = self.low if low is None else _clip(low)
        last = self.high if high is None else _clip(high)
        first, last = _apart(min(first, last), max(first, last))
        return replace(self, name=name or self.name, low=first, high=last)


def palette(name: str, count: int = _COLOURS) -> list[str]:
    """Return the colours of a matplotlib colour map as ``#rrggbb``.

    Examples
    --------
    >>> palette("gray", 2)
    ['#000000', '#ffffff']
    """
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colour) for colour in colormaps[name](np.linspace(0, 1, count))]


def find_categories(variable: Variable) -> tuple[Category, ...]:
    """Return the categories of an enum, or of ``flag_values`` with ``flag_meanings``; empty for other variables.

    Examples
    --------
    >>> from nczarr.model import BYTE
    >>> sky = EnumType("/sky", BYTE, (("clear", 0), ("cloud", 1)))
    >>> [c.name for c in find_categories(Variable("v", sky))]
    ['clear', 'cloud']
    """
    pairs: list[tuple[int, str]] = []
    if isinstance(variable.type, EnumType):
        pairs = [(number, name) for name, number in variable.type.members]
    else:
        flags = variable.attribute.get("flag_values")
        meanings = text_of(variable, "flag_meanings").split()
        # Files may have more meanings than values, in which case none is certain.
        if flags is not None and flags.values.dtype.kind in "iu" and len(flags.values) == len(meanings):
            pairs = [(int(value), name) for value, name in zip(flags.values, meanings)]
    unique = sorted(dict(reversed(pairs)).items())
    count = len(unique)
    colours = ("tab10", 10) if count <= 10 else ("tab20", 20) if count <= 20 else ("turbo", count)
    named = zip(unique, palette(*colours))
    return tuple(Category(value, name, colour) for (value, name), colour in named)


def choose_colours(variable: Variable, values: np.ma.MaskedArray) -> Colours:
    """Choose colours for a variable from its metadata and the drawn values.

    Examples
    --------
    >>> from nczarr.model import FLOAT
    >>> choose_colours(Variable("v", FLOAT), np.ma.array([-2.0, 3.0]))
    Colours(name='RdBu_r', low=-3.0, high=3.0, categories=())
    >>> choose_colours(Variable("v", FLOAT), np.ma.array([-0.1, 3.0])).name
    'viridis'
    """
    categories = find_categories(variable)
    if categories:
        return Colours("categories", -0.5, len(categories) - 0.5, categories)
    present = np.ma.masked_invalid(values, copy=False).compressed() if values.size else np.array([])
    if not present.size:
        return Colours("viridis", 0.0, 1.0)
    low, high = _clip(float(present.min())), _clip(float(present.max()))
    names = (variable.name, *(text_of(variable, name) for name in ("standard_name", "long_name")))
    about = " ".join(names).lower()
    if low < 0 < high:
        signed = any(word in about for word in _ALWAYS_SIGNED)
        if signed or min(-low, high) / max(-low, high) >= _TWO_SIDED:
            end = max(-low, high)
            return Colours("RdBu_r", -end, end)
    name = next((chosen for word, chosen in _BY_SUBJECT.items() if word in about), "viridis")
    return Colours(name, *_apart(low, high))


def _clip(limit: float) -> float:
    """Clip a colour limit to the range in which matplotlib's arithmetic does not overflow."""
    return min(max(limit, -_LARGEST), _LARGEST)


def _apart(low: float, high: float) -> tuple[float, float]:
    # matplotlib divides by the difference of the limits.
    if low < high:
        return low, high
    margin = abs(low) * 1e-6 or 0.5
    return low - margin, high + margin
