"""Read the table of rules and doors in docs/trust.md."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parents[2]


def rows() -> list[list[str]]:
    """Return the cells of each row: the rule, its function, its doors, and its tests."""
    text = (HERE / "docs" / "trust.md").read_text(encoding="utf-8")
    section = text[text.index("## One rule, every door") :]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    table = lines[1 : next((i for i, line in enumerate(lines) if i and line.count("|") != 5), len(lines))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def quoted(cell: str) -> list[str]:
    """Return what stands between the backquotes of a cell."""
    return re.findall("`([^`]+)`", cell)
