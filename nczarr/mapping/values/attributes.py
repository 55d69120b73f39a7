"""Write attributes as JSON that is readable for people and xarray, and exact; read them.

The specification is ``docs/spec/nczarr-v3.md``, *Attributes*. An attribute has plain JSON under its own name. The key
``_nczarr_attr`` adds the information that plain JSON lacks: ``types`` (where the default type of the JSON is wrong),
``exact`` (the exact value of an attribute whose plain form is inexact or missing) and ``order`` (all names, unless they
are sorted: some programs sort every JSON object that they rewrite).
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import TypeGuard, cast

import numpy as np

from nczarr import model
from nczarr.errors import MetadataError
from nczarr.json_values import JsonObject, as_text, checked_text, show, texts_in
from nczarr.mapping.values import scalars
from nczarr.mapping.values.declarations import find_type, type_name
from nczarr.mapping.values.scalars import Scalar
from nczarr.model import BYTE, CHAR, DOUBLE, STRING, Attribute, Type, UserType

ATTR_KEY = "_nczarr_attr"
#: Attribute names of NCZarr; an attribute of the model with such a name has no plain form.
RESERVED = frozenset(
    {"_nczarr_superblock", "_nczarr_group", "_nczarr_array", ATTR_KEY, "_nczarr_copy", "zarr_conventions"}
)
_FILL = "_FillValue"
_INT64 = np.iinfo(np.int64)


class _Hidden(Exception):
    """The attribute has no plain form."""


def _is_number(type_: Type | None) -> bool:
    return type_ is not None and type_.is_number


def _is_numeric_fill(name: str, array: Type | None) -> bool:
    """Return whether an attribute is the fill value of a variable of numbers, or of an enum."""
    return name == _FILL and array is not None and _is_number(array.value_type)


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


# --- the plain form


def _plain(attribute: Attribute, array: Type | None) -> object:
    """Return the plain JSON of an attribute, which may be inexact."""
    values = attribute.values
    if attribute.name == _FILL and array is not None:
        return _plain_fill(attribute, array)
    if attribute.type == CHAR:
        # netCDF4-python, and therefore xarray, shows the same bytes like this.
        return values.tobytes().decode("utf-8", "replace").replace("\0", "")
    if attribute.type == STRING:
        raw = [(v or "").encode("utf-8", "surrogateescape") for v in values]
        items: list[object] = [r.decode("utf-8", "replace").replace("\0", "") for r in raw]
    elif attribute.type.dtype.kind == "f" and attribute.name == "missing_value" and array is not None:
        # xarray masks values equal to a text, and nothing for null: NaN is masked in any case.
        items = [None if math.isnan(v) else scalars.float_to_json(v) for v in values]
    else:
        items = scalars.values_to_json(attribute.type, values)
    return items[0] if len(items) == 1 and attribute.type.kind != "vlen" else items


def _plain_fill(attribute: Attribute, array: Type) -> object:
    """Return ``_FillValue`` as xarray on Zarr v3: integers plain, floats as base64 of a little-endian double."""
    type_, own = array.value_type, attribute.type.value_type
    # xarray ends the opening of the whole dataset for a _FillValue of text, or of several values.
    if len(attribute.values) != 1 or not _is_number(type_) or not _is_number(own):
        raise _Hidden
    value = attribute.values[0]
    # xarray ends the opening for a float _FillValue that is a number.
    if type_.dtype.kind == "f":
        return base64.b64encode(struct.pack("<d", value)).decode("ascii")
    if own.dtype.kind == "f" and not (math.isfinite(value) and float(value).is_integer()):
        raise _Hidden
    limits = np.iinfo(type_.dtype)
    if not limits.min <= int(value) <= limits.max:
        raise _Hidden
    return int(value)


def _default_type(name: str, value: object, array: Type | None) -> Type | None:
    """Return the type of an attribute without annotation; None if the model has no value for its JSON."""
    if _is_numeric_fill(name, array):
        return array
    if isinstance(value, str):
        return CHAR
    items = _items(value)
    kinds = {*map(type, items)}
    if kinds == {str}:
        return STRING
    if kinds in ({float}, {float, int}):
        return DOUBLE
    if kinds != {int}:
        return None
    numbers = cast("list[int]", items)
    low, high = min(numbers), max(numbers)
    if _INT64.min <= low and high <= _INT64.max:
        return model.INT64
    return model.UINT64 if low >= 0 and high < 2**64 else None


def _is_json_number(value: object) -> TypeGuard[int | float]:
    # In Python, true and false are integers; in JSON they are not.
    return isinstance(value, int | float) and not isinstance(value, bool)


def _from_plain(name: str, value: object, type_: Type, array: Type | None) -> np.ndarray:
    """Return the values of a plain form as a type."""
    if type_ == CHAR and not _is_numeric_fill(name, array):
        if value == []:
            return np.empty(0, "S1")
        return _chars(checked_text(value, "", "text"))
    items = _items(value)
    if (
        name == _FILL
        and array is not None
        and array.value_type.dtype.kind == "f"
        and _is_number(type_.value_type)
    ):
        return scalars.array_of(type_, [_unpack_fill(item, type_) for item in items])
    if type_.dtype.kind == "f":
        items = [math.nan if item is None else item for item in items]
    if type_ == BYTE:  # true and false of other programs
        items = [int(item) if isinstance(item, bool) else item for item in items]
    return scalars.values_from_json(type_, items)


def _chars(value: object) -> np.ndarray:
    return np.frombuffer(scalars.bytes_from_json(value), "S1").copy()


def _unpack_fill(value: object, type_: Type) -> Scalar:
    text = as_text(value)
    # Eight bytes in base64, as xarray writes them on Zarr v3: no number of JSON has this form.
    if len(text) == 12 and text.endswith("="):
        raw = scalars.from_base64(text)
        if len(raw) == 8:
            number = np.frombuffer(raw, "<f8")[0]
            with np.errstate(all="ignore"):
                return number.astype(type_.dtype)
    return scalars.scalar_from_json(type_, value)


# --- the exact form


def _exact(attribute: Attribute) -> object:
    if attribute.type == CHAR:
        return scalars.bytes_to_json(attribute.values.tobytes())
    return scalars.values_to_json(attribute.type, attribute.values)


def _from_exact(value: object, type_: Type) -> np.ndarray:
    if type_ == CHAR:
        return _chars(value)
    if not isinstance(value, list):
        raise MetadataError(f"exact: {show(value)} is not a list")
    return scalars.values_from_json(type_, value)


# --- writing


def encode_attributes(
    attributes: Iterable[Attribute],
    *,
    array: Type | None = None,
    reserved: frozenset[str] = RESERVED,
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the attributes in plain form, and the content of ``_nczarr_attr`` (empty: write none).

    Parameters
    ----------
    array : Type, optional
        The type of the variable that has the attributes; it determines the form of ``_FillValue``.
    reserved : frozenset of str
        Names that have no plain form.

    Examples
    --------
    >>> from nczarr.model import FLOAT
    >>> encode_attributes([Attribute.of("units", "K"), Attribute.of("z", 0.5, FLOAT)])
    ({'units': 'K', 'z': 0.5}, {'types': {'z': 'float32'}})
    """
    plain: dict[str, object] = {}
    types: dict[str, str] = {}
    exact: dict[str, object] = {}
    order: list[str] = []
    for attribute in attributes:
        name = attribute.name
        order.append(name)
        if attribute.json is not None and name not in reserved:  # the default of its JSON is this attribute
            plain[name] = json.loads(attribute.json)
            continue
        try:
            if name in reserved:
                raise _Hidden
            value = _plain(attribute, array)
        except _Hidden:
            exact[name] = _exact(attribute)
            types[name] = type_name(attribute.type)
            continue
        plain[name] = value
        default = _default_type(name, value, array)
        # JSON software may rewrite 1.0 as 1.
        whole = default == DOUBLE and all(isinstance(i, float) and i.is_integer() for i in _items(value))
        if default != attribute.type or whole:
            types[name] = type_name(attribute.type)
        if not _is_reversible(attribute, value, array):
            exact[name] = _exact(attribute)
    info: dict[str, object] = {}
    if types:
        info["types"] = types
    if exact:
        info["exact"] = exact
    # Some programs sort JSON objects, or put numbers first, as JavaScript does.
    is_stable = all(a < b for a, b in pairwise(order)) and not any(n.isascii() and n.isdigit() for n in order)
    if len(plain) != len(order) or not is_stable:
        info["order"] = order
    return plain, info


def _is_reversible(attribute: Attribute, value: object, array: Type | None) -> bool:
    if attribute.type == CHAR and isinstance(value, str) and value.isascii() and attribute.name != _FILL:
        return attribute.values.tobytes() == value.encode()
    try:
        return model.same_values(attribute.values, _from_plain(attribute.name, value, attribute.type, array))
    except MetadataError:
        return False


# --- reading

#: Attributes of few values, by name, type of the JSON, value, annotated type and the type of the variable.
AttributeCache = dict[tuple[str, type, object, str | None, Type | None], Attribute]
#: The number of values of an attribute that is looked up in the cache: comparing more takes as long as decoding them.
_FEW = 16
#: Receives the name of an attribute whose annotation does not fit, and the reason; an empty name means all attributes.
Stale = Callable[[str, str], None]


def decode_attributes(
    plain: Mapping[str, object],
    info: object,
    types: Mapping[str, UserType],
    *,
    array: Type | None = None,
    reserved: frozenset[str] = RESERVED,
    stale: Stale | None = None,
    known: AttributeCache | None = None,
) -> tuple[Attribute, ...]:
    """Return the attributes that :func:`encode_attributes` wrote; its exact inverse.

    Other programs change attributes without their annotations. With `stale`, an annotation that does not fit is
    reported and ignored, and the plain form determines the attribute. `known` caches attributes between calls.

    Raises
    ------
    MetadataError
        Annotations and attributes do not fit together, and there is no `stale`.

    Examples
    --------
    >>> decode_attributes({"n": 1}, {"types": {"n": "int16"}}, {})
    (Attribute(name='n', type=SHORT, values=array([1], dtype=int16)),)
    >>> reported = []
    >>> decode_attributes({"n": 1.5}, {"types": {"n": "int16"}}, {}, stale=lambda *what: reported.append(what))
    (Attribute(name='n', type=DOUBLE, values=array([1.5])),)
    >>> reported
    [('n', '1.5 is not a value of int16')]
    """
    decoder = _Decoder(plain, info, types, array, reserved, stale)
    known = {} if known is None else known
    result = []
    for name in decoder.names():
        # Variables have many attributes in common, so the cache saves most of the work.
        key = decoder.cache_key(name)
        attribute = None if key is None else known.get(key)
        if attribute is None:
            try:
                attribute = decoder.decode(name)
            except MetadataError as error:
                result += decoder.recovered(name, error)
                continue
            # The cache gives the same attribute to other variables.
            if key is not None:
                attribute.values.flags.writeable = False
                known[key] = attribute
        result.append(attribute)
    return tuple(result)


class _Decoder:
    """Decodes the attributes of one node; with `stale`, a damaged annotation does not affect the others."""

    def __init__(
        self,
        plain: Mapping[str, object],
        info: object,
        types: Mapping[str, UserType],
        array: Type | None,
        reserved: frozenset[str],
        stale: Stale | None,
    ) -> None:
        self.plain, self.types, self.array, self.reserved, self.stale = plain, types, array, reserved, stale
        found = self.members({} if info is None else info, ATTR_KEY)
        self.annotated = self.members(found.get("types", {}), f"{ATTR_KEY}.types")
        self.exact = self.members(found.get("exact", {}), f"{ATTR_KEY}.exact")
        order = found.get("order", [])
        self.order = texts_in(order)
        if self.order != order:
            self.wrong(f"{ATTR_KEY}.order: {show(order)} is not a list of names")

    def wrong(self, message: str) -> None:
        if self.stale is None:
            raise MetadataError(message)
        self.stale("", message)

    def members(self, value: object, key: str) -> JsonObject:
        """Return a member of the annotations; an empty object, with a report, if it is none."""
        if isinstance(value, dict):
            return value
        self.wrong(f"{key}: {show(value)} is not an object")
        return {}

    def names(self) -> list[str]:
        """Return the names of all attributes in order, and report annotations of missing attributes."""
        plain, exact, reserved, order = self.plain, self.exact, self.reserved, self.order
        names = [n for n in plain if n not in reserved]
        hidden = [n for n in exact if (n not in plain or n in reserved) and (n in reserved or n == _FILL)]
        if hidden or (order and names != order):
            place = {n: i for i, n in reversed([*enumerate(order)])}  # the first place of a name counts
            # Names that another program added are last.
            names = sorted(dict.fromkeys([*names, *hidden]), key=lambda n: place.get(n, len(order)))
        if self.stale is not None and not (self.annotated.keys() <= plain.keys() >= exact.keys()):
            for name in (*self.annotated, *exact):
                if name not in names:
                    self.stale(name, "the attribute does not exist")
        return names

    def cache_key(self, name: str) -> tuple[str, type, object, str | None, Type | None] | None:
        """Return the key of an attribute of one value or few; None if it cannot be cached."""
        value, annotation = self.plain.get(name), self.annotated.get(name)
        kind = value.__class__
        if isinstance(value, list) and len(value) <= _FEW:
            value = repr(value)  # 1 equals 1.0, and 0.0 equals -0.0
        elif not (kind is str or ((kind is int or kind is float) and value)):
            return None  # 0.0 equals -0.0, so zeros are not cached
        if name in self.exact:
            return None
        if annotation is not None and (not isinstance(annotation, str) or annotation.startswith("/")):
            return None
        return name, kind, value, annotation, self.array if name == _FILL else None

    def decode(self, name: str) -> Attribute:
        scalars.check_unicode(name, "attributes")
        plain, array = self.plain, self.array
        visible = name in plain and name not in self.reserved
        type_ = find_type(self.annotated[name], self.types) if name in self.annotated else None
        if name in self.exact:
            known = type_ or (_default_type(name, plain[name], array) if visible else None)
            if known is None:
                raise MetadataError("it has an exact value, but no type")
            attribute = Attribute(name, known, _from_exact(self.exact[name], known))
            if not visible or _still_means(attribute, plain[name], array):
                return attribute
            # Another program has changed the plain form, which therefore takes precedence.
            if self.stale is not None:
                self.stale(name, "its plain form was changed")
        if type_ is None:
            return infer_attribute(name, plain[name], array)
        return Attribute(name, type_, _from_plain(name, plain[name], type_, array))

    def recovered(self, name: str, error: MetadataError) -> list[Attribute]:
        """Report an annotation that does not fit, and return the attribute of the plain form, if there is one."""
        if self.stale is None:
            error.message = f"attribute {name!r}: {error.message}"
            raise error
        self.stale(name, error.message)
        if name not in self.plain or name in self.reserved:
            return []
        return [infer_attribute(name, self.plain[name], self.array)]


def _still_means(attribute: Attribute, value: object, array: Type | None) -> bool:
    try:
        return _same(_plain(attribute, array), value)
    except _Hidden:
        return False


def _same(a: object, b: object) -> bool:
    """Return whether two JSON values are equal; numbers by value, because other programs write 1.0 as 1."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(v, b[k]) for k, v in a.items())
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def infer_attribute(name: str, value: object, array: Type | None = None) -> Attribute:
    """Return the attribute for plain JSON without an annotation.

    Text is char, a list of texts string, integers int64 (uint64 if necessary), real numbers double, true and false
    byte 1 and 0. The words NaN, Infinity and -Infinity among real numbers are numbers. All other JSON (null, objects,
    mixed or nested lists) is converted to text.

    Examples
    --------
    >>> infer_attribute("a", [1, 2.5]).type, infer_attribute("b", {"x": None}).text
    (DOUBLE, '{"x":null}')
    """
    scalars.check_unicode(name, "attributes")
    type_ = _default_type(name, value, array)
    if type_ is not None:
        try:
            return Attribute(name, type_, _from_plain(name, value, type_, array))
        except MetadataError:
            if type_ is not array:
                raise
            # A fill value that does not fit its variable is an ordinary attribute.
            return infer_attribute(name, value)
    items = _items(value)
    kept = None
    if name != _FILL:
        with suppress(ValueError):  # NaN is no JSON
            kept = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if items and all(isinstance(i, bool) for i in items):
        return Attribute(name, BYTE, np.array(items, "i1"), json=kept)
    if any(map(_is_json_number, items)):
        try:
            return Attribute(name, DOUBLE, scalars.array_of(DOUBLE, [_real(i) for i in items]))
        except MetadataError:
            pass
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=True)
    return Attribute(name, CHAR, np.frombuffer(text.encode("utf-8", "replace"), "S1").copy(), json=kept)


def _real(value: object) -> Scalar:
    # A double holds integers up to 2**53: a larger one would be another number.
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) > 2**53):
        raise MetadataError(f"{show(value)} is not a real number")
    return scalars.float_from_json(value, DOUBLE.dtype)
