r"""Turn names of a CDL text into names of the model: undo escapes, decode UTF-8, normalize to NFC."""

from __future__ import annotations

import re

from lark import Token

from nczarr.cdl.syntax.source import Problems, as_text
from nczarr.model import check_name, normalize_name

_ESCAPED = re.compile(r"\\([\x00-\xff])")
_COMPONENT = re.compile(r"/((?:[^/\\]|\\[\x00-\xff])+)")
_MOST_BYTES = 256
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
        size = len(name.encode())
    except UnicodeEncodeError:
        problems.add("the name is not UTF-8", position)
        return name
    wrong = check_name(name)
    if wrong is None and size > _MOST_BYTES:
        wrong = f"the name has {size} bytes; {_MOST_BYTES} is the most"
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
