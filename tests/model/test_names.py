"""FQNs: parse and format are inverses, and agree with grammar/names.lark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import UnexpectedInput

from nczarr import grammar
from nczarr.errors import ModelError
from nczarr.model import check_name, format_fqn, join_fqn, normalize_name, parse_fqn, split_fqn

GRAMMAR = Lark(grammar.read("names.lark"), start="fqn", parser="lalr")

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


@given(st.lists(names, min_size=1, max_size=4))
def test_join_and_split(components: list[str]) -> None:
    group = format_fqn(components[:-1])
    fqn = join_fqn(group, components[-1])
    assert fqn == format_fqn(components)
    assert split_fqn(fqn) == (group, components[-1])


@pytest.mark.parametrize("name", ["x", "a b", "_x", "__x", "1", "é", "μ", ".hid", "a\\b", "a.b-c@d", "🌊"])
def test_legal_names(name: str) -> None:
    assert check_name(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"), ("a/b", "'/'"), ("a ", "blank"), ("a\n", "control"), ("\x7f", "control"),
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
