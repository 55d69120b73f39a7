"""Draw a progress bar on a terminal; nothing in a pipe."""

from __future__ import annotations

import shutil
import sys
from typing import Any

from nczarr.convert import Progress
from nczarr.convert.progress import NoProgress


class _Bar:
    """Draws with tqdm."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm
        self._bar: Any = None

    def start(self, total: int) -> None:
        # A terminal that does not know its size says 0, and tqdm would draw nothing.
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
        self._bar.set_postfix_str(fqn, refresh=False)
        self._bar.update(count)

    def finish(self) -> None:
        if self._bar is not None:
            self._bar.close()


def progress_bar(quiet: bool = False) -> Progress:
    """A bar if standard error is a terminal and tqdm (extra ``cli``) is installed."""
    if quiet or not sys.stderr.isatty():
        return NoProgress()
    try:
        from tqdm import tqdm
    except ImportError:
        return NoProgress()
    return _Bar(tqdm)
