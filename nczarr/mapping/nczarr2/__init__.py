"""Map netCDF onto Zarr v2 like netcdf-c's NCZarr.

The package reads every form that netcdf-c has written, and writes the form that version 4.9.3 and later read exactly.
This form has no user-defined types; writing drops or refuses them.
"""
