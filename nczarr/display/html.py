"""Draw descriptions as HTML that folds without a script.

Every function returns a complete fragment with its style sheet, as notebooks expect. Long lists are cut: a group of a
million variables gives a few hundred rows and the number of omitted ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal

from nczarr.display.chunks import draw_chunks
from nczarr.display.descriptions import (
    ArrayDescription,
    AttributeDescription,
    DimensionDescription,
    GroupDescription,
    TypeDescription,
)
from nczarr.display.text import LONGEST_NAME, format_bytes, safe_html
from nczarr.display.values import format_value

#: Most rows of one list.
MOST_ROWS = 200
#: Most rows of a whole fragment, over all groups.
MOST_IN_ALL = 2000
#: Most levels of groups.
DEEPEST = 20
#: Longest list that is open at first.
_OPEN_ROWS = 30


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
    title = f'<span class="nz-type">{_name(array.type)}</span> {_axes(array.axes)}'
    return _page(_head(array.kind, array.name, title) + _array_body(array, is_open=True), theme)


def show_dimension(dimension: DimensionDescription) -> str:
    """Return the HTML of a dimension.

    Examples
    --------
    >>> "time" in show_dimension(DimensionDescription("time", 12))
    True
    """
    return _page(f'<div class="nz-head"><span class="nz-kind">Dimension</span> {_dimension(dimension)}</div>')


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

    def take(self, wanted: int) -> int:
        given = max(min(wanted, MOST_ROWS, self.left), 0)
        self.left -= given
        return given


def _head(kind: str, name: str, more: str = "") -> str:
    shown = f'<bdi class="nz-name">{_name(name)}</bdi>' if name else ""
    return f'<div class="nz-head"><span class="nz-kind">{_name(kind)}</span> {shown} {more}</div>'


def _name(text: str) -> str:
    return safe_html(text, longest=LONGEST_NAME)


def _group_body(group: GroupDescription, depth: int, budget: _Budget) -> str:
    parts = []
    if group.facts:
        parts.append(_facts(group.facts))
    if group.dimensions:
        shown = budget.take(len(group.dimensions))
        chips = "".join(map(_dimension, group.dimensions[:shown]))
        parts.append(
            _section(
                "Dimensions", group.dimensions, f'<div class="nz-chips">{chips}</div>', shown, is_open=True
            )
        )
    parts.append(_list("Types", group.types, _type, budget))
    is_open = depth < 2 and len(group.arrays) <= _OPEN_ROWS
    parts.append(_list(group.arrays_title, group.arrays, _array, budget, is_open=is_open))
    if group.groups:
        parts.append(_groups(group, depth, budget))
    if group.attributes:
        shown = budget.take(len(group.attributes))
        table = _attributes(group.attributes[:shown])
        is_open = depth == 0 and shown <= _OPEN_ROWS
        parts.append(_section("Attributes", group.attributes, table, shown, is_open=is_open))
    return "".join(parts) or '<div class="nz-none">empty</div>'


def _groups(group: GroupDescription, depth: int, budget: _Budget) -> str:
    if depth >= DEEPEST:
        return f'<div class="nz-more">… {len(group.groups):,} groups deeper inside</div>'
    shown = budget.take(len(group.groups))
    inside = []
    for child in group.groups[:shown]:
        counts = [(child.arrays, child.arrays_title.lower()), (child.groups, "groups")]
        note = ", ".join(f"{len(items):,} {what}" for items, what in counts if items)
        is_open = " open" if depth < 1 and shown <= 6 else ""
        inside.append(
            f'<details class="nz-group"{is_open}><summary><bdi class="nz-name">{_name(child.name)}</bdi> '
            f'<span class="nz-note">{_name(note)}</span></summary>{_group_body(child, depth + 1, budget)}</details>'
        )
    return _section("Groups", group.groups, "".join(inside), shown, is_open=True)


def _list(
    title: str, items: Sequence[Any], draw: Callable[[Any], str], budget: _Budget, *, is_open: bool = False
) -> str:
    if not items:
        return ""
    shown = budget.take(len(items))
    return _section(title, items, "".join(map(draw, items[:shown])), shown, is_open=is_open)


def _section(title: str, items: Sequence[Any], body: str, shown: int, *, is_open: bool) -> str:
    more = f'<div class="nz-more">… {len(items) - shown:,} more</div>' if shown < len(items) else ""
    return (
        f'<details class="nz-section"{" open" if is_open else ""}><summary>{_name(title)} '
        f'<span class="nz-count">{len(items):,}</span></summary><div class="nz-inside">{body}{more}</div></details>'
    )


def _dimension(dimension: DimensionDescription) -> str:
    name = "" if dimension.name is None else f'<bdi class="nz-name">{_name(dimension.name)}</bdi>'
    size = "?" if dimension.size is None else f"{dimension.size:,}"
    mark = '<span class="nz-unlimited" title="unlimited">∞</span>' if dimension.unlimited else ""
    return f'<span class="nz-dimension">{name} <span class="nz-size">{size}</span>{mark}</span>'


def _axes(axes: Sequence[DimensionDescription]) -> str:
    if not axes:
        return '<span class="nz-note">scalar</span>'
    return f'<span class="nz-axes">{"".join(map(_dimension, axes))}</span>'


def _array(array: ArrayDescription) -> str:
    about = next(
        (format_value(a.value) for a in array.attributes if a.name in ("long_name", "standard_name")), ""
    )
    note = f'<span class="nz-note"><bdi>{safe_html(about, longest=80)}</bdi></span>' if about else ""
    return (
        f'<details class="nz-array"><summary><bdi class="nz-name">{_name(array.name)}</bdi> '
        f'<span class="nz-type">{_name(array.type)}</span> {_axes(array.axes)} {note}</summary>'
        f"{_array_body(array)}</details>"
    )


def _array_body(array: ArrayDescription, *, is_open: bool = False) -> str:
    facts = list(array.facts)
    shape = array.shape
    if array.chunks is not None:
        facts.append(("shards" if array.inner_chunks else "chunks", _shape(array.chunks)))
    if array.inner_chunks is not None:
        facts.append(("chunks", _shape(array.inner_chunks)))
    if array.codecs:
        facts.append(("codecs", " → ".join(array.codecs)))
    if array.size is not None:
        facts.append(("size", format_bytes(array.size)))
    if array.stored is not None:
        facts.append(("stored", _stored(array.stored, array.size)))
    figure = "" if shape is None else draw_chunks(shape, array.chunks, array.inner_chunks)
    columns = f'<div class="nz-columns">{_facts(facts)}{figure}</div>' if facts or figure else ""
    attributes = array.attributes[:MOST_ROWS]
    table = _attributes(attributes)
    if table and is_open:
        table = _section("Attributes", array.attributes, table, len(attributes), is_open=True)
    return columns + table


def _shape(shape: Sequence[int]) -> str:
    return " × ".join(f"{n:,}" for n in shape) or "scalar"


def _stored(stored: int, size: int | None) -> str:
    if not stored or size is None:
        return format_bytes(stored)
    return (
        f"{format_bytes(stored)}, {size / stored:.1f} times smaller"
        if size > stored
        else format_bytes(stored)
    )


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    rows = "".join(
        f"<tr><th>{_name(what)}</th><td><bdi>{safe_html(text)}</bdi></td></tr>" for what, text in facts
    )
    return f'<table class="nz-facts">{rows}</table>' if rows else ""


def _attributes(attributes: Sequence[AttributeDescription]) -> str:
    rows = "".join(
        f'<tr><th><bdi>{_name(a.name)}</bdi></th><td class="nz-value"><bdi>'
        f"{safe_html(format_value(a.value), layout=True)}</bdi></td>"
        f'<td class="nz-type">{_name(a.type)}</td></tr>'
        for a in attributes
    )
    return f'<table class="nz-attributes">{rows}</table>' if rows else ""


def _type(type_: TypeDescription, *, is_open: bool = False) -> str:
    lines = "".join(
        f"<li><bdi>{safe_html(line, longest=LONGEST_NAME)}</bdi></li>" for line in type_.lines[:MOST_ROWS]
    )
    more = f"<li>… {len(type_.lines) - MOST_ROWS:,} more</li>" if len(type_.lines) > MOST_ROWS else ""
    return (
        f'<details class="nz-array"{" open" if is_open else ""}><summary><bdi class="nz-name">{_name(type_.name)}'
        f'</bdi> <span class="nz-type">{_name(type_.kind)}</span></summary>'
        f'<ul class="nz-lines">{lines}{more}</ul></details>'
    )
