"""Read and write the classic netCDF formats: CDF-1, CDF-2 and CDF-5.

A classic file is a small header and plain big-endian arrays, so no library is required. ``format`` describes
the header as data, ``reader`` parses it and reads regions of the arrays, ``writer`` lays it out and writes
them.
"""
