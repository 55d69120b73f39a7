"""Check the links of the documentation to pages, headings and files of the project."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MARKDOWN = sorted(
    p for p in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")] if not {"_build", "generated"} & set(p.parts)
)
LINK = re.compile(r"\]\(<?([^)\s>]*)>?\)|src=\"([^\"]+)\"")


def headings(path: Path) -> set[str]:
    """The anchors that a page's headings get, as GitHub and MyST make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))
    for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"`|\*|\[([^\]]*)\]\([^)]*\)", r"\1", line).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_of_the_sources(page: Path) -> None:
    text = re.sub(r"^```(?!{).*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    for found in LINK.finditer(text):
        link = found[1] or found[2] or ""
        parts = urlsplit(link)
        if parts.scheme or not link:
            assert parts.scheme in ("", "http", "https", "mailto"), link
            continue
        target = page.parent / unquote(parts.path) if parts.path else page
        if "generated" not in target.parts:
            assert target.exists(), f"{page.name}: {link}"
            if parts.fragment and target.suffix == ".md":
                assert parts.fragment in headings(target), f"{page.name}: {link} has no such heading"


def test_broken_links_of_built_pages_are_found(tmp_path: Path) -> None:
    specification = importlib.util.spec_from_file_location("nczarr_docs_links", DOCS / "check_links.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    (tmp_path / "a.html").write_text(
        '<a href="b.html#x"></a><a href="c.html"></a><p id="y"><a href="#y">', "utf-8"
    )
    (tmp_path / "b.html").write_text('<p id="z"></p><a href="https://example.org/x"></a>', "utf-8")
    assert module.check_built_pages(tmp_path) == ["a.html: b.html#x: no such anchor", "a.html: c.html"]
