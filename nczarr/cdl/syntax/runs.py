"""Recognise and split runs: long stretches of numbers, words, strings, records or statements that are one token each.

One token for each number would cost more than all other work. The grammar has no runs: their terminals are composed
here from those of ``grammar/cdl.lark``, and :func:`with_runs` adds them to it. numpy's compiled parser reads numbers
into arrays. Strings without escapes are found by one regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
from lark import Token

from nczarr.cdl.syntax.constants import unescape
from nczarr.cdl.syntax.tree import Attribute, Declaration, Values, Variable
from nczarr.cdl.words import BLANKS, REAL_SUFFIXES, SUFFIXES
from nczarr.grammar import portable, terminals, words
from nczarr.model import PRIMITIVES

# --- recognition

_CDL = {**terminals("names.lark"), **terminals("cdl.lark")}
#: The most values of a run, so that one of an unusual form does not make all the others slow.
_MOST = 50_000
_MOST_STATEMENTS = 1000
_FEWEST_RECORDS = 8


def _either(*names: str) -> str:
    return "|".join([f"(?:{_CDL[name]})" for name in names])


def _list(item: str, fewest: int = 2) -> str:
    """Return the pattern of a list with commas."""
    return rf"{item}(?:{GAP},{GAP}{item}){{{fewest - 1},{_MOST}}}+"


def _list_up_to(item: str, comma: str) -> str:
    """Return the pattern of a list whose last value no other character follows.

    To check each value costs more than a second search for the last one that is whole, where a value of another form
    follows.
    """
    more = f"{comma}{item}"
    return rf"{item}(?:(?:{more}){{1,{_MOST}}}+{_NEXT}|(?:{more}{_NEXT}){{1,{_MOST}}}+)"


def _braces(inside: str) -> str:
    return rf"""\{{(?:[^{{}}"'\/;]++|{STRING}{inside})*+\}}"""


GAP = _CDL["BLANK"] + "*+"
#: The inside of a class of characters.
_BLANKS = _CDL["BLANK"].strip("[]")
_NEXT = rf"(?=[{_BLANKS},;}}\/])"
STRING = _CDL["STRING"]

#: The characters of numbers, in any order, and fill marks. Octal numbers have another value than numpy gives them.
_WORDS_IN_NUMBERS = words("cdl.lark", "INTEGER") + words("cdl.lark", "REAL")
IN_NUMBER = f"[0-9{re.escape(''.join(sorted({*''.join(_WORDS_IN_NUMBERS)})))}]"
_NUMBER = rf"(?:(?:{_CDL['SIGN']})?+(?!0[0-9])[0-9.]{IN_NUMBER}*+|_)"
#: A name without an escape.
_SIMPLE = rf"{_CDL['NAME_START']}{_CDL['NAME_CHARACTER']}*+"
#: A value in braces, with others in it, four deep, without comments and paths.
RECORD = portable(_braces("|" + _braces("|" + _braces("|" + _braces("")))))

_RESERVED = ("PRIMITIVE", "ENUM", "OPAQUE", "COMPOUND", "UNLIMITED", "SPECIAL_FLOAT", "NIL")
_SECTIONS = ("TYPES", "DIMENSIONS", "VARIABLES", "GROUP", "_DATA")
_PLAIN = rf"(?!{_either(*_SECTIONS, *_RESERVED)}){_SIMPLE}(?!\\)"
_TYPE = rf"(?:(?:{_CDL['PRIMITIVE']})|{_PLAIN})"
_SHAPE = rf"{GAP}\({GAP}{_list(_PLAIN, 1)}{GAP}\)"
_CONSTANTS = ("STRING", "INTEGER", "REAL", "SPECIAL_FLOAT", "NEGATIVE_INFINITY")
_ATTRIBUTE = (
    rf"(?:{_TYPE}{GAP}(?<={_CDL['BLANK']}))?(?:{_PLAIN}{GAP})?:{GAP}{_PLAIN}{GAP}={GAP}"
    rf"{_list(f'(?:{_either(*_CONSTANTS)})', 1)}"
)
_DECLARATION = rf"{_TYPE}{GAP}(?<={_CDL['BLANK']}){_list(f'{_PLAIN}(?:{_SHAPE})?', 1)}"

#: The terminals of runs, and the rules of the grammar whose text each of them can be, several times.
RUNS = {
    "NUMBERS": ("_value", _list_up_to(_NUMBER, f",{GAP}")),
    "WORDS": ("_value", _list_up_to(f"(?!_){_SIMPLE}", f"{GAP},{GAP}")),
    "STRINGS": ("_value", _list(STRING)),
    "RECORDS": ("_value", _list(RECORD, _FEWEST_RECORDS)),
    "STATEMENTS": (
        "_statement",
        rf"(?:(?:{_ATTRIBUTE}|{_DECLARATION}){GAP};{GAP}){{1,{_MOST_STATEMENTS}}}+",
    ),
}


def with_runs(grammar: str, runs: Iterable[str]) -> str:
    """Return a grammar that takes runs of these kinds as one token each.

    Examples
    --------
    >>> print(with_runs("_value: STRING", ["STRINGS"])[:44])
    _value: STRING
    %extend _value: STRINGS
    STRIN
    """
    parts = [grammar]
    for name in runs:
        rule, pattern = RUNS[name]
        parts.append(f"%extend {rule}: {name}\n{name}.10: /{portable(pattern)}/")
    return "\n".join(parts)


# --- values

#: The terminals of values that are one token, in the order in which the parser tries them.
_ONE = ("REAL", "HEX", "INTEGER", *_RESERVED, "FILL", "IDENT")
_ITEM = re.compile("|".join([f"(?P<{name}>{_CDL[name]})" for name in _ONE]))


def count_items(run: Token) -> int:
    """Count the values of a run; another token is one value."""
    if run.type in ("NUMBERS", "WORDS"):
        return run.count(",") + 1
    if run.type == "STRINGS":
        return len(_STRING.findall(run)) if "\\" in run else run.count('"') // 2
    return len(_RECORD.findall(run)) if run.type == "RECORDS" else 1


def tokens_of(run: Token) -> list[Token] | None:
    """Return the values of a run as tokens of the grammar; None if one of them is none."""
    if run.type == "RECORDS":
        return None
    start = run.start_pos or 0
    if run.type == "STRINGS":
        return [Token("STRING", found[0], start + found.start()) for found in _STRING.finditer(run)]
    tokens = []
    for part in run.split(","):
        stripped = part.lstrip(BLANKS)
        text = stripped.rstrip(BLANKS)
        found = _ITEM.fullmatch(text)
        if found is None:
            return None
        tokens.append(Token(str(found.lastgroup), text, start + len(part) - len(stripped)))
        start += len(part) + 1
    return tokens


# --- numbers

_SUFFIX = re.compile(r"[0-9.]([A-DF-Za-df-z]+)")
_WHOLE = re.compile(rf"(?:^|[ ,\n\t\r])[-+]?+[0-9]++[{''.join(REAL_SUFFIXES)}]")
_LONGEST = 400
_TOO_LARGE = 1 << 65


class NeedsSlowPath(Exception):
    """The fast parser cannot read a run; its tokens must be read one at a time."""


def parse_run(text: str, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray | None]:
    """Parse a run, the text of a token NUMBERS, into numbers of an integer or float type.

    Returns
    -------
    ndarray, ndarray or None
        The values, and the indices of the fill marks among them (None without fill marks).

    Raises
    ------
    NeedsSlowPath
        If a part is not a number, or `dtype` is an integer type that lacks a number of the run.

    Examples
    --------
    >>> parse_run("1, _, 3", np.dtype("i4"))
    (array([1, 0, 3], dtype=int32), array([1]))
    """
    missing = kind = None
    suffixed = _SUFFIX.search(text, 0, _LONGEST)
    # One token for each suffix cost up to 38 times the time of ncgen.
    if suffixed is not None:
        text, kind = _without(text, suffixed[1])
    if "_" in text:
        raw = np.frombuffer(text.encode("ascii"), "u1")
        missing = np.searchsorted(np.flatnonzero(raw == ord(",")), np.flatnonzero(raw == ord("_")))
        text = text.replace("_", "0")
    wide = np.dtype("f8") if dtype.kind == "f" else np.dtype("i8")
    values = _parse(text, wide)
    if kind is not None and kind.kind != "f":
        limits = np.iinfo(kind)  # the parser has saturated at the ends of 64-bit integers
        low, high = max(limits.min, np.iinfo("i8").min + 1), min(limits.max, np.iinfo("i8").max - 1)
        if values.min() < low or values.max() > high:
            raise NeedsSlowPath
    if wide.kind == "i":
        values = _checked(values, text, dtype)
    with np.errstate(over="ignore", under="ignore"):
        if kind == np.float32:
            values = values.astype(kind)
        found = values.astype(dtype, copy=False)
    if found.dtype == np.float32 and (np.isinf(found) & np.isfinite(values)).any():
        raise NeedsSlowPath  # too large for a float: a warning says so
    return found, missing


def _without(run: str, suffix: str) -> tuple[str, np.dtype]:
    """Return a run without the suffix of all its numbers, and the type of the suffix."""
    kind = REAL_SUFFIXES.get(suffix) or SUFFIXES.get(suffix.lower())
    run += ","
    # Reals have one letter, which may be L; whole numbers have no F and D.
    real = "." in run or "e" in run or "E" in run
    whole = suffix in REAL_SUFFIXES and run.count(".") < run.count(",") and _WHOLE.search(run) is not None
    if whole or (real and len(suffix) > 1):
        raise NeedsSlowPath
    if kind is None or run.count(suffix + ",") + run.count("_,") != run.count(","):
        raise NeedsSlowPath
    return run.replace(suffix + ",", ",")[:-1], PRIMITIVES[kind].dtype


def _parse(run: str, dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "i" and ("." in run or "e" in run or "E" in run):
        raise NeedsSlowPath
    try:
        values = np.fromstring(run, dtype, sep=",")
    except (ValueError, DeprecationWarning):  # numpy's answers to text that is not a number
        raise NeedsSlowPath from None
    # numpy ends at the first text that it cannot read, and only warns.
    if len(values) != run.count(",") + 1:
        raise NeedsSlowPath
    return values


def _checked(values: np.ndarray, run: str, dtype: np.dtype) -> np.ndarray:
    """Return exact integers, also beyond int64."""
    limits = np.iinfo("i8")
    if (values == limits.max).any() or (values == limits.min).any():  # the parser saturates here
        exact = [int(part) if len(part) < _LONGEST else _TOO_LARGE for part in run.split(",")]
        if min(exact) < limits.min or max(exact) > np.iinfo("u8").max:
            raise NeedsSlowPath
        mask = (1 << 64) - 1
        values = np.array([number & mask for number in exact], "u8").view("i8")
        return values.astype(dtype)
    # A number that the type lacks wraps as in C, and is read alone, with a warning.
    own = np.iinfo(dtype)
    if values.min() < own.min or (dtype.itemsize < 8 and values.max() > own.max):
        raise NeedsSlowPath
    return values.astype(dtype)


# --- strings

_STRING = re.compile(f'"({STRING[1:-1]})"')
_RECORD = re.compile(RECORD)


def raw_strings(run: str) -> list[bytes]:
    r"""Return the bytes of each string of a run; :class:`ConstantError` if an escape is wrong.

    Examples
    --------
    >>> raw_strings(Token("STRINGS", r'"a", "b\tc"'))
    [b'a', b'b\tc']
    """
    return [unescape(text.encode("latin-1")) for text in _STRING.findall(run)]


def text_strings(run: str) -> list[str]:
    r"""Return each string of a run up to its first NUL; :class:`ConstantError` if an escape is wrong.

    Examples
    --------
    >>> text_strings(Token("STRINGS", r'"a", "b\000c"'))
    ['a', 'b']
    """
    if run.isascii() and "\\" not in run and "\0" not in run:
        return _STRING.findall(run)
    return [raw.split(b"\0")[0].decode("utf-8", "surrogateescape") for raw in raw_strings(run)]


# --- declarations and attributes

# The token is a run, so these expressions only separate its parts.
_WORD = rf"[^{_BLANKS}:=;,()\"]++"
_STATEMENT = re.compile(
    portable(
        rf"{GAP}({_WORD})?+{GAP}({_WORD})?+{GAP}"
        rf'(?::{GAP}({_WORD}){GAP}={GAP}((?:[^";]++|{STRING})*+)|([^;]*+));'
    )
)
_VARIABLE = re.compile(portable(rf"({_WORD}){GAP}(?:\(([^)]*)\))?+"))
_NAME = re.compile(_WORD)
_CONSTANT = re.compile("|".join([f"(?P<{name}>{_CDL[name]})" for name in _CONSTANTS]))
_PRIMITIVE = frozenset(words("cdl.lark", "PRIMITIVE"))


def split_statements(run: Token) -> Iterator[Declaration | Attribute]:
    """Yield the declarations and attributes of a run, in order.

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
