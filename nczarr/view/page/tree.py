"""List the groups and variables of a dataset, optionally filtered by a search, for the tree of the page."""

from __future__ import annotations

from typing import Any

from nczarr.display import visible
from nczarr.model import CompoundType, Dataset, Group, Variable, join_fqn, split_fqn
from nczarr.view.data.fields import FieldSource
from nczarr.view.data.opened import text_attribute
from nczarr.view.picture.selection import is_drawable

#: Maximum number of variables to list; a search finds the others.
MOST_LISTED = 500
_LONGEST = 80


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


def list_tree(dataset: Dataset, search: str = "") -> tuple[list[dict[str, Any]], int]:
    """Return the items of the tree, and the number of variables omitted because of the limit.

    Groups without search results are omitted.
    """
    words = search.lower().split()
    remaining, omitted = MOST_LISTED, 0

    def inside(group: Group, fqn: str) -> list[dict[str, Any]]:
        nonlocal remaining, omitted
        items: list[dict[str, Any]] = []
        for variable in group.variables:
            at = join_fqn(fqn, variable.name)
            if not matches(at, variable, words):
                continue
            if remaining <= 0:
                omitted += 1
                continue
            remaining -= 1
            item = _variable_item(dataset, at, variable)
            if (owner := _owner_of(items, variable, fqn)) is None:
                items.append(item)
            else:
                owner.setdefault("items", []).append(item)
        for child in group.groups:
            at = join_fqn(fqn, child.name)
            below = inside(child, at)
            if below or not words:
                label = _short(child.name)
                items.append(
                    {
                        "id": f"group {at}",
                        "label": label,
                        "icon": "folder",
                        "items": below,
                        "selectable": False,
                    }
                )
        return items

    return inside(dataset, "/"), omitted


def _owner_of(items: list[dict[str, Any]], variable: Variable, group: str) -> dict[str, Any] | None:
    """Return the item of the compound variable that has this field; None if the search omitted it."""
    if not isinstance(variable.data, FieldSource) or not items:
        return None
    return items[-1] if items[-1]["id"] == join_fqn(group, variable.data.owner) else None


def _variable_item(dataset: Dataset, fqn: str, variable: Variable) -> dict[str, Any]:
    sizes = " × ".join(
        f"{split_fqn(ref)[1]} {size}" if isinstance(ref, str) else str(size)
        for ref, size in zip(variable.dimensions, dataset.shape(variable), strict=True)
    )
    icon = "data_object" if isinstance(variable.type, CompoundType) else "tag"
    if is_drawable(variable):
        icon = ("tag", "show_chart")[len(variable.dimensions)] if len(variable.dimensions) < 2 else "grid_on"
    data = variable.data
    return {
        "id": fqn,
        "label": _short(".".join(data.path) if isinstance(data, FieldSource) else variable.name),
        "secondary": _short(sizes or variable.type.name),
        "icon": icon,
    }


def _short(text: str) -> str:
    return visible(text[:_LONGEST] + ("…" if len(text) > _LONGEST else ""))
