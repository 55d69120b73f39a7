"""List what plain Zarr does not say of a model: its documents are read again, and compared with the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from nczarr.mapping.dialect import Plan
from nczarr.mapping.plain.arrays import labels_of
from nczarr.mapping.plain.read import read_plain
from nczarr.model import (
    Attribute,
    Dataset,
    Group,
    Storage,
    Variable,
    describe_type,
    join_fqn,
    parse_fqn,
    split_fqn,
)
from nczarr.stores import MemoryStore
from nczarr.zarr import ArrayMetadata, create_hierarchy, open_hierarchy

#: The loss of the order of nodes, which is that of a listing where nothing is consolidated.
ORDER = "/: the order of variables, groups and dimensions"
_LONGEST = 60


def losses_of(dataset: Dataset, plan: Plan, layout: Literal["v2", "v3"]) -> Iterator[str]:
    """Yield a sentence for each thing that is another one, or gone, when the documents of a plan are read.

    Parameters
    ----------
    dataset : Dataset
    plan : Plan
        Its documents in plain Zarr.
    layout : {'v2', 'v3'}
        The version of Zarr in which they are written.
    """
    read = _read(dataset, plan, layout)
    yield from _of_dimensions(dataset)
    for type_fqn in dataset.all_types:
        yield f"{type_fqn}: the type is dropped; values are kept in the form that NCZarr has for them"
    for fqn, group in dataset.all_groups.items():
        there = read.all_groups.get(fqn)
        if there is None:
            yield f"{fqn}: the group is dropped"
            continue
        yield from _of_attributes(fqn, group, there)
        for variable in group.variables:
            at = join_fqn(fqn, variable.name)
            found = read.all_variables.get(at)
            if found is None:
                yield f"{at}: the variable is dropped"
            else:
                yield from _of_variable(at, variable, found, plan)
    if any(_is_reordered(a, read.all_groups.get(fqn)) for fqn, a in dataset.all_groups.items()):
        yield ORDER


def _read(dataset: Dataset, plan: Plan, layout: Literal["v2", "v3"]) -> Dataset:
    """The model that a reader finds in the documents."""
    store = MemoryStore()
    create_hierarchy(store, layout=layout).put_many(plan.nodes.items())
    return read_plain(open_hierarchy(store, consolidated=False), dataset.name).dataset


def _of_dimensions(dataset: Dataset) -> Iterator[str]:
    used = {ref for v in dataset.all_variables.values() for ref in v.dimensions if not isinstance(ref, int)}
    for fqn, dimension in dataset.all_dimensions.items():
        if fqn not in used:
            yield f"{fqn}: the dimension is dropped, as no variable uses it"
        elif dimension.unlimited:
            yield f"{fqn}: the dimension is no longer unlimited"


def _of_variable(fqn: str, variable: Variable, found: Variable, plan: Plan) -> Iterator[str]:
    if variable.type != found.type:
        yield f"{fqn}: the type {describe_type(variable.type)} comes back as {describe_type(found.type)}"
    listed = list(_of_labels(fqn, variable, plan))
    yield from listed
    if variable.dimensions != found.dimensions and not listed:
        sides = [", ".join(map(str, v.dimensions)) for v in (variable, found)]
        yield f"{fqn}: the dimensions ({sides[0]}) come back as ({sides[1]})"
    if variable.storage != Storage():
        yield f"{fqn}: storage hints are dropped (layout, filter list, byte order asked for, fill mode)"
    yield from _of_attributes(fqn, variable, found)


def _of_labels(fqn: str, variable: Variable, plan: Plan) -> Iterator[str]:
    node = plan.nodes[plan.variables[fqn].path]
    assert isinstance(node, ArrayMetadata)
    group = split_fqn(fqn)[0]
    for ref, label in zip(variable.dimensions, labels_of(node), strict=False):
        if isinstance(ref, int):
            yield f"{fqn}: the anonymous dimension of {ref} is named {label!r}"
        elif label != split_fqn(ref)[1]:
            yield f"{fqn}: the dimension {ref} is named {label!r}"
        elif ref != join_fqn(group, str(label)) and parse_fqn(group):
            yield f"{fqn}: the dimension {ref} is known by its name alone"


def _of_attributes(fqn: str, node: Group | Variable, found: Group | Variable) -> Iterator[str]:
    for attribute in node.attributes:
        other = found.attribute.get(attribute.name)
        if other is None:
            yield f"{fqn}: the attribute {attribute.name!r} is dropped"
        elif other != attribute:
            shown = [_show(a) for a in (attribute, other)]
            becomes = f"of type {attribute.type.name} becomes {other.type.name}"
            if attribute.type == other.type:
                becomes = f"{shown[0]} becomes {shown[1]}"
            elif shown[0] != shown[1]:
                becomes += f": {shown[0]} is {shown[1]}"
            yield f"{fqn}: the attribute {attribute.name!r} {becomes}"
    for name in found.attribute:
        if name not in node.attribute:
            yield f"{fqn}: the attribute {name!r} is added"
    names = [[a.name for a in side.attributes] for side in (node, found)]
    common = [[n for n in names[i] if n in names[1 - i]] for i in (0, 1)]
    if common[0] != common[1]:
        yield f"{fqn}: the order of the attributes"


def _show(attribute: Attribute) -> str:
    text = repr(attribute.text if attribute.type.name == "char" else attribute.values.tolist())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _is_reordered(a: Group, b: Group | None) -> bool:
    """True if nodes that both sides have are in another order."""
    if b is None:
        return False
    for mine, theirs in ((a.variables, b.variables), (a.groups, b.groups), (a.dimensions, b.dimensions)):
        names = [[node.name for node in side] for side in (mine, theirs)]
        if [n for n in names[0] if n in names[1]] != [n for n in names[1] if n in names[0]]:
            return True
    return False
