"""Fold lines as ncdump does, one item at a time or a run of numbers at once."""

from __future__ import annotations

import re
from typing import TextIO

_CONTINUED = 4

#: End of a row of numbers: the comma, and a mark that becomes a new line.
ROW_END = b",\x01"
_MARK = b"\x01"


def text_size(text: str) -> int:
    """Return the length in bytes of UTF-8, as ncdump counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


class Line:
    """Output that starts a new line before an item that would make the line too long.

    `length` is the longest line without the `indent`, the blanks before every line.
    """

    def __init__(self, file: TextIO, length: int, indent: int) -> None:
        self.file = file
        self.limit = length - 2
        self.indent = indent
        self.position = 0

    def put(self, item: str) -> None:
        """Write an item that must not be split; items of one or two characters never start a line."""
        size = text_size(item)
        if size > 2 and size + self.position > self.limit:
            self.file.write("\n" + " " * (self.indent + _CONTINUED))
            self.position = self.indent + _CONTINUED
        self.file.write(item)
        if item.endswith("\n"):
            self.position = self.indent
        else:
            self.position += size


class Folder:
    r"""Folds runs of numbers: the lines of :class:`Line`, at the speed of a regular expression.

    It takes items that end with ``", "``, or at the end of a row with :data:`ROW_END`; items have no blanks.

    `length` and `indent` are as for :class:`Line`; `position` is the length of what is in the first line already,
    or None if rows follow, each on a line of its own.

    Examples
    --------
    >>> import io
    >>> file = io.StringIO()
    >>> folder = Folder(file, 20, 0, 4)
    >>> folder.feed(b"1000, 2000, ")
    >>> folder.finish(b"3000,\x01")
    >>> file.getvalue().splitlines()
    ['1000, 2000, ', '    3000']
    """

    def __init__(self, file: TextIO, length: int, indent: int, position: int | None) -> None:
        limit = length - 2
        self._file = file
        self._newline = b"\n" + b" " * (indent + _CONTINUED)
        self._row = limit - indent - 2
        more = _fitting(limit - indent - _CONTINUED)
        # A row starts with its mark; then what fits, or nothing. An item that never fits is alone.
        alone = rb"[^ \x01]+, [^ \x01]{1,2},(?=\x01)|[^ \x01]+,(?: |(?=\x01))"
        self._lines = re.compile(rb"%b|\x01(?:%b)?|%b" % (more, _fitting(self._row), alone))
        self._first = None if position is None else re.compile(_fitting(limit - position))
        self._carry = _MARK if position is None else b""
        self._started = False

    def feed(self, text: bytes, longest_row: int | None = None) -> None:
        """Take items and write all lines but the last, which may still grow.

        With `longest_row`, `text` is whole rows, none longer: if that is short, no line is folded.
        """
        text = self._carry + text
        if longest_row is not None and longest_row <= self._row:
            self._carry = _MARK
            self._write([text[:-1]])
            return
        if self._first is not None:
            match = self._first.match(text)
            if match is not None and match.end() == len(text):
                self._carry = text
                return
            text = self._start(match, text)
        lines = self._lines.findall(text)
        self._carry = lines.pop()
        self._write(lines)

    def finish(self, text: bytes) -> None:
        """Take the last items and write them without the final comma and mark."""
        text = self._carry + text
        if self._first is not None:
            text = self._start(self._first.match(text), text)
        lines = self._lines.findall(text)
        if lines and lines[-1] == _MARK:
            lines.pop()
        if lines:
            lines[-1] = lines[-1][:-1]
            self._write(lines)

    def _start(self, match: re.Match[bytes] | None, text: bytes) -> bytes:
        """Write the first line, and return the rest."""
        self._first = None
        start = match.group() if match is not None else b""
        rest = text[len(start) :]
        self._write([start[:-1] if rest == _MARK else start])
        return b"" if rest == _MARK else rest

    def _write(self, lines: list[bytes]) -> None:
        if self._started:
            lines.insert(0, b"")
        rows = self._newline.join(lines).split(_MARK)
        if len(rows) > 1:  # a row starts on its own line with less indent
            end = self._newline
            rows[:-1] = [row.removesuffix(end) for row in rows[:-1]]
            if not self._started and not rows[0]:
                rows[:2] = [b"  " + rows[1]]
        self._started = self._started or bool(lines)
        self._file.write(b"\n  ".join(rows).decode("ascii"))


def _fitting(width: int) -> bytes:
    r"""Return an expression for a line of `width` characters: as many items as possible, or the end of a row.

    The comma at the end of a row does not count, and a last item of one or two characters is never moved.
    """
    if width < 3:
        return rb"[^ \x01]{1,2},(?=\x01)"
    most = width - 2
    # Most lines are full and not near the end of a row; try that first.
    return (
        rb"(?>[^\x01]{1,%d}, )(?=[^,]+, )|(?:[^\x01]{1,%d}, )?[^ \x01]{1,2},(?=\x01)"
        rb"|[^\x01]{1,%d},(?=\x01)|[^\x01]{1,%d}, "
    ) % (most, most, width, most)
