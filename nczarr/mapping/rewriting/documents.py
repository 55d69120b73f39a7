"""Write the documents of nodes that have changed, and new lengths of unlimited dimensions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nczarr.mapping.guarding.manifest import forget_chunks
from nczarr.mapping.nczarr3.keys import GROUP_KEY
from nczarr.mapping.rewriting.variable_data import VariableData
from nczarr.mapping.values.scalars import member
from nczarr.model import split_fqn
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy

Metadata = ArrayMetadata | GroupMetadata


def array_at(hierarchy: Hierarchy, path: str) -> ArrayMetadata:
    """Return the metadata of an existing array."""
    metadata = hierarchy.nodes[path]
    assert isinstance(metadata, ArrayMetadata)
    return metadata


def put_changed(hierarchy: Hierarchy, nodes: Mapping[str, Metadata]) -> None:
    """Write the changed documents: those of arrays before those of groups, which contain their sizes."""
    changed = [(path, node) for path, node in nodes.items() if not is_same(hierarchy.nodes.get(path), node)]
    arrays = [
        (path, forget_chunks(node) if _reshape(hierarchy, path, node) else node)
        for path, node in changed
        if isinstance(node, ArrayMetadata)
    ]
    groups = [(path, node) for path, node in changed if isinstance(node, GroupMetadata)]
    new = [item for item in groups if item[0] not in hierarchy.nodes]
    existing = [item for item in groups if item[0] in hierarchy.nodes]
    if new:
        hierarchy.put_many(new)
    hierarchy.erase_unclaimed((path, node) for path, node in arrays if path not in hierarchy.nodes)
    if arrays:
        hierarchy.put_many(arrays)
    if existing:
        hierarchy.put_many(sorted(existing, key=lambda item: item[0] == ""))


def is_same(existing: Metadata | None, planned: Metadata) -> bool:
    """Return whether two nodes are equal, including the order of attributes and the sign of zeros."""
    if existing is planned:
        return True
    if existing is None or type(existing) is not type(planned) or existing != planned:
        return False
    content = [json.dumps([node.attributes, node.extra]) for node in (existing, planned)]
    return content[0] == content[1]


def _reshape(hierarchy: Hierarchy, path: str, planned: ArrayMetadata) -> bool:
    """Prepare an existing array for new metadata, and return whether chunks were removed.

    The array is shortened, or erased if its chunks would be unreadable.
    """
    existing = hierarchy.nodes.get(path)
    if not isinstance(existing, ArrayMetadata):
        return False
    array = hierarchy.array(path)
    form = ("data_type", "chunk_grid", "chunk_key_encoding", "codecs", "ndim")
    if any(getattr(existing, name) != getattr(planned, name) for name in form):
        array.erase()
        return True
    if any(n < m for n, m in zip(planned.shape, existing.shape, strict=True)):
        array.resize(planned.shape)
        return True
    return False


def write_lengths(
    hierarchy: Hierarchy,
    groups: Mapping[str, str],
    variables: Iterable[VariableData],
    sizes: Mapping[str, int],
    *,
    sound: bool,
) -> bool:
    """Write lengths into the documents of an NCZarr hierarchy on Zarr v3, as an append needs between two syncs.

    Planning a whole model takes time in proportion to its size. If only lengths have changed, the plan is known: the
    documents of the previous plan with other lengths.

    Parameters
    ----------
    groups : mapping
        The path of each group, by FQN.
    variables : iterable of VariableData
        The variables with one of the dimensions; they have grown in memory.
    sizes : mapping
        The lengths, by the FQN of the dimension.
    sound : bool
        True: the reading of the documents has no findings. Else only documents of this session are changed.

    Returns
    -------
    bool
        False, without any change, if a document has an unusual form, or is not sound.
    """
    if hierarchy.layout != "v3" or hierarchy.hidden:
        return False
    arrays: list[str] = []
    for variable in variables:
        path, metadata = variable.path, variable.array.metadata
        if not (sound or hierarchy.is_own(path)) or not metadata.chunk_grid.is_regular or metadata.extensions:
            return False
        if array_at(hierarchy, path).shape != metadata.shape:
            arrays.append(path)
    changed: dict[str, GroupMetadata] = {}
    for fqn, size in sizes.items():
        group, name = split_fqn(fqn)
        path = groups[group]
        longer = _with_length(changed.get(path) or hierarchy.nodes[path], name, size)
        if longer is None or not (sound or hierarchy.is_own(path)):
            return False
        changed[path] = longer
    hierarchy.put_lengths(arrays, changed)
    return True


def _with_length(metadata: Metadata, name: str, size: int) -> GroupMetadata | None:
    """Return the metadata of a group with a new length of a dimension; None if the dimension is in another place."""
    info = member(metadata.attributes, GROUP_KEY)
    dimensions = info.get("dimensions")
    if not isinstance(metadata, GroupMetadata) or metadata.extensions or not isinstance(dimensions, list):
        return None
    if not any(d["name"] == name for d in dimensions):
        return None
    info = {**info, "dimensions": [{**d, "size": size} if d["name"] == name else d for d in dimensions]}
    return replace(metadata, attributes={**metadata.attributes, GROUP_KEY: info})
