"""Read and write the classic netCDF formats: CDF-1, CDF-2 and CDF-5."""
