"""Describe variables for the page: the items of the tree, and HTML for descriptions, statistics and text values."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from nczarr.display import format_value, safe_html, show_array, visible
from nczarr.model import Dataset, Variable, join_fqn, split_fqn
from nczarr.model.coordinates import text_of
from nczarr.model.describe import describe_variable
from nczarr.view.opened import FieldSource, OpenedDataset, is_drawable, long_name
from nczarr.view.page.state import Address
from nczarr.view.picture.colours import Category
from nczarr.view.picture.drawings import Drawing, Line, Picture, Table, to_csv
from nczarr.view.picture.selection import Hyperslab
from nczarr.zarr import Array
from nczarr.zarr.describe import describe_array

#: An item of the tree, a group or a variable, with the keys of panel-material-ui.
Item = dict[str, Any]
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
    units = safe_html(text_of(variable, "units"), longest=60)
    name, wrap = safe_html(long_name(variable), longest=200), "overflow-wrap:anywhere"
    title = f'<bdi>{name}</bdi> <bdi style="font-weight:400;opacity:.7">{units}</bdi>'
    html = f'<div style="font-size:22px;font-weight:600;{wrap}">{title}</div>'
    return f'{html}<div style="opacity:.7;{wrap}"><bdi>{safe_html(fqn, longest=300)}</bdi></div>'


def about_html(opened: OpenedDataset, fqn: str, theme: Theme) -> str:
    """Return the notebook representation of a variable, and of its Zarr array, if any."""
    variable = opened.variable(fqn)
    html = show_array(describe_variable(variable, opened.model.all_dimensions), theme=theme)
    # The array of a variable in memory is numpy's: it was taken for Zarr's, with an AttributeError.
    if isinstance(array := getattr(variable.data, "array", None), Array):
        html += "<br>" + show_array(describe_array(array), theme=theme)
    return html


def statistics_html(drawing: Drawing, categories: tuple[Category, ...]) -> str:
    """Return tables of the statistics and of the categories of the values of a drawing."""
    if isinstance(drawing, Table):
        return ""
    values, total = np.ma.compressed(drawing.sample), drawing.sample.size
    of = "the shown values" if {*drawing.steps} <= {1} else "the shown overview"
    rows = [("of", of), ("values", f"{values.size:,}"), ("missing", f"{total - values.size:,}")]
    if values.size and not categories:
        numbers = (getattr(values.astype(np.float64), name)() for name in ("min", "max", "mean", "std"))
        names = ("minimum", "maximum", "mean", "standard deviation")
        rows += [(name, f"{number:.7g}") for name, number in zip(names, numbers)]
    for category in categories:
        count = int((values == category.value).sum())
        rows.append((category.name, f"{count:,} ({count / max(values.size, 1):.1%})"))
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


def python_html(names: list[str], selection: Hyperslab, address: Address) -> str:
    """Return the lines of Python that draw the same picture to a file."""
    options: dict[str, object] = {"at": {selection.axes[i].name: selection.at[i] for i in selection.fixed}}
    options |= {
        name: getattr(address, name) for name in ("colours", "projection", "overlay", "reach", "progression")
    }
    options["limits"] = None if address.low is address.high is None else (address.low, address.high)
    given = "".join(f", {name}={value!r}" for name, value in options.items() if value)
    source = names if len(names) > 1 else names[0]
    line = f"from nczarr.view import plot\n\nplot({source!r}, {selection.fqn!r}, 'picture.png'{given})"
    return f"<pre>{safe_html(line, layout=True)}</pre>"


def alert_html(text: str) -> str:
    """Return an error message as an alert box."""
    style = "border:1px solid #e03131;border-left-width:6px;border-radius:4px;padding:8px 14px"
    return f'<div role="alert" style="{style}">{safe_html(text, longest=2000, layout=True)}</div>'


def notes_html(notes: tuple[str, ...]) -> str:
    """Return the notes below a picture."""
    return "".join(f'<div style="opacity:.75">{safe_html(note)}</div>' for note in notes)


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    html = f"<table {_TABLE}>"
    for name, *values in rows:
        html += f"<tr><th {_HEAD}><bdi>{safe_html(name, longest=200)}</bdi></th>"
        html += "".join(f"<td {_CELL}><bdi>{safe_html(value)}</bdi></td>" for value in values)
    return f"{html}</table>"


def list_tree(dataset: Dataset, search: str = "") -> tuple[list[Item], int]:
    """Return the items of the tree, and the number of variables omitted because of the limit.

    Each word of a search occurs in the FQN, long name, standard name or units. Groups without results are omitted.
    """
    words, variables = search.lower().split(), dataset.all_variables

    def is_found(fqn: str, variable: Variable) -> bool:
        about = (text_of(variable, name) for name in ("long_name", "standard_name", "units"))
        text = "\n".join((fqn, *about)).lower()
        return all(word in text for word in words)

    found = [fqn for fqn, variable in variables.items() if is_found(fqn, variable)]
    groups: dict[str, list[Item]] = {"/": []}

    def inside(fqn: str) -> list[Item]:
        """Return the items of a group, which is an item of its parent."""
        if fqn not in groups:
            parent, name = split_fqn(fqn)
            groups[fqn] = []
            item = {"id": f"group {fqn}", "label": _short(name), "icon": "folder", "selectable": False}
            inside(parent).append(item | {"items": groups[fqn]})
        return groups[fqn]

    for fqn in found[:MOST_LISTED]:
        (group, _), data = split_fqn(fqn), variables[fqn].data
        items = inside(group)
        if isinstance(data, FieldSource) and items and items[-1]["id"] == join_fqn(group, data.owner):
            items = items[-1].setdefault("items", [])
        items.append(_variable_item(dataset, fqn, variables[fqn]))
    for fqn in () if words else dataset.all_groups:
        inside(fqn)
    return groups["/"], len(found[MOST_LISTED:])


def _variable_item(dataset: Dataset, fqn: str, variable: Variable) -> Item:
    axes = zip(variable.dimensions, dataset.shape_of(variable), strict=True)
    sizes = " × ".join(f"{split_fqn(ref)[1]} {n}" if isinstance(ref, str) else str(n) for ref, n in axes)
    icon = "data_object" if variable.type.kind == "compound" else "tag"
    if is_drawable(variable):
        icon = ("tag", "show_chart", "grid_on")[min(len(variable.dimensions), 2)]
    data = variable.data
    label = _short(".".join(data.path) if isinstance(data, FieldSource) else variable.name)
    return {"id": fqn, "label": label, "secondary": _short(sizes or variable.type.name), "icon": icon}


def _short(text: str) -> str:
    return visible(text[:_LONGEST] + ("…" if len(text) > _LONGEST else ""))
