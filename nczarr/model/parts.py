"""Take a model apart into what is new in it, and leave some of that out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nczarr.model.names import join_fqn
from nczarr.model.nodes import Attribute, Dataset, Variable


@dataclass(frozen=True)
class Part:
    """One thing that is new in a model: a type, a dimension, a group, a variable, or an attribute of one of these."""

    kind: str
    fqn: str
    attribute: str | None = None

    def __str__(self) -> str:
        return self.fqn if self.attribute is None else f"{self.fqn}, attribute {self.attribute!r}"


def parts_of(old: Dataset, new: Dataset) -> list[Part]:
    """Return what is new in a model: parts that others are built on come first."""
    parts = [Part("type", fqn) for fqn in new.all_types if fqn not in old.all_types]
    parts += [Part("dimension", fqn) for fqn in new.all_dimensions if fqn not in old.all_dimensions]
    parts += [Part("group", fqn) for fqn in new.all_groups if fqn not in old.all_groups]
    before = _owners(old)
    for fqn, owner in _owners(new).items():
        was = before.get(fqn)
        if was is None and isinstance(owner, Variable) and not _is_known(old, owner):
            parts.append(Part("variable", fqn))
        held = {} if was is None else {a.name: a for a in was.attributes}
        parts += [
            Part("attribute", fqn, a.name)
            for a in owner.attributes
            if a.name != "_FillValue" and held.get(a.name) is not a and held.get(a.name) != a
        ]
    return parts


def without(new: Dataset, old: Dataset, parts: Sequence[Part]) -> Dataset:
    """Return a model without some of its new parts; attributes that the old one has keep their values there."""
    left = set(parts)
    before = _owners(old)

    def attributes(owner: Any, fqn: str) -> tuple[Attribute, ...]:
        was = before.get(fqn)
        held = {} if was is None else {a.name: a for a in was.attributes}
        kept = [held.get(a.name) if Part("attribute", fqn, a.name) in left else a for a in owner.attributes]
        return tuple([a for a in kept if a is not None])

    def variable(node: Variable, fqn: str) -> Variable:
        kept = attributes(node, fqn)
        return node if kept == node.attributes else replace(node, attributes=kept)

    def group(node: Any, fqn: str) -> Any:
        return replace(
            node,
            attributes=attributes(node, fqn),
            types=tuple([t for t in node.types if Part("type", t.fqn) not in left]),
            dimensions=tuple(
                [d for d in node.dimensions if Part("dimension", join_fqn(fqn, d.name)) not in left]
            ),
            variables=tuple(
                [
                    variable(v, join_fqn(fqn, v.name))
                    for v in node.variables
                    if Part("variable", join_fqn(fqn, v.name)) not in left
                ]
            ),
            groups=tuple(
                [
                    group(g, join_fqn(fqn, g.name))
                    for g in node.groups
                    if Part("group", join_fqn(fqn, g.name)) not in left
                ]
            ),
        )

    result = group(new, "/")
    assert isinstance(result, Dataset)
    return result


def _owners(dataset: Dataset) -> dict[str, Any]:
    """The groups and variables of a dataset; an FQN is never that of both."""
    return {**dataset.all_groups, **dataset.all_variables}


def _is_known(old: Dataset, variable: Variable) -> bool:
    """True if a variable is stored under another name: its data are those of the store."""
    return variable.data is not None and any(v.data is variable.data for v in old.all_variables.values())
