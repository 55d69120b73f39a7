"""Bind the variables of a model to their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from nczarr.model.names import join_fqn
from nczarr.model.nodes import Group
from nczarr.model.sources import ArraySource

_G = TypeVar("_G", bound=Group)


def bind_data(group: _G, values: Mapping[str, ArraySource], fqn: str = "/") -> _G:
    """The group with the values of each variable, which are given by FQN; what is bound to them already stays.

    Examples
    --------
    >>> import numpy as np
    >>> from nczarr.model import INT, Dataset, MemorySource, Variable
    >>> bound = bind_data(Dataset("d", variables=(Variable("v", INT, ()),)), {"/v": MemorySource(np.array(3))})
    >>> bound.variables[0].data.read(())
    array(3)
    """
    variables = []
    for variable in group.variables:
        data = values[join_fqn(fqn, variable.name)]
        variables.append(variable if variable.data is data else variable.with_data(data))
    groups = tuple(bind_data(child, values, join_fqn(fqn, child.name)) for child in group.groups)
    return replace(group, variables=tuple(variables), groups=groups)
