"""Convert CDL value tokens to numpy elements, one at a time or a run at once.

A run of values of a user-defined type is one token. A regular expression made from the type takes the fields of all
records apart. Each field is then one list of values, which numpy or a table of names converts at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

import numpy as np
from lark import Token

from nczarr import model
from nczarr.cdl.read.scope import split_enum_constant
from nczarr.cdl.syntax.constants import (
    Constant,
    ConstantError,
    change_by,
    convert,
    opaque_bytes,
    parse_constant,
)
from nczarr.cdl.syntax.parser import split_items
from nczarr.cdl.syntax.runs import (
    GAP,
    IN_NUMBER,
    RECORD,
    STRING,
    NeedsSlowPath,
    count_items,
    parse_run,
    raw_strings,
    text_strings,
)
from nczarr.cdl.syntax.source import Problems, as_text
from nczarr.cdl.syntax.tree import Block, Call, Value
from nczarr.cdl.words import BLANKS
from nczarr.grammar import portable
from nczarr.text import did_you_mean

_WORD, _NUMBER, _HEX = r"[A-Za-z][A-Za-z0-9_.]*+", r"[-+.0-9][-+.0-9A-Za-z]*+", r"0[xX][0-9A-Fa-f]++"

#: Numbers as in a run NUMBERS: neither octal nor hexadecimal.
_DECIMAL = re.compile(portable(rf"(?:{GAP}[-+]?+(?:[1-9.]|0(?![0-9xX])){IN_NUMBER}*+{GAP}(?:,|$))++"))

#: The tokens that are read at once, by the kind of the type; those of numbers are NUMBERS.
_RUNS: dict[type, str] = {
    model.PrimitiveType: "STRINGS",
    model.EnumType: "WORDS",
    model.VlenType: "RECORDS",
    model.CompoundType: "RECORDS",
}

Attributes = Mapping[str, model.Attribute]
#: Turns a quoted date into a number.
Dates = Callable[[str], float | None]


def position_of(value: Value) -> int | None:
    """Return the position of a value in the text, if known."""
    if isinstance(value, Token):
        return value.start_pos
    return value.name.start_pos if isinstance(value, Call) else value.brace.start_pos


def count_values(items: Iterable[Value]) -> int:
    """Count the values of a list, with those inside runs."""
    return sum(count_items(item) if isinstance(item, Token) else 1 for item in items)


def expand(items: Iterable[Value]) -> Iterator[Value]:
    """Yield the values of a list one at a time."""
    for item in items:
        yield from split_items(item)


def missing_value(type_: model.Type) -> Any:
    """Return ncgen's value for an element that a list omits.

    It differs from the fill of unwritten values: a field gets the default of its type, not zeros; a vlen gets one
    element; an enum its first member.

    Examples
    --------
    >>> from nczarr.model import INT
    >>> missing_value(model.VlenType("/v", INT))
    array([-2147483647], dtype=int32)
    """
    # ncgen means the first member, and ends with an error.
    if isinstance(type_, model.EnumType):
        return type_.dtype.type(type_.members[0][1]) if type_.members else type_.dtype.type(0)
    # ncgen makes a sequence of one fill value.
    if isinstance(type_, model.VlenType):
        one = np.empty(1, type_.base.dtype)
        one[(0,)] = missing_value(type_.base)
        return one
    if isinstance(type_, model.CompoundType):
        record = np.zeros(1, type_.dtype)
        for field in type_.fields:
            fill_field(record, (0,), field)
        return record[0]
    return model.default_fill(type_)


def fill_field(record: np.ndarray, index: tuple[int, ...], field: model.Field) -> None:
    """Set a field of a record to its missing value."""
    inside = record[field.name]
    value = missing_value(field.type)
    for j in np.ndindex(field.shape):
        inside[index + j] = value


def read_run(type_: model.Type, text: str) -> np.ndarray:
    """Return the values of a list, the text between two semicolons or braces.

    Raises
    ------
    NeedsSlowPath
        If the list has an unusual form, such as ``_`` and records of fewer values than fields, or an error.

    Examples
    --------
    >>> read_run(model.VlenType("/row", model.INT), "{1, 2}, {}").tolist()
    [array([1, 2], dtype=int32), array([], dtype=int32)]
    """
    if isinstance(type_, model.CompoundType):
        columns = _columns(_record(type_), text, len(type_.fields))
        out = np.zeros(len(columns[0]), type_.dtype)
        for field, column in zip(type_.fields, columns, strict=True):
            out[field.name] = _field(field, column)
        return out
    if isinstance(type_, model.VlenType):
        (texts,) = _columns(re.compile(f"({RECORD})"), text, 1)
        flat, counts = _inside(type_.base, texts)
        out = np.empty(len(texts), object)
        start = 0
        for i, count in enumerate(counts):
            out[i] = flat[start : start + count]
            start += count
        return out
    if type_.kind == "enum":
        known = _members(type_)
        try:
            return np.array([known[name.strip(BLANKS)] for name in text.split(",")], type_.dtype)
        except KeyError:
            raise NeedsSlowPath from None
    if isinstance(type_, model.OpaqueType):
        (texts,) = _columns(re.compile(f"({_HEX})"), text, 1)
        return np.frombuffer(b"".join(opaque_bytes(t[2:], type_.size) for t in texts), type_.dtype)
    if type_ == model.STRING:
        (texts,) = _columns(re.compile(f"({STRING})"), text, 1)
        return np.array([*text_strings(",".join(texts)), None], object)[:-1]
    if type_ == model.CHAR or _DECIMAL.fullmatch(text) is None:
        raise NeedsSlowPath
    return parse_run(text, type_.dtype)[0]


def _field(field: model.Field, texts: list[str]) -> np.ndarray:
    if not field.shape:
        return read_run(field.type, ",".join(texts))
    size = math.prod(field.shape)
    if field.type == model.CHAR:
        strings = [t.encode("utf-8", "surrogateescape") for t in read_run(model.STRING, _joined(texts)[0])]
        if len(field.shape) > 1 or len(strings) != len(texts) or max(map(len, strings)) > size:
            raise NeedsSlowPath
        return np.array(strings, f"S{size}").view("S1").reshape(len(texts), size)
    flat, counts = _inside(field.type, texts)
    if set(counts) != {size}:
        raise NeedsSlowPath
    return flat.reshape(len(texts), *field.shape)


def _inside(type_: model.Type, texts: list[str]) -> tuple[np.ndarray, list[int]]:
    """Return the values in braces, of all braces together, and their number in each."""
    joined, inside = _joined(texts)
    if type_.is_nested or type_ == model.STRING:
        item = re.compile(STRING if type_ == model.STRING else RECORD)
        counts = [len(item.findall(text)) for text in inside]
    else:
        counts = [text.count(",") + 1 if text else 0 for text in inside]
    flat = read_run(type_, joined) if joined else np.empty(0, type_.dtype)
    if len(flat) != sum(counts):
        raise NeedsSlowPath
    return flat, counts


def _joined(texts: list[str]) -> tuple[str, list[str]]:
    inside = [text[1:-1].strip(BLANKS) for text in texts]
    return ",".join(filter(None, inside)), inside


def _columns(pattern: re.Pattern[str], text: str, count: int) -> list[list[str]]:
    """Return the text of each group of a pattern, in all its matches; only commas may separate these."""
    parts = pattern.split(text)
    first, *gaps = parts[:: count + 1]
    # Eight or more records that all omit fields raised a ValueError.
    last = gaps.pop() if gaps else text
    if first.strip(BLANKS) or last.strip(BLANKS) or {gap.strip(BLANKS) for gap in {*gaps}} - {","}:
        raise NeedsSlowPath
    return [parts[i :: count + 1] for i in range(1, count + 1)]


@lru_cache(maxsize=16)
def _record(type_: model.CompoundType) -> re.Pattern[str]:
    fields = f"{GAP},{GAP}".join([f"({_item(field)})" for field in type_.fields])
    return re.compile(rf"\{{{GAP}{fields}{GAP}\}}")


def _item(field: model.Field) -> str:
    type_ = field.type
    if field.shape or type_.is_nested:
        return RECORD
    if type_.kind == "enum":
        return _WORD
    if type_.kind == "opaque":
        return _HEX
    return STRING if type_.dtype.kind in "OS" else _NUMBER


@lru_cache(maxsize=16)
def _members(type_: model.EnumType) -> dict[str, int]:
    return {f"{type_.name}.{name}": value for name, value in type_.members} | dict(type_.members)


class ElementReader:
    """Reads values and records their problems."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self.begin()

    def begin(self) -> None:
        """Begin with a variable or an attribute: only its first constant that its type changes gets a warning."""
        self._warns = True

    def _warn(self, message: str, token: Token) -> None:
        if self._warns:
            self._problems.warn(message, token.start_pos)
        self._warns = False

    def read_list(
        self,
        out: np.ndarray,
        type_: model.Type,
        items: Iterable[Value],
        fill: object = None,
        attributes: Attributes | None = None,
    ) -> int:
        """Read a flat list into the one-dimensional `out`, up to its end; return the number of elements set.

        `fill` is what ``_`` stands for; `attributes` of a variable of time give quoted dates a meaning.
        """
        done, most = 0, len(out)
        dates = None if attributes is None else date_reader(attributes)
        numeric = type_.is_number
        fast = "NUMBERS" if numeric else _RUNS.get(type(type_))
        for item in items:
            if done >= most:
                split_items(item)  # a run of surplus values is CDL, too, or an error
                continue
            if isinstance(item, Token) and item.type == fast:
                # Unusual and wrong values are read one at a time.
                with suppress(NeedsSlowPath, ConstantError):
                    if numeric:
                        values, missing = parse_run(item, type_.dtype)
                        if missing is not None:
                            values[missing] = missing_value(type_) if fill is None else fill
                    else:
                        values = read_run(type_, item)
                    part = out[done : done + len(values)]
                    part[...] = values[: len(part)]
                    done += len(part)
                    continue
            for value in expand([item]):
                if done >= most:
                    break
                self.read(out, (done,), type_, value, fill, dates)
                done += 1
        return done

    def read(
        self,
        out: np.ndarray,
        index: tuple[int, ...],
        type_: model.Type,
        value: Value,
        fill: object = None,
        dates: Dates | None = None,
    ) -> None:
        """Read one element into ``out[index]``."""
        if isinstance(value, Block):
            self._block(out, index, type_, value)
            return
        if isinstance(value, Call):
            self._call(out, index, type_, value)
            return
        try:
            constant = parse_constant(value)
            if constant.kind == "fill":
                out[index] = missing_value(type_) if fill is None else fill
                return
            element = self._element(type_, constant, value, dates)
        except ConstantError as error:
            self._problems.add(str(error), value)
            return
        if element is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                out[index] = element

    def _element(self, type_: model.Type, constant: Constant, token: Token, dates: Dates | None) -> object:
        if isinstance(type_, model.EnumType):
            return self._member(type_, constant, token)
        if isinstance(type_, model.OpaqueType):
            if constant.kind != "opaque":
                raise ConstantError(
                    f"{constant.shown} is not a value of the opaque type {type_.name!r}; write 0x and digits"
                )
            return np.frombuffer(opaque_bytes(constant.value, type_.size), type_.dtype)[0]
        if type_.is_nested:
            raise ConstantError(
                f"expected '{{': a value of the {type_.kind} type {type_.name!r} stands in braces"
            )
        assert isinstance(type_, model.PrimitiveType)
        if constant.kind == "word":
            raise ConstantError(f"{constant.shown!r} is not a value of the type {type_.name}")
        # ncdump -t prints times as text, of which ncgen reads the year as the number.
        if constant.kind == "string" and dates is not None and type_.dtype.kind in "iuf":
            number = dates(bytes(constant.value).decode("utf-8", "replace"))
            if number is not None:
                return number if type_.is_float else round(number)
        if constant.kind == "string" and type_.name == "char":
            if len(constant.value) > 1:
                raise ConstantError(f"{constant.shown} has more than one character")
            return bytes(constant.value)
        element = convert(constant, type_)
        # ncgen changes such constants without a word.
        if self._warns and (change := change_by(constant, type_, element)) is not None:
            self._warn(change, token)
        return element

    def _member(self, type_: model.EnumType, constant: Constant, token: Token) -> int | None:
        # ncgen refuses numbers here, but a value without a member has no other form.
        if isinstance(constant.value, int) and not constant.is_character:
            limits = np.iinfo(type_.dtype)
            if limits.min <= constant.value <= limits.max:
                # A million numbers of an enum had a million warnings.
                if self._warns and not type_.are_members(np.asarray(constant.value)):
                    self._warn(f"{constant.shown} is no member of the enum {type_.name!r}", token)
                return constant.value
        # A reserved word can be the name of a member.
        if constant.kind != "word" and token.type not in ("SPECIAL_FLOAT", "NIL"):
            raise ConstantError(
                f"{constant.shown} is not a value of the enum {type_.name!r}; write the name of a member"
            )
        members = dict(type_.members)
        for enum, member in split_enum_constant(token):
            # ncgen takes the first enum with such a member, and then refuses its type.
            if enum in (None, type_.name) and member in members:
                return members[member]
        name = split_enum_constant(token)[0][1]
        if name == "_UNDEFINED":  # ncdump prints this for a 0 without a member
            return 0
        hint = did_you_mean(name, [*members, *(f"{type_.name}.{m}" for m in members)])
        self._problems.add(f"the enum {type_.name!r} has no member {name!r}", token, hint=hint)
        return None

    def _call(self, out: np.ndarray, index: tuple[int, ...], type_: model.Type, call: Call) -> None:
        name = as_text(call.name)
        if name != "time":
            hint = "the only function is time"
            self._problems.add(f"there is no function {name!r}", call.name, hint=hint)
            return
        text = call.arguments[0][1:-1] if len(call.arguments) == 1 else ""
        number = _read_date(text, "hours since 1970-01-01", "proleptic_gregorian")
        if number is None or not type_.is_number:
            self._problems.add('expected time("YYYY-MM-DD hh:mm:ss") for a number', call.name)
        elif type_.is_float:
            out[index] = number
        elif np.iinfo(type_.dtype).min <= int(number) <= np.iinfo(type_.dtype).max:
            out[index] = int(number)
        else:
            self._problems.add(f"{int(number)} hours are no value of the type {type_.name}", call.name)

    # Braces.

    def _block(self, out: np.ndarray, index: tuple[int, ...], type_: model.Type, block: Block) -> None:
        if isinstance(type_, model.VlenType):
            out[index] = self._vlen(type_, block)
        elif isinstance(type_, model.CompoundType):
            self._compound(out, index, type_, block)
        else:
            hint = "only compounds, vlens and parts of inner unlimited dimensions stand in braces"
            self._problems.add(
                f"expected a value of the type {type_.name}, not '{{'", position_of(block), hint=hint
            )

    def _vlen(self, type_: model.VlenType, block: Block) -> np.ndarray:
        items = block.values.items
        # ncgen crashes on each sequence of characters, which its manual describes.
        if type_.base == model.CHAR:
            raw = b"".join(self.texts(items, b"\0"))
            return np.frombuffer(raw, "S1").copy()
        values = np.zeros(count_values(items), type_.base.dtype)
        self.read_list(values, type_.base, items, missing_value(type_.base))
        return values

    def _compound(
        self, out: np.ndarray, index: tuple[int, ...], type_: model.CompoundType, block: Block
    ) -> None:
        items = list(expand(block.values.items))
        # ncgen refuses surplus values in braces.
        if len(items) > len(type_.fields):
            self._problems.add(
                f"{len(items)} values for the {len(type_.fields)} fields of the compound type {type_.name!r}",
                position_of(items[len(type_.fields)]) or position_of(block),
            )
            return
        for n, field in enumerate(type_.fields):
            item = items[n] if n < len(items) else None
            if item is None or (isinstance(item, Token) and str(item) == "_"):
                fill_field(out, index, field)
            elif not field.shape:
                self.read(out[field.name], index, field.type, item)
            elif isinstance(item, Block):
                self._field(out[field.name], index, field, item)
            else:
                self._problems.add(
                    f"expected '{{': the values of the array field {field.name!r} stand in braces",
                    position_of(item),
                )

    def _field(self, out: np.ndarray, index: tuple[int, ...], field: model.Field, block: Block) -> None:
        size = math.prod(field.shape)
        # In ncgen, short and long texts of a field shift the rest of the record.
        if field.type == model.CHAR:
            width = field.shape[-1] if len(field.shape) > 1 else 0
            raw = b"".join(pad_rows(self.texts(block.values.items, b"\0"), width, b"\0"))
            count = len(raw)
            if count <= size:
                out[index] = np.frombuffer(raw.ljust(size, b"\0"), "S1").reshape(field.shape)
        else:
            count = count_values(block.values.items)
            flat = np.zeros(size, field.type.dtype)
            done = self.read_list(flat, field.type, block.values.items)
            for n, j in enumerate(np.ndindex(field.shape)):
                out[index + j] = flat[n] if n < done else missing_value(field.type)
        # In ncgen, surplus elements shift the rest of the record.
        if count > size:
            what = f"{count} values for the {size} elements of the field {field.name!r}"
            self._problems.add(what, position_of(block))

    # Text.

    def texts(self, items: Iterable[Value], fill: bytes, ignored: list[Value] | None = None) -> list[bytes]:
        """Return the pieces of text in a list of char: each string, and each run of single characters.

        `fill` is what ``_`` stands for. `ignored` receives the numbers in the list, which ncgen skips; without it
        they are problems.
        """
        pieces: list[bytes] = []
        joining = False
        for item in _with_runs(items):
            if isinstance(item, list | Block):
                pieces += item if isinstance(item, list) else self.texts(item.values.items, fill, ignored)
                joining = False
                continue
            if isinstance(item, Call):
                self._problems.add("expected text, not a function", position_of(item))
                continue
            # One list may have several wrong values, which one run of gen names.
            try:
                constant = parse_constant(item)
            except ConstantError as error:
                self._problems.add(str(error), item)
                continue
            if constant.kind == "string":
                pieces.append(constant.value)
                joining = False
            # A character in apostrophes has ncgen's type byte.
            elif constant.kind in ("byte", "ubyte", "fill"):
                piece = fill if constant.kind == "fill" else bytes([constant.value & 255])
                # ncgen joins characters that follow each other, so that 'a','b' is one row.
                if joining:
                    pieces[-1] += piece
                else:
                    pieces.append(piece)
                joining = True
            # ncgen skips numbers in a list of characters with a warning.
            elif ignored is not None and constant.kind not in ("word", "nil", "opaque"):
                ignored.append(item)
            else:
                self._problems.add(f"expected text, not {constant.shown}", item)
        return pieces


def _with_runs(items: Iterable[Value]) -> Iterator[Value | list[bytes]]:
    """Yield the values of a list one at a time, and a valid run of strings as one list."""
    for item in items:
        if isinstance(item, Token) and item.type == "STRINGS":
            # A wrong escape in a run is found in its own string.
            with suppress(ConstantError):
                yield raw_strings(item)
                continue
        yield from expand([item])


def pad_rows(pieces: Iterable[bytes], width: int, fill: bytes) -> Iterator[bytes]:
    """Pad each piece of text to whole rows, an empty one to one row; leave it unchanged if `width` is 0.

    Examples
    --------
    >>> list(pad_rows([b"abc", b""], 2, b"*"))
    [b'abc*', b'**']
    """
    for piece in pieces:
        rows = max(-(-len(piece) // width), 1) if width else 0
        yield piece.ljust(rows * width, fill)


_SINCE = re.compile(r"\s*\w+\s+since\s+\S+", re.IGNORECASE)
_QUOTED_DATE = re.compile(r"(-?\d+)-(\d+)-(\d+)(?:[ T]+(\d+)(?::(\d+)(?::(\d+)(?:\.(\d+))?)?)?)?Z?")


def date_reader(attributes: Attributes) -> Dates | None:
    """Return a function from date to number for a variable with units of time; else None.

    Examples
    --------
    >>> reader = date_reader({"units": model.Attribute.of("units", "days since 2000-01-01")})
    >>> reader("2000-01-02 12"), reader("no date")
    (1.5, None)
    """
    units = _text_of(attributes, "units")
    if units is None or not _SINCE.match(units):
        return None
    calendar = (_text_of(attributes, "calendar") or "standard").lower()
    return partial(_read_date, units=units, calendar=calendar)


def _read_date(text: str, units: str, calendar: str) -> float | None:
    import cftime

    match = _QUOTED_DATE.fullmatch(text.strip())
    if match is None:
        return None
    parts = [int(part or 0) for part in match.groups()[:6]]
    microsecond = int((match[7] or "0").ljust(6, "0")[:6])
    try:
        date = cftime.datetime(*parts, microsecond, calendar=calendar)
        return float(cftime.date2num(date, units, calendar=calendar))
    except (ValueError, OverflowError, TypeError):
        return None  # unknown unit or calendar: the text is read as any other text


def _text_of(attributes: Attributes, name: str) -> str | None:
    attribute = attributes.get(name)
    return attribute.text if attribute is not None and attribute.type in (model.CHAR, model.STRING) else None
