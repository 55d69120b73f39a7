"""netCDF on Zarr: NCZarr on Zarr v3, plain Zarr, and how datasets in stores are opened, created and changed."""

from nczarr.mapping.dataset.open import create_dataset, open_dataset
from nczarr.mapping.dataset.stored import StoredDataset
from nczarr.mapping.dataset.values import VariableData
from nczarr.mapping.options import ArrayShape, WriteOptions

__all__ = ["ArrayShape", "StoredDataset", "VariableData", "WriteOptions", "create_dataset", "open_dataset"]
