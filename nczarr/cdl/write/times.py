"""Find time variables and format their values as ISO 8601 dates (``-t``, ``-i``).

The arithmetic is ncdump's: hours as doubles, whole months for units of months and years, and its reading of
``units`` and ``calendar``. cftime would print other dates at the last digit.
"""

from __future__ import annotations

import math
import re
from typing import SupportsFloat

from nczarr.cdl.words import special_float
from nczarr.cdl.write.options import DumpOptions
from nczarr.cdl.write.values import ToText
from nczarr.dataclass import dataclass
from nczarr.lazy import pattern
from nczarr.model import CHAR, Attribute, Variable

#: Year, month, day, hour with its fraction.
Date = tuple[int, int, int, float]

_CALENDARS = {
    "gregorian": "mixed", "standard": "mixed", "proleptic_gregorian": "gregorian", "julian": "julian",
    "noleap": "noleap", "no_leap": "noleap", "365_day": "noleap",
    "allleap": "all_leap", "all_leap": "all_leap", "366_day": "all_leap", "360_day": "360_day", "none": "none",
}  # fmt: skip
#: Units: the beginning of their names, another name, and the unit.
_UNITS = (
    ("sec", "s", "second"), ("min", "mn", "minute"), ("hour", "hr", "hour"), ("day", "dy", "day"),
    ("week", "wk", "week"), ("month", "mo", "month"), ("season", "season", "season"), ("year", "yr", "year"),
)  # fmt: skip
_SINCE = pattern(r"\s*(\S+)\s+since\s*(\S.*)", re.DOTALL)
_BASE = pattern(
    r"\s*([-+]?\d+)(?:-\s*([-+]?\d+)(?:-\s*([-+]?\d+)(?:\s*([-+]?\d+)(?::\s*([-+]?\d+)"
    r"(?::\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?))?)?)?)?)?"
)
#: Longer numbers are parts of no date, and need not be converted.
_MOST_DIGITS = 30
_MONTHS = {"month": 1, "season": 3, "year": 12}
#: Hours in the units: a division is more exact than a product with a fraction.
_DIVISORS, _FACTORS = {"second": 3600.0, "minute": 60.0}, {"day": 24.0, "week": 168.0}
#: The day after 4 October 1582 was the 15th.
_GREGORIAN_START: Date = (1582, 10, 15, 0.0)
_JULIAN_END: Date = (1582, 10, 5, 0.0)
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True)
class NcdumpTime:
    """A unit of time, where it counts from, and the calendar.

    Examples
    --------
    >>> NcdumpTime("day", (2000, 2, 28, 0.0), "mixed").date(1.5)
    (2000, 2, 29, 12.0)
    """

    unit: str
    base: Date
    calendar: str

    def date(self, value: float) -> Date:
        """The date of a value."""
        calendar = self.calendar
        if self.unit in _MONTHS:
            calendar = "gregorian" if calendar == "mixed" else calendar
            return self._months(value, calendar)
        hours = value / _DIVISORS.get(self.unit, 1.0) * _FACTORS.get(self.unit, 1.0)
        if calendar != "mixed":
            return _from_hours(_hours(self.base, calendar) + hours, calendar)
        if self.base < _GREGORIAN_START:
            left = _hours(_JULIAN_END, "julian") - _hours(self.base, "julian")
            if hours <= left:
                return _add(self.base, hours, "julian")
            return _add(_GREGORIAN_START, hours - left, "gregorian")
        left = _hours(_GREGORIAN_START, "gregorian") - _hours(self.base, "gregorian")
        if hours > left:
            return _add(self.base, hours, "gregorian")
        return _add(_JULIAN_END, hours - left, "julian")

    def _months(self, value: float, calendar: str) -> Date:
        """Count whole months; all dates but the base itself are the first of a month."""
        if value == 0:
            return self.base
        step = int(_MONTHS[self.unit] * value + (-1e-10 if value < 0 else 1e-10))
        year, month, _, _ = _from_hours(_hours(self.base, calendar), calendar)
        years, month0 = divmod(step + month - 1, 12)
        return year + years, month0 + 1, 1, 0.0

    def text(self, value: float, separator: str) -> str:
        """The date of a value, without the parts at its end that are zero.

        Examples
        --------
        >>> NcdumpTime("hour", (1999, 12, 31, 23.0), "mixed").text(1.5, "T")
        '2000-01-01T00:30'
        """
        year, month, day, hour = self.date(value)
        hours = int(hour)
        left = 60.0 * (hour - hours)
        minute = int(left)
        seconds = f"{60.0 * (left - minute):f}"
        if seconds == "60.000000":  # as in ncdump, the last half microsecond before midnight is 24 hours
            seconds = "0.000000"
            hours, minute = hours + (minute + 1) // 60, (minute + 1) % 60
        second, _, fraction = seconds.partition(".")
        text = f"{year:0{4 + (year < 0)}d}-{month:02d}-{day:02d}"
        parts = [f"{hours:02d}", f"{minute:02d}", seconds if fraction != "000000" else f"{second:>02}"]
        while parts and parts[-1] == "00":
            parts.pop()
        return f"{text}{separator}{':'.join(parts)}" if parts else text


def parse_units(units: str, calendar: str = "", *, ncdump: bool = False) -> NcdumpTime | None:
    """Read the attributes ``units`` and ``calendar``; None if they do not describe a time.

    ncdump counts from the start of year 0 where it cannot read the date.

    Examples
    --------
    >>> parse_units("hours since 1970-01-01T06:30:00Z", "noleap")
    NcdumpTime(unit='hour', base=(1970, 1, 1, 6.5), calendar='noleap')
    >>> parse_units("kelvin")
    """
    match = _SINCE.match(units)
    if match is None:
        return None
    word, rest = match[1].lower(), match[2]
    unit = next((u for prefix, short, u in _UNITS if word.startswith(prefix) or word == short), None)
    system = "mixed"
    if calendar:
        system = next((s for name, s in _CALENDARS.items() if name.startswith(calendar.lower())), "mixed")
    # A calendar none has no dates.
    if unit is None or system == "none":
        return None
    parts = rest.split()
    if len(parts) < 2 and "T" in rest:
        parts = [*parts[0].split("T", 1)]
    base = _parse_base(" ".join(parts[:2])) or ((0, 1, 1, 0.0) if ncdump else None)
    return None if base is None else NcdumpTime(unit, base, system)


def _parse_base(text: str) -> Date | None:
    match = _BASE.match(text)
    if match is None or any(len(part or "") > _MOST_DIGITS for part in match.groups()):
        return None
    year, month, day = int(match[1]), int(match[2] or 1), int(match[3] or 1)
    hour = 0.0
    if match[4] and 0 <= int(match[4]) <= 23:
        hour = float(int(match[4]))
        if match[5] and 0 <= int(match[5]) <= 59:
            hour += int(match[5]) / 60.0
            if match[6] and 0 <= float(match[6]) <= 60:
                hour += float(match[6]) / 3600.0
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return year, month, day, hour


def _is_leap(year: int, calendar: str) -> bool:
    if calendar == "gregorian":
        return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return calendar == "all_leap" or (calendar == "julian" and year % 4 == 0)


def _days_before(year: int, calendar: str) -> int:
    """Return the days from year 0 to the start of `year`, up to a constant."""
    if calendar == "360_day":
        return 360 * year
    if calendar == "all_leap":
        return 366 * year
    last = year - 1
    if calendar == "gregorian":
        return 365 * year + last // 4 - last // 100 + last // 400
    return 365 * year + (last // 4 if calendar == "julian" else 0)


def _hours(date: Date, calendar: str) -> float:
    """Hours since 1970-01-01 in the calendar."""
    year, month, day, hour = date
    if calendar == "360_day":
        before = 30 * (month - 1)
    else:
        before = sum(_DAYS[: month - 1]) + (month > 2 and _is_leap(year, calendar))
    days = _days_before(year, calendar) - _days_before(1970, calendar) + before + day - 1
    return days * 24.0 + hour


def _from_hours(hours: float, calendar: str) -> Date:
    days = math.floor(hours / 24.0)
    if abs(days) >= 1 << 31:
        raise OverflowError
    hour = hours - days * 24.0
    # Rounding can leave 24 hours.
    if hour >= 24.0:
        days, hour = days + 1, hour - 24.0
    days += _days_before(1970, calendar)
    year = min(days // 366, days // 360 - 1)  # not later than the right one
    while _days_before(year + 1, calendar) <= days:
        year += max(1, (days - _days_before(year + 1, calendar)) // 366)
    day = days - _days_before(year, calendar)
    for month in range(1, 13):
        length = 30 if calendar == "360_day" else _DAYS[month - 1]
        length += calendar != "360_day" and month == 2 and _is_leap(year, calendar)
        if day < length:
            break
        day -= length
    return year, month, day + 1, hour


def _add(date: Date, hours: float, calendar: str) -> Date:
    # Counting from 1979 gives ncdump's roundings.
    origin = _hours((1979, 1, 1, 0.0), calendar)
    return _from_hours(origin + ((_hours(date, calendar) - origin) + hours), calendar)


class TimeTexts:
    """Finds the time variables of a dataset and formats their values.

    With neither ``times`` nor ``iso_times`` in the options, there are no time variables.
    """

    def __init__(self, options: DumpOptions) -> None:
        self._on = options.times or options.iso_times
        self._separator = "T" if options.iso_times else " "
        self._limit = options.line_length
        self._ncdump = options.ncdump
        self._bounds: dict[str, Variable] = {}

    def note_bounds(self, variable: Variable, attribute: Attribute) -> None:
        """Record the bounds variable that a variable names; it shares the units."""
        if self._on and attribute.name == "bounds" and attribute.type == CHAR:
            if self._ncdump:  # ncdump remembers the last one only
                self._bounds.clear()
            self._bounds[attribute.text.partition("\0")[0]] = variable

    def of(self, variable: Variable) -> ToText | None:
        """Return a function from value to quoted date; None if the variable is not a time."""
        if not self._on:
            return None
        return self._to_text(variable, self._bounds.get(variable.name, variable))

    def _to_text(self, variable: Variable, owner: Variable) -> ToText | None:
        units, calendar = owner.attribute.get("units"), owner.attribute.get("calendar")
        numeric = variable.type.is_number
        if not numeric or units is None or units.type != CHAR:
            return None
        system = calendar.text if calendar is not None and calendar.type == CHAR else ""
        parsed = parse_units(units.text.partition("\0")[0], system, ncdump=self._ncdump)
        if parsed is None:
            return None

        def to_text(value: SupportsFloat) -> str:
            number = float(value)
            try:
                return special_float(number, False) or f'"{parsed.text(number, self._separator)}"'
            except OverflowError:  # a date out of range prints as empty text
                return '""'

        return to_text

    def attribute_comment(self, variable: Variable, attribute: Attribute, indent: int) -> str:
        """The comment with the dates of an attribute of a time variable; empty for all others."""
        kind = attribute.type.dtype.kind if attribute.type.is_atomic else "O"
        if not self._on or kind not in "iuf" or not len(attribute.values):
            return ""
        to_text = self._to_text(variable, variable)
        if to_text is None:
            return ""
        texts = [to_text(value) + "," for value in attribute.values]
        texts[-1] = texts[-1][:-1]
        if len(texts) <= 2:
            return " // " + " ".join(texts)
        out, position = "", self._limit
        for i, text in enumerate(texts):
            position += 1 + len(text)
            if i == 0 or position > self._limit:
                out += "\n" + " " * indent + "\t\t  // " + text
                position = 18 + len(text) + 3
            else:
                out += " " + text
        return out
