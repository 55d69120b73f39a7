"""Write the data section of CDL: the values of variables, a block at a time, in folded lines.

Lines are folded as ncdump does, one item at a time or a run of numbers at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, TextIO

import numpy as np

from nczarr.cdl.words import special_float
from nczarr.cdl.write.numbers import float_columns, integer_columns
from nczarr.cdl.write.values import ToText, ValueText, escape_name, near, quote_printable, same_as_ncdump
from nczarr.lazy import pattern
from nczarr.model import CHAR, Region, Type, Variable, default_fill, regions, same_values

_RUN = 1 << 15  # numbers formatted at once; they fit the processor's cache
_BLOCK = 1 << 20  # elements read at once
_WHOLE_CHUNKS = 1 << 23  # … or more, if whole chunks fit
_FORMAT = pattern(r"(?P<head>%[-+ #0]*\d*(?:\.\d+)?)(?:hh?|ll?|[Lqjzt])?(?P<kind>[diouxXeEfFgGc%])")
#: A newline in a quoted text.
NEWLINE = pattern(r"(?<!\\)((?:\\\\)*)\\n")

_CONTINUED = 4

#: End of a row of numbers: the comma, and a mark that becomes a new line.
ROW_END = b",\x01"
_MARK = b"\x01"


def text_size(text: str) -> int:
    """Return the length in bytes of UTF-8, as ncdump counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


class WrappedLines:
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
    r"""Folds runs of numbers: the lines of :class:`WrappedLines`, at the speed of a regular expression.

    It takes items that end with ``", "``, or at the end of a row with :data:`ROW_END`; items have no blanks.

    `length` and `indent` are those of :class:`WrappedLines`; `position` is the length of what is in the first line
    already, or None if rows follow, each on a line of its own.

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
        # Rows that fit a line need no search for its end.
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


class VariableWriter:
    """Writes the values of a variable to a line whose indent is the group's.

    `dates` turns a value of a time variable into a date.
    """

    def __init__(
        self, variable: Variable, line: WrappedLines, values: ValueText, dates: ToText | None
    ) -> None:
        self._options = options = values.options
        self._variable, self._line, self._values = variable, line, values
        self._dates, self._quoted = dates, dates if options.ncdump else None
        self._shape = values.dataset.shape_of(variable)
        self._unlimited = [values.dataset.is_unlimited(d) for d in variable.dimensions]
        self._name = escape_name(variable.name, percent=not options.ncdump)
        self._is_numeric = variable.type.is_number
        self._fill, self._form = self._find_fill(), self._c_format()
        #: Each value is in a line of its own, with a comment.
        self._noted = options.full is not None or (dates is not None and not options.ncdump)

    def write(self) -> None:
        """Write ``name = values ;``, or nothing for a variable without elements or data."""
        line, shape, name = self._line, self._shape, self._variable.name
        # As ncdump: ncgen crashes on a list without values.
        if self._variable.data is None or 0 in shape:
            return
        line.file.write("\n" + " " * line.indent + " " + self._name)
        if len(shape) <= 1:
            line.file.write(" = ")
            # ncdump counts the name without its escapes.
            line.position = text_size(name if self._options.ncdump else self._name) + 4 + line.indent
        else:
            line.file.write(" =\n")
            line.position = 2 + line.indent
        is_brief = self._options.brief is not None and len(shape) > 1
        plain = self._is_numeric and self._form is None and self._dates is None and not self._noted
        if plain and not is_brief and not any(self._unlimited[1:]):
            self._numbers()
        else:
            if len(shape) > 1:
                line.file.write("  ")
            self._rows(is_brief)

    # Runs of numbers.

    def _numbers(self) -> None:
        line, shape = self._line, self._shape
        columns = shape[-1] if shape else 1
        folder = Folder(line.file, line.limit + 2, line.indent, line.position if len(shape) <= 1 else None)
        run = max(_RUN // columns, 1) * columns if columns <= _RUN else _RUN
        done, total = 0, math.prod(shape)
        for flat in self._blocks():
            for start in range(0, len(flat), run):
                part = flat[start : start + run]
                text = self._text(part, (-done - 1) % columns, columns)
                done += len(part)
                raw = text.tobytes().translate(None, b"\0")
                if done == total:
                    folder.finish(raw)
                elif columns <= _RUN and len(shape) > 1:
                    folder.feed(raw, text.shape[1] * columns)
                else:
                    folder.feed(raw)
        line.file.write(" ;\n")
        line.position = line.indent

    def _text(self, part: np.ndarray, row_end: int, columns: int) -> np.ndarray:
        """Return the byte matrix of numbers and separators; `row_end` is the index of the last element of a row."""
        separator, type_ = len(ROW_END), self._variable.type
        if type_.dtype.kind == "f":
            text = float_columns(part, *self._values.precision[type_.name], separator)
        else:
            text = integer_columns(part, separator)
        width = text.shape[1] - separator
        if self._fill is not None:
            missing = self._missing(part)
            if missing.any():
                text[missing, :width] = 0
                text[missing, 0] = ord("_")
        text[:, width] = ord(",")
        text[:, width + 1] = ord(" ")
        text[row_end::columns, width + 1] = ROW_END[1]
        return text

    def _missing(self, part: np.ndarray) -> np.ndarray:
        if part.dtype.kind != "f":
            return part == self._fill
        # ncdump prints values near the fill value as "_", so that they are lost.
        if self._options.ncdump:
            return near(part, self._fill)
        bits = np.dtype(f"i{part.dtype.itemsize}")
        return np.ascontiguousarray(part).view(bits) == np.asarray(self._fill).view(bits)

    def _find_fill(self) -> Any:
        """Return the value that prints as ``_``, or None."""
        type_, attribute = self._variable.type, self._variable.attribute.get("_FillValue")
        if attribute is not None and attribute.type == type_ and len(attribute.values) == 1:
            return attribute.values[0]
        # As in ncdump: each byte may be a value, and user types have no default.
        if type_.is_user_defined or type_.name in ("byte", "ubyte"):
            return None
        if attribute is not None and not self._options.ncdump:
            return None  # "_" would be ambiguous when read back
        return default_fill(type_)

    def _blocks(self) -> Iterator[np.ndarray]:
        """Yield the values in row-major order, flat."""
        variable = self._variable
        assert variable.data is not None
        most = _BLOCK if variable.type.is_fixed_size else _BLOCK >> 4
        for region in _row_major(self._shape, variable.storage.chunk_shape, most):
            yield variable.data.read(region).reshape(-1)

    # All other values, one item at a time.

    def _rows(self, is_brief: bool) -> None:
        line, shape = self._line, self._shape
        outer, columns = shape[:-1], shape[-1] if shape else 1
        last = tuple([n - 1 for n in outer])
        is_text = self._variable.type == CHAR and self._form is None
        elements = _Elements(self._blocks())
        for index in np.ndindex(outer):
            closing = 0
            for level in range(1, len(shape)):
                if self._unlimited[level]:
                    if not any(index[level:]):
                        line.put("{")
                    closing += index[level:] == last[level:]
            if is_brief:
                line.file.write(f"// {self._name}({_brief(index, columns, self._options.brief)})\n")
                line.file.write(" " * (line.indent + 4))
                line.position = line.indent + 4
            if is_text:
                self._char_row(elements.take(columns))
                item, value = "", None
            else:
                item, value = self._items(elements.take(columns), index)
            item += "}" * closing
            if self._noted:
                line.file.write(item + (";" if index == last else ","))
                line.file.write(self._note(index, columns - 1, value))
                continue
            line.put(item)
            for end in (" ;", "\n") if index == last else (",\n", "  "):
                line.put(end)

    def _items(self, pieces: Iterator[np.ndarray], index: tuple[int, ...]) -> tuple[str, object]:
        """Write all values of a row but the last; return the text of the last, and its value if it needs a note."""
        last: list[str] = []
        values: list[object] = []
        column = 0
        for piece in pieces:
            texts = last + self._texts(piece)
            last = [texts.pop()]
            if not self._noted:
                for text in texts:
                    self._line.put(text + ", ")
                continue
            values.extend(piece)
            for at, (text, value) in enumerate(zip(texts, values), column):
                self._line.file.write(f"{text}, {self._note(index, at, value)}")
            column, values = column + len(texts), values[-1:]
        return last[0], values[-1] if values else None

    def _note(self, index: tuple[int, ...], column: int, value: object) -> str:
        """Return the comment after a value and the start of the next line."""
        notes = []
        if self._options.full:
            at = [*index, column] if self._variable.dimensions else [0]
            if self._options.full == "f":
                at = [i + 1 for i in reversed(at)]
            notes.append(f"{self._name}({','.join(map(str, at))})")
        if self._dates is not None and not self._options.ncdump:
            notes.append(self._dates(value))
        return f"  // {' '.join(notes)}\n    "

    def _texts(self, piece: np.ndarray) -> list[str]:
        """Return each value as text, ``_`` for the fill value."""
        type_, fill = self._variable.type, self._fill
        if self._is_numeric and self._form is None and self._quoted is None:
            columns = self._text(piece, len(piece), 1)
            return columns.tobytes().translate(None, b"\0 ").decode().split(",")[:-1]
        to_text = self._quoted or self._form or self._values.of(type_)
        if fill is None:
            return [to_text(value) for value in piece]
        if self._is_numeric:
            missing = self._missing(piece).tolist()
        elif self._options.ncdump:
            missing = [same_as_ncdump(type_, fill, value) for value in piece]
        else:
            missing = [same_values(fill, value) for value in piece]
        return ["_" if is_fill else to_text(value) for is_fill, value in zip(missing, piece, strict=True)]

    def _c_format(self) -> ToText | None:
        """Return the function for the attribute ``C_format``, which ncdump obeys unless digits are requested."""
        options, type_ = self._options, self._variable.type
        attribute = self._variable.attribute.get("C_format")
        digits = {"float": options.float_digits, "double": options.double_digits}.get(type_.name)
        if not options.ncdump or attribute is None or digits is not None:
            return None
        if attribute.type != CHAR or not 0 < len(attribute.values) < 100:
            return None
        return c_format(attribute.text.partition("\0")[0], type_)

    # Rows of chars.

    def _char_row(self, pieces: Iterator[np.ndarray]) -> None:
        write = self._line.file.write
        write('"')
        nulls = 0
        fill = self._variable.attribute.get("_FillValue")
        padded = fill is not None and fill.values.tobytes().strip(b"\0") != b""
        # Where ncgen would pad differently, NULs at the end must be written.
        full_width = not self._options.ncdump and (padded or any(self._unlimited))
        for piece in pieces:
            raw = piece.tobytes()
            # ncgen counts records by unpadded characters, so that rows of a growing variable are written in
            # full.
            if not full_width:
                kept = raw.rstrip(b"\0")
                if not kept:
                    nulls += len(raw)
                    continue
                raw, nulls = b"\0" * nulls + kept, len(raw) - len(kept)
            text = quote_printable(raw)[1:-1]
            if self._options.ncdump:  # start a new line after every newline
                text = NEWLINE.sub(r'\1\\n",\n    "', text)
            write(text)
        write('"')


class _Elements:
    """Cuts a stream of flat blocks into runs of requested sizes."""

    def __init__(self, blocks: Iterator[np.ndarray]) -> None:
        self._blocks = blocks
        self._block = np.empty(0)

    def take(self, count: int) -> Iterator[np.ndarray]:
        """Yield arrays with `count` elements in total; consume them before the next call."""
        while count:
            if not len(self._block):
                self._block = next(self._blocks)
            piece, self._block = self._block[:count], self._block[count:]
            count -= len(piece)
            yield piece


def _brief(index: tuple[int, ...], columns: int, language: str | None) -> str:
    if language == "c":
        return "".join(f"{i}," for i in index) + ("0" if columns == 1 else f" 0-{columns - 1}")
    return ("1" if columns == 1 else f"1-{columns} ") + "".join(f",{i + 1}" for i in reversed(index))


def c_format(text: str, type_: Type) -> ToText | None:
    """Return a C format as a function from value to text; None if it does not suit the type.

    Examples
    --------
    >>> from nczarr.model import INT
    >>> c_format("%05ld m", INT)(7)
    '00007 m'
    """
    found = [m for m in _FORMAT.finditer(text) if m["kind"] != "%"]
    if not type_.is_atomic or len(found) != 1:
        return None
    kind = found[0]["kind"]
    allowed = "eEfFgG" if type_.is_float else "c" if type_ == CHAR else "diouxXc"
    if kind not in allowed:
        return None
    start, end = found[0].span()
    form = text[:start] + found[0]["head"] + ("d" if kind in "iu" else kind) + text[end:]
    single = type_.name == "float"

    def to_text(value: Any) -> str:
        if type_.is_float:
            return special_float(float(value), single) or form % float(value)
        number = ord(bytes(value) or b"\0") if type_ == CHAR else int(value)
        # C prints the bits of a negative number for unsigned kinds.
        return form % (number & 0xFFFFFFFFFFFFFFFF if number < 0 and kind in "ouxX" else number)

    return to_text


def _row_major(shape: tuple[int, ...], chunk: tuple[int, ...] | None, most: int) -> Iterator[Region]:
    """Yield consecutive regions in row-major order of at most `most` elements, of whole chunks where possible."""
    block = [1] * len(shape)
    inner = 1
    for axis in range(len(shape) - 1, -1, -1):
        if inner * shape[axis] <= most:
            block[axis] = shape[axis]
            inner *= shape[axis]
            continue
        step = max(most // inner, 1)
        # A block that ends inside a chunk would decode the chunk again for the next one.
        if chunk is not None and chunk[axis] > 0:
            if step >= chunk[axis]:
                step -= step % chunk[axis]
            elif chunk[axis] * inner <= _WHOLE_CHUNKS:
                step = chunk[axis]
        block[axis] = min(step, shape[axis])
        break
    yield from regions(shape, tuple(block))
