"""Record which chunks of an array were written, and find those that have gone since.

A chunk that is missing reads as fill, whether it was never written or somebody deleted its file. The record is the
object ``nczarr_chunks`` of an array's document: one bit for each chunk, in the order of the grid.
"""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from nczarr.zarr import ArrayMetadata, Hierarchy

#: The key in an array's document.
KEY = "nczarr_chunks"


def record_chunks(hierarchy: Hierarchy, paths: Iterable[str], *, new: bool = False) -> None:
    """Write down which chunks there are.

    What was recorded before stays recorded: nczarr removes no chunk of an array but with its record
    (:func:`forget_chunks`), so one that is not there any more was lost.

    Parameters
    ----------
    hierarchy : Hierarchy
    paths : iterable of str
        Arrays that were written to; each costs one listing.
    new : bool
        Begin a record where there is none.
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
    """Return the paths of arrays whose record is of another grid than they have now."""
    found = []
    for path, metadata in _known(hierarchy):
        if KEY in metadata.extra:
            said = metadata.extra[KEY]
            if not isinstance(said, dict) or said.get("grid") != list(hierarchy.array(path).grid_shape):
                found.append(path)
    return found


def _known(hierarchy: Hierarchy) -> Iterator[tuple[str, ArrayMetadata]]:
    """The arrays that can be opened."""
    unknown = hierarchy.unknown_nodes()
    for path in hierarchy.nodes:
        if hierarchy.is_array(path) and path not in unknown:
            metadata = hierarchy.nodes[path]
            assert isinstance(metadata, ArrayMetadata)
            yield path, metadata


def forget_chunks(metadata: ArrayMetadata) -> ArrayMetadata:
    """The metadata of an array whose chunks are removed on purpose, with an empty record if there was one."""
    if KEY not in metadata.extra:
        return metadata
    empty = _record(np.zeros((0,) * metadata.ndim, bool))
    return replace(metadata, extra={**metadata.extra, KEY: empty})


def _record(bits: np.ndarray) -> dict[str, Any]:
    packed = zlib.compress(np.packbits(bits.reshape(-1)).tobytes(), 9)
    return {
        "must_understand": False,
        "grid": list(bits.shape),
        "written": base64.b64encode(packed).decode("ascii"),
    }


def missing_chunks(hierarchy: Hierarchy) -> Iterator[tuple[str, str]]:
    """Yield the path of an array, and what is wrong, for each chunk that was written and has gone.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> from nczarr.zarr import create_hierarchy
    >>> list(missing_chunks(create_hierarchy(MemoryStore())))
    []
    """
    for path, metadata in _known(hierarchy):
        if KEY not in metadata.extra:
            continue
        array = hierarchy.array(path)
        record = _read(metadata.extra[KEY])
        if record is None or record.ndim != array.ndim:
            yield path, f"{KEY}: it cannot be understood"
            continue
        # The array may have been cut since.
        inside = record[tuple(slice(0, n) for n in array.grid_shape)]
        written: list[tuple[int, ...]] = [tuple(index) for index in np.argwhere(inside).tolist()]
        there = set(array.existing(array.possible_chunks() if array.store.lists_all else written))
        for index in written:
            if index not in there:
                yield path, f"the chunk {array.chunk_key(index)} was written, and is not there"


def _read(value: Any) -> np.ndarray | None:
    """Return the bits of a record, in the shape of the grid; None if it is damaged."""
    try:
        grid = tuple(value["grid"])
        count = math.prod(grid)
        size = -(-count // 8)
        # No more than the grid asks for is unpacked.
        packed = zlib.decompressobj().decompress(base64.b64decode(value["written"], validate=True), size + 1)
        if len(packed) != size or any(type(n) is not int or n < 0 for n in grid):
            return None
        return np.unpackbits(np.frombuffer(packed, np.uint8), count=count).astype(bool).reshape(grid)
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error):
        return None
