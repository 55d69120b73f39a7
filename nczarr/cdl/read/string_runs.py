"""Split a run of strings, one token of the grammar, into texts, without a loop where there are no escapes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lark import Token

from nczarr.cdl.read.constants import unescape

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
