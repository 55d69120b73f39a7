"""Parse and write JSON documents with limits; each error is a MetadataError that names the document.

The parser limits size and depth, and rejects duplicate names in the documents of single nodes. It accepts the bare
tokens ``NaN``, ``Infinity`` and ``-Infinity``, which many writers put into attributes. The writer produces UTF-8 and
writes such numbers as the strings ``"NaN"``, ``"Infinity"``, ``"-Infinity"``, as Zarr v3 does; a :class:`BareNumber`
is written as a bare token.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from nczarr.errors import MetadataError
from nczarr.json_values import Json, JsonMapping, JsonObject
from nczarr.lazy import pattern
from nczarr.zarr.limits import LIMITS
from nczarr.zarr.plugins import optional_module
from nczarr.zarr.types import special_number_word

#: Documents up to this size are checked for duplicate names. The check takes half as long as the parsing.
#: Larger documents are consolidated metadata, in which the last of two equal names is used.
MAX_CHECKED = 2**17

_BRACKETS = b"[]{}"
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
_ESCAPE = pattern(r"\\(.)", re.DOTALL)


class _DuplicateName(ValueError):
    pass


def _object(pairs: list[tuple[str, Json]]) -> JsonObject:
    result = dict(pairs)
    # Which of two members counts depends on the library, so that two readers would disagree.
    if len(result) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise _DuplicateName(next(name for name, count in counts.items() if count > 1))
    return result


_DECODER = json.JSONDecoder(object_pairs_hook=_object)
_LENIENT = json.JSONDecoder(strict=False)


def check_bounds(data: bytes, document: str) -> None:
    """Check the size and the depth of a document.

    Raises
    ------
    MetadataError
        If the document exceeds a limit.
    """
    # Without a limit, one document of a hostile store fills the memory.
    if len(data) > LIMITS.document_bytes:
        raise MetadataError(
            f"the metadata document has more than {LIMITS.document_bytes} bytes",
            path=document,
            hint="NCZARR_MAX_DOCUMENT_BYTES sets the limit",
        )
    _check_depth(data, document)


def _check_depth(data: bytes, document: str) -> None:
    # This count includes brackets inside strings, so it is an upper bound. The slower exact count runs only if the
    # bound exceeds the limit.
    brackets = data.translate(None, _OTHERS)
    limit = LIMITS.document_depth
    if len(brackets) <= limit:
        return
    depth = np.cumsum(_STEPS[np.frombuffer(brackets, np.uint8)], dtype=np.int64).max()
    if depth > limit:
        # A greedy group keeps a state for each escape, so that a hostile document would fill the memory.
        plain = re.sub(rb"\\.", b"", data, flags=re.DOTALL)
        outside = re.sub(rb'"[^"]*+"', b"", plain).translate(None, _OTHERS)
        depth = np.cumsum(_STEPS[np.frombuffer(outside, np.uint8)], dtype=np.int64).max(initial=0)
        # The parsers call themselves for each level, and Python's stack ends.
        if depth > limit:
            raise MetadataError(f"the JSON is nested deeper than {limit} levels", path=document)


def parse_part(text: bytes) -> Json:
    """Return the value of a part of a JSON document; the caller has checked its limits and syntax.

    Raises
    ------
    MetadataError
        If an integer has more digits than the interpreter converts.
    """
    read, errors = _fast_reader()
    try:
        return read(text)
    except errors:
        pass
    try:
        return json.loads(bytes(text))
    # Python refuses integers of more than 4,300 digits, since their conversion takes quadratic time.
    except ValueError:
        raise _too_many_digits(None) from None


@functools.cache
def _fast_reader() -> tuple[Callable[[bytes], Json], tuple[type[Exception], ...]]:
    """Return the fastest parser, and the types of its errors; the standard library then has exact messages."""
    library = optional_module("msgspec")
    if library is None:
        return lambda text: json.loads(bytes(text).decode()), (ValueError, RecursionError)
    return library.json.Decoder().decode, (library.MsgspecError, ValueError, RecursionError)


def _too_many_digits(document: str | None) -> MetadataError:
    return MetadataError("not JSON: a number has too many digits", path=document)


def _first_value(text: str) -> Json:
    value, end = _LENIENT.raw_decode(text, len(text) - len(text.lstrip()))
    rest = text[end:].strip()
    # netcdf-c overwrites a longer document without truncating it: the end of the old one remains.
    if rest and not (isinstance(value, dict) and rest.endswith("}")):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def parse_json(data: bytes, document: str, *, lenient: bool = False) -> Json:
    r"""Return the value of a JSON document.

    Parameters
    ----------
    data : bytes
        UTF-8.
    document : str
        The location of the document, for messages.
    lenient : bool
        Also accept the invalid JSON that netcdf-c writes into NCZarr v2 documents: the escape ``\'``, control
        characters inside strings, duplicate names (the last is used), and the end of a longer, overwritten document
        after the object.

    Raises
    ------
    MetadataError
        If the document is not JSON, too large, nested too deep, or (up to `MAX_CHECKED` bytes) has an object with
        duplicate names.

    Examples
    --------
    >>> parse_json(b'{"a": [1, NaN]}', "x/zarr.json")
    {'a': [1, nan]}
    >>> parse_json(b'{"a": 1, "a": 2}', "x/zarr.json")
    Traceback (most recent call last):
    nczarr.errors.MetadataError: x/zarr.json: the name 'a' occurs twice in one object
    """
    check_bounds(data, document)
    if len(data) > MAX_CHECKED and not lenient:
        read, errors = _fast_reader()
        # Python's parser is slower, and names the place of a fault.
        with suppress(*errors):
            return read(data)
    try:
        # Editors on Windows begin a file with a mark of the byte order.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MetadataError(f"not UTF-8 at byte {error.start}", path=document) from None
    try:
        if lenient:
            try:
                return _first_value(text)
            except json.JSONDecodeError:
                # netcdf-c 4.8 and 4.9 write \' inside strings, which is not valid JSON.
                return _first_value(_ESCAPE.sub(lambda match: "'" if match[1] == "'" else match[0], text))
        return _DECODER.decode(text) if len(data) <= MAX_CHECKED else json.loads(text)
    except json.JSONDecodeError as error:
        raise MetadataError(
            f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}", path=document
        ) from None
    except _DuplicateName as error:
        raise MetadataError(f"the name {str(error)!r} occurs twice in one object", path=document) from None
    except RecursionError:  # a caller deep in the stack may reach the interpreter's limit first
        raise MetadataError("the JSON is nested too deep", path=document) from None
    except ValueError:  # an integer with more digits than the interpreter converts
        raise _too_many_digits(document) from None


def parse_object(data: bytes, document: str, *, lenient: bool = False) -> JsonObject:
    """Return the value of a document that must be a JSON object; see `parse_json`.

    Examples
    --------
    >>> parse_object(b"[]", "x/zarr.json")
    Traceback (most recent call last):
    nczarr.errors.MetadataError: x/zarr.json: not a JSON object
    """
    value = parse_json(data, document, lenient=lenient)
    if not isinstance(value, dict):
        raise MetadataError("not a JSON object", path=document)
    return value


def _plain(value: object) -> Json:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    raise TypeError(type(value).__name__)


class BareNumber(float):
    """A non-finite number that is written as a bare token, as in the document of another program."""


def as_it_stands(value: object) -> Json:
    """Return the value of a document with each non-finite number as a :class:`BareNumber`.

    Examples
    --------
    >>> dump_json({"a": as_it_stands([float("nan"), 1.5]), "b": float("nan")}).decode()
    '{"a":[NaN,1.5],"b":"NaN"}'
    """
    return _with_numbers(value, BareNumber)


def _with_numbers(value: object, replace: Callable[[float], float | str]) -> Json:
    """Return a value in which a function has replaced each non-finite number."""
    match value:
        case float() if not math.isfinite(value):
            return replace(value)
        case dict():
            return {key: _with_numbers(item, replace) for key, item in value.items()}
        case list() | tuple():
            return [_with_numbers(item, replace) for item in value]
        case np.generic() | np.ndarray():
            return _with_numbers(value.tolist(), replace)
    return value


def _word(number: float) -> float | str:
    if isinstance(number, BareNumber):
        return number
    return special_number_word(number)


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False, default=_plain
)
_BARE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False, default=_plain)
_ASCII = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=False, default=_plain)


def dump_json(value: object, document: str | None = None) -> bytes:
    r"""Return a value as JSON in UTF-8.

    Only documents with lone surrogates, which UTF-8 cannot encode, use ``\u`` escapes.

    Raises
    ------
    MetadataError
        If JSON cannot represent the value.

    Examples
    --------
    >>> dump_json({"a": [1, float("nan")], "b": "é"}).decode()
    '{"a":[1,"NaN"],"b":"é"}'
    """
    try:
        try:
            text = _ENCODER.encode(value)
        # Readers in other languages refuse the bare words NaN and Infinity.
        except ValueError:
            value = _with_numbers(value, _word)
            text = _BARE.encode(value)
        try:
            return text.encode()
        # Half a surrogate pair has no UTF-8: it is written as an escape.
        except UnicodeEncodeError:
            return _ASCII.encode(value).encode()
    except TypeError as error:
        raise MetadataError(f"JSON cannot represent a value of type {error}", path=document) from None
    except RecursionError:
        raise MetadataError("the value is nested too deep for JSON", path=document) from None


def same_json(a: Json, b: Json) -> bool:
    """Compare JSON values; NaN is equal to NaN, and true differs from 1.

    Examples
    --------
    >>> same_json([float("nan")], [float("nan")]), same_json({"a": True}, {"a": 1})
    (True, False)
    """
    # For Python, true is equal to 1.
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return not different_keys(a, b)
    return bool(a == b) or (a != a and b != b)


def different_keys(a: JsonMapping, b: JsonMapping) -> list[str]:
    """Return the keys of two objects that have different values, or are in one only."""
    keys = dict.fromkeys([*a, *b])
    return [key for key in keys if key not in a or key not in b or not same_json(a[key], b[key])]
