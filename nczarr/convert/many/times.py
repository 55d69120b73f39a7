"""Bring times to other units: to another unit of fixed length, and another reference date."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from nczarr.convert.change.choosing import find_variable
from nczarr.convert.change.selecting import is_time
from nczarr.convert.many.fit import calendar_of
from nczarr.errors import UnsupportedError
from nczarr.model import (
    Dataset,
    Variable,
    fill_value_of,
    own_fill_value,
    split_fqn,
)
from nczarr.model.sources import ChangedSource

#: Microseconds a unit.
_LENGTHS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
}
_SHORT = {"d": "day", "h": "hour", "hr": "hour", "min": "minute", "s": "second", "sec": "second"}
_SHORT |= {"msec": "millisecond", "millisec": "millisecond", "microsec": "microsecond"}
#: Reference dates that readers agree upon; of others, such as ``2000-1-1 6:00 +6``, each reads another part.
_DATE = re.compile(
    r"[+-]?\d+-\d+-\d+(?:[T ] *\d+:\d+(?::\d+(?:\.\d*)?)?)? *(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
#: How far a time may be rounded, in microseconds: days since the year 1 are no finer in double precision.
_ROUNDING = 10.0


@dataclass(frozen=True)
class Move:
    """What makes the numbers of one file the numbers of another: a factor, then a step.

    Parameters
    ----------
    tolerance : float
        How far the number that its type can hold may be from the right one.
    kept : tuple
        Numbers that are no times.
    """

    factor: Fraction
    step: Fraction
    tolerance: float
    kept: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class MovedSource(ChangedSource):
    """Times of a source in other units; special values stay."""

    move: Move

    def changed(self, values: np.ndarray) -> np.ndarray:
        """Return the times in the other units.

        Raises
        ------
        UnsupportedError
            If the type of the values cannot hold the times.
        """
        change = np.ones(values.shape, bool)
        for special in self.move.kept:
            change &= values != special
        if values.dtype.kind == "f":
            change &= np.isfinite(values)
        moved = values.copy()
        moved[change] = self._moved(values[change])
        for special in self.move.kept:
            if (moved[change] == special).any():
                raise UnsupportedError(
                    f"a time in the units of the first file is {special}, which stands for a missing value"
                )
        return moved

    def _moved(self, values: np.ndarray) -> np.ndarray:
        factor, step = self.move.factor, self.move.step
        if not values.size:
            return values
        if values.dtype.kind == "f":
            exact = _long(values, factor, step)
            moved = exact.astype(self.dtype)
            if (np.abs(moved.astype(exact.dtype) - exact) > self.move.tolerance).any():
                raise UnsupportedError(
                    f"times in the units of the first file are rounded by more than {_ROUNDING:g} microseconds "
                    f"in their type ({self.dtype.name})"
                )
            return moved
        ends = [int(values.min()) * factor + step, int(values.max()) * factor + step]
        held = np.iinfo(self.dtype)
        if min(ends) < held.min - Fraction(1, 2) or max(ends) > held.max + Fraction(1, 2):
            raise UnsupportedError(
                f"times in the units of the first file are too large for their type ({self.dtype.name})"
            )
        if factor == 1 and step.denominator == 1:
            # In two's complement the step may be taken modulo the width: both ends fit, so nothing overflows.
            wrapped = int(step) % (1 << 8 * self.dtype.itemsize)
            unsigned = values.astype(np.dtype(f"u{self.dtype.itemsize}"))
            return (unsigned + unsigned.dtype.type(wrapped)).astype(self.dtype)
        return self._whole(values)

    def _whole(self, values: np.ndarray) -> np.ndarray:
        """Whole numbers in the other units, by arithmetic of whole numbers."""
        factor, step = self.move.factor, self.move.step
        divisor = math.lcm(factor.denominator, step.denominator)
        times, plus = int(factor * divisor), int(step * divisor)
        largest = max(abs(int(values.min())), abs(int(values.max()))) * abs(times) + abs(plus) + divisor
        counts = values.astype(np.int64 if 2 * largest < 1 << 63 else object) * times + plus
        whole = (2 * counts + divisor) // (2 * divisor)
        if (abs(counts - whole * divisor) > math.floor(Fraction(self.move.tolerance) * divisor)).any():
            raise UnsupportedError(
                f"times are no whole numbers in the units of the first file, as their type ({self.dtype.name}) needs"
            )
        return whole.astype(self.dtype)


def _long(values: np.ndarray, factor: Fraction, step: Fraction) -> np.ndarray:
    wide = np.longdouble
    scaled = values.astype(wide) * wide(factor.numerator) / wide(factor.denominator)
    moved: np.ndarray = scaled + wide(step.numerator) / wide(step.denominator)
    return moved


def moves(first: Dataset, other: Dataset, growing: frozenset[str]) -> Mapping[str, Move]:
    """Return what brings times to the units of the first, by FQN, bounds of times included; nothing where units agree.

    Raises
    ------
    UnsupportedError
        If the calendars differ, a unit has no fixed length, or a reference date is not clear.
    """
    found: dict[str, Move] = {}
    for fqn in sorted(growing):
        mine, theirs = first.all_variables[fqn], other.all_variables[fqn]
        if not (is_time(mine) and is_time(theirs)) or _units(mine) == _units(theirs):
            continue
        factor, shift, length = _between(fqn, mine, theirs)
        for name in (fqn, *_bounds(other, fqn)):
            if name in growing:
                found[name] = _move(name, other.all_variables[name], factor, shift, length)
    return found


def moved(variable: Variable, move: Move) -> Variable:
    """Return a variable with its values in other units."""
    return variable if variable.data is None else variable.with_data(MovedSource(variable.data, move))


def rounding_of(variable: Variable) -> float | None:
    """Return by how much times may be rounded where they are brought to the units of a variable, in its numbers.

    None for whole numbers, which are brought to other units exactly, and for what is no time.
    """
    if not is_time(variable) or variable.type.dtype.kind != "f":
        return None
    length = _LENGTHS.get(_unit(variable), _LENGTHS["day"])
    scale = abs(float(_number(variable.name, variable, "scale_factor", 1))) or 1.0
    return _ROUNDING / length / scale


def _between(fqn: str, mine: Variable, theirs: Variable) -> tuple[Fraction, Fraction, int]:
    """The factor and what is added, in units of the first, and the length of such a unit in microseconds."""
    import cftime

    calendars = {calendar_of(mine), calendar_of(theirs)}
    word, other_word = _unit(mine), _unit(theirs)
    length, other_length = _LENGTHS.get(word), _LENGTHS.get(other_word)
    if len(calendars) > 1 or (word != other_word and (length is None or other_length is None)):
        raise UnsupportedError(
            f"times in {_units(theirs)!r} ({calendar_of(theirs)}) cannot be brought to {_units(mine)!r} "
            f"({calendar_of(mine)}) without a change of their values",
            fqn=fqn,
        )
    for variable in (mine, theirs):
        date = _units(variable).partition(" since ")[2].strip()
        if not _DATE.fullmatch(date):
            raise UnsupportedError(
                f"times cannot be converted: the reference date {date!r} is not clear",
                fqn=fqn,
                hint="YYYY-MM-DD hh:mm:ss, with +hh:mm for a time zone, is",
            )
    calendar = calendars.pop()
    try:
        reference = cftime.num2date(0, _units(theirs), calendar)
        if length is None or other_length is None:  # the months of some calendars
            shift = Fraction(float(cftime.date2num(reference, _units(mine), calendar)))
            return Fraction(1), shift, _LENGTHS["day"]
        passed = reference - cftime.num2date(0, _units(mine), calendar)
    except (ValueError, TypeError, OverflowError) as error:
        raise UnsupportedError(f"times cannot be converted: {error}", fqn=fqn) from None
    microseconds = (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
    return Fraction(other_length, length), Fraction(microseconds, length), length


def _move(fqn: str, variable: Variable, factor: Fraction, shift: Fraction, length: int) -> Move:
    """The move of the numbers that a variable stores, which may be packed."""
    unsigned = variable.attribute.get("_Unsigned")
    if unsigned is not None and unsigned.type.name in ("char", "string") and unsigned.text.lower() == "true":
        raise UnsupportedError("times in other units that are stored as _Unsigned are not converted", fqn=fqn)
    scale, offset = _number(fqn, variable, "scale_factor", 1), _number(fqn, variable, "add_offset", 0)
    if scale == 0:
        raise UnsupportedError("times cannot be converted: their scale_factor is 0", fqn=fqn)
    tolerance = _ROUNDING / length / abs(float(scale))
    step = (offset * factor + shift - offset) / scale
    near = Fraction(round(step))
    # A scale such as 0.1 is no exact tenth, and what it stands for is.
    if factor == 1 and abs(step - near) <= tolerance:
        step = near
    special = [variable.attribute[n].values for n in ("missing_value",) if n in variable.attribute]
    kept = [value for values in special if values.dtype.kind in "iuf" for value in values.tolist()]
    if own_fill_value(variable) is not None or variable.type.dtype.itemsize > 1:  # bytes have no default
        kept.append(np.asarray(fill_value_of(variable)).item())
    return Move(factor, step, tolerance, tuple(kept))


def _number(fqn: str, variable: Variable, name: str, default: int) -> Fraction:
    attribute = variable.attribute.get(name)
    if attribute is None:
        return Fraction(default)
    values = attribute.values
    if values.dtype.kind not in "iuf" or values.size != 1 or not np.isfinite(values).all():
        raise UnsupportedError(f"times cannot be converted: their {name} is no number", fqn=fqn)
    return Fraction(values.reshape(-1)[0].item())


def _bounds(dataset: Dataset, fqn: str) -> tuple[str, ...]:
    """Bounds have no units of their own, or the same."""
    for name in ("bounds", "climatology"):
        attribute = dataset.all_variables[fqn].attribute.get(name)
        if attribute is None or attribute.type.name not in ("char", "string"):
            continue
        found = find_variable(dataset, attribute.text.strip("\0 "), split_fqn(fqn)[0])
        if found is not None:
            return () if is_time(dataset.all_variables[found]) else (found,)
    return ()


def _units(variable: Variable) -> str:
    return " ".join(variable.attribute["units"].text.strip("\0").split())


def _unit(variable: Variable) -> str:
    word = _units(variable).split(" ")[0].lower()
    word = word[:-1] if word.endswith("s") and len(word) > 1 else word
    return _SHORT.get(word, word)
