"""netCDF on Zarr: NCZarr on Zarr v3 and v2, and plain Zarr. Open, create, change and repair datasets in stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.mapping.dataset.detached import DetachedDataset, DetachedValues
    from nczarr.mapping.dataset.documents import missing_chunks
    from nczarr.mapping.dataset.maintenance import check_metadata, find_torn_indexes, repair
    from nczarr.mapping.dataset.open import create_dataset, documents_v2, open_dataset
    from nczarr.mapping.dataset.stored import StoredDataset
    from nczarr.mapping.dataset.variable_data import VariableData
    from nczarr.mapping.findings import Finding, RecoveryWarning
    from nczarr.mapping.options import WriteOptions
else:
    __getattr__ = lazy(
        __name__,
        {
            "dataset.detached": ["DetachedDataset", "DetachedValues"],
            "dataset.documents": ["missing_chunks"],
            "dataset.stored": ["StoredDataset"],
            "dataset.maintenance": ["check_metadata", "find_torn_indexes", "repair"],
            "dataset.open": ["create_dataset", "documents_v2", "open_dataset"],
            "findings": ["Finding", "RecoveryWarning"],
            "options": ["WriteOptions"],
            "dataset.variable_data": ["VariableData"],
        },
    )

__all__ = [
    "DetachedDataset", "DetachedValues", "Finding", "RecoveryWarning", "StoredDataset",
    "VariableData", "WriteOptions", "check_metadata", "create_dataset", "documents_v2", "find_torn_indexes",
    "missing_chunks", "open_dataset", "repair",
]  # fmt: skip
