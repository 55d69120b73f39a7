"""Format runs of numbers without a Python loop: digits come from tables, four at a time.

The result is a matrix of bytes with one number in each row. Zero bytes are padding: the caller removes them all with
``bytes.translate``, which is much faster than making strings of many lengths.

Floats need care. The first ``P`` digits of ``x`` are the integer nearest to ``x * 10**k``. The product is
computed as the exact sum of two doubles (Dekker), so that rounding, and the test that the digits restore
``x``, are exact. Undecided numbers (ties, the far ends of the range) go to
:func:`nczarr.cdl.write.numbers.float_text`, which formats one number at a time.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from nczarr.cdl.words import PRINTED_SUFFIXES, special_float

# IEEE 754: so many digits tell each float of 4 and of 8 bytes from its neighbours.
_MOST = {4: 9, 8: 17}


def significant_digits(value: np.floating, digits: int, exact: bool) -> int:
    """Return the number of digits to print: `digits`, or with `exact` as many as restore the same bits.

    `value` is a finite numpy.float32 or numpy.float64.

    Examples
    --------
    >>> import numpy as np
    >>> significant_digits(np.float32(0.1), 7, True), significant_digits(np.float64(0.1) * 3, 15, True)
    (7, 17)
    """
    if exact:
        kind, number = type(value), float(value)
        while digits < _MOST[value.itemsize] and kind(f"{number:.{digits}g}") != value:
            digits += 1
    return digits


def float_text(value: np.floating, digits: int, exact: bool) -> str:
    """Return a float as text for a data section.

    With `exact`, a negative zero keeps its point: without it, the text would be an integer, which has no sign.

    Examples
    --------
    >>> import numpy as np
    >>> float_text(np.float64(0.5), 15, True), float_text(np.float64(-0.0), 15, True)
    ('0.5', '-0.')
    """
    number = float(value)
    special = special_float(number, value.itemsize == 4)
    if special is not None:
        return special
    text = f"{number:.{significant_digits(value, digits, exact)}g}"
    return "-0." if exact and text == "-0" else text


def attribute_number(value: Any, type_name: str, digits: int, exact: bool) -> str:
    """Return a number as text for an attribute: with the suffix of its type, floats with a point.

    Examples
    --------
    >>> import numpy as np
    >>> attribute_number(np.int16(3), "short", 0, True), attribute_number(np.float32(1), "float", 7, True)
    ('3s', '1.f')
    """
    if type_name not in ("float", "double"):
        return f"{int(value)}{PRINTED_SUFFIXES[type_name]}"
    single = type_name == "float"
    number = float(value)
    special = special_float(number, single)
    if special is not None:
        return special
    return with_point(number, significant_digits(value, digits, exact)) + ("f" if single else "")


def with_point(number: float, digits: int) -> str:
    """Return a number with a point, and without zeros at the end of its fraction.

    Examples
    --------
    >>> with_point(1, 7), with_point(1e30, 7)
    ('1.', '1.e+30')
    """
    mantissa, e, exponent = f"{number:#.{digits}g}".partition("e")
    return mantissa.rstrip("0") + e + exponent


#: Matrix of bytes, one number in each row; zero bytes are padding.
Columns = np.ndarray

_GROUP = 10_000
# A smaller number needs a power of ten beyond the doubles. The halves of a larger one overflow.
_SMALLEST, _LARGEST = 1e-280, 1e280
# A number that is nearer to a tie than the sums are exact is left to Python.
_TIE = 1e-6
_OFFSET = 340
# Veltkamp's constant: the products of the halves that it makes are exact.
_SPLIT = 134217729.0
# -1.7976931348623157e+308 has 24 bytes.
_TOKEN = 26


@lru_cache(maxsize=1)
def _digit_tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Four digits as four bytes: without leading zeros, the same with a lone "0", without trailing zeros.

    Each table goes on with the four digits in full, at 10000.
    """
    full = [b"%04d" % i for i in range(_GROUP)]
    lead = [t.lstrip(b"0").rjust(4, b"\0") for t in full]
    units = [b"\0\0\0" + b"0", *lead[1:]]
    trail = [t.rstrip(b"0").ljust(4, b"\0") for t in full]
    tables = [np.frombuffer(b"".join(t + full), "<u4") for t in (lead, units, trail)]
    return tables[0], tables[1], tables[2]


@lru_cache(maxsize=1)
def _power_tables() -> tuple[np.ndarray, ...]:
    """Powers of ten as sums of doubles: high, high's two halves, low; the smallest double that is not below the
    power; and the floor of the decimal logarithm of ``2**e`` for each biased exponent."""
    from fractions import Fraction  # a header needs none

    high, low, at_least = [], [], []
    for k in range(-_OFFSET, _OFFSET + 1):
        exact = Fraction(10) ** k
        near = float(exact) if k <= 308 else float("inf")
        high.append(near)
        low.append(float(exact - Fraction(near)) if k <= 308 else 0.0)
        at_least.append(math.nextafter(near, math.inf) if low[-1] > 0 else near)
    h = np.array(high)
    # The powers above 10**308 are infinite.
    with np.errstate(over="ignore", invalid="ignore"):
        c = h * _SPLIT
        upper = c - (c - h)
    guess = np.zeros(2048, np.int64)
    for biased in range(1, 2047):
        e = biased - 1023
        guess[biased] = len(str(2**e)) - 1 if e >= 0 else -len(str(2**-e))
    return h, upper, h - upper, np.array(low), np.array(at_least), guess


@lru_cache(maxsize=1)
def _layout_tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    points = np.frombuffer(b"".join((b"." + b"0" * n).ljust(4, b"\0") for n in range(4)), "<u4")
    texts = [b"e%c%02d" % (b"+-"[e < 0], abs(e)) for e in range(-_OFFSET, _OFFSET + 1)]
    exponents = np.frombuffer(b"".join(t[:4] for t in texts), "<u4")
    thirds = np.frombuffer(b"".join(t[4:].ljust(1, b"\0") for t in texts), "u1")
    return points, exponents, thirds


_TENS = 10 ** np.arange(19, dtype=np.int64)


def integer_columns(values: np.ndarray, separator: int) -> Columns:
    """Write integers.

    Parameters
    ----------
    values : ndarray
        One-dimensional, of any integer dtype.
    separator : int
        Bytes to leave at the end of each row, for the caller to fill.

    Examples
    --------
    >>> integer_columns(np.array([7, -30]), 0).tobytes().translate(None, b"\\0")
    b'7-30'
    """
    negative = values < 0 if values.dtype.kind == "i" else None
    if negative is not None and not negative.any():
        negative = None
    unsigned = np.dtype(f"u{max(values.dtype.itemsize, 4)}")
    magnitude = values.astype(unsigned)  # wraps: two's complement
    if negative is not None:
        np.negative(magnitude, where=negative, out=magnitude)
    groups = _split(magnitude)
    fields = [("sign", "u1")] if negative is not None else []
    fields += [(f"g{i}", "<u4") for i in range(len(groups))]
    record = np.empty(len(values), np.dtype([*fields, ("separator", f"V{separator}")]))
    if negative is not None:
        record["sign"] = negative.view("u1") * np.uint8(ord("-"))
    _put_integers(record, groups, "g")
    return record.view("u1").reshape(len(values), record.dtype.itemsize)


def _split(magnitude: np.ndarray) -> list[np.ndarray]:
    """Groups of four digits, highest first, as many as the largest value needs."""
    largest = int(magnitude.max(initial=0))
    # Integers of 4 bytes are divided in a third of the time.
    if largest < 1 << 32 and magnitude.dtype != np.uint32:
        magnitude = magnitude.astype(np.uint32)
    groups = []
    while largest >= _GROUP:
        rest = magnitude // _GROUP
        groups.append(magnitude - rest * _GROUP)
        magnitude = rest
        largest //= _GROUP
    groups.append(magnitude)
    return groups[::-1]


def _put_integers(record: np.ndarray, groups: list[np.ndarray], prefix: str) -> None:
    lead, units, _ = _digit_tables()
    seen: np.ndarray | None = None
    for i, group in enumerate(groups):
        index = group.astype(np.intp)
        if seen is not None:
            index += seen * np.intp(_GROUP)
        table = units if i == len(groups) - 1 else lead
        record[f"{prefix}{i}"] = table.take(index)
        seen = group != 0 if seen is None else seen | (group != 0)


def float_columns(values: np.ndarray, digits: int, exact: bool, separator: int) -> Columns:
    """Write floats as C's ``%g`` does.

    Parameters
    ----------
    values : ndarray
        One-dimensional, float32 or float64.
    digits : int
        Significant digits.
    exact : bool
        Take more digits, up to 9 or 17, for the numbers that need them to be read back to the bit.
    separator : int
        Bytes to leave at the end of each row, for the caller to fill.

    Examples
    --------
    >>> columns = float_columns(np.array([0.5, -2e30, 1e-7]), 15, True, 1)
    >>> columns[:, -1] = ord(" ")
    >>> columns.tobytes().translate(None, b"\\0")
    b'0.5 -2e+30 1e-07 '
    """
    single = values.dtype.itemsize == 4
    most = (9 if single else 17) if exact else digits
    if digits > 17:
        columns = np.empty((len(values), _TOKEN + 4 + separator), "u1")
        columns[:, : _TOKEN + 4] = _tokens([float_text(v, digits, exact) for v in values], _TOKEN + 4)
        return columns
    with np.errstate(invalid="ignore"):
        x = np.abs(values.astype(np.float64))
        zero = x == 0
        hard = ~((x >= _SMALLEST) & (x <= _LARGEST))
    x[hard] = 1.0
    hard &= ~zero
    mantissa, exponent, good, unsure = _digits(x, digits, exact, single)
    hard |= unsure
    precision: np.ndarray | None = None
    places = digits
    if exact and not good.all():
        precision = np.full(len(x), digits)
        left = np.flatnonzero(~good)
        for places in range(digits + 1, most + 1):
            m, e, fine, unsure = _digits(x[left], places, True, single)
            mantissa *= 10
            mantissa[left], exponent[left], precision[left] = m, e, places
            hard[left] |= unsure
            left = left[~fine]
            if not len(left):
                break
    # Each zero has been computed as 1.0.
    if zero.any():
        mantissa[zero] = 0
        exponent[zero] = 0
    record = _layout(mantissa, exponent, places, digits if precision is None else precision, separator)
    record["sign"] = np.signbit(values).view("u1") * np.uint8(ord("-"))
    columns = record.view("u1").reshape(len(values), record.dtype.itemsize)
    # The text "-0" is an integer, which has no sign.
    if exact:
        hard |= zero & np.signbit(values)
    if hard.any():
        where = np.flatnonzero(hard)
        columns[where, : columns.shape[1] - separator] = _tokens(
            [float_text(v, digits, exact) for v in values[where]], columns.shape[1] - separator
        )
    return columns


def _tokens(texts: list[str], width: int) -> np.ndarray:
    return np.array(texts, f"S{width}").view("u1").reshape(len(texts), width)


def _digits(
    x: np.ndarray, places: int, exact: bool, single: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Round positive numbers to `places` digits.

    Returns
    -------
    mantissa, exponent : ndarray of int64
        Digits as an integer of exactly `places` digits; the exponent of the first digit.
    good : ndarray of bool
        Whether they read back as `x` (only if `exact`).
    unsure : ndarray of bool
        Whether that, or the rounding, could not be decided here.
    """
    high, upper, lower, low, at_least, guess = _power_tables()
    biased = x.view(np.int64) >> 52
    exponent = guess.take(biased)
    exponent += x >= at_least.take(exponent + (_OFFSET + 1))
    k = (places - 1 + _OFFSET) - exponent
    h, hu, hl = high.take(k), upper.take(k), lower.take(k)
    product = x * h
    if single:  # 24 bits: no need to split them
        error = (x * hu - product) + x * hl
    else:
        c = x * _SPLIT
        xu = c - (c - x)
        xl = x - xu
        error = ((xu * hu - product) + xu * hl + xl * hu) + xl * hl
    error += x * low.take(k)
    whole = np.rint(product)
    rest = (product - whole) + error
    carry = np.rint(rest)
    mantissa = whole.astype(np.int64) + carry.astype(np.int64)
    rest -= carry
    np.abs(rest, out=rest)
    unsure = rest > 0.5 - _TIE
    # 9.9996 becomes 10.000, which has a digit too many.
    over = mantissa >= _TENS[places]
    if over.any():
        mantissa[over] //= 10
        exponent += over
    unsure |= mantissa < _TENS[places - 1]
    if not exact:
        return mantissa, exponent, unsure, unsure
    # Half a unit in the last place of x, in units of the last digit; it is a quarter below a power of two.
    bits = 24 if single else 53
    half = np.ldexp(h, np.maximum(biased - 1023 - bits, -150 if single else -1075).astype(np.intc))
    good = rest < half * (1 - _TIE)
    mask = np.int64((1 << 52) - 1)
    close = good & ((x.view(np.int64) & mask) == 0) & (rest >= half * (0.5 - _TIE))
    unsure |= close | (~good & (rest <= half * (1 + _TIE)))
    return mantissa, exponent, good | unsure, unsure


def _layout(
    mantissa: np.ndarray, exponent: np.ndarray, places: int, precision: int | np.ndarray, separator: int
) -> np.ndarray:
    """Put digits, point and exponent in columns; the sign's column is left to the caller."""
    points, exponents, thirds = _layout_tables()
    scientific = (exponent < -4) | (exponent >= precision)
    any_scientific = bool(scientific.any())
    whole_digits = exponent + 1
    if any_scientific:
        whole_digits[scientific] = 1
    zeros: np.ndarray | None = None
    fewest, most = int(whole_digits.min(initial=1)), int(whole_digits.max(initial=1))
    if fewest < 0:
        zeros = np.maximum(-whole_digits, 0)
        np.maximum(whole_digits, 0, out=whole_digits)
    if fewest == most > 0:
        whole = mantissa // _TENS[places - fewest]
        fraction = (mantissa - whole * _TENS[places - fewest]) * _TENS[fewest]
    else:
        unit = _TENS.take(places - whole_digits)
        whole = mantissa // unit
        fraction = (mantissa - whole * unit) * _TENS.take(whole_digits)
    groups = _split(whole.view(np.uint64))
    parts, some = _split_fraction(fraction, places)
    fields = [("sign", "u1")]
    fields += [(f"w{i}", "<u4") for i in range(len(groups))]
    fields += [("point", "<u4" if zeros is not None else "u1")]
    fields += [(f"f{i}", "<u4") for i in range(len(parts))]
    if any_scientific:
        fields += [("exponent", "<u4"), ("third", "u1")]
    # Rows that Python formats need room for the longest text.
    size = sum(np.dtype(code).itemsize for _, code in fields)
    if size < _TOKEN:
        fields.append(("pad", f"V{_TOKEN - size}"))
    record = np.empty(len(mantissa), np.dtype([*fields, ("separator", f"V{separator}")]))
    if size < _TOKEN:
        record["pad"] = b""
    _put_integers(record, groups, "w")
    if zeros is not None:
        record["point"] = points.take(zeros) * some
    else:
        record["point"] = some.view("u1") * np.uint8(ord("."))
    trail = _digit_tables()[2]
    for i, index in enumerate(parts):
        record[f"f{i}"] = trail.take(index)
    if any_scientific:
        at = np.where(scientific, exponent + _OFFSET, 0)
        record["exponent"] = exponents.take(at) * scientific
        record["third"] = thirds.take(at) * scientific
    return record


def _split_fraction(fraction: np.ndarray, places: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Indices in the table without trailing zeros, leftmost group first; and whether there is a fraction."""
    parts = []
    rest = fraction.astype(np.uint32) if places <= 9 else fraction.view(np.uint64)
    some: np.ndarray | None = None
    size = places % 4 or 4
    for start in range(places - size, -1, -4):
        base = 10**size
        if start:
            upper = rest // base
            group = rest - upper * base
        else:
            upper = group = rest
        if size < 4:
            group = group * (_GROUP // base)
        index = group.astype(np.intp)
        if some is None:
            some = group != 0
        else:
            index += some * np.intp(_GROUP)
            some = some | (group != 0)
        parts.append(index)
        rest, size = upper, 4
    assert some is not None
    return parts[::-1], some
