"""FQNs: parse and format are inverses, and agree with grammar/names.lark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import UnexpectedInput

from nczarr import grammar
from nczarr.cdl.read.scope import path_names
from nczarr.cdl.write.values import escape_path
from nczarr.errors import ModelError
from nczarr.model import check_name, format_fqn, join_fqn, normalize_name, parse_fqn, split_fqn
from nczarr.model.typed import units_of

GRAMMAR = Lark(grammar.read("names.lark"), start="fqn", parser="lalr")
TYPED = Lark(f"typed: TYPED_UNIT*\n{grammar.read('names.lark')}", start="typed", parser="lalr")

names = st.text(
    st.characters(exclude_characters="\x7f", exclude_categories=("Cs",), min_codepoint=0x20), min_size=1
)


@given(st.lists(names, max_size=4))
def test_parse_is_the_inverse_of_format(components: list[str]) -> None:
    assert parse_fqn(format_fqn(components)) == tuple(components)


@given(st.lists(names, max_size=4))
def test_the_grammar_accepts_what_format_writes(components: list[str]) -> None:
    GRAMMAR.parse(format_fqn(components))


@given(st.text(r"/\ ab", max_size=8))
def test_parse_and_the_grammar_agree(text: str) -> None:
    try:
        GRAMMAR.parse(text)
        legal = True
    except UnexpectedInput:
        legal = False
    if legal:
        assert format_fqn(parse_fqn(text)) == text
    else:
        with pytest.raises(ModelError):
            parse_fqn(text)


def test_the_specification_has_the_same_form_of_an_fqn() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spec" / "nczarr-v3.md").read_text("utf-8")
    rules = dict(
        re.findall(r"^(\w+) += (.+)$", page.partition("fqn       =")[2].partition("```")[0], re.MULTILINE)
    )
    escaped = set(re.findall(r'"(.)"', rules["escape"])[1:])
    excluded = set(re.findall(r'"(.)"', rules["plain"]))
    for character in map(chr, range(0x250)):
        is_control = character < " " or character == "\x7f"
        for component, expected in (
            (character, character not in excluded and not is_control),
            ("\\" + character, character in escaped),
        ):
            try:
                legal = parse_fqn(f"/{component}") != ()
            except ModelError:
                legal = False
            assert legal == expected, component


@given(st.text(r"/\ a,*[é", max_size=8))
def test_the_parts_of_a_typed_text_are_those_of_the_grammar(text: str) -> None:
    assert "".join(units_of(text)) == text
    assert [str(token) for token in TYPED.parse(text).children] == units_of(text)


@given(st.lists(names, min_size=1, max_size=4))
def test_join_and_split(components: list[str]) -> None:
    group = format_fqn(components[:-1])
    fqn = join_fqn(group, components[-1])
    assert fqn == format_fqn(components)
    assert split_fqn(fqn) == (group, components[-1])


@pytest.mark.parametrize(
    "name", ["x", "a b", "_x", "__x", "1", "é", "μ", ".hid", "a\\b", "a/b", "/", "a.b-c@d", "🌊"]
)
def test_legal_names(name: str) -> None:
    assert check_name(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"), ("a ", "blank"), ("a\n", "control"), ("\x7f", "control"),
        ("\ud800", "surrogate"),
    ],
)  # fmt: skip
def test_illegal_names(name: str, reason: str) -> None:
    assert reason in (check_name(name) or "")


@pytest.mark.parametrize("text", ["", "x", "g/x", "//", "/g/", "/a b", "/a\\", "/a\\b"])
def test_bad_fqns_say_where(text: str) -> None:
    with pytest.raises(ModelError, match="fully qualified name"):
        parse_fqn(text)


def test_names_are_nfc() -> None:
    assert normalize_name("e\u0301") == "\u00e9"


def lark_terminals(name: str) -> dict[str, re.Pattern[str]]:
    """The terminals as Lark itself composes them."""
    text = grammar.read(name)
    kept = [found[1] for found in re.finditer(r"^([A-Z][A-Z_]*): ", text, re.MULTILINE)]
    built = Lark(f"start: {' | '.join(kept)}\n{text}", start="start", parser="lalr", lexer="basic")
    return {terminal.name: re.compile(terminal.pattern.to_regexp()) for terminal in built.terminals}


@given(st.text("/\\ aé0.%_@~,\n", max_size=6))
def test_terminals_are_composed_as_lark_composes_them(text: str) -> None:
    for terminal, pattern in LARK_TERMINALS.items():
        ours = re.fullmatch(grammar.terminals("names.lark")[terminal], text)
        assert (ours is None) == (pattern.fullmatch(text) is None), terminal


LARK_TERMINALS = lark_terminals("names.lark")


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=6))
def test_the_terminal_of_a_name_is_the_rule_of_names(text: str) -> None:
    legal = re.fullmatch(grammar.terminals("names.lark")["NAME"], text) is not None
    assert legal == (check_name(text) is None)


@given(st.lists(names, min_size=1, max_size=3))
def test_a_path_of_cdl_has_the_names_of_its_fqn(components: list[str]) -> None:
    path = escape_path(components)
    raw = path.encode().decode("latin-1")
    assert re.fullmatch(grammar.terminals("names.lark")["PATH"], raw), path
    assert path_names(raw) == [normalize_name(name) for name in components]
