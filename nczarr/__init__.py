"""nczarr: the full netCDF-4 data model on Zarr v3."""

__version__ = "0.1.0"
