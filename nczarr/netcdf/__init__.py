"""netCDF files, both ways: the classic formats, netCDF-4, and HDF5 files as netCDF sees them."""

from nczarr.netcdf.files import OpenFile, is_netcdf, open_dataset

__all__ = ["OpenFile", "is_netcdf", "open_dataset"]
