"""Compare the tree of a text with runs, each read as its values, with the tree of the grammar alone.

``NCZARR_TREES=20000 pytest tests/cdl/test_load_runs_equal.py`` reads many random texts, and as many mutants of them.
"""

from __future__ import annotations

import os
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import chain, product
from pathlib import Path

import numpy as np
import pytest
import random_texts
from lark import Token

from nczarr import grammar, model
from nczarr.cdl import loads, words
from nczarr.cdl.syntax.parser import parse, split_items, syntax_errors
from nczarr.cdl.syntax.runs import RUNS, split_statements
from nczarr.cdl.syntax.source import SourceText
from nczarr.errors import CDLError

sys.path.insert(0, str(Path(__file__).parent))
from fuzz import mutate, seeds

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
COUNT = int(os.environ.get("NCZARR_TREES", 300))
_CDL = grammar.terminals("cdl.lark")


def leaves(node: object, counts: dict[str, int]) -> Iterator[object]:
    """The classes and tokens of a tree in their order, with the values of each run in its place."""
    if isinstance(node, Token):
        if node.type not in RUNS:
            yield node.type, str(node), node.start_pos
            return
        counts[node.type] = counts.get(node.type, 0) + 1
        for part in split_statements(node) if node.type == "STATEMENTS" else split_items(node):
            yield from leaves(part, counts)
    elif isinstance(node, tuple):
        for part in node:
            yield from leaves(part, counts)
    else:
        assert is_dataclass(node)
        yield type(node).__name__
        for field in fields(node):
            yield from leaves(getattr(node, field.name), counts)
        yield "end"


def read(text: str, runs: tuple[str, ...], counts: dict[str, int]) -> list[object] | str:
    source = SourceText(text)
    try:
        with syntax_errors(source):
            return list(leaves(parse(source, runs), counts))
    except CDLError:
        return "no CDL"


def check(texts: Iterator[str]) -> dict[str, int]:
    counts = {"accepted": 0}
    for text in texts:
        raw = text.encode("utf-8", "surrogateescape").decode("latin-1")
        fast, slow = read(raw, tuple(RUNS), counts), read(raw, (), {})
        assert fast == slow, text
        counts["accepted"] += slow != "no CDL"
    return counts


@pytest.mark.slow
def test_the_corpus_has_the_same_trees_with_and_without_runs() -> None:
    files = [path for path in sorted(DATA.rglob("*.cdl")) if path.stat().st_size < 60_000]
    counts = check(path.read_bytes().decode("utf-8", "surrogateescape") for path in files)
    assert counts.keys() == {"accepted", *RUNS} - ({"RECORDS"} - counts.keys())
    assert counts["accepted"] > 100


@pytest.mark.slow
def test_random_texts_and_mutants_have_the_same_trees_with_and_without_runs() -> None:
    generator = random.Random(COUNT)
    mutable = seeds()

    def texts() -> Iterator[str]:
        for seed in range(COUNT):
            text = random_texts.make(seed)
            yield text
            yield mutate(text, generator)
            yield mutate(generator.choice(mutable), generator)
            yield lists(generator)

    counts = check(texts())
    assert counts.keys() == {"accepted", *RUNS}
    assert counts["accepted"] > COUNT


def lists(generator: random.Random) -> str:
    """A text with lists of values that runs take, and some that they do not take."""
    usual = {
        "numbers": ["1", "-2.5e3", "1.", "_", "3ULL", ".5f", "0"],
        "words": ["A", "a.b", "x_y", "é", "B@c", "int"],
        "strings": ['"a"', '"b, c"', r'"\"\\"', '""'],
        "records": ["{1, 2}", "{}", '{"}", {A, {1.5}}}', "{_, 0x1F}"],
    }
    odd = [
        "017",
        "0x1F",
        "5f",
        "1-2",
        "NaN",
        "'a'",
        "{1,}",
        "{1 2}",
        "{",
        "{,1}",
        "NIL",
        "/g/e.A",
        r"a\ b",
        "time(1)",
    ]
    kind = generator.choice(list(usual))
    chosen = [generator.choice(usual[kind]) for _ in range(generator.randint(2, 14))]
    if generator.random() < 0.6:
        chosen[generator.randrange(len(chosen))] = generator.choice([*odd, *chain(*usual.values())])
    values = generator.choice([", ", ",", " , ", ",\n  ", ", /**/ "]).join(chosen)
    return f"netcdf a {{ variables: int v; data: v = {generator.choice([values, '{' + values + '}'])} ; }}"


def test_values_that_are_not_read_are_cdl_too() -> None:
    head = "netcdf a { types: int(*) l; dimensions: x = 1; variables: l v(x); int w(x); data: "
    bad = ", ".join(["{1}"] * 9 + ["{1 2}"])
    for data in (f"v = {bad} ;", f"v = {bad} ; v = {{1}} ;", "w = 1, 2, 1-2 ;", "w = 3, 5f ; w = 1 ;"):
        with pytest.raises(CDLError, match=r"expected|not a number") as caught:
            loads(f"{head}{data} }}")
        place = (f"{head}{data}").find("2}" if "{" in data else "1-2" if "1-2" in data else "5f")
        assert caught.value.column == place + 1


def test_the_suffixes_are_those_of_the_grammar() -> None:
    possible = ["".join(letters) for n in range(1, 5) for letters in product("busl", repeat=n)]
    assert set(words.SUFFIXES) == {s for s in possible if re.fullmatch(_CDL["INTEGER_SUFFIX"], s)}


def test_the_primitive_types_are_those_of_the_grammar() -> None:
    assert set(words.ALIASES.values()) == set(model.PRIMITIVES)
    for word, meant in words.ALIASES.items():
        variable = loads(f"netcdf a {{ variables: {word} v; }}").variables[0]
        assert variable.type == model.PRIMITIVES[meant]


def test_each_special_float_of_the_grammar_has_its_value() -> None:
    for word, (kind, value) in words.SPECIAL_FLOATS.items():
        text = f"netcdf a {{ variables: {kind} v; v:a = {word}; data: v = {word}; }}"
        (attribute,) = loads(text).variables[0].attributes
        assert attribute.type.name == kind
        assert np.array_equal(attribute.values, [value], equal_nan=True)
