"""Show standard output on a terminal, with escaped control characters, colours and the pager."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from nczarr.cli.terminal.colours import Painter, painter, wants_colour
from nczarr.cli.terminal.pager import Pager, start_pager
from nczarr.cli.terminal.progress import bars_aside
from nczarr.display import visible

_PART = 1 << 16  # maximum number of characters to colour at once


class Screen(io.TextIOBase):
    """A stream for output on a terminal; shows each line as soon as it is complete."""

    def __init__(self, stream: TextIO, kind: str, *, colour: bool, page: bool) -> None:
        self._stream = stream
        self._kind = kind
        self._colour = colour
        self._page = page
        self._pager: Pager | None = None
        self._paint: Painter = stream.write
        self._started = False
        self._rest = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding or "utf-8"

    @property
    def paging(self) -> bool:
        """True if a pager is running."""
        return self._pager is not None

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._rest += text
        end = self._rest.rfind("\n") + 1
        if end:
            whole, self._rest = self._rest[:end], self._rest[end:]
            self._show(whole)
        return len(text)

    def flush(self) -> None:
        stream = self._pager.text if self._pager else self._stream
        if self._started and not stream.closed:  # the finaliser of io.TextIOBase flushes again
            stream.flush()

    def finish(self) -> None:
        """Show the incomplete last line, and wait until the pager ends."""
        try:
            if self._rest:
                rest, self._rest = self._rest, ""
                self._show(rest)
            self.flush()
        finally:
            if self._pager is not None:
                self._pager.close()

    def _show(self, text: str) -> None:
        if not self._started:
            self._start()
        with bars_aside():
            part = ""
            for line in text.splitlines(keepends=True):
                part += visible(line, layout=True)
                if len(part) > _PART:
                    self._paint(self._encodable(part))
                    part = ""
            self._paint(self._encodable(part))

    def _start(self) -> None:
        self._started = True
        if self._page:
            self._pager = start_pager(self.encoding)
        stream = self._pager.text if self._pager else self._stream
        self._paint = (self._colour and painter(self._kind, stream)) or stream.write

    def _encodable(self, text: str) -> str:
        return text.encode(self.encoding, "backslashreplace").decode(self.encoding)


@contextmanager
def on_screen(kind: str, colour: str = "auto", *, pager: bool = True) -> Iterator[None]:
    """Show standard output, text of the given kind, with colours and the pager as the user chose."""
    before, terminal = sys.stdout, sys.stdout.isatty()
    screen = Screen(before, kind, colour=wants_colour(colour, terminal, os.environ), page=terminal and pager)
    sys.stdout = screen
    try:
        yield
        screen.finish()
    except BrokenPipeError:
        if not screen.paging:
            raise
        # The user has quit the pager before the end of the output, which is not an error.
        _close(screen)
    except BaseException:
        _close(screen)
        raise
    finally:
        sys.stdout = before


def _close(screen: Screen) -> None:
    with suppress(BrokenPipeError):
        screen.finish()
