"""Read and write the record of an array's written chunks, which proves that a missing chunk was lost.

A missing chunk reads as fill values, whether it was never written or its file was deleted. The record is the object
``nczarr_chunks`` of an array's document: one bit for each chunk, in the order of the grid. The option ``--manifest``
asks for it.
"""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from dataclasses import replace
from typing import Any

import numpy as np

from nczarr.zarr.metadata import ArrayMetadata

#: The key of the record in an array's document.
RECORD_KEY = "nczarr_chunks"


def recorded_members(metadata: ArrayMetadata) -> dict[str, object]:
    """Return the members of the record: of its configuration, or of the object itself in its earlier form."""
    value = metadata.extra.get(RECORD_KEY)
    value = value.get("configuration", value) if isinstance(value, dict) else value
    return value if isinstance(value, dict) else {}


def read_record(metadata: ArrayMetadata) -> np.ndarray | None:
    """Return the bits of the record in the shape of its grid; None if there is none, or it is damaged."""
    value: dict[str, Any] = recorded_members(metadata)
    try:
        grid = tuple(value["grid"])
        count = math.prod(grid)
        size = -(-count // 8)
        # The grid limits the size of the unpacked data.
        packed = zlib.decompressobj().decompress(base64.b64decode(value["written"], validate=True), size + 1)
        if len(packed) != size or any(type(n) is not int or n < 0 for n in grid):
            return None
        return np.unpackbits(np.frombuffer(packed, np.uint8), count=count).astype(bool).reshape(grid)
    # The record is advice: a damaged one must not keep the values from a reader.
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error):
        return None


def with_record(metadata: ArrayMetadata, bits: np.ndarray) -> ArrayMetadata:
    """Return metadata with the record of the chunks that `bits` name."""
    packed = zlib.compress(np.packbits(bits.reshape(-1)).tobytes(), 9)
    written = base64.b64encode(packed).decode("ascii")
    members = {"grid": list(bits.shape), "written": written}
    # The form of every extension of Zarr 3.1; nothing but the name, the mark and the configuration.
    record = {"name": RECORD_KEY, "must_understand": False, "configuration": members}
    return replace(metadata, extra={**metadata.extra, RECORD_KEY: record})


def recorded_inside(metadata: ArrayMetadata, grid: tuple[int, ...]) -> np.ndarray | None:
    """Return the part of the record inside a grid, since the array may be shorter now; None as from `read_record`."""
    bits = read_record(metadata)
    return bits[tuple(slice(0, n) for n in grid)] if bits is not None and bits.ndim == len(grid) else None
