"""Limit the cost of damaged or hostile input: named limits with defaults and environment variables."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, fields


@dataclass
class Limits:
    """The limits of the Zarr engine; the attributes may be set at any time.

    The defaults come from environment variables of the same names in capitals, with the prefix ``NCZARR_MAX_``
    (``NCZARR_MAX_DOCUMENT_BYTES``).

    Parameters
    ----------
    document_bytes : int
        The size of a metadata document. The default is enough for consolidated metadata of a million arrays.
    document_depth : int
        The nesting depth of objects and lists in a document.
    variable_chunk_bytes : int
        The decoded size of a chunk of text or other variable-length values. The array's metadata define the exact size
        of all other chunks.
    plan_chunks : int
        The number of chunks in one step of reading or writing; larger regions take several steps.
    grid_lengths : int
        The number of chunk lengths in a rectilinear grid.
    model_depth : int
        The nesting depth of groups in a Zarr object model.
    cache_bytes : int
        The total size of the cached decoded chunks of all arrays.

    Examples
    --------
    >>> Limits().document_depth
    200
    """

    document_bytes: int = 1 << 30
    document_depth: int = 200
    variable_chunk_bytes: int = 512 << 20
    plan_chunks: int = 1 << 17
    grid_lengths: int = 1_000_000
    model_depth: int = 90
    cache_bytes: int = 64 << 20

    @classmethod
    def from_environment(cls) -> Limits:
        """Return the limits from environment variables, with defaults for the others."""
        limits = cls()
        for field in fields(cls):
            variable = f"NCZARR_MAX_{field.name.upper()}"
            text = os.environ.get(variable, "").strip()
            if text.isdecimal():
                setattr(limits, field.name, int(text))
            elif text:
                warnings.warn(f"{variable} is {text!r}, not a number; nczarr ignores it", stacklevel=2)
        return limits


#: The limits of this process.
LIMITS = Limits.from_environment()
