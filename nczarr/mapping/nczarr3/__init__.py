"""Map netCDF onto Zarr v3 with NCZarr's keys.

The documents are those of plain Zarr with NCZarr's keys (``docs/spec/nczarr-v3.md``): ``write`` makes them from a
model, and ``read`` makes a model from them. Where other programs have changed the arrays, reading follows the arrays.
"""
