"""Read and write netCDF-4 files, through the low-level interface of h5py.

The modules from the bottom up: ``library`` (h5py, its lock and errors, and C functions that h5py lacks),
``memory`` (values with pointers) and ``types``. ``tree`` (the objects and dimensions of the groups), ``chunks``
(reads without HDF5's lock, plugin filters) and ``source`` (values) build on them, and ``reader`` and ``objects``
(creation) on these. :mod:`nczarr.netcdf.bytes` handles the bytes below, :mod:`nczarr.netcdf.edit` writes files.
"""
