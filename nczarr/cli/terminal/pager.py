"""Start the user's pager and write to it."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress


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


class Pager:
    """A running pager; write to the stream `text`."""

    def __init__(self, command: list[str], encoding: str) -> None:
        # Like git: less exits if the text fits on one screen (F), shows colours (R), and keeps the screen (X).
        environment = {"LESS": "FRX", **os.environ}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
        assert self._process.stdin is not None
        self.text = io.TextIOWrapper(
            self._process.stdin, encoding=encoding, errors="backslashreplace", newline="\n"
        )

    def close(self) -> None:
        """Close the input of the pager, and wait until the user quits it."""
        with suppress(OSError):  # the user has quit the pager
            self.text.close()
        while True:
            try:
                self._process.wait()
                return
            except KeyboardInterrupt:  # Ctrl-C is a command of the pager
                continue


def start_pager(encoding: str) -> Pager | None:
    """Start the user's pager; return None if there is none or it fails to start."""
    command = pager_command(os.environ)
    if not command:
        return None
    try:
        return Pager(command, encoding)
    except OSError:
        return None
