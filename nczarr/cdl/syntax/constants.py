"""Turn single tokens into typed constants.

A suffix sets the type of a number. Without a suffix the
type is the smallest of ``int``, ``uint``, ``int64`` and ``uint64`` that holds the number. A character in single quotes
is a ``byte``. Constants are converted to other types as C does.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from lark import Token

from nczarr.cdl.words import ESCAPES, SPECIAL_FLOATS, SUFFIXES
from nczarr.grammar import terminals, words
from nczarr.model import PRIMITIVES, PrimitiveType
from nczarr.model.types import NullText


class ConstantError(Exception):
    """A value is not legal; the message says why, and `place` where: None for the place of the token."""

    def __init__(self, message: str, place: int | None = None, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.place, self.hint = place, hint


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant, its place, and its text as it is written.

    `kind` is ``byte`` … ``double`` (numbers), ``string`` (bytes), ``opaque`` (hexadecimal digits), ``word``,
    ``fill`` or ``nil``; `value` an int, float (numpy.float32 for ``float``), bytes, or str.
    """

    kind: str
    value: Any
    position: int
    text: str

    @property
    def is_character(self) -> bool:
        """True for a character in single quotes."""
        return self.text[:1] == "'"

    @property
    def shown(self) -> str:
        """The text for a message."""
        text = self.text.encode("latin-1").decode("utf-8", "replace")
        return text if len(text) <= 40 else text[:40] + "…"


#: The types of integers without a suffix, in the order in which the first that holds the number is taken.
PLAIN_INTEGERS = ("int", "uint", "int64", "uint64")

_GRAMMAR = "cdl.lark"
_CDL = terminals(_GRAMMAR)

_INTEGER = re.compile(f"({_CDL['SIGN']}?)({_CDL['DIGITS']})((?:{_CDL['INTEGER_SUFFIX']})?)")
_ESCAPE = re.compile(
    f"({_CDL['HEX_ESCAPE']})|({_CDL['OCTAL_ESCAPE']})|({_CDL['ESCAPE']})".encode("latin-1"), re.DOTALL
)
_FLOAT_SUFFIX, _REAL_SUFFIX = words(_GRAMMAR, "FLOAT_SUFFIX"), words(_GRAMMAR, "REAL_SUFFIX")
_HEX_LETTERS = "".join(words(_GRAMMAR, "HEX_SUFFIX"))
_SMALLEST_FLOAT, _LARGEST_FLOAT = 1.2e-38, 3.4e38
_NUMERIC_PREFIX = re.compile(rb"[ \t\r\n\f\v]*([-+]?[0-9]+)")
_REAL_PREFIX = re.compile(
    rb"[ \t\r\n\f\v]*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?:nan|inf(?:inity)?))",
    re.IGNORECASE,
)
_HEX_PREFIX = re.compile(rb"[ \t\r\n\f\v]*([-+]?)0[xX]([0-9A-Fa-f]+)")


def is_number(kind: str) -> bool:
    """True if a constant of this kind is a number."""
    return kind in PRIMITIVES and kind not in ("string", "char")


def parse_constant(token: Token) -> Constant:
    """Turn a token into a constant.

    Raises
    ------
    ConstantError
        If the token is no legal constant.

    Examples
    --------
    >>> c = parse_constant(Token("INTEGER", "300b"))
    >>> c.kind, c.value
    ('byte', 44)
    >>> parse_constant(Token("INTEGER", "5000000000")).kind
    'uint64'
    """
    text = str(token)
    kind, value = _read(token.type, text)
    return Constant(kind, value, token.start_pos or 0, text)


def _read(terminal: str, text: str) -> tuple[str, object]:
    if terminal == "INTEGER":
        return _integer(text)
    if terminal == "REAL":
        return _real(text)
    if terminal == "STRING":
        return "string", unescape(text[1:-1].encode("latin-1"))
    if terminal == "CHARACTER":
        return "byte", _character(text)
    if terminal == "HEX":
        return _hexadecimal(text)
    if terminal in ("SPECIAL_FLOAT", "NEGATIVE_INFINITY"):
        kind, value = SPECIAL_FLOATS[text]
        return kind, np.float32(value) if kind == "float" else value
    if terminal == "FILL":
        return "fill", None
    return ("nil", None) if terminal == "NIL" else ("word", text)


def _integer(text: str) -> tuple[str, int]:
    match = _INTEGER.fullmatch(text)
    assert match is not None
    sign, digits, suffix = match.groups()
    # ncgen reads 08 and 09 as 0 without a word.
    if len(digits) > 1 and digits[0] == "0":
        try:
            number = int(digits, 8)
        # ncgen silently reads 08 and 09 as 0.
        except ValueError:
            raise ConstantError(
                f"{text} begins with 0, so it is octal, but 8 and 9 are not octal digits"
            ) from None
    else:
        # Python refuses to parse very long numbers.
        number = int(digits) if len(digits) <= 30 else 10**30
    if number > 0xFFFF_FFFF_FFFF_FFFF:
        raise ConstantError(f"the number {text[:40]} is too large: no integer type holds it")
    if sign == "-":
        number = -number
    if suffix:
        kind = SUFFIXES[suffix.lower()]
        limits = np.iinfo(PRIMITIVES[kind].dtype)
        # As in ncgen, signed suffixes wrap: 300b is 44.
        if kind[0] == "u" and not 0 <= number <= limits.max:
            raise ConstantError(f"{text} is out of the range of {kind}: 0 to {limits.max}")
        return kind, _wrap(number, PRIMITIVES[kind])
    for kind in PLAIN_INTEGERS:
        limits = np.iinfo(PRIMITIVES[kind].dtype)
        # Beyond uint, only negative numbers are int64.
        if limits.min <= number <= limits.max and not (kind == "int64" and number >= 0):
            return kind, number
    raise ConstantError(f"the number {text[:40]} is too small: no integer type holds it")


def _real(text: str) -> tuple[str, object]:
    single = text[-1] in _FLOAT_SUFFIX
    value = float(text[:-1] if text[-1] in _REAL_SUFFIX else text)
    if not single:
        return "double", value
    # A float beyond its range is an infinity, and one below is 0, as in C.
    if _SMALLEST_FLOAT < abs(value) < _LARGEST_FLOAT:
        return "float", np.float32(value)
    with np.errstate(over="ignore", under="ignore"):
        return "float", np.float32(value)


def _hexadecimal(text: str) -> tuple[str, object]:
    digits = text[2:].rstrip(_HEX_LETTERS)
    suffix = text[2 + len(digits) :].lower()
    # ncgen takes hexadecimal digits without a suffix for the bytes of an opaque value.
    if not suffix:
        return "opaque", digits
    kind = SUFFIXES[suffix]
    number = int(digits, 16) if len(digits) <= 32 else 1 << 128
    # ncgen clamps longer numbers without a word.
    if number >= 1 << 8 * PRIMITIVES[kind].dtype.itemsize:
        raise ConstantError(f"the number {text[:40]} does not fit {kind}")
    return kind, _wrap(number, PRIMITIVES[kind])


def _character(text: str) -> int:
    inside = text[1:-1].encode("latin-1")
    value = unescape(inside) if inside != b"'" else inside
    # A character of two bytes of UTF-8 is none for ncgen.
    if len(value) != 1:
        shown = text.encode("latin-1").decode("utf-8", "replace")
        raise ConstantError(f"a character constant is one byte; {shown[:40]} has {len(value)}")
    return value[0] - 256 if value[0] > 127 else value[0]


def unescape(raw: bytes) -> bytes:
    r"""Undo the escapes of a string.

    Raises
    ------
    ConstantError
        For an octal escape of fewer than three digits, a hexadecimal one of fewer than two, and a backslash before a
        newline.

    Examples
    --------
    >>> unescape(rb"a\tb\101\x42\q")
    b'a\tbABq'
    """
    if b"\\" not in raw:
        return raw

    def one(match: re.Match[bytes]) -> bytes:
        hexadecimal, octal, other = match.groups()
        # ncgen reads \x41 as a byte FF and a 1.
        if hexadecimal is not None:
            return bytes([int(hexadecimal[2:], 16)])
        if octal is not None:
            return bytes([int(octal[1:], 8) & 255])
        # ncgen refuses shorter octal escapes.
        if b"0" <= other[1:] <= b"7":
            raise ConstantError("an octal escape needs three digits, as in \\012")
        if other == b"\\x":
            raise ConstantError("a hexadecimal escape needs two digits, as in \\x0a")
        if other == b"\\\n":
            raise ConstantError("a backslash at the end of a line is not an escape; write \\n")
        return ESCAPES.get(other, other[1:])

    return _ESCAPE.sub(one, raw)


def _wrap(number: int, type_: PrimitiveType) -> int:
    bits = 8 * type_.dtype.itemsize
    number &= (1 << bits) - 1
    return number - (1 << bits) if type_.dtype.kind == "i" and number >> (bits - 1) else number


def convert(constant: Constant, type_: PrimitiveType) -> object:
    """Convert a constant to an atomic type as C does: integers wrap, fractions are cut off.

    Raises
    ------
    ConstantError
        If the type has no value for the constant.

    Examples
    --------
    >>> from nczarr.model import BYTE
    >>> convert(Constant("double", -1.9, 0, "-1.9"), BYTE)
    -1
    """
    kind, value = constant.kind, constant.value
    # ncgen copies the digits as the bytes of the number.
    if kind == "opaque":
        return _from_bytes(constant, type_)
    if type_.name == "string":
        return _to_string(constant)
    if type_.name == "char":
        if kind in ("byte", "ubyte"):
            return bytes([value & 255])
        raise ConstantError(f"{constant.shown} is not text")
    # ncgen scans the number at the start of the text.
    if kind == "string":
        return _scan(value, type_)
    if not is_number(kind):
        raise ConstantError(f"{constant.shown} is not a value of the type {type_.name}")
    if constant.is_character and type_.dtype.itemsize > 1:  # the code of a character is not negative
        value &= 255
    if type_.is_float:  # "-0" is no integer, but a float
        return -0.0 if value == 0 and constant.text[:1] == "-" else float(value)
    if isinstance(value, int):
        return _wrap(value, type_)
    # In C, the result depends on the platform.
    if not math.isfinite(value):
        raise ConstantError(f"{constant.shown} has no value of the type {type_.name}")
    number = math.trunc(float(value))
    limits = np.iinfo(type_.dtype)
    lowest = min(int(limits.min), -int(limits.max) - 1)
    if not lowest <= number <= max(int(limits.max), 0xFFFF_FFFF if type_.dtype.itemsize < 4 else 0):
        raise ConstantError(f"{constant.shown} is out of the range of {type_.name}")
    return _wrap(number, type_)


def change_by(constant: Constant, type_: PrimitiveType, element: object) -> str | None:
    """Say how the conversion of :func:`convert` changes a constant, which ncgen does silently; None if it does not.

    Floats are rounded to their type without a word, and characters are their codes.

    Examples
    --------
    >>> from nczarr.model import BYTE
    >>> change_by(constant := Constant("int", 200, 0, "200"), BYTE, convert(constant, BYTE))
    '200 becomes -56, since the type is byte'
    """
    if constant.is_character or type_.dtype.kind not in "iuf" or not isinstance(element, int | float):
        return None
    if constant.kind == "string":
        is_same = _is_whole_number(bytes(constant.value), element)
    elif is_number(constant.kind) and type_.is_float:
        with np.errstate(over="ignore"):
            is_same = bool(np.isinf(type_.dtype.type(element))) == math.isinf(constant.value)
        element = element if is_same else math.copysign(math.inf, element)
    else:
        is_same = not is_number(constant.kind) or constant.value == element
    return None if is_same else f"{constant.shown} becomes {element}, since the type is {type_.name}"


def _is_whole_number(raw: bytes, element: int | float) -> bool:
    """Return whether a text is nothing but the number that it was read as."""
    try:
        return float(raw.rstrip(b"\0")) == element or element != element
    except ValueError:
        return False


def _to_string(constant: Constant) -> str:
    kind, value = constant.kind, constant.value
    if kind == "string":
        # netCDF's strings end at a NUL.
        return bytes(value).split(b"\0")[0].decode("utf-8", "surrogateescape")
    if kind == "nil":
        return NullText()
    if kind in ("float", "double"):
        return f"{value:.8g}"
    if is_number(kind):
        return str(value)
    raise ConstantError(f"{constant.shown} is not text")


def _scan(raw: bytes, type_: PrimitiveType) -> object:
    """Return the number at the start of a text as C's scanf reads it; 0 if there is none."""
    if type_.is_float:
        hexadecimal = _HEX_PREFIX.match(raw)
        if hexadecimal is not None:
            return float(int(hexadecimal[1] + hexadecimal[2], 16))
        match = _REAL_PREFIX.match(raw)
        return float(match[1]) if match is not None else 0.0
    match = _NUMERIC_PREFIX.match(raw)
    return _wrap(int(match[1][:40]), type_) if match is not None else 0


def _from_bytes(constant: Constant, type_: PrimitiveType) -> object:
    """Reinterpret the bytes of a hexadecimal constant as a number in little-endian order."""
    if type_.dtype == object:
        raise ConstantError(f"{constant.shown} is not text")
    raw = opaque_bytes(constant.value, type_.dtype.itemsize)
    value = np.frombuffer(raw, type_.dtype.newbyteorder("<"))[0]
    return bytes(raw) if type_.name == "char" else value.item()


def opaque_bytes(digits: str, size: int) -> bytes:
    """Return the bytes of a hexadecimal constant, cut or zero-padded to a size.

    Examples
    --------
    >>> opaque_bytes("123", 3).hex()
    '123000'
    """
    return bytes.fromhex(digits[: 2 * size].ljust(2 * size, "0"))
