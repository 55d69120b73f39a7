"""Find the coordinates of a variable by the CF conventions: axes, their roles, times, and map coordinates."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from nczarr.errors import NCZarrError
from nczarr.model import CHAR, STRING, Variable, join_fqn, split_fqn
from nczarr.view.opened import OpenedDataset, long_name, number_attribute, text_attribute
from nczarr.view.planes import Plane

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

        # A reference year 0, as in climatologies, has no place in the standard calendar without this option.
        year_zero = True if re.search(r"since\s+0+-", self.units) else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cftime.CFWarning)
            return cftime.num2date(
                number,
                self.units,
                self.calendar,
                only_use_cftime_datetimes=True,
                only_use_python_datetimes=False,
                has_year_zero=year_zero,
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


Role = Literal["longitude", "latitude", "time", "vertical", "x", "y", ""]

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
#: Axes of a grid mapping, by standard name.
_PLANE: dict[str, Role] = {
    "grid_longitude": "x",
    "grid_latitude": "y",
    "projection_x_coordinate": "x",
    "projection_y_coordinate": "y",
    "projection_x_angular_coordinate": "x",
    "projection_y_angular_coordinate": "y",
}
#: The role of the axis along which the values of a feature are drawn.
FEATURES: dict[str, Role] = {
    "timeseries": "time",
    "profile": "vertical",
    "timeseriesprofile": "vertical",
    "trajectoryprofile": "vertical",
}
_KILOMETRES = {"km", "kilometer", "kilometre", "kilometers", "kilometres"}
#: Units of pressure.
PRESSURE = {"pa", "hpa", "mbar", "millibar", "bar"}
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
    if standard in _PLANE:
        return _PLANE[standard]
    if units in _NORTH or standard == "latitude":
        return "latitude"
    if units in _EAST or standard == "longitude":
        return "longitude"
    if " since " in units or standard == "time" or axis == "T":
        return "time"
    if text_attribute(variable, "positive") or axis == "Z" or units in PRESSURE:
        return "vertical"
    if variable.name.lower() in _NAMES and units in ("", "degrees", "degree"):
        return _NAMES[variable.name.lower()]
    return "x" if axis == "X" else "y" if axis == "Y" else ""


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
        self.geographies: dict[str, Geography | None] = {}

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
        is_pressure = role == "vertical" and units.lower() in PRESSURE
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
        wanted = [c for c in others if role_of(variables[c]) == (FEATURES.get(self.feature(fqn)) or "time")]
        return (wanted or others)[0] if wanted or len(others) == 1 else None

    def feature(self, fqn: str) -> str:
        """Return the ``featureType`` around a variable in lower case; empty if it is no discrete sampling geometry."""
        while fqn != "/":
            fqn = split_fqn(fqn)[0]
            found = self._opened.model.group_at(fqn).attribute.get("featureType")
            if found is not None and found.type in (CHAR, STRING):
                return found.text.strip("\0 ").lower()
        return ""

    def instances(self, fqn: str) -> tuple[tuple[str, np.ndarray], ...]:
        """Return name and indices of the values of each station or profile in a ragged array; empty for others."""
        variables, (ref, *more) = (
            self._opened.model.all_variables,
            (*self._opened.variable(fqn).dimensions, None),
        )
        if more != [None] or not isinstance(ref, str):
            return ()
        for at, variable in variables.items():
            if text_attribute(variable, "sample_dimension") == split_fqn(ref)[1]:
                counts = np.ma.filled(self._opened.read(at, slice(None)), 0).reshape(-1)
                which, owner = np.repeat(np.arange(counts.size), counts), variable.dimensions
            elif variable.dimensions == (ref,) and (name := text_attribute(variable, "instance_dimension")):
                which = np.ma.filled(self._opened.read(at, slice(None)), -1)
                owner = tuple(d for d in self._opened.model.all_dimensions if split_fqn(d)[1] == name)
            else:
                continue
            named = [
                c
                for c, v in variables.items()
                if v.dimensions[:1] == owner[:1] and text_attribute(v, "cf_role")
            ]
            names = self._names(named[0]) if named else []
            return tuple(
                (names[i] if i < len(names) else str(i), np.flatnonzero(which == i))
                for i in np.unique(which[which >= 0]).tolist()
            )
        return ()

    def _names(self, fqn: str) -> list[str]:
        """Return the values of a variable as texts; characters are joined along their last dimension."""
        values = self._opened.read(fqn, ...)
        if values.dtype.kind == "S" and values.ndim == 2:
            return [
                b"".join(row.filled(b"").tolist()).decode("utf-8", "replace").strip("\0 ") for row in values
            ]
        return [str(value) for value in values.tolist()]

    def auxiliary(self, fqn: str) -> list[str]:
        """Return the FQNs of the variables in the attribute ``coordinates``."""
        text = text_attribute(self._opened.variable(fqn), "coordinates")
        found = (self.look_up(name, fqn) for name in text.split())
        return list(dict.fromkeys(at for at in found if at is not None))

    def look_up(self, name: str, fqn: str) -> str | None:
        """Return the FQN of a variable by its FQN, or by its name: from the group of `fqn` upwards, then elsewhere."""
        variables = self._opened.model.all_variables
        if name.startswith("/"):
            return name if name in variables else None
        group = fqn
        while group != "/":
            group = split_fqn(group)[0]
            if (at := join_fqn(group, name)) in variables:
                return at
        dimensions = set(self._opened.variable(fqn).dimensions)
        beside = [at for at, v in variables.items() if v.name == name and set(v.dimensions) <= dimensions]
        return beside[0] if len(beside) == 1 else None

    def grid_mapping(self, fqn: str) -> Variable | None:
        """Return the grid mapping variable of a variable; None if there is none."""
        name = text_attribute(self._opened.variable(fqn), "grid_mapping").split(":")[0].strip()
        found = self.look_up(name, fqn) if name else None
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


def find_geography(opened: OpenedDataset, coordinates: Coordinates, fqn: str) -> Geography | None:
    """Find the places of a variable on the globe; return None if it has none."""
    if fqn not in coordinates.geographies:
        found = _find_axes(coordinates, fqn)
        if found is None or found.plane:
            points = _find_mesh(opened, coordinates, fqn) or _find_points(opened, coordinates, fqn)
            if found is None or (points is not None and not _agree(opened, found, points)):
                found = points
        coordinates.geographies[fqn] = found
    return coordinates.geographies[fqn]


def _find_axes(coordinates: Coordinates, fqn: str) -> Geography | None:
    """Return two axes with latitudes and longitudes, or with places in the plane of a grid mapping."""
    axes = coordinates.axes(fqn)
    roles = [axis.role for axis in axes]
    for up, across in (("latitude", "longitude"), ("y", "x")):
        if up in roles and across in roles:
            y, x = roles.index(up), roles.index(across)
            latitude, longitude = axes[y].coordinate, axes[x].coordinate
            mapping = coordinates.grid_mapping(fqn) if up == "y" else None
            plane = _plane_of(mapping) if mapping is not None else ""
            if latitude and longitude and (plane or up == "latitude"):
                height = (
                    1.0 if mapping is None else number_attribute(mapping, "perspective_point_height", 1.0)
                )
                units = axes[x].units.lower()
                unit = height if units.startswith("rad") else 1000.0 if units in _KILOMETRES else 1.0
                return Geography("axes", (y, x), latitude, longitude, plane, unit)
    return None


def _find_points(opened: OpenedDataset, coordinates: Coordinates, fqn: str) -> Geography | None:
    """Return a latitude and a longitude for each value, which an attribute names, or which have the same dimensions."""
    dimensions = opened.variable(fqn).dimensions
    for candidates in (coordinates.auxiliary(fqn), _unnamed(opened, fqn)):
        found: dict[str, str] = {}
        for at in candidates:
            found.setdefault(role_of(opened.variable(at)), at)
        if "latitude" in found and "longitude" in found:
            places = opened.variable(found["latitude"]).dimensions
            same = places == opened.variable(found["longitude"]).dimensions
            if same and places and set(places) <= set(dimensions) and len(set(dimensions)) == len(dimensions):
                numbers = tuple(dimensions.index(p) for p in places)
                if len(numbers) <= 2:
                    return Geography("points", numbers, found["latitude"], found["longitude"])
    return None


def _agree(opened: OpenedDataset, axes: Geography, points: Geography) -> bool:
    """Return True if a grid mapping puts the ends of its axes where the file's latitudes and longitudes are."""
    if points.axes != axes.axes:
        return True
    for end in (0, -1):
        y, x = (
            np.ma.asanyarray(opened.read(n, end), float) * axes.unit for n in (axes.latitude, axes.longitude)
        )
        given = [opened.read(n, (end, end)) for n in (points.latitude, points.longitude)]
        lon, lat = Plane(axes.plane).locate(np.asarray(x), np.asarray(y))
        if np.ma.is_masked(np.ma.stack(given)) or not np.isfinite(lat):
            continue
        if abs(float(given[0]) - lat) > 0.5 or abs((float(given[1]) - lon + 180) % 360 - 180) > 1:
            return False
    return True


@cache
def _definition(attributes: tuple[tuple[str, object], ...]) -> str:
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    try:
        return str(CRS.from_cf(dict(attributes)).to_wkt())
    except (CRSError, KeyError, TypeError, ValueError):
        return ""


def _plane_of(mapping: Variable) -> str:
    """Return the definition of the plane of a grid mapping; empty if pyproj does not know it."""
    values = {a.name: a.text if a.type in (CHAR, STRING) else a.values.tolist() for a in mapping.attributes}
    one = {n: v[0] if isinstance(v, list) and len(v) == 1 else v for n, v in values.items()}
    return _definition(tuple((n, tuple(v) if isinstance(v, list) else v) for n, v in one.items()))


def _find_mesh(opened: OpenedDataset, coordinates: Coordinates, fqn: str) -> Geography | None:
    """Return the mesh of a variable by the UGRID conventions, or as FVCOM writes it."""
    variable, variables, group = opened.variable(fqn), opened.model.all_variables, split_fqn(fqn)[0]
    mesh = coordinates.look_up(text_attribute(variable, "mesh"), fqn)
    if mesh is not None:
        about = variables[mesh]
        faces = coordinates.look_up(text_attribute(about, "face_node_connectivity"), mesh) or ""
        names = text_attribute(about, "node_coordinates").split()
        nodes = [at for at in (coordinates.look_up(name, mesh) for name in names) if at]
    else:
        faces, nodes = join_fqn(group, "nv"), [join_fqn(group, "lat"), join_fqn(group, "lon")]
    if faces not in variables or not {*nodes} <= {*variables} or len(variables[faces].dimensions) != 2:
        return None
    places = {role_of(variables[at]): at for at in nodes}
    if not {"latitude", "longitude"} <= {*places}:
        return None
    refs = variables[places["latitude"]].dimensions
    on_nodes = bool({*refs} & {*variable.dimensions})
    drawn = [
        i
        for i, ref in enumerate(variable.dimensions)
        if ref in (refs if on_nodes else variables[faces].dimensions)
    ]
    if len(drawn) != 1 or (mesh is not None and text_attribute(variable, "location") == "edge"):
        return None
    place = (places["latitude"], places["longitude"])
    return Geography("mesh", (drawn[0],), *place, faces=faces, on_nodes=on_nodes)


def _unnamed(opened: OpenedDataset, fqn: str) -> list[str]:
    """Return candidates for coordinates that no attribute names: variables on all dimensions of a track or a swath."""
    dimensions = set(opened.variable(fqn).dimensions)
    found = [
        at
        for at, v in opened.model.all_variables.items()
        if at != fqn
        and (len(v.dimensions) == 2 or (len(v.dimensions) == len(dimensions) == 1 and v.dimensions[0] != at))
        and set(v.dimensions) <= dimensions
    ]
    group = split_fqn(fqn)[0]
    return sorted(found, key=lambda at: split_fqn(at)[0] != group)
