"""Select a part of each dimension: by index, by coordinate value, by date."""

from __future__ import annotations

import datetime
import re
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


def parse_selection(text: str) -> tuple[str, Any]:
    """Read ``NAME=RANGE`` of the command line.

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
    found = _RANGE.fullmatch(chosen)
    if equals and name and found:
        step = found["step"]
        return name, slice(_item(found["start"]), _item(found["stop"]), int(step) if step else None)
    if not (equals and name and re.fullmatch(_ITEM, chosen)):
        raise UnsupportedError(
            f"-d {text}: not a selection",
            hint="NAME=START:STOP[:STEP] with indices, numbers with a point, or dates",
        )
    return name, _item(chosen)


def _item(text: str | None) -> int | float | str | None:
    if text is None:
        return None
    if re.fullmatch(_DATE, text):
        return text
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def select(dataset: Dataset, selection: Mapping[str, Any]) -> Dataset:
    """Keep a part of some dimensions, in all variables that have them.

    Parameters
    ----------
    selection : mapping
        By FQN or simple name of the dimension: an index or a slice of indices, as in Python; a slice of floats:
        values of its coordinate variable, both ends included; a slice of dates as text: both included, in the
        coordinate's calendar, a short date such as ``2020-01`` standing for the whole of it. A single value or
        date is a slice of one.

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
        chosen[fqn] = _indices(dataset, fqn, wanted)

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


def _indices(dataset: Dataset, fqn: str, wanted: Any) -> range:
    size = dataset.dimension_at(fqn).size
    if isinstance(wanted, range):
        wanted = slice(wanted.start, wanted.stop, wanted.step)
    start, stop, step = _parts(fqn, wanted)
    if step is not None and (not isinstance(step, int) or step < 1):
        raise UnsupportedError(f"-d: the step of {fqn} is {step}; it is at least 1")
    ends = [end for end in (start, stop) if end is not None]
    if all(isinstance(end, int) for end in ends):
        if not isinstance(wanted, slice):
            if not -size <= start < size:
                raise UnsupportedError(f"-d: index {start} is outside {fqn}, which has {size}")
            start += size if start < 0 else 0
            stop = start + 1
        picked = range(size)[start:stop:step]
    elif any(isinstance(end, int) for end in ends):
        raise UnsupportedError(
            f"-d: the range of {fqn} mixes an index and a value", hint="a value has a point: 30."
        )
    else:
        low, high = _by_value(dataset, fqn, start, stop, isinstance(wanted, slice))
        picked = range(low, high, step or 1)
    if not len(picked):
        raise UnsupportedError(f"-d: nothing of {fqn} is in the range; it has {size} values")
    return picked


def _parts(fqn: str, wanted: Any) -> tuple[Any, Any, Any]:
    if isinstance(wanted, slice):
        return _end(fqn, wanted.start), _end(fqn, wanted.stop), wanted.step
    end = _end(fqn, wanted)
    if end is None:
        raise UnsupportedError(f"-d: nothing is said of what to take of {fqn}")
    return end, end, None


def _end(fqn: str, value: Any) -> Any:
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
    if isinstance(value, str) and re.fullmatch(r"\d{4}", value.strip()):
        return value.strip()
    raise UnsupportedError(f"-d: {value!r} is no index, number or date for {fqn}")


def _by_value(dataset: Dataset, fqn: str, start: Any, stop: Any, is_range: bool) -> tuple[int, int]:
    variable = dataset.all_variables.get(fqn)
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

    units = variable.attribute.get("units")
    calendar = variable.attribute.get("calendar")
    name = calendar.text.rstrip("\0") if calendar is not None else "standard"
    fields = _FIELDS.fullmatch(text) if isinstance(text, str) else None
    if units is None or (fields is None and not (isinstance(text, str) and text.isdecimal())):
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
            cftime.date2num(begin, units.text.rstrip("\0"), name),
            cftime.date2num(end, units.text.rstrip("\0"), name),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise UnsupportedError(f"-d: {text!r} is no date of {fqn}: {error}") from None
