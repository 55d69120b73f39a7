"""The prose of the package is plain technical English: a list of phrases that confuse readers is not used.

The subject of a sentence is a thing of the field (the array, the chunk cache, the writer), and the verb is active.
Packages and pages join the list as they are rewritten; none leaves it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[1]
#: Packages and modules below ``nczarr`` that are written in plain English.
PACKAGES = (
    "__init__",
    "cdl",
    "cli",
    "convert",
    "display",
    "errors",
    "compression",
    "formats",
    "lazy",
    "mapping",
    "model",
    "netcdf",
    "netcdf4",
    "session",
    "stores",
    "system",
    "targets",
    "transfer",
    "view",
    "xarray",
    "zarr",
)
#: Documents that are written in plain English.
PAGES = (
    "README.md",
    "docs/architecture.md",
    "docs/changelog.md",
    "docs/convert-an-archive.md",
    "docs/extending.md",
    "docs/gallery.md",
    "docs/howto",
    "docs/index.md",
    "docs/install.md",
    "docs/limits.md",
    "docs/netcdf4-compatibility.md",
    "docs/other-readers.md",
    "docs/performance.md",
    "docs/reference/cli.md",
    "docs/reference/api.md",
    "docs/reference/model-grammar.md",
    "docs/spec",
    "docs/trust.md",
    "docs/tutorial.md",
    "docs/view.md",
    "docs/where-to-look.md",
    "docs/why.md",
)

#: Sentences have a thing of the field as their subject.
OPENINGS = re.compile(r"(?:^|(?<=[.;:?!]\s))(What|Who|Whoever|Nobody|Somebody|Whatever)\s")
PHRASES = re.compile(
    r"\b(whoever|nobody|somebody|by itself|it is told|goes by|go by|mended|on its way|of it is known|as it goes"
    r"|what is (?:there|left|asked|wanted)|is no(?: \w+)? (?:number|text|value|name|place|type)"
    r"|puts? it right|makes? good|to and fro|takes? part|pass(?:es|ed)? over|(?:was|were|is|are) looked at"
    r"|all the same|letter for letter|mends?|is told of|made anew|handed back|lets? go of|in (?:its|their) stead"
    r"|takes? along|is no news|as if it were not|no harm|all else|half-made)\b",
    re.IGNORECASE,
)


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings and comments with their first lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text is not None:
                yield node.body[0].lineno, text
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: ")


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs of a Markdown document, without code, with their first lines."""
    text = re.sub(
        r"^(`{3,})(?!{).*?^\1",
        lambda block: "\n" * block[0].count("\n"),
        text,
        flags=re.DOTALL | re.MULTILINE,
    )
    line = 1
    for part in re.split(r"(\n\s*\n)", text):
        if part.strip():
            yield line, re.sub(r"`[^`]*`", "`…`", part)
        line += part.count("\n")


def odd_phrases(text: str) -> list[str]:
    """Return the phrases of a text that are not plain English."""
    folded = re.sub(r"\s+", " ", text)
    return [match[0] for pattern in (OPENINGS, PHRASES) for match in pattern.finditer(folded)]


def modules(package: str) -> list[Path]:
    place = HOUSE / "nczarr" / package
    return sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


@pytest.mark.parametrize("package", PACKAGES)
def test_prose_is_plain(package: str) -> None:
    found = [
        f"{path.relative_to(HOUSE)}:{line}: {phrase}"
        for path in modules(package)
        for line, text in prose(path.read_text(encoding="utf-8"))
        for phrase in odd_phrases(text)
    ]
    assert modules(package), f"there is no package {package}"
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_plain(page: str) -> None:
    place = HOUSE / page
    documents = sorted(place.glob("*.md")) if place.is_dir() else [place]
    found = [
        f"{path.relative_to(HOUSE)}:{line}: {phrase}"
        for path in documents
        for line, text in paragraphs(path.read_text(encoding="utf-8"))
        for phrase in odd_phrases(text)
    ]
    assert documents, f"there are no documents in {page}"
    assert not found, "\n".join(found)


def test_code_is_not_prose() -> None:
    text = "A page.\n\n```python\n# Who asks?\n```\n\nWhoever reads `who` is nobody."
    assert [line for line, _ in paragraphs(text)] == [1, 7]
    assert [phrase for _, text in paragraphs(text) for phrase in odd_phrases(text)] == [
        "Whoever ",
        "Whoever",
        "nobody",
    ]


def test_odd_phrases_are_recognised() -> None:
    assert odd_phrases("Whoever has such a lock says here how it gets a new one.")
    assert odd_phrases("The text is kept. What is returned last tells if it is later.")
    assert odd_phrases("The fill of an array that has gone is no value.")
    assert not odd_phrases("Return what the caller asked for: the chunk cache keeps its reference.")
