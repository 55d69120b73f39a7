"""Select a part of each dimension: by index, by coordinate value, by date."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from nczarr.errors import UnsupportedError
from nczarr.model import ArraySource, Dataset, Dimension, Region, Variable, rewrite, split_fqn
from nczarr.model.coordinates import date_of, is_time, text_of
from nczarr.model.sources import ChangedSource
from nczarr.model.stored_form import number_of
from nczarr.model.typed import fqn_of_typed, is_named, partition_typed, typed
from nczarr.options import named
from nczarr.system.warning import warn
from nczarr.text import did_you_mean

_DATE = r"-?\d{4,}-\d{1,2}(?:-\d{1,2}(?:[T ]\d{1,2}(?::\d{2}(?::\d{2}(?:\.\d+)?)?)?Z?)?)?"
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_ITEM = rf"{_DATE}|{_NUMBER}"
_RANGE = re.compile(rf"(?P<start>{_ITEM})?:(?P<stop>{_ITEM})?(?::(?P<step>\d+))?")
_INDEX = r"[+-]?\d+"
_INDICES = re.compile(rf"#(?P<start>{_INDEX})?(?:(?P<range>:)#?(?P<stop>{_INDEX})?(?::(?P<step>\d+))?)?")
_YEAR = r"\d{4}"
_FIELDS = re.compile(
    r"(-?\d{4,})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ](\d{1,2})(?::(\d{2})(?::(\d{2}(?:\.\d+)?))?)?Z?)?)?)?"
)
#: An end of a range: an index, a value of the coordinate, or a date.
_End = int | float | str | None
#: A value of a coordinate.
_Value = float | None


@dataclass(frozen=True, eq=False)
class SelectedSource(ChangedSource):
    """A part of another source: a range of indices along each axis."""

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


def cut_source(data: ArraySource, axis: int, low: int, high: int) -> SelectedSource:
    """Return a part of a source along an axis."""
    ranges = (range(min(low, high), high) if i == axis else range(n) for i, n in enumerate(data.shape))
    return SelectedSource(data, tuple(ranges))


class YearOrIndex(int):
    """Four digits on the command line: a year on a time axis, an index on other axes."""

    def __repr__(self) -> str:
        return f"YearOrIndex({int(self)})"

    __str__ = int.__repr__


def parse_selection(text: str) -> tuple[str, _End | slice]:
    """Parse ``NAME=RANGE`` of the command line; see :func:`parse_range`.

    Raises
    ------
    UnsupportedError
        If the text does not have this form.

    Examples
    --------
    >>> parse_selection("time=0:10:2"), parse_selection("lat=30.:60.")
    (('time', slice(0, 10, 2)), ('lat', slice(30.0, 60.0, None)))
    >>> parse_selection("time=2020-01-01T06:00:2020-12-31")
    ('time', slice('2020-01-01T06:00', '2020-12-31', None))
    """
    name, equals, chosen = partition_typed(text, "=", last=True)
    return name, parse_range(chosen if equals and name else "", text)


def parse_range(text: str, option: str | None = None) -> _End | slice:
    """Parse a selection: an index, a number with a decimal point, a date, or a range of them.

    ``#`` marks indices. Without it, four digits are a year on a time axis.

    Parameters
    ----------
    text : str
        The selection.
    option : str, optional
        The whole option, for messages.

    Raises
    ------
    UnsupportedError
        If the text is not a selection.

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
        step = int(found["step"]) if found["step"] else None
        return slice(_item(found["start"]), _item(found["stop"]), step)
    if re.fullmatch(_ITEM, text):
        return _item(text)
    raise UnsupportedError(
        f"{named('select', text if option is None else option)}: not a selection",
        hint="NAME=START:STOP[:STEP] with indices (#0:10), numbers with a point, years or dates",
    )


def _item(text: str | None) -> _End:
    if text is None or re.fullmatch(_DATE, text):
        return text
    if re.fullmatch(_YEAR, text):
        return YearOrIndex(text)
    return int(text) if re.fullmatch(_INDEX, text) else float(text)


def select(dataset: Dataset, selection: Mapping[str, object]) -> Dataset:
    """Select a part of some dimensions, in all variables that have them.

    Parameters
    ----------
    selection : mapping
        By FQN or simple name of the dimension: an index or a slice of indices, as in Python; a slice of floats for
        values of the coordinate variable, both ends included; a slice of date strings, both ends included, in the
        calendar of the coordinate. A short date such as ``2020-01`` stands for the whole period. A single value or
        date selects one element or period.

    Warns
    -----
    UserWarning
        If a range exceeds the dimension.

    Raises
    ------
    UnsupportedError
        If a name fits no dimension or several, a coordinate is missing or not monotonic, or the range is empty.

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
    for name, requested in selection.items():
        fqn = find_dimension(dataset, name, "select")
        # The second range would replace the first one without a word.
        if fqn in chosen:
            raise UnsupportedError(f"{named('select', name)}: the dimension {fqn} is selected twice")
        size, coordinate = dataset.dimension_at(fqn).size, dataset.all_variables.get(fqn)
        chosen[fqn] = find_indices(fqn, size, coordinate, requested)

    # The steps of the sources are those before.
    dataset = replace(dataset, sources=tuple(replace(s, steps=None) for s in dataset.sources))

    def dimension(fqn: str, old: Dimension) -> Dimension:
        return replace(old, size=len(chosen[fqn])) if fqn in chosen else old

    def variable(fqn: str, old: Variable) -> Variable:
        if not any(ref in chosen for ref in old.dimensions):
            return old
        axes = tuple(
            chosen[ref] if ref in chosen else range(size)
            for ref, size in zip(old.dimensions, dataset.shape_of(old), strict=True)
        )
        storage = old.storage
        # HDF5 refuses chunks that are longer than a fixed dimension.
        if storage.chunk_shape is not None:
            fit = zip(storage.chunk_shape, axes, old.dimensions, strict=True)
            shape = tuple(
                c if dataset.is_unlimited(ref) else max(1, min(c, len(axis))) for c, axis, ref in fit
            )
            storage = replace(storage, chunk_shape=shape)
        data = None if old.data is None else SelectedSource(old.data, axes)
        return replace(old, storage=storage, data=data)

    return rewrite(dataset, dimension=dimension, variable=variable)


def select_in_all(datasets: Sequence[Dataset], selection: Mapping[str, object]) -> list[Dataset]:
    """Select a part of some dimensions in those datasets whose variables have them; see :func:`select`."""
    used = [
        {ref for v in dataset.all_variables.values() for ref in v.named_dimensions} for dataset in datasets
    ]
    found = [{n: s for n, s in selection.items() if any(is_named(d, n) for d in own)} for own in used]
    # A dimension of no dataset is refused by each, with the names that it has.
    missing = {name: s for name, s in selection.items() if not any(name in own for own in found)}
    return [select(dataset, own | missing) for dataset, own in zip(datasets, found, strict=True)]


def find_dimension(dataset: Dataset, name: str, option: str) -> str:
    """Return the FQN of a dimension from its FQN, or from a simple name that no other dimension has.

    Raises
    ------
    UnsupportedError
        If no dimension has the name, or several have it; `option` is for messages.
    """
    dimensions = dataset.all_dimensions
    fqn = fqn_of_typed(name)
    found = [fqn] if fqn in dimensions else [each for each in dimensions if is_named(each, name)]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(map(typed, found))
        raise UnsupportedError(f"{named(option, name)}: several dimensions have this name: {several}")
    known = ", ".join(map(typed, dimensions)) or "none"
    hint = did_you_mean(name, [split_fqn(each)[1] for each in dimensions]) or f"there are {known}"
    raise UnsupportedError(f"{named(option, name)}: there is no such dimension", hint=hint)


def find_indices(fqn: str, size: int, coordinate: Variable | None, requested: object) -> range:
    """Return the indices of a selection on an axis; see :func:`select`.

    Parameters
    ----------
    fqn : str
        The dimension, for messages.
    size : int
        Its size.
    coordinate : Variable or None
        Its coordinate, with data.
    requested
        An index, a value or a date, or a slice of them.

    Raises
    ------
    UnsupportedError
        If the selection is not possible on this axis, or is empty.
    """
    return _CoordinateAxis(fqn, size, coordinate).indices(requested)


class _CoordinateAxis:
    """A dimension with its coordinate variable."""

    def __init__(self, fqn: str, size: int, coordinate: Variable | None) -> None:
        self.fqn, self.size, self.coordinate = fqn, size, coordinate
        self.is_time = coordinate is not None and is_time(coordinate)

    def indices(self, requested: object) -> range:
        """Return the indices of a selection."""
        if isinstance(requested, range):
            requested = slice(requested.start, requested.stop, requested.step)
        is_range = isinstance(requested, slice)
        if isinstance(requested, slice):
            start, stop, step = self.end(requested.start), self.end(requested.stop), requested.step
        else:
            start = stop = self.end(requested)
            step = None
            if start is None:
                raise UnsupportedError(f"-d: the selection of {self.fqn} is None")
        if step is not None and (not isinstance(step, int) or step < 1):
            raise UnsupportedError(f"-d: the step of {self.fqn} is {step}; the minimum is 1")
        ends = [end for end in (start, stop) if end is not None]
        numbers = [end for end in ends if isinstance(end, int)]
        # 0 to 10.5 would be an index for one end and a value for the other.
        if 0 < len(numbers) < len(ends):
            raise UnsupportedError(
                f"-d: the range of {self.fqn} mixes an index and a value",
                hint="a value has a point: 30.; # marks an index that is not a year: #0:2001",
            )
        if not is_range and numbers:
            return self.single(numbers[0])
        if numbers or not ends:
            low, high = (end if isinstance(end, int) else None for end in (start, stop))
            picked = range(self.size)[low:high:step]
            # Python cuts such a slice in silence.
            if picked and any(not -self.size <= end <= self.size for end in numbers):
                self.warn(start, stop, f"the indices 0 to {self.size - 1}")
        else:
            picked = range(*self.by_value(start, stop, is_range), step or 1)
        if not picked:
            raise UnsupportedError(
                f"-d: nothing of {self.fqn} is in the range; it has {self.size} values",
                hint=self.limits(None if is_range else start),
            )
        return picked

    def end(self, value: object) -> _End:
        """Return an end of a range as an index, a number, or a date as text."""
        if isinstance(value, YearOrIndex):
            return f"{value:04d}" if self.is_time else int(value)
        if isinstance(value, np.generic) and value.dtype.kind in "iuf":
            value = value.item()
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        if isinstance(value, np.datetime64):
            return str(value)
        if hasattr(value, "isoformat"):
            return str(value.isoformat())
        if isinstance(value, str) and re.fullmatch(f"{_DATE}|{_YEAR}", value.strip()):
            return value.strip()
        raise UnsupportedError(f"-d: {value!r} is not an index, a number or a date for {self.fqn}")

    def single(self, index: int) -> range:
        if not -self.size <= index < self.size:
            raise UnsupportedError(
                f"-d: index {index} is outside {self.fqn}: the dimension has the size {self.size}",
                hint='a year is the text "2001", on the command line 2001 without #'
                if self.is_time
                else None,
            )
        return range(index % self.size, index % self.size + 1)

    def warn(self, start: _End, stop: _End, limits: str) -> None:
        ends = ":".join("" if end is None else str(end) for end in (start, stop))
        text = f"{named('select', {self.fqn: ends})} exceeds the dimension: {self.fqn} has {limits}"
        warn(text)

    def limits(self, requested: _End) -> str | None:
        """Describe the ends of an axis, and the value nearest to a requested date."""
        if self.coordinate is None or self.coordinate.data is None or len(self.coordinate.dimensions) != 1:
            return None
        values = self.values()
        if not len(values):
            return None
        ends = f"{self.fqn} goes from {self.shown(values[0])} to {self.shown(values[-1])}"
        if not isinstance(requested, str):
            return ends
        begin, after = self.period(requested)
        assert begin is not None
        assert after is not None
        return f"the nearest is {self.shown(_nearest(values, (begin + after) / 2))}; {ends}"

    def shown(self, value: _Value) -> str:
        """Return a value of the coordinate for messages; times as dates."""
        if not self.is_time or self.coordinate is None or value is None:
            return str(value)
        return date_of(self.coordinate, value)

    def values(self) -> np.ndarray:
        """Return the unpacked values of the coordinate."""
        variable = self.coordinate
        assert variable is not None
        assert variable.data is not None
        raw = variable.data.read(tuple(slice(0, n, 1) for n in variable.data.shape))
        if raw.dtype.kind not in "iuf":
            raise self.unusable("has no numbers to compare with")
        if not {"scale_factor", "add_offset"} & variable.attribute.keys():
            return raw
        scale, offset = number_of(variable, "scale_factor", 1), number_of(variable, "add_offset", 0)
        # netCDF4-python packs with a vector that fits the values, and does not unpack with it.
        if scale is None or offset is None:
            raise self.unusable(
                f"has a {'scale_factor' if scale is None else 'add_offset'} that is not a number"
            )
        return np.asarray(raw.astype("f8") * float(scale) + float(offset))

    def unusable(self, problem: str) -> UnsupportedError:
        return UnsupportedError(f"-d: the coordinate {self.fqn} {problem}", hint="select by index: 0:10")

    def by_value(self, start: _End, stop: _End, is_range: bool) -> tuple[int, int]:
        """Return the first index of a range of values or dates, and the index after the last one."""
        variable = self.coordinate
        if variable is None or variable.data is None or len(variable.dimensions) != 1:
            raise UnsupportedError(
                f"-d: {self.fqn} has no coordinate variable to find values in", hint="select by index: 0:10"
            )
        values = self.values()
        if not len(values):
            return 0, 0
        is_descending = len(values) > 1 and bool(values[0] > values[-1])
        ordered = values[::-1] if is_descending else values
        # A search in values without order finds any place.
        if not (np.isfinite(values).all() and (ordered[1:] > ordered[:-1]).all()):
            raise self.unusable("is not monotonic")
        dates = isinstance(start, str) or isinstance(stop, str)
        low, high = self.lowest_and_highest(start, stop, values, dates)
        begin = 0 if low is None else int(np.searchsorted(ordered, low, "left"))
        # The end of a period belongs to the next period.
        side: Literal["left", "right"] = "left" if dates else "right"
        end = len(values) if high is None else int(np.searchsorted(ordered, high, side))
        if not is_range and begin == end and not dates:
            raise UnsupportedError(
                f"-d: {self.fqn} has no value {start}", hint=f"the nearest is {_nearest(values, low)}"
            )
        if is_range and begin < end and _exceeds(ordered, low, high):
            ends = f"{self.shown(values[0])} to {self.shown(values[-1])}"
            self.warn(start, stop, f"{len(values)} values from {ends}")
        return (len(values) - end, len(values) - begin) if is_descending else (begin, end)

    def lowest_and_highest(
        self, start: _End, stop: _End, values: np.ndarray, dates: bool
    ) -> tuple[_Value, _Value]:
        """Return the ends of a range in the units of the coordinate, the lower one first; None for an open end."""
        first, second = (self.period(end) if dates else _in_type(end, values) for end in (start, stop))
        is_backwards = first[0] is not None and second[0] is not None and first[0] > second[0]
        if is_backwards and len(values) > 1 and values[0] > values[-1]:
            # A descending axis, such as latitudes from north to south, is also selected in its own order: 60.:30.
            first, second = second, first
        low, high = (self.snapped(end, values, dates) for end in (first[0], second[1]))
        if low is not None and high is not None and low > high:
            raise UnsupportedError(
                f"-d: the range of {self.fqn} begins after its end", hint="copy the two parts one by one"
            )
        return low, high

    def snapped(self, end: _Value, values: np.ndarray, dates: bool) -> _Value:
        """Replace the end of a range by a coordinate value that differs only by rounding: 53 × 0.1 is not quite 5.3."""
        variable = self.coordinate
        assert variable is not None
        packed = {"scale_factor", "add_offset"} & variable.attribute.keys()
        if end is None or not (packed or (dates and values.dtype.kind == "f")):
            return end
        nearest = _nearest(values, end)
        stored = variable.type.dtype if variable.type.dtype.kind == "f" else np.dtype("f8")
        near = 4 * float(np.spacing(np.abs(np.asarray([nearest, end])).max().astype(stored)))
        if packed and variable.type.dtype.kind != "f" and len(values) > 1:
            near = max(near, 1e-6 * float(np.abs(np.diff(values)).min()))
        return nearest if abs(float(nearest) - float(end)) <= near else end

    def period(self, text: _End) -> tuple[_Value, _Value]:
        """Return the begin and the end of a date in the units of the coordinate."""
        if text is None:
            return None, None
        import cftime

        found = _FIELDS.fullmatch(text) if isinstance(text, str) else None
        if found is None or self.coordinate is None or not self.is_time:
            raise UnsupportedError(
                f"-d: the coordinate {self.fqn} is not a time with units; {text!r} is not a value of it"
            )
        second, _, part = (found[6] or "").partition(".")
        defaults = (1, 1, 1, 0, 0)
        year, month, day, hour, minute = (int(found[i] or d) for i, d in enumerate(defaults, 1))
        units = text_of(self.coordinate, "units")
        calendar = text_of(self.coordinate, "calendar").lower() or "standard"
        try:
            microsecond = int(f"{part:0<6}"[:6]) if part else 0
            begin = cftime.datetime(
                year, month, day, hour, minute, int(second or 0), microsecond, calendar=calendar
            )
            if found[2] is None:
                end = cftime.datetime(year + 1, 1, 1, calendar=calendar)
            elif found[3] is None:
                end = cftime.datetime(year + month // 12, month % 12 + 1, 1, calendar=calendar)
            else:
                units_given = (part, second, found[5], found[4], "day")
                names = ("microseconds", "seconds", "minutes", "hours", "days")
                unit = next(name for name, given in zip(names, units_given, strict=True) if given)
                end = begin + datetime.timedelta(**{unit: 1})
            return cftime.date2num(begin, units, calendar), cftime.date2num(end, units, calendar)
        except (ValueError, TypeError, OverflowError) as error:
            raise UnsupportedError(f"-d: {text!r} is not a date of {self.fqn}: {error}") from None


def _exceeds(ordered: np.ndarray, low: _Value, high: _Value) -> bool:
    """True if a range goes beyond the values of a coordinate by more than its largest step."""
    if len(ordered) < 2:
        return False
    # Cells reach beyond their centres, so that -90.:90. of centres at -89.75 … 89.75 is the whole axis.
    step = float(np.diff(ordered).max())
    below = low is not None and float(low) < float(ordered[0]) - step
    return below or (high is not None and float(high) > float(ordered[-1]) + step)


def _nearest(values: np.ndarray, value: _Value) -> float:
    nearest: float = values[np.argmin(np.abs(values - value))]
    return nearest


def _in_type(value: _End, values: np.ndarray) -> tuple[_Value, _Value]:
    """Return a value in the floating-point type of the coordinate: 0.1 is a different number in float32."""
    assert not isinstance(value, str)
    if value is not None and values.dtype.kind == "f":
        return (values.dtype.type(value),) * 2
    return value, value
