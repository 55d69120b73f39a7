"""Map netCDF onto plain Zarr, with xarray's conventions.

Dimensions are ``dimension_names`` (``_ARRAY_DIMENSIONS`` in version 2), attributes are plain JSON, and the rest of the
model is lost (``docs/spec/plain-zarr.md``). NCZarr adds its keys to the same documents, so both layouts use the same
planner (``DocumentPlanner``) and the same reader of arrays without keys (``PlainArrays``).
"""
