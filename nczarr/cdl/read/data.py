"""Bind data lists to variables: the lengths of unlimited dimensions, and the values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from lark import Token

from nczarr import model
from nczarr.cdl.read.scope import DimensionState, VariableState
from nczarr.cdl.read.values import ElementReader, count_values, expand, missing_value, pad_rows, position_of
from nczarr.cdl.syntax.source import Problems
from nczarr.cdl.syntax.tree import Block, Value

# A larger array is not allocated if the text sets few of its elements.
_LARGE = 1 << 24
_SPARSE = 16


class Binder:
    """Binds the data lists of all variables; :meth:`measure` all before :meth:`bind`."""

    def __init__(self, problems: Problems, elements: ElementReader) -> None:
        self._problems = problems
        self._elements = elements

    # The lengths of unlimited dimensions.

    def measure(self, variable: VariableState) -> None:
        """Extend the variable's unlimited dimensions to hold its data."""
        if variable.data is None or not variable.is_sound or not any(variable.unlimited):
            return
        self._measure(variable.type == model.CHAR, _dimensions(variable), variable.data.items)

    def _measure(self, text: bool, dimensions: Sequence[DimensionState], items: Sequence[Value]) -> None:
        inner = _inner(dimensions)
        first = dimensions[0]
        if inner is not None:
            per_record = math.prod(d.size for d in dimensions[1:inner])
            parts = list(expand(items))
            _need(first, -(-len(parts) // max(per_record, 1)))
            for part in parts:
                self._measure(text, dimensions[inner:], _inside(part))
            return
        if text:
            # ncgen counts the characters without padding, and crashes on the rows that ncdump prints.
            pieces = ElementReader(Problems(self._problems.source)).texts(items, b"\0", [])
            count = sum(map(len, pad_rows(pieces, _row_width(dimensions), b"\0")))
        else:
            count = count_values(items)
        _need(first, -(-count // max(math.prod(d.size for d in dimensions[1:]), 1)))

    # The values.

    def bind(self, variable: VariableState) -> model.ArraySource | None:
        """Return the data of a variable, with fill values where the text has none."""
        type_ = variable.type
        if type_ is None or not variable.is_sound:
            return None
        shape = variable.sizes
        declared = variable.attributes.get("_FillValue")
        fill = declared.values[0] if declared is not None and declared.type == type_ else None
        if variable.data is None:
            value = model.default_fill(type_) if fill is None else fill
            return model.RepeatedSource(value, shape, type_.dtype)
        missing = missing_value(type_) if fill is None else fill
        assert variable.data_token is not None
        items = list(variable.data.items)
        variable.data = None  # `_place` releases each value of a flat list once it has been read
        if not items:
            place = variable.data_token.start_pos
            self._problems.add(f"the data of {variable.name!r} have no values", place)
            return None
        total, corner, dimensions = math.prod(shape), shape, _dimensions(variable)
        # A text of a few values may declare an array that no memory holds: only its corner is made.
        if type_ != model.CHAR and _inner(dimensions) is None:
            if total > _LARGE and total > _SPARSE * (count := count_values(items)):
                corner = _corner(shape, count)
        elif total > _SPARSE * _LARGE:
            self._problems.add(
                f"the variable {variable.name!r} of shape {shape} is too large to be read into memory",
                variable.data_token,
            )
            return None
        # numpy refuses sizes that it cannot count with a ValueError.
        try:
            out = np.zeros(corner, type_.dtype)
        except (MemoryError, ValueError):
            self._problems.add(
                f"the variable {variable.name!r} of shape {shape} is too large for the memory", variable.token
            )
            return None
        self._elements.begin()
        self._place(variable, out, dimensions, items, missing)
        return model.MemorySource(out) if corner == shape else BeginningSource(out, missing, shape)

    def _place(
        self,
        variable: VariableState,
        out: np.ndarray,
        dimensions: Sequence[DimensionState],
        items: list[Value],
        missing: object,
    ) -> None:
        """Move a list into the contiguous array `out` on `dimensions`."""
        type_ = variable.type
        assert type_ is not None
        inner = _inner(dimensions)
        flat = out.reshape(-1)
        if inner is None and type_ == model.CHAR:
            self._text(variable, flat, dimensions, items, missing)
            return
        if inner is None:
            count, total = count_values(items), len(flat)
            # ncgen drops surplus numbers in silence, and crashes for characters.
            if count > total:
                surplus = f"{count} values for the {total} elements of {variable.name!r}"
                # ncgen drops surplus numbers, but crashes on scalars.
                if not variable.dimensions:
                    self._problems.add(surplus, position_of(items[-1]))
                else:
                    self._problems.warn(f"{surplus}; the rest is left out", position_of(items[0]))
            done = self._elements.read_list(flat, type_, _drain(items), missing, variable.attributes)
            _fill(flat, done, type_, missing)
            return
        outer = out.shape[:inner]
        parts = list(expand(items))
        blocks = math.prod(outer)
        if len(parts) > blocks:
            self._problems.add(
                f"{len(parts)} parts in braces for {blocks} of {variable.name!r}", position_of(parts[blocks])
            )
        records = out.reshape((blocks, *out.shape[inner:]))
        for n in range(blocks):
            part = parts[n] if n < len(parts) else None
            # By its braces, ncgen knows where a short record ends.
            if part is not None and not isinstance(part, Block) and type_ != model.CHAR:
                if not (isinstance(part, Token) and str(part) == "_"):
                    self._problems.add(
                        f"expected '{{': the values of {variable.name!r} along its inner unlimited dimension "
                        "stand in braces",
                        position_of(part),
                    )
                    return
                part = None
            inside = list(_inside(part)) if part is not None else []
            self._place(variable, records[n], dimensions[inner:], inside, missing)

    def _text(
        self,
        variable: VariableState,
        flat: np.ndarray,
        dimensions: Sequence[DimensionState],
        items: Sequence[Value],
        missing: object,
    ) -> None:
        assert isinstance(missing, bytes)
        fill = bytes(missing) or b"\0"
        ignored: list[Value] = []
        pieces = self._elements.texts(items, fill, ignored)
        for item in ignored:
            self._problems.warn(
                f"a number in the char data of {variable.name!r} is left out", position_of(item)
            )
        raw = b"".join(pad_rows(pieces, _row_width(dimensions), fill))
        # ncgen warns, and then crashes.
        if len(raw) > len(flat):
            self._problems.add(
                f"{len(raw)} characters for the {len(flat)} elements of {variable.name!r}",
                position_of(items[0]) if items else None,
            )
            return
        flat[...] = np.frombuffer(raw.ljust(len(flat), fill), "S1")


def _drain(items: list[Value]) -> Iterator[Value]:
    """Pop the values of a list while iterating, so that text and values are not in memory together."""
    items.reverse()
    while items:
        yield items.pop()


def _dimensions(variable: VariableState) -> list[DimensionState]:
    """Return the dimensions of a variable whose declaration has no problem."""
    return [d for d in variable.dimensions if d is not None]


def _inner(dimensions: Sequence[DimensionState]) -> int | None:
    """Return the first unlimited dimension after the outermost; each part along it is in braces."""
    return next((axis for axis, d in enumerate(dimensions) if axis and d.unlimited), None)


def _row_width(dimensions: Sequence[DimensionState]) -> int:
    """Return the length of a row of text; 0 if texts are not padded to rows."""
    return dimensions[-1].size if len(dimensions) > 1 else 0


def _corner(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return the shape of the leading corner of an array that has the first `count` elements in row-major order."""
    corner = list(shape)
    for axis, size in enumerate(shape):
        below = math.prod(shape[axis + 1 :])
        corner[axis] = min(-(-count // below), size)
        if count > below:
            break
    return tuple(corner)


def _inside(part: Value) -> Sequence[Value]:
    return part.values.items if isinstance(part, Block) else (part,)


def _need(dimension: DimensionState, size: int) -> None:
    if dimension.unlimited:
        dimension.size = max(dimension.size, size)


def _fill(flat: np.ndarray, done: int, type_: model.Type, missing: object) -> None:
    """Set the elements that a list omits."""
    if done >= len(flat):
        return
    # An element of these types needs an object of its own.
    if type_.is_nested or type_.dtype == object:
        for i in range(done, len(flat)):
            flat[i] = missing
    else:
        flat[done:] = missing


@dataclass(frozen=True, eq=False)
class BeginningSource:
    """An array whose leading corner is given; all other elements have one value.

    Examples
    --------
    >>> BeginningSource(np.array([[1, 2], [3, 4]]), 0, (3, 2)).read((slice(1, 3), slice(1, 2))).tolist()
    [[4], [0]]
    """

    corner: np.ndarray
    fill: object
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        return self.corner.dtype

    @property
    def beginning_shape(self) -> tuple[int, ...]:
        """The corner of the array outside of which every element is the one value."""
        return self.corner.shape

    def read(self, region: model.Region, out: np.ndarray | None = None) -> np.ndarray:
        out = model.RepeatedSource(self.fill, self.shape, self.dtype).read(region, out)
        given = self.corner[region]  # a slice that ends beyond the corner is cut
        out[tuple(map(slice, given.shape))] = given
        return out
