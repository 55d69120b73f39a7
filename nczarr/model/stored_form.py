"""Fit values to the form in which a variable stores them, and find the first one that would change.

The form of a variable is its type with the attributes that say what its numbers stand for: packing, missing values,
units of time, members of an enum. Values that a program gives have a form too: ``datetime64[ns]`` counts nanoseconds
since 1970, floats are numbers with NaN. A :class:`Conversion` takes numbers of one form to another, and compares:

- times exactly; in floats within the rounding of their type, at most 10 microseconds,
- packed values within half a step of the packing,
- integers exactly, floats within the rounding of the stored type,
- missing values only to a declared number, and no value to it,
- enums only to their members.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from nczarr.errors import UnsupportedError
from nczarr.lazy import cached_property
from nczarr.model.coordinates import is_time, text_of
from nczarr.model.nodes import Attribute, Variable, fill_value_of, own_fill_value
from nczarr.model.sources import ChangedSource, Region, handed
from nczarr.model.times import (
    AGREE,
    CALENDARS,
    LENGTHS,
    ROUNDING,
    TimeUnits,
    calendar_named,
    unit_named,
    units_of,
)
from nczarr.model.types import EnumType, Type
from nczarr.text import format_value

#: Elements of a block, which fits the second-level cache of a processor with what is computed for it.
_BLOCK = 1 << 16
#: Maximum rounding of a number that is converted without loss, as a part of the step of its old packing.
PART_OF_STEP = 2.0**-10
#: Half a step, with the rounding of the division.
_HALF = 0.5 * (1 + 2.0**-20)
_NOT_A_TIME = np.iinfo(np.int64).min
#: Microseconds for each unit of numpy's times.
_NUMPY_UNITS = {
    "ns": LENGTHS["nanosecond"], "us": LENGTHS["microsecond"], "ms": LENGTHS["millisecond"],
    "s": LENGTHS["second"], "m": LENGTHS["minute"], "h": LENGTHS["hour"], "D": LENGTHS["day"],
    "W": 7 * LENGTHS["day"],
}  # fmt: skip


@dataclass(frozen=True)
class StoredForm:
    """How numbers stand for values: value = number * `scale` + `offset`, in the units of a time.

    Parameters
    ----------
    dtype : numpy.dtype
        Of the numbers; of their unsigned interpretation if ``_Unsigned`` says so.
    scale, offset : float or None
        None if the attribute is absent.
    narrow : bool
        An attribute is a float, or the numbers are floats: they are rounded to 24 bits.
    fill : number or None
        The number that missing values get; None if there is none.
    missing : tuple
        All numbers that stand for missing values.
    time : TimeUnits, optional
        The numbers are times.
    length : Fraction, optional
        The numbers are durations, in units of this length in microseconds.
    members : tuple of int, optional
        The numbers of an enum.

    Examples
    --------
    >>> from nczarr.model import SHORT
    >>> form = StoredForm.of(SHORT, {"scale_factor": Attribute.of("scale_factor", 0.01)})
    >>> form.fit(np.array([1.5, 2.25])).numbers.tolist()
    [150, 225]
    >>> print(form.fit(np.array([1.5, 400.0])).change)
    400.0 at [1] would be stored as -255.36 (int16 with scale_factor 0.01)
    """

    dtype: np.dtype
    scale: float | None = None
    offset: float | None = None
    narrow: bool = False
    fill: int | float | None = None
    missing: tuple[int | float, ...] = ()
    time: TimeUnits | None = None
    length: Fraction | None = None
    members: tuple[int, ...] | None = None

    @classmethod
    def of(
        cls, type_: Type, attributes: Mapping[str, Attribute], *, defaults: bool = False
    ) -> StoredForm | None:
        """Return the form of a variable with a type and attributes.

        Parameters
        ----------
        defaults : bool
            Missing values that no attribute declares have the fill value of the type, except in bytes.

        Returns
        -------
        StoredForm or None
            None if the variable has no numbers, or a packing that is not of single numbers.
        """
        base = type_.value_type
        if not base.is_number:
            return None
        own = [replace(a, type=base) if a.type == type_ else a for a in attributes.values()]  # those of enums
        variable = Variable("v", base, attributes=tuple(own))
        packing = _packing_of(variable)
        if packing is None:
            return None
        narrow = base.dtype == np.float32 or any(
            variable.attribute[name].values.dtype == np.float32 for name in packing
        )
        dtype, missing = _signed_as_declared(variable, special_numbers(variable, defaults=defaults))
        has_fill = own_fill_value(variable) is not None or (defaults and dtype.itemsize > 1)
        # xarray fills with the first of the numbers of missing_value.
        fill = missing[-1] if has_fill else missing[0] if missing and not defaults else None
        members = tuple(n for _, n in type_.members) if isinstance(type_, EnumType) else None
        timed = TimeUnits.of(variable) if is_time(variable) else None
        length = None if timed else LENGTHS.get(unit_named(units_of(variable)))
        scale, offset = packing.get("scale_factor"), packing.get("add_offset")
        known = tuple(dict.fromkeys(missing))
        return cls(dtype, scale, offset, narrow, fill, known, timed, length, members)

    def fit(self, values: np.ndarray, given: StoredForm | None = None) -> Fitted:
        """Return the numbers for values, and the first value that they change.

        Parameters
        ----------
        values : ndarray
            Numbers, ``datetime64``, ``timedelta64``, or objects: dates of :mod:`cftime`. Masked elements are missing.
        given : StoredForm, optional
            The values are numbers of this form, such as those of another variable.

        Raises
        ------
        UnsupportedError
            If no values of this kind fit, for example times of another calendar.
        """
        conversion, numbers, mask = _conversion(values, given, self)
        return conversion.fit(numbers, mask)

    def change(
        self, values: np.ndarray, numbers: np.ndarray, given: StoredForm | None = None
    ) -> ChangedValue | None:
        """Return the first value that given numbers change; the arguments are those of :meth:`fit`."""
        conversion, own, mask = _conversion(values, given, self)
        return conversion.fit(own, mask, _native(numbers).view(self.dtype)).change

    def keeps(self, values: np.ndarray, given: StoredForm | None = None) -> bool:
        """Return True if all values of this kind fit; the arguments and errors are those of :meth:`fit`."""
        conversion, _, mask = _conversion(values, given, self)
        return conversion.is_same and mask is None

    def is_like(self, other: StoredForm) -> bool:
        """True if the same numbers stand for the same values and for missing values."""
        mine, theirs = ((f.dtype, f.scale, f.offset, {*map(repr, f.missing)}) for f in (self, other))
        return mine == theirs

    @property
    def units_of_values(self) -> tuple[TimeUnits | None, Fraction | None, tuple[int, ...] | None]:
        """The meaning of the values: units of a time, the length of a duration, or the members of an enum."""
        return self.time, self.length, self.members

    @property
    def is_packed(self) -> bool:
        """True if the numbers differ from the values."""
        return self.scale is not None or self.offset is not None

    def is_missing(self, numbers: np.ndarray) -> np.ndarray:
        """Return where numbers stand for missing values."""
        found = np.zeros(numbers.shape, bool)
        for number in self.missing:
            # NaN is equal to no number, so a NaN as missing value would mask nothing.
            found |= np.isnan(numbers) if number != number else numbers == number
        return found

    def decoded(self, numbers: np.ndarray) -> np.ndarray:
        """Return the values of numbers, as numpy computes them in float64."""
        wide = numbers.astype(np.float64)
        if self.scale is not None:
            wide = wide * self.scale
        return wide if self.offset is None else wide + self.offset

    def encoded(self, values: np.ndarray) -> np.ndarray:
        """Return the nearest numbers for values; those that do not fit the type are cast as numpy does."""
        numbers = values if self.offset is None else values - self.offset
        numbers = numbers if self.scale is None else numbers / self.scale
        with np.errstate(all="ignore"):
            return (np.rint(numbers) if self.dtype.kind in "iu" else numbers).astype(self.dtype)

    def shown(self, number: Any) -> str:
        """Return the value of a number as text."""
        if bool(self.is_missing(np.asarray(number))):
            return "a missing value"
        if self.time is None and not self.is_packed:
            return format_value(number)
        value = self.decoded(np.asarray(number))[()]
        return f"{value:.9g}" if self.time is None else self.time.date_of(value)

    def __str__(self) -> str:
        """Return the type with the attributes that make the form, for messages."""
        packing = {"scale_factor": self.scale, "add_offset": self.offset}
        found = [f"{name} {number:.9g}" for name, number in packing.items() if number is not None]
        found += [] if self.time is None else [f"the units {self.time.text!r}"]
        found += [] if self.members is None else [f"the members {', '.join(map(str, self.members[:9]))}"]
        return " with ".join([self.dtype.name, *([" and ".join(found)] if found else [])])


def number_of(variable: Variable, name: str, default: int) -> int | float | None:
    """Return an attribute with a single number, or the default; None if the attribute has another value."""
    attribute = variable.attribute.get(name)
    if attribute is None:
        return default
    values = attribute.values
    return values.reshape(-1)[0].item() if values.dtype.kind in "iuf" and values.size == 1 else None


def _packing_of(variable: Variable) -> dict[str, float] | None:
    """Return the numbers of a packing by their attributes; None if they do not unpack single numbers.

    A ``scale_factor`` of 0 or NaN makes one value of all numbers, and no number of a value.
    """
    found: dict[str, float] = {}
    for name in ("scale_factor", "add_offset"):
        number = number_of(variable, name, 1)
        # With a scale of 0, infinity or NaN, no number stands for one value.
        if number is None or not math.isfinite(number) or (name == "scale_factor" and not number):
            return None
        if name in variable.attribute:
            found[name] = float(number)
    return found


def _signed_as_declared(
    variable: Variable, missing: tuple[int | float, ...]
) -> tuple[np.dtype, tuple[int | float, ...]]:
    """Return the dtype of the numbers as ``_Unsigned`` says, and the numbers of missing values in it."""
    dtype, declared = variable.type.dtype, text_of(variable, "_Unsigned").lower()
    if declared == "true" and dtype.kind == "i":  # netCDF-3 has no unsigned types
        # Attributes of a wider type may have the unsigned number itself.
        missing = tuple(int(n) % (1 << 8 * dtype.itemsize) for n in missing if float(n).is_integer())
        return np.dtype(f"u{dtype.itemsize}"), missing
    if declared == "false" and dtype.kind == "u":  # OPeNDAP's signed bytes
        dtype = np.dtype(f"i{dtype.itemsize}")
        return dtype, tuple(np.array(missing, np.int64).astype(dtype).tolist())
    return dtype, missing


def special_numbers(variable: Variable, *, defaults: bool = True) -> tuple[int | float, ...]:
    """Return the numbers that stand for missing values: ``missing_value``, and the fill value.

    Parameters
    ----------
    defaults : bool
        Types of more than a byte have a fill value by default.
    """
    missing = variable.attribute.get("missing_value")
    special = [] if missing is None or missing.values.dtype.kind not in "iuf" else missing.values.tolist()
    # netCDF4-python, too, masks the default fill value of all types but those of a byte.
    if own_fill_value(variable) is not None or (defaults and variable.type.dtype.itemsize > 1):
        special.append(np.asarray(fill_value_of(variable)).item())
    return tuple(special)


# --- the form of given values


def _conversion(
    values: np.ndarray, given: StoredForm | None, stored: StoredForm
) -> tuple[Conversion, np.ndarray, np.ndarray | None]:
    """Return the conversion of given values, their numbers, and where they are masked, if they are."""
    mask = np.ma.getmaskarray(values) if np.ma.isMaskedArray(values) else None
    numbers = np.ma.getdata(values) if mask is not None else np.asarray(values)
    if given is None:
        numbers, given = _numbers_of(numbers)
    else:
        numbers = _native(numbers).view(given.dtype)
    return Conversion(given, stored), numbers, mask


def _numbers_of(values: np.ndarray) -> tuple[np.ndarray, StoredForm]:
    """Return the numbers and the form of values as a program has them."""
    dtype = values.dtype
    if dtype.kind in "mM":
        unit, count = np.datetime_data(dtype)
        if unit not in _NUMPY_UNITS:  # years and months, and shorter ones than nanoseconds
            values = values.astype(f"{dtype.kind}8[{'D' if unit in ('Y', 'M') else 'ns'}]")
            unit, count = np.datetime_data(values.dtype)
        numbers = _native(values).view(np.int64)
        form = StoredForm(numbers.dtype, missing=(_NOT_A_TIME,))
        length = _NUMPY_UNITS[unit] * count
        if dtype.kind == "m":
            return numbers, replace(form, length=length)
        time = _Since1970("microseconds since 1970-01-01", "proleptic_gregorian", length, values.dtype)
        return numbers, replace(form, time=time)
    if dtype.kind == "O":
        return _numbers_of_dates(values)
    if dtype.kind not in "biuf":
        raise UnsupportedError(f"values of the dtype {dtype} are no numbers")
    if dtype.kind == "b":
        values = values.view(np.uint8)
    # netCDF has no float of 16 bits; float32 has all its values.
    elif dtype == np.float16:
        values = values.astype(np.float32)
    values = _native(values)
    return values, StoredForm(values.dtype, narrow=values.dtype == np.float32)


def _native(values: np.ndarray) -> np.ndarray:
    """Return values in the byte order of this machine."""
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _numbers_of_dates(values: np.ndarray) -> tuple[np.ndarray, StoredForm]:
    """Return the numbers and the form of dates, with None and NaN for missing ones."""
    import cftime

    is_missing = np.array([v is None or bool(v != v) for v in values.reshape(-1)], bool).reshape(values.shape)
    dates = values[~is_missing]
    calendar = calendar_named(getattr(dates[0], "calendar", "proleptic_gregorian") if dates.size else "")
    numbers = np.full(values.shape, _NOT_A_TIME, np.int64)
    if dates.size:
        try:
            found = cftime.date2num(dates, "microseconds since 1970-01-01", calendar)
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise UnsupportedError(
                f"the values are neither numbers nor dates of one calendar: {error}"
            ) from None
        numbers[~is_missing] = found
    time = _Since1970("microseconds since 1970-01-01", calendar, LENGTHS["microsecond"])
    return numbers, StoredForm(numbers.dtype, missing=(_NOT_A_TIME,), time=time)


@dataclass(frozen=True)
class _Since1970(TimeUnits):
    """Times of a program, in units of any length."""

    microseconds: Fraction
    #: The dtype of numpy's times.
    dtype: np.dtype | None = None

    @property
    def length(self) -> Fraction:
        return self.microseconds

    def date_of(self, number: Any) -> str:
        """Return a time as text, with all its digits."""
        if self.dtype is None:
            return super().date_of(number)
        text = str(number.astype(self.dtype))
        return text.rstrip("0").rstrip(".") if "." in text else text


# --- conversion


class ChangedValue(NamedTuple):
    """The first value that a variable would change.

    Attributes
    ----------
    place : tuple of int
        Its indices among the given values.
    given, stored : str
        The value, and what would be read instead.
    form : str
        The stored form.
    is_member : bool
        False for a number that no member of the enum has; it would be stored as it is.
    """

    place: tuple[int, ...]
    given: str
    stored: str
    form: str
    is_member: bool = True

    def __str__(self) -> str:
        return self._line("would be")

    def done(self) -> str:
        """Return the change as a sentence on values that are stored."""
        return self._line("is")

    def _line(self, verb: str) -> str:
        where = f" at [{', '.join(map(str, self.place))}]" if self.place else ""
        # Equal texts do not tell: a value and what is stored may look alike for other reasons.
        if not self.is_member:
            return f"{self.given}{where} is no member of the enum ({self.form})"
        return f"{self.given}{where} {verb} stored as {self.stored} ({self.form})"

    def moved(self, start: tuple[int, ...]) -> ChangedValue:
        """Return the change with its place in an array in which the values begin at `start`."""
        return self._replace(place=tuple(a + b for a, b in zip(self.place, start, strict=False)))


class Fitted(NamedTuple):
    """The numbers for given values, and the first value that they change; None if there is none."""

    numbers: np.ndarray
    change: ChangedValue | None


@dataclass(frozen=True)
class Conversion:
    """The conversion of numbers of one form to another form.

    Parameters
    ----------
    is_lossless : bool
        Values may change by no more than the rounding of the old numbers: not by half a step of the new packing.
    """

    old: StoredForm
    new: StoredForm
    is_lossless: bool = False

    @cached_property
    def is_same(self) -> bool:
        """True if the numbers stay, whichever they are."""
        old, new = self.old, self.new
        if (old.dtype, old.scale, old.offset) != (new.dtype, new.scale, new.offset) or self.line is not None:
            return False
        special = {n for n in new.missing if n == n} - {*old.missing}
        members = new.members is None or new.members == old.members
        return members and not special and ({*map(repr, old.missing)} <= {*map(repr, new.missing)})

    def fit(
        self, numbers: np.ndarray, mask: np.ndarray | None = None, result: np.ndarray | None = None
    ) -> Fitted:
        """Return converted numbers, and the first value that changes.

        Parameters
        ----------
        numbers : ndarray
            Of the old form.
        mask : ndarray, optional
            True for missing values.
        result : ndarray, optional
            Numbers of the new form to compare with, instead of the nearest ones.
        """
        if mask is None and result is None and self.is_same:
            return Fitted(numbers, None)
        flat, found = np.ravel(numbers), None if result is None else np.ravel(result)
        masked = None if mask is None else np.ravel(mask)
        out, first = np.empty(flat.shape, self.new.dtype) if found is None else found, None
        for at in range(0, flat.size, _BLOCK):
            part = slice(at, at + _BLOCK)
            result_, wrong = self._block(
                flat[part], None if masked is None else masked[part], None if found is None else found[part]
            )
            if found is None:
                out[part] = result_
            if first is None and wrong.any():
                first = at + int(np.argmax(wrong))
        change = None
        if first is not None:
            is_masked = masked is not None and bool(masked[first])
            given = "a missing value" if is_masked else self.old.shown(flat[first])
            place = tuple(int(i) for i in np.unravel_index(first, numbers.shape))
            members = self.new.members
            is_member = is_masked or members is None or out[first] in members
            change = ChangedValue(place, given, self.new.shown(out[first]), str(self.new), is_member)
        return Fitted(out.reshape(numbers.shape), change)

    def _block(
        self, numbers: np.ndarray, mask: np.ndarray | None, result: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the result, and where it is wrong."""
        new = self.new
        gone = self.old.is_missing(numbers)
        if mask is not None:
            gone |= mask
        fill = new.fill if new.fill is not None else np.nan if new.dtype.kind == "f" else None
        # Without another fill value, NaN stays as it is, with its bits.
        if numbers.dtype.kind == "f" and (fill is None or fill == fill or result is not None):
            gone |= np.isnan(numbers)
        if not gone.any():
            found, wrong = self._known(numbers, result)
        else:
            known = ~gone
            found = (
                np.full(numbers.shape, 0 if fill is None else fill, new.dtype) if result is None else result
            )
            # A number that is missing in both forms stays: missing_value does not become _FillValue.
            if result is None and numbers.dtype == new.dtype:
                kept = gone & new.is_missing(numbers)
                found[kept] = numbers[kept]
            wrong = gone & ~_is_gone(new, found)
            part, wrong[known] = self._known(numbers[known], None if result is None else result[known])
            if result is None:
                found[known] = part
        # A value whose number means "missing" in the new form would be read as missing.
        if new.missing:
            wrong |= new.is_missing(found) & ~(gone | np.isnan(found) if found.dtype.kind == "f" else gone)
        if new.members is not None:
            wrong |= ~(np.isin(found, new.members) | (gone & new.is_missing(found)))
        return found, wrong

    def _known(self, numbers: np.ndarray, result: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the result for numbers that are not missing, and where it is wrong."""
        with np.errstate(all="ignore"):
            if self.line is not None:
                return self.line.apply(numbers, self.new.dtype, result)
            if (self.old.scale, self.old.offset) == (self.new.scale, self.new.offset):
                return _cast(numbers, self.new.dtype, result)
            values = self.old.decoded(numbers)
            found = self.new.encoded(values) if result is None else result
            return found, self._is_far(numbers, values, found)

    def _is_far(self, numbers: np.ndarray, values: np.ndarray, found: np.ndarray) -> np.ndarray:
        """Return where numbers stand for other values."""
        old, new = self.old, self.new
        bound = np.maximum(abs(values), abs((old.offset or 0.0) - (new.offset or 0.0)))
        # Four roundings of float32 (2**-24), or eight of float64 (2**-53): attributes and each step are
        # rounded.
        bound *= 2.0**-22 if old.narrow or new.narrow else 2.0**-50
        if not self.is_lossless:
            if new.dtype.kind != "f":
                bound += abs(new.scale or 1.0) * _HALF
        elif old.is_packed and old.dtype.kind != "f":
            # Values that lose nothing change by the rounding of the old numbers and attributes.
            bound += abs(old.scale or 1.0) * PART_OF_STEP
        there = new.decoded(found)
        wrong = ~((abs(there - values) <= bound) | (there == values) | (np.isnan(there) & np.isnan(values)))
        if old.dtype.kind in "iu":  # float64 cannot represent all of 64 bits
            wrong |= values_lost(numbers)
        return wrong | values_lost(found) if new.dtype.kind in "iu" else wrong

    @cached_property
    def line(self) -> UnitConversion | None:
        """The line of times and durations in other units; None for other numbers."""
        old, new = self.old, self.new
        if old.time is None and old.length is None:
            return None  # numbers without units of time are those of the stored units
        if old.time is not None and new.time is not None:
            return None if old.time == new.time else self._line_of_times(old.time, new.time)
        if old.length is not None and new.length is not None:
            is_same = old.length == new.length
            return None if is_same else self._scaled(old.length / new.length, Fraction(0), new.length)
        what = "durations" if old.time is None else "times"
        raise UnsupportedError(
            f"{what} do not fit a variable {'with' if new.time else 'without'} units of time"
        )

    def _line_of_times(self, old: TimeUnits, new: TimeUnits) -> UnitConversion:
        least = None
        if old.calendar != new.calendar and {old.calendar, new.calendar} == CALENDARS:
            old = replace(old, calendar=new.calendar)
            day = TimeUnits("days since {:04}-{:02}-{:02}".format(*AGREE), new.calendar)
            least = old.factor_and_shift(day)[1]
            if least > 0:
                raise UnsupportedError(
                    f"the reference date of {old.text!r} is before 1582-10-15, from when the calendars agree"
                )
        line = self._scaled(*new.factor_and_shift(old), new.length)
        return replace(line, least=least)

    def _scaled(self, factor: Fraction, shift: Fraction, length: Fraction | None) -> UnitConversion:
        """Return the line between stored numbers, which may be packed."""
        scales = [Fraction(f.scale if f.scale is not None else 1) for f in (self.old, self.new)]
        offsets = [Fraction(f.offset if f.offset is not None else 0) for f in (self.old, self.new)]
        step = (offsets[0] * factor + shift - offsets[1]) / scales[1]
        factor = factor * scales[0] / scales[1]
        tolerance = Fraction(ROUNDING) / (length or LENGTHS["day"]) / abs(scales[1])
        near = Fraction(round(step))
        # The number 0.1 is not exactly a tenth, but stands for it.
        if factor == 1 and abs(step - near) <= tolerance:
            step = near
        are_exact = self.old.dtype.kind in "iu" and self.new.dtype.kind in "iu"
        is_packed = self.old.is_packed or self.new.is_packed
        return UnitConversion(factor, step, Fraction(0) if are_exact and not is_packed else tolerance)


def _is_gone(form: StoredForm, numbers: np.ndarray) -> np.ndarray:
    """Return where numbers stand for missing values, which NaN does in all forms of floats."""
    gone = form.is_missing(numbers)
    return gone | np.isnan(numbers) if numbers.dtype.kind == "f" and form.fill is None else gone


def values_lost(numbers: np.ndarray) -> np.ndarray:
    """Return where float64 cannot represent integers."""
    if numbers.dtype.itemsize < 8:
        return np.zeros(numbers.shape, bool)
    wide = numbers.astype(np.float64)
    return (wide >= float(np.iinfo(numbers.dtype).max)) | (wide.astype(numbers.dtype) != numbers)


def _cast(numbers: np.ndarray, dtype: np.dtype, result: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers in another type, and where they change by more than the rounding of a type of floats."""
    kinds = numbers.dtype.kind, dtype.kind
    if result is None:
        is_rounded = kinds[0] == "f" and kinds[1] != "f"
        result = (np.rint(numbers) if is_rounded else numbers).astype(dtype)
    if kinds == ("f", "f"):
        nearest = numbers.astype(dtype)
        return result, ~((result == nearest) | (np.isnan(numbers) & np.isnan(result))) | (
            np.isinf(nearest) != np.isinf(numbers)
        )
    wrong = result.astype(numbers.dtype) != numbers
    # A cast of int64 to uint64 and back returns the same bits; only the sign shows the change.
    if "f" not in kinds:
        return result, wrong | ((result < 0) != (numbers < 0))
    whole, real = (result, numbers) if kinds[0] == "f" else (numbers, result)
    limits = np.iinfo(whole.dtype)
    # As floats, the limits of 64-bit integers are rounded up, so that a cast back may hide a change.
    return result, wrong | (real < float(limits.min)) | (real >= float(limits.max) + 1)


@dataclass(frozen=True)
class UnitConversion:
    """Times in other units: multiplied by `factor`, then increased by `shift`.

    Parameters
    ----------
    tolerance : Fraction
        Maximum rounding of a result.
    least : Fraction, optional
        The first number of the old units that both calendars have.
    """

    factor: Fraction
    shift: Fraction
    tolerance: Fraction
    least: Fraction | None = None

    def apply(
        self, numbers: np.ndarray, dtype: np.dtype, result: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return numbers in the other units, and where they are wrong."""
        if not numbers.size:
            return numbers.astype(dtype), np.zeros(numbers.shape, bool)
        exact = numbers.dtype.kind in "iu" and dtype.kind in "iu"
        found, wrong = (self._integers if exact else self._floats)(numbers, dtype, result)
        # Before 1582-10-15, one number is another date in the other calendar.
        if self.least is not None:
            wrong = wrong | (numbers < math.ceil(self.least))
        return found, wrong

    def _floats(
        self, numbers: np.ndarray, dtype: np.dtype, result: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        wide = np.longdouble
        exact = numbers.astype(wide) * wide(self.factor.numerator) / wide(self.factor.denominator)
        exact = exact + wide(self.shift.numerator) / wide(self.shift.denominator)
        if result is None:
            result = (exact if dtype.kind == "f" else np.rint(exact)).astype(dtype)
        error = np.abs(result.astype(wide) - exact)
        wrong = ~(
            (error <= float(self.tolerance))
            | ((result == numbers) | np.isnan(result)) & ~np.isfinite(numbers)
        )
        return result, np.asarray(wrong, bool)

    def _integers(
        self, numbers: np.ndarray, dtype: np.dtype, result: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        factor, shift = self.factor, self.shift
        divisor = math.lcm(factor.denominator, shift.denominator)
        times, plus = int(factor * divisor), int(shift * divisor)
        largest = max(abs(int(numbers.min())), abs(int(numbers.max()))) * abs(times) + abs(plus) + divisor
        # numpy wraps products beyond 63 bits without a word.
        counts: np.ndarray = numbers.astype(np.int64 if 4 * largest < 1 << 63 else object) * times + plus
        whole = (2 * counts + divisor) // (2 * divisor)
        limits = np.iinfo(dtype)
        fits = np.asarray((whole >= limits.min) & (whole <= limits.max), bool)
        if result is None:
            result = np.where(fits, whole, 0).astype(dtype)
        elif result.dtype.itemsize == 8:
            whole = whole.astype(object)
        allowed = math.floor(self.tolerance * divisor)
        far = np.asarray(abs(counts - whole * divisor) > allowed, bool)
        return result, ~fits | far | np.asarray(result.astype(whole.dtype) != whole, bool)


@dataclass(frozen=True, eq=False)
class ConvertedSource(ChangedSource):
    """The numbers of a source in another form.

    Parameters
    ----------
    stored : numpy.dtype
        The dtype of the variable, which may be signed where its numbers are ``_Unsigned``.
    fqn : str, optional
        The variable, for messages.
    hint : str, optional
        How to store values that do not fit.
    """

    conversion: Conversion
    stored: np.dtype
    fqn: str | None = None
    hint: str | None = None

    @property
    def dtype(self) -> np.dtype:
        return self.stored

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`.

        Raises
        ------
        UnsupportedError
            If a value changes.
        """
        numbers = np.asarray(self.inner.read(region)).view(self.conversion.old.dtype)
        found, change = self.conversion.fit(numbers)
        if change is not None:
            moved = change.moved(tuple(s.start for s in region))
            raise UnsupportedError(str(moved), fqn=self.fqn, hint=self.hint)
        return handed(found.view(self.stored), out)
