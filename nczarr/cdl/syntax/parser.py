"""Parse CDL text with the LALR parser of ``grammar/cdl.lark``, and report syntax errors in plain words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import cast

from lark import Lark, Token, UnexpectedInput, UnexpectedToken
from lark.ast_utils import create_transformer

from nczarr.cdl.syntax import tree
from nczarr.cdl.syntax.runs import RUNS, tokens_of, with_runs
from nczarr.cdl.syntax.source import ORDER, SourceText, as_text
from nczarr.cdl.words import BLANKS, REAL_SUFFIXES
from nczarr.errors import CDLError
from nczarr.grammar import read as read_grammar
from nczarr.grammar import terminals, words

_CDL = terminals("cdl.lark")

#: The words of edits.
_APPEND, _DELETE, _RENAME, _TO = (
    words("cdl.lark", name)[0] for name in ("_APPEND", "_DELETE", "_RENAME", "_TO")
)
_KINDS = words("cdl.lark", "KIND")
#: Terminals that messages name by their text, in the order of a message; an empty text is that of the grammar.
_SHOWN = {
    **dict.fromkeys(["LBRACE", "RBRACE", "LPAR", "RPAR", "COMMA", "SEMICOLON", "COLON", "EQUAL", "STAR"], ""),
    **dict.fromkeys(["TYPES", "DIMENSIONS", "VARIABLES"], ""), "_DATA": "'data:'", "GROUP": "",
    "HEADER": f"'{words('cdl.lark', 'HEADER')[0]} NAME {{'",
    "_APPEND": repr(_APPEND), "_DELETE": repr(_DELETE), "_RENAME": repr(_RENAME), "_TO": repr(_TO),
    "KIND": " or ".join(map(repr, _KINDS)), "$END": "the end of the text",
}  # fmt: skip
#: Words for an expected name, by the token before it.
_NAMES = {
    **dict.fromkeys(["ENUM", "RPAR", "COMPOUND"], "a name for the type"), "GROUP": "a group name",
    "COLON": "an attribute name", "DIMENSIONS": "a dimension name",
    **dict.fromkeys(["_DATA", "PRIMITIVE"], "a variable name"),
}  # fmt: skip
_CONSTANTS = frozenset(["REAL", "STRING", "CHARACTER", "HEX"])
_SECTIONS = ["types", "dimensions", "variables", "data"]
#: The beginnings of tokens and comments, their whole text, and the problem if they have no end.
_UNENDED = (
    ("/*", re.compile(_CDL["BLOCK_COMMENT"]), "the comment has no end: '*/' is missing"),
    ('"', re.compile(_CDL["STRING"]), "the string has no end: '\"' is missing"),
    ("'", re.compile(_CDL["CHARACTER"]), 'the character constant has no end: "\'" is missing'),
)
_SKIPPED = re.compile(f"(?:{_CDL['BLANK']}|{_CDL['LINE_COMMENT']}|{_CDL['BLOCK_COMMENT']})*")
_WORD = re.compile(f"(?:{terminals('names.lark')['NAME_CHARACTER']}|{_CDL['ESCAPE']})+")
_NUMERIC = re.compile(f"{_CDL['SIGN']}?{_CDL['DIGITS']}")
#: The parser of runs takes half as long again to build, 50 ms. The first few short texts cost less without it.
_SHORT, _FEW = 4000, 4
_short_texts = count()
#: The runs inside a run of records.
_INNER = ("NUMBERS", "WORDS", "STRINGS")


@cache
def parser(start: str, runs: tuple[str, ...]) -> Lark:
    """Return the parser of a rule, which builds the syntax tree while it parses; runs are one token each."""
    return Lark(
        with_runs(read_grammar("cdl.lark"), runs),
        start=start,
        parser="lalr",
        lexer="contextual",
        maybe_placeholders=False,
        transformer=create_transformer(tree, decorator_factory=lambda **_: tree.node_maker),
        import_paths=[_read_grammar],
    )


def _read_grammar(_base: str | None, path: str) -> tuple[str, str]:
    return path, read_grammar(path.split("/")[-1])


class RunError(Exception):
    """A run is no list of values; the place is that of the parser's error after the position `start`."""

    def __init__(self, error: UnexpectedInput, start: int) -> None:
        super().__init__(str(error))
        self.error, self.start = error, start


@contextmanager
def syntax_errors(
    source: SourceText, hint: Callable[[SourceText, int], str | None] = lambda source, position: None
) -> Iterator[None]:
    """Raise the errors of the grammar, also those that are found in a run later, as :class:`CDLError`.

    `hint` guesses the cause from the position of an error, before the usual guesses.
    """
    try:
        yield
    except UnexpectedInput as error:
        raise _explain(source, error, hint=hint) from None
    except RunError as found:
        raise _explain(source, found.error, found.start) from None
    except RecursionError:
        raise source.error("the text is nested too deeply", None) from None


def parse(source: SourceText, runs: tuple[str, ...] | None = None) -> tree.File:
    """Parse a CDL text; runs of these kinds are one token each. None: of all kinds, if the parser of runs pays.

    Raises
    ------
    CDLError
        If the text breaks the grammar. The message names the place, the text found and the text expected.

    Examples
    --------
    >>> parse(SourceText("netcdf a { dimensions: x = 3; }")).body.parts[0].parts[0].size.value
    '3'
    """
    if runs is None:
        is_early = len(source.text) <= _SHORT and next(_short_texts) < _FEW
        runs = () if is_early else tuple(RUNS)
    with syntax_errors(source):
        return cast(tree.File, parser("file", runs).parse(source.text))


def parse_edits(source: SourceText) -> tree.Edits:
    """Parse the statements that change a stored dataset.

    Raises
    ------
    CDLError
        As :func:`parse`.

    Examples
    --------
    >>> [type(part).__name__ for part in parse_edits(SourceText('v:units = "K" ; delete :title')).parts]
    ['Attribute', 'Delete']
    """
    with syntax_errors(source, _hint_of_edit):
        return cast(tree.Edits, parser("edits", ()).parse(source.text))


def split_items(item: tree.Value) -> list[tree.Value]:
    """Return the values of a run, as the grammar reads each of them; another value is alone.

    Raises
    ------
    RunError
        If the text of the run is not CDL.

    Examples
    --------
    >>> [str(item) for item in split_items(Token("NUMBERS", "1, 2", 0))]
    ['1', '2']
    """
    if not isinstance(item, Token) or item.type not in RUNS:
        return [item]
    found = tokens_of(item)
    if found is not None:
        return list(found)
    start = item.start_pos or 0
    try:
        values = cast(
            tree.Values, parser("values", _INNER if item.type == "RECORDS" else ()).parse(str(item))
        )
    except UnexpectedInput as error:
        raise RunError(error, start) from None
    _move(values, start)
    return list(values.items)


def _move(values: tree.Values, distance: int) -> None:
    """Add a distance to the position of each token."""
    for item in values.items:
        if isinstance(item, tree.Block):
            _move(item.values, distance)
        tokens = (
            [item]
            if isinstance(item, Token)
            else [item.brace]
            if isinstance(item, tree.Block)
            else [item.name, *item.arguments]
        )
        for token in tokens:
            token.start_pos = (token.start_pos or 0) + distance


def _explain(
    source: SourceText,
    error: UnexpectedInput,
    start: int = 0,
    hint: Callable[[SourceText, int], str | None] = lambda source, position: None,
) -> CDLError:
    position = (error.pos_in_stream or 0) + start
    ended = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    # Else the error would be in an empty line behind the text.
    if ended:
        position = len(source.text.rstrip(BLANKS))
    for opening, whole, message in _UNENDED:
        if source.text.startswith(opening, position) and whole.match(source.text, position) is None:
            return source.error(message, position)
    expected: set[str] = set(getattr(error, "expected", None) or getattr(error, "allowed", None) or ())
    if start:  # the list of a run ends as the whole list does
        expected = {"SEMICOLON" if name == "$END" else name for name in expected}
    found = "the end of the text" if ended else _found(source, position)
    missing = "'}' is missing" if ended and "RBRACE" in expected else None
    advice = missing or hint(source, position) or _hint(source, position, expected)
    message = f"expected {_expected(expected, _before(error))}, not {found}"
    if advice is None and expected >= _CONSTANTS and _NUMERIC.match(source.text, position):
        message = f"{found[1:-1]} is not a number"
    return source.error(message, position, hint=advice)


def _before(error: UnexpectedInput) -> str:
    """Return the kind of the token or node before the error."""
    # Lark keeps the state in one place for unexpected tokens, in another for characters.
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
    elif "_RENAME" in expected:
        first, expected = "an attribute", expected - {"COLON"}
    elif {"IDENT", "INTEGER"} <= expected:
        first = "a dimension name or a size"
    elif {"IDENT", "TYPES", "COLON"} <= expected or {"PRIMITIVE", "IDENT", "PATH", "COLON"} <= expected:
        first, expected = "a declaration", expected - {"COLON"}
    elif "IDENT" in expected:
        first = _NAMES.get(before, "a name")
    elif "INTEGER" in expected:
        first = "a size or 'unlimited'" if "UNLIMITED" in expected else "an integer"
    listed = [_text_of(terminal) for terminal in _SHOWN if terminal in expected]
    *others, last = [first] * bool(first) + listed or ["the end of the text"]
    return ", ".join(others) + " or " * bool(others) + last


def _text_of(terminal: str) -> str:
    """Return the text of a terminal for a message; Lark names the marks that have no name in the grammar."""
    return _SHOWN[terminal] or f"'{parser('file', ()).get_terminal(terminal).pattern.value}'"


def _hint(source: SourceText, position: int, expected: set[str]) -> str | None:
    """Guess the cause of a syntax error; None if nothing is likely."""
    text = source.text
    before = text[:position].rstrip(BLANKS)
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
        if re.fullmatch(rf"[+-]?\d+[{''.join(REAL_SUFFIXES)}]", word[0]):
            return "a floating-point number needs a '.' or an exponent: 1.f"
    if "SEMICOLON" in expected and before and text.count("\n", len(before), position):
        return "is a ';' missing at the end of the line before?"
    return None


def _hint_of_edit(source: SourceText, position: int) -> str | None:
    """Return the right spelling of a statement whose node or attribute is not named as CDL does it."""
    text = source.text
    statement = text[text.rfind(";", 0, position) + 1 :].partition(";")[0]
    verb, *given = as_text(statement.partition("=")[0]).split() or [""]
    names = [word for word in given if word not in (*_KINDS, _TO)]
    if any(":" in word for word in (verb, *names)):
        return None
    if verb == _RENAME and names:
        old, new = (*names, "NEW")[:2]
        kinds = [kind for kind in _KINDS if given[0] == kind] or _KINDS
        nodes = ", ".join(f"'rename {kind} {old} to {new}'" for kind in kinds)
        return f"write {nodes}, or 'rename {old}:ATTRIBUTE to {new}'"
    if verb not in (_APPEND, _DELETE):
        verb, names = "", [verb, *names]
    if len(names) != 1 or not names[0]:
        return None
    owner, _, name = names[0].rpartition(".")
    of_variable, of_dataset = (
        f"'{verb} {place}:{name}'".replace("' ", "'") for place in (owner or "VARIABLE", "")
    )
    return f"write {of_variable} for an attribute of a variable, {of_dataset} for one of the dataset"
