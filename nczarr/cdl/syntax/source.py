"""Hold a CDL text and locate errors in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lark import Token

from nczarr.cdl.syntax.constants import ConstantError
from nczarr.errors import CDLError
from nczarr.system.warning import warn
from nczarr.text import visible

_MOST_PROBLEMS = 100
_LONGEST_LINE = 160
_CUT = 60
_BOM = "\xef\xbb\xbf"
#: The hint where a section is in a wrong place.
ORDER = "the sections come in the order types, dimensions, variables, data, groups, each once"


class SourceText:
    """A CDL text with one character for each byte (Latin-1), so that any encoding is preserved.

    Examples
    --------
    >>> source = SourceText("netcdf a {\\nx }")
    >>> print(source.error("what is that", 11))
    <cdl>:2:1: what is that
      x }
      ^
    """

    def __init__(self, text: str, path: str | None = None) -> None:
        self.text = text
        self.path = path

    def error(self, message: str, position: int | None, *, hint: str | None = None) -> CDLError:
        """Return an error that shows a position in the text."""
        if position is None:
            return CDLError(message, path=self.path, hint=hint)
        position = min(position, len(self.text))
        start = self.text.rfind("\n", 0, position) + 1 or len(_BOM) * self.text.startswith(_BOM)
        position = max(position, start)
        line = self.text.count("\n", 0, position) + 1
        end = self.text.find("\n", position)
        end = len(self.text) if end < 0 else end
        column = len(as_text(self.text[start:position])) + 1
        shown_from = start if end - start <= _LONGEST_LINE else max(start, position - _CUT)
        shown = as_text(self.text[shown_from : min(end, shown_from + _LONGEST_LINE)]).rstrip("\r")
        # A control character could move the caret; each is shown as one character.
        shown = "".join(c if c == "\t" or visible(c) == c else "·" for c in shown)
        caret = len(as_text(self.text[shown_from:position])) + 1
        return CDLError(
            message, line=line, column=column, path=self.path, hint=hint, source=shown, caret=caret
        )


def as_text(raw: str) -> str:
    """Decode text that is one character for each byte; bytes that are not UTF-8 become surrogate escapes.

    Examples
    --------
    >>> as_text("5\\xc2\\xb0")
    '5°'
    """
    return raw if raw.isascii() else raw.encode("latin-1").decode("utf-8", "surrogateescape")


class CDLWarning(UserWarning):
    """A part of a CDL text has no effect."""


class TooManyProblems(Exception):
    """The text has too many problems to report more."""


class Problems:
    """Collects the problems of a text, to report them together."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self._found: list[tuple[int, CDLError]] = []
        self._warnings: list[str] = []

    def add(self, message: str, place: Token | int | None, *, hint: str | None = None) -> None:
        """Record a problem at a token or position; raise :class:`TooManyProblems` at the limit."""
        position = place.start_pos if isinstance(place, Token) else place
        error = self.source.error(message, position, hint=hint)
        self._found.append((position or 0, error))
        if len(self._found) >= _MOST_PROBLEMS:
            raise TooManyProblems

    @contextmanager
    def recording(self, place: Token | int | None) -> Iterator[None]:
        """Record a :class:`ConstantError` of the block, at `place` if the error has none."""
        try:
            yield
        except ConstantError as error:
            self.add(str(error), place if error.place is None else error.place, hint=error.hint)

    def warn(self, message: str, position: int | None) -> None:
        """Warn of text that ncgen accepts but does not read as it looks."""
        error = self.source.error(message, position)
        place = ":".join(str(p) for p in (self.source.path or "<cdl>", error.line, error.column) if p)
        self._warnings.append(f"{place}: {message}")

    def __len__(self) -> int:
        return len(self._found)

    def raise_all(self) -> None:
        """Issue all warnings, and raise all problems as one error, in the order of the text."""
        for warning in self._warnings:
            warn(warning, CDLWarning)
        if not self._found:
            return
        errors = [error for _, error in sorted(self._found, key=lambda found: found[0])]
        first = errors[0]
        if len(errors) == 1:
            raise first
        raise CDLError(
            first.message,
            line=first.line,
            column=first.column,
            source=first.source,
            path=first.path,
            hint=first.hint,
            problems=tuple(errors),
        )
