"""Compare the steps of coordinates, and convert times to other units.

Times are equal within their rounding; other coordinates are compared exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from nczarr import model
from nczarr.convert.change.nodes import find_variable
from nczarr.convert.endpoints import name_of
from nczarr.errors import UnsupportedError, error_context
from nczarr.model import ArraySource, Attribute, Dataset, MemorySource, Variable
from nczarr.model.coordinates import is_time, text_of
from nczarr.model.nodes import KnownSteps
from nczarr.model.stored_form import Conversion, ConvertedSource, StoredForm, number_of, special_numbers
from nczarr.model.times import LENGTHS, ROUNDING, TimeUnits, unit_of
from nczarr.options import named

#: Hint for times that do not fit the units of the first file.
_OTHER_UNITS = (
    "join the files anew with one first whose units and type hold all times, or omit the variable with -x"
)
#: Number of steps that are compared together.
_TOGETHER = 10_000


def in_units_of(first: Dataset, other: Dataset, growing: Collection[str]) -> Dataset:
    """Return a dataset with its times and their bounds in the units of the first dataset.

    Raises
    ------
    UnsupportedError
        If the calendars differ, a unit has no fixed length, or a reference date is ambiguous.
    """
    found: dict[str, Variable] = {}
    for fqn in sorted(growing):
        mine, theirs = first.all_variables.get(fqn), other.all_variables.get(fqn)
        if mine is None or theirs is None or not (is_time(mine) and is_time(theirs)):
            continue
        old, new = TimeUnits.of(theirs), TimeUnits.of(mine)
        if old.text == new.text:
            continue
        for name in (fqn, *bounds_of(other, fqn)):
            if name in growing:
                with error_context(fqn=name):
                    found[name] = _converted(name, other.all_variables[name], old, new)
    return model.rewrite(other, variable=found.get) if found else other


def with_finer_times(first: Dataset, others: Sequence[Dataset], growing: Collection[str]) -> Dataset:
    """Return the first dataset with its times, and their bounds, in a unit in which those of the others are whole too.

    Whole days cannot tell 06:00: they become whole hours since the same date. Nothing changes if the unit is fine
    enough, or if no unit is.
    """
    changed: dict[str, Variable] = {}
    for fqn in sorted(growing):
        mine = first.all_variables.get(fqn)
        if mine is None or not is_time(mine) or mine.type.dtype.kind not in "iu" or mine.data is None:
            continue
        # The packed numbers do not say what a unit is.
        if {"scale_factor", "add_offset"} & mine.attribute.keys():
            continue
        names = [fqn, *(b for b in bounds_of(first, fqn) if b in growing)]
        units = _unit_for(TimeUnits.of(mine), others, fqn, names)
        if units is None:
            continue
        text = Attribute.of("units", units.text, mine.attribute["units"].type)
        for name in names:
            finer = _in_unit(name, first.all_variables[name], TimeUnits.of(mine), units)
            attributes = [text if a.name == "units" else a for a in finer.attributes]
            changed[name] = replace(finer, attributes=tuple(attributes)) if name == fqn else finer
    return model.rewrite(first, variable=changed.get) if changed else first


def _unit_for(
    units: TimeUnits, others: Sequence[Dataset], fqn: str, names: Sequence[str]
) -> TimeUnits | None:
    """Return the coarsest finer unit in which all times of the others are whole; None if the unit itself does."""
    length, date = units.length, units.text.partition(" since ")[2]
    if length is None:
        return None
    there = [
        (TimeUnits.of(v), o) for o in others if (v := o.all_variables.get(fqn)) is not None and is_time(v)
    ]
    finer = [w for w in reversed(LENGTHS) if LENGTHS[w] < length and not (length / LENGTHS[w]).numerator % 1]
    for word in ("", *finer):
        found = TimeUnits(f"{word}s since {date}", units.calendar) if word else units
        lines = [(found.factor_and_shift(own), other) for own, other in there]
        numbers = (
            (Fraction(number) * factor + shift, found.length)
            for (factor, shift), other in lines
            for name in names
            if (v := other.all_variables.get(name)) is not None and v.data is not None
            for number in read_all(v.data).reshape(-1).tolist()
            # NaN is no time.
            if number == number
        )
        if all(abs(n - round(n)) * (unit or 1) <= ROUNDING for n, unit in numbers):
            return found if word else None
    return None


def _in_unit(name: str, variable: Variable, old: TimeUnits, new: TimeUnits) -> Variable:
    """Return a variable with its times in a finer unit since the same date; missing values keep their numbers."""
    if variable.data is None:
        return variable
    values = read_all(variable.data)
    factor = int(new.factor_and_shift(old)[0])
    is_special = np.isin(values, list(special_numbers(variable)))
    # numpy would wrap around in silence.
    if values.dtype.kind in "iu":
        limits, known = np.iinfo(values.dtype), [int(n) * factor for n in values[~is_special].tolist()]
        if known and not limits.min <= min(known) <= max(known) <= limits.max:
            raise UnsupportedError(
                f"{named('adjust', 'times')}: {values.dtype.name} does not hold the times in {new.text!r}",
                fqn=name,
                hint=_OTHER_UNITS,
            )
    finer = np.where(is_special, values, values * values.dtype.type(factor))
    return variable.with_data(MemorySource(finer.astype(values.dtype)))


def _converted(name: str, variable: Variable, old: TimeUnits, new: TimeUnits) -> Variable:
    """Return a variable with its stored numbers, which may be packed, in other units."""
    packing = StoredForm.of(variable.type, variable.attribute, defaults=True)
    if packing is None:
        is_zero = number_of(variable, "scale_factor", 1) == 0
        what = "scale_factor is 0" if is_zero else "scale_factor or add_offset is not a number"
        raise UnsupportedError(f"times cannot be converted: their {what}", fqn=name)
    if text_of(variable, "_Unsigned").lower() == "true":
        raise UnsupportedError("times that are stored as _Unsigned cannot be converted", fqn=name)
    if variable.data is None:
        return variable
    hint = _OTHER_UNITS
    if variable.type.dtype.kind in "iu" and packing.scale is None and packing.offset is None:
        hint = f"{named('adjust', 'times')} stores whole numbers of a finer unit; or {hint}"
    packing = replace(packing, fill=None)  # missing values keep their numbers
    conversion = Conversion(replace(packing, time=old), replace(packing, time=new))
    conversion.line  # noqa: B018  (refuses units before any value is read)
    return variable.with_new_values(
        ConvertedSource(variable.data, conversion, variable.type.dtype, fqn=name, hint=hint)
    )


def bounds_of(dataset: Dataset, fqn: str) -> list[str]:
    """Return the bounds of a time variable, unless they have units of their own."""
    texts = [text_of(dataset.all_variables[fqn], name) for name in ("bounds", "climatology")]
    found = [b for text in texts if (b := find_variable(dataset, text, model.split_fqn(fqn)[0])) is not None]
    return [name for name in found[:1] if not is_time(dataset.all_variables[name])]


def read_all(data: ArraySource) -> np.ndarray:
    """Return all values of a source."""
    return data.read(tuple(slice(0, n, 1) for n in data.shape))


def steps_of(dataset: Dataset, along: str) -> np.ndarray | None:
    """Return the coordinate of a dimension: numbers, or names as objects; None if it has none."""
    variable = dataset.all_variables.get(along)
    if variable is None or variable.data is None or variable.dimensions[:1] != (along,):
        return None
    values = read_all(variable.data)
    if variable.type is model.CHAR and values.ndim <= 2:
        names = np.empty(len(values), object)
        names[:] = [row.tobytes().rstrip(b"\0 ").decode("utf-8", "surrogateescape") for row in values]
        return names
    is_known = values.ndim == 1 and (values.dtype.kind in "iuf" or variable.type is model.STRING)
    return values if is_known else None


def known_after(known: KnownSteps, variable: Variable, steps: np.ndarray) -> KnownSteps | None:
    """Return the known steps with others behind them; None if these do not follow, or only all steps can tell.

    A gap between both does not count as a usual difference.

    Examples
    --------
    >>> time = Variable("time", model.DOUBLE)
    >>> known_after(KnownSteps(2, 0.0, 6.0, 6.0, 6.0), time, np.array([12.0, 18.0]))
    KnownSteps(count=4, first=0.0, last=18.0, least=6.0, most=6.0)
    >>> known_after(KnownSteps(2, 0.0, 6.0, 6.0, 6.0), time, np.array([6.0, 12.0])) is None
    True
    """
    if not len(steps) or steps.dtype.kind not in "iuf":
        return None
    ends = np.array([known.first, known.last], steps.dtype)
    data = [MemorySource(ends), MemorySource(steps) if variable.data is None else variable.data]
    # Two recorded steps that lie close together must stay apart.
    tolerance = min(tolerance_between(variable, ends, steps, data=data), known.least / 2)
    apart = _apart([known.last, *steps.tolist()], down=known.last < known.first)
    if not all(step > tolerance for step in apart):  # NaN, too
        return None
    # Otherwise the next gap of this length would not be told.
    usual = apart[1:] if is_gap(known, steps) else apart
    return KnownSteps(
        known.count + len(steps),
        known.first,
        steps[-1].item(),
        min(known.least, *apart),
        max([known.most, *usual]),
    )


def known_of(steps: np.ndarray) -> KnownSteps | None:
    """Return the record of all steps along a dimension; None if they are not numbers in strict order.

    Examples
    --------
    >>> known_of(np.array([9, 6, 0]))
    KnownSteps(count=3, first=9, last=0, least=3, most=6)
    """
    if len(steps) < 2 or steps.dtype.kind not in "iuf":
        return None
    first, last = steps[0].item(), steps[-1].item()
    least, most = math.inf, -math.inf
    # Python's numbers neither overflow nor wrap, and take 64 bytes each: those of a part are in memory.
    for start in range(0, len(steps) - 1, _TOGETHER):
        apart = _apart(steps[start : start + _TOGETHER + 1].tolist(), down=last < first)
        if not all(step > 0 for step in apart):
            return None
        least, most = min(least, *apart), max(most, *apart)
    return KnownSteps(len(steps), first, last, least, most)


def _apart(numbers: Sequence[float], *, down: bool) -> list[float]:
    """Return the differences of numbers that follow each other."""
    return [a - b if down else b - a for a, b in pairwise(numbers)]


def is_gap(known: KnownSteps, steps: np.ndarray) -> bool:
    """Return True if steps begin further behind the known ones than these are apart; months have 28 to 31 days.

    Examples
    --------
    >>> is_gap(KnownSteps(2, 0, 6, 6, 6), np.array([12])), is_gap(KnownSteps(2, 0, 6, 6, 6), np.array([36]))
    (False, True)
    """
    return bool(abs(steps[0].item() - known.last) > 1.5 * known.most)


def shown_step(variable: Variable, step: object) -> str:
    """Return a step of a coordinate as users know it: a time as a date, anything else as it is.

    Examples
    --------
    >>> units = model.Attribute.of("units", "hours since 2026-10-01")
    >>> shown_step(Variable("time", model.DOUBLE, attributes=(units,)), np.float64(726))
    '2026-10-31 06:00'
    >>> shown_step(Variable("lat", model.DOUBLE), np.float64(0.5))
    '0.5'
    """
    packing = StoredForm.of(variable.type, variable.attribute, defaults=True) if is_time(variable) else None
    if packing is None:
        return str(step)
    number = packing.decoded(np.asarray(step))
    text = TimeUnits.of(variable).date_of(np.asarray(number)[()])
    # Steps are whole minutes nearly always: "2026-10-31 06:00" says as much as "2026-10-31T06:00:00".
    return text.replace("T", " ").removesuffix(":00") if text.count(":") == 2 else text


def tolerance_between(variable: Variable, *runs: np.ndarray, data: Sequence[ArraySource]) -> float:
    """Return the maximum difference of two numbers of a coordinate that stand for the same step.

    Integers, and coordinates that are not times, are compared exactly. Floating-point times are rounded when they are
    written, and when they are converted to other units, now or earlier. The tolerance is two units in the last place
    of the largest numbers, in the old and the new units, and at least the rounding of a conversion. It is at most half
    the smallest step inside a run, so that two steps of one run are always different.

    Parameters
    ----------
    variable : Variable
        The coordinate.
    runs : ndarray
        Its numbers in each dataset.
    data : sequence of ArraySource
        The sources of the runs.
    """
    if not is_time(variable) or variable.type.dtype.kind != "f":
        return 0.0
    length = LENGTHS.get(unit_of(variable), LENGTHS["day"])
    scale = abs(float(number_of(variable, "scale_factor", 1) or 1))
    sizes = []
    for source, run in zip(data, runs, strict=True):
        known = run[np.isfinite(run)]
        ends = [float(known.min()), float(known.max())] if known.size else [0.0, 0.0]
        sizes.append([max(map(abs, ends)), *_sizes_before(source, ends)])
    rounding = 2 * float(np.finfo(variable.type.dtype).eps) * sum(map(max, sizes))
    steps = [abs(step) for run in runs for step in np.diff(_wide(run)).tolist() if step and np.isfinite(step)]
    # Two steps of the axis must not become one.
    if steps:
        return min(max(ROUNDING / float(length) / scale, rounding), min(steps) / 2)
    # The precision of single steps is unknown. Converted steps are rounded.
    return rounding if any(len(size) > 1 for size in sizes) else 0.0


def refuse_missing(
    variable: Variable, values: np.ndarray, along: str, source_of: Callable[[int], str | None]
) -> None:
    """Refuse a coordinate with steps that are NaN or infinite, or stand for missing values."""
    # A NaN passes a check of the order, because it compares as false.
    is_missing = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    for special in special_numbers(variable):
        is_missing |= values == special
    missing = np.flatnonzero(is_missing)
    # A NaN passes each comparison of the order, since it compares as false.
    if missing.size:
        raise UnsupportedError(
            f"the coordinate {along} has the missing value {values[missing[0]]} in {missing.size} steps",
            path=source_of(int(missing[0])),
            hint="correct the file, or omit the step with -d",
        )


def _wide(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64) if values.dtype.kind == "f" else values


def _sizes_before(data: object, ends: list[float]) -> Iterator[float]:
    """Yield the largest absolute number of a source in the units before each conversion."""
    factor = 1.0
    line = data.conversion.line if isinstance(data, ConvertedSource) else None
    if line is not None:
        before = [end - float(line.shift) for end in ends]  # the old numbers times the factor
        yield max(map(abs, before))
        factor = float(line.factor)
        ends = [end / factor for end in before]
    for part in (*getattr(data, "parts", ()), *([data.inner] if hasattr(data, "inner") else ())):
        for size in _sizes_before(part, ends):
            yield size * abs(factor)


def as_known(known: np.ndarray, steps: np.ndarray, tolerance: float) -> np.ndarray:
    """Return steps with the known numbers for those that are equal within the tolerance.

    Examples
    --------
    >>> as_known(np.array([1.0, 2.0]), np.array([2.0000001, 3.0]), 1e-6).tolist()
    [2.0, 3.0]
    """
    if not tolerance or not len(known):
        return steps
    ordered = np.sort(known)
    at = np.searchsorted(ordered, steps)
    before, behind = ordered[np.maximum(at - 1, 0)], ordered[np.minimum(at, len(ordered) - 1)]
    nearest = np.where(abs(_wide(steps) - _wide(before)) < abs(_wide(behind) - _wide(steps)), before, behind)
    found: np.ndarray = np.where(abs(_wide(steps) - _wide(nearest)) <= tolerance, nearest, steps)
    return found


def refuse_disorder(dataset: Dataset, along: str, sources: Sequence[object]) -> KnownSteps | None:
    """Refuse a joined coordinate that is not monotonic, and names that occur twice; return the steps as a record."""
    values = steps_of(dataset, along)
    if values is None or not len(values):
        return None
    variable = dataset.all_variables[along]
    assert variable.data is not None
    all_parts: Sequence[ArraySource] = getattr(variable.data, "parts", [variable.data])
    parts = [part for part in all_parts if part.shape[0]]
    ends = np.cumsum([part.shape[0] for part in all_parts])

    def source_of(step: int) -> str:
        return name_of(sources[min(int(np.searchsorted(ends, step, "right")), len(sources) - 1)])

    if values.dtype.kind == "O":
        refuse_repeated_names(values, along, source_of)
        return None
    refuse_missing(variable, values, along, source_of)
    runs = np.split(values, np.cumsum([part.shape[0] for part in parts])[:-1])
    tolerance = tolerance_between(variable, *runs, data=parts)
    # The direction of the first file counts, if it has several steps.
    end = len(runs[0]) - 1 if len(runs[0]) > 1 else -1
    wide = _wide(values)
    down = wide[end] < wide[0]
    before, behind = (wide[1:], wide[:-1]) if down else (wide[:-1], wide[1:])
    # Add instead of subtracting, because unsigned types have no negative differences.
    wrong = np.flatnonzero(behind <= (before + tolerance if tolerance else before))
    if wrong.size:
        at = int(wrong[0]) + 1
        same = bool(values[at] != values[at - 1] and abs(wide[at] - wide[at - 1]) <= tolerance)
        raise UnsupportedError(
            f"the coordinate {along} has {shown_step(variable, values[at])} after "
            f"{shown_step(variable, values[at - 1])}"
            + (", which is the same time within its rounding" if same else ""),
            path=source_of(at),
            hint="steps are repeated, or the files are not in order",
        )
    return known_of(values)


def refuse_repeated_names(names: np.ndarray, along: str, source_of: Callable[[int], str]) -> None:
    """Refuse names that occur twice."""
    first: dict[str, int] = {}
    for step, name in enumerate(names.tolist()):
        before = first.setdefault(name, step)
        if before != step:
            raise UnsupportedError(
                f"the coordinate {along} has the name {name!r}, which {source_of(before)} has already",
                path=source_of(step),
                hint="omit the file or the step that is repeated",
            )
