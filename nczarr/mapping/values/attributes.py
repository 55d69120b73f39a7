"""Write attributes as JSON, readable by people and by xarray, and exact (``docs/spec/nczarr-v3.md``, *Attributes*).

An attribute stands under its own name as plain JSON. What plain JSON cannot say goes to ``_nczarr_attr``:
``types`` (the type, where JSON's default is wrong), ``exact`` (the exact value of an attribute whose plain form
loses something, or that has no plain form) and ``order`` (all names, unless they are sorted already: some
programs sort every JSON object that they rewrite).
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from nczarr.errors import MetadataError
from nczarr.mapping.values.json import (
    array_of,
    bytes_from_json,
    bytes_to_json,
    check_unicode,
    float_from_json,
    float_to_json,
    from_base64,
    scalar_from_json,
    scalar_to_json,
    show,
)
from nczarr.mapping.values.types import find_type, type_name
from nczarr.model import (
    BYTE,
    CHAR,
    DOUBLE,
    INT64,
    STRING,
    UINT64,
    Attribute,
    EnumType,
    PrimitiveType,
    Type,
    UserType,
    VlenType,
    same_values,
)

ATTR_KEY = "_nczarr_attr"
#: Attribute names that belong to NCZarr; an attribute of the model with such a name has no plain form.
RESERVED = frozenset({"_nczarr_superblock", "_nczarr_group", "_nczarr_array", ATTR_KEY, "zarr_conventions"})
_FILL = "_FillValue"
_INT64 = np.iinfo(np.int64)


class _Hidden(Exception):
    """The attribute has no plain form."""


# --- the plain form


def _plain(attribute: Attribute, array: Type | None) -> Any:
    """The plain JSON form of an attribute, which may lose something."""
    values = attribute.values
    if attribute.name == _FILL and array is not None:
        return _plain_fill(attribute, array)
    if attribute.type == CHAR:
        # What netCDF4-python, and so xarray, shows for the same bytes.
        return values.tobytes().decode("utf-8", "replace").replace("\0", "")
    if attribute.type == STRING:
        items: list[Any] = [_visible_text(v) for v in values]
    elif attribute.type.dtype.kind == "f" and attribute.name == "missing_value" and array is not None:
        # xarray takes text for a value to be masked, and null for none: NaN needs no masking.
        items = [None if math.isnan(v) else float_to_json(v) for v in values]
    else:
        items = [scalar_to_json(attribute.type, v) for v in values]
    return items[0] if len(items) == 1 and not isinstance(attribute.type, VlenType) else items


def _visible_text(value: str | None) -> str:
    raw = (value or "").encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "replace").replace("\0", "")


def _base(type_: Type) -> Type:
    return type_.base if isinstance(type_, EnumType) else type_


def _plain_fill(attribute: Attribute, array: Type) -> Any:
    """xarray's form of ``_FillValue`` on Zarr v3: integers plain, floats as base64 of a little-endian double."""
    type_, own = _base(array), _base(attribute.type)
    if len(attribute.values) != 1 or not _is_number(type_) or not _is_number(own):
        raise _Hidden
    value = attribute.values[0]
    if type_.dtype.kind == "f":
        return base64.b64encode(struct.pack("<d", value)).decode("ascii")
    if own.dtype.kind == "f" and not (math.isfinite(value) and float(value).is_integer()):
        raise _Hidden
    limits = np.iinfo(type_.dtype)
    if not limits.min <= int(value) <= limits.max:
        raise _Hidden
    return int(value)


def _is_number(type_: Type) -> bool:
    return isinstance(type_, PrimitiveType) and type_.dtype.kind in "iuf"


# --- from the plain form


def default_type(name: str, value: Any, array: Type | None) -> Type | None:
    """The type of an attribute that has no annotation; None if its JSON is not a value of the model."""
    if name == _FILL and array is not None and _is_number(_base(array)):
        return array
    if isinstance(value, str):
        return CHAR
    items = value if isinstance(value, list) else [value]
    if not items or any(isinstance(i, bool) or not isinstance(i, int | float | str) for i in items):
        return None
    if any(isinstance(i, str) for i in items):
        return STRING if all(isinstance(i, str) for i in items) else None
    if any(isinstance(i, float) for i in items):
        return DOUBLE
    if all(_INT64.min <= i <= _INT64.max for i in items):
        return INT64
    return UINT64 if all(0 <= i < 2**64 for i in items) else None


def _says_too_little(value: Any) -> bool:
    """True if every number is whole: JSON software may rewrite ``1.0`` as ``1``."""
    items = value if isinstance(value, list) else [value]
    return all(isinstance(i, float) and i.is_integer() for i in items)


def _from_plain(name: str, value: Any, type_: Type, array: Type | None) -> np.ndarray:
    """The values that a plain form stands for, as the type given."""
    if type_ == CHAR and not (name == _FILL and array is not None and _is_number(_base(array))):
        if isinstance(value, list) and not value:
            return np.empty(0, "S1")
        if not isinstance(value, str):
            raise MetadataError(f"{show(value)} is not text")
        return np.frombuffer(bytes_from_json(value), "S1").copy()
    items = value if isinstance(value, list) else [value]
    if name == _FILL and array is not None and _base(array).dtype.kind == "f" and _is_number(_base(type_)):
        items = [_unpack_fill(item, type_) for item in items]
        return array_of(type_, items)
    if type_.dtype.kind == "f":
        nan = type_.dtype.type(math.nan)
        return array_of(type_, [nan if i is None else float_from_json(i, type_.dtype) for i in items])
    if type_ == BYTE:  # other programs' true and false
        items = [int(item) if isinstance(item, bool) else item for item in items]
    return array_of(type_, [scalar_from_json(type_, item) for item in items])


def _unpack_fill(value: Any, type_: Type) -> Any:
    if isinstance(value, str) and len(value) == 12 and value.endswith("="):
        raw = from_base64(value)
        if len(raw) == 8:
            number = np.frombuffer(raw, "<f8")[0]
            with np.errstate(all="ignore"):
                return number.astype(type_.dtype)
    return scalar_from_json(type_, value)


# --- the exact form


def _exact(attribute: Attribute) -> Any:
    if attribute.type == CHAR:
        return bytes_to_json(attribute.values.tobytes())
    return [scalar_to_json(attribute.type, v) for v in attribute.values]


def _from_exact(value: Any, type_: Type) -> np.ndarray:
    if type_ == CHAR:
        return np.frombuffer(bytes_from_json(value), "S1").copy()
    if not isinstance(value, list):
        raise MetadataError(f"exact: {show(value)} is not a list")
    return array_of(type_, [scalar_from_json(type_, item) for item in value])


# --- both ways


def encode_attributes(
    attributes: Iterable[Attribute],
    *,
    array: Type | None = None,
    reserved: frozenset[str] = RESERVED,
    annotate_text: bool = False,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the attributes in plain form, and the content of ``_nczarr_attr`` (empty: write none).

    `array` is the type of the variable that owns them: ``_FillValue`` has rules of its own there. `reserved` are
    names that have no plain form. `annotate_text` says the type of every text, as NZUG-1.0 needs it, where text
    alone is a string.

    Examples
    --------
    >>> from nczarr.model import FLOAT
    >>> encode_attributes([Attribute.of("units", "K"), Attribute.of("z", 0.5, FLOAT)])
    ({'units': 'K', 'z': 0.5}, {'types': {'z': 'float32'}})
    """
    plain: dict[str, Any] = {}
    types: dict[str, str] = {}
    exact: dict[str, Any] = {}
    order: list[str] = []
    for attribute in attributes:
        name = attribute.name
        order.append(name)
        try:
            if name in reserved:
                raise _Hidden
            value = _plain(attribute, array)
        except _Hidden:
            exact[name] = _exact(attribute)
            types[name] = type_name(attribute.type)
            continue
        plain[name] = value
        default = default_type(name, value, array)
        text = annotate_text and attribute.type in (CHAR, STRING)
        whole = default == DOUBLE and _says_too_little(value)
        if default != attribute.type or text or whole:
            types[name] = type_name(attribute.type)
        if not _survives(attribute, value, array):
            exact[name] = _exact(attribute)
    info: dict[str, Any] = {}
    if types:
        info["types"] = types
    if exact:
        info["exact"] = exact
    if len(plain) != len(order) or not _keeps_order(order):
        info["order"] = order
    return plain, info


def _keeps_order(names: list[str]) -> bool:
    """True if programs that sort JSON objects, or put numbers first (as JavaScript does), leave the order alone."""
    return all(a < b for a, b in pairwise(names)) and not any(n.isascii() and n.isdigit() for n in names)


def _survives(attribute: Attribute, value: Any, array: Type | None) -> bool:
    if attribute.type == CHAR and isinstance(value, str) and value.isascii() and attribute.name != _FILL:
        return attribute.values.tobytes() == value.encode()
    try:
        return same_values(attribute.values, _from_plain(attribute.name, value, attribute.type, array))
    except MetadataError:
        return False


#: Attributes of one value by name, type of the JSON, value, annotated type and the type of the variable.
Known = dict[tuple[str, type, Any, str | None, Type | None], Attribute]
#: Is told the name of an attribute whose annotation no longer fits, and why; the name is empty for all of them.
Stale = Callable[[str, str], None]


def decode_attributes(
    plain: Mapping[str, Any],
    info: Any,
    types: Mapping[str, UserType],
    *,
    array: Type | None = None,
    reserved: frozenset[str] = RESERVED,
    stale: Stale | None = None,
    known: Known | None = None,
) -> tuple[Attribute, ...]:
    """Return the attributes that :func:`encode_attributes` wrote; its exact inverse.

    Other programs change attributes and know nothing of annotations. With `stale`, what no longer fits is told and
    ignored, and the plain form alone says what the attribute is. `known` keeps attributes between
    calls: the same one is made once.

    Raises
    ------
    MetadataError
        If the two do not fit together, and there is no `stale`.

    Examples
    --------
    >>> decode_attributes({"n": 1}, {"types": {"n": "int16"}}, {})
    (Attribute(name='n', type=SHORT, values=array([1], dtype=int16)),)
    >>> told = []
    >>> decode_attributes({"n": 1.5}, {"types": {"n": "int16"}}, {}, stale=lambda *what: told.append(what))
    (Attribute(name='n', type=DOUBLE, values=array([1.5])),)
    >>> told
    [('n', '1.5 is not a value of int16')]
    """
    annotated, exact, order = _members(info, stale)
    names = [n for n in plain if n not in reserved]
    hidden = [n for n in exact if (n not in plain or n in reserved) and (n in reserved or n == _FILL)]
    if hidden or (order and names != order):
        place = {n: i for i, n in enumerate(order)}
        # Names that another program added since stand at the end.
        names = sorted(dict.fromkeys([*names, *hidden]), key=lambda n: place.get(n, len(order)))
    decoder = _Decoder(plain, annotated, exact, types, array, reserved, stale)
    known = {} if known is None else known
    if stale is not None:
        for name in (*annotated, *exact) if not (annotated.keys() <= plain.keys() >= exact.keys()) else ():
            if name not in names:
                stale(name, "the attribute is gone")
    result = []
    for name in names:
        # Variables have many attributes in common: they are looked up before they are made.
        value, annotation = plain.get(name), annotated.get(name)
        kind = value.__class__
        simple = kind is str or ((kind is int or kind is float) and value)  # 0.0 equals -0.0
        atomic = annotation is None or (annotation.__class__ is str and not annotation.startswith("/"))
        key = None
        if simple and atomic and name not in exact:
            key = (name, kind, value, annotation, array if name == _FILL else None)
            if (same := known.get(key)) is not None:
                result.append(same)
                continue
        try:
            attribute = decoder.decode(name)
            if key is not None:
                attribute.values.flags.writeable = False
                known[key] = attribute
            result.append(attribute)
        except MetadataError as error:
            if stale is None:
                error.message = f"attribute {name!r}: {error.message}"
                raise
            stale(name, error.message)
            if name in plain and name not in reserved:
                result.append(infer_attribute(name, plain[name], array))
    return tuple(result)


def _members(info: Any, stale: Stale | None) -> tuple[Mapping[str, Any], Mapping[str, Any], list[str]]:
    """The members `types`, `exact` and `order`; with `stale`, one that is damaged does not take the others along."""

    def wrong(message: str) -> None:
        if stale is None:
            raise MetadataError(message)
        stale("", message)

    if info is None:
        return {}, {}, []
    if not isinstance(info, dict):
        wrong(f"{ATTR_KEY}: {show(info)} is not an object")
        return {}, {}, []
    found = []
    for key in ("types", "exact"):
        member = info.get(key, {})
        if not isinstance(member, dict):
            wrong(f"{ATTR_KEY}.{key}: {show(member)} is not an object")
            member = {}
        found.append(member)
    order = info.get("order", [])
    names = [n for n in order if isinstance(n, str)] if isinstance(order, list) else []
    if not isinstance(order, list) or len(names) < len(order):
        wrong(f"{ATTR_KEY}.order: {show(order)} is not a list of names")
    return found[0], found[1], names


@dataclass
class _Decoder:
    plain: Mapping[str, Any]
    annotated: Mapping[str, Any]
    exact: Mapping[str, Any]
    types: Mapping[str, UserType]
    array: Type | None
    reserved: frozenset[str]
    stale: Stale | None

    def decode(self, name: str) -> Attribute:
        check_unicode(name, "attributes")
        plain, array = self.plain, self.array
        visible = name in plain and name not in self.reserved
        type_ = None
        if name in self.annotated:
            type_ = find_type(self.annotated[name], self.types)
        if name in self.exact:
            known = type_ or (default_type(name, plain[name], array) if visible else None)
            if known is None:
                raise MetadataError("it has an exact value, but no type")
            attribute = Attribute(name, known, _from_exact(self.exact[name], known))
            if not visible or _still_means(attribute, plain[name], array):
                return attribute
            # Another program changed the plain form since: that is what counts.
            if self.stale is not None:
                self.stale(name, "its plain form was changed")
        if type_ is None:
            return infer_attribute(name, plain[name], array)
        return Attribute(name, type_, _from_plain(name, plain[name], type_, array))


def _still_means(attribute: Attribute, value: Any, array: Type | None) -> bool:
    try:
        return _same(_plain(attribute, array), value)
    except _Hidden:
        return False


def _same(a: Any, b: Any) -> bool:
    """True for the same JSON; numbers by value, as other programs write 1.0 as 1."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(v, b[k]) for k, v in a.items())
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def infer_attribute(name: str, value: Any, array: Type | None = None) -> Attribute:
    """Return the attribute for plain JSON without an annotation.

    Text is char, a list of texts string, integers int64 (uint64 where they need it), real numbers double, true
    and false byte 1 and 0. The words NaN, Infinity and -Infinity among real numbers are numbers. Everything else
    (null, objects, mixed or nested lists) becomes its JSON as text.

    Examples
    --------
    >>> infer_attribute("a", [1, 2.5]).type, infer_attribute("b", {"x": None}).text
    (DOUBLE, '{"x":null}')
    """
    check_unicode(name, "attributes")
    type_ = default_type(name, value, array)
    if type_ is not None:
        try:
            return Attribute(name, type_, _from_plain(name, value, type_, array))
        except MetadataError:
            if type_ is not array:
                raise
            # A fill value that its variable cannot have is an attribute like any other.
            return infer_attribute(name, value)
    items = value if isinstance(value, list) else [value]
    if items and all(isinstance(i, bool) for i in items):
        return Attribute(name, BYTE, np.array(items, "i1"))
    if any(isinstance(i, float | int) and not isinstance(i, bool) for i in items):
        try:
            return Attribute(name, DOUBLE, array_of(DOUBLE, [_real(i) for i in items]))
        except MetadataError:
            pass
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=True)
    return Attribute(name, CHAR, np.frombuffer(text.encode("utf-8", "replace"), "S1").copy())


def _real(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) > 2**53):
        raise MetadataError(f"{show(value)} is not a real number")
    return float_from_json(value, DOUBLE.dtype)
