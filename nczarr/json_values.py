"""Read the values of JSON documents by their kinds: one question, and one message, for the documents of every format.

Documents come from other programs, other versions and damaged stores, so any value may stand at any place. A reader
asks in one of two ways. The `checked_…` functions refuse a value of another kind and name the key: the format requires
the kind. The `as_…` functions give an empty value of the kind instead: the place is optional, is examined before the
format is known, or has its finding elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nczarr.errors import MetadataError

Json = Any
"""A JSON value, which is checked on use."""
JsonObject = dict[str, Json]
JsonMapping = Mapping[str, Json]
"""A JSON object that is only read: a document, or the ``configuration`` of a codec, a data type or an extension."""


def show(value: object) -> str:
    """Return a short text of a JSON value for messages.

    Examples
    --------
    >>> show({"a": [1, 2]})
    "{'a': [1, 2]}"
    >>> show(None)
    'null'
    >>> show("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    # Python refuses to print integers of more than 4,300 digits: the message would be an error itself.
    if isinstance(value, int) and value.bit_length() > 256:
        return "an integer of more than 256 bits"
    text = repr(value[:64]) if isinstance(value, str | list | tuple) else repr(value)
    return text if len(text) <= 58 and text == repr(value) else text[:57] + "…"


def bad(message: str) -> MetadataError:
    """Return the error for an invalid JSON value; a caller adds the document to it."""
    return MetadataError(message)


def checked_object(value: object, key: str, what: str = "an object") -> JsonObject:
    """Return a JSON object; raise MetadataError with the key for another value.

    Examples
    --------
    >>> checked_object([1], "attributes")
    Traceback (most recent call last):
    nczarr.errors.MetadataError: attributes: [1] is not an object
    """
    if not isinstance(value, dict):
        raise _refused(value, key, what)
    return value


def checked_list(value: object, key: str, what: str = "a list") -> list[Json]:
    """Return a JSON list; raise MetadataError with the key for another value."""
    if not isinstance(value, list):
        raise _refused(value, key, what)
    return value


def checked_flag(value: object, key: str = "") -> bool:
    """Return true or false; raise MetadataError with the key for another value, such as 1."""
    if not isinstance(value, bool):
        raise _refused(value, key, "true or false")
    return value


def checked_text(value: object, key: str = "", what: str = "a string") -> str:
    """Return a text; raise MetadataError with the key for another value."""
    if not isinstance(value, str):
        raise _refused(value, key, what)
    return value


def checked_name(value: object, key: str) -> str:
    """Return a text that is not empty; raise MetadataError with the key for another value.

    Examples
    --------
    >>> checked_name("", "codecs[0].name")
    Traceback (most recent call last):
    nczarr.errors.MetadataError: codecs[0].name: '' is not a name
    """
    if not as_text(value):
        raise _refused(value, key, "a name")
    return as_text(value)


def _refused(value: object, key: str, what: str) -> MetadataError:
    """Return the error for a value of another kind. A caller without a key adds the place of the value."""
    return bad(f"{key}: {show(value)} is not {what}" if key else f"{show(value)} is not {what}")


def as_object(value: object) -> JsonObject:
    """Return a JSON object; an empty one for any other value, as documents of other writers may have.

    Examples
    --------
    >>> as_object({"a": 1}), as_object([1]), as_object(None)
    ({'a': 1}, {}, {})
    """
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Json]:
    """Return a JSON list; an empty one for any other value.

    Examples
    --------
    >>> as_list([1]), as_list("ab"), as_list(None)
    ([1], [], [])
    """
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """Return a JSON text; an empty one for any other value.

    Examples
    --------
    >>> as_text("a"), as_text(["a"]), as_text(None)
    ('a', '', '')
    """
    return value if isinstance(value, str) else ""


def member(value: object, key: str) -> JsonObject:
    """Return a member of a JSON object that is an object itself; empty if there is none.

    Examples
    --------
    >>> member({"a": {"b": 1}}, "a"), member({"a": 1}, "a"), member(None, "a")
    ({'b': 1}, {}, {})
    """
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def texts_in(value: object) -> list[str]:
    """Return the texts of a JSON list, without its other items.

    Examples
    --------
    >>> texts_in(["a", 1, "b"]), texts_in("ab")
    (['a', 'b'], [])
    """
    return [item for item in as_list(value) if isinstance(item, str)]


def only_texts(value: object) -> list[str] | None:
    """Return a JSON list of texts; None for any other value, and for a list with another item.

    Examples
    --------
    >>> only_texts(["a", "b"]), only_texts(["a", 1]), only_texts("ab")
    (['a', 'b'], None, None)
    """
    texts = texts_in(value)
    return texts if texts == value else None


def only_integers(value: object, least: int = 0) -> list[int] | None:
    """Return a JSON list of integers from `least` upwards; None for any other value, and for a list with another item.

    Examples
    --------
    >>> only_integers([1, 2]), only_integers([0, True]), only_integers([0], least=1), only_integers([1.0])
    ([1, 2], None, None, None)
    """
    # `type`, because true is an integer of Python, and a length of one to a reader that asks `isinstance`.
    fits = isinstance(value, list) and all(type(item) is int and item >= least for item in value)
    return as_list(value) if fits else None
