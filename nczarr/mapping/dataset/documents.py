"""Write the documents of changed nodes: metadata, new lengths of unlimited dimensions, and records of written chunks.

A missing chunk reads as fill values, whether it was never written or its file was deleted. The record is the object
``nczarr_chunks`` of an array's document: one bit for each chunk, in the order of the grid.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from nczarr.mapping.dataset.variable_data import VariableData
from nczarr.mapping.dialect import Metadata, array_at
from nczarr.mapping.nczarr3.keys import GROUP_KEY
from nczarr.mapping.values.scalars import member
from nczarr.model import split_fqn
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy

#: The key of the record in an array's document.
KEY = "nczarr_chunks"


def put_changed(hierarchy: Hierarchy, nodes: Mapping[str, Metadata]) -> None:
    """Write the changed documents: those of arrays before those of groups, which contain their sizes."""
    new: list[tuple[str, Metadata]] = []
    arrays: list[tuple[str, ArrayMetadata]] = []
    groups: list[tuple[str, Metadata]] = []
    for path, node in nodes.items():
        if is_same(hierarchy.nodes.get(path), node):
            continue
        if isinstance(node, ArrayMetadata):
            if _reshape(hierarchy, path, node) and KEY in node.extra:  # its chunks are removed on purpose
                node = _with_record(node, np.zeros((0,) * node.ndim, bool))
            arrays.append((path, node))
        else:
            (groups if path in hierarchy.nodes else new).append((path, node))
    if new:
        hierarchy.put_many(new)
    hierarchy.erase_unclaimed((path, node) for path, node in arrays if path not in hierarchy.nodes)
    if arrays:
        hierarchy.put_many(arrays)
    if groups:
        hierarchy.put_many(sorted(groups, key=lambda item: item[0] == ""))


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
    dimensions = info.get("dimensions")
    if not isinstance(metadata, GroupMetadata) or metadata.extensions or not isinstance(dimensions, list):
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
        metadata = hierarchy.nodes[path] if hierarchy.is_array(path) else None
        if isinstance(metadata, ArrayMetadata) and (new or KEY in metadata.extra):
            array = hierarchy.array(path)
            grid = array.grid_shape
            bits = np.zeros(grid, bool)
            if written := array.initialized_chunks():
                bits[tuple(np.array(written).T)] = True
            before = _read(metadata.extra.get(KEY))
            if before is not None and before.ndim == bits.ndim:
                both = tuple(slice(0, min(n, m)) for n, m in zip(before.shape, grid, strict=True))
                bits[both] |= before[both]
            recorded = _with_record(metadata, bits)
            if recorded.extra != metadata.extra:
                changed.append((path, recorded))
    if changed:
        hierarchy.put_many(changed)


def recorded_arrays(hierarchy: Hierarchy) -> list[str]:
    """Return the paths of arrays whose record has another grid."""
    return [
        path
        for path, metadata in _recorded(hierarchy)
        if member(metadata.extra, KEY).get("grid") != list(hierarchy.array(path).grid_shape)
    ]


def _recorded(hierarchy: Hierarchy) -> Iterator[tuple[str, ArrayMetadata]]:
    """Yield the arrays with a record that can be opened."""
    unknown = hierarchy.unknown_nodes()
    for path in hierarchy.nodes:
        if hierarchy.is_array(path) and path not in unknown:
            metadata = array_at(hierarchy.nodes, path)
            if KEY in metadata.extra:
                yield path, metadata


def _with_record(metadata: ArrayMetadata, bits: np.ndarray) -> ArrayMetadata:
    packed = zlib.compress(np.packbits(bits.reshape(-1)).tobytes(), 9)
    written = base64.b64encode(packed).decode("ascii")
    record = {"must_understand": False, "grid": list(bits.shape), "written": written}
    return replace(metadata, extra={**metadata.extra, KEY: record})


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
        record = _read(metadata.extra[KEY])
        if record is None or record.ndim != array.ndim:
            yield path, f"{KEY}: it is damaged"
            continue
        # The array may be shorter now.
        inside = record[tuple(slice(0, n) for n in array.grid_shape)]
        written: list[tuple[int, ...]] = [tuple(index) for index in np.argwhere(inside).tolist()]
        there = set(array.existing(array.possible_chunks() if array.store.lists_all else written))
        for index in written:
            if index not in there:
                yield path, f"the chunk {array.chunk_key(index)} was written, but is missing"


def _read(value: object) -> np.ndarray | None:
    """Return the bits of a record, in the shape of the grid; None if it is damaged."""
    if not isinstance(value, dict):
        return None
    try:
        grid = tuple(value["grid"])
        count = math.prod(grid)
        size = -(-count // 8)
        # The grid limits the size of the unpacked data.
        packed = zlib.decompressobj().decompress(base64.b64decode(value["written"], validate=True), size + 1)
        if len(packed) != size or any(type(n) is not int or n < 0 for n in grid):
            return None
        return np.unpackbits(np.frombuffer(packed, np.uint8), count=count).astype(bool).reshape(grid)
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error):
        return None
