"""Compare the grammar page with the rules of the grammars and the classes of the model."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

from lark import ast_utils

from nczarr import model
from nczarr.cdl.syntax import tree

ROOT = Path(__file__).parents[2]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "nczarr_docs_grammar", ROOT / "docs" / "generate_grammar.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rules() -> set[str]:
    text = (ROOT / "grammar" / "cdl.lark").read_text("utf-8") + (ROOT / "grammar" / "names.lark").read_text(
        "utf-8"
    )
    return set(re.findall(r"^\??(\w+)(?:\.\d+)?:", text, re.MULTILINE))


def test_every_rule_is_on_the_page() -> None:
    page = generator().render()
    assert rules() <= set(re.findall(r"<b>(\w+)</b>", page))
    links = set(re.findall(r'href="#([^"]+)"', page))
    assert links <= set(re.findall(r'id="([^"]+)"', page))
    assert len(links) > 40


def test_every_rule_has_a_class() -> None:
    shown = {rule for rule in rules() if rule.islower() and not rule.startswith("_")}
    # Rules that only give one token another role make no node.
    roles = {
        rule for rule in shown if rule.endswith(("_name", "owner", "_reference")) or rule in ("fqn", "name")
    }
    nodes = [c for c in vars(tree).values() if isinstance(c, type) and issubclass(c, ast_utils.Ast)]
    assert shown - roles == {cls.__name__.lower() for cls in nodes if not cls.__name__.startswith("_")}


def test_the_table_names_what_there_is() -> None:
    text = (ROOT / "docs" / "reference" / "model-grammar.md").read_text("utf-8")
    known = rules() | set(vars(model)) | set(vars(tree))
    for line in text.split("## What is not grammar")[0].splitlines():
        cells = line.replace("\\|", "/").split("|")
        if len(cells) != 6 or "---" in line or "Lark rule" in line:
            continue
        for word in re.findall(r"`([A-Za-z_]+)(?:\.\w+)?`", "|".join(cells[2:5])):
            assert word in known | {"str", "int", "DimensionRef"}, (line, word)


def test_each_rule_of_the_specification_names_a_test_that_exists() -> None:
    text = (ROOT / "docs" / "reference" / "model-grammar.md").read_text("utf-8")
    first, _, second = text.partition("## Differences and tests of the rules")
    named = {
        word
        for line in first.splitlines()
        if line.startswith("| `")
        for word in re.findall(r"`(\w+)(?: :[^`]*)?`", line.replace("\\|", "/").split("|")[1])
    }
    rows = re.findall(
        r"^\| `(\w+)` \|.*\| `([\w/.]+)::(\w+)` \|$", second.partition("\n## ")[0], re.MULTILINE
    )
    assert named - {"fixed_atomic_type"} == {rule for rule, _, _ in rows}
    for _, file, test in rows:
        assert f"def {test}(" in (ROOT / "tests" / file).read_text("utf-8"), (file, test)


def test_the_rules_beside_those_of_the_specification_are_in_the_grammar() -> None:
    texts = [(ROOT / "grammar" / name).read_text("utf-8") for name in ("cdl.lark", "names.lark")]
    lines = {re.sub(r"^\??(\w+)(?:\.\d+)?:", r"\1:", line) for text in texts for line in text.splitlines()}
    page = (ROOT / "docs" / "reference" / "model-grammar.md").read_text("utf-8")
    table = page.partition("## The two grammars side by side")[2].partition("\n## ")[0].replace("\\|", "\0")
    cells = [line.split("|")[2].replace("\0", "|") for line in table.splitlines() if line.startswith("| `")]
    assert len(cells) > 10
    for rule in (found for cell in cells for found in re.findall("`([^`]+)`", cell)):
        assert rule in lines, rule


def test_no_line_of_a_grammar_is_long() -> None:
    for path in (ROOT / "grammar").glob("*.lark"):
        assert max(map(len, path.read_text("utf-8").splitlines())) < 120


def test_every_terminal_has_a_comment_or_names_its_texts() -> None:
    for path in (ROOT / "grammar").glob("*.lark"):
        for block in path.read_text("utf-8").split("\n\n"):
            patterns = re.findall(r"^(\w+)(?:\.\d+)?: .*/", block, re.MULTILINE)
            assert not patterns or block.startswith("//") or set(patterns) <= PLAIN, block


#: The names of these say what they are.
PLAIN = {"DIGITS", "HEX_DIGIT", "BLANK", "LINE_COMMENT", "BLOCK_COMMENT"}
