r"""Read what tokens say: a name with its escapes, a constant, or a run of many.

Names become names of the model: escapes are undone, UTF-8 is decoded, and the form is NFC. The types of constants are
those of ncgen: a suffix decides, else the smallest of ``int``, ``uint``, ``int64`` and ``uint64`` that holds the
number; a character in single quotes is a ``byte``. They are converted to other types as C does.

Runs are long stretches of a text that are single tokens of the grammar: of numbers, strings, statements. A token for
each number would cost more than all else. Numbers are parsed into arrays by numpy's compiled parser, a block at a time;
strings become texts without a loop where they have no escapes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from lark import Token

from nczarr.cdl.syntax.source import Problems, as_text
from nczarr.cdl.syntax.tree import Attribute, Declaration, Values, Variable
from nczarr.model import PRIMITIVES, PrimitiveType, check_name, normalize_name
from nczarr.model.names import check_length

_ESCAPED = re.compile(r"\\([\x00-\xff])")
_COMPONENT = re.compile(r"/((?:[^/\\]|\\[\x00-\xff])+)")
_IDENTIFIER = re.compile(r"(?:[^\\\x00-\x20]|\\[ -~])+")


def clean_name(raw: str) -> str:
    r"""Undo CDL's escapes, decode, and normalize.

    `raw` is the text of a token: one character for each byte.

    Examples
    --------
    >>> clean_name(r"\2m\ temp")
    '2m temp'
    """
    text = _ESCAPED.sub(r"\1", str(raw)) if "\\" in raw else str(raw)
    return text if text.isascii() else normalize_name(as_text(text))


def name_of(token: Token, problems: Problems) -> str:
    """The name that a token stands for; note a problem if no node can have it."""
    name = clean_name(token)
    position = token.start_pos
    try:
        name.encode()
    except UnicodeEncodeError:
        problems.add("the name is not UTF-8", position)
        return name
    wrong = check_name(name) or check_length(name)
    if wrong is not None:
        problems.add(wrong, position)
    return name


def path_of(token: str) -> list[str]:
    """The names in a path.

    Examples
    --------
    >>> path_of("/g/x")
    ['g', 'x']
    """
    return [clean_name(part) for part in _COMPONENT.findall(token)]


def split_enum_constant(token: str) -> list[tuple[str | None, str]]:
    r"""Read an enum constant: the pairs of a type's name (or None) and a member's name that it may mean.

    Names may have dots, so there is more than one reading; the whole text as a member's name comes first.

    Examples
    --------
    >>> split_enum_constant("/g/colour.red")
    [(None, 'colour.red'), ('colour', 'red')]
    """
    last = _COMPONENT.findall(token)[-1] if token.startswith("/") else token
    readings: list[tuple[str | None, str]] = [(None, clean_name(last))]
    for match in re.finditer(r"\.", last):
        before, after = last[: match.start()], last[match.end() :]
        escaped = (len(before) - len(before.rstrip("\\"))) % 2
        if before and after and not escaped:
            readings.append((clean_name(before), clean_name(after)))
    return readings


def dataset_name(header: str) -> str:
    r"""The dataset's name in ``netcdf NAME``.

    ncgen drops blanks and control characters and keeps backslashes. An identifier with escapes, as ncdump
    prints it, is read as what it means.

    Examples
    --------
    >>> dataset_name("netcdf my\\ data "), dataset_name("netCDF a b ")
    ('my data', 'ab')
    """
    text = header[len("netcdf") :].strip(" \t\r\n\f")
    if "\\" in text and _IDENTIFIER.fullmatch(text):
        return clean_name(text)
    kept = "".join(c for c in text if c > " ")
    return as_text(kept)


class ConstantError(Exception):
    """What is wrong with a constant."""


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


_INTEGER = re.compile(r"([-+]?)([0-9]+)([A-Za-z]*)")
_SUFFIXES = {
    "b": "byte",
    "ub": "ubyte",
    "bu": "ubyte",
    "s": "short",
    "us": "ushort",
    "su": "ushort",
    "l": "int",
    "u": "uint",
    "ul": "uint",
    "lu": "uint",
    "ll": "int64",
    "ull": "uint64",
    "llu": "uint64",
}
_FLOATS = {
    "NaN": ("double", math.nan),
    "nan": ("double", math.nan),
    "NaNf": ("float", math.nan),
    "nanf": ("float", math.nan),
    "Infinity": ("double", math.inf),
    "DoubleInf": ("double", math.inf),
    "Infinityf": ("float", math.inf),
    "Inff": ("float", math.inf),
    "FloatInf": ("float", math.inf),
    "-Infinity": ("double", -math.inf),
    "-Infinityf": ("float", -math.inf),
    "-Inff": ("float", -math.inf),
}
_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|([0-7]{3})|([0-7])|([\x00-\xff]))", re.DOTALL)
_ESCAPES = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b"?": b"\x7f",
}
_SMALLEST_FLOAT, _LARGEST_FLOAT = 1.2e-38, 3.4e38
_NUMERIC_PREFIX = re.compile(rb"[ \t\r\n\f\v]*([-+]?[0-9]+)")
_REAL_PREFIX = re.compile(
    rb"[ \t\r\n\f\v]*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?:nan|inf(?:inity)?))",
    re.IGNORECASE,
)
_HEX_PREFIX = re.compile(rb"[ \t\r\n\f\v]*([-+]?)0[xX]([0-9A-Fa-f]+)")


def is_number(kind: str) -> bool:
    """True for the kinds of numbers."""
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
    >>> parse_constant(Token("NUMBERS", "5000000000")).kind
    'uint64'
    """
    text = str(token)
    kind, value = _read(token.type, text)
    return Constant(kind, value, token.start_pos or 0, text)


def _read(terminal: str, text: str) -> tuple[str, Any]:
    if terminal == "NUMBERS":
        if text == "_":
            return "fill", None
        return _integer(text) if text.lstrip("+-").isdigit() else _real(text)
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
        kind, value = _FLOATS[text]
        return kind, np.float32(value) if kind == "float" else value
    if terminal == "FILL":
        return "fill", None
    return ("nil", None) if terminal == "NIL" else ("word", text)


def _integer(text: str) -> tuple[str, int]:
    match = _INTEGER.fullmatch(text)
    if match is None:
        raise ConstantError(f"{text[:40]} is no number")
    sign, digits, suffix = match.groups()
    if len(digits) > 1 and digits[0] == "0":
        try:
            number = int(digits, 8)
        except ValueError:
            raise ConstantError(
                f"{text} begins with 0, so it is octal, and 8 and 9 are no octal digits"
            ) from None
    else:
        # Python refuses to read very long numbers.
        number = int(digits) if len(digits) <= 30 else 10**30
    if number > 0xFFFF_FFFF_FFFF_FFFF:
        raise ConstantError(f"the number {text[:40]} is too large: no integer type holds it")
    if sign == "-":
        number = -number
    if suffix:
        kind = _SUFFIXES[suffix.lower()]
        limits = np.iinfo(PRIMITIVES[kind].dtype)
        if kind[0] == "u" and not 0 <= number <= limits.max:
            raise ConstantError(f"{text} is out of the range of {kind}: 0 to {limits.max}")
        return kind, _wrap(number, PRIMITIVES[kind])
    for kind in ("int", "uint", "int64", "uint64"):
        limits = np.iinfo(PRIMITIVES[kind].dtype)
        # What is beyond uint is int64 only when it is negative.
        if limits.min <= number <= limits.max and not (kind == "int64" and number >= 0):
            return kind, number
    raise ConstantError(f"the number {text[:40]} is too small: no integer type holds it")


def _real(text: str) -> tuple[str, Any]:
    single = text[-1] in "fF"
    try:
        value = float(text.rstrip("fFdDlL"))
    except ValueError:
        raise ConstantError(f"{text[:40]} is no number") from None
    if not single:
        return "double", value
    if _SMALLEST_FLOAT < abs(value) < _LARGEST_FLOAT:
        return "float", np.float32(value)
    with np.errstate(over="ignore", under="ignore"):
        return "float", np.float32(value)


def _hexadecimal(text: str) -> tuple[str, Any]:
    digits = text[2:].rstrip("sSlL")
    suffix = text[2 + len(digits) :].lower()
    if not suffix:
        return "opaque", digits
    kind = {"s": "short", "l": "int", "ll": "int64"}[suffix]
    number = int(digits, 16) if len(digits) <= 32 else 1 << 128
    if number >= 1 << 8 * PRIMITIVES[kind].dtype.itemsize:
        raise ConstantError(f"the number {text[:40]} does not fit {kind}")
    return kind, _wrap(number, PRIMITIVES[kind])


def _character(text: str) -> int:
    inside = text[1:-1].encode("latin-1")
    value = unescape(inside) if inside != b"'" else inside
    if len(value) != 1:
        shown = text.encode("latin-1").decode("utf-8", "replace")
        raise ConstantError(f"a character constant is one byte; {shown[:40]} has {len(value)}")
    return value[0] - 256 if value[0] > 127 else value[0]


def unescape(raw: bytes) -> bytes:
    r"""Undo the escapes of a string.

    Raises
    ------
    ConstantError
        For an octal escape of fewer than three digits, and a backslash before a newline.

    Examples
    --------
    >>> unescape(rb"a\tb\101\x42\q")
    b'a\tbABq'
    """
    if b"\\" not in raw:
        return raw

    def one(match: re.Match[bytes]) -> bytes:
        hexadecimal, octal, digit, other = match.groups()
        if hexadecimal is not None:
            return bytes([int(hexadecimal, 16)])
        if octal is not None:
            return bytes([int(octal, 8) & 255])
        if digit is not None:
            raise ConstantError("an octal escape needs three digits, as in \\012")
        if other == b"\n":
            raise ConstantError("a backslash at the end of a line is no escape; write \\n")
        return _ESCAPES.get(other, other)

    return _ESCAPE.sub(one, raw)


def _wrap(number: int, type_: PrimitiveType) -> int:
    bits = 8 * type_.dtype.itemsize
    number &= (1 << bits) - 1
    return number - (1 << bits) if type_.dtype.kind == "i" and number >> (bits - 1) else number


def convert(constant: Constant, type_: PrimitiveType) -> Any:
    """Convert a constant to an atomic type the way C does: integers wrap, fractions are cut.

    Raises
    ------
    ConstantError
        If there is no sensible value.

    Examples
    --------
    >>> from nczarr.model import BYTE
    >>> convert(Constant("double", -1.9, 0, "-1.9"), BYTE)
    -1
    """
    kind, value = constant.kind, constant.value
    if kind == "opaque":
        return _from_bytes(constant, type_)
    if type_.name == "string":
        return _to_string(constant)
    if type_.name == "char":
        if kind in ("byte", "ubyte"):
            return bytes([value & 255])
        raise ConstantError(f"{_shown(constant)} is no text")
    if kind == "string":
        return _scan(value, type_)
    if not is_number(kind):
        raise ConstantError(f"{_shown(constant)} is no value of the type {type_.name}")
    if type_.is_float:
        return float(value)
    if isinstance(value, int):
        return _wrap(value, type_)
    if not math.isfinite(value):
        raise ConstantError(f"{_shown(constant)} has no value of the type {type_.name}")
    number = math.trunc(float(value))
    limits = np.iinfo(type_.dtype)
    lowest = min(int(limits.min), -int(limits.max) - 1)
    if not lowest <= number <= max(int(limits.max), 0xFFFF_FFFF if type_.dtype.itemsize < 4 else 0):
        raise ConstantError(f"{_shown(constant)} is out of the range of {type_.name}")
    return _wrap(number, type_)


def _to_string(constant: Constant) -> str:
    kind, value = constant.kind, constant.value
    if kind == "string":
        return bytes(value).split(b"\0")[0].decode("utf-8", "surrogateescape")
    if kind == "nil":
        return ""
    if kind in ("float", "double"):
        return f"{value:.8g}"
    if is_number(kind):
        return str(value)
    raise ConstantError(f"{_shown(constant)} is no text")


def _scan(raw: bytes, type_: PrimitiveType) -> Any:
    """The number at the start of a text, as C's scanf finds it; 0 if there is none."""
    if type_.is_float:
        hexadecimal = _HEX_PREFIX.match(raw)
        if hexadecimal is not None:
            return float(int(hexadecimal[1] + hexadecimal[2], 16))
        match = _REAL_PREFIX.match(raw)
        return float(match[1]) if match is not None else 0.0
    match = _NUMERIC_PREFIX.match(raw)
    return _wrap(int(match[1][:40]), type_) if match is not None else 0


def _from_bytes(constant: Constant, type_: PrimitiveType) -> Any:
    """A hexadecimal constant given to a number: its bytes are the number's, as they are in memory."""
    if type_.dtype == object:
        raise ConstantError(f"{_shown(constant)} is no text")
    raw = opaque_bytes(constant.value, type_.dtype.itemsize)
    value = np.frombuffer(raw, type_.dtype.newbyteorder("<"))[0]
    return bytes(raw) if type_.name == "char" else value.item()


def opaque_bytes(digits: str, size: int) -> bytes:
    """The bytes of a hexadecimal constant, cut to a size, or filled up with zeros.

    Examples
    --------
    >>> opaque_bytes("123", 3).hex()
    '123000'
    """
    return bytes.fromhex(digits[: 2 * size].ljust(2 * size, "0"))


def _shown(constant: Constant) -> str:
    text = constant.text.encode("latin-1").decode("utf-8", "replace")
    return text if len(text) <= 40 else text[:40] + "…"


# --- numbers

_LONGEST = 400
_TOO_LARGE = 1 << 65
_BLOCK = 1 << 18  # characters: the text, its copy and the numbers stay in the processor's cache


def count_run(token: Token) -> int:
    """How many numbers and fill marks a run has."""
    return token.count(",") + 1


def split_run(token: Token) -> Iterator[Token]:
    """The numbers and fill marks of a run, each a token of its own."""
    start = token.start_pos or 0
    for part in token.split(","):
        stripped = part.lstrip(" \t\r\n")
        yield Token("NUMBERS", stripped.rstrip(" \t\r\n"), start + len(part) - len(stripped))
        start += len(part) + 1


class HardRunError(Exception):
    """A run has something that the fast way does not take: a number that is none, or that needs more care."""


def parse_run(text: str, dtype: np.dtype) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Parse a run, the text of a token NUMBERS, into numbers of an integer or float type.

    Yields pairs of values and the places of fill marks in them, or None if there are none.

    Raises
    ------
    HardRunError
        If there are fractions and `dtype` is an integer type, or something is no number.

    Examples
    --------
    >>> [(v.tolist(), m.tolist()) for v, m in parse_run("1, _, 3", np.dtype("i4"))]
    [([1, 0, 3], [1])]
    """
    position, end = 0, len(text)
    wide = np.dtype("f8") if dtype.kind == "f" else np.dtype("i8")
    while position < end:
        cut = text.find(",", position + _BLOCK)
        cut = end if cut < 0 else cut
        block = text[position:cut]
        position = cut + 1
        missing = None
        if "_" in block:
            missing = _fill_marks(block)
            block = block.replace("_", "0")
        values = _parse(block, wide)
        if wide.kind == "i":
            values = _checked(values, block, dtype)
        with np.errstate(over="ignore", under="ignore"):
            yield values.astype(dtype, copy=False), missing


def _parse(block: str, dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "i" and ("." in block or "e" in block or "E" in block):
        raise HardRunError
    try:
        values = np.fromstring(block, dtype, sep=",")
    except (ValueError, DeprecationWarning):  # what numpy says of text that is no number
        raise HardRunError from None
    if len(values) != block.count(",") + 1:
        raise HardRunError
    return values


def _fill_marks(block: str) -> np.ndarray:
    raw = np.frombuffer(block.encode("ascii"), "u1")
    commas = np.flatnonzero(raw == ord(","))
    return np.searchsorted(commas, np.flatnonzero(raw == ord("_")))


def _checked(values: np.ndarray, block: str, dtype: np.dtype) -> np.ndarray:
    """The integers, exact also beyond int64; wrapped to the type."""
    limits = np.iinfo("i8")
    if (values == limits.max).any() or (values == limits.min).any():  # where the parser stops
        exact = [int(part) if len(part) < _LONGEST else _TOO_LARGE for part in block.split(",")]
        if min(exact) < limits.min or max(exact) > np.iinfo("u8").max:
            raise HardRunError
        mask = (1 << 64) - 1
        values = np.array([number & mask for number in exact], "u8").view("i8")
    return values.astype(dtype)  # wraps, as C does


# --- strings

_STRING = re.compile(r'"((?:[^"\\]++|\\[\x00-\xff])*+)"')


def count_strings(run: Token) -> int:
    """How many strings a run has."""
    if "\\" not in run:
        return run.count('"') // 2
    return len(_STRING.findall(run))


def split_strings(run: Token) -> Iterator[Token]:
    """The strings of a run, each a token of its own."""
    start = run.start_pos or 0
    for match in _STRING.finditer(run):
        yield Token("STRING", match[0], start + match.start())


def raw_strings(run: Token) -> list[bytes]:
    r"""The bytes of the strings of a run; :class:`ConstantError` if an escape is wrong.

    Examples
    --------
    >>> raw_strings(Token("STRINGS", r'"a", "b\tc"'))
    [b'a', b'b\tc']
    """
    return [unescape(text.encode("latin-1")) for text in _STRING.findall(run)]


def text_strings(run: Token) -> list[str]:
    r"""The strings of a run as texts, each to its first NUL; :class:`ConstantError` if an escape is wrong.

    Examples
    --------
    >>> text_strings(Token("STRINGS", r'"a", "b\000c"'))
    ['a', 'b']
    """
    if run.isascii() and "\\" not in run and "\0" not in run:
        return _STRING.findall(run)
    return [raw.split(b"\0")[0].decode("utf-8", "surrogateescape") for raw in raw_strings(run)]


# --- declarations and attributes

# The token is known to match the grammar's STATEMENTS, so the parts need only be told apart here.
_GAP = r"[ \t\r\n\f]*+"
_WORD = r"[^ \t\r\n\f:=;,()\"]++"
_STATEMENT = re.compile(
    rf"{_GAP}({_WORD})?+{_GAP}({_WORD})?+{_GAP}"
    rf'(?::{_GAP}({_WORD}){_GAP}={_GAP}((?:[^";]++|"(?:[^"\\]++|\\[\x00-\xff])*+")*+)|([^;]*+));'
)
_VARIABLE = re.compile(rf"({_WORD}){_GAP}(?:\(([^)]*)\))?+")
_NAME = re.compile(_WORD)
_CONSTANT = re.compile(
    r'(?P<STRING>"(?:[^"\\]++|\\[\x00-\xff])*+")'
    r"|(?P<SPECIAL_FLOAT>[A-Za-z]++)|(?P<NEGATIVE_INFINITY>-[A-Za-z]++)"
    r"|(?P<INTEGER>[-+]?+[0-9]++(?![.eE0-9])[A-Za-z]*+)|(?P<REAL>[-+]?+[0-9.][0-9.eEfFdDlL+-]*+)"
)
_PRIMITIVE = frozenset([*PRIMITIVES, "real", "long", "integer", "ulong", "uinteger"])


def split_statements(run: Token) -> Iterator[Declaration | Attribute]:
    """The declarations and attributes of a run, in order.

    Examples
    --------
    >>> [type(node).__name__ for node in split_statements(Token("STATEMENTS", "int v(x); v:a = 1, 2; :b = 'x';", 0))]
    ['Declaration', 'Attribute', 'Attribute']
    """
    start = run.start_pos or 0
    for match in _STATEMENT.finditer(run):
        first, second, name, values, _ = match.groups()
        if name is None:
            yield Declaration(_word(first, start + match.start(1)), tuple(_variables(match, start)))
            continue
        words = [_word(first, start + match.start(1))] if first else []
        if second:
            words.append(_word(second, start + match.start(2)))
        yield Attribute(
            tuple(words),
            Token("IDENT", name, start + match.start(3)),
            Values(tuple(_constants(values, start + match.start(4)))),
        )


def _word(text: str, position: int) -> Token:
    return Token("PRIMITIVE" if text in _PRIMITIVE else "IDENT", text, position)


def _variables(statement: re.Match[str], start: int) -> Iterator[Variable]:
    for match in _VARIABLE.finditer(statement.string, statement.start(2), statement.end(5)):
        inside = _NAME.finditer(statement.string, *match.span(2)) if match[2] else ()
        dimensions = [Token("IDENT", name[0], start + name.start()) for name in inside]
        yield Variable(Token("IDENT", match[1], start + match.start(1)), tuple(dimensions))


def _constants(text: str, start: int) -> Iterator[Token]:
    for match in _CONSTANT.finditer(text):
        assert match.lastgroup is not None
        yield Token(match.lastgroup, match[0], start + match.start())
