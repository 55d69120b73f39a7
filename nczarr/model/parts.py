"""List the parts that a new model adds to an old one, and remove some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from nczarr.model.names import join_fqn
from nczarr.model.nodes import Attribute, Dataset, Group, Variable


@dataclass(frozen=True)
class Part:
    """One new part of a model: a type, a dimension, a group, a variable, or an attribute of a group or variable."""

    kind: str
    fqn: str
    attribute: str | None = None

    def __str__(self) -> str:
        return self.fqn if self.attribute is None else f"{self.fqn}, attribute {self.attribute!r}"


def parts_of(old: Dataset, new: Dataset) -> list[Part]:
    """Return the parts of `new` that `old` lacks; a part follows the parts that it uses."""
    parts = [Part("type", fqn) for fqn in new.all_types if fqn not in old.all_types]
    parts += [Part("dimension", fqn) for fqn in new.all_dimensions if fqn not in old.all_dimensions]
    parts += [Part("group", fqn) for fqn in new.all_groups if fqn not in old.all_groups]
    before = _owners(old)
    for fqn, owner in _owners(new).items():
        previous = before.get(fqn)
        if previous is None and isinstance(owner, Variable) and not _is_renamed(old, owner):
            parts.append(Part("variable", fqn))
        current = {} if previous is None else {a.name: a for a in previous.attributes}
        parts += [
            Part("attribute", fqn, a.name)
            for a in owner.attributes
            if a.name != "_FillValue" and current.get(a.name) is not a and current.get(a.name) != a
        ]
    return parts


def known_variables(new: Dataset, data: Mapping[str, object]) -> dict[str, str]:
    """Return the old FQN of each variable of the new model that exists already, by its new FQN.

    `data` has the data of the old variables, which identify them, or else their names do.
    """
    by_id = {id(values): fqn for fqn, values in data.items()}
    found: dict[str, str] = {}
    for fqn, variable in new.all_variables.items():
        before = by_id.pop(id(variable.data), None)
        if before is not None:
            found[fqn] = before
    used = set(found.values())
    return found | {fqn: fqn for fqn in new.all_variables if fqn in data and fqn not in {*found, *used}}


_G = TypeVar("_G", bound=Group)


def without(new: Dataset, old: Dataset, parts: Sequence[Part]) -> Dataset:
    """Return `new` without some of its new parts; excluded attributes keep their values from `old`."""
    excluded = set(parts)
    before = _owners(old)

    def attributes(owner: Group | Variable, fqn: str) -> tuple[Attribute, ...]:
        previous = before.get(fqn)
        current = {} if previous is None else {a.name: a for a in previous.attributes}
        kept = [
            current.get(a.name) if Part("attribute", fqn, a.name) in excluded else a for a in owner.attributes
        ]
        return tuple([a for a in kept if a is not None])

    def variable(node: Variable, fqn: str) -> Variable:
        kept = attributes(node, fqn)
        return node if kept == node.attributes else replace(node, attributes=kept)

    def group(node: _G, fqn: str) -> _G:
        return replace(
            node,
            attributes=attributes(node, fqn),
            types=tuple([t for t in node.types if Part("type", t.fqn) not in excluded]),
            dimensions=tuple(
                [d for d in node.dimensions if Part("dimension", join_fqn(fqn, d.name)) not in excluded]
            ),
            variables=tuple(
                [
                    variable(v, join_fqn(fqn, v.name))
                    for v in node.variables
                    if Part("variable", join_fqn(fqn, v.name)) not in excluded
                ]
            ),
            groups=tuple(
                [
                    group(g, join_fqn(fqn, g.name))
                    for g in node.groups
                    if Part("group", join_fqn(fqn, g.name)) not in excluded
                ]
            ),
        )

    return group(new, "/")


def _owners(dataset: Dataset) -> dict[str, Group | Variable]:
    """Return the groups and variables of a dataset by FQN; no group shares its FQN with a variable."""
    return {**dataset.all_groups, **dataset.all_variables}


def _is_renamed(old: Dataset, variable: Variable) -> bool:
    """Return True if `old` has the variable's data under another name."""
    return variable.data is not None and any(v.data is variable.data for v in old.all_variables.values())
