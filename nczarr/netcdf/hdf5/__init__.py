"""Read and write netCDF-4 files through HDF5."""
