"""Encode netCDF values as Zarr elements, JSON values and codecs."""
