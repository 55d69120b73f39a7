"""Name anonymous dimensions as the netCDF library names them."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from nczarr.model.names import join_fqn
from nczarr.model.nodes import Dataset, Dimension, DimensionRef, Group, Variable

_G = TypeVar("_G", bound=Group)


def name_anonymous(dataset: Dataset) -> Dataset:
    """Replace each anonymous dimension by one called ``phony_dim_<n>``, as the netCDF library does.

    Variables of one group share one dimension for each size. The axes of a single variable have distinct
    dimensions.

    Examples
    --------
    >>> from nczarr.model import INT
    >>> made = name_anonymous(Dataset("d", variables=(Variable("v", INT, (2, 2)), Variable("w", INT, (2,)))))
    >>> [d.name for d in made.dimensions], made.variables[0].dimensions, made.variables[1].dimensions
    (['phony_dim_0', 'phony_dim_1'], ('/phony_dim_0', '/phony_dim_1'), ('/phony_dim_0',))
    """
    if not any(isinstance(d, int) for v in dataset.all_variables.values() for d in v.dimensions):
        return dataset
    return _with_names("/", dataset)


def _with_names(fqn: str, group: _G) -> _G:
    taken = {d.name for d in group.dimensions} | {v.name for v in group.variables}
    taken |= {t.name for t in group.types} | {g.name for g in group.groups}
    made: list[Dimension] = []

    def named(variable: Variable) -> Variable:
        references: list[DimensionRef] = []
        for reference in variable.dimensions:
            if isinstance(reference, int):
                fit = (join_fqn(fqn, d.name) for d in made if d.size == reference)
                found = next((name for name in fit if name not in references), None)
                reference = found or new(reference)
            references.append(reference)
        return replace(variable, dimensions=tuple(references))

    def new(size: int) -> str:
        number = 0
        while f"phony_dim_{number}" in taken:
            number += 1
        made.append(Dimension(f"phony_dim_{number}", size))
        taken.add(made[-1].name)
        return join_fqn(fqn, made[-1].name)

    variables = tuple(named(v) for v in group.variables)
    return replace(
        group,
        variables=variables,
        dimensions=(*group.dimensions, *made),
        groups=tuple(_with_names(join_fqn(fqn, g.name), g) for g in group.groups),
    )
