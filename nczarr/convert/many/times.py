"""Bring times to other units: the number of a reference date is shifted (the rule of netCDF4's MFTime)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nczarr.convert.many.fit import is_time
from nczarr.errors import UnsupportedError
from nczarr.model import ArraySource, Dataset, Region, Variable, join_fqn, split_fqn

_SHORT = {"d": "day", "h": "hour", "hr": "hour", "min": "minute", "s": "second", "sec": "second"}
_SHORT |= {"msec": "millisecond", "millisec": "millisecond", "microsec": "microsecond"}


@dataclass(frozen=True, eq=False)
class ShiftedSource:
    """Values of a source, each with a number added; special values stay."""

    inner: ArraySource
    shift: Any
    kept: tuple[Any, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inner.shape

    @property
    def dtype(self) -> np.dtype:
        return self.inner.dtype

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        values = self.inner.read(region)
        change = np.ones(values.shape, bool)
        for special in self.kept:
            change &= values != special
        moved = np.where(change, values + self.dtype.type(self.shift), values)
        if self.dtype.kind in "iu" and ((moved < values) != (self.shift < 0))[change].any():
            raise UnsupportedError("times in the units of the first file are too large for their type")
        if out is None:
            return moved
        out[...] = moved
        return out


def shifts(first: Dataset, other: Dataset, growing: frozenset[str]) -> Mapping[str, Any]:
    """Return what is to be added to times, by FQN, bounds of times included; nothing where units agree.

    Raises
    ------
    UnsupportedError
        If the calendars differ, or the units are not the same unit since another date.
    """
    import cftime

    found: dict[str, Any] = {}
    for fqn in growing:
        mine, theirs = first.all_variables[fqn], other.all_variables[fqn]
        if not (is_time(mine) and is_time(theirs)) or _units(mine) == _units(theirs):
            continue
        calendars = {_calendar(mine), _calendar(theirs)}
        word, other_word = _unit(mine), _unit(theirs)
        if len(calendars) > 1 or word != other_word:
            raise UnsupportedError(
                f"times in {_units(theirs)!r} ({_calendar(theirs)}) cannot be brought to {_units(mine)!r} "
                f"({_calendar(mine)}) without a change of their values",
                fqn=fqn,
            )
        calendar = calendars.pop()
        try:
            reference = cftime.num2date(0, _units(theirs), calendar)
            shift = cftime.date2num(reference, _units(mine), calendar)
        except (ValueError, TypeError, OverflowError) as error:
            raise UnsupportedError(f"times cannot be converted: {error}", fqn=fqn) from None
        if mine.type.dtype.kind in "iu" and shift != int(shift):
            raise UnsupportedError(
                f"times in {_units(theirs)!r} are no whole numbers in {_units(mine)!r}, as their type needs",
                fqn=fqn,
            )
        for name in (fqn, *_bounds(other, fqn)):
            if name in growing:
                found[name] = shift
    return found


def shifted(variable: Variable, shift: Any) -> Variable:
    """Return a variable with a number added to its values."""
    if variable.data is None:
        return variable
    special = [
        variable.attribute[n].values for n in ("_FillValue", "missing_value") if n in variable.attribute
    ]
    kept = tuple(v for values in special for v in values.tolist())
    return variable.with_data(ShiftedSource(variable.data, shift, kept))


def _bounds(dataset: Dataset, fqn: str) -> tuple[str, ...]:
    """Bounds have no units of their own, or the same."""
    for name in ("bounds", "climatology"):
        attribute = dataset.all_variables[fqn].attribute.get(name)
        if attribute is not None and attribute.type.name in ("char", "string"):
            found = join_fqn(split_fqn(fqn)[0], attribute.text.strip("\0 "))
            if found in dataset.all_variables and not is_time(dataset.all_variables[found]):
                return (found,)
    return ()


def _units(variable: Variable) -> str:
    return " ".join(variable.attribute["units"].text.strip("\0").split())


def _unit(variable: Variable) -> str:
    word = _units(variable).split(" ")[0].lower()
    word = word[:-1] if word.endswith("s") and len(word) > 1 else word
    return _SHORT.get(word, word)


def _calendar(variable: Variable) -> str:
    attribute = variable.attribute.get("calendar")
    name = "standard" if attribute is None else attribute.text.strip("\0 ").lower()
    return "standard" if name == "gregorian" else name
