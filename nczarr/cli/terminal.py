"""Print lines, tables and progress bars; unsafe and unsupported characters are escaped."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nczarr.display import visible
from nczarr.transfer import NoProgress, Progress

if TYPE_CHECKING:
    from tqdm import tqdm


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
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    form = "  ".join(f"{{:{'>' if i in right else '<'}{width}}}" for i, width in enumerate(widths))
    return [form.format(*row).rstrip() for row in cells]


class _Bar:
    """A progress bar of tqdm that disappears when a pager uses the terminal."""

    _bar: tqdm | None = None

    def start(self, total: int) -> None:
        from tqdm import tqdm

        size = shutil.get_terminal_size()  # for 0 columns, the report of some terminals, tqdm draws nothing
        units = {"unit": "B", "unit_scale": True, "unit_divisor": 1024}
        self._bar = tqdm(total=total, leave=False, ncols=min(100, size.columns), nrows=size.lines, **units)

    def advance(self, count: int, fqn: str) -> None:
        if getattr(sys.stdout, "paging", False):
            self.finish()
        if self._bar is not None:
            self._bar.set_postfix_str(visible(fqn), refresh=False)
            self._bar.update(count)

    def finish(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class _Lines:
    """Progress for programs: one JSON object in a line of standard error, at most one in a second."""

    _total = _done = 0
    _fqn: str | None = None
    _next = 0.0

    def start(self, total: int) -> None:
        self._total = total
        self._print()

    def advance(self, count: int, fqn: str) -> None:
        self._done += count
        self._fqn = fqn
        if time.monotonic() >= self._next:
            self._print()

    def finish(self) -> None:
        self._print()

    def _print(self) -> None:
        self._next = time.monotonic() + 1
        state = {"bytes": self._done, "total": self._total, "fqn": self._fqn}
        print(json.dumps({"progress": state}), file=sys.stderr, flush=True)


def progress_bar(kind: str = "auto") -> Progress:
    """Return the progress of a command.

    Parameters
    ----------
    kind : {'auto', 'none', 'json'}
        ``"auto"``: a bar, if standard error is a terminal and tqdm (extra ``cli``) is installed; ``"json"``: lines for
        programs.
    """
    if kind == "json":
        return _Lines()
    if kind == "none" or not sys.stderr.isatty() or importlib.util.find_spec("tqdm") is None:
        return NoProgress()
    return _Bar()


@contextmanager
def bars_aside() -> Iterator[None]:
    """Hide the progress bar while lines are printed on the same terminal, then redraw it below them."""
    if "tqdm" not in sys.modules:
        yield
        return
    from tqdm import tqdm

    with tqdm.external_write_mode(file=sys.stderr):
        yield
