"""Draw a progress bar if standard error is a terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nczarr.display import visible
from nczarr.transfer import NoProgress, Progress


class _Bar:
    """A progress bar of tqdm that disappears when a pager uses the terminal."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm
        self._bar: Any = None

    def start(self, total: int) -> None:
        # A terminal of unknown size reports 0 columns, for which tqdm draws nothing.
        size = shutil.get_terminal_size()
        self._bar = self._tqdm(
            total=total,
            unit="B",
            unit_scale=True,
            unit_divisor=1024,
            leave=False,
            ncols=min(100, size.columns),
            nrows=size.lines,
        )

    def advance(self, count: int, fqn: str) -> None:
        if self._bar is None:
            return
        if getattr(sys.stdout, "paging", False):
            self.finish()
            return
        self._bar.set_postfix_str(visible(fqn), refresh=False)
        self._bar.update(count)

    def finish(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def progress_bar(quiet: bool = False) -> Progress:
    """Return a progress bar if standard error is a terminal and tqdm (extra ``cli``) is installed."""
    if quiet or not sys.stderr.isatty():
        return NoProgress()
    try:
        from tqdm import tqdm
    except ImportError:
        return NoProgress()
    return _Bar(tqdm)


@contextmanager
def bars_aside() -> Iterator[None]:
    """Hide the progress bar while lines are printed on the same terminal, then redraw it below them."""
    if "tqdm" not in sys.modules:
        yield
        return
    from tqdm import tqdm

    with tqdm.external_write_mode(file=sys.stderr):
        yield
