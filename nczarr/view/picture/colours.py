"""Choose colours for values: sequential, diverging around zero, cyclic, or one for each category.

Files and the browser use the same colour maps: those of matplotlib and, by subject, of cmocean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from nczarr.model import EnumType, Variable
from nczarr.model.coordinates import text_of

if TYPE_CHECKING:
    from matplotlib.colors import ListedColormap, Normalize

_UNIFORM = ("viridis", "cividis", "plasma", "inferno", "magma", "turbo")
_OF_SUBJECTS = (
    "cmo.thermal", "cmo.haline", "cmo.deep", "cmo.dense", "cmo.algae", "cmo.oxy", "cmo.matter", "cmo.turbid", "cmo.ice",
    "cmo.solar", "cmo.speed", "cmo.rain", "cmo.topo",
)  # fmt: skip
SEQUENTIAL = (*_UNIFORM, "YlGnBu", "YlOrRd", "Blues", "gray", *_OF_SUBJECTS)
DIVERGING = ("RdBu_r", "coolwarm", "PuOr_r", "BrBG", "PiYG", "seismic", "cmo.balance", "cmo.curl")
CYCLIC = ("cmo.phase", "twilight")
#: All colour maps that the page offers.
MAPS = (*SEQUENTIAL, *DIVERGING, *CYCLIC)
#: Colour of missing values: a grey outside of all colour maps except ``gray``.
MISSING = "#d3d3d3"
#: Minimum ratio of the smaller to the larger side of zero for a diverging map.
_TWO_SIDED = 0.25
#: Beyond it, the difference of two limits is infinite for matplotlib.
_LARGEST = 1e307
_COLOURS = 256
#: Percentiles of robust limits, as in xarray; how much wider all values are where one of them spoils the picture.
_ROBUST, _SPOILT = (2.0, 98.0), 50.0
#: Ratio of robust limits from which concentrations have a logarithmic scale.
_MANY_DECADES = 100.0
_ANOMALY = re.compile("anomal|departure|difference|bias")
_SIGNED = re.compile(f"{_ANOMALY.pattern}|tendency|velocity|vorticity|divergence")
_CYCLIC = re.compile("(^|[_ ])(direction|phase|azimuth)|(^|[_ ])dir($|[_ 0-9])|dir$")
_CONCENTRATION = re.compile(
    "chlorophyll|(^|[_ ])chl(or)?_?a?($|[_ ])|phytoplankton|turbidity|particle_number"
)
#: Parts of names and the colour map of their subject; the first that fits counts.
_BY_SUBJECT = {
    "precipitation": "cmo.rain", "rainfall": "cmo.rain", "snow": "Blues", "cloud": "gray", "sea_ice": "cmo.ice",
    "temperature": "cmo.thermal", "salinity": "cmo.haline", "chlorophyll": "cmo.algae", "phytoplankton": "cmo.algae",
    "oxygen": "cmo.oxy", "turbidity": "cmo.turbid", "bathymetry": "cmo.deep", "sea_floor_depth": "cmo.deep",
    "sea_water_density": "cmo.dense", "solar": "cmo.solar", "shortwave": "cmo.solar", "speed": "cmo.speed",
}  # fmt: skip
_TEMPERATURE = re.compile("k|kelvin|°?c|°?f|deg(ree)?s?_?(c|f|k)(elsius|ahrenheit|elvin)?|celsius|fahrenheit")
#: Which values the limits of the colours take in: by the values, all, or those between two percentiles.
Reach = Literal["", "whole", "robust"]
#: On which sides values are beyond the limits.
Beyond = Literal["neither", "min", "max", "both"]
#: The steps of the colours: by the subject, equal differences, or equal ratios.
Progression = Literal["", "linear", "log"]


class Range(NamedTuple):
    """How far values reach.

    Parameters
    ----------
    low, high : float
        Minimum and maximum.
    first, last : float
        The second and the 98th percentile.
    least : float
        The smallest value above zero; 0 if there is none.
    """

    low: float
    high: float
    first: float
    last: float
    least: float

    @classmethod
    def of(cls, values: np.ma.MaskedArray) -> Range | None:
        """Return the range of the present values; None if all are missing.

        Examples
        --------
        >>> Range.of(np.ma.array([1.0, 2.0, -1.0]))[:2], Range.of(np.ma.array([np.nan]))
        ((-1.0, 2.0), None)
        """
        present = np.ma.masked_invalid(values, copy=False).compressed() if values.size else np.array([])
        if not present.size:
            return None
        # A percentile between the largest numbers of a type would overflow.
        numbers = np.clip(present.astype(np.float64), -_LARGEST, _LARGEST)
        first, last = (float(n) for n in np.percentile(numbers, _ROBUST))
        above = numbers[numbers > 0]
        least = float(above.min()) if above.size else 0.0
        return cls(float(numbers.min()), float(numbers.max()), first, last, least)

    def joined(self, other: Range) -> Range:
        """Return the range of two parts; its percentiles are the outer ones of the parts."""
        least = min((n for n in (self.least, other.least) if n > 0), default=0.0)
        ends = (min(self.low, other.low), max(self.high, other.high))
        return Range(*ends, min(self.first, other.first), max(self.last, other.last), least)

    def beyond(self, low: float, high: float) -> Beyond:
        """Return on which sides values are beyond limits."""
        below, above = self.low < low, self.high > high
        return "both" if below and above else "min" if below else "max" if above else "neither"

    @property
    def is_spoilt(self) -> bool:
        """True if a few values are so far from the others that all those would have one colour."""
        return self.last > self.first and self.high - self.low > _SPOILT * (self.last - self.first)


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
    is_log : bool
        True if equal ratios, not equal differences, have equal steps of colour.
    beyond : {'neither', 'min', 'max', 'both'}
        Where values are beyond the limits.
    """

    name: str
    low: float
    high: float
    categories: tuple[Category, ...] = ()
    is_log: bool = False
    beyond: Beyond = "neither"

    @property
    def palette(self) -> list[str]:
        """The colours as ``#rrggbb``."""
        if self.categories:
            return [category.colour for category in self.categories]
        return palette(self.name)

    def for_matplotlib(self) -> tuple[Normalize, ListedColormap]:
        """Return the range of the values and the colours for matplotlib."""
        from matplotlib.colors import ListedColormap, LogNorm, Normalize

        norm = (LogNorm if self.is_log else Normalize)(self.low, self.high)
        return norm, ListedColormap(self.palette, bad=MISSING)

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
        # A logarithm has no zero.
        is_log = self.is_log and first > 0
        return replace(self, name=name or self.name, low=first, high=last, is_log=is_log)


def palette(name: str, count: int = _COLOURS) -> list[str]:
    """Return the colours of a colour map as ``#rrggbb``.

    Examples
    --------
    >>> palette("gray", 2), palette("cmo.thermal", 2)
    (['#000000', '#ffffff'], ['#042333', '#e8fa5b'])
    """
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap, to_hex

    of_subjects = _tables()
    found = ListedColormap(np.loadtxt(of_subjects[name])) if name in of_subjects else colormaps[name]
    return [to_hex(colour) for colour in found(np.linspace(0, 1, count))]


def colour_maps() -> list[str]:
    """Return the names of the colour maps of matplotlib and cmocean.

    Raises
    ------
    ImportError
        If one of these packages is not installed.

    Examples
    --------
    >>> {"viridis", "cmo.thermal"} <= {*colour_maps()}
    True
    """
    from matplotlib import colormaps

    return [*colormaps, *_tables()]


@cache
def _tables() -> dict[str, Path]:
    """Return the files of cmocean's colours, by the names that cmocean gives to matplotlib.

    Its import registers all maps by calls that matplotlib has deprecated; the tables are data.
    """
    found = find_spec("cmocean")
    if found is None or found.origin is None:
        raise ImportError("cmocean is not installed")
    tables = sorted(Path(found.origin).parent.glob("rgb/*-rgb.txt"))
    return {f"cmo.{path.name.removesuffix('-rgb.txt')}": path for path in tables}


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


def choose_colours(
    variable: Variable, values: np.ma.MaskedArray | Range, reach: Reach = "", progression: Progression = ""
) -> Colours:
    """Choose colours for a variable from its metadata and the drawn values.

    Parameters
    ----------
    variable : Variable
    values : MaskedArray or Range
    reach : {'', 'whole', 'robust'}
        Which values are between the limits: all, or those between the second and the 98th percentile; by default all,
        but where a few are so far from the others that these would have one colour.
    progression : {'', 'linear', 'log'}
        By default logarithmic for concentrations, such as chlorophyll, over two decades and more.

    Examples
    --------
    >>> from nczarr.model import FLOAT
    >>> choose_colours(Variable("v", FLOAT), np.ma.array([-2.0, 3.0]))
    Colours(name='RdBu_r', low=-3.0, high=3.0, categories=(), is_log=False, beyond='neither')
    >>> choose_colours(Variable("v", FLOAT), np.ma.array([-0.1, 3.0])).name
    'viridis'
    """
    categories = find_categories(variable)
    if categories:
        return Colours("categories", -0.5, len(categories) - 0.5, categories)
    found = values if isinstance(values, Range) else Range.of(values)
    if found is None:
        return Colours("viridis", 0.0, 1.0)
    names = (variable.name, *(text_of(variable, name) for name in ("standard_name", "long_name")))
    about, units = " ".join(names).lower(), text_of(variable, "units").lower()
    if _is_direction(about, units, found):
        return Colours(CYCLIC[0], *((-180.0, 180.0) if found.low < 0 and found.high <= 180 else (0.0, 360.0)))
    is_robust = reach == "robust" or (not reach and found.is_spoilt)
    low, high = (found.first, found.last) if is_robust and found.first < found.last else found[:2]
    colours = replace(_by_subject(about, units, low, high), beyond=found.beyond(low, high))
    if found.least > 0 and (progression == "log" or (not progression and _is_concentration(about, found))):
        end = max(high, 10 * found.least)
        return replace(colours, name=_sequential(about), low=max(low, found.least), high=end, is_log=True)
    return colours


def _is_direction(about: str, units: str, found: Range) -> bool:
    """Return True for angles, of which the first and the last are the same."""
    is_in_degrees = found.low >= -360 and found.high <= 360 and (found.high > 7 or "deg" in units)
    return is_in_degrees and _CYCLIC.search(about) is not None


def _is_concentration(about: str, found: Range) -> bool:
    is_wide = found.low >= 0 and found.last > _MANY_DECADES * max(found.first, found.least)
    return is_wide and _CONCENTRATION.search(about) is not None


def _by_subject(about: str, units: str, low: float, high: float) -> Colours:
    """Return the colours of a subject between limits: around zero where that is the middle, else sequential."""
    signed = _ANOMALY.search(about) is not None or (low < 0 < high and _SIGNED.search(about) is not None)
    # Zero degrees Celsius is no middle of temperatures.
    is_temperature = "temp" in about and _TEMPERATURE.fullmatch(units.replace(" ", "")) is not None
    sides = min(-low, high) / max(-low, high) if low < 0 < high else 0.0
    if signed or (sides >= _TWO_SIDED and not is_temperature):
        end = max(abs(low), abs(high)) or 1.0
        return Colours("RdBu_r", -end, end)
    return Colours(_sequential(about), *_apart(low, high))


def _sequential(about: str) -> str:
    return next((name for part, name in _BY_SUBJECT.items() if part in about.replace(" ", "_")), "viridis")


def _clip(limit: float) -> float:
    """Clip a colour limit to the range in which matplotlib's arithmetic does not overflow."""
    return min(max(limit, -_LARGEST), _LARGEST)


def _apart(low: float, high: float) -> tuple[float, float]:
    # matplotlib divides by the difference of the limits.
    if low < high:
        return low, high
    margin = abs(low) * 1e-6 or 0.5
    return low - margin, high + margin
