"""Check the links inside built documentation: ``python docs/check_links.py FOLDER``. Other sites are not asked."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src"):
                self.links.append(value)


def check_built_pages(folder: Path) -> list[str]:
    """Return the links inside built documentation that lead nowhere."""
    pages = {
        p.resolve(): _Page(p.read_text("utf-8")) for p in folder.rglob("*.html") if "_static" not in p.parts
    }
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                broken.append(f"{path.relative_to(folder.resolve())}: {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                broken.append(f"{path.relative_to(folder.resolve())}: {link}: no such anchor")
    return broken


if __name__ == "__main__":
    problems = check_built_pages(Path(sys.argv[1]))
    print(*problems, sep="\n")
    sys.exit(bool(problems))
