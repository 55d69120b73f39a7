"""Decode times of all CF calendars for labels and axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

#: Calendars whose dates are civil dates.
_REAL = {"standard", "gregorian", "proleptic_gregorian"}
_MIDNIGHT = (0, 0, 0, 0)


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

    def _date(self, number: float) -> Any:
        import cftime

        return cftime.num2date(
            number, self.units, self.calendar, only_use_cftime_datetimes=True, only_use_python_datetimes=False
        )

    @property
    def is_real(self) -> bool:
        """True if the calendar is a civil calendar."""
        return self.calendar in _REAL

    def label(self, number: float) -> str:
        """Return the date of a number, without the time of day if it is midnight."""
        try:
            date = self._date(float(number))
        except (ValueError, TypeError, OverflowError):
            return f"{number:g}"
        day = f"{date.year:04d}-{date.month:02d}-{date.day:02d}"
        clock = (date.hour, date.minute, date.second, date.microsecond)
        if clock == _MIDNIGHT:
            return day
        if clock[2:] == (0, 0):
            return f"{day} {date.hour:02d}:{date.minute:02d}"
        return f"{day} {date.hour:02d}:{date.minute:02d}:{date.second:02d}"

    def milliseconds(self, numbers: np.ndarray) -> np.ndarray | None:
        """Return times as milliseconds since 1970 for date axes; None for calendars that are not civil."""
        if not self.is_real or not numbers.size:
            return None
        import cftime

        try:
            # These calendars are linear in time, except for the days that the Gregorian reform skipped.
            ends = cftime.date2num(
                [self._date(float(numbers.min())), self._date(float(numbers.max()))],
                "milliseconds since 1970-01-01",
                "proleptic_gregorian" if self.calendar == "proleptic_gregorian" else "standard",
            )
        except (ValueError, TypeError, OverflowError):
            return None
        low, high = float(numbers.min()), float(numbers.max())
        if high == low:
            return np.full(numbers.shape, float(ends[0]))
        return float(ends[0]) + (numbers - low) * ((float(ends[1]) - float(ends[0])) / (high - low))
