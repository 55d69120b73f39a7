"""Print text for people, whatever the terminal can show and whatever a dataset has put into its names."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

# Control characters, and marks that turn the direction of what follows; line ends are ours.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Return text with escapes in the place of what a terminal would act on.

    Examples
    --------
    >>> visible("a\x1b[31mb\u202e")
    'a\\x1b[31mb\\u202e'
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def say(*lines: object) -> None:
    """Print lines on standard output; characters that its encoding lacks become escapes."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    for line in lines:
        text = visible(str(line))
        print(text.encode(encoding, "backslashreplace").decode(encoding))


def can_draw() -> bool:
    """True if standard output can show the lines of a tree."""
    try:
        "└├─│×".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return the lines of a table; the columns `right` are aligned to their right.

    Examples
    --------
    >>> print(*table(["name", "n"], [["a", "10"], ["long", "9"]], right=[1]), sep="\\n")
    name   n
    a     10
    long   9
    """
    cells = [[visible(cell).replace("\n", " ") for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
