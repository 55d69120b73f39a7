"""netCDF on Zarr: NCZarr on Zarr v3, plain Zarr, and how datasets in stores are opened, created and changed."""

from nczarr.mapping.open import create_dataset, open_dataset
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.stored import StoredDataset
from nczarr.mapping.variables import VariableData

__all__ = ["StoredDataset", "VariableData", "WriteOptions", "create_dataset", "open_dataset"]
