"""Parse runs of plain numbers into arrays, a block at a time, by numpy's compiled parser."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from lark import Token

_LONGEST = 400
_TOO_LARGE = 1 << 65
_BLOCK = 1 << 18  # characters: the text, its copy and the numbers stay in the processor's cache


def count_run(token: Token) -> int:
    """How many numbers and fill marks a run has."""
    return token.count(",") + 1


def split_run(token: Token) -> Iterator[Token]:
    """The numbers and fill marks of a run, each a token of its own."""
    start = token.start_pos or 0
    for part in token.split(","):
        stripped = part.lstrip(" \t\r\n")
        yield Token("NUMBERS", stripped.rstrip(" \t\r\n"), start + len(part) - len(stripped))
        start += len(part) + 1


class HardRunError(Exception):
    """A run has something that the fast way does not take: a number that is none, or that needs more care."""


def parse_run(text: str, dtype: np.dtype) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Parse a run, the text of a token NUMBERS, into numbers of an integer or float type.

    Yields pairs of values and the places of fill marks in them, or None if there are none.

    Raises
    ------
    HardRunError
        If there are fractions and `dtype` is an integer type, or something is no number.

    Examples
    --------
    >>> [(v.tolist(), m.tolist()) for v, m in parse_run("1, _, 3", np.dtype("i4"))]
    [([1, 0, 3], [1])]
    """
    position, end = 0, len(text)
    wide = np.dtype("f8") if dtype.kind == "f" else np.dtype("i8")
    while position < end:
        cut = text.find(",", position + _BLOCK)
        cut = end if cut < 0 else cut
        block = text[position:cut]
        position = cut + 1
        missing = None
        if "_" in block:
            missing = _fill_marks(block)
            block = block.replace("_", "0")
        values = _parse(block, wide)
        if wide.kind == "i":
            values = _checked(values, block, dtype)
        with np.errstate(over="ignore", under="ignore"):
            yield values.astype(dtype, copy=False), missing


def _parse(block: str, dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "i" and ("." in block or "e" in block or "E" in block):
        raise HardRunError
    try:
        values = np.fromstring(block, dtype, sep=",")
    except (ValueError, DeprecationWarning):  # what numpy says of text that is no number
        raise HardRunError from None
    if len(values) != block.count(",") + 1:
        raise HardRunError
    return values


def _fill_marks(block: str) -> np.ndarray:
    raw = np.frombuffer(block.encode("ascii"), "u1")
    commas = np.flatnonzero(raw == ord(","))
    return np.searchsorted(commas, np.flatnonzero(raw == ord("_")))


def _checked(values: np.ndarray, block: str, dtype: np.dtype) -> np.ndarray:
    """The integers, exact also beyond int64; wrapped to the type."""
    limits = np.iinfo("i8")
    if (values == limits.max).any() or (values == limits.min).any():  # where the parser stops
        exact = [int(part) if len(part) < _LONGEST else _TOO_LARGE for part in block.split(",")]
        if min(exact) < limits.min or max(exact) > np.iinfo("u8").max:
            raise HardRunError
        mask = (1 << 64) - 1
        values = np.array([number & mask for number in exact], "u8").view("i8")
    return values.astype(dtype)  # wraps, as C does
