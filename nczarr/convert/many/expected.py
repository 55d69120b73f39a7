"""Find missing and repeated steps of a joined coordinate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import cftime
import numpy as np

from nczarr.convert.many.adjusting import packing_of
from nczarr.convert.many.fit import Fitting
from nczarr.convert.many.steps import refuse_missing, steps_of
from nczarr.errors import UnsupportedError
from nczarr.model import Dataset, Variable
from nczarr.model.coordinates import is_time, text_of
from nczarr.model.times import LENGTHS, calendar_of, unit_of
from nczarr.options import named

_STEP = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h|d|w|mo|y)?")
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
#: Maximum difference of a step from the expected one, as a part of it.
_ROUNDING = 1e-3
_LISTED = 12
#: Maximum number of steps that are missing together.
#: A wrong step, such as seconds on a daily axis, would fill the memory with missing steps.
_MOST = 1_000_000


@dataclass(frozen=True)
class ExpectedStep:
    """The step of a coordinate: a number of months, or a number in its units.

    Parameters
    ----------
    variable : Variable
        The coordinate.
    text : str
        The step as requested, or ``auto``.
    months : int
        0 if the step has a fixed length.
    """

    variable: Variable
    text: str
    length: float = 0.0
    months: int = 0

    def dates(self, values: np.ndarray) -> np.ndarray:
        """Return the dates of times in the units of the coordinate."""
        return np.atleast_1d(
            cftime.num2date(values, text_of(self.variable, "units"), calendar_of(self.variable))
        )

    def between(self, values: np.ndarray) -> np.ndarray:
        """Return the number of expected steps from each value to the next."""
        if not self.months:
            return np.diff(values) / self.length
        return np.diff([12 * date.year + date.month for date in self.dates(values)]) / self.months

    def after(self, value: float, count: int) -> np.ndarray:
        """Return the values of the next steps."""
        if not self.months:
            return value + self.length * np.arange(1, count + 1)
        found = []
        (start,) = self.dates(np.array([value]))
        for number in range(1, count + 1):
            years, month = divmod(start.month - 1 + number * self.months, 12)
            first = start.replace(year=start.year + years, month=month + 1, day=1)
            found.append(first.replace(day=min(start.day, first.daysinmonth)))
        units, calendar = text_of(self.variable, "units"), calendar_of(self.variable)
        return np.asarray(cftime.date2num(found, units, calendar), float)

    def shown(self, values: np.ndarray) -> str:
        """Return values as text: dates of times."""
        texts = [str(d) for d in self.dates(values)] if is_time(self.variable) else [f"{v:g}" for v in values]
        texts = [text.removesuffix(" 00:00:00") for text in texts[:_LISTED]]
        return ", ".join(texts) + (f" and {len(values) - _LISTED} more" if len(values) > _LISTED else "")


def expected_step(variable: Variable, values: np.ndarray, text: str) -> ExpectedStep:
    """Return the step of a coordinate that an option requests; ``auto`` is the most frequent one."""
    day = 0.0
    if is_time(variable):
        length = LENGTHS.get(unit_of(variable))
        day = float(LENGTHS["day"] / length) if length else 0.0
    if text == "auto":
        steps, counts = np.unique(np.round(np.diff(values), 6), return_counts=True)
        if not len(steps):
            raise UnsupportedError(f"{named('expect_step', 'auto')}: the coordinate has one step only")
        step = float(steps[counts.argmax()])
        # Months and years have no constant length in days.
        if day and 28 * day <= step <= 31 * day:
            return ExpectedStep(variable, "1mo", months=1)
        # A year has 365 or 366 days.
        if day and 365 * day <= step <= 366 * day:
            return ExpectedStep(variable, "1y", months=12)
        return ExpectedStep(variable, f"{step:g}", step)
    found = _STEP.fullmatch(text)
    unit = found and found[2]
    if not found or not float(found[1]) or (unit and not is_time(variable)) or (unit is None and day):
        raise UnsupportedError(
            f"{named('expect_step', text)}: not a step", hint="for example 1d, 6h, 1mo, auto; 0.5 for no time"
        )
    number = float(found[1])
    if unit in ("mo", "y"):
        if number % 1:
            raise UnsupportedError(f"{named('expect_step', text)}: not a whole number")
        return ExpectedStep(variable, text, months=int(number) * (12 if unit == "y" else 1))
    if unit is None:
        return ExpectedStep(variable, text, number if values[-1] >= values[0] else -number)
    if not day:
        raise UnsupportedError(f"{named('expect_step', text)}: a unit of the coordinate has no fixed length")
    return ExpectedStep(variable, text, number * _SECONDS[unit] / _SECONDS["d"] * day)


def missing_steps(
    parts: Sequence[Dataset], names: Sequence[str], along: str, fitting: Fitting
) -> dict[int, np.ndarray]:
    """Return the numbers of the missing steps, by the index of the step before them.

    Raises
    ------
    UnsupportedError
        If steps are repeated or irregular, or missing without ``--join fill``.
    """
    assert fitting.expect_step is not None
    variable = parts[0].all_variables.get(along)
    runs = [steps_of(part, along) for part in parts]
    packing = None if variable is None else packing_of(variable)
    if variable is None or packing is None or any(run is None or run.dtype.kind == "O" for run in runs):
        raise UnsupportedError(f"{named('expect_step')}: {along} has no coordinate of numbers", path=names[0])
    numbers = np.concatenate([run for run in runs if run is not None])
    values = packing.decoded(numbers)
    owner = np.repeat(np.arange(len(parts)), [0 if run is None else len(run) for run in runs])
    # A NaN compares as false, and passed the check of the order.
    refuse_missing(variable, numbers, along, lambda at: names[owner[at]])
    step = expected_step(variable, values, fitting.expect_step)
    counts = step.between(values)
    whole = np.rint(counts)
    # Negated, since a NaN compares as false.
    odd = np.flatnonzero(~(abs(counts - whole) <= _ROUNDING * np.maximum(1, abs(whole))) | (whole < 0))
    if odd.size:
        raise UnsupportedError(
            f"{named('expect_step', step.text)}: {along} goes from {step.shown(values[odd[:1]])} to "
            f"{step.shown(values[odd[:1] + 1])}",
            path=names[owner[odd[0] + 1]],
            hint="the files are not in order, or the axis has another step",
        )
    # One wrong date would make millions of missing steps.
    if whole.max(initial=0) > _MOST:
        at = int(whole.argmax())
        raise UnsupportedError(
            f"{named('expect_step', step.text)}: {along} lacks {int(whole[at]) - 1} steps after "
            f"{step.shown(values[[at]])}",
            path=names[owner[at + 1]],
            hint="a longer step",
        )
    gaps = {int(at): step.after(float(values[at]), int(whole[at]) - 1) for at in np.flatnonzero(whole > 1)}
    repeated = np.flatnonzero(whole == 0)
    problems = []
    if gaps and (fitting.join != "fill" or repeated.size):
        problems.append(
            f"lacks {sum(map(len, gaps.values()))} steps: {step.shown(np.concatenate([*gaps.values()]))}"
        )
    if repeated.size:
        problems.append(f"has {repeated.size} steps twice: {step.shown(values[repeated])}")
    if problems:
        filling = f"{named('join', 'fill')} writes fill values for missing steps"
        raise UnsupportedError(
            f"{named('expect_step', step.text)}: {along} {'; '.join(problems)}",
            path=names[owner[int(min([*gaps, *repeated])) + 1]],
            hint="omit a file, or steps with -d" if repeated.size else filling,
        )
    return {at: packing.encoded(missing) for at, missing in gaps.items()}
