"""Merge datasets with different variables on the same dimensions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeVar

from nczarr.convert.endpoints import call_all
from nczarr.convert.many.adjusting import fitted, growing_variables, with_nodes
from nczarr.convert.many.fit import Fitting, refuse
from nczarr.model import Attribute, Dataset, Group, UserType, Variable, rewrite

_N = TypeVar("_N", Dataset, Group, Variable)


def united(nodes: Sequence[_N]) -> _N:
    """Return the first of some groups or variables with the attributes of all, each from the first that has it."""
    found: dict[str, Attribute] = {}
    for attribute in chain.from_iterable(node.attributes for node in nodes):
        found.setdefault(attribute.name, attribute)
    first = replace(nodes[0], attributes=tuple(found.values()))
    if isinstance(first, Variable):
        return first
    twins = defaultdict[str, list[Variable]](list), defaultdict[str, list[Group]](list)
    for node in nodes:
        assert isinstance(node, Group)
        for variable in node.variables:
            twins[0][variable.name].append(variable)
        for group in node.groups:
            twins[1][group.name].append(group)
    return replace(
        first,
        variables=tuple(united(twins[0][v.name]) for v in first.variables),
        groups=tuple(united(twins[1][g.name]) for g in first.groups),
    )


def families(datasets: Sequence[Dataset], along: str | None, is_new: bool) -> list[list[int]]:
    """Return the numbers of the datasets to join along a dimension: those with a variable that not all datasets have.

    Examples
    --------
    >>> from nczarr.model import INT, Dimension
    >>> t = Dimension("t", 1)
    >>> files = [Dataset(n, dimensions=(t,), variables=(Variable(n, INT, ("/t",)),)) for n in ("a", "b", "a")]
    >>> families(files, "/t", False)
    [[0, 2], [1]]
    """
    if along is None:
        return [[number] for number in range(len(datasets))]
    grown = [growing_variables(dataset, along, is_new) for dataset in datasets]
    common = frozenset.intersection(*[names for names in grown if names] or [frozenset()])
    alone = [[number] for number, names in enumerate(grown) if not names]
    found: list[tuple[set[str], list[int]]] = []
    for number, names in enumerate(grown):
        if names:
            own, members = set(names - common), [number]
            # Files with no other variables than the common ones belong together, too.
            for family in [f for f in found if f[0] & own or not (f[0] or own)]:
                found.remove(family)
                own |= family[0]
                members += family[1]
            found.append((own, sorted(members)))
    return sorted([*alone, *(members for _, members in found)])


def merged(datasets: Sequence[Dataset], names: Sequence[str], fitting: Fitting) -> Dataset:
    """Return one dataset with the nodes of all; those that several have are the same, but for their attributes.

    Parameters
    ----------
    names : sequence of str
        Names of the datasets, for messages.

    Raises
    ------
    ModelError
        If nodes of one name differ; the message lists the conflicts.
    """
    nodes = _Nodes()
    nodes.update(datasets[0])
    used = {*chain.from_iterable(v.dimensions for v in datasets[0].all_variables.values())}

    def add(other: Dataset, name: str) -> None:
        first = nodes.part(other)
        assert isinstance(first, Dataset)
        nodes.update(_with(first, other, [names[0], name], fitting.of((first, other)), used))
        used.update(*[v.dimensions for v in other.all_variables.values()])

    call_all(partial(add, *pair) for pair in zip(datasets[1:], names[1:], strict=True))
    result = nodes.part(None)
    assert isinstance(result, Dataset)
    return replace(
        result,
        format=datasets[0].format if len({d.format for d in datasets}) == 1 else None,
        left_out=tuple(dict.fromkeys(what for d in datasets for what in d.left_out)),
        gone=tuple(dict.fromkeys(what for d in datasets for what in d.gone)),
        sources=tuple(source for d in datasets for source in d.sources),
    )


class _Nodes:
    """The nodes of one group of many datasets. A dataset is compared with those that it may have, too."""

    def __init__(self) -> None:
        self._group = Group("")
        self._variables: dict[str, Variable] = {}
        self._groups: dict[str, _Nodes] = {}

    def update(self, group: Group) -> None:
        """Take the nodes of a group in place of those with the same names."""
        self._group = replace(group, variables=(), groups=())
        self._variables.update((v.name, v) for v in group.variables)
        for own in group.groups:
            self._groups.setdefault(own.name, _Nodes()).update(own)

    def part(self, other: Group | None) -> Group:
        """Return the group without those variables whose names another group does not have; None: the whole group."""
        variables, groups, theirs = self._variables, self._groups, dict[str, Group]()
        if other is not None:
            theirs = {group.name: group for group in other.groups}
            nodes = chain[Group | UserType | Variable](other.variables, other.groups, other.types)
            variables = {n.name: variables[n.name] for n in nodes if n.name in variables}
        inside = [g.part(None if other is None else theirs.get(n, Group(n))) for n, g in groups.items()]
        return replace(self._group, variables=tuple(variables.values()), groups=tuple(inside))


def _with(
    first: Dataset, other: Dataset, names: Sequence[str], fitting: Fitting, used: set[str | int]
) -> Dataset:
    """Return the first dataset with the nodes that only the other one has.

    Parameters
    ----------
    used : set
        The dimensions that variables of the first dataset have, also those that it lacks here.
    """
    sizes = [{fqn: d.size for fqn, d in own.all_dimensions.items()} for own in (first, other)]
    unequal = {fqn for fqn, size in sizes[0].items() if sizes[1].get(fqn, size) != size}
    first, other = _without_unused(first, unequal - used), _without_unused(other, unequal)
    refused = f"the files cannot be merged; {names[0]} and those before are compared with {names[1]}"
    pair, _ = fitted([first, other], names, None, False, fitting, refused)
    result = with_nodes(*pair)
    if fitting.merges:
        result = united([result, pair[1]])
    lost = [
        (names[1], f"{fqn}: another kind of node has the name of this {what}")
        for what in ("variable", "group", "type")
        for fqn in getattr(other, f"all_{what}s").keys() - getattr(result, f"all_{what}s").keys()
    ]
    refuse(sorted(lost), refused, "--preprocess, a function that renames one of them")
    growing = {fqn for fqn, d in other.all_dimensions.items() if d.unlimited}
    return rewrite(result, dimension=lambda fqn, d: replace(d, unlimited=True) if fqn in growing else d)


def _without_unused(dataset: Dataset, dimensions: set[str]) -> Dataset:
    """Return a dataset without those dimensions that no variable has."""
    unused = dimensions.difference(*[v.dimensions for v in dataset.all_variables.values()])
    return rewrite(dataset, dimension=lambda fqn, d: None if fqn in unused else d) if unused else dataset
