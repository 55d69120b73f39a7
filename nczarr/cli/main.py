"""Parse the command line, run the command, and turn errors into one line and an exit status.

Exit statuses: 0 done; 1 an error, or for ``diff`` and ``check`` a finding; 2 wrong usage; 130 interrupted;
143 terminated.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nczarr.cli.arguments import build_parser
from nczarr.errors import NCZarrError


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
    options = build_parser().parse_args(arguments)
    try:
        with _terminable():
            return int(options.run(options) or 0)
    except NCZarrError as error:
        print(f"nczarr: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does; a flush at exit must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"nczarr: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("nczarr: interrupted; no unfinished output is left", file=sys.stderr)
        return 130
    except _Terminated:
        print("nczarr: terminated; no unfinished output is left", file=sys.stderr)
        return 143


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
