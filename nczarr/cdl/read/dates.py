"""Convert quoted dates, as ``ncdump -t`` prints the values of time variables, back to numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from nczarr.model import CHAR, STRING, Attribute

_SINCE = re.compile(r"\s*\w+\s+since\s+\S+", re.IGNORECASE)
_DATE = re.compile(r"(-?\d+)-(\d+)-(\d+)(?:[ T]+(\d+)(?::(\d+)(?::(\d+)(?:\.(\d+))?)?)?)?Z?")


def date_reader(attributes: Mapping[str, Attribute]) -> Callable[[str], float | None] | None:
    """A function that turns a date into a number, for a variable with units of time; else None.

    Examples
    --------
    >>> reader = date_reader({"units": Attribute.of("units", "days since 2000-01-01")})
    >>> reader("2000-01-02 12"), reader("no date")
    (1.5, None)
    """
    units = _text(attributes, "units")
    if units is None or not _SINCE.match(units):
        return None
    calendar = (_text(attributes, "calendar") or "standard").lower()

    def read(text: str) -> float | None:
        import cftime

        match = _DATE.fullmatch(text.strip())
        if match is None:
            return None
        year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
        microsecond = int((match[7] or "0").ljust(6, "0")[:6])
        try:
            date = cftime.datetime(year, month, day, hour, minute, second, microsecond, calendar=calendar)
            return float(cftime.date2num(date, units, calendar=calendar))
        except (ValueError, OverflowError, TypeError):
            return None  # not a unit or a calendar that is known: the text is read as any other text

    return read


def _text(attributes: Mapping[str, Attribute], name: str) -> str | None:
    attribute = attributes.get(name)
    return attribute.text if attribute is not None and attribute.type in (CHAR, STRING) else None
