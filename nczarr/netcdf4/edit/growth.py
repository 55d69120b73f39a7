"""Tell which dimensions have grown since a tree was stored, and which variables have them.

A program that appends and syncs changes nothing but lengths; then the rest of the tree need not be looked at.
"""

from __future__ import annotations

from collections.abc import Iterable

from nczarr.netcdf4.edit.nodes import DimensionNode, GroupNode, VariableNode


class Growth:
    """The lengths of unlimited dimensions as they were stored last. The tree's lock is held where it is used.

    Parameters
    ----------
    root : GroupNode
        The tree, as it is being stored.
    """

    def __init__(self, root: GroupNode) -> None:
        self._root = root
        self._structure = root.state.structure
        self._lengths = {d: d.size for g in root.walk() for d in g.dimensions.values() if d.unlimited}
        self._variables: dict[DimensionNode, list[VariableNode]] | None = None

    @property
    def is_all(self) -> bool:
        """True if nothing else has changed."""
        return self._root.state.structure == self._structure

    def grown(self) -> dict[DimensionNode, int]:
        """The dimensions that are longer now, and how long they are."""
        return {d: d.size for d, size in self._lengths.items() if d.size != size}

    def variables(self, dimensions: Iterable[DimensionNode]) -> dict[VariableNode, None]:
        """The variables that have any of some dimensions, each once."""
        if self._variables is None:
            self._variables = {d: [] for d in self._lengths}
            for node in self._root.walk_variables():
                for d in node.dimensions:
                    if d in self._variables:
                        self._variables[d].append(node)
        return dict.fromkeys(node for d in dimensions for node in self._variables[d])

    def note(self, lengths: dict[DimensionNode, int]) -> None:
        """Take lengths for stored."""
        self._lengths.update(lengths)
