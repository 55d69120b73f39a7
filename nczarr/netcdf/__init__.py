"""netCDF files, both ways: the classic formats, netCDF-4, and HDF5 files as netCDF sees them."""

from nczarr.formats import is_netcdf
from nczarr.netcdf.files import OpenFile, create_dataset, open_dataset
from nczarr.netcdf.provenance import provenance
from nczarr.netcdf.sink import FileSink

__all__ = ["FileSink", "OpenFile", "create_dataset", "is_netcdf", "open_dataset", "provenance"]
