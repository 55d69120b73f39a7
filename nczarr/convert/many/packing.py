"""Convert the packed numbers of variables to one packing, exactly or within a known error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nczarr.convert.change.selecting import number_of, text_of
from nczarr.convert.many.fit import PACKING
from nczarr.convert.many.steps import special_numbers
from nczarr.convert.verify.digests import bands
from nczarr.errors import UnsupportedError
from nczarr.model import (
    Attribute,
    MemorySource,
    PrimitiveType,
    Region,
    Variable,
    default_fill,
    own_fill_value,
    primitive_for_dtype,
)
from nczarr.model.sources import ChangedSource, handed

#: Attributes whose numbers are packed like the values.
_PACKED = ("valid_min", "valid_max", "valid_range", "flag_values", "flag_masks")
#: Maximum rounding of a repacked number, as a part of the step of its old packing.
_PART_OF_STEP = 2.0**-10


@dataclass(frozen=True)
class Packing:
    """How the numbers of a variable stand for values: value = number * `scale` + `offset`.

    Parameters
    ----------
    dtype : numpy.dtype
        Of the stored numbers; of their unsigned interpretation if ``_Unsigned`` says so.
    scale, offset : float or None
        None if the attribute is absent.
    narrow : bool
        An attribute is a float, or the numbers are floats: they are rounded to 24 bits.
    fill : number or None
        The number that missing values get, declared or by default; None if there is none.
    missing : tuple
        All numbers that stand for missing values.
    """

    dtype: np.dtype
    scale: float | None = None
    offset: float | None = None
    narrow: bool = False
    fill: int | float | None = None
    missing: tuple[int | float, ...] = ()

    def is_like(self, other: Packing) -> bool:
        """True if the same numbers stand for the same values and for missing values."""
        mine, theirs = ((p.dtype, p.scale, p.offset, {*map(repr, p.missing)}) for p in (self, other))
        return mine == theirs

    @property
    def is_packed(self) -> bool:
        """True if the numbers differ from the values."""
        return self.scale is not None or self.offset is not None

    def is_missing(self, numbers: np.ndarray) -> np.ndarray:
        """Return where numbers stand for missing values."""
        found = np.zeros(numbers.shape, bool)
        for number in self.missing:
            found |= np.isnan(numbers) if number != number else numbers == number
        return found

    def decoded(self, numbers: np.ndarray) -> np.ndarray:
        """Return the values of numbers, as numpy computes them in float64."""
        wide = numbers.astype(np.float64)
        if self.dtype.kind in "iu" and (wide.astype(self.dtype) != numbers).any():
            raise UnsupportedError(f"float64 cannot represent all numbers of type {self.dtype.name} here")
        if self.scale is not None:
            wide = wide * self.scale
        return wide if self.offset is None else wide + self.offset

    def encoded(self, values: np.ndarray) -> np.ndarray:
        """Return the nearest numbers for values.

        Raises
        ------
        UnsupportedError
            If a value does not fit the type of the numbers.
        """
        numbers = values if self.offset is None else values - self.offset
        numbers = numbers if self.scale is None else numbers / self.scale
        if self.dtype.kind == "f":
            return numbers.astype(self.dtype)
        numbers = np.rint(numbers)
        limits = np.iinfo(self.dtype)
        # As floats, the limits of 64-bit integers are rounded up.
        wrong = ~((numbers >= limits.min) & (numbers <= limits.max) & (numbers < float(limits.max) + 1))
        if wrong.any():
            raise UnsupportedError(
                f"the value {values[wrong].flat[0]:g} does not fit {self.dtype.name} with scale_factor "
                f"{self.scale or 1:g} and add_offset {self.offset or 0:g}"
            )
        return numbers.astype(self.dtype)


def packing_of(variable: Variable) -> Packing | None:
    """Return the packing of a variable; None if it has no numbers, or attributes that are not single numbers.

    Examples
    --------
    >>> from nczarr.model import SHORT
    >>> packing_of(Variable("v", SHORT, attributes=(Attribute.of("scale_factor", 0.5),))).scale
    0.5
    """
    dtype = variable.type.dtype
    if not isinstance(variable.type, PrimitiveType) or dtype.kind not in "iuf":
        return None
    found: dict[str, float] = {}
    given = [variable.attribute[n] for n in ("scale_factor", "add_offset") if n in variable.attribute]
    for attribute in given:
        number = number_of(variable, attribute.name, 1)
        if number is None or not np.isfinite(number) or (attribute.name == "scale_factor" and not number):
            return None
        found[attribute.name] = float(number)
    narrow = any(a.values.dtype == np.float32 for a in given) or dtype == np.float32
    missing = special_numbers(variable)
    if text_of(variable, "_Unsigned").lower() == "true" and dtype.kind == "i":
        # Attributes of a wider type may have the unsigned number itself.
        missing = tuple(int(n) % (1 << 8 * dtype.itemsize) for n in missing if float(n).is_integer())
        dtype = np.dtype(f"u{dtype.itemsize}")
    has_fill = own_fill_value(variable) is not None or dtype.itemsize > 1
    fill = missing[-1] if has_fill else None
    scale, offset = found.get("scale_factor"), found.get("add_offset")
    return Packing(dtype, scale, offset, narrow, fill, tuple(dict.fromkeys(missing)))


def declares_missing(variable: Variable) -> bool:
    """True if an attribute of a variable names a number that stands for missing values."""
    return own_fill_value(variable) is not None or "missing_value" in variable.attribute


def repacked(variable: Variable, old: Packing, new: Packing, like: Variable, *, lossy: bool) -> Variable:
    """Return a variable with the type and the packing of another variable."""
    attributes = [a for a in variable.attributes if a.name not in PACKING]
    for i, a in enumerate(attributes):
        if a.name in _PACKED and a.type == variable.type and old != new:
            numbers = RepackedSource(
                MemorySource(a.values), old, replace(new, fill=0, missing=()), like.type.dtype, lossy
            )
            attributes[i] = Attribute.of(a.name, numbers.read((slice(0, len(a.values)),)), like.type)
    attributes += [a for a in like.attributes if a.name in PACKING]
    data = variable.data
    if data is not None and not (old.is_like(new) and variable.type == like.type):
        data = RepackedSource(data, old, new, like.type.dtype, lossy)
    return replace(variable, type=like.type, attributes=tuple(attributes), data=data)


def _same_numbers(old: Packing, new: Packing, numbers: np.ndarray) -> np.ndarray | None:
    """Return numbers in the type of a packing with the same scale and offset; None if they differ."""
    if (old.scale, old.offset) != (new.scale, new.offset):
        return None
    numbers = numbers.view(old.dtype)
    with np.errstate(all="ignore"):
        result = numbers.astype(new.dtype)
        lost = (result.astype(numbers.dtype) != numbers) & (numbers == numbers)
        lost |= (numbers.dtype.kind in "iu" and new.dtype.kind in "iu") & ((result < 0) != (numbers < 0))
    if lost.any():
        raise UnsupportedError(f"the number {numbers[lost].flat[0]} does not fit {new.dtype.name}")
    return result


@dataclass(frozen=True, eq=False)
class RepackedSource(ChangedSource):
    """The numbers of a source in another packing.

    Parameters
    ----------
    stored : numpy.dtype
        The dtype of the variable, which may be signed where its numbers are ``_Unsigned``.
    lossy : bool
        Values may be rounded to the steps of the new packing. By default, that is an error.
    """

    old: Packing
    new: Packing
    stored: np.dtype
    lossy: bool = False

    @property
    def dtype(self) -> np.dtype:
        return self.stored

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        numbers = np.asarray(self.inner.read(region)).view(self.old.dtype)
        missing = self.old.is_missing(numbers)
        if numbers.dtype.kind == "f" and (self.new.dtype.kind != "f" or self.new.fill != self.new.fill):
            missing |= np.isnan(numbers)
        if missing.any() and self.new.fill is None:
            raise UnsupportedError("there are missing values, and the first file declares no _FillValue")
        result = np.full(numbers.shape, self.new.fill or 0, self.new.dtype)
        known = numbers[~missing]
        result[~missing] = self._repacked(known)
        if self.new.is_missing(result[~missing]).any():
            raise UnsupportedError("a value would become the number that stands for missing values")
        return handed(result.view(self.stored), out)

    def _repacked(self, numbers: np.ndarray) -> np.ndarray:
        same = _same_numbers(self.old, self.new, numbers)
        if same is not None:
            return same
        values = self.old.decoded(numbers)
        result = self.new.encoded(values)
        if not self.lossy:
            # Values that lose nothing change by the rounding of the old numbers and attributes.
            packed = self.old.is_packed or self.new.is_packed
            narrow = self.old.narrow or (self.new.narrow and packed)
            sizes = np.maximum(abs(values), abs((self.old.offset or 0.0) - (self.new.offset or 0.0)))
            bound = sizes * (2.0**-22 if narrow else 2.0**-50)
            if self.old.is_packed and self.old.dtype.kind != "f":
                bound += abs(self.old.scale or 1.0) * _PART_OF_STEP
            error = abs(self.new.decoded(result) - values)
            wrong = error > bound
            if wrong.any():
                raise UnsupportedError(
                    f"the value {values[wrong].flat[0]:.9g} would change by {error[wrong].flat[0]:.2g}"
                )
        return result


def target_packing(
    mode: str, variables: Sequence[Variable], packings: Sequence[Packing], *, fixed: bool
) -> tuple[Packing, Variable, str]:
    """Return the common packing of variables, a variable that has it, and its error bound in words.

    Parameters
    ----------
    mode : {'unpacked', 'first', 'common', 'promote'}
        Floats; the packing of the first variable; a new packing of its type for the range of all values; the widest
        type, where only types and fill values differ.
    fixed : bool
        The first variable cannot change.
    """
    first = packings[0]
    if mode in ("unpacked", "common") and not any(p.is_packed for p in packings):
        mode = "promote"
    if mode == "first" or fixed:
        like, new = variables[0], first
        if own_fill_value(like) is None and any(map(declares_missing, variables[1:])):
            new = replace(new, fill=None)
            if not fixed and like.type.dtype.itemsize > 1:
                new = replace(new, fill=first.fill)
                own = Attribute.of("_FillValue", default_fill(like.type), like.type)
                like = replace(like, attributes=(*like.attributes, own))
        bound = f"no value changes by more than its rounding, or {_PART_OF_STEP:.1g} of its old step"
        return new, like, bound
    if mode == "promote":
        dtype = np.result_type(*[p.dtype for p in packings])
        declaring = [i for i, v in enumerate(variables) if declares_missing(v)] or [0]
        at = min(declaring, key=lambda i: packings[i].dtype != dtype)  # the widest, if there is one
        bound, scale, offset, fill = "no value changes", first.scale, first.offset, packings[at].fill
        declared = declares_missing(variables[at])
    elif mode == "unpacked":
        narrow = all(p.narrow and (p.dtype.kind == "f" or p.dtype.itemsize <= 2) for p in packings)
        dtype, scale, offset, fill, declared = np.dtype("f4" if narrow else "f8"), None, None, np.nan, True
        bound = f"values are decoded in float64 and stored as {dtype.name}"
    else:
        low, high = _range(variables, packings)
        dtype = first.dtype if first.dtype.kind in "iu" and first.dtype.itemsize <= 4 else np.dtype("i2")
        limits, declared = np.iinfo(dtype), True
        fill = int(limits.max if dtype.kind == "u" else limits.min)
        scale = (high - low) / (2.0 ** (8 * dtype.itemsize) - 2) or 1.0
        # The numbers of unsigned types begin at 0, those of signed types behind the fill value.
        offset = low if dtype.kind == "u" else low - scale * (limits.min + 1)
        bound = f"no value changes by more than {scale / 2:.3g}"
    type_ = primitive_for_dtype(dtype)
    if type_ is None:
        raise UnsupportedError("no type holds the numbers of all files")
    if fill is None or not declared:
        fill = special_numbers(Variable("v", type_))[-1] if dtype.itemsize > 1 else None
    same = mode == "promote" and variables[0].attribute
    attributes = [
        same[name] if same else Attribute.of(name, number)
        for name, number in (("scale_factor", scale), ("add_offset", offset))
        if number is not None
    ]
    if declared and fill is not None:
        attributes.append(Attribute.of("_FillValue", dtype.type(fill), type_))
    new = Packing(dtype, scale, offset, (first.narrow and mode == "promote") or dtype == "f4", fill)
    new = replace(new, missing=() if fill is None else (fill,))
    return new, Variable("v", type_, attributes=tuple(attributes)), bound


def _range(variables: Sequence[Variable], packings: Sequence[Packing]) -> tuple[float, float]:
    """Return the smallest and the largest value."""
    low, high = np.inf, -np.inf
    for variable, packing in zip(variables, packings, strict=True):
        if (data := variable.data) is None:
            continue
        for region in bands(data.shape, data.dtype.itemsize, variable.storage.chunk_shape):
            numbers = np.asarray(data.read(region)).view(packing.dtype)
            values = packing.decoded(numbers[~packing.is_missing(numbers)])
            values = values[~np.isnan(values)]
            if values.size:
                low, high = min(low, float(values.min())), max(high, float(values.max()))
    if (np.isinf(high) and high > 0) or (np.isinf(low) and low < 0):
        raise UnsupportedError(
            "--repack common: there are infinite values", hint="--repack unpacked stores floats"
        )
    return (low, high) if low <= high else (0.0, 0.0)
