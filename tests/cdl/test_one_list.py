"""Find second lists of the language's words, suffixes, escapes and characters in the package and the documentation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from nczarr import grammar, model
from nczarr.cdl import words

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "nczarr").rglob("*.py"), *(ROOT / "docs").rglob("*.py")])

TYPES = frozenset(model.PRIMITIVES)
SPECIAL_FLOATS = frozenset(words.SPECIAL_FLOATS) - {"nan"}
SUFFIXES = frozenset(words.SUFFIXES)
ESCAPES = frozenset([escape.decode() for escape in words.ESCAPES])
CONTROLS = frozenset([meant.decode() for meant in words.ESCAPES.values()])
#: Parts of the classes of characters in ``grammar/names.lark``.
CHARACTERS = re.compile(r"\\x1f\\x7f|\\x80-\\xff|_\.@\+|\[\^\\?/\\\\|\[ -@")

#: The places where a list stands once, or where it is not the list of CDL.
ALLOWED = {
    ("types", "nczarr/model/types.py"): "the table of the types itself",
    ("types", "nczarr/cdl/syntax/constants.py"): "the order in which a type is chosen for a plain integer",
    ("types", "nczarr/convert/change/classic_types.py"): "the types of the same bits, as pairs",
    ("controls", "nczarr/cdl/words.py"): "the bytes that the terminals of escapes name",
    ("special floats", "nczarr/zarr/types.py"): "the words of Zarr's documents",
    (
        "special floats",
        "nczarr/zarr/documents/v2.py",
    ): "the words that other programs write into v2 documents",
    ("special floats", "docs/spec/minimal_reader.py"): "a reader that uses nothing of the package",
    ("characters", "docs/generate_grammar.py"): "the regular expressions of Lark",
    ("characters", "nczarr/grammar/__init__.py"): "the regular expressions of Lark",
    ("characters", "docs/spec/minimal_reader.py"): "a reader that uses nothing of the package",
    ("characters", "nczarr/cdl/highlighting.py"): "the classes of bytes, which it widens for text",
    ("characters", "nczarr/cdl/write/values.py"): "the characters that a terminal obeys",
    ("characters", "nczarr/mapping/nczarr2/write.py"): "the names that netcdf-c accepts",
    ("characters", "nczarr/model/paths.py"): "the paths of netCDF4-python, which have their own escapes",
}


def second_lists(source: str) -> Iterator[tuple[str, int]]:
    """The lists in a program, each with its line: text in docstrings and messages is none."""
    tree = ast.parse(source)
    documents = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        items: list[ast.expr | None] = []
        if isinstance(node, ast.Dict):
            items = [*node.keys, *node.values]
        elif isinstance(node, ast.List | ast.Tuple | ast.Set):
            items = list(node.elts)
        elif isinstance(node, ast.Constant) and id(node) not in documents:
            text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if isinstance(text, str):
                yield from ((kind, node.lineno) for kind in lists_in_text(text))
        found = {_text(item) for item in items if item is not None}
        for kind, listed, few in (
            ("types", TYPES, 4),
            ("suffixes", SUFFIXES, 4),
            ("escapes", ESCAPES, 4),
            ("controls", CONTROLS, 4),
        ):
            if len(found & listed) >= few:
                yield kind, node.lineno


def lists_in_text(text: str) -> Iterator[str]:
    """The kinds of lists that one text is: words with bars or blanks between them, a special float, a pattern."""
    if text.strip() in SPECIAL_FLOATS:
        yield "special floats"
    if len(TYPES & set(re.split(r"[| ,]", text))) >= 4:
        yield "types"
    if CHARACTERS.search(text):
        yield "characters"


def _text(item: ast.expr) -> str | None:
    """A constant as text, or the name of one of the model's types in lower case."""
    if isinstance(item, ast.Constant):
        value = item.value.decode("latin-1") if isinstance(item.value, bytes) else item.value
        return value if isinstance(value, str) else None
    name = item.id if isinstance(item, ast.Name) else item.attr if isinstance(item, ast.Attribute) else ""
    return name.lower() if name.isupper() else None


def test_no_module_has_a_second_list_of_the_language() -> None:
    found: dict[tuple[str, str], list[int]] = {}
    for path in SOURCES:
        for kind, line in second_lists(path.read_text("utf-8")):
            found.setdefault((kind, path.relative_to(ROOT).as_posix()), []).append(line)
    assert {place: lines for place, lines in found.items() if place not in ALLOWED} == {}
    assert found.keys() >= ALLOWED.keys()  # an exception that nothing needs goes


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ('X = ("byte", "char", "short", "int")', "types"),
        ("X = [BYTE, CHAR, SHORT, model.INT]", "types"),
        ('X = re.compile("byte|char|short|int")', "types"),
        ('X = {"b": 1, "s": 2, "l": 4, "ll": 8}', "suffixes"),
        (r'X = {"\\n": 1, "\\t": 2, "\\r": 3, "\\a": 4}', "escapes"),
        (r'X = {"n": "\n", "t": "\t", "r": "\r", "a": b"\a"}', "controls"),
        ('X = "-Infinityf"', "special floats"),
        (r'X = re.compile(r"[^/\\]+")', "characters"),
        (r'X = re.compile(r"[A-Za-z0-9_.@+\-%\x80-\xff]")', "characters"),
    ],
)
def test_a_second_list_is_found(source: str, kind: str) -> None:
    assert {found for found, _ in second_lists(source)} == {kind}


def test_each_word_that_the_writer_prints_is_one_of_the_grammar() -> None:
    suffix = re.compile(grammar.terminals("cdl.lark")["INTEGER_SUFFIX"])
    assert all(suffix.fullmatch(printed) for printed in words.PRINTED_SUFFIXES.values() if printed)
    assert all(words.SUFFIXES[s.lower()] == kind for kind, s in words.PRINTED_SUFFIXES.items() if s)
    numbers = chain.from_iterable([(value, -value) for value in (float("nan"), float("inf"))])
    for value in numbers:
        for single in (False, True):
            kind, meant = words.SPECIAL_FLOATS[words.special_float(value, single) or ""]
            assert (kind == "float") == single
            assert str(meant) == str(value)
