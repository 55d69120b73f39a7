"""Open, create and change netCDF datasets in Zarr stores, whatever their layout.

A :class:`StoredDataset` holds a model and the data of each variable, and is the same for every dialect; what guards
it and how it is changed have rooms of their own (``guarding``, ``rewriting``). What was interrupted is finished or
removed (``cleaning``), what other programs changed is written down as it is understood (:func:`repair`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.mapping.dataset.detached import DetachedDataset, DetachedValues
    from nczarr.mapping.dataset.dialects import documents_v2
    from nczarr.mapping.dataset.open import create_dataset, open_dataset
    from nczarr.mapping.dataset.repairing import check_metadata, repair
    from nczarr.mapping.dataset.stored import StoredDataset
else:
    __getattr__ = lazy(
        __name__,
        {
            "dialects": ["documents_v2"],
            "detached": ["DetachedDataset", "DetachedValues"],
            "open": ["create_dataset", "open_dataset"],
            "repairing": ["check_metadata", "repair"],
            "stored": ["StoredDataset"],
        },
    )

__all__ = [
    "DetachedDataset",
    "DetachedValues",
    "StoredDataset",
    "check_metadata",
    "create_dataset",
    "documents_v2",
    "open_dataset",
    "repair",
]
