"""Give the words, suffixes and escapes of ``grammar/cdl.lark`` their meaning, for reading and for writing."""

from __future__ import annotations

import math
import re

from nczarr.grammar import expression, references, words

_GRAMMAR = "cdl.lark"

#: The types that each word of a primitive type means: the first word of its terminal names it.
ALIASES = {
    word: listed[0]
    for listed in (words(_GRAMMAR, name) for name in references(_GRAMMAR, "PRIMITIVE"))
    for word in listed
}

#: The signed types of the suffixes: the terminal of a suffix has the name of that of its type.
_SIGNED = {
    word.lower(): words(_GRAMMAR, name.removesuffix("_SUFFIX"))[0]
    for name in references(_GRAMMAR, "SIZE")
    for word in words(_GRAMMAR, name)
}
_UNSIGNED = words(_GRAMMAR, "UNSIGNED")[0]
#: The types of the suffixes of integers, in lower case; the first suffix of a type is its usual one.
SUFFIXES = {_UNSIGNED: "uint", **_SIGNED}
SUFFIXES |= {_UNSIGNED + suffix: f"u{kind}" for suffix, kind in _SIGNED.items()}
SUFFIXES |= {suffix + _UNSIGNED: f"u{kind}" for suffix, kind in _SIGNED.items()}
#: The suffixes that ncdump prints: small letters for bytes and shorts, none for ints.
PRINTED_SUFFIXES = {
    kind: suffix if kind in ("byte", "short") else suffix.upper()
    for suffix, kind in reversed(SUFFIXES.items())
} | {"int": ""}
#: The suffixes of real numbers, without those that also make integers.
REAL_SUFFIXES = {
    word: kind
    for kind, name in (("float", "FLOAT_SUFFIX"), ("double", "DOUBLE_SUFFIX"))
    for word in words(_GRAMMAR, name)
    if word.lower() not in SUFFIXES
}

#: Words that are floating-point numbers: their kind and value.
SPECIAL_FLOATS = {
    word: ("float" if name.endswith("FLOAT") else "double", math.nan if name.startswith("NAN") else math.inf)
    for name in references(_GRAMMAR, "SPECIAL_FLOAT")
    for word in words(_GRAMMAR, name)
}
SPECIAL_FLOATS |= {
    f"-{word}": (SPECIAL_FLOATS[word][0], -math.inf)
    for name in references(_GRAMMAR, "NEGATIVE_INFINITY")
    for word in words(_GRAMMAR, name)
}

#: The characters that the grammar's terminals of escapes name.
_MEANT = {
    "BELL": b"\x07", "BACKSPACE": b"\x08", "TAB": b"\x09", "LINE_FEED": b"\x0a", "VERTICAL_TAB": b"\x0b",
    "FORM_FEED": b"\x0c", "CARRIAGE_RETURN": b"\x0d", "DELETE": b"\x7f",
}  # fmt: skip
#: The escapes of control characters, and the bytes that they mean.
ESCAPES = {
    words(_GRAMMAR, name)[0].encode("ascii"): _MEANT[name] for name in references(_GRAMMAR, "CONTROL_ESCAPE")
}

_BLANK = re.compile(expression(_GRAMMAR, "BLANK"))
#: The characters between tokens.
BLANKS = "".join(filter(_BLANK.fullmatch, map(chr, range(128))))


def special_float(value: float, single: bool) -> str | None:
    """Return the CDL spelling of NaN or an infinity; None for a finite number.

    Examples
    --------
    >>> special_float(float("-inf"), True)
    '-Infinityf'
    """
    if math.isfinite(value):
        return None
    terminal = ("NAN" if math.isnan(value) else "INFINITY") + ("_FLOAT" if single else "")
    return ("-" if value == -math.inf else "") + words(_GRAMMAR, terminal)[0]
