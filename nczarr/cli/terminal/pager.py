"""Start the pager that a user wants, and write to it."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress


def pager_command(environment: Mapping[str, str]) -> list[str]:
    """Return the words of the pager's command: of ``NCZARR_PAGER``, of ``PAGER``, or less; empty for none.

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


class Pager:
    """A running pager; `text` is what it shows."""

    def __init__(self, command: list[str], encoding: str) -> None:
        # As git does: less ends where all fits on one screen, keeps colours, and leaves the screen as it was.
        environment = {"LESS": "FRX", **os.environ}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
        assert self._process.stdin is not None
        self.text = io.TextIOWrapper(
            self._process.stdin, encoding=encoding, errors="backslashreplace", newline="\n"
        )

    def close(self) -> None:
        """Say that all is written, and wait until the reader has seen enough."""
        with suppress(OSError):  # the reader has ended it
            self.text.close()
        while True:
            try:
                self._process.wait()
                return
            except KeyboardInterrupt:  # the pager has that key for itself
                continue


def start_pager(encoding: str) -> Pager | None:
    """Start the user's pager; None if there is none, or it cannot be started."""
    command = pager_command(os.environ)
    if not command:
        return None
    try:
        return Pager(command, encoding)
    except OSError:
        return None
