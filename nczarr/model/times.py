"""Read the units and calendars of times, and relate those of two variables exactly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from nczarr.errors import UnsupportedError
from nczarr.model.coordinates import text_of
from nczarr.model.nodes import Variable

#: Microseconds for each unit.
LENGTHS = {
    "nanosecond": Fraction(1, 1_000),
    "microsecond": Fraction(1),
    "millisecond": Fraction(1_000),
    "second": Fraction(1_000_000),
    "minute": Fraction(60_000_000),
    "hour": Fraction(3_600_000_000),
    "day": Fraction(86_400_000_000),
}
_SHORT = {"d": "day", "h": "hour", "hr": "hour", "min": "minute", "s": "second", "sec": "second"}
_SHORT |= {"msec": "millisecond", "millisec": "millisecond", "microsec": "microsecond"}
#: Reference dates that all readers parse alike, unlike for example ``2000-1-1 6:00 +6``.
_DATE = re.compile(
    r"[+-]?\d+-\d+-\d+(?:[T ] *\d+:\d+(?::\d+(?:\.\d*)?)?)? *(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
#: Maximum rounding of a time in microseconds: days since the year 1 have this precision in float64.
ROUNDING = 10
#: Calendars with two names in the conventions.
_SAME_CALENDAR = {"gregorian": "standard", "365_day": "noleap", "366_day": "all_leap"}
#: Calendars that agree from :data:`AGREE` on.
CALENDARS = {"standard", "proleptic_gregorian"}
#: The first day from which the calendars ``standard`` and ``proleptic_gregorian`` agree.
AGREE = (1582, 10, 15)


def calendar_named(name: str) -> str:
    """Return a calendar by the first of its names; an empty name means ``standard``.

    Examples
    --------
    >>> calendar_named("365_day"), calendar_named("")
    ('noleap', 'standard')
    """
    name = name.lower() or "standard"
    return _SAME_CALENDAR.get(name, name)


def calendar_of(variable: Variable) -> str:
    """Return the calendar of a time variable, by the first of its names."""
    return calendar_named(text_of(variable, "calendar"))


def unit_named(units: str) -> str:
    """Return the unit of ``UNITS since DATE``, or of a duration, by its whole name.

    Examples
    --------
    >>> unit_named("Hours since 2000-01-01"), unit_named("s")
    ('hour', 'second')
    """
    word = (units.split() or [""])[0].lower()
    word = word[:-1] if word.endswith("s") and len(word) > 1 else word
    return _SHORT.get(word, word)


def unit_of(variable: Variable) -> str:
    """Return the unit of a time variable by its whole name."""
    return unit_named(units_of(variable))


def units_of(variable: Variable) -> str:
    """Return the units of a variable with single spaces."""
    return " ".join(text_of(variable, "units").split())


@dataclass(frozen=True)
class TimeUnits:
    """The units of times, ``UNIT since DATE``, in a calendar.

    Examples
    --------
    >>> hours, days = (TimeUnits(f"{u} since 2000-01-02", "standard") for u in ("hours", "days"))
    >>> hours.factor_and_shift(TimeUnits("days since 2000-01-01", "standard"))
    (Fraction(24, 1), Fraction(-24, 1))
    >>> int(days.length)
    86400000000
    """

    text: str
    calendar: str

    @classmethod
    def of(cls, variable: Variable) -> TimeUnits:
        """Return the units of a time variable."""
        return cls(units_of(variable), calendar_of(variable))

    @property
    def length(self) -> Fraction | None:
        """The length of the unit in microseconds; None for one that has no fixed length."""
        unit = unit_named(self.text)
        if unit == "month" and self.calendar == "360_day":
            return 30 * LENGTHS["day"]
        return LENGTHS.get(unit)

    def reference(self) -> Any:
        """Return the reference date in the calendar.

        Raises
        ------
        UnsupportedError
            If readers parse it differently, or the calendar has no such date.
        """
        import cftime

        date = self.text.partition(" since ")[2].strip()
        if not _DATE.fullmatch(date):
            raise UnsupportedError(
                f"times cannot be converted: the reference date {date!r} is ambiguous",
                hint="use YYYY-MM-DD hh:mm:ss, with +hh:mm for a time zone",
            )
        try:
            return cftime.num2date(0, f"microseconds since {date}", self.calendar)
        except (ValueError, TypeError, OverflowError) as error:
            raise UnsupportedError(f"times cannot be converted: {error}") from None

    def date_of(self, number: Any) -> str:
        """Return a time as text; the number itself if it is no time."""
        import cftime

        units = f"microseconds since {self.text.partition(' since ')[2]}"
        try:
            passed = number if self.length is None else round(Fraction(number.item()) * self.length)
            date = cftime.num2date(passed, units if self.length is not None else self.text, self.calendar)
        except (ValueError, TypeError, OverflowError, AttributeError):  # the last for NaN
            return f"{number:.9g}"
        return str(date.isoformat())

    def factor_and_shift(self, other: TimeUnits) -> tuple[Fraction, Fraction]:
        """Return what times in other units are multiplied by, and what is added, to have them in these units.

        Raises
        ------
        UnsupportedError
            If the calendars differ, a unit has no fixed length, or a reference date is ambiguous.
        """
        import cftime

        length, other_length = self.length, other.length
        is_known = length is not None and other_length is not None
        if self.calendar != other.calendar or (
            not is_known and unit_named(self.text) != unit_named(other.text)
        ):
            raise UnsupportedError(
                f"times in {other.text!r} ({other.calendar}) cannot be converted to {self.text!r} "
                f"({self.calendar}) without a change of their values"
            )
        reference, own = other.reference(), self.reference()
        if length is None or other_length is None:  # months of some calendars
            try:
                return Fraction(1), Fraction(float(cftime.date2num(reference, self.text, self.calendar)))
            except (ValueError, TypeError, OverflowError) as error:
                raise UnsupportedError(f"times cannot be converted: {error}") from None
        passed = reference - own
        microseconds = (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
        return other_length / length, Fraction(microseconds) / length
