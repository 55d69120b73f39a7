"""Render the Lark grammars as a page: run this script, and read ``docs/reference/generated/grammar.md``.

Rules are shown as EBNF, with their comments; every rule that is used links to where it is defined.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
GRAMMARS = [("The language", ROOT / "grammar" / "cdl.lark"), ("Names", ROOT / "grammar" / "names.lark")]
OUTPUT = Path(__file__).parent / "reference" / "generated" / "grammar.md"

_DEFINITION = re.compile(r"^(\??_?[A-Za-z][A-Za-z0-9_]*)(?:\.(\d+))?:\s*(.*)$")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|/(?:[^/\\\n]|\\.)+/[a-z]*|[A-Za-z_][A-Za-z0-9_]*|\s+|.')
_HEADING = re.compile(r"^// ---- (.+?)\s*$")


def parse(text: str) -> list[tuple[str, list[str]]]:
    """Cut a grammar into blocks: ``("heading" | "comment" | "rule" | "import" | "ignore", lines)``."""
    blocks: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        heading = _HEADING.match(line)
        if heading:
            blocks.append(("heading", [heading[1]]))
        elif line.startswith("//"):
            comment = line.removeprefix("//").strip()
            if blocks and blocks[-1][0] == "comment" and comment:
                blocks[-1][1].append(comment)
            elif comment:
                blocks.append(("comment", [comment]))
        elif line.startswith("%import"):
            blocks.append(("import", [line]))
        elif line.startswith("%ignore"):
            blocks.append(("ignore", [line.removeprefix("%ignore").strip()]))
        elif _DEFINITION.match(line):
            blocks.append(("rule", [line]))
        elif line.strip() and blocks:
            blocks[-1][1].append(line.strip())
        elif blocks and blocks[-1][0] == "comment":
            blocks.append(("gap", []))
    return blocks


def names(blocks: list[tuple[str, list[str]]]) -> set[str]:
    """The rules and terminals that a grammar defines."""
    matches = (_DEFINITION.match(lines[0]) for kind, lines in blocks if kind == "rule")
    return {match[1].lstrip("?") for match in matches if match}


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def anchor(name: str) -> str:
    return "rule-" + name.strip("_").lower() + ("-token" if name.isupper() else "")


def render_rule(lines: list[str], known: set[str]) -> str:
    """One definition as HTML with links."""
    match = _DEFINITION.match(" ".join(lines))
    assert match is not None
    name = match[1].lstrip("?")
    parts = []
    for token in _TOKEN.findall(match[3]):
        if token in known:
            parts.append(f'<a href="#{anchor(token)}">{token}</a>')
        elif token.startswith("/") and token.endswith("/") and len(token) > 1:
            parts.append(f"<code>{escape(token)}</code>")
        else:
            parts.append(escape(token))
    expression = (
        "".join(parts).replace(" | ", "<br>\n&nbsp;&nbsp;| ") if match[3].count(" | ") > 4 else "".join(parts)
    )
    return f'<p id="{anchor(name)}"><b>{name}</b> ::= {expression}</p>'


def render() -> str:
    """The whole page."""
    page = [
        "# The grammar of CDL",
        "",
        "Generated from `grammar/*.lark` by `docs/generate_grammar.py`; do not edit.",
        "",
        "Words in capitals are terminals; what stands in double quotes is text as it is, and what stands between",
        "slashes is a regular expression. `X?` may be missing, `X*` may repeat or be missing, `X+` may repeat.",
        "",
    ]
    parsed = [(title, parse(path.read_text("utf-8"))) for title, path in GRAMMARS]
    known = set().union(*(names(blocks) for _, blocks in parsed))
    for title, blocks in parsed:
        page += [f"## {title}", ""]
        for kind, lines in blocks:
            if kind == "heading":
                page += [f"### {lines[0]}", ""]
            elif kind == "comment":
                page += [escape(" ".join(lines)).replace("*", r"\*").replace("_", r"\_"), ""]
            elif kind == "rule":
                page += [render_rule(lines, known), ""]
            elif kind == "ignore":
                page += [f"<p>Skipped: <code>{escape(lines[0])}</code></p>", ""]
    return "\n".join(page).rstrip() + "\n"


def main() -> None:
    """Write the page; Sphinx does it at every build."""
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(render(), "utf-8")


if __name__ == "__main__":
    main()
