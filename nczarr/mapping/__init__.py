"""netCDF on Zarr: NCZarr on Zarr v3 and v2, plain Zarr; datasets in stores are opened, created, changed, mended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.mapping.dataset import (
        DetachedDataset,
        DetachedValues,
        StoredDataset,
        check_metadata,
        create_dataset,
        documents_v2,
        open_dataset,
        repair,
    )
    from nczarr.mapping.findings import Finding, RecoveryWarning
    from nczarr.mapping.guarding import missing_chunks
    from nczarr.mapping.options import ArrayShape, WriteOptions
    from nczarr.mapping.rewriting import VariableData
else:
    __getattr__ = lazy(
        __name__,
        {
            "dataset": [
                "DetachedDataset",
                "DetachedValues",
                "StoredDataset",
                "check_metadata",
                "create_dataset",
                "documents_v2",
                "open_dataset",
                "repair",
            ],
            "findings": ["Finding", "RecoveryWarning"],
            "guarding": ["missing_chunks"],
            "options": ["ArrayShape", "WriteOptions"],
            "rewriting": ["VariableData"],
        },
    )

__all__ = [
    "ArrayShape",
    "DetachedDataset",
    "DetachedValues",
    "Finding",
    "RecoveryWarning",
    "StoredDataset",
    "VariableData",
    "WriteOptions",
    "check_metadata",
    "create_dataset",
    "documents_v2",
    "missing_chunks",
    "open_dataset",
    "repair",
]
