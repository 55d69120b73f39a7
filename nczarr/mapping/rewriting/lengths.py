"""Write the new lengths of unlimited dimensions, and nothing else: what an append needs between two syncs.

Planning a whole model anew takes as long as the model is large. Where only lengths have changed, what the plan
would say is known: the documents that the plan before has written, with other lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nczarr.mapping.nczarr3.keys import GROUP_KEY
from nczarr.mapping.rewriting.variable_data import VariableData
from nczarr.model import split_fqn
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy


def write_lengths(
    hierarchy: Hierarchy,
    groups: Mapping[str, str],
    variables: Iterable[VariableData],
    sizes: Mapping[str, int],
) -> bool:
    """Write lengths into the documents of an NCZarr hierarchy on Zarr v3.

    Parameters
    ----------
    groups : mapping
        The path of each group, by FQN.
    variables : iterable of VariableData
        Those that have any of the dimensions; they have grown in memory.
    sizes : mapping
        The lengths, by the FQN of the dimension.

    Returns
    -------
    bool
        False, and nothing is written, if a document is not of this session, or is of an unusual form.
    """
    if hierarchy.layout != "v3" or hierarchy.hidden:
        return False
    arrays: list[str] = []
    for variable in variables:
        path, metadata = variable.path, variable.array.metadata
        if not hierarchy.is_own(path) or not metadata.chunk_grid.is_regular or metadata.extensions:
            return False
        stored = hierarchy.nodes[path]
        assert isinstance(stored, ArrayMetadata)
        if stored.shape != metadata.shape:
            arrays.append(path)
    changed: dict[str, GroupMetadata] = {}
    for fqn, size in sizes.items():
        group, name = split_fqn(fqn)
        path = groups[group]
        longer = _with_length(changed.get(path) or hierarchy.nodes[path], name, size)
        if longer is None or not hierarchy.is_own(path):
            return False
        changed[path] = longer
    hierarchy.put_lengths(arrays, changed)
    return True


def _with_length(metadata: ArrayMetadata | GroupMetadata, name: str, size: int) -> GroupMetadata | None:
    """The metadata of a group with another length of a dimension; None if they do not have it where we write it."""
    info = metadata.attributes.get(GROUP_KEY)
    dimensions = info.get("dimensions") if isinstance(info, dict) else None
    if not isinstance(metadata, GroupMetadata) or metadata.extensions or not isinstance(dimensions, list):
        return None
    if not any(d["name"] == name for d in dimensions):
        return None
    changed = [{**d, "size": size} if d["name"] == name else d for d in dimensions]
    return replace(
        metadata,
        attributes={**metadata.attributes, GROUP_KEY: {**info, "dimensions": changed}},  # type: ignore[dict-item]
    )
