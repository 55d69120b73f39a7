"""Write the data section of CDL: the values of variables, a block at a time, in folded lines.

Lines are folded as ncdump does, one item at a time or a run of numbers at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, TextIO

import numpy as np

from nczarr.cdl.write.numbers import float_columns, integer_columns, special_float
from nczarr.cdl.write.options import DumpOptions
from nczarr.cdl.write.values import ToText, ValueText, escape_name, near, quote_printable, same_as_ncdump
from nczarr.model import (
    CHAR,
    Dataset,
    PrimitiveType,
    Region,
    Type,
    Variable,
    default_fill,
    regions,
    same_values,
)

_RUN = 1 << 15  # numbers formatted at once; they fit the processor's cache
_BLOCK = 1 << 20  # elements read at once
_WHOLE_CHUNKS = 1 << 23  # … or more, if whole chunks fit
_FORMAT = re.compile(r"(?P<head>%[-+ #0]*\d*(?:\.\d+)?)(?:hh?|ll?|[Lqjzt])?(?P<kind>[diouxXeEfFgGc%])")
_NEWLINE = re.compile(r"(?<!\\)((?:\\\\)*)\\n")

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


class DataWriter:
    """Writes the values of variables to a line whose indent is the group's."""

    def __init__(self, dataset: Dataset, options: DumpOptions, line: Line, values: ValueText) -> None:
        self._dataset = dataset
        self._options = options
        self._line = line
        self._values = values

    def write(self, variable: Variable, dates: ToText | None = None) -> None:
        """Write ``name = values ;``, or nothing for a variable without elements or data.

        `dates` turns a value of a time variable into a date.
        """
        shape = self._dataset.shape(variable)
        if variable.data is None or 0 in shape:
            return
        line = self._line
        percent = not self._options.ncdump
        line.file.write("\n" + " " * line.indent + " " + escape_name(variable.name, percent=percent))
        if len(shape) <= 1:
            line.file.write(" = ")
            # ncdump counts the name without its escapes.
            name = variable.name if self._options.ncdump else escape_name(variable.name)
            line.position = text_size(name) + 4 + line.indent
        else:
            line.file.write(" =\n")
            line.position = 2 + line.indent
        fast = (
            isinstance(variable.type, PrimitiveType)
            and variable.type.dtype.kind in "iuf"
            and dates is None
            and self._options.full is None
            and not (self._options.brief and len(shape) > 1)
            and not any(self._dataset.is_unlimited(d) for d in variable.dimensions[1:])
            and self._c_format(variable) is None
        )
        if fast:
            self._numbers(variable, shape)
        else:
            if len(shape) > 1:
                line.file.write("  ")
            self._rows(variable, shape, dates)

    # Runs of numbers.

    def _numbers(self, variable: Variable, shape: tuple[int, ...]) -> None:
        line = self._line
        columns = shape[-1] if shape else 1
        folder = Folder(line.file, line.limit + 2, line.indent, line.position if len(shape) <= 1 else None)
        run = max(_RUN // columns, 1) * columns if columns <= _RUN else _RUN
        done, total = 0, math.prod(shape)
        fill = self._fill(variable)
        for flat in self._blocks(variable, shape):
            for start in range(0, len(flat), run):
                part = flat[start : start + run]
                text = self._text(variable, part, fill, (-done - 1) % columns, columns)
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

    def _text(
        self, variable: Variable, part: np.ndarray, fill: np.number | None, row_end: int, columns: int
    ) -> np.ndarray:
        """Return the byte matrix of numbers and separators; `row_end` is the index of the last element of a row."""
        separator = len(ROW_END)
        if variable.type.dtype.kind == "f":
            name = variable.type.name
            text = float_columns(part, self._values.digits[name], self._values.exact[name], separator)
        else:
            text = integer_columns(part, separator)
        width = text.shape[1] - separator
        if fill is not None:
            missing = self._missing(part, fill)
            if missing.any():
                text[missing, :width] = 0
                text[missing, 0] = ord("_")
        text[:, width] = ord(",")
        text[:, width + 1] = ord(" ")
        text[row_end::columns, width + 1] = ROW_END[1]
        return text

    def _missing(self, part: np.ndarray, fill: np.number) -> np.ndarray:
        if part.dtype.kind != "f":
            return part == fill
        if self._options.ncdump:
            return near(part, fill)
        bits = np.dtype(f"i{part.dtype.itemsize}")
        return np.ascontiguousarray(part).view(bits) == np.asarray(fill).view(bits)

    def _fill(self, variable: Variable) -> Any:
        """Return the value that prints as ``_``, or None."""
        attribute = variable.attribute.get("_FillValue")
        if attribute is not None and attribute.type == variable.type and len(attribute.values) == 1:
            return attribute.values[0]
        if variable.type.is_user_defined or variable.type.name in ("byte", "ubyte"):
            return None
        if attribute is not None and not self._options.ncdump:
            return None  # "_" would be ambiguous when read back
        return default_fill(variable.type)

    def _blocks(self, variable: Variable, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
        """Yield the values in row-major order, flat."""
        assert variable.data is not None
        most = _BLOCK if variable.type.is_fixed_size else _BLOCK >> 4
        for region in _row_major(shape, variable.storage.chunk_shape, most):
            yield variable.data.read(region).reshape(-1)

    # All other values, one item at a time.

    def _rows(self, variable: Variable, shape: tuple[int, ...], dates: ToText | None) -> None:
        line, options = self._line, self._options
        outer, columns = shape[:-1], shape[-1] if shape else 1
        records = [i > 0 and self._dataset.is_unlimited(d) for i, d in enumerate(variable.dimensions)]
        last = tuple([n - 1 for n in outer])
        text_like = variable.type == CHAR and self._c_format(variable) is None
        noted = options.full is not None or (dates is not None and not options.ncdump)
        elements = _Elements(self._blocks(variable, shape))
        for index in np.ndindex(outer):
            closing = 0
            for level in range(1, len(shape)):
                if records[level]:
                    if not any(index[level:]):
                        line.put("{")
                    closing += index[level:] == last[level:]
            if options.brief and len(shape) > 1:
                line.file.write(f"// {self._name(variable)}({_brief(index, columns, options.brief)})\n")
                line.file.write(" " * (line.indent + 4))
                line.position = line.indent + 4
            if text_like:
                self._char_row(elements.take(columns), self._full_width(variable))
                item, value = "", None
            elif noted:
                item, value = self._noted_items(variable, elements.take(columns), index, dates)
            else:
                item, value = self._items(variable, elements.take(columns), dates), None
            item += "}" * closing
            if noted:
                line.file.write(item + (";" if index == last else ","))
                line.file.write(self._note(variable, index, columns - 1, value, dates))
                continue
            line.put(item)
            for end in (" ;", "\n") if index == last else (",\n", "  "):
                line.put(end)

    def _items(self, variable: Variable, pieces: Iterator[np.ndarray], dates: ToText | None) -> str:
        """Write all values of a row but the last; return the last."""
        last: list[str] = []
        for piece in pieces:
            texts = last + self._texts(variable, piece, dates)
            last = [texts.pop()]
            for text in texts:
                self._line.put(text + ", ")
        return last[0]

    def _noted_items(
        self, variable: Variable, pieces: Iterator[np.ndarray], index: tuple[int, ...], dates: ToText | None
    ) -> tuple[str, object]:
        """Write all values of a row but the last, each with a comment; return the last text and value."""
        last: tuple[str, object] | None = None
        column = 0
        quoted = dates if self._options.ncdump else None
        for piece in pieces:
            for pair in zip(self._texts(variable, piece, quoted), piece, strict=True):
                if last is not None:
                    self._line.file.write(f"{last[0]}, ")
                    self._line.file.write(self._note(variable, index, column, last[1], dates))
                    column += 1
                last = pair
        assert last is not None
        return last

    def _note(
        self, variable: Variable, index: tuple[int, ...], column: int, value: object, dates: ToText | None
    ) -> str:
        """Return the comment after a value and the start of the next line."""
        notes = []
        if self._options.full:
            at = [*index, column] if variable.dimensions else [0]
            if self._options.full == "f":
                at = [i + 1 for i in reversed(at)]
            notes.append(f"{self._name(variable)}({','.join(map(str, at))})")
        if dates is not None and not self._options.ncdump:
            notes.append(dates(value))
        return f"  // {' '.join(notes)}\n    "

    def _name(self, variable: Variable) -> str:
        return escape_name(variable.name, percent=not self._options.ncdump)

    def _texts(self, variable: Variable, piece: np.ndarray, dates: ToText | None) -> list[str]:
        """Return each value as text, ``_`` for the fill value."""
        fill = self._fill(variable)
        form = self._c_format(variable)
        numeric = isinstance(variable.type, PrimitiveType) and variable.type.dtype.kind in "iuf"
        if numeric and form is None and dates is None:
            columns = self._text(variable, piece, fill, len(piece), 1)
            return columns.tobytes().translate(None, b"\0 ").decode().split(",")[:-1]
        to_text = form or self._values.of(variable.type)
        if dates is not None and self._options.ncdump:
            to_text = dates
        if fill is None:
            return [to_text(value) for value in piece]
        if numeric:
            missing = self._missing(piece, fill).tolist()
        elif self._options.ncdump:
            missing = [same_as_ncdump(variable.type, fill, value) for value in piece]
        else:
            missing = [same_values(fill, value) for value in piece]
        return ["_" if is_fill else to_text(value) for is_fill, value in zip(missing, piece, strict=True)]

    def _c_format(self, variable: Variable) -> ToText | None:
        """Return the function for the attribute ``C_format``, which ncdump obeys unless digits are requested."""
        options = self._options
        attribute = variable.attribute.get("C_format")
        digits = {"float": options.float_digits, "double": options.double_digits}.get(variable.type.name)
        if not options.ncdump or attribute is None or digits is not None:
            return None
        if attribute.type != CHAR or not 0 < len(attribute.values) < 100:
            return None
        return c_format(attribute.text.partition("\0")[0], variable.type)

    # Rows of chars.

    def _full_width(self, variable: Variable) -> bool:
        """Tell if trailing NULs must be written because ncgen would pad differently."""
        if self._options.ncdump:
            return False
        fill = variable.attribute.get("_FillValue")
        padded = fill is not None and fill.values.tobytes().strip(b"\0") != b""
        return padded or any(self._dataset.is_unlimited(d) for d in variable.dimensions)

    def _char_row(self, pieces: Iterator[np.ndarray], full_width: bool) -> None:
        write = self._line.file.write
        write('"')
        nulls = 0
        for piece in pieces:
            raw = piece.tobytes()
            if not full_width:
                kept = raw.rstrip(b"\0")
                if not kept:
                    nulls += len(raw)
                    continue
                raw, nulls = b"\0" * nulls + kept, len(raw) - len(kept)
            text = quote_printable(raw)[1:-1]
            if self._options.ncdump:  # start a new line after every newline
                text = _NEWLINE.sub(r'\1\\n",\n    "', text)
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


def _brief(index: tuple[int, ...], columns: int, language: str) -> str:
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
    if not isinstance(type_, PrimitiveType) or len(found) != 1:
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
        if chunk is not None and chunk[axis] > 0:
            if step >= chunk[axis]:
                step -= step % chunk[axis]
            elif chunk[axis] * inner <= _WHOLE_CHUNKS:
                step = chunk[axis]
        block[axis] = min(step, shape[axis])
        break
    yield from regions(shape, tuple(block))
