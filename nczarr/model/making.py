"""Turn what a caller gives to the constructors of the model into types, lists and values, or refuse it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from nczarr.errors import ArgumentError, ArgumentTypeError, NCZarrError, RangeError
from nczarr.model.sources import ArraySource, MemorySource
from nczarr.model.types import Type, TypeReference
from nczarr.text import visible

#: A name as an error shows it has no more characters.
_SHOWN = 60


def text_of(name: object, what: str) -> str:
    """Return a name; refuse anything else.

    Examples
    --------
    >>> text_of(None, "dimension")
    Traceback (most recent call last):
    nczarr.errors.ArgumentTypeError: the name of a dimension is text, not NoneType
    """
    if isinstance(name, str):
        return name
    raise ArgumentTypeError(f"the name of a {what} is text, not {type(name).__name__}")


def type_of(given: object, where: str) -> Type:
    """Return a type of the model; refuse anything else.

    Examples
    --------
    >>> type_of("int", "units")
    Traceback (most recent call last):
    nczarr.errors.ArgumentTypeError: attribute 'units': 'int' is not a type of the model (for example nczarr.model.INT)
    """
    if isinstance(given, Type):
        return given
    raise ArgumentTypeError(
        f"attribute {where!r}: {shown(given)} is not a type of the model", hint="for example nczarr.model.INT"
    )


def several(given: object, kind: type, where: str, what: str) -> tuple[Any, ...]:
    """Return nodes as a tuple; refuse a single node, text, and objects of another class.

    Examples
    --------
    >>> several("x", int, "/v", "sizes")
    Traceback (most recent call last):
    nczarr.errors.ArgumentTypeError: /v: sizes are a list, not 'x' (write ['x'])
    """
    # Text is a sequence of letters, which would be nodes without a word.
    if isinstance(given, str | bytes | kind) or not isinstance(given, Iterable):
        hint = f"write [{shown(given)}]" if isinstance(given, str | kind) else None
        raise ArgumentTypeError(f"{what} are a list, not {shown(given)}", fqn=where, hint=hint)
    found = tuple(given)
    for each in found:
        if not isinstance(each, kind):
            raise ArgumentTypeError(
                f"{what} are of the class {kind.__name__}, and {shown(each)} is not", fqn=where
            )
    return found


def references(given: object, where: str) -> tuple[str | int, ...]:
    """Return the dimension references of a variable; refuse text in place of a list.

    Examples
    --------
    >>> references(["x", 3], "/v")
    ('x', 3)
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        hint = f"write ({given!r},)" if isinstance(given, str) else None
        raise ArgumentTypeError(
            f"the dimensions are a list of names, not {shown(given)}", fqn=where, hint=hint
        )
    return tuple(given)


def source_for(given: object, type_: Type, where: str) -> ArraySource | None:
    """Return the source of the values of a variable: a given one, or one in memory of an array, list or number.

    Examples
    --------
    >>> from nczarr.model.types import BYTE
    >>> source_for([1, 2], BYTE, "v").dtype
    dtype('int8')
    >>> source_for([1, 300], BYTE, "v")
    Traceback (most recent call last):
    nczarr.errors.RangeError: v: the value 300 does not fit into the type byte
    """
    if given is None or isinstance(given, ArraySource):
        return given
    return MemorySource(values_for(given, type_, where))


def values_for(given: object, type_: Type, where: str) -> np.ndarray:
    """Return values as an array of the dtype of a type; refuse those that the type changes."""
    if isinstance(type_, TypeReference):
        raise ArgumentTypeError(
            f"values need the type itself, not its name {type_.name!r}",
            fqn=where,
            hint="pass the type object",
        )
    dtype = type_.dtype
    if isinstance(given, np.ndarray) and given.dtype == dtype:
        return given
    if dtype.hasobject or dtype.names or dtype.kind == "V":
        return _objects(given, dtype, type_, where)
    try:
        before = _array_of(given, dtype)
        with np.errstate(all="ignore"):
            after = before.astype(dtype) if before.dtype.kind != "O" or dtype.kind in "iuf" else None
    except OverflowError:
        raise RangeError(
            f"the value {shown(given)} does not fit into the type {type_.name}", fqn=where
        ) from None
    except (TypeError, ValueError, RuntimeError, NCZarrError):
        raise ArgumentError(f"{shown(given)} is no value of the type {type_.name}", fqn=where) from None
    if after is None or (before.dtype.kind in "SU") != (dtype.kind in "SU"):
        raise ArgumentTypeError(f"{shown(given)} is no value of the type {type_.name}", fqn=where)
    # numpy casts 1.5 to 1, and 300 to 44, without a word.
    if dtype.kind in "iu" and before.size:
        _refuse_other_integers(before, after, type_, where)
    return after


def _array_of(given: object, dtype: np.dtype) -> np.ndarray:
    """Return values as an array, before they are cast to a dtype."""
    array = np.asarray(given)
    if dtype.kind in "iu" and array.dtype.kind == "f" and not isinstance(given, np.ndarray):
        # numpy makes floats of integers below 0 or 2**63 beside larger ones.
        exact = np.asarray(given, object)
        return exact if all(isinstance(each, int | np.integer) for each in exact.flat) else array
    if dtype.kind in "SU" and array.dtype.kind == "U":
        array = np.char.encode(array, "utf-8")
        # numpy would cut the text to its first byte.
        if array.size and array.dtype.itemsize > dtype.itemsize:
            raise ValueError("a char is one byte; text has the type string, or one more dimension")
    return array


def _refuse_other_integers(before: np.ndarray, after: np.ndarray, type_: Type, where: str) -> None:
    """Refuse values of which a cast to integers has made others."""
    wrong = after.astype(before.dtype if before.dtype.kind == "f" else object) != before
    if wrong.any():
        lost = before[wrong].flat[0] if before.ndim else before[()]
        raise RangeError(f"the value {lost} does not fit into the type {type_.name}", fqn=where)


def _objects(given: object, dtype: np.dtype, type_: Type, where: str) -> np.ndarray:
    if dtype.hasobject and type_.is_atomic:  # text
        found = np.asarray(given, object)
        for each in found.flat:
            # None was taken for text, which was lost on every way.
            if not isinstance(each, str):
                raise ArgumentTypeError(f"{shown(each)} is no value of the type {type_.name}", fqn=where)
        return found
    if isinstance(given, np.ndarray):
        return given
    try:
        return np.asarray(given, dtype)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"the values do not fit into the type {type_.name}: {visible(str(error))}", fqn=where
        ) from None


def shown(value: object) -> str:
    """Return a value as an error shows it, not too long."""
    text = visible(repr(value))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
