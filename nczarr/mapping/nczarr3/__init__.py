"""Map netCDF onto Zarr v3 with NCZarr's keys."""
