"""Write models, values and errors as messages of a child process, and check and read these.

The process that sends a message parses damaged files, and a hostile file may have taken it over. So a message names no
code, unlike a pickle: it is JSON of a fixed form, followed by the bytes of the values. The reader compares each length
with the bytes that are there before it allocates memory.

The values of a type are stored one column after another: numbers as their bytes; a string or sequence as its length
(-1 for the null pointer of a string), and behind all lengths the text or the elements; a compound with strings or
sequences as its fields. So no column has fewer bytes than the values have in memory.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import IO, Any, TypeVar

import numpy as np

from nczarr import errors, model
from nczarr.model.nodes import dataset_of
from nczarr.model.types import NullText
from nczarr.system.environment import limit, read_json

#: Sizes of the JSON and of the bytes behind it.
_SIZES = struct.Struct("<QQ")
_LENGTH = np.dtype("<i8")
#: Classes of errors that a message may name; others are read as :class:`NetCDFFileError`.
_ERRORS: dict[str, type[errors.NCZarrError]] = {
    cls.__name__: cls
    for cls in (
        errors.DatasetNotFoundError,
        errors.ModelError,
        errors.NCZarrError,
        errors.NetCDFFileError,
        errors.NotAllowedError,
        errors.SelectionError,
        errors.StoreError,
        errors.UnsupportedError,
    )
}
_T = TypeVar("_T")


class DamagedMessageError(ValueError):
    """A message does not have the form that its reader expects."""


@dataclass(frozen=True)
class Message:
    """A message: JSON, and the bytes of values.

    Examples
    --------
    >>> import io
    >>> stream = io.BytesIO()
    >>> write_message(stream, Message("values", np.arange(3, dtype="i4").tobytes()))
    >>> stream.seek(0)
    0
    >>> read_values(read_message(stream, 100, 12), model.INT, (3,))
    array([0, 1, 2], dtype=int32)
    """

    about: Any
    body: bytes | bytearray = b""


def write_message(stream: IO[bytes], message: Message) -> None:
    """Write a message and flush the stream."""
    about = json.dumps(message.about).encode("ascii")
    stream.write(_SIZES.pack(len(about), len(message.body)) + about)
    stream.write(message.body)
    stream.flush()


def read_message(stream: IO[bytes], most_json: int, most_bytes: int) -> Message:
    """Read a message of at most these sizes.

    Raises
    ------
    EOFError
        If the stream ends before the message.
    DamagedMessageError
        If the message is larger, or not JSON.
    """
    json_size, size = _SIZES.unpack(_read(stream, _SIZES.size))
    # A damaged file may have taken over the child, which then states any size.
    if json_size > most_json:
        raise DamagedMessageError(f"the description has {json_size:,} bytes; {most_json:,} are allowed")
    if size > most_bytes:
        raise DamagedMessageError(f"the values have {size:,} bytes; {most_bytes:,} are allowed")
    about = _read(stream, json_size)
    try:
        return Message(read_json(about.decode("ascii")), _read(stream, size))
    except ValueError as error:
        raise DamagedMessageError(f"the description is not JSON: {error}") from error


def _read(stream: IO[bytes], size: int) -> bytearray:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        # A pipe gives no more bytes than it has.
        count = stream.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        done += count
    return data


# --- values


def values_message(values: np.ndarray, type_: model.Type) -> Message:
    """Return the message of the values of a type."""
    columns: list[bytes] = []
    _append_columns(columns, values, type_)
    return Message("values", b"".join(columns))


def read_values(message: Message, type_: model.Type, shape: tuple[int, ...]) -> np.ndarray:
    """Return the values of :func:`values_message`, which are of this shape."""
    if message.about != "values":
        raise DamagedMessageError("the message has no values")
    columns = _Columns(message.body)
    values = columns.values(type_, math.prod(shape)).reshape(shape)
    columns.end()
    return values


def _append_columns(columns: list[bytes], values: np.ndarray, type_: model.Type) -> None:
    flat = values.reshape(-1)
    if type_.is_fixed_size:
        columns.append(np.ascontiguousarray(flat, type_.dtype).tobytes())
        return
    match type_:
        case model.CompoundType(fields=fields):
            for field in fields:
                _append_columns(columns, flat[field.name], field.type)
        case model.VlenType(base=base):
            columns.append(np.array([len(item) for item in flat], _LENGTH).tobytes())
            _append_columns(columns, np.concatenate([np.empty(0, base.dtype), *flat]), base)
        case _:
            _append_texts(columns, flat)


def _append_texts(columns: list[bytes], flat: np.ndarray) -> None:
    # Text in a file need not be UTF-8.
    texts = [text.encode("utf-8", "surrogateescape") for text in flat]
    nulls = [isinstance(text, NullText) for text in flat]
    # The length -1 tells a null pointer from an empty text.
    lengths = [-1 if null else len(text) for text, null in zip(texts, nulls, strict=True)]
    columns.append(np.array(lengths, _LENGTH).tobytes())
    columns += texts


class _Columns:
    """The columns of a message, which are read in order."""

    def __init__(self, body: bytes | bytearray) -> None:
        self._body = body
        self._at = 0

    def values(self, type_: model.Type, count: int) -> np.ndarray:
        """Return the next values of a type."""
        dtype = type_.dtype
        # A hostile child states a huge count. Memory is taken only for bytes that arrived.
        self._require(count * dtype.itemsize)
        if type_.is_fixed_size:
            values = np.frombuffer(self._body, dtype, count, self._at)
            self._at += count * dtype.itemsize
            return values
        if isinstance(type_, model.CompoundType):
            records = np.zeros(count, dtype)
            for field in type_.fields:
                column = self.values(field.type, count * math.prod(field.shape))
                records[field.name] = column.reshape(count, *field.shape)
            return records
        lengths = self.values(model.INT64, count).tolist()
        is_text = type_.kind != "vlen"
        if count and min(lengths) < (-1 if is_text else 0):
            raise DamagedMessageError(f"a length of {min(lengths)}")
        total = sum(max(length, 0) for length in lengths)
        self._require(total)
        items = np.empty(count, object)
        if isinstance(type_, model.VlenType):
            elements, start = self.values(type_.base, total), 0
            for i, length in enumerate(lengths):
                # A view would keep the elements of all sequences in memory.
                items[i] = elements[start : start + length].copy()
                start += length
            return items
        for i, length in enumerate(lengths):
            text = self._body[self._at : self._at + max(length, 0)].decode("utf-8", "surrogateescape")
            items[i] = NullText() if length < 0 else text
            self._at += max(length, 0)
        return items

    def _require(self, size: int) -> None:
        # A file that has taken over the child may claim any size: no memory is taken for it.
        if size > len(self._body) - self._at:
            raise DamagedMessageError(f"{size:,} bytes are missing")

    def end(self) -> None:
        """Raise an error if bytes follow."""
        if self._at != len(self._body):
            raise DamagedMessageError(f"{len(self._body) - self._at:,} bytes are too many")


# --- models


def dataset_message(dataset: model.Dataset) -> Message:
    """Return the message of a dataset without its data and recorded sources."""
    groups = dataset.all_groups
    place = {type_: i for i, type_ in enumerate(_listed_types(groups.values()))}
    columns: list[bytes] = []

    def named(type_: model.Type) -> str | int:
        return place[type_] if isinstance(type_, model.UserType) else type_.name

    def attributes(owner: model.Group | model.Variable) -> list[object]:
        for attribute in owner.attributes:
            _append_columns(columns, attribute.values, attribute.type)
        return [[a.name, named(a.type), len(a.values)] for a in owner.attributes]

    def declaration(type_: model.UserType) -> list[object]:
        parts: list[object] = []
        match type_:
            case model.EnumType(base=base, members=members):
                parts = [named(base), members]
            case model.OpaqueType(size=size):
                parts = [size]
            case model.VlenType(base=base):
                parts = [named(base)]
            case model.CompoundType(fields=fields):
                parts = [[[f.name, named(f.type), f.shape] for f in fields]]
        return [type_.kind, type_.fqn, *parts]

    def variable(v: model.Variable) -> list[object]:
        s = v.storage
        filters = [[f.id, f.parameters] for f in s.filters]
        storage = [s.layout, s.chunk_shape, filters, s.endian, s.no_fill, s.shard_shape]
        return [v.name, named(v.type), v.dimensions, storage, attributes(v)]

    about = {
        "name": dataset.name,
        "format": dataset.format,
        "left_out": dataset.left_out,
        "gone": dataset.gone,
        "types": [declaration(type_) for type_ in place],
        # A list, since nested objects would limit the depth of the groups.
        "groups": [
            [
                fqn,
                [place[t] for t in group.types],
                [[d.name, d.size, d.unlimited] for d in group.dimensions],
                attributes(group),
                [variable(v) for v in group.variables],
            ]
            for fqn, group in groups.items()
        ],
    }
    return Message(about, b"".join(columns))


def _listed_types(groups: Iterable[model.Group]) -> list[model.UserType]:
    """Return the user-defined types that groups declare or use, each behind the types that it uses."""
    found: dict[model.UserType, None] = {}
    for group in groups:
        owners: list[model.Group | model.Variable] = [group, *group.variables]
        used: list[model.Type] = [*group.types, *(v.type for v in group.variables)]
        used += [a.type for owner in owners for a in owner.attributes]
        for type_ in used:
            found.update(dict.fromkeys(t for t in model.walk_types(type_) if isinstance(t, model.UserType)))
    return list(found)


def read_dataset(message: Message) -> model.Dataset:
    """Return the dataset of :func:`dataset_message`, checked by the rules of the model.

    Raises
    ------
    DamagedMessageError
        If the message is not the one of a dataset.
    ModelError
        If the dataset breaks a rule of the model.
    """
    about = _Object(message.about, {"name", "format", "left_out", "gone", "types", "groups"})
    columns = _Columns(message.body)
    types: list[model.UserType] = []

    def type_of(value: object) -> model.Type:
        if isinstance(value, str) and value in model.PRIMITIVES:
            return model.PRIMITIVES[value]
        return types[_int(value, len(types))]

    def attributes(value: object) -> tuple[model.Attribute, ...]:
        rows = [_row(row, 3) for row in _list(value)]
        kinds = [(_text(name), type_of(type_), _int(count)) for name, type_, count in rows]
        return tuple(
            [model.Attribute(name, type_, columns.values(type_, count)) for name, type_, count in kinds]
        )

    def variable(value: object) -> model.Variable:
        name, type_, dimensions, storage, own = _row(value, 5)
        references = [d if isinstance(d, str) else _int(d) for d in _list(dimensions)]
        return model.Variable(
            _text(name),
            type_of(type_),
            tuple(references),
            attributes=attributes(own),
            storage=_storage(storage),
        )

    depth: dict[int, int] = {}
    for declaration in about.items("types"):
        type_ = _user_type(declaration, type_of)
        depth[id(type_)] = 1 + max([depth[id(part)] for part in model.parts_of(type_)], default=0)
        if depth[id(type_)] > limit("NCZARR_MAX_DEPTH"):  # before anything recurses into it
            raise DamagedMessageError("types are nested too deeply")
        types.append(type_)
    groups: dict[str, model.Group] = {}
    for row in about.items("groups"):
        fqn, own_types, dimensions, own, variables = _row(row, 5)
        sizes = [_row(d, 3) for d in _list(dimensions)]
        parts = model.parse_fqn(_text(fqn))
        # In the order of the writer, since the attributes' values are read here.
        group_attributes = attributes(own)
        groups[_text(fqn)] = model.Group(
            parts[-1] if parts else "",
            types=tuple([types[_int(t, len(types))] for t in _list(own_types)]),
            dimensions=tuple([model.Dimension(_text(n), _int(s), _bool(u)) for n, s, u in sizes]),
            attributes=group_attributes,
            variables=tuple([variable(v) for v in _list(variables)]),
        )
    columns.end()
    return model.resolve(
        replace(
            _tree(groups, about.text("name"), about.optional_text("format")),
            left_out=tuple([_text(what) for what in about.items("left_out")]),
            gone=tuple([_text(what) for what in about.items("gone")]),
        )
    )


def _tree(groups: dict[str, model.Group], name: str, format_: str | None) -> model.Dataset:
    """Return the dataset of groups that are listed by FQN, parents first."""
    children: dict[str, list[str]] = {fqn: [] for fqn in groups}
    for i, fqn in enumerate(groups):
        parent = model.split_fqn(fqn)[0] if fqn != model.ROOT else None
        if (parent is None) != (i == 0) or (parent is not None and parent not in children):
            raise DamagedMessageError("a group has no parent")
        if parent is not None:
            children[parent].append(fqn)
    for fqn in reversed(groups):
        groups[fqn] = replace(groups[fqn], groups=tuple([groups[child] for child in children[fqn]]))
    if model.ROOT not in groups:
        raise DamagedMessageError("the root is missing")
    return dataset_of(groups[model.ROOT], name, format_)


def _user_type(value: object, type_of: Callable[[object], model.Type]) -> model.UserType:
    kind, fqn, *rest = _list(value, 3)
    fqn = _text(fqn)
    if kind == model.EnumType.kind:
        base, members = _row(rest, 2)
        base_type = type_of(base)
        if not isinstance(base_type, model.PrimitiveType):
            raise DamagedMessageError("the base of an enum is no integer")
        pairs = [_row(member, 2) for member in _list(members)]
        numbers = [(_text(name), _int(number, 1 << 64, -(1 << 63))) for name, number in pairs]
        return model.EnumType(fqn, base_type, tuple(numbers))
    [inside] = _row(rest, 1)
    if kind == model.OpaqueType.kind:
        return model.OpaqueType(fqn, _int(inside, 1 << 31, 1))
    if kind == model.VlenType.kind:
        return model.VlenType(fqn, type_of(inside))
    if kind != model.CompoundType.kind:
        raise DamagedMessageError("an unknown class of types")
    fields = [_row(field, 3) for field in _list(inside, 1)]
    made = [model.Field(_text(name), type_of(t), _shape(shape)) for name, t, shape in fields]
    compound = model.CompoundType(fqn, tuple(made))
    try:
        names = compound.dtype.names
    except (
        TypeError,
        ValueError,
        OverflowError,
    ) as error:  # fields of one name, too many bytes or dimensions
        raise DamagedMessageError(f"a compound has no form in memory: {error}") from error
    # numpy gives an empty name one of its own (f0).
    if names != tuple([field.name for field in made]):
        raise DamagedMessageError("a field has no name")
    return compound


def _storage(value: object) -> model.Storage:
    layout, chunks, filters, endian, no_fill, shards = _row(value, 6)
    pairs = [_row(pair, 2) for pair in _list(filters)]
    return model.Storage(
        _optional(layout, _text),
        _optional(chunks, _shape),
        tuple([model.Filter(_int(number), _shape(parameters)) for number, parameters in pairs]),
        _text(endian),
        _bool(no_fill),
        _optional(shards, _shape),
    )


# --- JSON of known types


class _Object:
    """A JSON object with exactly these members."""

    def __init__(self, value: object, names: set[str]) -> None:
        if not isinstance(value, dict) or value.keys() != names:
            raise DamagedMessageError(f"no object with the members {', '.join(sorted(names))}")
        self._value = value

    def text(self, name: str) -> str:
        return _text(self._value[name])

    def optional_text(self, name: str) -> str | None:
        return _optional(self._value[name], _text)

    def items(self, name: str) -> list[Any]:
        return _list(self._value[name])


def _optional(value: object, read: Callable[[object], _T]) -> _T | None:
    return None if value is None else read(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise DamagedMessageError("a text is missing")
    return value


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise DamagedMessageError("true or false is missing")
    return value


def _int(value: object, below: int = 1 << 63, least: int = 0) -> int:
    if type(value) is not int or not least <= value < below:  # bool is a subclass of int
        raise DamagedMessageError("an integer is missing, or not in its range")
    return value


def _list(value: object, least: int = 0) -> list[Any]:
    if not isinstance(value, list) or len(value) < least:
        raise DamagedMessageError("a list is missing, or too short")
    return value


def _row(value: object, length: int) -> list[Any]:
    if not isinstance(value, list) or len(value) != length:
        raise DamagedMessageError(f"a list of {length} is missing")
    return value


def _shape(value: object) -> tuple[int, ...]:
    return tuple([_int(n) for n in _list(value)])


# --- errors


def error_message(error: errors.NCZarrError) -> Message:
    """Return the message of an error."""
    kinds = (cls.__name__ for cls in type(error).__mro__)
    kind = next(name for name in kinds if name in _ERRORS)
    return Message({"error": [kind, error.message, error.path, error.fqn, error.hint]})


def error_of(message: Message) -> errors.NCZarrError | None:
    """Return the error of :func:`error_message`; None for another message."""
    if not isinstance(message.about, dict) or "error" not in message.about:
        return None
    kind, text, *places = _row(message.about["error"], 5)
    path, fqn, hint = [_optional(place, _text) for place in places]
    # The child names a class by text. Only those of the table are raised here.
    cls = _ERRORS.get(_text(kind), errors.NetCDFFileError)
    return cls(_text(text), path=path, fqn=fqn, hint=hint)
