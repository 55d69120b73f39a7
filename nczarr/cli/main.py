"""Parse the command line, run the command, and report errors as a message and an exit status.

Exit statuses: 0 for success; 1 for an error, or for findings of ``diff`` and ``check``; 2 for wrong usage, or for
errors of ``diff`` and ``check``; 75 for an error that passes, such as a lock, so that a job may try again; 130 after
an interrupt; 143 after SIGTERM.
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
from nczarr.options import speak_as_command
from nczarr.system.environment import choice

#: Commands whose exit status is 1 for findings and 2 for errors, like ``diff`` and ``cmp``.
_COMPARING = ("diff", "check")
#: The status of ``EX_TEMPFAIL`` in ``sysexits.h``, which schedulers and mail systems know.
_TRY_AGAIN = 75


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Arguments without the program name; default: ``sys.argv``.

    Returns
    -------
    int
        The exit status.

    Examples
    --------
    >>> main(["dump", "no-such-file.zarr"])
    1
    """
    before = speak_as_command(True)
    try:
        return _main(arguments)
    finally:
        speak_as_command(before)


def _main(arguments: Sequence[str] | None) -> int:
    """Run a command whose messages name options as on the command line."""
    _open_closed_streams()
    if arguments is None:
        # Skip the garbage collections at exit: the operating system frees the memory of the process, and all files are
        # closed before. Python would traverse all imported modules several times.
        atexit.register(gc.freeze)
        os.environ.setdefault("ICECHUNK_LOG", "error")  # Icechunk logs a warning for each local repository
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["help"]:  # as of git: nczarr help copy
        words = [*words[1:2], "--help"]
    command = next((word for word in words if not word.startswith("-")), "")
    error_status = 2 if command in _COMPARING else 1
    try:
        parser = build_parser(command)
        if not words:
            parser.print_help(sys.stderr)
            return 2
        options = parser.parse_args(words)
        _start_logging()
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
            _print_message(str(line), layout=True)
        # Schedulers repeat a command with this status; diff and check have 2 for errors, as cmp.
        return _TRY_AGAIN if error.reason == "temporary" and error_status == 1 else error_status
    except BrokenPipeError:
        # The reader of the output has closed the pipe, like `head`. Discard the output of the flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        _print_message(str(error))
        return error_status
    # A shell reports 128 and the number of the signal.
    except (KeyboardInterrupt, _Terminated) as error:
        word, status = ("interrupted", 130) if isinstance(error, KeyboardInterrupt) else ("terminated", 143)
        leftovers = "; ".join(_notes(error)) or "no unfinished output is left"
        print(f"nczarr: {word}; {leftovers}", file=sys.stderr)
        return status


def _print_message(text: str, *, layout: bool = False) -> None:
    from nczarr.display import visible  # imports numpy, which --help does not need

    print(visible(f"nczarr: {text}", layout=layout), file=sys.stderr)


def _start_logging() -> None:
    """Print the log of nczarr on standard error, but not that of its libraries, which may contain credentials."""
    if (level := choice("NCZARR_LOG")) != "off":
        import logging

        logging.basicConfig(format="nczarr: %(name)s: %(message)s")
        logging.getLogger("nczarr").setLevel(level.upper())


@contextmanager
def _errors_as_json() -> Iterator[None]:
    """Also print an error as a JSON object on standard output, for programs that parse the output."""
    try:
        yield
    except BrokenPipeError:  # the reader has closed the pipe
        raise
    except (NCZarrError, OSError, KeyboardInterrupt, _Terminated) as error:
        import json

        parts = ("message", "path", "fqn", "line", "column", "hint", "reason")
        details = {part: getattr(error, part) for part in parts if hasattr(error, part)}
        details = {"type": type(error).__name__.lstrip("_"), "message": str(error) or "interrupted"} | details
        print(json.dumps({"error": details}))
        raise


def _screen(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Return a context that adds colours and the pager on a terminal; output to pipes and files stays unchanged."""
    kind = getattr(options, "shown_as", None)
    if kind is None or getattr(options, "output", None):
        return nullcontext()
    if not sys.stdout.isatty() and options.color != "always":
        return nullcontext()
    from nczarr.cli.terminal import on_screen

    if getattr(options, "json", False):
        kind = "json"
    return on_screen(kind(options) if callable(kind) else kind, options.color, pager=not options.no_pager)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Print each warning in one line, without its location in the code."""
    with warnings.catch_warnings():
        warnings.filterwarnings("always", message=".*'nczarr repair'")
        warnings.showwarning = lambda message, *_, **__: _print_message(f"warning: {message}", layout=True)
        yield


@contextmanager
def _isolated(enabled: bool) -> Iterator[None]:
    """Read netCDF files in child processes, in this process and in processes that it starts."""
    name = "NCZARR_ISOLATED"
    before = os.environ.get(name)
    if enabled:
        os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def _notes(error: BaseException) -> list[str]:
    """Return the notes of an error and of its context: they name output that could not be removed."""
    found: list[str] = []
    seen: BaseException | None = error
    while seen is not None:
        if not isinstance(seen, UnicodeError):  # Python adds a note with the codec
            found += getattr(seen, "__notes__", [])
        seen = seen.__context__
    return list(dict.fromkeys(found))


def _open_closed_streams() -> None:
    """Open the null device for closed standard streams.

    Otherwise the next opened file gets the file descriptor of a standard stream, and messages are written to the file.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


class _Terminated(BaseException):
    """The process received SIGTERM."""


@contextmanager
def _terminable() -> Iterator[None]:
    """Handle SIGTERM like an interrupt: end the command and remove unfinished output."""
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # only the main thread can set signal handlers
        yield
        return

    def end(number: int, frame: object) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
