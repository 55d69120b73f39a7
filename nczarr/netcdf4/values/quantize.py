"""Round floats before compression: decimal digits of netCDF4-python, and netCDF-C's quantization.

The three modes of netCDF-C (4.9 and later) clear or round the bits of the mantissa beyond the significant digits, so
that the values compress well: *BitGroom* (alternately clears and sets them), *GranularBitRound* (rounds to a number
of decimal digits, value by value) and *BitRound* (rounds to a number of bits).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy import ma

#: The attribute in which netCDF-C notes the number of digits or bits.
ATTRIBUTE_OF_MODE = {
    "BitGroom": "_QuantizeBitGroomNumberOfSignificantDigits",
    "GranularBitRound": "_QuantizeGranularBitRoundNumberOfSignificantDigits",
    "BitRound": "_QuantizeBitRoundNumberOfSignificantBits",
}


def quantization_in(lookup: Callable[[str], object], dtype: np.dtype) -> tuple[int, str] | None:
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
    if isinstance(data, ma.MaskedArray) and isinstance(rounded, ma.MaskedArray):
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
