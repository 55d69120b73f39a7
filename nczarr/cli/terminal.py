"""Print lines, tables and progress bars; show output on a terminal with colours and the pager.

Unsafe and unsupported characters are escaped. The libraries for colours are imported only if the output is a terminal;
pipes get plain text.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, TextIO

from nczarr.display import visible
from nczarr.transfer import NoProgress, Progress

if TYPE_CHECKING:
    import subprocess

    from tqdm import tqdm

_PART = 1 << 16  # maximum number of characters to colour at once
# Styles use the terminal's sixteen standard colours, which suit dark and light themes; asterisks mean bold.
_STYLES = {
    "": "",
    "Keyword": "**",
    "Keyword.Type": "cyan",
    "Keyword.Constant": "magenta",
    "Name.Namespace": "*blue*",
    "Name.Variable": "green",
    "Name.Attribute": "yellow",
    "Name.Tag": "blue",
    "Literal.String": "red",
    "Literal.Number": "",
    "Literal.Date": "faint",
    "Comment": "faint",
    "Generic.Heading": "**",
    "Generic.Deleted": "red",
    "Generic.Inserted": "green",
    "Generic.Error": "*red*",
}


def say(*lines: object) -> None:
    """Print lines on standard output; escape characters that its encoding lacks."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    for line in lines:
        text = visible(str(line), layout=True)
        print(text.encode(encoding, "backslashreplace").decode(encoding))


def can_draw() -> bool:
    """Return True if the encoding of standard output has box-drawing characters."""
    # Output in the locale C has ASCII only.
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


def folded_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = (), columns: int | None = None
) -> list[str]:
    """Return the lines of a table in a number of columns, usually those of the terminal: 80 where there is none.

    The cells that do not fit continue below their row. A cell is shortened only if it is longer than a line.

    Examples
    --------
    >>> print(*folded_table(["name", "n", "values"], [["a", "10", "1, 2, 3"]], right=[1], columns=12), sep="\\n")
    name   n
      values
    a     10
      1, 2, 3
    """
    columns = columns or shutil.get_terminal_size().columns or 80
    most = columns - 2
    rows = [
        [c if i == 0 or len(c) <= most else f"{c[: most - 1]}…" for i, c in enumerate(row)] for row in rows
    ]
    widths = [max(len(visible(cell)) for cell in column) for column in zip(head, *rows, strict=True)]
    parts: list[list[int]] = [[]]
    used = 0
    for i, width in enumerate(widths):
        if parts[-1] and used + 2 + width > columns:
            parts.append([])
            used = 0
        parts[-1].append(i)
        used += 2 + width
    tables = []
    for part in parts:
        cells = [[row[i] for i in part] for row in (head, *rows)]
        tables.append(table(cells[0], cells[1:], [k for k, i in enumerate(part) if i in right]))
    lines = []
    for first, *others in zip(*tables, strict=True):
        lines += [first, *(f"  {line}" for line in others if line)]
    return lines


def described(name: str, text: str) -> list[str]:
    """Return the lines of a name and its text, which continues on lines of its own if the terminal is too narrow.

    Examples
    --------
    >>> described("layout", "nczarr-v3")
    ['layout:      nczarr-v3']
    """
    size = max(shutil.get_terminal_size().columns - 13, 40)
    first, *others = textwrap.wrap(text, size, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"{name + ':':12} {first}", *(f"{'':12} {line}" for line in others)]


class _Bar:
    """A progress bar of tqdm that disappears when a pager uses the terminal."""

    _bar: tqdm | None = None

    def start(self, total: int) -> None:
        from tqdm import tqdm

        size = shutil.get_terminal_size()  # for 0 columns, the report of some terminals, tqdm draws nothing
        units = {"unit": "B", "unit_scale": True, "unit_divisor": 1024}
        self._bar = tqdm(total=total, leave=False, ncols=min(100, size.columns), nrows=size.lines, **units)

    def advance(self, count: int, fqn: str) -> None:
        # The bar would draw over the pager's screen.
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
        # A line for each block would be millions of lines.
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
    # A log file would get each state of the bar.
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


# --- colours and pager


def wants_colour(choice: str, is_terminal: bool, environment: Mapping[str, str]) -> bool:
    """Return True if the output uses colours, from the user's choice, the terminal and environment variables.

    Examples
    --------
    >>> wants_colour("auto", True, {"TERM": "xterm"}), wants_colour("auto", True, {"NO_COLOR": "1"})
    (True, False)
    >>> wants_colour("auto", False, {}), wants_colour("always", False, {"NO_COLOR": "1"})
    (False, True)
    """
    if choice != "auto":
        return choice == "always"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return is_terminal and environment.get("TERM") != "dumb"


def painter(kind: str, stream: IO[str]) -> Callable[[str], object]:
    """Return a function that writes text of a kind (``cdl``, ``tree``, ``json`` …) to a stream in colours.

    Without Pygments (extra ``cli``), there are no colours.
    """
    # Colours come with an extra.
    if importlib.util.find_spec("pygments") is None:
        return stream.write
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.token import string_to_tokentype

    from nczarr.cli.lexers import LEXERS

    lexer = LEXERS[kind]() if kind in LEXERS else get_lexer_by_name(kind)
    scheme = {string_to_tokentype(name): (style, style) for name, style in _STYLES.items()}
    formatter = TerminalFormatter(colorscheme=scheme)

    def paint(text: str) -> None:
        # Unlike get_tokens, this method changes neither tabs nor blank lines.
        tokens = ((token, piece) for _, token, piece in lexer.get_tokens_unprocessed(text))
        coloured = io.StringIO()
        formatter.format(tokens, coloured)
        stream.write(coloured.getvalue())

    return paint


def pager_command(environment: Mapping[str, str]) -> list[str]:
    """Return the command of the pager as a list: ``NCZARR_PAGER``, ``PAGER``, or less; empty for no pager.

    Examples
    --------
    >>> pager_command({"PAGER": "less -S"}), pager_command({"PAGER": "more", "NCZARR_PAGER": ""})
    (['less', '-S'], [])
    """
    for name in ("NCZARR_PAGER", "PAGER"):
        if (text := environment.get(name)) is not None:
            try:
                words = shlex.split(text)
            except ValueError:
                words = []
            return [] if words == ["cat"] else words
    found = shutil.which("less")
    return [found] if found else []


class Screen(io.TextIOBase):
    """A stream for output on a terminal; shows each line as soon as it is complete."""

    def __init__(self, stream: TextIO, kind: str, *, colour: bool, page: bool) -> None:
        self._terminal = stream
        self._stream: IO[str] = stream
        self._kind = kind
        self._colour = colour
        self._page = page
        self._pager: subprocess.Popen[str] | None = None
        self._paint: Callable[[str], object] | None = None
        self._rest = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._terminal.encoding or "utf-8"

    @property
    def paging(self) -> bool:
        """True if a pager is running."""
        return self._pager is not None

    def isatty(self) -> bool:
        return self._terminal.isatty()

    def fileno(self) -> int:
        return self._terminal.fileno()

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
        if (
            self._paint is not None and not self._stream.closed
        ):  # the finaliser of io.TextIOBase flushes again
            self._stream.flush()

    def finish(self) -> None:
        """Show the incomplete last line, and wait until the user quits the pager."""
        try:
            if self._rest:
                rest, self._rest = self._rest, ""
                self._show(rest)
            self.flush()
        finally:
            if self._pager is not None:
                with suppress(OSError):  # the user has quit the pager
                    self._stream.close()
                while self._pager.returncode is None:
                    with suppress(KeyboardInterrupt):  # Ctrl-C is a command of the pager
                        self._pager.wait()

    def _show(self, text: str) -> None:
        if self._paint is None:
            self._paint = self._start()
        with bars_aside():
            part = ""
            for line in text.splitlines(keepends=True):
                part += visible(line, layout=True)
                if len(part) > _PART:
                    self._paint(self._encodable(part))
                    part = ""
            self._paint(self._encodable(part))

    def _start(self) -> Callable[[str], object]:
        """Start the user's pager, if any, and return the function that writes text."""
        command = pager_command(os.environ) if self._page else []
        # Like git: less exits if the text fits on one screen (F), shows colours (R), and keeps the screen (X).
        environment = {"LESS": "FRX", **os.environ}
        if command:
            import subprocess

            with suppress(OSError):  # there is no such program
                self._pager = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    env=environment,
                    encoding=self.encoding,
                    errors="backslashreplace",
                )
        if self._pager is not None and self._pager.stdin is not None:
            self._stream = self._pager.stdin
        return painter(self._kind, self._stream) if self._colour else self._stream.write

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
    except BaseException as error:
        with suppress(BrokenPipeError):
            screen.finish()
        # The user may quit the pager before the end of the output.
        if not (isinstance(error, BrokenPipeError) and screen.paging):
            raise
    finally:
        sys.stdout = before
