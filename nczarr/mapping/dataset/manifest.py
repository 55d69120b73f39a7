"""Record which chunks of an array were written, and find those that have gone since.

A chunk that is missing reads as fill, whether it was never written or somebody deleted its file. The record is the
object ``nczarr_chunks`` of an array's document: one bit for each chunk, in the order of the grid.
"""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from nczarr.zarr.hierarchy.hierarchy import Hierarchy
from nczarr.zarr.metadata import ArrayMetadata

#: The key in an array's document.
KEY = "nczarr_chunks"


def record_chunks(hierarchy: Hierarchy, *, everywhere: bool) -> None:
    """Write down which chunks there are: of all arrays, or only of those that have a record already."""
    changed = []
    for path, metadata in hierarchy.nodes.items():
        if isinstance(metadata, ArrayMetadata) and (everywhere or KEY in metadata.extra):
            array = hierarchy.array(path)
            grid = array.grid_shape
            bits = np.zeros(math.prod(grid), bool)
            if written := array.initialized_chunks():
                bits[np.ravel_multi_index(tuple(np.array(written).T), grid) if grid else 0] = True
            packed = zlib.compress(np.packbits(bits).tobytes(), 9)
            value = {
                "must_understand": False,
                "grid": list(grid),
                "written": base64.b64encode(packed).decode("ascii"),
            }
            if metadata.extra.get(KEY) != value:
                changed.append((path, replace(metadata, extra={**metadata.extra, KEY: value})))
    if changed:
        hierarchy.put_many(changed)


def missing_chunks(hierarchy: Hierarchy) -> Iterator[tuple[str, str]]:
    """Yield the path of an array, and what is wrong, for each chunk that was written and has gone."""
    for path, metadata in hierarchy.nodes.items():
        if not isinstance(metadata, ArrayMetadata) or KEY not in metadata.extra:
            continue
        array = hierarchy.array(path)
        record = _read(metadata.extra[KEY])
        if record is None or record.ndim != array.ndim:
            yield path, f"{KEY}: it cannot be understood"
            continue
        there = set(array.initialized_chunks())
        for index in map(tuple, np.argwhere(record).tolist()):
            # The array may have been cut since.
            if index not in there and all(i < n for i, n in zip(index, array.grid_shape, strict=True)):
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
