"""Describe variables for the page: the items of the tree, and HTML for descriptions, statistics and text values."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Literal, TypedDict

import numpy as np

from nczarr.display import format_value, safe_html, show_array, visible
from nczarr.model import CompoundType, Dataset, Group, Variable, join_fqn, split_fqn
from nczarr.model.describe import describe_variable
from nczarr.view.opened import FieldSource, OpenedDataset, is_drawable, long_name, text_attribute
from nczarr.view.page.state import Address
from nczarr.view.picture.colours import Category
from nczarr.view.picture.drawings import Drawing, Line, Picture, Table, to_csv
from nczarr.view.picture.selection import Selection

Theme = Literal["light", "dark"]
#: Maximum number of variables to list; a search finds the others.
MOST_LISTED = 500
_LONGEST = 80
_MOST_ROWS = 100
_TABLE = 'style="border-collapse:collapse;font-size:14px"'
_CELL = 'style="padding:2px 24px 2px 0;text-align:left;vertical-align:top;overflow-wrap:anywhere"'
_HEAD = 'style="padding:2px 24px 2px 0;text-align:left;font-weight:400;opacity:.7;white-space:nowrap"'


def heading_html(opened: OpenedDataset, fqn: str) -> str:
    """Return the long name, the units and the FQN of a variable."""
    variable = opened.variable(fqn)
    units = safe_html(text_attribute(variable, "units"), longest=60)
    return (
        '<div style="font-size:22px;font-weight:600;overflow-wrap:anywhere"><bdi>'
        f"{safe_html(long_name(variable), longest=200)}</bdi> "
        f'<bdi style="font-weight:400;opacity:.7">{units}</bdi></div>'
        f'<div style="opacity:.7;overflow-wrap:anywhere"><bdi>{safe_html(fqn, longest=300)}</bdi></div>'
    )


def about_html(opened: OpenedDataset, fqn: str, theme: Theme) -> str:
    """Return the notebook representation of a variable, and of its Zarr array, if any."""
    variable = opened.variable(fqn)
    html = show_array(describe_variable(variable, opened.model.all_dimensions), theme=theme)
    array = getattr(variable.data, "array", None)
    if array is not None:
        from nczarr.zarr.describe import describe_array

        html += "<br>" + show_array(describe_array(array), theme=theme)
    return html


def statistics_html(drawing: Drawing, categories: tuple[Category, ...]) -> str:
    """Return tables of the statistics and of the categories of the values of a drawing."""
    if isinstance(drawing, Table):
        return ""
    values, total = np.ma.compressed(drawing.sample), drawing.sample.size
    of = "the shown values" if all(step == 1 for step in drawing.steps) else "the shown overview"
    rows = [("of", of), ("values", f"{values.size:,}"), ("missing", f"{total - values.size:,}")]
    if values.size and not categories:
        values = values.astype(np.float64)
        numbers = (values.min(), values.max(), values.mean(), values.std())
        names = ("minimum", "maximum", "mean", "standard deviation")
        rows += [(name, f"{number:.7g}") for name, number in zip(names, numbers)]
    counts = [(c.name, int((values == c.value).sum())) for c in categories]
    rows += [(name, f"{count:,} ({count / max(values.size, 1):.1%})") for name, count in counts]
    return _table(rows)


def table_html(table: Table) -> str:
    """Return a table of values as text."""
    html = _table([(label, format_value(value)) for label, value in table.rows])
    if table.left_out > 0:
        html += f"<p>… {table.left_out:,} more</p>"
    return html if table.rows else "<p>no values</p>"


def values_html(drawing: Drawing) -> str:
    """Return the first values of a drawing with their places, as in the CSV file."""
    if not isinstance(drawing, Line | Picture):
        return ""
    rows = [tuple(row) for row in csv.reader(io.StringIO(to_csv(drawing, _MOST_ROWS)))]
    more = f"<p>the first of {drawing.sample.size:,} values; the CSV file has all</p>"
    return _table(rows) + (more if drawing.sample.size > _MOST_ROWS else "")


def python_html(names: list[str], selection: Selection, address: Address) -> str:
    """Return the lines of Python that draw the same picture to a file."""
    limits = None if address.low is address.high is None else (address.low, address.high)
    options: dict[str, object] = {
        "at": {selection.axes[i].name: selection.at[i] for i in selection.fixed},
        "colours": address.colours,
        "limits": limits,
        "projection": address.projection,
        "overlay": address.overlay,
    }
    given = "".join(f", {name}={value!r}" for name, value in options.items() if value)
    source = names if len(names) > 1 else names[0]
    line = f"from nczarr.view import plot\n\nplot({source!r}, {selection.fqn!r}, 'picture.png'{given})"
    return f"<pre>{safe_html(line, layout=True)}</pre>"


def alert_html(text: str) -> str:
    """Return an error message as an alert box."""
    return (
        '<div role="alert" style="border:1px solid #e03131;border-left-width:6px;border-radius:4px;padding:8px 14px">'
        f"{safe_html(text, longest=2000, layout=True)}</div>"
    )


def notes_html(notes: tuple[str, ...]) -> str:
    """Return the notes below a picture."""
    return "".join(f'<div style="opacity:.75">{safe_html(note)}</div>' for note in notes)


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    cells = "".join(
        f"<tr><th {_HEAD}><bdi>{safe_html(name, longest=200)}</bdi></th>"
        + "".join(f"<td {_CELL}><bdi>{safe_html(value)}</bdi></td>" for value in values)
        + "</tr>"
        for name, *values in rows
    )
    return f"<table {_TABLE}>{cells}</table>"


class Item(TypedDict, total=False):
    """An item of the tree: a group or a variable."""

    id: str
    label: str
    secondary: str
    icon: str
    selectable: bool
    items: list[Item]


def matches(fqn: str, variable: Variable, words: list[str]) -> bool:
    """Return True if each word occurs in the FQN, long name, standard name or units of a variable.

    Examples
    --------
    >>> from nczarr.model import FLOAT
    >>> matches("/ocean/temp", Variable("temp", FLOAT), ["oce", "temp"])
    True
    """
    about = [fqn, *(text_attribute(variable, name) for name in ("long_name", "standard_name", "units"))]
    text = "\n".join(about).lower()
    return all(word in text for word in words)


def list_tree(dataset: Dataset, search: str = "") -> tuple[list[Item], int]:
    """Return the items of the tree, and the number of variables omitted because of the limit.

    Groups without search results are omitted.
    """
    words = search.lower().split()
    found = 0

    def inside(group: Group, fqn: str) -> list[Item]:
        nonlocal found
        items: list[Item] = []
        for variable in group.variables:
            at = join_fqn(fqn, variable.name)
            if not matches(at, variable, words):
                continue
            found += 1
            if found > MOST_LISTED:
                continue
            owner = _owner_of(items, variable, fqn)
            siblings = items if owner is None else owner.setdefault("items", [])
            siblings.append(_variable_item(dataset, at, variable))
        for child in group.groups:
            at = join_fqn(fqn, child.name)
            below = inside(child, at)
            if below or not words:
                label = _short(child.name)
                items.append(
                    Item(id=f"group {at}", label=label, icon="folder", selectable=False, items=below)
                )
        return items

    return inside(dataset, "/"), max(found - MOST_LISTED, 0)


def _owner_of(items: list[Item], variable: Variable, group: str) -> Item | None:
    """Return the item of the compound variable that has this field; None if the search omitted it."""
    if not isinstance(variable.data, FieldSource) or not items:
        return None
    return items[-1] if items[-1]["id"] == join_fqn(group, variable.data.owner) else None


def _variable_item(dataset: Dataset, fqn: str, variable: Variable) -> Item:
    sizes = " × ".join(
        f"{split_fqn(ref)[1]} {size}" if isinstance(ref, str) else str(size)
        for ref, size in zip(variable.dimensions, dataset.shape(variable), strict=True)
    )
    icon = "data_object" if isinstance(variable.type, CompoundType) else "tag"
    if is_drawable(variable):
        icon = ("tag", "show_chart", "grid_on")[min(len(variable.dimensions), 2)]
    data = variable.data
    return {
        "id": fqn,
        "label": _short(".".join(data.path) if isinstance(data, FieldSource) else variable.name),
        "secondary": _short(sizes or variable.type.name),
        "icon": icon,
    }


def _short(text: str) -> str:
    return visible(text[:_LONGEST] + ("…" if len(text) > _LONGEST else ""))
