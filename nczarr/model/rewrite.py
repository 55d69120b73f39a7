"""Rebuild a dataset with other groups, dimensions or variables; frozen nodes are replaced, not changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from nczarr.model.names import join_fqn
from nczarr.model.nodes import Dataset, Dimension, Group, Variable
from nczarr.model.sources import ArraySource

_G = TypeVar("_G", bound=Group)
_Node = TypeVar("_Node", Variable, Dimension)
#: Makes another node of the node at an FQN; None leaves it out.
_Change = Callable[[str, _Node], _Node | None]


def rewrite(
    dataset: Dataset,
    *,
    variable: _Change[Variable] | None = None,
    dimension: _Change[Dimension] | None = None,
    group: Callable[[str], bool] | None = None,
) -> Dataset:
    """Return the dataset with each node changed; what becomes None, or a group that is not kept, is left out.

    Examples
    --------
    >>> from nczarr.model import INT
    >>> dataset = Dataset("d", variables=(Variable("a", INT), Variable("b", INT)))
    >>> [v.name for v in rewrite(dataset, variable=lambda fqn, v: v if fqn == "/b" else None).variables]
    ['b']
    """

    return _rewritten("/", dataset, variable, dimension, group)


def bind_data(group: _G, values: Mapping[str, ArraySource], fqn: str = "/") -> _G:
    """Return the group with the values of each variable, given by FQN.

    Examples
    --------
    >>> import numpy as np
    >>> from nczarr.model import INT, MemorySource
    >>> bound = bind_data(Dataset("d", variables=(Variable("v", INT, ()),)), {"/v": MemorySource(np.array(3))})
    >>> bound.variables[0].data.read(())
    array(3)
    """

    def bound(at: str, variable: Variable) -> Variable:
        data = values[at]
        return variable if variable.data is data else variable.with_data(data)

    return _rewritten(fqn, group, bound, None, None)


def with_lengths(group: _G, sizes: Mapping[str, int], fqn: str = "/") -> _G:
    """Return the group with dimensions of other sizes, given by FQN.

    Examples
    --------
    >>> with_lengths(Dataset("d", dimensions=(Dimension("t", 1, True),)), {"/t": 5}).dimensions
    (Dimension(name='t', size=5, unlimited=True),)
    """

    def lengthened(at: str, dimension: Dimension) -> Dimension:
        return replace(dimension, size=sizes[at]) if at in sizes else dimension

    return _rewritten(fqn, group, None, lengthened, None)


def _rewritten(
    fqn: str,
    old: _G,
    variable: _Change[Variable] | None,
    dimension: _Change[Dimension] | None,
    group: Callable[[str], bool] | None,
) -> _G:
    children = [(join_fqn(fqn, child.name), child) for child in old.groups]
    return replace(
        old,
        variables=_changed(fqn, old.variables, variable),
        dimensions=_changed(fqn, old.dimensions, dimension),
        groups=tuple(
            _rewritten(at, child, variable, dimension, group)
            for at, child in children
            if group is None or group(at)
        ),
    )


def _changed(fqn: str, nodes: tuple[_Node, ...], change: _Change[_Node] | None) -> tuple[_Node, ...]:
    if change is None:
        return nodes
    made = (change(join_fqn(fqn, node.name), node) for node in nodes)
    return tuple(node for node in made if node is not None)
