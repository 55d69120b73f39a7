"""Map netCDF onto plain Zarr, with xarray's conventions."""
