"""List the lines and branches of the package that no test runs, each with the reason for which it stays.

``coverage json -o coverage.json`` writes what ``python tests/helpers/never_run.py coverage.json`` reads. The reasons
are in ``tests/data/never_run.toml``: a reason holds for the lines that its patterns match, and for the blocks that
such a line begins.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tests" / "data" / "never_run.toml"


@dataclass(frozen=True)
class Reason:
    """Why lines stay that no test runs: those of a file that a pattern matches, with the blocks that they begin."""

    why: str
    patterns: tuple[str, ...]
    #: The end of the file's path; empty for all files.
    file: str = ""

    def holds(self, file: str, lines: Iterable[str]) -> bool:
        """Tell whether a line, or one that begins a block around it, is of this reason."""
        return file.endswith(self.file) and any(
            re.search(pattern, line) for line in lines for pattern in self.patterns
        )


@dataclass(frozen=True)
class Place:
    """A line that is never run, or a line from which one way is never taken."""

    file: str
    line: int
    text: str
    why: str = ""


def reasons(path: Path = LIST) -> list[Reason]:
    """Read the list."""
    rows = tomllib.loads(path.read_text("utf-8"))["stays"]
    return [Reason(row["why"], tuple(row["lines"]), row.get("file", "")) for row in rows]


def blocks(source: str) -> dict[int, list[int]]:
    """Return, for each line, the lines that begin the blocks around it, and its own statement."""
    found: dict[int, list[int]] = {}

    def visit(nodes: Sequence[ast.AST], around: list[int]) -> None:
        for node in nodes:
            first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
            inner = (
                [*around, first]
                if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case)
                else around
            )
            if inner is not around:
                for line in range(first, last + 1):
                    found[line] = inner
            visit(list(ast.iter_child_nodes(node)), inner)

    visit(ast.parse(source).body, [])
    return found


def never_run(
    file: str, source: str, missing: Iterable[int], ways: Iterable[Sequence[int]], kept: list[Reason]
) -> Iterator[Place]:
    """Yield the places of a file: its lines that never run, and the lines from which a way is never taken."""
    texts = [line.strip() for line in source.splitlines()]
    around = blocks(source)
    gone = set(missing)
    for line in sorted(gone | {start for start, end in ways if end not in gone}):
        begins = [texts[number - 1] for number in {*around.get(line, []), line}]
        why = next((reason.why for reason in kept if reason.holds(file, begins)), "")
        yield Place(file, line, texts[line - 1], why)


def table(places: Iterable[Place]) -> str:
    """Make a table of the runs of lines without a reason, and of the number of lines for each reason."""
    places = list(places)
    open_, lines = [place for place in places if not place.why], ["| lines | stay because |", "|---|---|"]
    for why, some in groupby(sorted(place.why for place in places if place.why)):
        lines.append(f"| {len(list(some))} | {why} |")
    lines += ["", f"{len(open_)} lines have no reason yet:", ""]
    for file, group in groupby(open_, key=lambda place: place.file):
        rows = list(group)
        lines_of = {row.line for row in rows}
        starts = [row for row in rows if row.line - 1 not in lines_of]
        lines += [
            f"- `{file}`, {len(rows)} lines: " + "; ".join(f"{row.line} `{row.text[:60]}`" for row in starts)
        ]
    return "\n".join(lines)


def main(path: str) -> None:
    """Print the table of a report of coverage in JSON."""
    report, kept, places = json.loads(Path(path).read_text("utf-8")), reasons(), []
    for file, found in sorted(report["files"].items()):
        source = Path(file).read_text("utf-8")
        places += never_run(file, source, found["missing_lines"], found["missing_branches"], kept)
    print(table(places))


if __name__ == "__main__":
    main(sys.argv[1])
