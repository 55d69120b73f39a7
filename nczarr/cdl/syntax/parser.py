"""Parse CDL text with the LALR parser of ``grammar/cdl.lark``, and report syntax errors in plain words."""

from __future__ import annotations

import re
from functools import cache
from typing import cast

from lark import Lark, Token, UnexpectedInput, UnexpectedToken
from lark.ast_utils import create_transformer

from nczarr.cdl.syntax import tree
from nczarr.cdl.syntax.runs import STRING
from nczarr.cdl.syntax.source import ORDER, SourceText, as_text
from nczarr.errors import CDLError
from nczarr.grammar import read as read_grammar

#: Terminals in the words of a message.
_WORDS = {
    "LBRACE": "'{'", "RBRACE": "'}'", "LPAR": "'('", "RPAR": "')'", "COMMA": "','", "SEMICOLON": "';'",
    "COLON": "':'", "EQUAL": "'='", "STAR": "'*'", "TYPES": "'types:'", "DIMENSIONS": "'dimensions:'",
    "VARIABLES": "'variables:'", "_DATA": "'data:'", "GROUP": "'group:'", "HEADER": "'netcdf NAME {'",
    "$END": "the end of the text",
}  # fmt: skip
#: Words for an expected name, by the token before it.
_NAMES = {
    **dict.fromkeys(["ENUM", "RPAR", "COMPOUND"], "a name for the type"), "GROUP": "a group name",
    "COLON": "an attribute name", "DIMENSIONS": "a dimension name",
    **dict.fromkeys(["_DATA", "PRIMITIVE"], "a variable name"),
}  # fmt: skip
_CONSTANTS = frozenset(["NUMBERS", "STRING", "CHARACTER", "HEX"])
_SECTIONS = ["types", "dimensions", "variables", "data"]
#: The beginnings of tokens and comments, their whole text, and the problem if they have no end.
_UNENDED = (
    ("/*", re.compile(r"/\*[\x00-\xff]*?\*/"), "the comment has no end: '*/' is missing"),
    ('"', re.compile(STRING), "the string has no end: '\"' is missing"),
    ("'", re.compile(r"'(?:[^'\\\n]|\\[^\n])*'"), 'the character constant has no end: "\'" is missing'),
)
_SKIPPED = re.compile(r"(?:[ \t\r\n\f]+|//[^\n]*|/\*[\x00-\xff]*?\*/)*")
_WORD = re.compile(r"(?:[A-Za-z0-9_.@+\-%\x80-\xff]|\\[\x00-\xff])+")


@cache
def _parser(records: bool = True) -> Lark:
    grammar = read_grammar("cdl.lark")
    return make_parser(grammar if records else grammar.replace("| RECORDS ", ""))


def make_parser(grammar: str) -> Lark:
    """Return the parser of a grammar; it builds the syntax tree while it parses."""
    return Lark(
        grammar,
        start="file",
        parser="lalr",
        lexer="contextual",
        maybe_placeholders=False,
        transformer=create_transformer(tree, decorator_factory=lambda **_: tree.node_maker),
        import_paths=[_read_grammar],
    )


def _read_grammar(_base: str | None, path: str) -> tuple[str, str]:
    return path, read_grammar(path.split("/")[-1])


def parse(source: SourceText, *, records: bool = True) -> tree.File:
    """Parse a CDL text; without `records`, each record is a node of its own.

    Raises
    ------
    CDLError
        If the text breaks the grammar. The message names the place, the text found and the text expected.

    Examples
    --------
    >>> parse(SourceText("netcdf a { dimensions: x = 3; }")).body.parts[0].parts[0].size.value
    '3'
    """
    try:
        return cast(tree.File, _parser(records).parse(source.text))
    except UnexpectedInput as error:
        raise _explain(source, error) from None
    except RecursionError:
        raise source.error("the text is nested too deeply", None) from None


def _explain(source: SourceText, error: UnexpectedInput) -> CDLError:
    position = error.pos_in_stream or 0
    ended = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    if ended:
        position = len(source.text.rstrip(" \t\r\n\f"))
    for start, whole, message in _UNENDED:
        if source.text.startswith(start, position) and whole.match(source.text, position) is None:
            return source.error(message, position)
    expected: set[str] = set(getattr(error, "expected", None) or getattr(error, "allowed", None) or ())
    found = "the end of the text" if ended else _found(source, position)
    missing = "'}' is missing" if ended and "RBRACE" in expected else None
    hint = missing or _hint(source, position, expected)
    return source.error(f"expected {_expected(expected, _before(error))}, not {found}", position, hint=hint)


def _before(error: UnexpectedInput) -> str:
    """Return the kind of the token or node before the error."""
    parser = getattr(error, "interactive_parser", None)
    state = getattr(error, "state", None) if parser is None else parser.parser_state
    last = (getattr(state, "value_stack", None) or [None])[-1]
    return str(last.type) if isinstance(last, Token) else type(last).__name__


def _found(source: SourceText, position: int) -> str:
    text = source.text
    if position >= len(text):
        return "the end of the text"
    word = _WORD.match(text, position)
    if word is not None:
        shown = as_text(word[0])
        return f"{shown[:40]!r}" if len(shown) <= 40 else f"{shown[:40]!r}…"
    if text[position] == '"':
        return "a string"
    character = text[position]
    return f"'{character}'" if character.isprintable() and character != "'" else repr(character)


def _expected(expected: set[str], before: str) -> str:
    first = ""
    if expected >= _CONSTANTS:
        first = "a value"
    elif {"IDENT", "INTEGER"} <= expected:
        first = "a dimension name or a size"
    elif {"IDENT", "TYPES", "COLON"} <= expected or {"PRIMITIVE", "IDENT", "PATH", "COLON"} <= expected:
        first, expected = "a declaration", expected - {"COLON"}
    elif "IDENT" in expected:
        first = _NAMES.get(before, "a name")
    elif "INTEGER" in expected:
        first = "a size or 'unlimited'" if "UNLIMITED" in expected else "an integer"
    words = [first] * bool(first) + [word for terminal, word in _WORDS.items() if terminal in expected]
    *others, last = words or ["the end of the text"]
    return ", ".join(others) + " or " * bool(others) + last


def _hint(source: SourceText, position: int, expected: set[str]) -> str | None:
    """Guess the cause of a syntax error; None if nothing is likely."""
    text = source.text
    before = text[:position].rstrip(" \t\r\n\f")
    if text[position : position + 1] == ":" and before.endswith((*_SECTIONS, "group")):
        return ORDER
    statement = re.split("[;{}:]", before)[-1].split()
    if statement and statement[0] in _SECTIONS:
        return f"is the ':' after {statement[0]!r} missing?"
    word = _WORD.match(text, position)
    if word is not None:
        section = word[0].rstrip(":")
        skipped = _SKIPPED.match(text, word.end())
        after = text[skipped.end() if skipped else word.end() :][:1]
        if section in (*_SECTIONS, "group") and after == ":":
            if text[word.end() : word.end() + 1] != ":":
                return f"write {section!r} and its colon without a blank between them"
            return ORDER
        if re.fullmatch(r"[+-]?\d+[fFdD]", word[0]):
            return "a floating-point number needs a '.' or an exponent: 1.f"
    if "SEMICOLON" in expected and before and text.count("\n", len(before), position):
        return "is a ';' missing at the end of the line before?"
    return None
