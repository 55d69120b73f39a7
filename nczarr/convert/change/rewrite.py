"""Rebuild a dataset with other groups, dimensions or variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from nczarr.model import Dataset, Dimension, Group, Variable, join_fqn

_G = TypeVar("_G", bound=Group)


def rewrite(
    dataset: Dataset,
    *,
    variable: Callable[[str, Variable], Variable | None] | None = None,
    dimension: Callable[[str, Dimension], Dimension | None] | None = None,
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

    def inside(fqn: str, old: _G) -> _G:
        variables, dimensions = old.variables, old.dimensions
        if variable is not None:
            made = (variable(join_fqn(fqn, v.name), v) for v in old.variables)
            variables = tuple(v for v in made if v is not None)
        if dimension is not None:
            changed = (dimension(join_fqn(fqn, d.name), d) for d in old.dimensions)
            dimensions = tuple(d for d in changed if d is not None)
        groups = [(join_fqn(fqn, g.name), g) for g in old.groups]
        return replace(
            old,
            variables=variables,
            dimensions=dimensions,
            groups=tuple(inside(at, g) for at, g in groups if group is None or group(at)),
        )

    return inside("/", dataset)
