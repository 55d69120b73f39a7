"""Map netCDF onto Zarr v2 as netcdf-c's NCZarr does."""
