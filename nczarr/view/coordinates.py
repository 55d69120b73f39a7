"""Find the coordinates of a variable by the CF conventions: axes, their roles, times, and map coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from nczarr.errors import NCZarrError
from nczarr.model import Variable, join_fqn, split_fqn
from nczarr.view.opened import OpenedDataset, long_name, number_attribute, text_attribute

if TYPE_CHECKING:
    import cftime

#: Calendars whose dates are civil dates.
_CIVIL = {"standard", "gregorian", "proleptic_gregorian"}


@dataclass(frozen=True)
class TimeUnits:
    """Valid units of time, with a calendar.

    Examples
    --------
    >>> units = TimeUnits.parse("days since 2000-01-01", "noleap")
    >>> units.label(59), units.label(59.5)
    ('2000-03-01', '2000-03-01 12:00')
    >>> TimeUnits.parse("m", "") is None
    True
    """

    units: str
    calendar: str

    @classmethod
    def parse(cls, units: str, calendar: str) -> TimeUnits | None:
        """Parse units of time; return None if they are invalid or not units of time."""
        if " since " not in units:
            return None
        result = cls(units, calendar.lower() or "standard")
        try:
            result._date(0.0)
        except (ValueError, TypeError, OverflowError, AttributeError):
            return None
        return result

    def _date(self, number: float) -> cftime.datetime:
        import cftime

        return cftime.num2date(
            number, self.units, self.calendar, only_use_cftime_datetimes=True, only_use_python_datetimes=False
        )

    def label(self, number: float) -> str:
        """Return the date of a number, without the time of day if it is midnight."""
        try:
            date = self._date(float(number))
        except (ValueError, TypeError, OverflowError):
            return f"{number:g}"
        day = f"{date.year:04d}-{date.month:02d}-{date.day:02d}"
        seconds = f":{date.second:02d}" if date.second or date.microsecond else ""
        is_midnight = not (date.hour or date.minute or seconds)
        return day if is_midnight else f"{day} {date.hour:02d}:{date.minute:02d}{seconds}"

    def milliseconds(self, numbers: np.ndarray) -> np.ndarray | None:
        """Return times as milliseconds since 1970 for date axes; None for calendars that are not civil."""
        if self.calendar not in _CIVIL or not numbers.size:
            return None
        import cftime

        low, high = float(numbers.min()), float(numbers.max())
        calendar = "proleptic_gregorian" if self.calendar == "proleptic_gregorian" else "standard"
        try:
            # These calendars are linear in time, except for the days that the Gregorian reform skipped.
            dates = [self._date(low), self._date(high)]
            first, last = map(float, cftime.date2num(dates, "milliseconds since 1970-01-01", calendar))
        except (ValueError, TypeError, OverflowError):
            return None
        return first + (numbers - low) * ((last - first) / ((high - low) or 1.0))


Role = Literal["longitude", "latitude", "time", "vertical", "grid_longitude", "grid_latitude", ""]

_NORTH = {"degrees_north", "degree_north", "degrees_n", "degree_n", "degreesn", "degreen"}
_EAST = {"degrees_east", "degree_east", "degrees_e", "degree_e", "degreese", "degreee"}
_NAMES: dict[str, Role] = {
    "lat": "latitude",
    "latitude": "latitude",
    "nav_lat": "latitude",
    "lon": "longitude",
    "long": "longitude",
    "longitude": "longitude",
    "nav_lon": "longitude",
}
_PRESSURE = {"pa", "hpa", "mbar", "millibar", "bar"}
#: Maximum size of a coordinate to read whole and cache.
_MOST_CACHED = 1_000_000


def role_of(variable: Variable) -> Role:
    """Return the physical role of a coordinate variable; empty if unknown.

    Examples
    --------
    >>> from nczarr.model import Attribute, FLOAT
    >>> role_of(Variable("y", FLOAT, ("/y",), attributes=(Attribute.of("units", "degrees_north"),)))
    'latitude'
    """
    units = text_attribute(variable, "units").lower()
    standard = text_attribute(variable, "standard_name").lower()
    axis = text_attribute(variable, "axis").upper()
    if standard in ("grid_latitude", "grid_longitude"):
        return standard  # type: ignore[return-value]
    if units in _NORTH or standard == "latitude":
        return "latitude"
    if units in _EAST or standard == "longitude":
        return "longitude"
    if " since " in units or standard == "time" or axis == "T":
        return "time"
    if text_attribute(variable, "positive") or axis == "Z" or units in _PRESSURE:
        return "vertical"
    if variable.name.lower() in _NAMES and units in ("", "degrees", "degree"):
        return _NAMES[variable.name.lower()]
    return ""


@dataclass(frozen=True)
class Axis:
    """A dimension of a variable, with its coordinate variable, if any.

    Parameters
    ----------
    name : str
        Name of the dimension; anonymous dimensions are named ``dim0``, ``dim1`` and so on.
    size : int
    coordinate : str or None
        FQN of the coordinate variable.
    role : str
    units : str
    title : str
        Description of the coordinate, such as its ``long_name``.
    times : TimeUnits or None
    down : bool
        True if larger values are lower, as for depth and pressure.
    """

    name: str
    size: int
    coordinate: str | None = None
    role: Role = ""
    units: str = ""
    title: str = ""
    times: TimeUnits | None = None
    down: bool = False

    @property
    def label(self) -> str:
        """Title and units."""
        title = self.title or self.name
        return f"{title} ({self.units})" if self.units and self.times is None else title


class Coordinates:
    """The axes of all variables of a dataset. Coordinates are cached."""

    def __init__(self, opened: OpenedDataset) -> None:
        self._opened = opened
        self._numbers: dict[str, np.ndarray] = {}
        self._texts: dict[str, list[str] | None] = {}

    def axes(self, fqn: str) -> tuple[Axis, ...]:
        """Return the axes of a variable in the order of its dimensions."""
        variable, dataset = self._opened.variable(fqn), self._opened.model
        result: list[Axis] = []
        for number, (ref, size) in enumerate(zip(variable.dimensions, dataset.shape(variable), strict=True)):
            if isinstance(ref, int):
                result.append(Axis(f"dim{number}", size))
                continue
            name = split_fqn(ref)[1]
            if any(axis.name == name for axis in result):  # the variable has the same dimension twice
                result.append(Axis(f"{name}_{number}", size))
                continue
            result.append(self._axis(name, size, self._dimension_coordinate(ref, fqn)))
        return tuple(result)

    def _axis(self, name: str, size: int, coordinate: str | None) -> Axis:
        if coordinate is None:
            return Axis(name, size)
        found = self._opened.variable(coordinate)
        units, positive = text_attribute(found, "units"), text_attribute(found, "positive").lower()
        role = role_of(found)
        is_pressure = role == "vertical" and units.lower() in _PRESSURE
        times = TimeUnits.parse(units, text_attribute(found, "calendar"))
        down = positive == "down" if positive else is_pressure
        return Axis(name, size, coordinate, role, units, long_name(found), times, down)

    def _dimension_coordinate(self, ref: str, fqn: str) -> str | None:
        """Return the coordinate variable of a dimension, or its only auxiliary coordinate; None if there is none."""
        variables = self._opened.model.all_variables
        found = variables.get(ref)
        if ref == fqn:
            return None
        if found is not None and found.dimensions == (ref,):
            return ref
        others = [c for c in self.auxiliary(fqn) if variables[c].dimensions == (ref,) and c != fqn]
        times = [c for c in others if role_of(variables[c]) == "time"]
        return (times or others)[0] if times or len(others) == 1 else None

    def auxiliary(self, fqn: str) -> list[str]:
        """Return the FQNs of the variables in the attribute ``coordinates``."""
        text = text_attribute(self._opened.variable(fqn), "coordinates")
        found = (self._look_up(name, fqn) for name in text.split())
        return list(dict.fromkeys(at for at in found if at is not None))

    def _look_up(self, name: str, fqn: str) -> str | None:
        """Return the FQN of a variable by its FQN, or by its simple name from the group of `fqn` upwards."""
        variables = self._opened.model.all_variables
        if name.startswith("/"):
            return name if name in variables else None
        group = fqn
        while group != "/":
            group = split_fqn(group)[0]
            if (at := join_fqn(group, name)) in variables:
                return at
        return None

    def grid_mapping(self, fqn: str) -> Variable | None:
        """Return the grid mapping variable of a variable; None if there is none."""
        name = text_attribute(self._opened.variable(fqn), "grid_mapping").split(":")[0].strip()
        found = self._look_up(name, fqn) if name else None
        return None if found is None else self._opened.variable(found)

    def numbers(self, axis: Axis, part: slice = slice(None)) -> np.ndarray | None:
        """Return the values of an axis' numeric coordinate; None without coordinate, or if values are missing."""
        if axis.coordinate is None:
            return None
        known = self._numbers.get(axis.coordinate)
        if known is None:
            variable = self._opened.variable(axis.coordinate)
            if variable.type.dtype.kind not in "iuf":
                return None
            whole = axis.size <= _MOST_CACHED
            try:
                read = self._opened.read(axis.coordinate, slice(None) if whole else part)
            except NCZarrError:
                return None
            if np.ma.is_masked(read):
                return None
            numbers = np.asarray(read, np.float64)
            if numbers.ndim != 1 or not np.isfinite(numbers).all():
                return None
            if not whole:
                return numbers
            known = self._numbers[axis.coordinate] = numbers
        return known[part]

    def texts(self, axis: Axis) -> list[str] | None:
        """Return the values of a string coordinate, such as names of regions; None for other axes."""
        if axis.coordinate is None or axis.size > 10_000:
            return None
        if axis.coordinate not in self._texts:
            variable = self._opened.variable(axis.coordinate)
            texts = None
            if variable.type.name == "string":
                texts = [str(v) for v in self._opened.read(axis.coordinate, slice(None)).tolist()]
            self._texts[axis.coordinate] = texts
        return self._texts[axis.coordinate]

    def label(self, axis: Axis, index: int) -> str:
        """Return the label of an index: a date, a number with units, a string, or the index itself."""
        texts = self.texts(axis)
        if texts is not None:
            return texts[index]
        numbers = self.numbers(axis, slice(index, index + 1))
        if numbers is None:
            return str(index)
        number = float(numbers[0])
        if axis.times is not None:
            return axis.times.label(number)
        ends = {"latitude": "SN", "longitude": "WE"}.get(axis.role)
        if ends is not None:
            if axis.role == "longitude":
                number = (number + 180) % 360 - 180
            return f"{abs(number):g}°{ends[number > 0] if number else ''}"
        return f"{number:g} {axis.units}".rstrip()


@dataclass(frozen=True)
class Geography:
    """The geographic coordinates of a variable.

    Parameters
    ----------
    kind : {'rectilinear', 'curvilinear', 'rotated', 'points'}
    axes : tuple of int
        Axis numbers: (y, x), or a single axis for ``points``.
    latitude, longitude : str
        FQNs of the coordinate variables.
    pole : tuple of float
        For ``rotated``: latitude and longitude of the grid's north pole, and the grid longitude of the north pole.
    """

    kind: Literal["rectilinear", "curvilinear", "rotated", "points"]
    axes: tuple[int, ...]
    latitude: str
    longitude: str
    pole: tuple[float, float, float] = (90.0, 180.0, 0.0)


def find_geography(opened: OpenedDataset, coordinates: Coordinates, fqn: str) -> Geography | None:
    """Find the geographic coordinates of a variable; return None if it has none."""
    axes = coordinates.axes(fqn)
    roles = [axis.role for axis in axes]
    if "latitude" in roles and "longitude" in roles:
        y, x = roles.index("latitude"), roles.index("longitude")
        latitude, longitude = axes[y].coordinate, axes[x].coordinate
        if latitude and longitude and y != x:
            return Geography("rectilinear", (y, x), latitude, longitude)
    found: dict[str, str] = {}
    for at in coordinates.auxiliary(fqn) or _unnamed(opened, fqn):
        found.setdefault(role_of(opened.variable(at)), at)
    if "latitude" in found and "longitude" in found:
        dimensions = opened.variable(fqn).dimensions
        places = opened.variable(found["latitude"]).dimensions
        same = places == opened.variable(found["longitude"]).dimensions
        if same and places and set(places) <= set(dimensions) and len(set(dimensions)) == len(dimensions):
            numbers = tuple(dimensions.index(p) for p in places)
            if len(numbers) <= 2:
                kind: Literal["points", "curvilinear"] = "points" if len(numbers) == 1 else "curvilinear"
                return Geography(kind, numbers, found["latitude"], found["longitude"])
    if "grid_latitude" in roles and "grid_longitude" in roles:
        mapping = coordinates.grid_mapping(fqn)
        y, x = roles.index("grid_latitude"), roles.index("grid_longitude")
        latitude, longitude = axes[y].coordinate, axes[x].coordinate
        if mapping is not None and latitude and longitude:
            pole = (
                number_attribute(mapping, "grid_north_pole_latitude", 90.0),
                number_attribute(mapping, "grid_north_pole_longitude", 180.0),
                number_attribute(mapping, "north_pole_grid_longitude", 0.0),
            )
            return Geography("rotated", (y, x), latitude, longitude, pole)
    return None


def _unnamed(opened: OpenedDataset, fqn: str) -> list[str]:
    """Return candidates for coordinates without the attribute ``coordinates``: 2-D variables on the same dimensions."""
    group = split_fqn(fqn)[0]
    dimensions = set(opened.variable(fqn).dimensions)
    return [
        at
        for at, variable in opened.model.all_variables.items()
        if at != fqn
        and len(variable.dimensions) == 2
        and set(variable.dimensions) <= dimensions
        and split_fqn(at)[0] in (group, "/")
    ]
