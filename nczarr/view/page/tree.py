"""List the groups and variables of a dataset for the page's tree, all or those that a search finds."""

from __future__ import annotations

from typing import Any

from nczarr.display import visible
from nczarr.model import CompoundType, Dataset, Group, Variable, join_fqn, split_fqn
from nczarr.view.data.fields import FieldSource
from nczarr.view.data.opened import text_attribute
from nczarr.view.picture.selection import is_drawable

#: Variables that are listed at a time; a search finds the others.
MOST_LISTED = 500
_LONGEST = 80


def matches(fqn: str, variable: Variable, words: list[str]) -> bool:
    """True if a variable's name, long name, standard name or units have all the words.

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
    """Return the items of the tree, and how many variables were left out.

    Groups with nothing that the search finds are left out too.
    """
    words = search.lower().split()
    left = [MOST_LISTED, 0]

    def inside(group: Group, fqn: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        for variable in group.variables:
            at = join_fqn(fqn, variable.name)
            if not matches(at, variable, words):
                continue
            if left[0] <= 0:
                left[1] += 1
                continue
            left[0] -= 1
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

    return inside(dataset, "/"), left[1]


def _owner_of(items: list[dict[str, Any]], variable: Variable, group: str) -> dict[str, Any] | None:
    """The item of the compound that a variable is a field of; a search may have left that out."""
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
