r"""Format names, and single values of any type: strings, enums, opaques, compounds, vlens, numbers inside them.

CDL escapes more in names than an FQN does: a leading digit, and every ASCII character with a meaning in CDL.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from nczarr import model
from nczarr.cdl.words import ESCAPES
from nczarr.cdl.write.numbers import float_text
from nczarr.cdl.write.options import DumpOptions
from nczarr.errors import CDLError, LossError
from nczarr.grammar import expression
from nczarr.lazy import pattern
from nczarr.model.types import NullText
from nczarr.options import named, verb_named

#: Value to text.
ToText = Callable[[Any], str]

_SPECIAL = pattern(lambda: expression("names.lark", "ESCAPED_CHARACTER"))
_NOT_FIRST = pattern(lambda: expression("names.lark", "ESCAPED_START"))
#: No netCDF name begins with ".", "+", "-" or "@", so ncdump escapes only digits.
_DIGIT = pattern("[0-9]")
_CONTROL = pattern(lambda: expression("names.lark", "CONTROL"))

#: The characters whose escapes ncdump prints; of the bell and of DEL it prints the octal ones.
_NAMED = {meant.decode(): escape.decode() for escape, meant in ESCAPES.items() if meant not in b"\a\x7f"}
_NAMED |= {c: "\\" + c for c in "\\'\""}
# Includes Latin-1 controls and direction marks, which a terminal would obey.
_UNSAFE = pattern(r"[\x00-\x1f\x7f-\x9f\\'\"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\udc80-\udcff]")
_UNSAFE_NCDUMP = pattern(lambda: rf"{expression('names.lark', 'CONTROL')}|[\\'\"]")
_NOT_PRINTABLE = pattern(r"[^ -~]|[\\'\"]")


def escape_name(name: str, *, percent: bool = True) -> str:
    r"""Write a name as a CDL identifier.

    With `percent`, ``%``, ``/`` and a leading ``.``, ``+``, ``-`` or ``@`` are escaped too: CDL requires that; ncdump
    does not do it.

    Examples
    --------
    >>> print(escape_name("2 m (air)"))
    \2\ m\ \(air\)
    >>> print(escape_name("a%"), escape_name("a%", percent=False))
    a\% a%
    """
    text = _SPECIAL.sub(r"\\\g<0>", name)
    # ncdump prints "%" without an escape, and ncgen needs one.
    if not percent:
        text = text.replace("\\%", "%").replace("\\/", "/")
    if _CONTROL.search(text):
        text = _CONTROL.sub(lambda c: f"\\%{ord(c[0]):02x}", text)
    if text.startswith("\\"):
        return text
    return "\\" + text if (_NOT_FIRST if percent else _DIGIT).match(text) else text


def escape_path(components: Sequence[str], *, percent: bool = True) -> str:
    """Write simple names as an absolute path.

    Examples
    --------
    >>> print(escape_path(["g", "a b"]))
    /g/a\\ b
    """
    return "".join("/" + escape_name(name, percent=percent) for name in components)


def refuse_slashes(dataset: model.Dataset, form: str) -> None:
    """Refuse names of nodes that contain ``/``, which the netCDF tools take for two names.

    Raises
    ------
    CDLError
    """
    for fqn, wrong in model.names_no_file_has(dataset):
        if "/" in model.parse_fqn(fqn)[-1]:  # ncdump prints names that are too long
            raise CDLError(
                f"{form} cannot hold {fqn}: {wrong}",
                hint=rf"CDL without {named('ncdump', True)} has '\/'; {verb_named('copy', named('rename'))} renames it",
            )


def plain_path(fqn: str) -> str:
    """Return an FQN in the form of the netCDF tools: components without escapes.

    Examples
    --------
    >>> plain_path(r"/g\\ 1/x")
    '/g 1/x'
    """
    return "/" + "/".join(model.parse_fqn(fqn))


def _octal(match: re.Match[str]) -> str:
    c = match[0]
    return _NAMED.get(c) or f"\\{ord(c) & 0xFF:03o}"


def _octal_bytes(match: re.Match[str]) -> str:
    c = match[0]
    return _NAMED.get(c) or "".join(f"\\{byte:03o}" for byte in c.encode("utf-8", "surrogateescape"))


def quote(text: str, *, ncdump: bool = False) -> str:
    r"""Return text in quotes; bytes that are not UTF-8 become octal escapes (raw in ncdump's style).

    Examples
    --------
    >>> print(quote('5\u00b0 "N"\n'))
    "5° \"N\"\n"
    """
    return f'"{_UNSAFE_NCDUMP.sub(_octal, text) if ncdump else _UNSAFE.sub(_octal_bytes, text)}"'


def quote_printable(raw: bytes) -> str:
    r"""Return the bytes of char data in quotes, with escapes for all but printable ASCII.

    Examples
    --------
    >>> print(quote_printable(b"a\0\xff"))
    "a\000\377"
    """
    return f'"{_NOT_PRINTABLE.sub(_octal, raw.decode("latin-1"))}"'


class ValueText:
    """Makes the functions that turn values into text, for one dataset and one style.

    The enums of the dataset decide which constants are ambiguous.
    """

    def __init__(self, dataset: model.Dataset, options: DumpOptions) -> None:
        self.dataset, self.options = dataset, options
        requested = (("float", options.float_digits, 7), ("double", options.double_digits, 15))
        #: The digits of floats, and True if some have more, to be read back as the same value.
        self.precision = {
            name: (digits or usual, digits is None and not options.ncdump)
            for name, digits, usual in requested
        }
        enums = [t for t in dataset.all_types.values() if isinstance(t, model.EnumType)]
        self._members = Counter(name for t in enums for name in {name for name, _ in t.members})
        #: Return the function that formats one value of a type.
        self.of = cache(self._make)

    def _make(self, type_: model.Type) -> ToText:
        if isinstance(type_, model.EnumType):
            return self._enum(type_)
        if type_.kind == "opaque":
            return lambda value: "0X" + bytes(value).hex().upper()
        if isinstance(type_, model.VlenType):
            return self._vlen(type_)
        if isinstance(type_, model.CompoundType):
            return self._compound(type_)
        if type_.name == "string":
            return self._string
        if type_.name == "char":
            return lambda value: self.chars(bytes(value).ljust(1, b"\0"))
        if type_.name in self.precision:
            (digits, exact), kind = self.precision[type_.name], type_.dtype.type
            return lambda value: float_text(kind(value), digits, exact)
        return lambda value: str(int(value))

    def _string(self, value: str) -> str:
        if self.options.ncdump:
            # ncdump prints NIL for a null pointer.
            if isinstance(value, NullText):
                return "NIL"
            return quote(str(value).replace("\v", "\n"), ncdump=True)
        # CDL ends a string there: it was cut without a word.
        if "\0" in value and not self.options.header_only:
            raise LossError(
                f"CDL ends the string {str(value)[:40]!r} at its first NUL",
                hint=f"{named('ncdump', True)} prints it as it is",
            )
        return quote(str(value))

    def chars(self, raw: bytes) -> str:
        """Return a row of chars inside a compound or a vlen as text."""
        if not self.options.ncdump:
            return quote_printable(raw)
        # ncdump writes a backslash and the control character itself.
        text = raw.rstrip(b"\0").decode("latin-1")
        return '"' + _NOT_PRINTABLE.sub(lambda c: "\\" + c[0] if c[0] in _NAMED else _octal(c), text) + '"'

    def _enum(self, type_: model.EnumType) -> ToText:
        texts: dict[int, str] = {}
        for name, value in reversed(type_.members):
            if self.options.ncdump:
                texts[value] = name
            # ncgen takes the first enum that has a member of this name.
            elif self._members[name] > 1 or "." in name:
                # A digit inside an identifier must not be escaped.
                texts[value] = f"{escape_name(type_.name)}.{escape_name('_' + name)[1:]}"
            else:
                texts[value] = escape_name(name)
        # ncdump prints it for a 0 without a member.
        if self.options.ncdump:
            texts.setdefault(0, "_UNDEFINED")

        def text(value: int) -> str:
            number = int(value)
            return texts.get(number) or str(number)

        return text

    def _vlen(self, type_: model.VlenType) -> ToText:
        if type_.base == model.CHAR:
            return lambda value: "{" + (self.chars(value.tobytes()) if len(value) else "") + "}"
        return _in_braces(self.of(type_.base))

    def _compound(self, type_: model.CompoundType) -> ToText:
        parts: list[tuple[str, ToText]] = []
        for field in type_.fields:
            text = self.of(field.type)
            if field.shape and field.type == model.CHAR:
                rows, chars = _in_braces(lambda row: self.chars(row.tobytes())), field.shape[-1]
                text = partial(_of_rows, rows, chars)
            elif field.shape:
                text = partial(_of_rows, _in_braces(text), None)
            parts.append((field.name, text))
        return lambda value: "{" + ", ".join([part(value[name]) for name, part in parts]) + "}"


def _in_braces(inside: ToText) -> ToText:
    return lambda values: "{" + ", ".join([inside(value) for value in values]) + "}"


def _of_rows(text: ToText, length: int | None, values: np.ndarray) -> str:
    """Return the text of an array as a list of rows of `length`, or of single values."""
    return text(values.reshape(-1) if length is None else values.reshape(-1, length))


def same_as_ncdump(type_: model.Type, fill: Any, value: Any) -> bool:
    """ncdump's test whether a value of a string or user type is the fill value."""
    if isinstance(type_, model.CompoundType):
        for field in type_.fields:
            a, b = fill[field.name], value[field.name]
            if field.shape:  # ncdump compares the first element only
                a, b = a.reshape(-1)[0], b.reshape(-1)[0]
            if not same_as_ncdump(field.type, a, b):
                return False
        return True
    if isinstance(type_, model.VlenType):
        return len(fill) == len(value) and all(
            same_as_ncdump(type_.base, a, b) for a, b in zip(fill, value, strict=True)
        )
    # ncdump compares floats within the machine epsilon.
    if type_.is_float:
        return bool(near(np.asarray([value], type_.dtype), type_.dtype.type(fill))[0])
    if isinstance(fill, NullText) != isinstance(value, NullText):
        return False
    return bool(model.same_values(fill, value))


def near(values: np.ndarray, fill: np.number) -> np.ndarray:
    """ncdump's test whether floats are the fill value: within the machine epsilon.

    Examples
    --------
    >>> near(np.array([1.0, 1.1, np.nan]), np.float64(1.0))
    array([ True, False, False])
    """
    if np.isnan(fill):
        return np.isnan(values)
    if np.isinf(fill):
        return np.isinf(values) & ((values > 0) == (fill > 0))
    epsilon = np.finfo(values.dtype).eps
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        close = np.abs(fill - values) <= np.abs(epsilon * values)
    return close & np.isfinite(values) & ((values > 0) == bool(fill > 0))
