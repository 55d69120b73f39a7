"""Each reason for which untested lines stay names lines that are there, and holds for the blocks that they begin."""

from __future__ import annotations

import re

import import_graph
import never_run
import pytest
from never_run import Reason

SOURCE = """\
def f(a):
    if a == "nt":
        a = a + 1
        return a
    try:
        b = g(
            a,
        )
    except ImportError:
        b = 2
    if b:
        a = 3
    return a
"""


@pytest.mark.parametrize("reason", never_run.reasons(), ids=lambda reason: f"{reason.file}: {reason.why}")
def test_each_pattern_of_the_list_matches_a_line(reason: Reason) -> None:
    assert reason.why
    sources = [
        path.read_text("utf-8")
        for path in import_graph.modules().values()
        if path.as_posix().endswith(reason.file)
    ]
    assert sources, "no such module"
    for pattern in reason.patterns:
        lines = (line.strip() for source in sources for line in source.splitlines())
        assert any(re.search(pattern, line) for line in lines), pattern


def test_a_reason_holds_for_the_block_that_its_line_begins() -> None:
    kept = [Reason("Windows", ('== "nt"',)), Reason("an optional package", ("^except ImportError",), "x.py")]
    found = list(never_run.never_run("nczarr/x.py", SOURCE, [3, 4, 10, 12], [(11, 13)], kept))
    assert [(place.line, place.why) for place in found] == [
        (3, "Windows"), (4, "Windows"), (10, "an optional package"), (11, ""), (12, "")
    ]  # fmt: skip
    others = list(never_run.never_run("nczarr/y.py", SOURCE, [10], [], kept))
    assert [place.why for place in others] == [""]


def test_a_way_to_a_line_that_never_runs_is_told_once() -> None:
    found = list(never_run.never_run("x.py", SOURCE, [12], [(11, 12)], []))
    assert [place.line for place in found] == [12]


def test_the_table_counts_the_reasons_and_shows_the_rest() -> None:
    kept = [Reason("Windows", ('== "nt"',))]
    found = list(never_run.never_run("x.py", SOURCE, [3, 4, 9, 10, 12], [], kept))
    table = never_run.table(found)
    assert "| 2 | Windows |" in table
    assert "3 lines have no reason yet" in table
    assert "`x.py`, 3 lines: 9 `except ImportError:`; 12 `a = 3`" in table
