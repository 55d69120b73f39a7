"""Print text with unsafe and unsupported characters escaped."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from nczarr.display import visible


def say(*lines: object) -> None:
    """Print lines on standard output; escape characters that its encoding lacks."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    for line in lines:
        text = visible(str(line), layout=True)
        print(text.encode(encoding, "backslashreplace").decode(encoding))


def can_draw() -> bool:
    """Return True if the encoding of standard output has box-drawing characters."""
    try:
        "└├─│×".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return the lines of a table; the columns with the numbers in `right` are right-aligned.

    Examples
    --------
    >>> print(*table(["name", "n"], [["a", "10"], ["long", "9"]], right=[1]), sep="\\n")
    name   n
    a     10
    long   9
    """
    cells = [[visible(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
