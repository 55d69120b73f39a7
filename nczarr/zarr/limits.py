"""Bound what damaged or hostile input may cost: named limits, each with a default and an environment variable."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, fields


@dataclass
class Limits:
    """How much the engine takes on; the attributes may be set at any time.

    The defaults come from environment variables of the same names, in capitals and with ``NCZARR_MAX_`` before them
    (``NCZARR_MAX_DOCUMENT_BYTES``).

    Parameters
    ----------
    document_bytes : int
        Of one metadata document; consolidated metadata of a million arrays fit.
    document_depth : int
        How deep objects and lists may be nested in a document.
    variable_chunk_bytes : int
        Of one decoded chunk of text, or of other values of any length. The size of all other chunks follows from the
        array's metadata, and is enforced exactly.
    plan_chunks : int
        How many chunks one step of reading or writing deals with; larger regions take several steps.
    grid_lengths : int
        Lengths of chunks that a rectilinear grid may list.
    model_depth : int
        How deep groups may be nested in a Zarr object model.
    cache_bytes : int
        Decoded chunks that are kept for reading other parts of them, of all arrays together.

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
        """Return the limits that the environment sets, and the defaults of the others."""
        limits = cls()
        for field in fields(cls):
            variable = f"NCZARR_MAX_{field.name.upper()}"
            text = os.environ.get(variable, "").strip()
            if text.isdecimal():
                setattr(limits, field.name, int(text))
            elif text:
                warnings.warn(f"{variable} is {text!r}, not a number; it is ignored", stacklevel=2)
        return limits


#: The limits of this process.
LIMITS = Limits.from_environment()
