"""Select a part of each dimension: by index, by coordinate value, by date."""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nczarr.errors import UnsupportedError
from nczarr.model import Dataset, Dimension, Region, Variable, rewrite, split_fqn
from nczarr.model.sources import ChangedSource

_DATE = r"-?\d{4,}-\d{1,2}(?:-\d{1,2}(?:[T ]\d{1,2}(?::\d{2}(?::\d{2}(?:\.\d+)?)?)?Z?)?)?"
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_ITEM = rf"{_DATE}|{_NUMBER}"
_RANGE = re.compile(rf"(?P<start>{_ITEM})?:(?P<stop>{_ITEM})?(?::(?P<step>\d+))?")
_INDEX = r"[+-]?\d+"
_INDICES = re.compile(rf"#(?P<start>{_INDEX})?(?:(?P<range>:)#?(?P<stop>{_INDEX})?(?::(?P<step>\d+))?)?")
_YEAR = re.compile(r"\d{4}")
_FIELDS = re.compile(
    r"(-?\d{4,})-(\d{1,2})(?:-(\d{1,2})(?:[T ](\d{1,2})(?::(\d{2})(?::(\d{2}(?:\.\d+)?))?)?Z?)?)?"
)


@dataclass(frozen=True, eq=False)
class SelectedSource(ChangedSource):
    """A part of another source: along each axis a range of its indices."""

    axes: tuple[range, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis) for axis in self.axes)

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        picked = [axis[part] for axis, part in zip(self.axes, region, strict=True)]
        return self.inner.read(
            tuple(slice(p.start, max(p.start, p[-1] + 1 if p else p.start), p.step) for p in picked), out
        )


class YearOrIndex(int):
    """Four digits of the command line: a year on an axis of times, an index on every other."""

    def __repr__(self) -> str:
        return f"YearOrIndex({int(self)})"

    __str__ = int.__repr__


def parse_selection(text: str) -> tuple[str, Any]:
    """Read ``NAME=RANGE`` of the command line; see :func:`parse_range`.

    Raises
    ------
    UnsupportedError
        If it is not of this form.

    Examples
    --------
    >>> parse_selection("time=0:10:2"), parse_selection("lat=30.:60.")
    (('time', slice(0, 10, 2)), ('lat', slice(30.0, 60.0, None)))
    >>> parse_selection("time=2020-01-01T06:00:2020-12-31")
    ('time', slice('2020-01-01T06:00', '2020-12-31', None))
    """
    name, equals, chosen = text.rpartition("=")
    if not (equals and name):
        raise _no_selection(text)
    return name, parse_range(chosen, text)


def parse_range(text: str, option: str | None = None) -> Any:
    """Read what a selection takes of a dimension: an index, a number with a point, a date, or a range of them.

    ``#`` in front says that numbers are indices; without, four digits are a year on an axis of times.

    Parameters
    ----------
    text : str
    option : str, optional
        The whole text, for messages.

    Raises
    ------
    UnsupportedError
        If it is none of these.

    Examples
    --------
    >>> parse_range("#2001"), parse_range("2001"), parse_range("#0:10"), parse_range("2001:2003-06")
    (2001, YearOrIndex(2001), slice(0, 10, None), slice(YearOrIndex(2001), '2003-06', None))
    """
    found = _INDICES.fullmatch(text)
    if found and (found["range"] or found["start"]):
        start, stop, step = (None if found[n] is None else int(found[n]) for n in ("start", "stop", "step"))
        return slice(start, stop, step) if found["range"] else start
    found = _RANGE.fullmatch(text)
    if found:
        return slice(
            _item(found["start"]), _item(found["stop"]), int(found["step"]) if found["step"] else None
        )
    if not re.fullmatch(_ITEM, text):
        raise _no_selection(text if option is None else option)
    return _item(text)


def _no_selection(text: str) -> UnsupportedError:
    return UnsupportedError(
        f"-d {text}: not a selection",
        hint="NAME=START:STOP[:STEP] with indices (#0:10), numbers with a point, years or dates",
    )


def _item(text: str | None) -> int | float | str | None:
    if text is None:
        return None
    if re.fullmatch(_DATE, text):
        return text
    if _YEAR.fullmatch(text):
        return YearOrIndex(text)
    return int(text) if re.fullmatch(_INDEX, text) else float(text)


def select(dataset: Dataset, selection: Mapping[str, Any]) -> Dataset:
    """Keep a part of some dimensions, in all variables that have them.

    Parameters
    ----------
    selection : mapping
        By FQN or simple name of the dimension: an index or a slice of indices, as in Python; a slice of floats:
        values of its coordinate variable, both ends included; a slice of dates as text: both included, in the
        coordinate's calendar, a short date such as ``2020-01`` standing for the whole of it. A single value or
        date is a slice of one.

    Warns
    -----
    UserWarning
        If a range reaches beyond what there is.

    Raises
    ------
    UnsupportedError
        If a name means no dimension or several, a coordinate is missing or not monotonic, or nothing is chosen.

    Examples
    --------
    >>> from nczarr.model import DOUBLE, MemorySource
    >>> x = Variable("x", DOUBLE, ("/x",), data=MemorySource(np.arange(5) / 2))
    >>> part = select(Dataset("d", dimensions=(Dimension("x", 5),), variables=(x,)), {"x": slice(0.5, 1.5)})
    >>> part.variables[0].data.read((slice(0, 3),)).tolist()
    [0.5, 1.0, 1.5]
    """
    if not selection:
        return dataset
    chosen: dict[str, range] = {}
    for name, wanted in selection.items():
        fqn = find_dimension(dataset, name, "-d")
        if fqn in chosen:
            raise UnsupportedError(f"-d {name}: the dimension {fqn} is selected twice")
        chosen[fqn] = find_indices(
            fqn, dataset.dimension_at(fqn).size, dataset.all_variables.get(fqn), wanted
        )

    def dimension(fqn: str, old: Dimension) -> Dimension:
        return replace(old, size=len(chosen[fqn])) if fqn in chosen else old

    def variable(fqn: str, old: Variable) -> Variable:
        if not any(ref in chosen for ref in old.dimensions):
            return old
        axes = tuple(
            chosen[ref] if ref in chosen else range(size)
            for ref, size in zip(old.dimensions, dataset.shape(old), strict=True)
        )
        storage = old.storage
        if storage.chunk_shape is not None:
            fit = zip(storage.chunk_shape, axes, old.dimensions, strict=True)
            shape = tuple(
                c if dataset.is_unlimited(ref) else max(1, min(c, len(axis))) for c, axis, ref in fit
            )
            storage = replace(storage, chunk_shape=shape)
        data = None if old.data is None else SelectedSource(old.data, axes)
        return replace(old, storage=storage, data=data)

    return rewrite(dataset, dimension=dimension, variable=variable)


def find_dimension(dataset: Dataset, name: str, option: str) -> str:
    """Return the FQN of the dimension that a name means: an FQN, or a simple name that only one has.

    Raises
    ------
    UnsupportedError
        If none or several are meant.
    """
    dimensions = dataset.all_dimensions
    if "/" in name:
        fqn = name if name.startswith("/") else f"/{name}"
        found = [fqn] if fqn in dimensions else []
    else:
        found = [fqn for fqn in dimensions if split_fqn(fqn)[1] == name]
        if f"/{name}" in found:
            found = [f"/{name}"]
    if len(found) == 1:
        return found[0]
    if found:
        raise UnsupportedError(f"{option} {name}: several dimensions are named so: {', '.join(found)}")
    raise UnsupportedError(
        f"{option} {name}: there is no such dimension", hint=f"there are {', '.join(dimensions) or 'none'}"
    )


def find_indices(fqn: str, size: int, coordinate: Variable | None, wanted: Any) -> range:
    """Return the indices that a selection means on an axis; see :func:`select`.

    Parameters
    ----------
    fqn : str
        The dimension, for messages.
    size : int
    coordinate : Variable or None
        Its coordinate, with data.
    wanted
        An index, a value or a date, or a slice of them.

    Raises
    ------
    UnsupportedError
        If it means nothing on this axis, or nothing is there.
    """
    if isinstance(wanted, range):
        wanted = slice(wanted.start, wanted.stop, wanted.step)
    times = coordinate is not None and is_time(coordinate)
    start, stop, step = _parts(fqn, wanted, times)
    if step is not None and (not isinstance(step, int) or step < 1):
        raise UnsupportedError(f"-d: the step of {fqn} is {step}; it is at least 1")
    ends = [end for end in (start, stop) if end is not None]
    if all(isinstance(end, int) for end in ends):
        if not isinstance(wanted, slice):
            if not -size <= start < size:
                raise UnsupportedError(
                    f"-d: index {start} is outside {fqn}: the dimension has the size {size}",
                    hint='a year is the text "2001", on the command line 2001 without #' if times else None,
                )
            start += size if start < 0 else 0
            return range(start, start + 1)
        picked = range(size)[start:stop:step]
        if picked and any(not -size <= end <= size for end in ends):
            _say_cut(fqn, wanted, f"the indices 0 to {size - 1}")
    elif any(isinstance(end, int) for end in ends):
        raise UnsupportedError(
            f"-d: the range of {fqn} mixes an index and a value",
            hint="a value has a point: 30.; indices have a # in front, where they are not to be years: #0:2001",
        )
    else:
        low, high = _by_value(fqn, coordinate, start, stop, wanted)
        picked = range(low, high, step or 1)
    if not picked:
        raise UnsupportedError(
            f"-d: nothing of {fqn} is in the range; it has {size} values",
            hint=_there_is(fqn, coordinate, wanted),
        )
    return picked


def _say_cut(fqn: str, wanted: Any, there: str) -> None:
    ends = ":".join("" if e is None else str(e) for e in (wanted.start, wanted.stop))
    warnings.warn(f"-d {fqn}={ends} reaches beyond what there is: {fqn} has {there}", stacklevel=4)


def _there_is(fqn: str, coordinate: Variable | None, wanted: Any) -> str | None:
    """What an axis has, and what of it is nearest to a single value or date."""
    if coordinate is None or coordinate.data is None or len(coordinate.dimensions) != 1:
        return None
    values = _coordinates(fqn, coordinate)
    if not len(values):
        return None
    ends = f"{fqn} goes from {_shown(values[0], coordinate)} to {_shown(values[-1], coordinate)}"
    end = None if isinstance(wanted, slice) else _end(fqn, wanted, is_time(coordinate))
    if not isinstance(end, str):
        return ends
    begin, after = _period(coordinate, fqn, end)
    nearest = values[np.argmin(np.abs(values - (begin + after) / 2))]
    return f"the nearest is {_shown(nearest, coordinate)}; {ends}"


def _shown(value: Any, coordinate: Variable) -> str:
    """A value of a coordinate for people: a date of times."""
    if is_time(coordinate):
        import cftime

        try:
            date = cftime.num2date(
                float(value), _text(coordinate, "units"), _text(coordinate, "calendar").lower() or "standard"
            )
        except (ValueError, TypeError, OverflowError):
            return str(value)
        return str(date.isoformat(" ")).removesuffix(" 00:00:00")
    return str(value)


def _text(variable: Variable, name: str) -> str:
    attribute = variable.attribute.get(name)
    is_text = attribute is not None and attribute.type.name in ("char", "string")
    return attribute.text.strip("\0 ") if attribute is not None and is_text else ""


def is_time(variable: Variable) -> bool:
    """True if a variable has numbers in units such as ``days since 2000-01-01``."""
    if variable.type.is_user_defined or variable.type.dtype.kind not in "iuf":
        return False
    return " since " in _text(variable, "units")


def _parts(fqn: str, wanted: Any, times: bool) -> tuple[Any, Any, Any]:
    if isinstance(wanted, slice):
        return _end(fqn, wanted.start, times), _end(fqn, wanted.stop, times), wanted.step
    end = _end(fqn, wanted, times)
    if end is None:
        raise UnsupportedError(f"-d: nothing is said of what to take of {fqn}")
    return end, end, None


def _end(fqn: str, value: Any, times: bool) -> Any:
    if isinstance(value, YearOrIndex):
        return f"{value:04d}" if times else int(value)
    if isinstance(value, np.generic) and value.dtype.kind in "iuf":
        value = value.item()
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    if isinstance(value, np.datetime64):
        return str(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, str) and _FIELDS.fullmatch(value.strip()):
        return value.strip()
    if isinstance(value, str) and _YEAR.fullmatch(value.strip()):
        return value.strip()
    raise UnsupportedError(f"-d: {value!r} is no index, number or date for {fqn}")


def _by_value(fqn: str, variable: Variable | None, start: Any, stop: Any, wanted: Any) -> tuple[int, int]:
    is_range = isinstance(wanted, slice)
    if variable is None or variable.data is None or len(variable.dimensions) != 1:
        raise UnsupportedError(
            f"-d: {fqn} has no coordinate variable to look values up in", hint="select by index: 0:10"
        )
    values = _coordinates(fqn, variable)
    if not len(values):
        return 0, 0
    descending = len(values) > 1 and values[0] > values[-1]
    steps = np.diff(values)
    if not (np.isfinite(values).all() and ((steps < 0).all() if descending else (steps > 0).all())):
        raise UnsupportedError(f"-d: the coordinate {fqn} is not monotonic", hint="select by index: 0:10")
    dates = isinstance(start, str) or isinstance(stop, str)
    if dates:
        low, high = _period(variable, fqn, start), _period(variable, fqn, stop)
        if descending and None not in (*low, *high) and low[0] > high[0]:
            low, high = high, low
        low, high = low[0], high[1]
        side = "left"  # the end of a period belongs to the next one
    else:
        low, high, side = _rounded(start, values), _rounded(stop, values), "right"
        if descending and low is not None and high is not None and low > high:
            low, high = high, low
    low, high = (_snapped(end, values, variable, dates) for end in (low, high))
    if low is not None and high is not None and low > high:
        raise UnsupportedError(
            f"-d: the range of {fqn} begins behind its end", hint="copy the two parts one by one"
        )
    ordered = values[::-1] if descending else values
    first = 0 if low is None else int(np.searchsorted(ordered, low, "left"))
    last = len(values) if high is None else int(np.searchsorted(ordered, high, side))  # type: ignore[call-overload]
    if not is_range and first == last and side == "right":
        nearest = values[np.argmin(np.abs(values - low))]
        raise UnsupportedError(f"-d: {fqn} has no value {start}", hint=f"the nearest is {nearest}")
    if is_range and first < last and len(values) > 1:
        step = float(np.abs(steps).max())
        beyond = low is not None and float(low) < float(ordered[0]) - step
        if beyond or (high is not None and float(high) > float(ordered[-1]) + step):
            there = [_shown(end, variable) for end in (values[0], values[-1])]
            _say_cut(fqn, wanted, f"{len(values)} values from {there[0]} to {there[1]}")
    return (len(values) - last, len(values) - first) if descending else (first, last)


def _coordinates(fqn: str, variable: Variable) -> np.ndarray:
    assert variable.data is not None
    raw = variable.data.read(tuple(slice(0, n, 1) for n in variable.data.shape))
    if raw.dtype.kind not in "iuf":
        raise UnsupportedError(
            f"-d: the coordinate {fqn} has no numbers to compare with", hint="select by index: 0:10"
        )
    scale, offset = variable.attribute.get("scale_factor"), variable.attribute.get("add_offset")
    if scale is None and offset is None:
        return raw
    values = raw.astype("f8") * _packing(fqn, variable, "scale_factor", 1.0)
    return np.asarray(values + _packing(fqn, variable, "add_offset", 0.0))


def _packing(fqn: str, variable: Variable, name: str, default: float) -> float:
    attribute = variable.attribute.get(name)
    if attribute is None:
        return default
    if attribute.values.dtype.kind not in "iuf" or attribute.values.size != 1:
        raise UnsupportedError(
            f"-d: the {name} of the coordinate {fqn} is no number", hint="select by index: 0:10"
        )
    return float(attribute.values.reshape(-1)[0])


def _rounded(value: float | None, values: np.ndarray) -> Any:
    """The value as the coordinate holds it: 0.1 is another number in float32."""
    return value if value is None or values.dtype.kind != "f" else values.dtype.type(value)


def _snapped(end: Any, values: np.ndarray, variable: Variable, dates: bool) -> Any:
    """An end of a range as the value that stands for it: 53 × 0.1 is not quite 5.3, nor is 5/24 five hours."""
    packed = {"scale_factor", "add_offset"} & variable.attribute.keys()
    if end is None or not (packed or (dates and values.dtype.kind == "f")):
        return end
    nearest = values[np.argmin(np.abs(values - end))]
    stored = variable.type.dtype if variable.type.dtype.kind == "f" else np.dtype("f8")
    near = 4 * float(np.spacing(np.abs(np.asarray([nearest, end])).max().astype(stored)))
    if packed and variable.type.dtype.kind != "f" and len(values) > 1:
        near = max(near, 1e-6 * float(np.abs(np.diff(values)).min()))
    return nearest if abs(float(nearest) - float(end)) <= near else end


def _period(variable: Variable, fqn: str, text: Any) -> tuple[Any, Any]:
    """The times at which a date begins and ends, in the units of a coordinate."""
    if text is None:
        return None, None
    import cftime

    units, name = _text(variable, "units"), _text(variable, "calendar").lower() or "standard"
    fields = _FIELDS.fullmatch(text) if isinstance(text, str) else None
    if not is_time(variable) or (fields is None and not (isinstance(text, str) and text.isdecimal())):
        raise UnsupportedError(f"-d: the coordinate {fqn} is not a time with units; {text!r} means nothing")
    year, month, day, hour, minute, second = fields.groups() if fields else (text, *[None] * 5)
    try:
        whole, _, part = (second or "0").partition(".")
        begin = cftime.datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(whole),
            int(f"{part:0<6}"[:6]) if part else 0, calendar=name,
        )  # fmt: skip
        if month is None:
            end = cftime.datetime(int(year) + 1, 1, 1, calendar=name)
        elif day is None:
            following = (int(year), int(month) + 1) if int(month) < 12 else (int(year) + 1, 1)
            end = cftime.datetime(*following, 1, calendar=name)
        else:
            length = {"days": 1} if hour is None else {"hours": 1} if minute is None else {"minutes": 1}
            if second is not None:
                length = {"microseconds": 1} if part else {"seconds": 1}
            end = begin + datetime.timedelta(**length)
        return (
            cftime.date2num(begin, units, name),
            cftime.date2num(end, units, name),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise UnsupportedError(f"-d: {text!r} is no date of {fqn}: {error}") from None
