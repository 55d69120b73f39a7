"""Limit the cost of damaged or hostile input: named limits with defaults and environment variables."""

from __future__ import annotations

from dataclasses import fields

from nczarr.dataclass import dataclass
from nczarr.system.environment import SETTINGS, limit


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

    document_bytes: int = SETTINGS["NCZARR_MAX_DOCUMENT_BYTES"].default
    document_depth: int = SETTINGS["NCZARR_MAX_DOCUMENT_DEPTH"].default
    variable_chunk_bytes: int = SETTINGS["NCZARR_MAX_VARIABLE_CHUNK_BYTES"].default
    plan_chunks: int = SETTINGS["NCZARR_MAX_PLAN_CHUNKS"].default
    grid_lengths: int = SETTINGS["NCZARR_MAX_GRID_LENGTHS"].default
    model_depth: int = SETTINGS["NCZARR_MAX_MODEL_DEPTH"].default
    cache_bytes: int = SETTINGS["NCZARR_MAX_CACHE_BYTES"].default

    @classmethod
    def from_environment(cls) -> Limits:
        """Return the limits from environment variables, with defaults for the others."""
        return cls(**{field.name: limit(f"NCZARR_MAX_{field.name.upper()}") for field in fields(cls)})


#: The limits of this process.
LIMITS = Limits.from_environment()
