"""Record the written chunks of an array, and find those that are missing.

A missing chunk reads as fill values, whether it was never written or its file was deleted. The record is the object
``nczarr_chunks`` of an array's document: one bit for each chunk, in the order of the grid.
"""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from nczarr.zarr import ArrayMetadata, Hierarchy

#: The key in an array's document.
KEY = "nczarr_chunks"


def record_chunks(hierarchy: Hierarchy, paths: Iterable[str], *, new: bool = False) -> None:
    """Record the existing chunks.

    Recorded chunks stay recorded: nczarr removes chunks only together with their record (:func:`forget_chunks`), so
    any other missing chunk was lost.

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
            value = _record(bits)
            if metadata.extra.get(KEY) != value:
                changed.append((path, replace(metadata, extra={**metadata.extra, KEY: value})))
    if changed:
        hierarchy.put_many(changed)


def recorded_arrays(hierarchy: Hierarchy) -> list[str]:
    """Return the paths of arrays whose record has another grid."""
    return [
        path
        for path, metadata in _recorded(hierarchy)
        if not isinstance(record := metadata.extra[KEY], dict)
        or record.get("grid") != list(hierarchy.array(path).grid_shape)
    ]


def _recorded(hierarchy: Hierarchy) -> Iterator[tuple[str, ArrayMetadata]]:
    """Yield the arrays with a record that can be opened."""
    unknown = hierarchy.unknown_nodes()
    for path in hierarchy.nodes:
        if hierarchy.is_array(path) and path not in unknown:
            metadata = hierarchy.nodes[path]
            if isinstance(metadata, ArrayMetadata) and KEY in metadata.extra:
                yield path, metadata


def forget_chunks(metadata: ArrayMetadata) -> ArrayMetadata:
    """Return the metadata of an array whose chunks are removed on purpose, with an empty record if it has one."""
    if KEY not in metadata.extra:
        return metadata
    empty = _record(np.zeros((0,) * metadata.ndim, bool))
    return replace(metadata, extra={**metadata.extra, KEY: empty})


def _record(bits: np.ndarray) -> dict[str, object]:
    packed = zlib.compress(np.packbits(bits.reshape(-1)).tobytes(), 9)
    return {
        "must_understand": False,
        "grid": list(bits.shape),
        "written": base64.b64encode(packed).decode("ascii"),
    }


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
