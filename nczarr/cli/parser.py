"""Parse arguments: options may stand between positional arguments, and errors suggest similar names."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from typing import Any, NoReturn


class SuggestingParser(argparse.ArgumentParser):
    """A parser whose errors are one line: the problem, a similar name, and the command that prints the help."""

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Parse arguments; the error of an unknown option comes from the parser of its command."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            commands = [a for a in self._actions if isinstance(a, argparse._SubParsersAction)]
            parser = commands[0].choices[options.command] if commands else self
            parser.refuse(unknown[0])
        return options

    def refuse(self, argument: str) -> NoReturn:
        """End the program: this command has no such option, or has fewer arguments."""
        name = argument.partition("=")[0]
        what = "there is no option" if name.startswith("-") else "one argument is too many:"
        long = [text for action in self._actions for text in action.option_strings if text.startswith("--")]
        self._end(f"{what} {shlex.quote(name)}", name, long if name.startswith("--") else ())

    def error(self, message: str) -> NoReturn:
        """End the program with a message of argparse."""
        choice = re.search(r"invalid choice: (['\"])(.*?)\1 \(choose from (.*)\)", message)
        if choice is None:
            self._end(message)
        if message.startswith("argument COMMAND"):
            message = f"there is no command {choice[2]!r}"
        self._end(message, choice[2], [name.strip("'\"") for name in choice[3].split(", ")])

    def _end(self, message: str, name: str = "", known: Sequence[str] = ()) -> NoReturn:
        from nczarr.display.text import did_you_mean  # imports numpy

        hint = did_you_mean(name, known)
        usage = "--help" if self.prog.endswith(" dump") else "-h"  # -h of dump prints the header
        self.exit(2, f"{self.prog}: {message}{f'; {hint}' if hint else ''} (help: {self.prog} {usage})\n")


class CommandParser(SuggestingParser):
    """A parser that accepts options between positional arguments: ``copy a.nc -c x=1 b.zarr``."""

    _mixing = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse arguments; arguments after ``--`` are positional."""
        if self._mixing or args is None or "--" in args:
            return super().parse_known_args(args, namespace)
        self._mixing = True  # parse_known_intermixed_args calls this method
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False
