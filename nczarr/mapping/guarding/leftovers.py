"""Remove chunks of a local dataset that belong to no array: a process that was killed was writing or removing one."""

from __future__ import annotations

import re

from nczarr.errors import DatasetNotFoundError
from nczarr.stores import LocalStore, Store
from nczarr.zarr import Hierarchy, open_hierarchy

#: The keys of chunks, below whatever folders, by layout.
_CHUNKS = {
    "v3": re.compile(r"(.*/)?c(/\d+)*"),
    "v2": re.compile(r"(.*/)?\d+([./]\d+)*"),
}


def remove_unclaimed(store: Store, hierarchy: Hierarchy | None = None) -> list[str]:
    """Remove folders that hold chunks and no documents, and are no node's. Returns which these were.

    To be called only where it is known that nczarr was changing the dataset and died, so that they are its own.
    """
    if type(store) is not LocalStore:
        return []
    if hierarchy is None:
        try:
            hierarchy = open_hierarchy(store)
        except DatasetNotFoundError:
            return []
    pattern = _CHUNKS.get(hierarchy.layout)
    if pattern is None:
        return []
    nodes = hierarchy.nodes
    removed = []
    for group in [path for path in nodes if not nodes.is_array(path)]:
        for name in store.list_dir(group)[1]:
            path = f"{group}/{name}" if group else name
            if name.startswith(".") or path in nodes or any(node.startswith(f"{path}/") for node in nodes):
                continue
            keys = list(store.list(path))
            if keys and all(pattern.fullmatch(key, len(path) + 1) for key in keys):
                store.delete_prefix(path)
                removed.append(path)
    return removed
