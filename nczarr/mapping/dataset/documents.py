"""Write the documents of changed nodes: metadata, lengths of unlimited dimensions, and records of chunks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from nczarr.json_values import as_list, member
from nczarr.mapping.dataset.variable_data import VariableData
from nczarr.mapping.dialect import Metadata, array_at
from nczarr.mapping.nczarr3.keys import GROUP_KEY
from nczarr.model import split_fqn
from nczarr.zarr import Array, ArrayMetadata, GroupMetadata, Hierarchy
from nczarr.zarr.chunk_keys import ChunkKeyEncoding
from nczarr.zarr.chunks.records import RECORD_KEY, read_record, recorded_members, with_record

#: The encodings of keys that every reader of Zarr v3 knows; their keys differ, also those of arrays of one dimension.
_KEYS = (ChunkKeyEncoding("default", "/"), ChunkKeyEncoding("default", "."), ChunkKeyEncoding("v2", "."))


def put_changed(hierarchy: Hierarchy, nodes: Mapping[str, Metadata]) -> None:
    """Write the changed documents: those of arrays before those of groups, which contain their sizes."""
    new: list[tuple[str, Metadata]] = []
    arrays: list[tuple[str, ArrayMetadata]] = []
    groups: list[tuple[str, Metadata]] = []
    for path, node in nodes.items():
        # A document that does not change keeps the words of its writer, and costs no request.
        if is_same(hierarchy.nodes.get(path), node):
            continue
        if node.is_array:
            if (
                _reshape(hierarchy, path, node) and RECORD_KEY in node.extra
            ):  # its chunks are removed on purpose
                node = with_record(node, np.zeros((0,) * node.ndim, bool))
            arrays.append((path, node))
        else:
            (groups if path in hierarchy.nodes else new).append((path, node))
    if new:
        hierarchy.put_many(new)
    hierarchy.erase_unclaimed((path, node) for path, node in arrays if path not in hierarchy.nodes)
    if arrays:
        hierarchy.put_many(arrays)
    # The root comes last: a reader that sees it finds all that it names.
    if groups:
        hierarchy.put_many(sorted(groups, key=lambda item: item[0] == ""))


def with_other_keys(hierarchy: Hierarchy, path: str, metadata: ArrayMetadata) -> ArrayMetadata:
    """Return the metadata of an array with other keys of chunks, under which the store has none.

    Keys that earlier calls have left are used again only if all others are. A store that takes the usual keys alone
    (Icechunk) makes its changes visible together anyway.
    """
    # Icechunk accepts Zarr's own keys only.
    if not hierarchy.store.takes_any_key:
        return metadata
    arrays = with_each_other_key(hierarchy, path, metadata)
    for array in arrays:
        if not array.nchunks_initialized():
            return array.metadata
    arrays[-1].erase()
    return arrays[-1].metadata


def with_each_other_key(hierarchy: Hierarchy, path: str, metadata: ArrayMetadata) -> list[Array]:
    """Return an array with each encoding of keys that :func:`with_other_keys` chooses from."""
    used = metadata.chunk_key_encoding
    others = [e for e in _KEYS if e.key((1, 1)) != used.key((1, 1)) and e.key((1,)) != used.key((1,))]
    prefix = hierarchy.chunk_prefix(path)
    return [
        Array(hierarchy.store, prefix, replace(metadata, chunk_key_encoding=key), path=path) for key in others
    ]


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
    if existing is None or not existing.is_array:
        return False
    array = hierarchy.array(path)
    form = ("data_type", "chunk_grid", "chunk_key_encoding", "codecs", "ndim")
    # Chunks of another form would decode to other values.
    if any(getattr(existing, name) != getattr(planned, name) for name in form):
        array.erase()
        return True
    # Steps behind the end would appear as values when the array grows again.
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
        if array_at(hierarchy.nodes, path).shape != metadata.shape:
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
    # Version 3.0 has an object here, and a group without dimensions nothing: both take the way of a whole plan.
    dimensions = as_list(info.get("dimensions"))
    if metadata.is_array or metadata.extensions:
        return None
    if not any(d["name"] == name for d in dimensions):
        return None
    info = {**info, "dimensions": [{**d, "size": size} if d["name"] == name else d for d in dimensions]}
    return replace(metadata, attributes={**metadata.attributes, GROUP_KEY: info})


# --- records of written chunks


def record_chunks(hierarchy: Hierarchy, paths: Iterable[str], *, new: bool = False) -> None:
    """Record the existing chunks.

    Recorded chunks stay recorded: nczarr removes chunks only together with their record, so any other missing chunk was
    lost.

    Parameters
    ----------
    hierarchy : Hierarchy
    paths : iterable of str
        Arrays with written values; each costs one listing.
    new : bool
        Create missing records.
    """
    changed = []
    for path in paths:
        # Asked of the hierarchy first, which knows what a node is before it parses the document.
        if not hierarchy.is_array(path):
            continue
        metadata = hierarchy.nodes[path]
        if metadata.is_array and (new or RECORD_KEY in metadata.extra):
            array = hierarchy.array(path)
            grid = array.grid_shape
            bits = np.zeros(grid, bool)
            if written := array.initialized_chunks():
                bits[tuple(np.array(written).T)] = True
            before = read_record(metadata)
            # Without the earlier record, a chunk that was lost since would be forgotten.
            if before is not None and before.ndim == bits.ndim:
                both = tuple(slice(0, min(n, m)) for n, m in zip(before.shape, grid, strict=True))
                bits[both] |= before[both]
            recorded = with_record(metadata, bits)
            if recorded.extra != metadata.extra:
                changed.append((path, recorded))
    if changed:
        hierarchy.put_many(changed)


def recorded_arrays(hierarchy: Hierarchy) -> list[str]:
    """Return the paths of arrays whose record has another grid."""
    return [
        path
        for path, metadata in _recorded(hierarchy)
        if recorded_members(metadata).get("grid") != list(hierarchy.array(path).grid_shape)
    ]


def _recorded(hierarchy: Hierarchy) -> Iterator[tuple[str, ArrayMetadata]]:
    """Yield the arrays with a record that can be opened."""
    unknown = hierarchy.unknown_nodes()
    for path in hierarchy.nodes:
        if hierarchy.is_array(path) and path not in unknown:
            metadata = array_at(hierarchy.nodes, path)
            if RECORD_KEY in metadata.extra:
                yield path, metadata


def missing_chunks(hierarchy: Hierarchy) -> Iterator[tuple[str, str]]:
    """Yield the path of an array and a description for each written chunk that is missing.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> from nczarr.zarr import create_hierarchy
    >>> list(missing_chunks(create_hierarchy(MemoryStore())))
    []
    """
    for path, metadata in _recorded(hierarchy):
        array = hierarchy.array(path)
        record = read_record(metadata)
        if record is None or record.ndim != array.ndim:
            yield path, f"{RECORD_KEY}: it is damaged"
            continue
        for index in array.lost_chunks():
            yield path, f"the chunk {array.chunk_key(index)} was written, but is missing"
