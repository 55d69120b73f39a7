"""Select one in eight of the slow tests, and of the cases of functions with many: another eighth for each commit."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TypeVar

#: More than half of all tests are cases of the functions with this many and more.
MANY = 16
#: One case in so many runs.
TURNS = 8
#: The function, as it were, of all tests that are marked as slow.
SLOW = object()

Case = TypeVar("Case")

#: Whether all cases run. pytest's start sets it, before the tests are imported.
everything = True
#: Whether all examples of a property are tried: where a file is named, and at night, where they are new ones.
all_examples = True


def examples(number: int) -> int:
    """Return how many examples of a property are tried: a third, where all tests run and the examples are known."""
    return number if all_examples else -(-number // 3)


def rotation_of(folder: Path) -> int:
    """Count the commits of a clone: one commit selects the same cases on every day, eight in a row select all.

    Without Git, as in an unpacked archive, the rotation is 0.
    """
    try:
        count = subprocess.run(
            ["git", "rev-list", "--count", "HEAD"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    return int(count)


def select(cases: Sequence[tuple[Hashable, Case]], rotation: int) -> tuple[list[Case], list[Case]]:
    """Divide cases, each given with its function or `SLOW`, into those that run in a rotation and those that wait."""
    functions: dict[Hashable, list[int]] = defaultdict(list)
    for position, (function, _) in enumerate(cases):
        functions[function].append(position)
    waiting = {
        position
        for function, positions in functions.items()
        if len(positions) >= MANY or function is SLOW
        for turn, position in enumerate(positions)
        if (turn + rotation) % TURNS
    }
    chosen: list[Case] = []
    left: list[Case] = []
    for position, (_, case) in enumerate(cases):
        (left if position in waiting else chosen).append(case)
    return chosen, left
