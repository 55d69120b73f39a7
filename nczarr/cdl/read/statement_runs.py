"""Split a run of plain declarations and attributes, one token of the grammar, into their nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lark import Token

from nczarr.cdl.read.syntax import Attribute, Declaration, Values, Variable
from nczarr.model import PRIMITIVES

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
