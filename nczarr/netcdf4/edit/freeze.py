"""Turn the tree of nodes into the frozen model, and the model into nodes.

Nodes keep their frozen form until they change, so that freezing a large tree after a small change is cheap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nczarr import model
from nczarr.collector import paused_collector
from nczarr.netcdf4.edit.nodes import DimensionNode, GroupNode, TypeNode, VariableNode


def freeze(root: GroupNode, name: str, format: str | None) -> model.Dataset:
    """The tree as a model; variables that are stored have the data of the store. The tree's lock is held."""
    return model.Dataset(name, format=format, **_content(root))


def _content(node: GroupNode) -> dict[str, Any]:
    return {
        "attributes": tuple(node.attributes.values()),
        "types": tuple(t.type for t in node.types),
        "dimensions": tuple(
            model.Dimension(d.name, d.size, d.unlimited) for d in node.dimensions.values() if not d.anonymous
        ),
        "variables": tuple(_variable(v) for v in node.variables.values()),
        "groups": tuple(_group(g) for g in node.groups.values()),
    }


def _group(node: GroupNode) -> model.Group:
    if node.frozen is None:
        node.frozen = model.Group(node.name, **_content(node))
    return node.frozen


def _variable(node: VariableNode) -> model.Variable:
    if node.frozen is None:
        node.frozen = model.Variable(
            node.name,
            node.type,
            tuple(d.ref for d in node.dimensions),
            attributes=tuple(node.attributes.values()),
            storage=node.storage,
            data=node.source,
        )
    return node.frozen


@paused_collector()
def thaw(root: GroupNode, dataset: model.Dataset) -> None:
    """Fill the root with the nodes of a model.

    Dimensions without a name get one at the root, as netCDF-C names them: ``_Anonymous_Dim_<size>``.
    """
    _Thaw(root).all(dataset)


class _Thaw:
    def __init__(self, root: GroupNode) -> None:
        self.root = root
        self.dimensions: dict[str, DimensionNode] = {}
        self.anonymous: dict[int, DimensionNode] = {}

    def all(self, dataset: model.Dataset) -> None:
        # Types and dimensions first, everywhere: a reference may point to any group.
        pairs = self.skeleton(self.root, dataset)
        types = self.root.all_types()
        for group, content in pairs:
            for v in content.variables:
                self.variable(group, v, types)

    def skeleton(self, group: GroupNode, frozen: model.Group) -> list[tuple[GroupNode, model.Group]]:
        group.attributes.update((a.name, a) for a in frozen.attributes)
        group.types = [TypeNode(group, t) for t in frozen.types]
        for d in frozen.dimensions:
            node = DimensionNode(group, d.name, d.size, unlimited=d.unlimited)
            group.dimensions[d.name] = node
            self.dimensions[str(node.ref)] = node
        pairs = [(group, frozen)]
        for g in frozen.groups:
            group.groups[g.name] = GroupNode(group.state, group, g.name)
            pairs.extend(self.skeleton(group.groups[g.name], g))
        return pairs

    def variable(self, group: GroupNode, frozen: model.Variable, types: Mapping[str, TypeNode]) -> None:
        kind = types[frozen.type.fqn] if isinstance(frozen.type, model.UserType) else frozen.type
        dimensions = tuple([self.dimension(ref) for ref in frozen.dimensions])
        node = VariableNode(group, frozen.name, kind, dimensions, frozen.storage)
        node.attributes.update((a.name, a) for a in frozen.attributes)
        node.stored_as = node.fqn
        node.frozen = frozen
        node.clean = False
        node.fresh = None
        group.variables[frozen.name] = node

    def dimension(self, ref: model.DimensionRef) -> DimensionNode:
        if isinstance(ref, str):
            return self.dimensions[ref]
        known = self.anonymous.get(ref)
        if known is None:
            name = f"_Anonymous_Dim_{ref}"
            while name in self.root.dimensions:
                name += "_"
            known = DimensionNode(self.root, name, ref, unlimited=False, anonymous=True)
            self.root.dimensions[name] = self.anonymous[ref] = known
        return known
