"""Write the documents of nodes that say something new."""

from __future__ import annotations

import json
from collections.abc import Mapping

from nczarr.mapping.guarding.manifest import forget_chunks
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy

Metadata = ArrayMetadata | GroupMetadata


def put_changed(hierarchy: Hierarchy, nodes: Mapping[str, Metadata]) -> None:
    """Write the documents that say something new: those of arrays before those that say how large they are."""
    changed = [(path, node) for path, node in nodes.items() if not is_same(hierarchy.nodes.get(path), node)]
    arrays = [
        (path, forget_chunks(node) if _reshape(hierarchy, path, node) else node)
        for path, node in changed
        if isinstance(node, ArrayMetadata)
    ]
    fresh = [(p, n) for p, n in changed if isinstance(n, GroupMetadata) and p not in hierarchy.nodes]
    rest = [(p, n) for p, n in changed if isinstance(n, GroupMetadata) and p in hierarchy.nodes]
    if fresh:
        hierarchy.put_many(fresh)
    hierarchy.erase_unclaimed((path, node) for path, node in arrays if path not in hierarchy.nodes)
    if arrays:
        hierarchy.put_many(arrays)
    if rest:
        hierarchy.put_many(sorted(rest, key=lambda item: item[0] == ""))


def is_same(existing: Metadata | None, planned: Metadata) -> bool:
    """True if two nodes say the same, to the order of attributes and the sign of zeros."""
    if existing is planned:
        return True
    if existing is None or type(existing) is not type(planned) or existing != planned:
        return False
    return json.dumps([existing.attributes, existing.extra]) == json.dumps(
        [planned.attributes, planned.extra]
    )


def _reshape(hierarchy: Hierarchy, path: str, planned: ArrayMetadata) -> bool:
    """Prepare an array that exists for its new metadata: cut it, or erase what would not be readable.

    Returns whether chunks were removed.
    """
    existing = hierarchy.nodes.get(path)
    if not isinstance(existing, ArrayMetadata):
        return False
    array = hierarchy.array(path)
    alike = (
        existing.data_type == planned.data_type
        and existing.chunk_grid == planned.chunk_grid
        and existing.chunk_key_encoding == planned.chunk_key_encoding
        and existing.codecs == planned.codecs
        and existing.ndim == planned.ndim
    )
    if not alike:
        array.erase()
        return True
    if any(n < m for n, m in zip(planned.shape, existing.shape, strict=True)):
        array.resize(planned.shape)
        return True
    return False
