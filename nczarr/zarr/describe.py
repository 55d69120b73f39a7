"""Describe arrays and hierarchies for :mod:`nczarr.display`.

The functions accept every object with the attributes of an array or a hierarchy, which avoids an import cycle.
"""

from __future__ import annotations

import math
from typing import Any

from nczarr import display
from nczarr.errors import NCZarrError
from nczarr.json_values import JsonMapping
from nczarr.stores import LocalStore, MemoryStore

#: The largest number of chunks whose stored bytes are counted, because a notebook must not wait for a listing.
MOST_COUNTED = 2000


def count_stored(array: Any) -> tuple[int, int] | None:
    """Return the number of stored chunks (shards) and their bytes; None if the count would take long."""
    store = array.store
    # On a server, each size is a request.
    if not isinstance(store, LocalStore | MemoryStore) or array.nchunks > MOST_COUNTED:
        return None
    indices = array.initialized_chunks()
    return len(indices), sum(store.size(array.chunk_key(index)) or 0 for index in indices)


def describe_metadata(metadata: Any, name: str = "", **more: Any) -> display.ArrayDescription:
    """Return the description of an array from its metadata."""
    names = metadata.dimension_names or (None,) * len(metadata.shape)
    chunks, shards = metadata.shapes
    dtype = metadata.dtype
    return display.ArrayDescription(
        name,
        metadata.data_type.name,
        tuple(map(display.DimensionDescription, names, metadata.shape)),
        "Array",
        _attributes(metadata.attributes),
        chunks=tuple(chunks) if metadata.shape else None,
        shards=shards,
        codecs=tuple(_codec(codec) for codec in metadata.codecs),
        size=None if dtype.hasobject else math.prod(metadata.shape) * dtype.itemsize,
        **more,
    )


def describe_array(array: Any) -> display.ArrayDescription:
    """Return the description of an array in a store."""
    facts, stored = [("store", str(array.store.url))], None
    counted = count_stored(array)
    if counted is not None:
        units = "chunks" if array.metadata.shapes[1] is None else "shards"
        facts.append((f"stored {units}", f"{counted[0]:,} of {array.nchunks:,}"))
        stored = counted[1]
    return describe_metadata(array.metadata, "/" + array.path, facts=tuple(facts), stored=stored)


def describe_group(metadata: Any, name: str = "/") -> display.GroupDescription:
    """Return the description of a group from its metadata."""
    return display.GroupDescription(
        name, "Group", attributes=_attributes(metadata.attributes), arrays_title="Arrays"
    )


def describe_hierarchy(hierarchy: Any, path: str = "") -> display.GroupDescription:
    """Return the description of a hierarchy, or of the group at `path` with its members."""
    children = hierarchy.children(path)

    def array(child: str) -> display.ArrayDescription:
        try:
            return describe_metadata(hierarchy.nodes[child], child.rpartition("/")[2])
        # One damaged array does not hide the others of a notebook's display.
        except NCZarrError as error:
            return display.ArrayDescription(
                child.rpartition("/")[2], "damaged", kind="Array", facts=(("error", str(error)),)
            )

    facts: tuple[tuple[str, str], ...] = ()
    if not path:
        facts = (("store", str(hierarchy.store.url)), ("layout", hierarchy.layout))
        if not hierarchy.complete:
            facts += (("nodes", "only listed and requested ones: the listing of the store is incomplete"),)
    try:
        attributes = _attributes(hierarchy.nodes[path].attributes)
    except NCZarrError as error:
        attributes, facts = [], (*facts, ("error", str(error)))
    return display.GroupDescription(
        path.rpartition("/")[2] or "/",
        "Group" if path else "Hierarchy",
        arrays=display.Each([child for child in children if hierarchy.is_array(child)], array),
        attributes=attributes,
        groups=display.Each(
            [child for child in children if not hierarchy.is_array(child)],
            lambda child: describe_hierarchy(hierarchy, child),
        ),
        facts=facts,
        arrays_title="Arrays",
    )


def _attributes(attributes: JsonMapping) -> list[display.AttributeDescription]:
    return [display.AttributeDescription(name, value) for name, value in attributes.items()]


def _codec(codec: Any) -> str:
    simple = {k: v for k, v in codec.configuration.items() if isinstance(v, str | int | float)}
    inside = codec.configuration.get("codecs")
    if isinstance(inside, list):
        names = [c.get("name", "?") if isinstance(c, dict) else str(c) for c in inside]
        return f"{codec.name}[{' → '.join(map(str, names))}]"
    return f"{codec.name}({', '.join(f'{k}={v}' for k, v in simple.items())})" if simple else str(codec.name)
