"""Match the objects of two models of one file, across renames.

The data of a variable identify it, or else its name does. The groups and dimensions of matched variables
match in turn. Objects without variables match by name, and otherwise by equal definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from nczarr.model import Dataset, Dimension, Group, format_fqn, join_fqn, parse_fqn
from nczarr.model.parts import known_variables

_N = TypeVar("_N", Group, Dimension)


@dataclass
class Matches:
    """Fully qualified names in the old model by those in the new one. New objects are absent."""

    variables: dict[str, str]
    groups: dict[str, str] = field(default_factory=dict)
    dimensions: dict[str, str] = field(default_factory=dict)


def match(old: Dataset, new: Dataset, data: Mapping[str, object]) -> Matches:
    """Match two models. `data` has the data of the old variables.

    Examples
    --------
    >>> from nczarr.model import INT, Dimension, MemorySource, Variable
    >>> import numpy as np
    >>> data = MemorySource(np.zeros(2, "i4"))
    >>> old = Dataset("d", dimensions=(Dimension("x", 2),), variables=(Variable("v", INT, ("/x",), data=data),))
    >>> new = Dataset("d", dimensions=(Dimension("y", 2),), variables=(Variable("w", INT, ("/y",), data=data),))
    >>> found = match(old, new, {"/v": data})
    >>> found.variables, found.dimensions
    ({'/w': '/v'}, {'/y': '/x'})
    """
    found = Matches(known_variables(new, data))
    _groups(found, old, new)
    _dimensions(found, old, new)
    return found


def _groups(found: Matches, old: Dataset, new: Dataset) -> None:
    known: dict[str, str] = {}
    for fqn, before in found.variables.items():
        here, there = parse_fqn(fqn)[:-1], parse_fqn(before)[:-1]
        if len(here) == len(there):
            for depth in range(1, len(here) + 1):
                known.setdefault(format_fqn(here[:depth]), format_fqn(there[:depth]))

    def walk(after: Group, before: Group, fqn: str, was: str) -> None:
        found.groups[fqn] = was
        rest = {group.name: group for group in before.groups}
        pairs: list[tuple[Group, Group]] = []
        left: list[Group] = []
        for group in after.groups:
            name = known.get(join_fqn(fqn, group.name))
            child = None if name is None else rest.pop(parse_fqn(name)[-1], None)
            if child is None:
                left.append(group)
            else:
                pairs.append((group, child))
        pairs += _rest(left, rest, lambda g: (g.attributes, g.dimensions, [t.name for t in g.types]))
        for group, child in pairs:
            walk(group, child, join_fqn(fqn, group.name), join_fqn(was, child.name))

    walk(new, old, "/", "/")


def _dimensions(found: Matches, old: Dataset, new: Dataset) -> None:
    variables = new.all_variables, old.all_variables
    known: dict[str, str] = {}
    for fqn, was in found.variables.items():
        for here, there in zip(variables[0][fqn].dimensions, variables[1][was].dimensions, strict=False):
            known.setdefault(str(here), str(there))
    found.dimensions.update(known)
    used = set(known.values())
    groups = new.all_groups, old.all_groups
    for fqn, was in found.groups.items():
        rest = {d.name: d for d in groups[1][was].dimensions if join_fqn(was, d.name) not in used}
        left = [d for d in groups[0][fqn].dimensions if join_fqn(fqn, d.name) not in known]
        for dimension, before in _rest(left, rest, lambda d: (d.size, d.unlimited)):
            found.dimensions[join_fqn(fqn, dimension.name)] = join_fqn(was, before.name)


def _rest(after: Iterable[_N], before: dict[str, _N], look: Callable[[_N], object]) -> list[tuple[_N, _N]]:
    """Return pairs with equal names, then pairs with equal definitions."""
    pairs: list[tuple[_N, _N]] = []
    left: list[_N] = []
    for node in after:
        same = before.pop(node.name, None)
        if same is None:
            left.append(node)
        else:
            pairs.append((node, same))
    for node in left:
        name = next((n for n, candidate in before.items() if look(candidate) == look(node)), None)
        if name is not None:
            pairs.append((node, before.pop(name)))
    return pairs
