"""Find the coordinates of a variable by the CF conventions: axes, their roles, times, and map coordinates."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from nczarr.convert.change.nodes import find_variable
from nczarr.errors import NCZarrError
from nczarr.model import CHAR, STRING, Variable, join_fqn, split_fqn
from nczarr.model.coordinates import text_of
from nczarr.model.stored_form import number_of
from nczarr.view.opened import OpenedDataset, joined_characters, long_name
from nczarr.view.planes import Plane

if TYPE_CHECKING:
    import cftime

#: Calendars whose dates are civil dates.
_CIVIL = {"standard", "gregorian", "proleptic_gregorian"}
#: Ticks along an axis of dates that are not civil.
_MOST_TICKS = 8
#: Units that count calendar months.
_MONTHS = {"month": 1, "year": 12}


@dataclass(frozen=True)
class TimeLabels:
    """Valid units of time, with a calendar.

    Months and years are those of the calendar; a fraction is a part of its month.

    Examples
    --------
    >>> units = TimeLabels.parse("days since 2000-01-01", "noleap")
    >>> units.label(59), units.label(59.5)
    ('2000-03-01', '2000-03-01 12:00')
    >>> TimeLabels.parse("months since 2000-01-01", "").label(13.5)
    '2001-02-15'
    >>> TimeLabels.parse("m", "") is None
    True
    """

    units: str
    calendar: str

    @classmethod
    def parse(cls, units: str, calendar: str) -> TimeLabels | None:
        """Parse units of time; return None if they are invalid or not units of time."""
        result = cls(units, calendar.lower() or "standard")
        try:
            result._date(0.0)
        # cftime raises each of these for wrong units.
        except (ValueError, TypeError, OverflowError, AttributeError):
            return None
        return result

    @property
    def _months(self) -> int:
        """Months of one unit; 0 if the units have a fixed length."""
        return _MONTHS.get(self.units.partition(" since ")[0].strip().lower().removesuffix("s"), 0)

    def _date(self, count: float) -> cftime.datetime:
        import cftime

        base = self.units.partition(" since ")[2]
        with warnings.catch_warnings(action="ignore", category=cftime.CFWarning):
            # A reference year 0, as in climatologies, has no place in the standard calendar without this option.
            options = {
                "has_year_zero": True if re.match(r"\s*0+-", base) else None,
                "only_use_cftime_datetimes": True,
            }
            number, units = (0.0, f"days since {base}") if self._months else (count, self.units)
            first = cftime.num2date(number, units, self.calendar, only_use_python_datetimes=False, **options)
        if not self._months:
            return first

        def after(months: int) -> cftime.datetime:
            year, month = divmod(first.year * 12 + first.month - 1 + months, 12)
            begin = first.replace(year=year, month=month + 1, day=1)
            return begin.replace(day=min(first.day, begin.daysinmonth))

        whole = int(np.floor(count * self._months))
        return after(whole) + (after(whole + 1) - after(whole)) * (count * self._months - whole)

    def label(self, number: float) -> str:
        """Return the date of a number, without the time of day if it is midnight."""
        try:
            date = self._date(float(number))
        except (ValueError, TypeError, OverflowError):
            return f"{number:g}"
        is_precise = bool(date.second or date.microsecond)
        return _shown_date(date, "seconds" if is_precise else "minutes").removesuffix(" 00:00")

    def ticks(self, numbers: np.ndarray) -> tuple[tuple[float, str], ...]:
        """Return positions and names of ticks along times: the beginnings of years, months, days or hours.

        Examples
        --------
        >>> TimeLabels.parse("days since 0009-01-01", "360_day").ticks(np.array([0.0, 7200.0]))[:3]
        ((0.0, '0009'), (1080.0, '0012'), (2160.0, '0015'))
        """
        import cftime
        from nc_time_axis import NetCDFTimeDateLocator

        ends = np.unique(numbers if self._months else [numbers.min(), numbers.max()])
        try:
            dates = [self._date(float(n)) for n in ends]
            since = "days since 2000-01-01"
            days = np.asarray(cftime.date2num(dates, since, dates[0].calendar), float)
            locator = NetCDFTimeDateLocator(_MOST_TICKS, dates[0].calendar)
            found = [
                d for d in map(float, locator.tick_values(days[0], days[-1])) if days[0] <= d <= days[-1]
            ]
            named = cftime.num2date(found, since, dates[0].calendar) if found else ()
        # Years beyond what cftime knows, and a single time, have the names of their times.
        except (ValueError, TypeError, OverflowError, ZeroDivisionError):
            found = []
        if len(found) < 2:
            every = max(len(numbers) // _MOST_TICKS, 1)
            return tuple((float(n), self.label(n)) for n in numbers[::every])
        texts = [_shown_date(date) for date in named]
        for tail in (" 00:00", "-01", "-01"):  # midnights, first days, first months
            if all(text.endswith(tail) for text in texts):
                texts = [text.removesuffix(tail) for text in texts]
            else:
                break
        return tuple(zip((float(n) for n in np.interp(found, days, ends)), texts, strict=True))

    def milliseconds(self, numbers: np.ndarray) -> np.ndarray | None:
        """Return times as milliseconds since 1970 for date axes; None for calendars that are not civil."""
        # Axes of dates in Bokeh and matplotlib know the civil calendar only.
        if self.calendar not in _CIVIL or not numbers.size:
            return None
        import cftime

        # These calendars are linear in time, except for the days that the Gregorian reform skipped.
        known = np.unique(numbers if self._months else [numbers.min(), numbers.max()])
        calendar = "proleptic_gregorian" if self.calendar == "proleptic_gregorian" else "standard"
        try:
            dates = [self._date(float(n)) for n in known]
            with warnings.catch_warnings(action="ignore", category=cftime.CFWarning):
                found = cftime.date2num(dates, "milliseconds since 1970-01-01", calendar)
        except (ValueError, TypeError, OverflowError):
            return None
        return np.interp(numbers, known, np.asarray(found, np.float64))


def _shown_date(date: cftime.datetime, precision: str = "minutes") -> str:
    return str(date.isoformat(sep=" ", timespec=precision))


Role = Literal["longitude", "latitude", "time", "vertical", "x", "y", ""]

_PRESSURE = "(h|k|m|d|hecto|kilo|milli|deci)?(pa|pascals?|bars?)|mbs?"
#: Standard names of levels, which files often write without ``positive`` and ``axis``.
_DEPTHS = "depth(_below_.+)?|sea_water_pressure(_due_to_sea_water)?|air_pressure"
_HEIGHTS = "height(_above_.+)?|altitude|geopotential_height"
_LEVELS = f"{_DEPTHS}|{_HEIGHTS}|(atmosphere|ocean)_.+_coordinate|model_level_number"
#: Attributes, patterns of their values, and the role of a variable with one; the first that fits counts.
_ROLES: tuple[tuple[str, str, Role], ...] = (
    ("standard_name", "grid_longitude|projection_x_(angular_)?coordinate", "x"),
    ("standard_name", "grid_latitude|projection_y_(angular_)?coordinate", "y"),
    ("units", "degrees?_?n(orth)?", "latitude"), ("standard_name", "latitude", "latitude"),
    ("units", "degrees?_?e(ast)?", "longitude"), ("standard_name", "longitude", "longitude"),
    ("units", ".* since .*", "time"), ("standard_name", "time", "time"), ("axis", "t", "time"),
    ("positive", ".+", "vertical"), ("axis", "z", "vertical"), ("units", _PRESSURE, "vertical"),
    ("standard_name", _LEVELS, "vertical"),
)  # fmt: skip
_BY_NAME: dict[str, Role] = {
    "lat": "latitude", "latitude": "latitude", "nav_lat": "latitude",
    "lon": "longitude", "long": "longitude", "longitude": "longitude", "nav_lon": "longitude",
}  # fmt: skip
_LENGTHS = {"m", "meter", "meters", "metre", "metres", "km", "cm", "dm"}
_LEVEL_NAMES = {"depth", "height", "altitude"}
#: The role of the axis along which the values of a feature are drawn.
FEATURES: dict[str, Role] = {
    "timeseries": "time", "profile": "vertical", "timeseriesprofile": "vertical", "trajectoryprofile": "vertical",
}  # fmt: skip
#: Variables whose values tell from which instrument each value of a series is.
_INSTRUMENT = re.compile("station|instrument|platform|sensor|buoy", re.IGNORECASE)
_MOST_INSTRUMENTS = 50
#: Maximum size of a coordinate to read whole and cache, and of one with texts.
_MOST_CACHED, _MOST_TEXTS = 1_000_000, 10_000


def role_of(variable: Variable) -> Role:
    """Return the physical role of a coordinate variable; empty if unknown.

    Examples
    --------
    >>> from nczarr.model import Attribute, FLOAT
    >>> role_of(Variable("y", FLOAT, ("/y",), attributes=(Attribute.of("units", "degrees_north"),)))
    'latitude'
    """
    for name, pattern, role in _ROLES:
        if re.fullmatch(pattern, text_of(variable, name).lower()):
            return role
    # Many files say degrees for both axes: their names tell them apart.
    if text_of(variable, "units") in ("", "degrees", "degree") and variable.name.lower() in _BY_NAME:
        return _BY_NAME[variable.name.lower()]
    if text_of(variable, "units").lower() in _LENGTHS and variable.name.lower() in _LEVEL_NAMES:
        return "vertical"
    axis = text_of(variable, "axis").lower()
    return "x" if axis == "x" else "y" if axis == "y" else ""


def _is_down(variable: Variable) -> bool:
    """Return True if larger values of a vertical coordinate are lower."""
    positive = text_of(variable, "positive").lower()
    if positive:
        return positive == "down"
    names = text_of(variable, "standard_name").lower() or variable.name.lower()
    is_deep = re.fullmatch(_DEPTHS, names) is not None
    return is_deep or re.fullmatch(_PRESSURE, text_of(variable, "units").lower()) is not None


def _is_largest_at_surface(variable: Variable) -> bool:
    """Return True for levels of the air that grow downwards: pressure, and the hybrid levels of models.

    The surface of the sea is at the smallest pressure, which its files give in decibars.
    """
    units, standard = text_of(variable, "units").lower(), text_of(variable, "standard_name").lower()
    is_of_sea = standard.startswith(("sea_water", "depth", "ocean")) or units in (
        "dbar",
        "decibar",
        "decibars",
    )
    is_of_air = re.fullmatch(_PRESSURE, units) is not None or standard.startswith("atmosphere_")
    return is_of_air and not is_of_sea and _is_down(variable)


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
    times : TimeLabels or None
    down : bool
        True if larger values are lower, as for depth and pressure.
    largest_at_surface : bool
        True if the surface has the largest value, as for pressure of the air; else that nearest to zero.
    """

    name: str
    size: int
    coordinate: str | None = None
    role: Role = ""
    units: str = ""
    title: str = ""
    times: TimeLabels | None = None
    down: bool = False
    largest_at_surface: bool = False

    @property
    def label(self) -> str:
        """Title and units."""
        title = self.title or self.name
        return f"{title} ({self.units})" if self.units not in ("", "1") and self.times is None else title


@dataclass(frozen=True)
class Geography:
    """The places of a variable on the globe.

    Parameters
    ----------
    kind : {'axes', 'points', 'mesh'}
        Two axes of a plane; a latitude and a longitude for each value; polygons.
    axes : tuple of int
        Axis numbers: (y, x), or a single axis.
    latitude, longitude : str
        FQNs of the coordinate variables; of y and x in the plane of a grid mapping; of the nodes of a mesh.
    plane : str
        Definition of the plane of the axes; empty for latitudes and longitudes.
    unit : float
        Factor from the units of the axes to those of the plane.
    faces : str
        FQN of the nodes of each face of a mesh.
    on_nodes : bool
        True if the values are on the nodes of the mesh.
    """

    kind: Literal["axes", "points", "mesh"]
    axes: tuple[int, ...]
    latitude: str
    longitude: str
    plane: str = ""
    unit: float = 1.0
    faces: str = ""
    on_nodes: bool = False


class Coordinates:
    """The axes of all variables of a dataset. Coordinates are cached."""

    def __init__(self, opened: OpenedDataset) -> None:
        self.opened = opened
        self._variables = opened.model.all_variables
        self._numbers: dict[str, np.ndarray] = {}
        self.texts = cache(self._texts)
        self.geography = cache(self._geography)
        self._plane = cache(self._plane_of)

    def axes(self, fqn: str) -> tuple[Axis, ...]:
        """Return the axes of a variable in the order of its dimensions."""
        variable = self.opened.variable(fqn)
        result: list[Axis] = []
        for number, (ref, size) in enumerate(
            zip(variable.dimensions, self.opened.shape_of(fqn), strict=True)
        ):
            name = split_fqn(ref)[1] if isinstance(ref, str) else f"dim{number}"
            if any(axis.name == name for axis in result):  # the variable has the same dimension twice
                result.append(Axis(f"{name}_{number}", size))
            else:
                at = self._dimension_coordinate(ref, fqn) if isinstance(ref, str) else None
                result.append(Axis(name, size) if at is None else self._axis(name, size, at))
        return tuple(result)

    def _axis(self, name: str, size: int, coordinate: str) -> Axis:
        found = self.opened.variable(coordinate)
        units, role = text_of(found, "units"), role_of(found)
        times = TimeLabels.parse(units, text_of(found, "calendar")) if " since " in units else None
        is_level = role == "vertical"
        ends = (is_level and _is_down(found), is_level and _is_largest_at_surface(found))
        return Axis(name, size, coordinate, role, units, long_name(found), times, *ends)

    def _dimension_coordinate(self, ref: str, fqn: str) -> str | None:
        """Return the coordinate variable of a dimension, or its only auxiliary coordinate; None if there is none."""
        if ref == fqn or (ref in self._variables and self._variables[ref].dimensions == (ref,)):
            return None if ref == fqn else ref
        others = [c for c in self.auxiliary(fqn) if self._variables[c].dimensions == (ref,) and c != fqn]
        role = FEATURES.get(self.feature(fqn), "time")
        wanted = [c for c in others if role_of(self._variables[c]) == role]
        return (wanted or others)[0] if wanted or len(others) == 1 else None

    def feature(self, fqn: str) -> str:
        """Return the ``featureType`` around a variable in lower case; empty if it is no discrete sampling geometry."""
        group, found = split_fqn(fqn)[0], ""
        while not (found := text_of(self.opened.model.group_at(group), "featureType")) and group != "/":
            group = split_fqn(group)[0]
        return found.lower()

    def instances(self, fqn: str) -> tuple[tuple[str, np.ndarray], ...]:
        """Return name and indices of the values of each station, profile or instrument along one dimension.

        A ragged array has counts or indices by CF. Otherwise, a variable beside the values has the stations or
        instruments, such as ``station_id``.
        """
        dimensions = self.opened.variable(fqn).dimensions
        for at, v in self._variables.items() if len(dimensions) == 1 else ():
            is_beside = v.dimensions[:1] == dimensions and at not in (fqn, dimensions[0])
            instance, owner = text_of(v, "instance_dimension"), v.dimensions[:1]
            if dimensions[0] in self._dimensions(text_of(v, "sample_dimension")):
                counts = np.ma.filled(self.opened.read(at, slice(None)), 0).reshape(-1)
                which: np.ndarray = np.repeat(np.arange(counts.size), counts)
            elif is_beside and instance:
                which = np.asarray(np.ma.filled(self.opened.read(at, slice(None)), -1))
                owner = tuple(self._dimensions(instance)[:1])
            elif is_beside and _is_instrument(v):
                found, which = np.unique(self._names(at), return_inverse=True)
                # A variable with a value of its own at each step tells times apart, not instruments.
                if not 1 < len(found) <= min(_MOST_INSTRUMENTS, len(which) // 2):
                    continue
                shown = [f"{v.name} {n}" if n.isdigit() else n for n in found.tolist()]
                return tuple((name, np.flatnonzero(which == i)) for i, name in enumerate(shown))
            else:
                continue
            roles = (
                c for c, w in self._variables.items() if text_of(w, "cf_role") and w.dimensions[:1] == owner
            )
            names = dict(enumerate(self._names(first) if (first := next(roles, None)) else []))
            numbers = np.unique(which[which >= 0]).tolist()
            return tuple((names.get(i, str(i)), np.flatnonzero(which == i)) for i in numbers)
        return ()

    def _dimensions(self, name: str) -> list[str | int]:
        return [d for d in self.opened.model.all_dimensions if split_fqn(d)[1] == name]

    def _names(self, fqn: str) -> list[str]:
        """Return the values of a variable as texts; characters are joined along their last dimension."""
        values: np.ndarray = self.opened.read(fqn, ...)
        values = joined_characters(values) if values.dtype.kind == "S" and values.ndim == 2 else values
        return [str(value).rstrip() for value in values.tolist()]

    def auxiliary(self, fqn: str) -> list[str]:
        """Return the FQNs of the variables in the attribute ``coordinates``."""
        names = text_of(self.opened.variable(fqn), "coordinates").split()
        return list(dict.fromkeys(at for name in names if (at := self.look_up(name, fqn))))

    def look_up(self, name: str, fqn: str) -> str | None:
        """Return the FQN of a variable by its FQN, or by its name: from the group of `fqn` upwards, then elsewhere."""
        found = find_variable(self.opened.model, name, split_fqn(fqn)[0])
        if found is not None or name.startswith("/"):
            return found
        dimensions = {*self.opened.variable(fqn).dimensions}
        beside = [at for at, v in self._variables.items() if v.name == name and {*v.dimensions} <= dimensions]
        return beside[0] if len(beside) == 1 else None

    def numbers(self, axis: Axis, part: range | None = None) -> np.ndarray | None:
        """Return the values of an axis' numeric coordinate; None without coordinate, or if values are missing."""
        at = axis.coordinate
        index = slice(None) if part is None else slice(part.start, part.stop, part.step)
        if at is None or self.opened.variable(at).type.dtype.kind not in "iuf":
            return None
        if at not in self._numbers:
            whole = axis.size <= _MOST_CACHED
            try:
                read = np.ma.asanyarray(self.opened.read(at, slice(None) if whole else index), np.float64)
            # Damage of a coordinate leaves the picture, with indices as its axis.
            except NCZarrError:
                return None
            if read.ndim != 1 or not np.isfinite(read.filled(np.nan)).all():
                return None
            if not whole:
                return read.data
            self._numbers[at] = read.data
        return self._numbers[at][index]

    def _texts(self, axis: Axis) -> list[str] | None:
        """Return the values of a string coordinate, such as names of regions; None for other axes."""
        at = axis.coordinate
        if at is None or axis.size > _MOST_TEXTS or self.opened.variable(at).type != STRING:
            return None
        return self._names(at)

    def label(self, axis: Axis, index: int) -> str:
        """Return the label of an index: a date, a number with units, a string, or the index itself."""
        texts = self.texts(axis)
        if texts is not None:
            return texts[index]
        numbers = self.numbers(axis, range(index, index + 1))
        if numbers is None:
            return str(index)
        number = float(numbers[0])
        if axis.times is not None:
            return axis.times.label(number)
        ends = {"latitude": "SN", "longitude": "WE"}.get(axis.role)
        if ends is None:
            return f"{number:g}" if axis.units in ("", "1") else f"{number:g} {axis.units}"
        number = (number + 180) % 360 - 180 if axis.role == "longitude" else number
        return f"{abs(number):g}°{ends[number > 0] if number else ''}"

    # -- places on the globe

    def _geography(self, fqn: str) -> Geography | None:
        """Find the places of a variable on the globe; return None if it has none."""
        found = self._on_axes(fqn)
        if found is not None and not found.plane:
            return found
        points = self._on_mesh(fqn) or self._on_points(fqn)
        return points if found is None or (points is not None and not self._agree(found, points)) else found

    def _on_axes(self, fqn: str) -> Geography | None:
        """Return two axes with latitudes and longitudes, or with places in the plane of a grid mapping."""
        axes = self.axes(fqn)
        places = {axis.role: i for i, axis in reversed([*enumerate(axes)]) if axis.coordinate}
        if {"latitude", "longitude"} <= {*places}:
            y, x = places["latitude"], places["longitude"]
            return Geography("axes", (y, x), str(axes[y].coordinate), str(axes[x].coordinate))
        mapping = self.look_up(text_of(self.opened.variable(fqn), "grid_mapping").split(":")[0].strip(), fqn)
        if mapping is None or not {"y", "x"} <= {*places} or not self._plane(mapping):
            return None
        y, x = places["y"], places["x"]
        height = number_of(self.opened.variable(mapping), "perspective_point_height", 1) or 1
        units = axes[x].units.lower()
        unit = height if units.startswith("rad") else 1000.0 if re.match("km$|kilomet", units) else 1.0
        names = str(axes[y].coordinate), str(axes[x].coordinate)
        return Geography("axes", (y, x), *names, self._plane(mapping), unit)

    def _plane_of(self, mapping: str) -> str:
        """Return the definition of the plane of a grid mapping; empty if pyproj does not know it."""
        from pyproj import CRS
        from pyproj.exceptions import CRSError

        about: dict[str, object] = {}
        for a in self.opened.variable(mapping).attributes:
            values = a.text if a.type in (CHAR, STRING) else a.values.tolist()
            about[a.name] = values[0] if isinstance(values, list) and len(values) == 1 else values
        # Attributes of a file may make no projection.
        try:
            return str(CRS.from_cf(about).to_wkt())
        # pyproj raises these for a grid mapping that lacks a part, or has a wrong one.
        except (CRSError, KeyError, TypeError, ValueError):
            return ""

    def _on_points(self, fqn: str) -> Geography | None:
        """Return a latitude and a longitude for each value.

        An attribute names them, or they are variables on all dimensions of a track or a swath.
        """
        dimensions, variables = self.opened.variable(fqn).dimensions, self._variables
        if len({*dimensions}) < len(dimensions):
            return None

        def is_place(at: str, of: tuple[str | int, ...]) -> bool:
            is_track = len(of) == len(dimensions) == 1 and of != (at,)
            return at != fqn and {*of} <= {*dimensions} and (is_track or len(of) == 2)

        unnamed = [at for at, v in variables.items() if is_place(at, v.dimensions)]
        unnamed.sort(key=lambda at: split_fqn(at)[0] != split_fqn(fqn)[0])
        for candidates in (self.auxiliary(fqn), unnamed):
            found = {role_of(variables[at]): at for at in reversed(candidates)}
            lat, lon = found.get("latitude", ""), found.get("longitude", "")
            places = variables[lat].dimensions if lat and lon else ()
            is_same = bool(places) and places == variables[lon].dimensions
            if is_same and {*places} <= {*dimensions} and len(places) <= 2:
                return Geography("points", tuple(dimensions.index(p) for p in places), lat, lon)
        return None

    def _agree(self, axes: Geography, points: Geography) -> bool:
        """Return True if a grid mapping puts the ends of its axes where the file's latitudes and longitudes are."""
        read = self.opened.read
        for end in (0, -1) if points.axes == axes.axes else ():
            given = [read(n, (end, end)) for n in (points.latitude, points.longitude)]
            y, x = (np.asarray(read(n, end), float) * axes.unit for n in (axes.latitude, axes.longitude))
            lon, lat = Plane(axes.plane).locate(x, y)
            if np.ma.is_masked(np.ma.stack(given)) or not np.isfinite(lat):
                continue
            if abs(float(given[0]) - lat) > 0.5 or abs((float(given[1]) - lon + 180) % 360 - 180) > 1:
                return False
        return True

    def _on_mesh(self, fqn: str) -> Geography | None:
        """Return the mesh of a variable by the UGRID conventions, or as FVCOM writes it."""
        variable, variables, group = self.opened.variable(fqn), self._variables, split_fqn(fqn)[0]
        mesh = self.look_up(text_of(variable, "mesh"), fqn)
        if mesh is None:
            faces, nodes = join_fqn(group, "nv"), [join_fqn(group, "lat"), join_fqn(group, "lon")]
        else:
            of_mesh = (
                text_of(variables[mesh], name) for name in ("face_node_connectivity", "node_coordinates")
            )
            faces, *nodes = (
                self.look_up(name, mesh) or "" for text in of_mesh for name in text.split() or [""]
            )
        places = {role_of(variables[at]): at for at in nodes if at in variables}
        if not {"latitude", "longitude"} <= {*places} or faces not in variables:
            return None
        refs, of_faces = variables[places["latitude"]].dimensions, variables[faces].dimensions
        on_nodes = bool({*refs} & {*variable.dimensions})
        drawn = [i for i, ref in enumerate(variable.dimensions) if ref in (refs if on_nodes else of_faces)]
        if len(drawn) != 1 or len(of_faces) != 2 or (mesh and text_of(variable, "location") == "edge"):
            return None
        names = (places["latitude"], places["longitude"])
        return Geography("mesh", (drawn[0],), *names, faces=faces, on_nodes=on_nodes)


def _is_instrument(variable: Variable) -> bool:
    is_name = variable.type.name in ("string", "char") or variable.type.dtype.kind in "iu"
    is_row = len(variable.dimensions) == 1 + (variable.type == CHAR)
    return is_row and is_name and bool(text_of(variable, "cf_role") or _INSTRUMENT.search(variable.name))
