"""Format single numbers: attribute values, and the numbers inside compounds and vlens."""

from __future__ import annotations

import math
from typing import Any

#: CDL's suffixes of integer constants.
INTEGER_SUFFIX = {
    "byte": "b",
    "ubyte": "UB",
    "short": "s",
    "ushort": "US",
    "int": "",
    "uint": "U",
    "int64": "LL",
    "uint64": "ULL",
}

_MOST = {4: 9, 8: 17}


def special_float(value: float, single: bool) -> str | None:
    """NaN and the infinities as CDL spells them; None for a finite number.

    Examples
    --------
    >>> special_float(float("-inf"), True)
    '-Infinityf'
    """
    if math.isfinite(value):
        return None
    text = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return text + "f" if single else text


def significant_digits(value: Any, digits: int, exact: bool) -> int:
    """How many digits to print: `digits`, or, if `exact`, as many more as it takes to read back the same bits.

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


def float_text(value: Any, digits: int, exact: bool) -> str:
    """A float of a data section.

    A negative zero keeps its point if `exact`: without it, it would be read as an integer, which has no sign.

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
    """A number of an attribute: with the suffix of its type, floats always with a point.

    Examples
    --------
    >>> import numpy as np
    >>> attribute_number(np.int16(3), "short", 0, True), attribute_number(np.float32(1), "float", 7, True)
    ('3s', '1.f')
    """
    if type_name not in ("float", "double"):
        return f"{int(value)}{INTEGER_SUFFIX[type_name]}"
    single = type_name == "float"
    number = float(value)
    special = special_float(number, single)
    if special is not None:
        return special
    text = f"{number:#.{significant_digits(value, digits, exact)}g}"
    mantissa, e, exponent = text.partition("e")
    return mantissa.rstrip("0") + e + exponent + ("f" if single else "")
