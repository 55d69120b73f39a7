"""Describe the arrays of a dataset on Zarr v3 in documents of v2, too: the same chunks, for readers of v2 alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nczarr.mapping.dataset.dialects import dialect_named
from nczarr.mapping.dataset.stored import StoredDataset
from nczarr.zarr.hierarchy import V2Layout


def documents_v2(stored: StoredDataset) -> dict[str, dict[str, Any]]:
    """Return plain documents of Zarr v2 by key; what they cannot say they leave out.

    The dataset must have been written with `chunk_keys` of v2 and codecs that v2 has.
    """
    options = replace(stored.options, layout="zarr-v2", lossy=True, manifest=False)
    plan = dialect_named("zarr-v2").plan(stored.dataset, options, stored.names)
    layout, found = V2Layout(), {}
    for path, node in plan.nodes.items():
        found.update(layout.documents(path, node))
    return found
