"""Open, create and change netCDF datasets in Zarr stores, whatever their layout."""
