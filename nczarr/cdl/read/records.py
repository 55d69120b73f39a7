"""Read runs: long lists of values of a user-defined type in one token, a column at a time.

A regular expression made from the type takes the fields of all records apart. Each field is then one list of values,
which numpy or a table of names converts at once.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

import numpy as np

from nczarr import model
from nczarr.cdl.syntax.constants import opaque_bytes
from nczarr.cdl.syntax.runs import RECORD, STRING, NeedsSlowPath, parse_run, text_strings

_GAP = r"[ \t\r\n\f]*+"
_BLANK = " \t\r\n\f"
_WORD, _NUMBER, _HEX = r"[A-Za-z][A-Za-z0-9_.]*+", r"[-+.0-9][-+.0-9A-Za-z]*+", r"0[xX][0-9A-Fa-f]++"

#: Numbers as in the grammar's NUMBERS: neither octal nor hexadecimal.
_DECIMAL = re.compile(rf"(?:{_GAP}[-+]?+(?:[1-9.]|0(?![0-9xX]))[.0-9eE+uUbBsSlLfFdD-]*+{_GAP}(?:,|$))++")


def read_run(type_: model.Type, text: str) -> np.ndarray:
    """Return the values of a list, the text between two semicolons or braces.

    Raises
    ------
    NeedsSlowPath
        If the list has an unusual form, such as ``_`` and records of fewer values than fields, or an error.

    Examples
    --------
    >>> read_run(model.VlenType("/row", model.INT), "{1, 2}, {}").tolist()
    [array([1, 2], dtype=int32), array([], dtype=int32)]
    """
    if isinstance(type_, model.CompoundType):
        columns = _columns(_record(type_), text, len(type_.fields))
        out = np.zeros(len(columns[0]), type_.dtype)
        for field, column in zip(type_.fields, columns, strict=True):
            out[field.name] = _field(field, column)
        return out
    if isinstance(type_, model.VlenType):
        (texts,) = _columns(re.compile(f"({RECORD})"), text, 1)
        flat, counts = _inside(type_.base, texts)
        out = np.empty(len(texts), object)
        start = 0
        for i, count in enumerate(counts):
            out[i] = flat[start : start + count]
            start += count
        return out
    if isinstance(type_, model.EnumType):
        known = _members(type_)
        try:
            return np.array([known[name.strip(_BLANK)] for name in text.split(",")], type_.dtype)
        except KeyError:
            raise NeedsSlowPath from None
    if isinstance(type_, model.OpaqueType):
        raw = [opaque_bytes(digits.strip(_BLANK)[2:], type_.size) for digits in text.split(",")]
        return np.frombuffer(b"".join(raw), type_.dtype)
    if type_ == model.STRING:
        (texts,) = _columns(re.compile(f"({STRING})"), text, 1)
        return np.array([*text_strings(",".join(texts)), None], object)[:-1]
    if type_ == model.CHAR or _DECIMAL.fullmatch(text) is None:
        raise NeedsSlowPath
    parts = list(parse_run(text, type_.dtype))
    if any(missing is not None for _, missing in parts):
        raise NeedsSlowPath
    return np.concatenate([values for values, _ in parts])


def _field(field: model.Field, texts: list[str]) -> np.ndarray:
    if not field.shape:
        return read_run(field.type, ",".join(texts))
    size = math.prod(field.shape)
    if field.type == model.CHAR:
        strings = [t.encode("utf-8", "surrogateescape") for t in read_run(model.STRING, _joined(texts)[0])]
        if len(field.shape) > 1 or len(strings) != len(texts) or max(map(len, strings)) > size:
            raise NeedsSlowPath
        return np.array(strings, f"S{size}").view("S1").reshape(len(texts), size)
    flat, counts = _inside(field.type, texts)
    if set(counts) != {size}:
        raise NeedsSlowPath
    return flat.reshape(len(texts), *field.shape)


def _inside(type_: model.Type, texts: list[str]) -> tuple[np.ndarray, list[int]]:
    """Return the values in braces, of all braces together, and their number in each."""
    joined, inside = _joined(texts)
    if isinstance(type_, model.CompoundType | model.VlenType) or type_ == model.STRING:
        item = re.compile(STRING if type_ == model.STRING else RECORD)
        counts = [len(item.findall(text)) for text in inside]
    else:
        counts = [text.count(",") + 1 if text else 0 for text in inside]
    flat = read_run(type_, joined) if joined else np.empty(0, type_.dtype)
    if len(flat) != sum(counts):
        raise NeedsSlowPath
    return flat, counts


def _joined(texts: list[str]) -> tuple[str, list[str]]:
    inside = [text[1:-1].strip(_BLANK) for text in texts]
    return ",".join(filter(None, inside)), inside


def _columns(pattern: re.Pattern[str], text: str, count: int) -> list[list[str]]:
    """Return the text of each group of a pattern, in all its matches; only commas may separate these."""
    parts = pattern.split(text)
    first, *between, last = parts[:: count + 1]
    if first.strip(_BLANK) or last.strip(_BLANK) or {gap.strip(_BLANK) for gap in set(between)} - {","}:
        raise NeedsSlowPath
    if len(parts) == 1:
        raise NeedsSlowPath
    return [parts[i :: count + 1] for i in range(1, count + 1)]


@lru_cache(maxsize=16)
def _record(type_: model.CompoundType) -> re.Pattern[str]:
    fields = f"{_GAP},{_GAP}".join([f"({_item(field)})" for field in type_.fields])
    return re.compile(rf"\{{{_GAP}{fields}{_GAP}\}}")


def _item(field: model.Field) -> str:
    type_ = field.type
    if field.shape or isinstance(type_, model.CompoundType | model.VlenType):
        return RECORD
    if isinstance(type_, model.EnumType):
        return _WORD
    if isinstance(type_, model.OpaqueType):
        return _HEX
    return STRING if type_.dtype.kind in "OS" else _NUMBER


@lru_cache(maxsize=16)
def _members(type_: model.EnumType) -> dict[str, int]:
    return {f"{type_.name}.{name}": value for name, value in type_.members} | dict(type_.members)
