"""Convert the values of attributes to their declared type, or to the type that the constants have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lark import Token

from nczarr.cdl.read.values import ElementReader, count_values, expand, position_of
from nczarr.cdl.syntax import (
    Constant,
    ConstantError,
    Problems,
    Value,
    as_text,
    convert,
    is_number,
    parse_constant,
)
from nczarr.model import CHAR, PRIMITIVES, Attribute, PrimitiveType, Type


class AttributeReader:
    """Makes attributes of what stands after the ``=``."""

    def __init__(self, problems: Problems, elements: ElementReader) -> None:
        self._problems = problems
        self._elements = elements

    def typed(self, name: str, type_: Type, token: Token, items: Sequence[Value]) -> Attribute | None:
        """An attribute with a declared type; an empty list is an attribute of no value.

        None if a value cannot be read: what would stand in its place is no value of the type.
        """
        if type_ == CHAR:
            pieces = self._elements.texts(items, b"\0")
            raw = b"".join(pieces) if not items else b"".join(pieces) or b"\0"
            return Attribute(name, CHAR, np.frombuffer(raw, "S1"))
        problems = len(self._problems)
        values = np.zeros(count_values(items), type_.dtype)
        for i, item in enumerate(expand(items)):
            if isinstance(item, Token) and str(item) == "_":
                self._problems.add("'_' has no meaning in an attribute", position_of(item))
                return None
            self._elements.read(values, (i,), type_, item)
        return Attribute(name, type_, values) if len(self._problems) == problems else None

    def untyped(self, name: str, token: Token, items: Sequence[Value]) -> Attribute | None:
        """An attribute without a declared type: text is char; numbers take the widest type among them."""
        constants: list[Constant] = []
        for item in expand(items):
            try:
                constant = parse_constant(item) if isinstance(item, Token) else None
            except ConstantError as error:
                self._problems.add(str(error), position_of(item))
                return None
            if constant is None or not (is_number(constant.kind) or constant.kind == "string"):
                self._not_simple(name, item, constant)
                return None
            constants.append(constant)
        texts = [c.value for c in constants if c.kind == "string"]
        if len(texts) == len(constants):
            return Attribute(name, CHAR, np.frombuffer(b"".join(texts) or b"\0", "S1"))
        if texts:
            first = next(c for c in constants if c.kind == "string")
            self._problems.add(
                f"the attribute {name!r} has both text and numbers",
                first.position,
                hint=f"write a type before it: string :{name} = …",
            )
            return None
        type_ = _widest(constants)
        values = np.array([convert(constant, type_) for constant in constants], type_.dtype)
        return Attribute(name, type_, values)

    def _not_simple(self, name: str, item: Value, constant: Constant | None) -> None:
        hint = None
        if constant is None:
            what = "a value in braces" if not isinstance(item, Token) else "this value"
            hint = "write the type before the name"
        elif constant.kind == "fill":
            what = "'_'"
        else:
            what = as_text(constant.text)[:40]
            hint = "write the type before the name"
        message = f"the attribute {name!r} has no type, so {what} cannot be its value"
        self._problems.add(message, position_of(item), hint=hint)

    def fill_value(
        self, type_: Type, token: Token, items: Sequence[Value], declared: Type | None = None
    ) -> Attribute | None:
        """``_FillValue``: one value of the variable's type, whatever type was declared.

        Except that a real number that no integer is, such as NaN, stays what it was declared: files with one
        exist, and ncgen turns it into an arbitrary integer.
        """
        if count_values(items) != 1:
            self._problems.add("_FillValue takes one value", token.start_pos)
            return None
        item = items[0]
        if isinstance(item, Token) and str(item) == "_":
            self._problems.add("_FillValue cannot be '_'", position_of(item))
            return None
        if type_ == CHAR:
            raw = b"".join(self._elements.texts(items, b"\0"))
            if len(raw) > 1:
                self._problems.add("_FillValue of a char variable is one character", position_of(item))
                return None
            return Attribute("_FillValue", CHAR, np.frombuffer(raw or b"\0", "S1"))
        if declared is not None and declared.dtype.kind == "f" and type_.dtype.kind in "iu":
            real = np.zeros(1, declared.dtype)
            self._elements.read(real, (0,), declared, item)
            limits = np.iinfo(type_.dtype)
            if not (
                np.isfinite(real[0]) and real[0] == np.trunc(real[0]) and limits.min <= real[0] <= limits.max
            ):
                return Attribute("_FillValue", declared, real)
        problems = len(self._problems)
        values = np.zeros(1, type_.dtype)
        self._elements.read(values, (0,), type_, item)
        return Attribute("_FillValue", type_, values) if len(self._problems) == problems else None


def _widest(constants: Sequence[Constant]) -> PrimitiveType:
    """The type of a list of numbers: double, else float, else the widest integer, the later of two as wide."""
    kinds = [c.kind for c in constants]
    for kind in ("double", "float"):
        if kind in kinds:
            return PRIMITIVES[kind]
    if any(c.kind == "uint64" and c.value > np.iinfo("i8").max for c in constants):
        return PRIMITIVES["uint64"]
    best: Any = None
    for kind in kinds:
        type_ = PRIMITIVES[kind]
        if best is None or type_.dtype.itemsize >= best.dtype.itemsize:
            best = type_
    assert isinstance(best, PrimitiveType)
    return best
