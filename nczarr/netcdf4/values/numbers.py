"""Mask missing values and unpack numbers on reading; pack, fill and round them on writing.

Reading masks missing values, then unpacks numbers. Writing packs numbers, then fills masked elements with the missing
value. The rules are netCDF4-python's, which follow the attribute conventions of the netCDF User Guide
(``missing_value``, ``_FillValue``, ``valid_range``, ``scale_factor``, …).

Large arrays are masked and unpacked, or packed and filled, in one pass, in threads, by blocks that fit the
processor's cache. The result equals that of separate steps, with the stored values under the mask.

Floats are rounded before compression: to decimal digits of netCDF4-python, or by netCDF-C's quantization. The three
modes of netCDF-C (4.9 and later) clear or round the bits of the mantissa beyond the significant digits, so that the
values compress well: *BitGroom* (alternately clears and sets them), *GranularBitRound* (rounds to a number of decimal
digits, value by value) and *BitRound* (rounds to a number of bits).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from nczarr.errors import ArgumentError, ArgumentTypeError, EditError
from nczarr.netcdf4.compatibility import default_fillvals
from nczarr.system.warning import warn
from nczarr.zarr.pool import run

#: Elements of a block, which fits the second-level cache with its result and masks.
BLOCK = 1 << 16
#: Smaller arrays are masked and unpacked in separate steps: the overhead of one pass is 25 µs.
LEAST = 1 << 13
#: Smaller arrays are packed as a whole.
LEAST_PACKED = 1 << 16
_PER_TASK = 16

#: Returns the value of an attribute by name, or None.
Lookup = Callable[[str], Any]


class Packing(NamedTuple):
    """The packing of numbers: ``stored * scale + offset``. A step may be None."""

    scale: Any = None
    offset: Any = None
    #: False if an attribute is not a number; then nothing is unpacked.
    valid: bool = True

    def __bool__(self) -> bool:
        return self.scale is not None or self.offset is not None

    @property
    def is_single(self) -> bool:
        """True if no step has several numbers."""
        return all(step is None or np.size(step) == 1 for step in (self.scale, self.offset))

    def unpack(self, data: np.ndarray) -> np.ndarray:
        """Convert stored values to numbers, with numpy's promotion.

        Examples
        --------
        >>> Packing(np.float64(0.5), None).unpack(np.array([2, 3], "i2"))
        array([1. , 1.5])
        """
        scale, offset = self.scale, self.offset
        if scale is not None and offset is not None:
            if offset != 0.0 or scale != 1.0:
                return data * scale + offset
            return data.astype(scale.dtype)
        if scale is not None and scale != 1.0:
            return data * scale
        if offset is not None and offset != 0.0:
            return data + offset
        return data

    def pack(self, data: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Convert numbers to stored values of a floating type, rounded if `dtype` is an integer type.

        Raises
        ------
        ArgumentTypeError
            If an attribute is not a number, or the data are not numbers.
        """
        if not self:
            return data
        if not self.valid:  # a reader would not unpack the values
            raise ArgumentTypeError(
                "scale_factor or add_offset is not a number",
                hint="change the attribute, or set_auto_scale(False) to write values as they are",
            )
        try:
            if self.offset is not None:
                data = data - self.offset
            if self.scale is not None:
                data = data / self.scale
        except TypeError as error:
            raise ArgumentTypeError(
                f"{data.dtype} cannot be packed by scale_factor and add_offset"
            ) from error
        return np.around(data) if dtype.kind in "iu" else data


def packing_of(lookup: Lookup) -> Packing:
    """Return the packing of the attributes ``scale_factor`` and ``add_offset``."""
    scale, offset = lookup("scale_factor"), lookup("add_offset")
    for value in (scale, offset):
        # netCDF4-python warns, and applies neither of the two.
        if value is not None and not (isinstance(value, np.number) or np.shape(value) == (1,)):
            return Packing(scale, offset, valid=False)
    return Packing(scale, offset)


def as_unsigned(data: np.ndarray, lookup: Lookup) -> np.ndarray:
    """View signed integers as unsigned if the attribute ``_Unsigned`` is true."""
    said = lookup("_Unsigned") if data.dtype.kind == "i" else None
    return data.view(_unsigned(data.dtype)) if isinstance(said, str) and said in ("true", "True") else data


def _unsigned(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"{dtype.byteorder}u{dtype.itemsize}")


def cast_safely(value: ArrayLike, dtype: np.dtype) -> np.ndarray | None:
    """Convert a value to another dtype; return None if this would change the value.

    Examples
    --------
    >>> cast_safely(5, np.dtype("i1")), cast_safely(300, np.dtype("i1"))
    (array(5, dtype=int8), None)
    """
    given = np.array(value)
    if given.dtype == dtype:
        return given
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            cast = np.array(given, dtype)
    except (ValueError, TypeError, OverflowError):
        return None
    if not given.size:
        return cast
    if given.dtype.kind in "fiub" and cast.dtype.kind in "fiub":
        same = given == cast
        if given.ndim == 0 and same:  # most are single numbers, for which each operation counts
            return cast
        same = same | (np.isnan(given) & np.isnan(cast))
    elif given.dtype.kind == cast.dtype.kind:
        same = np.asarray(given == cast)
    else:
        return None
    return cast if bool(np.all(same)) else None


@lru_cache(maxsize=1024, typed=True)
def _cast_number(value: np.number, dtype: np.dtype) -> np.ndarray | None:
    """Cache :func:`cast_safely` for numbers other than 0 (0.0 equals -0.0), which many variables share."""
    cast = cast_safely(value, dtype)
    if cast is not None:
        cast.flags.writeable = False
    return cast


@lru_cache(maxsize=64)
def _default_fill(dtype: np.dtype) -> np.ndarray:
    value = np.array(default_fillvals[dtype.str[1:]], dtype)
    value.flags.writeable = False
    return value


def mask_missing(data: np.ndarray, missing: Missing, *, always_mask: bool) -> np.ndarray:
    """Mask missing values.

    Parameters
    ----------
    data : ndarray or numpy scalar
        Stored values; unsigned if `missing` is.
    missing : Missing
    always_mask : bool
        Return a masked array also without missing values.

    Returns
    -------
    MaskedArray, ndarray, or ``numpy.ma.masked``
        The constant for a single missing value.
    """
    found: set[str] = set()
    for what, limit, _ in missing.tests:
        if what == "valid" and np.ndim(limit):
            _check_limit(limit, data)
    mask = _mask_of(data, missing, found)
    if mask is None:
        return np.ma.masked_array(data) if always_mask else np.asarray(data)
    masked = np.ma.masked_array(data, mask=mask, fill_value=missing.shown(found))
    return masked[()] if masked.shape == () else masked


#: An attribute (``valid`` for limits), its value, and a function of value and data: True where data are missing.
_Test: TypeAlias = "tuple[str, np.ndarray, Callable[[np.ndarray, np.ndarray], np.ndarray]]"


class Missing(NamedTuple):
    """The missing values of a variable, from its attributes."""

    tests: list[_Test]
    #: The fill value of a masked array without elements of ``missing_value`` or ``_FillValue``.
    otherwise: np.ndarray

    @classmethod
    def of(cls, dtype: np.dtype, lookup: Lookup, *, unsigned: bool, no_fill: bool) -> Missing:
        """Return the missing values of the attributes.

        Parameters
        ----------
        dtype : numpy.dtype
            The variable's dtype.
        lookup : callable
            Attribute values by name.
        unsigned : bool
            The values are viewed as unsigned numbers.
        no_fill : bool
            The variable is not filled, so bytes have no default fill value.
        """

        def limit(name: str) -> np.ndarray | None:
            """Return an attribute in the variable's dtype, if this keeps its value."""
            value = lookup(name)
            if value is None:
                return None
            is_number = isinstance(value, np.number) and value != 0
            cast = _cast_number(value, dtype) if is_number else cast_safely(value, dtype)
            # netCDF4-python ignores such an attribute, and warns with these words.
            if cast is None:
                warn(f"WARNING: {name} not used since it cannot be safely cast to variable data type")
                return None
            return cast.view(_unsigned(dtype)) if unsigned else cast

        missing, fill, both = limit("missing_value"), limit("_FillValue"), limit("valid_range")
        low, high = limit("valid_min"), limit("valid_max")
        if fill is not None and not fill.size:  # in files of other libraries
            fill = None
        marker = fill
        # netCDF4-python masks default fill values of bytes only where the variable is filled.
        if fill is None and not (no_fill and dtype.itemsize == 1 and dtype.kind in "iu"):
            marker = _default_fill(dtype)
        # valid_range counts before valid_min and valid_max, as in netCDF4-python.
        if both is not None and both.size == 2:
            low, high = both[0], both[1]
        # netCDF4-python applies no limits to characters.
        if dtype.kind == "S":
            low = high = None
        values = () if missing is None else np.atleast_1d(missing)
        tests: list[_Test] = [("missing_value", value, _equal) for value in values]
        if marker is not None:
            tests.append(("_FillValue", marker, _equal))
        if low is not None:
            tests.append(("valid", low, np.greater))
        if high is not None:
            tests.append(("valid", high, np.less))
        return cls(tests, marker if marker is not None else _default_fill(dtype))

    def shown(self, found: set[str]) -> Any:  # numpy's stubs of masked arrays take only numbers and text
        """Return the fill value of the masked array, given the attributes whose values occur."""
        of_attribute = (value for what, value, _ in self.tests if what in found and what != "valid")
        return next(of_attribute, self.otherwise)

    @property
    def simple(self) -> bool:
        """True if each attribute has a single value."""
        return all(np.size(value) == 1 for _, value, _ in self.tests)


def _mask_of(data: np.ndarray, missing: Missing, found: set[str]) -> np.ndarray | None:
    """Return a mask of the missing elements, and note the attributes that they have; None without such elements."""
    total = None
    for what, value, test in missing.tests:
        hit = test(value, data)
        if hit.any():
            found.add(what)
            if total is None:
                total = hit
            else:
                total |= hit
    return total


def _check_limit(limit: np.ndarray, data: np.ndarray) -> None:
    """Raise if a limit with several values does not fit the data."""
    try:
        fits = np.broadcast_shapes(np.shape(limit), np.shape(data)) == np.shape(data)
    except ValueError:
        fits = False
    if not fits:
        raise ArgumentError(
            f"valid_min or valid_max has {np.size(limit)} values, which do not fit an array of {np.shape(data)}",
            hint="change the attribute, or set_auto_mask(False) to read values as they are",
        )


def _equal(value: np.ndarray, data: np.ndarray) -> np.ndarray:
    return np.isnan(data) if value.dtype.kind == "f" and value != value else np.equal(value, data)


def fill_masked(data: np.ndarray, dtype: np.dtype, lookup: Lookup) -> np.ndarray:
    """Fill the masked elements of an array with the missing value.

    Raises
    ------
    EditError
        If ``missing_value`` has several values.
    ArgumentTypeError
        If it is a string and the values are numbers.
    """
    if not np.ma.isMA(data):
        return np.asarray(data)
    missing = lookup("missing_value")
    # Missing values that were read are written as they were.
    if missing is not None and bool(np.all(np.isin(data.data[data.mask], missing))):
        return np.asarray(data.data)
    if missing is not None:
        # Several missing values leave open which one a masked element gets.
        if np.shape(missing) != ():
            raise EditError(
                "cannot assign fill_value for masked array when missing_value attribute is not a scalar"
            )
        fill = missing
    else:
        fill = lookup("_FillValue")
        if fill is None:
            fill = default_fillvals[dtype.str[1:]]
    # A text would be written as a number.
    if np.asarray(fill).dtype.kind in "SU" and data.dtype.kind not in "SU":
        raise ArgumentTypeError(f"the text {fill!r} cannot stand for masked values of {data.dtype}")
    return np.where(np.ma.getmaskarray(data), np.array(fill).astype(data.dtype), data.data)


def can_pack_in_blocks(data: np.ndarray, dtype: np.dtype, packing: Packing) -> bool:
    """Return True for large arrays of numbers that are packed, or have masked elements."""
    return (
        data.size >= LEAST_PACKED
        and data.dtype.kind in "iuf"
        and dtype.kind in "iuf"
        and data.flags.c_contiguous
        and packing.valid
        and packing.is_single
        and (bool(packing) or np.ma.isMA(data))
    )


def pack_in_blocks(data: np.ndarray, dtype: np.dtype, packing: Packing, lookup: Lookup) -> np.ndarray:
    """Pack, cast and fill an array in blocks; errors of :func:`fill_masked`.

    :func:`can_pack_in_blocks` is true for `data`. Each element depends on no other, so the blocks give the values of
    the whole.
    """
    # Blocks that fit the processor's cache take half of the time of whole arrays.
    flat, out = data.reshape(-1), np.empty(data.size, dtype)

    def work(part: slice) -> None:
        block = packing.pack(flat[part], dtype)
        out[part] = fill_masked(block.astype(dtype, copy=False), dtype, lookup)

    _run_in_blocks(work, flat.size)
    return out.reshape(data.shape)


def _run_in_blocks(work: Callable[[slice], None], size: int, **errors: str) -> None:
    """Call `work` with each block, in threads that handle numpy's errors like the caller, or by `errors`."""
    handling = {**np.geterr(), **errors}

    def task(start: int) -> None:
        with np.errstate(**handling):  # type: ignore[arg-type]
            for at in range(start, min(start + BLOCK * _PER_TASK, size), BLOCK):
                work(slice(at, at + BLOCK))

    run(task, range(0, size, BLOCK * _PER_TASK))


def can_fuse(data: object, missing: Missing | None, packing: Packing) -> bool:
    """Return True for large numeric arrays that are unpacked, with single values of all attributes.

    Masking without unpacking gains nothing from one pass.
    """
    return (
        isinstance(data, np.ndarray)
        and data.size >= LEAST
        and data.dtype.kind in "iuf"
        and data.flags.c_contiguous
        and (missing is None or missing.simple)
        and packing.is_single
        and bool(packing)
    )


def mask_and_unpack(
    data: np.ndarray, missing: Missing | None, packing: Packing, *, always_mask: bool
) -> np.ndarray:
    """Mask missing values (None: mask nothing), then unpack. :func:`can_fuse` is true for `data`."""
    flat = data.reshape(-1)
    out = np.empty(flat.shape, packing.unpack(flat[:0]).dtype)
    first = _first(flat.dtype, packing)
    mask: list[np.ndarray] = []
    found: set[str] = set()

    def whole_mask() -> np.ndarray:
        if not mask:
            mask.append(np.zeros(flat.shape, bool))
        # Two threads may each have created a mask; all use the first.
        return mask[0]

    def work(part: slice) -> None:
        block = flat[part]
        hit = None if missing is None else _mask_of(block, missing, found)
        out[part] = packing.unpack(block)
        if hit is not None:
            whole_mask()[part] = hit
            np.copyto(out[part], block.astype(first, copy=False), where=hit, casting="unsafe")

    _run_in_blocks(work, flat.size, divide="ignore", invalid="ignore")
    values = out.reshape(data.shape)
    if missing is None or not (mask or always_mask):
        return values
    if not mask:
        return np.ma.masked_array(values)
    result = np.ma.masked_array(values, mask=mask[0].reshape(data.shape))
    template = np.ma.masked_array(flat[:0], mask=mask[0][:0], fill_value=missing.shown(found))
    # An operation keeps the fill value in the stored type; setting the attribute would convert it.
    result._update_from(packing.unpack(template))  # type: ignore[attr-defined]
    return result


def _first(dtype: np.dtype, packing: Packing) -> np.dtype:
    """Return the dtype after the first step, which masked values also pass through."""
    only = Packing(packing.scale, None) if packing.scale is not None else packing
    result: np.dtype = only.unpack(np.empty(0, dtype)).dtype
    return result


#: The attribute in which netCDF-C notes the number of digits or bits.
ATTRIBUTE_OF_MODE = {
    "BitGroom": "_QuantizeBitGroomNumberOfSignificantDigits",
    "GranularBitRound": "_QuantizeGranularBitRoundNumberOfSignificantDigits",
    "BitRound": "_QuantizeBitRoundNumberOfSignificantBits",
}


def quantization_in(lookup: Lookup, dtype: np.dtype) -> tuple[int, str] | None:
    """Return the number of digits or bits and the mode in the attributes of a variable, or None."""
    for mode, name in ATTRIBUTE_OF_MODE.items() if dtype.kind == "f" else ():
        digits = lookup(name)
        if isinstance(digits, np.integer):
            return int(digits), mode
    return None


# Computed as in netCDF-C: for powers of ten, the last bit matters.
_BITS_PER_DIGIT = math.log(10) / math.log(2)
_DIGITS_PER_BIT = math.log(2) / math.log(10)


def round_to_digit(data: np.ndarray, digit: float) -> np.ndarray:
    """Round to the power of two just below the last significant digit.

    Parameters
    ----------
    data : ndarray
        Masked or not.
    digit : float
        Power of ten of that digit, negated: 1 keeps tenths. Fractions are rounded away from zero.

    Examples
    --------
    >>> round_to_digit(np.array([0.123]), 1).tolist()
    [0.125]
    """
    # In float64: large values of float32, among them the default fill value, would become infinite.
    scale = np.float64(
        2.0 ** math.ceil(math.log2(10.0 ** (math.ceil(digit) if digit > 0 else math.floor(digit))))
    )
    rounded = np.around(scale * data) / scale
    if isinstance(data, np.ma.MaskedArray) and isinstance(rounded, np.ma.MaskedArray):
        rounded.set_fill_value(data.fill_value)
    return rounded


def quantize(values: np.ndarray, digits: int, mode: str, fill: np.generic) -> np.ndarray:
    """Quantize floats as netCDF-C does. Fill values are unchanged.

    Parameters
    ----------
    values : ndarray
        float32 or float64.
    digits : int
        Significant decimal digits, or bits for ``BitRound``.
    mode : {'BitGroom', 'GranularBitRound', 'BitRound'}
    fill : numpy scalar
        The fill value, of the same dtype.

    Returns
    -------
    ndarray
        A new array.

    Examples
    --------
    >>> float(quantize(np.array([3.14159], "f4"), 4, "BitRound", np.float32(0))[0])
    3.125
    """
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    mantissa = 23 if values.dtype.itemsize == 4 else 52
    bits = np.ascontiguousarray(values).reshape(-1).view(unsigned).copy()
    flat = bits.view(values.dtype)
    change = (flat != fill) & np.isfinite(flat)
    if mode == "GranularBitRound":
        change &= flat != 0
        _round(bits, change, mantissa - _granular_bits(flat, change, digits))
    elif mode == "BitRound":
        _round(bits, change, np.full(bits.shape, mantissa - digits))
    else:
        spare = mantissa - (math.ceil(digits * _BITS_PER_DIGIT) + 1)
        if spare > 0:
            low = unsigned.type((1 << spare) - 1)
            even = np.arange(bits.size) % 2 == 0
            clear, set_ = change & even, change & ~even & (flat != 0)
            bits[clear] &= ~low
            bits[set_] |= low
    return bits.view(values.dtype).reshape(values.shape)


def _round(bits: np.ndarray, change: np.ndarray, spare: np.ndarray) -> None:
    """Round half away from zero at the lowest remaining bit."""
    change = change & (spare > 0)
    one = bits.dtype.type(1)
    count = spare[change].astype(bits.dtype)
    half = one << (count - one)
    low = (one << count) - one
    bits[change] = (bits[change] + half) & ~low


def _granular_bits(flat: np.ndarray, change: np.ndarray, digits: int) -> np.ndarray:
    """Return the explicit mantissa bits of each value for a number of decimal digits."""
    safe = np.where(change, flat, 1).astype(np.float64)
    fraction, exponent = np.frexp(safe)
    log_fraction = np.log10(np.abs(fraction))
    before_point = np.floor(exponent * _DIGITS_PER_BIT + log_fraction) + 1
    power = np.floor(_BITS_PER_DIGIT * (before_point - digits))
    needed = np.abs(np.floor(exponent - _BITS_PER_DIGIT * log_fraction) - power)
    return (needed - 1).astype(np.int64)
