"""Compare the steps of coordinates, and convert times to other units.

Times are equal within their rounding; other coordinates are compared exactly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from nczarr import model
from nczarr.convert.change.nodes import find_variable
from nczarr.convert.change.selecting import number_of
from nczarr.convert.endpoints import name_of
from nczarr.convert.many.fit import calendar_of
from nczarr.errors import UnsupportedError
from nczarr.model import ArraySource, Dataset, Variable, own_fill_value
from nczarr.model.coordinates import is_time, text_of
from nczarr.model.sources import ChangedSource

#: Microseconds for each unit.
LENGTHS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
}
_SHORT = {"d": "day", "h": "hour", "hr": "hour", "min": "minute", "s": "second", "sec": "second"}
_SHORT |= {"msec": "millisecond", "millisec": "millisecond", "microsec": "microsecond"}
#: Reference dates that all readers parse alike, unlike for example ``2000-1-1 6:00 +6``.
_DATE = re.compile(
    r"[+-]?\d+-\d+-\d+(?:[T ] *\d+:\d+(?::\d+(?:\.\d*)?)?)? *(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
#: Maximum rounding of a time in microseconds: days since the year 1 have this precision in float64.
_ROUNDING = 10.0


@dataclass(frozen=True, eq=False)
class ConvertedSource(ChangedSource):
    """Times of a source in other units: multiplied by `factor`, then increased by `offset`.

    Parameters
    ----------
    tolerance : float
        Maximum rounding of a result.
    special : tuple
        Numbers that are not times, such as fill values; they stay.
    """

    factor: Fraction
    offset: Fraction
    tolerance: float
    special: tuple[int | float, ...] = ()

    def changed(self, values: np.ndarray) -> np.ndarray:
        """Return the times in the other units.

        Raises
        ------
        UnsupportedError
            If the type of the values cannot represent the times.
        """
        is_value = np.ones(values.shape, bool)
        for special in self.special:
            is_value &= values != special
        if values.dtype.kind == "f":
            is_value &= np.isfinite(values)
        result = values.copy()
        if not is_value.any():
            return result
        convert = self._floats if values.dtype.kind == "f" else self._integers
        result[is_value] = convert(values[is_value])
        for special in self.special:
            if (result[is_value] == special).any():
                raise UnsupportedError(
                    f"a time in the units of the first file is {special}, which stands for a missing value"
                )
        return result

    def _floats(self, values: np.ndarray) -> np.ndarray:
        factor, offset = self.factor, self.offset
        wide = np.longdouble
        exact = values.astype(wide) * wide(factor.numerator) / wide(factor.denominator)
        exact = exact + wide(offset.numerator) / wide(offset.denominator)
        result: np.ndarray = exact.astype(self.dtype)
        if (np.abs(result.astype(wide) - exact) > self.tolerance).any():
            raise UnsupportedError(
                f"times in the units of the first file are rounded by more than {_ROUNDING:g} microseconds "
                f"in their type ({self.dtype.name})"
            )
        return result

    def _integers(self, values: np.ndarray) -> np.ndarray:
        factor, offset = self.factor, self.offset
        ends = [int(values.min()) * factor + offset, int(values.max()) * factor + offset]
        limits = np.iinfo(self.dtype)
        if min(ends) < limits.min - Fraction(1, 2) or max(ends) > limits.max + Fraction(1, 2):
            raise UnsupportedError(
                f"times in the units of the first file are too large for their type ({self.dtype.name})"
            )
        if factor == 1 and offset.denominator == 1:
            # Both ends fit, so that arithmetic modulo the width of the type is exact.
            wrapped = int(offset) % (1 << 8 * self.dtype.itemsize)
            unsigned = values.astype(np.dtype(f"u{self.dtype.itemsize}"))
            return (unsigned + unsigned.dtype.type(wrapped)).astype(self.dtype)
        divisor = math.lcm(factor.denominator, offset.denominator)
        times, plus = int(factor * divisor), int(offset * divisor)
        largest = max(abs(int(values.min())), abs(int(values.max()))) * abs(times) + abs(plus) + divisor
        counts = values.astype(np.int64 if 2 * largest < 1 << 63 else object) * times + plus
        whole = (2 * counts + divisor) // (2 * divisor)
        if (abs(counts - whole * divisor) > math.floor(Fraction(self.tolerance) * divisor)).any():
            raise UnsupportedError(
                f"times are not integers in the units of the first file, as their type ({self.dtype.name}) requires"
            )
        return whole.astype(self.dtype)


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
        if _units(mine) == _units(theirs):
            continue
        factor, shift, length = _between(fqn, mine, theirs)
        for name in (fqn, *_bounds(other, fqn)):
            if name in growing:
                found[name] = _converted(name, other.all_variables[name], factor, shift, length)
    return model.rewrite(other, variable=found.get) if found else other


def _between(fqn: str, mine: Variable, theirs: Variable) -> tuple[Fraction, Fraction, int]:
    """Return factor and offset in units of the first variable, and the length of its unit in microseconds."""
    import cftime

    calendar = calendar_of(mine)
    word, other_word = unit_of(mine), unit_of(theirs)
    length, other_length = LENGTHS.get(word), LENGTHS.get(other_word)
    unknown = length is None or other_length is None
    if calendar != calendar_of(theirs) or (unknown and word != other_word):
        raise UnsupportedError(
            f"times in {_units(theirs)!r} ({calendar_of(theirs)}) cannot be converted to {_units(mine)!r} "
            f"({calendar}) without a change of their values",
            fqn=fqn,
        )
    for variable in (mine, theirs):
        date = _units(variable).partition(" since ")[2].strip()
        if not _DATE.fullmatch(date):
            raise UnsupportedError(
                f"times cannot be converted: the reference date {date!r} is ambiguous",
                fqn=fqn,
                hint="use YYYY-MM-DD hh:mm:ss, with +hh:mm for a time zone",
            )
    try:
        reference = cftime.num2date(0, _units(theirs), calendar)
        if length is None or other_length is None:  # months of some calendars
            shift = Fraction(float(cftime.date2num(reference, _units(mine), calendar)))
            return Fraction(1), shift, LENGTHS["day"]
        passed = reference - cftime.num2date(0, _units(mine), calendar)
    except (ValueError, TypeError, OverflowError) as error:
        raise UnsupportedError(f"times cannot be converted: {error}", fqn=fqn) from None
    microseconds = (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
    return Fraction(other_length, length), Fraction(microseconds, length), length


def _converted(fqn: str, variable: Variable, factor: Fraction, shift: Fraction, length: int) -> Variable:
    """Return a variable with its stored numbers, which may be packed, in other units."""
    if text_of(variable, "_Unsigned").lower() == "true":
        raise UnsupportedError("times that are stored as _Unsigned cannot be converted", fqn=fqn)
    scale, offset = _number(fqn, variable, "scale_factor", 1), _number(fqn, variable, "add_offset", 0)
    if scale == 0:
        raise UnsupportedError("times cannot be converted: their scale_factor is 0", fqn=fqn)
    tolerance = _ROUNDING / length / abs(float(scale))
    step = (offset * factor + shift - offset) / scale
    near = Fraction(round(step))
    # The number 0.1 is not exactly a tenth, but stands for it.
    if factor == 1 and abs(step - near) <= tolerance:
        step = near
    if variable.data is None:
        return variable
    own = ConvertedSource(variable.data, factor, step, tolerance, special_numbers(variable))
    return variable.with_data(own)


def _number(fqn: str, variable: Variable, name: str, default: int) -> Fraction:
    value = number_of(variable, name, default)
    if value is None or not math.isfinite(value):
        raise UnsupportedError(f"times cannot be converted: their {name} is not a number", fqn=fqn)
    return Fraction(value)


def _bounds(dataset: Dataset, fqn: str) -> list[str]:
    """Return the bounds of a time variable, unless they have units of their own."""
    texts = [text_of(dataset.all_variables[fqn], name) for name in ("bounds", "climatology")]
    found = [b for text in texts if (b := find_variable(dataset, text, model.split_fqn(fqn)[0])) is not None]
    return [name for name in found[:1] if not is_time(dataset.all_variables[name])]


def _units(variable: Variable) -> str:
    return " ".join(variable.attribute["units"].text.strip("\0").split())


def unit_of(variable: Variable) -> str:
    """Return the unit of a time variable by its whole name."""
    word = _units(variable).split(" ")[0].lower()
    word = word[:-1] if word.endswith("s") and len(word) > 1 else word
    return _SHORT.get(word, word)


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
    scale = abs(float(_number(variable.name, variable, "scale_factor", 1))) or 1.0
    sizes = []
    for source, run in zip(data, runs, strict=True):
        known = run[np.isfinite(run)]
        ends = [float(known.min()), float(known.max())] if known.size else [0.0, 0.0]
        sizes.append([max(map(abs, ends)), *_sizes_before(source, ends)])
    rounding = 2 * float(np.finfo(variable.type.dtype).eps) * sum(map(max, sizes))
    steps = [abs(step) for run in runs for step in np.diff(_wide(run)).tolist() if step and np.isfinite(step)]
    if steps:
        return min(max(_ROUNDING / length / scale, rounding), min(steps) / 2)
    # The precision of single steps is unknown. Converted steps are rounded.
    return rounding if any(len(size) > 1 for size in sizes) else 0.0


def refuse_missing(
    variable: Variable, values: np.ndarray, along: str, source_of: Callable[[int], str | None]
) -> None:
    """Refuse a coordinate with steps that are NaN or stand for missing values."""
    is_missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    for special in special_numbers(variable):
        is_missing |= values == special
    missing = np.flatnonzero(is_missing)
    if missing.size:
        raise UnsupportedError(
            f"the coordinate {along} has the missing value {values[missing[0]]} in {missing.size} steps",
            path=source_of(int(missing[0])),
            hint="correct the file, or omit the step with -d",
        )


def special_numbers(variable: Variable) -> tuple[int | float, ...]:
    """Return the numbers that stand for missing values: ``missing_value``, and the fill value."""
    missing = variable.attribute.get("missing_value")
    special = [] if missing is None or missing.values.dtype.kind not in "iuf" else missing.values.tolist()
    if own_fill_value(variable) is not None or variable.type.dtype.itemsize > 1:  # bytes have no default
        special.append(np.asarray(model.fill_value_of(variable)).item())
    return tuple(special)


def _wide(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64) if values.dtype.kind == "f" else values


def _sizes_before(data: object, ends: list[float]) -> Iterator[float]:
    """Yield the largest absolute number of a source in the units before each conversion."""
    factor = 1.0
    if isinstance(data, ConvertedSource):
        before = [end - float(data.offset) for end in ends]  # the old numbers times the factor
        yield max(map(abs, before))
        factor = float(data.factor)
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


def refuse_disorder(dataset: Dataset, along: str, sources: Sequence[object]) -> None:
    """Refuse a joined coordinate that is not monotonic, and names that occur twice."""
    values = steps_of(dataset, along)
    if values is None or not len(values):
        return
    variable = dataset.all_variables[along]
    assert variable.data is not None
    all_parts: Sequence[ArraySource] = getattr(variable.data, "parts", [variable.data])
    parts = [part for part in all_parts if part.shape[0]]
    ends = np.cumsum([part.shape[0] for part in all_parts])

    def source_of(step: int) -> str:
        return name_of(sources[min(int(np.searchsorted(ends, step, "right")), len(sources) - 1)])

    if values.dtype.kind == "O":
        refuse_repeated_names(values, along, source_of)
        return
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
            f"the coordinate {along} has {values[at]} after {values[at - 1]}"
            + (", which is the same time within its rounding" if same else ""),
            path=source_of(at),
            hint="steps are repeated, or the files are not in order",
        )


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
