"""Describe datasets as plain values, and draw the descriptions as HTML that folds without a script.

Classes of other packages build their own descriptions, so that drawing depends on no other package. Every function that
draws returns a complete fragment with its style sheet, as notebooks expect. Long lists are cut: a group of a million
variables gives a few hundred rows and the number of omitted ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Generic, Literal, TypeVar

from nczarr.text import LONGEST_NAME, format_bytes, format_value, safe_html

S = TypeVar("S")
T = TypeVar("T")
#: Most rows of one list.
MOST_ROWS = 200
#: Most rows of a whole fragment, over all groups.
MOST_IN_ALL = 2000
#: Most levels of groups.
DEEPEST = 20
#: Longest list that is open at first.
_OPEN_ROWS = 30

_LONG, _SHORT = 112.0, 34.0
#: Most grid lines of a figure in one direction; more would merge into a grey area.
_MOST_LINES = 28
_MOST_SHEETS = 5
_SHEET_STEP = 7.0
_MARGIN = 3.0


@dataclass(frozen=True)
class DimensionDescription:
    """A dimension, or an axis of an array; `name` is None for an unnamed axis, `size` is None if unknown.

    Examples
    --------
    >>> DimensionDescription("time", 12, unlimited=True).name
    'time'
    """

    name: str | None
    size: int | None
    unlimited: bool = False


@dataclass(frozen=True)
class AttributeDescription:
    """An attribute; `type` is empty where the value implies it. The value is text, numbers, an array or JSON.

    Examples
    --------
    >>> AttributeDescription("units", "K").value
    'K'
    """

    name: str
    value: object
    type: str = ""


@dataclass(frozen=True)
class TypeDescription:
    """A user-defined type: its kind, and one line of text for each member or field.

    Examples
    --------
    >>> TypeDescription("cloud", "enum", ("clear = 0", "stratus = 1")).lines[1]
    'stratus = 1'
    """

    name: str
    kind: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class ArrayDescription:
    """An array or a variable.

    Parameters
    ----------
    name : str
    type : str
    axes : tuple of DimensionDescription
    kind : str
        Heading: ``Variable`` or ``Array``.
    attributes : sequence of AttributeDescription
    chunks, shards : tuple of int, optional
        Shape of a chunk, and of the shards that contain the chunks.
    codecs : tuple of str
        Codecs that encode the stored bytes, in order.
    size : int, optional
        Bytes in memory.
    stored : int, optional
        Bytes in the store.
    facts : tuple of (str, str)
        Names and texts of other facts.
    values : str
        A preview of the values.

    Examples
    --------
    >>> ArrayDescription("temp", "float", (DimensionDescription("time", 12),)).axes[0].size
    12
    """

    name: str
    type: str
    axes: tuple[DimensionDescription, ...] = ()
    kind: str = "Variable"
    attributes: Sequence[AttributeDescription] = ()
    chunks: tuple[int, ...] | None = None
    shards: tuple[int, ...] | None = None
    codecs: tuple[str, ...] = ()
    size: int | None = None
    stored: int | None = None
    facts: tuple[tuple[str, str], ...] = ()
    values: str = ""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Return the sizes of the axes if all are known."""
        sizes = tuple(axis.size for axis in self.axes if axis.size is not None)
        return sizes if len(sizes) == len(self.axes) else None


@dataclass(frozen=True)
class GroupDescription:
    """A group with its members; a sequence may be an :class:`Each`, which describes an item on access.

    Examples
    --------
    >>> GroupDescription("ocean", arrays=(ArrayDescription("temp", "float"),)).arrays[0].name
    'temp'
    """

    name: str
    kind: str = "Group"
    dimensions: Sequence[DimensionDescription] = ()
    types: Sequence[TypeDescription] = ()
    arrays: Sequence[ArrayDescription] = ()
    attributes: Sequence[AttributeDescription] = ()
    groups: Sequence[GroupDescription] = ()
    facts: tuple[tuple[str, str], ...] = ()
    arrays_title: str = "Variables"
    coordinates: Sequence[ArrayDescription] = ()


class Each(Sequence[T], Generic[S, T]):
    """Describe the items of a sequence on access, so that only the visible part of a huge group costs time.

    Examples
    --------
    >>> described = Each([1, 2, 3], str)
    >>> len(described), described[1]
    (3, '2')
    """

    def __init__(self, items: Sequence[S], describe: Callable[[S], T]) -> None:
        self._items = items
        self._describe = describe

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int | slice) -> T | Each[S, T]:  # type: ignore[override]
        if isinstance(index, slice):
            return Each(self._items[index], self._describe)
        return self._describe(self._items[index])

    def __iter__(self) -> Iterator[T]:
        return map(self._describe, self._items)


# --- fragments


@cache
def _style() -> str:
    from importlib.resources import files  # imported on first use

    return files("nczarr.display").joinpath("style.css").read_text(encoding="utf-8")


def _page(body: str, theme: str = "") -> str:
    return f'<div class="nz-root{theme and f" nz-{theme}"}"><style>{_style()}</style>{body}</div>'


def show_group(group: GroupDescription) -> str:
    """Return the HTML of a group or a dataset.

    Examples
    --------
    >>> "<script" in show_group(GroupDescription("<script>"))
    False
    """
    return _page(_head(group.kind, group.name) + _group_body(group, 0, _Budget()))


def show_members(kind: str, group: GroupDescription) -> str:
    """Return the HTML of the variables or the groups of a group, without its name, dimensions and attributes.

    Examples
    --------
    >>> "temp" in show_members("Variables", GroupDescription("", arrays=(ArrayDescription("temp", "float"),)))
    True
    """
    return _page(_head(kind, "") + _group_body(group, 0, _Budget()))


def show_array(array: ArrayDescription, *, theme: Literal["", "light", "dark"] = "") -> str:
    """Return the HTML of an array or a variable.

    Parameters
    ----------
    array : ArrayDescription
    theme : {"", "light", "dark"}
        Empty: the preference of the browser or the notebook.

    Examples
    --------
    >>> axis = DimensionDescription("time", 12, unlimited=True)
    >>> "12" in show_array(ArrayDescription("temp", "float", (axis,)))
    True
    """
    title = f"{_span('type', _name(array.type))} {_axes(array.axes)}"
    return _page(_head(array.kind, array.name, title) + _array_body(array, is_open=True), theme)


def show_dimension(dimension: DimensionDescription) -> str:
    """Return the HTML of a dimension.

    Examples
    --------
    >>> "time" in show_dimension(DimensionDescription("time", 12))
    True
    """
    return _page(f'<div class="nz-head">{_span("kind", "Dimension")} {_dimension(dimension)}</div>')


def show_attribute(attribute: AttributeDescription) -> str:
    """Return the HTML of an attribute.

    Examples
    --------
    >>> "<b>" in show_attribute(AttributeDescription("title", "<b>"))
    False
    """
    return _page(_attributes([attribute]))


def show_type(type_: TypeDescription) -> str:
    """Return the HTML of a user-defined type.

    Examples
    --------
    >>> "stratus" in show_type(TypeDescription("cloud", "enum", ("clear = 0", "stratus = 1")))
    True
    """
    return _page(_type(type_, is_open=True))


class _Budget:
    """Counts the rows of a fragment."""

    def __init__(self) -> None:
        self.left = MOST_IN_ALL

    def take(self, items: Sequence[T]) -> Sequence[T]:
        """Return the first items, as many as the limits allow."""
        shown = items[: max(min(MOST_ROWS, self.left), 0)]
        self.left -= len(shown)
        return shown


# -- pieces of HTML


def _name(text: str) -> str:
    return safe_html(text, longest=LONGEST_NAME)


def _bold(name: str) -> str:
    # A name in Arabic or Hebrew would turn the text around it.
    return f'<bdi class="nz-name">{_name(name)}</bdi>'


def _span(kind: str, html: str) -> str:
    return f'<span class="nz-{kind}">{html}</span>'


def _fold(kind: str, summary: str, body: str, *, is_open: bool = False) -> str:
    mark = " open" if is_open else ""
    return f'<details class="nz-{kind}"{mark}><summary>{summary}</summary>{body}</details>'


def _table(kind: str, rows: Iterable[str]) -> str:
    html = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table class="nz-{kind}">{html}</table>' if html else ""


def _head(kind: str, name: str, more: str = "") -> str:
    return f'<div class="nz-head">{_span("kind", _name(kind))} {_bold(name) if name else ""} {more}</div>'


def _section(title: str, count: int, body: str, shown: int, *, is_open: bool) -> str:
    more = f'<div class="nz-more">… {count - shown:,} more</div>' if shown < count else ""
    summary = f"{_name(title)} {_span('count', f'{count:,}')}"
    return _fold("section", summary, f'<div class="nz-inside">{body}{more}</div>', is_open=is_open)


# -- groups


def _group_body(group: GroupDescription, depth: int, budget: _Budget) -> str:
    def section(title: str, items: Sequence[T], draw: Callable[[Sequence[T]], str], *, is_open: bool) -> str:
        if not items:
            return ""
        shown = budget.take(items)

        return _section(title, len(items), draw(shown), len(shown), is_open=is_open)

    def chips(dimensions: Sequence[DimensionDescription]) -> str:
        return f'<div class="nz-chips">{"".join(map(_dimension, dimensions))}</div>'

    def groups(shown: Sequence[GroupDescription]) -> str:
        return "".join(_group(child, depth, budget, is_open=depth < 1 and len(shown) <= 6) for child in shown)

    def arrays(shown: Sequence[ArrayDescription]) -> str:
        return "".join(map(_array, shown))

    arrays_open = depth < 2 and len(group.arrays) <= _OPEN_ROWS
    parts = [
        _facts(group.facts),
        section("Dimensions", group.dimensions, chips, is_open=True),
        section("Types", group.types, lambda types: "".join(map(_type, types)), is_open=False),
        section("Coordinates", group.coordinates, arrays, is_open=arrays_open),
        section(group.arrays_title, group.arrays, arrays, is_open=arrays_open),
    ]
    if group.groups and depth >= DEEPEST:
        parts.append(f'<div class="nz-more">… {len(group.groups):,} groups deeper inside</div>')
    else:
        parts.append(section("Groups", group.groups, groups, is_open=True))
    attributes_open = depth == 0 and len(group.attributes) <= _OPEN_ROWS
    parts.append(section("Attributes", group.attributes, _attributes, is_open=attributes_open))
    return "".join(parts) or '<div class="nz-none">empty</div>'


def _group(group: GroupDescription, depth: int, budget: _Budget, *, is_open: bool) -> str:
    counts: list[tuple[Sequence[object], str]] = [
        (group.coordinates, "coordinates"),
        (group.arrays, group.arrays_title.lower()),
        (group.groups, "groups"),
    ]
    note = ", ".join(
        f"{len(items):,} {kind[: -1 if len(items) == 1 else None]}" for items, kind in counts if items
    )
    summary = f"{_bold(group.name)} {_span('note', _name(note))}"
    return _fold("group", summary, _group_body(group, depth + 1, budget), is_open=is_open)


# -- their members


def _dimension(dimension: DimensionDescription) -> str:
    name = "" if dimension.name is None else _bold(dimension.name)
    size = "?" if dimension.size is None else f"{dimension.size:,}"
    mark = '<span class="nz-unlimited" title="unlimited">∞</span>' if dimension.unlimited else ""
    return _span("dimension", f"{name} {_span('size', size)}{mark}")


def _axes(axes: Sequence[DimensionDescription]) -> str:
    return _span("axes", "".join(map(_dimension, axes))) if axes else _span("note", "scalar")


def _array(array: ArrayDescription) -> str:
    names = ("long_name", "standard_name")
    about = next((format_value(a.value) for a in array.attributes if a.name in names), "")
    note = _span("note", f"<bdi>{safe_html(about, longest=80)}</bdi>") if about else ""
    values = _span("values", f"<bdi>{safe_html(array.values, longest=60)}</bdi>") if array.values else ""
    summary = f"{_bold(array.name)} {_span('type', _name(array.type))} {_axes(array.axes)} {note} {values}"
    return _fold("array", summary, _array_body(array))


def _array_body(array: ArrayDescription, *, is_open: bool = False) -> str:
    facts = [*((("values", array.values),) if array.values else ()), *array.facts]
    shapes = (("shards", array.shards), ("chunks", array.chunks))
    facts += [(name, _shape(shape)) for name, shape in shapes if shape is not None]
    if array.codecs:
        facts.append(("codecs", " → ".join(array.codecs)))
    if array.size is not None:
        facts.append(("size", format_bytes(array.size)))
    if array.stored is not None:
        is_smaller = array.stored and array.size is not None and array.size > array.stored
        ratio = f", {array.size / array.stored:.1f} times smaller" if is_smaller and array.size else ""
        facts.append(("stored", format_bytes(array.stored) + ratio))
    objects = (array.chunks,) if array.shards is None else (array.shards, array.chunks)
    figure = "" if array.shape is None else draw_chunks(array.shape, *objects)
    columns = f'<div class="nz-columns">{_facts(facts)}{figure}</div>' if facts or figure else ""
    attributes = array.attributes[:MOST_ROWS]
    table = _attributes(attributes)
    if table and is_open:
        table = _section("Attributes", len(array.attributes), table, len(attributes), is_open=True)
    return columns + table


def _shape(shape: Sequence[int]) -> str:
    return " × ".join(f"{n:,}" for n in shape) or "scalar"


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    rows = (f"<th>{_name(name)}</th><td><bdi>{safe_html(text)}</bdi></td>" for name, text in facts)
    return _table("facts", rows)


def _attributes(attributes: Sequence[AttributeDescription]) -> str:
    return _table(
        "attributes",
        (
            f'<th><bdi>{_name(a.name)}</bdi></th><td class="nz-value"><bdi>'
            f'{safe_html(format_value(a.value), layout=True)}</bdi></td><td class="nz-type">{_name(a.type)}</td>'
            for a in attributes
        ),
    )


def _type(type_: TypeDescription, *, is_open: bool = False) -> str:
    lines = [f"<bdi>{_name(line)}</bdi>" for line in type_.lines[:MOST_ROWS]]
    if len(type_.lines) > MOST_ROWS:
        lines.append(f"… {len(type_.lines) - MOST_ROWS:,} more")
    body = f'<ul class="nz-lines">{"".join(f"<li>{line}</li>" for line in lines)}</ul>'
    return _fold("array", f"{_bold(type_.name)} {_span('type', _name(type_.kind))}", body, is_open=is_open)


# -- figures of chunks


def draw_chunks(
    shape: tuple[int, ...], chunks: tuple[int, ...] | None, inner: tuple[int, ...] | None = None
) -> str:
    """Return an inline SVG: the last two axes as a sheet, the other axes as a stack of sheets.

    Scalars and empty arrays have no figure.

    Parameters
    ----------
    shape : tuple of int
    chunks : tuple of int or None
        None: stored in one piece.
    inner : tuple of int, optional
        The chunks inside a shard; drawn in the first one.

    Examples
    --------
    >>> draw_chunks((4, 6), (2, 3)).startswith("<svg")
    True
    >>> draw_chunks((), ())
    ''
    """
    if not shape or 0 in shape:
        return ""
    chunks = tuple(max(c, 1) for c in chunks) if chunks and len(chunks) == len(shape) else shape
    inner = inner if inner is not None and len(inner) == len(shape) else None
    width, height = _LONG, _SHORT * 0.6
    if len(shape) == 1:
        shape, chunks, inner = (1, *shape), (1, *chunks), inner and (1, *inner)
    else:
        ratio = shape[-2] / shape[-1]
        width = max(_LONG / ratio, _SHORT) if ratio >= 1 else _LONG
        height = _LONG if ratio >= 1 else max(_LONG * ratio, _SHORT)
    (rows, columns), (down, across) = shape[-2:], chunks[-2:]
    piles = math.prod(-(-n // c) for n, c in zip(shape[:-2], chunks[:-2]))
    top = (min(piles, _MOST_SHEETS) - 1) * _SHEET_STEP
    parts = [
        _rectangle("nz-sheet", i * _SHEET_STEP, top - i * _SHEET_STEP, width, height)
        for i in reversed(range(min(piles, _MOST_SHEETS)))
    ]
    cell_width, cell_height = width * min(across / columns, 1), height * min(down / rows, 1)
    parts.append(_rectangle("nz-chunk", 0, top, cell_width, cell_height))
    if inner is not None:
        parts.append(_grid("nz-inner", top, cell_width, cell_height, (down, inner[-2]), (across, inner[-1])))
    parts.append(_grid("nz-line", top, width, height, (rows, down), (columns, across)))
    full_width, full_height = width + top + 2 * _MARGIN, height + top + 2 * _MARGIN
    return (
        f'<svg class="nz-figure" role="img" aria-label="chunks" width="{full_width:.0f}" height="{full_height:.0f}" '
        f'viewBox="{-_MARGIN:.0f} {-_MARGIN:.0f} {full_width:.1f} {full_height:.1f}">{"".join(parts)}</svg>'
    )


def _rectangle(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _grid(kind: str, top: float, width: float, height: float, *axes: tuple[int, int]) -> str:
    """Return the grid lines between chunks; the axes (down, across) are pairs of axis size and chunk size."""
    down, across = map(_cuts, axes)
    path = "".join(f"M0.0 {top + height * place:.1f}h{width:.1f}" for place in down)
    path += "".join(f"M{width * place:.1f} {top:.1f}v{height:.1f}" for place in across)
    return f'<path class="{kind}" d="{path}"/>' if path else ""


def _cuts(axis: tuple[int, int]) -> list[float]:
    """Return the positions of chunk borders from 0 to 1; an even sample of them if there are too many."""
    size, chunk = axis
    number = -(-size // chunk) - 1
    step = -(-number // _MOST_LINES) if number > _MOST_LINES else 1
    return [i * chunk / size for i in range(1, number + 1, step)]
