"""Give a model other lengths of its dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from nczarr.model.names import join_fqn
from nczarr.model.nodes import Group

_G = TypeVar("_G", bound=Group)


def with_lengths(group: _G, sizes: Mapping[str, int], fqn: str = "/") -> _G:
    """The group with dimensions of other sizes, which are given by FQN.

    Examples
    --------
    >>> from nczarr.model import Dataset, Dimension
    >>> with_lengths(Dataset("d", dimensions=(Dimension("t", 1, True),)), {"/t": 5}).dimensions
    (Dimension(name='t', size=5, unlimited=True),)
    """
    return replace(
        group,
        dimensions=tuple(replace(d, size=sizes.get(join_fqn(fqn, d.name), d.size)) for d in group.dimensions),
        groups=tuple(with_lengths(g, sizes, join_fqn(fqn, g.name)) for g in group.groups),
    )
