"""Parse the command line, run the command, and turn errors into one line and an exit status.

Exit statuses: 0 done; 1 an error, but for ``diff`` and ``check`` a finding; 2 wrong usage, and an error of these two;
130 interrupted; 143 terminated.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from nczarr.cli.arguments import build_parser
from nczarr.errors import NCZarrError

#: Commands whose exit status 1 is an answer, as that of ``diff`` and ``cmp`` is: what keeps them from answering is 2.
_COMPARING = ("diff", "check")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Without the program's name; default: ``sys.argv``.

    Returns
    -------
    int
        The exit status.

    Examples
    --------
    >>> main(["dump", "no-such-file.zarr"])
    1
    """
    _open_closed_streams()
    if arguments is None:
        _end_quickly()
        os.environ.setdefault("ICECHUNK_LOG", "error")  # it warns of each repository on a local disk
    words = sys.argv[1:] if arguments is None else list(arguments)
    command = next((word for word in words if not word.startswith("-")), "")
    trouble = 2 if command in _COMPARING else 1
    try:
        parser = build_parser(command)
        if not words:
            parser.print_help(sys.stderr)
            return 2
        options = parser.parse_args(words)
        status = 0
        with (
            _terminable(),
            _short_warnings(),
            _isolated(getattr(options, "isolated", False)),
            _screen(options),
            _errors_as_json() if getattr(options, "json", False) else nullcontext(),
        ):
            status = int(options.run(options) or 0)
            sys.stdout.flush()
        return status
    except NCZarrError as error:
        for line in [error, *_notes(error)]:
            _complain(str(line), layout=True)
        return trouble
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does; a flush at exit must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        _complain(str(error))
        return trouble
    except KeyboardInterrupt as error:
        print(f"nczarr: interrupted; {_left(error)}", file=sys.stderr)
        return 130
    except _Terminated as error:
        print(f"nczarr: terminated; {_left(error)}", file=sys.stderr)
        return 143


def _end_quickly() -> None:
    """Leave the memory of this process to the system, which takes it back at once.

    Python would look through all that was imported for circles, several times; every file is closed long before.
    """
    atexit.register(gc.freeze)


def _complain(text: str, *, layout: bool = False) -> None:
    from nczarr.display import visible  # numpy comes with it, which --help can do without

    print(visible(f"nczarr: {text}", layout=layout), file=sys.stderr)


@contextmanager
def _errors_as_json() -> Iterator[None]:
    """Print an error as JSON, too: a program that reads the output finds an object that says what is wrong."""
    try:
        yield
    except BrokenPipeError:  # nobody reads it
        raise
    except (NCZarrError, OSError, KeyboardInterrupt, _Terminated) as error:
        import json

        parts = ("message", "path", "fqn", "line", "column", "hint")
        said = {part: getattr(error, part) for part in parts if hasattr(error, part)}
        said = {"type": type(error).__name__.lstrip("_"), "message": str(error) or "interrupted"} | said
        print(json.dumps({"error": said}))
        raise


def _screen(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Colours and the pager, for what is printed on a terminal; in a pipe or a file text stays as it is."""
    kind = getattr(options, "shown_as", None)
    if kind is None or getattr(options, "output", None):
        return nullcontext()
    if not sys.stdout.isatty() and options.color != "always":
        return nullcontext()
    from nczarr.cli.terminal.screen import on_screen

    if getattr(options, "json", False):
        kind = "json"
    return on_screen(kind(options) if callable(kind) else kind, options.color, pager=not options.no_pager)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Print warnings in one line, without the place in the code."""
    with warnings.catch_warnings():
        warnings.filterwarnings("always", message=".*'nczarr repair'")
        warnings.showwarning = lambda message, *_, **__: _complain(f"warning: {message}", layout=True)
        yield


@contextmanager
def _isolated(wanted: bool) -> Iterator[None]:
    """Let netCDF files be read in a child process, here and in processes that this one starts."""
    name = "NCZARR_ISOLATED"
    before = os.environ.get(name)
    if wanted:
        os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def _notes(error: BaseException) -> list[str]:
    """Return what was noted about an error and those before it: output that could not be removed."""
    found: list[str] = []
    seen: BaseException | None = error
    while seen is not None:
        if not isinstance(seen, UnicodeError):  # whose notes are Python's: which codec it was
            found += getattr(seen, "__notes__", [])
        seen = seen.__context__
    return list(dict.fromkeys(found))


def _left(error: BaseException) -> str:
    return "; ".join(_notes(error)) or "no unfinished output is left"


def _open_closed_streams() -> None:
    """Open the null device in the place of standard streams that are closed.

    Otherwise the next file that is opened takes their numbers, and messages are written into it.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


class _Terminated(BaseException):
    """The process was asked to end."""


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does: what is unfinished is removed."""
    if threading.current_thread() is not threading.main_thread():  # only there signals can be caught
        yield
        return

    def end(number: int, frame: object) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
