"""netCDF on Zarr: NCZarr on Zarr v3 and v2, plain Zarr; datasets in stores are opened, created, changed, mended."""

from nczarr.mapping.dataset.detached import DetachedDataset, DetachedValues
from nczarr.mapping.dataset.manifest import missing_chunks
from nczarr.mapping.dataset.open import create_dataset, open_dataset
from nczarr.mapping.dataset.repair import check_metadata, repair
from nczarr.mapping.dataset.stored import StoredDataset
from nczarr.mapping.dataset.twins import documents_v2
from nczarr.mapping.dataset.values import VariableData
from nczarr.mapping.findings import Finding, RecoveryWarning
from nczarr.mapping.options import ArrayShape, WriteOptions

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
