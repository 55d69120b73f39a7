"""Open, create and change netCDF datasets in Zarr stores, whatever their layout.

A :class:`StoredDataset` holds a model and the :class:`VariableData` of each variable, and is the same for every
dialect. A new dataset is hidden until it is complete; changes of one that is there are the difference of two plans,
in an order in which a reader never sees a size that the arrays do not have. What was interrupted is finished or
removed (``cleaning``), what other programs changed is written down as it is understood (:func:`repair`).
"""

from nczarr.mapping.dataset.alone import writing_alone
from nczarr.mapping.dataset.destination import RECORD, UNFINISHED
from nczarr.mapping.dataset.detached import DetachedDataset, DetachedValues
from nczarr.mapping.dataset.manifest import missing_chunks
from nczarr.mapping.dataset.open import create_dataset, open_dataset
from nczarr.mapping.dataset.repair import check_metadata, repair
from nczarr.mapping.dataset.stored import StoredDataset
from nczarr.mapping.dataset.twins import documents_v2
from nczarr.mapping.dataset.values import VariableData

__all__ = [
    "RECORD",
    "UNFINISHED",
    "DetachedDataset",
    "DetachedValues",
    "StoredDataset",
    "VariableData",
    "check_metadata",
    "create_dataset",
    "documents_v2",
    "missing_chunks",
    "open_dataset",
    "repair",
    "writing_alone",
]
