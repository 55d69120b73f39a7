"""Read the classic netCDF formats: CDF-1, CDF-2 and CDF-5, and make their headers.

A classic file is a small header and plain big-endian arrays, so no library is required. ``header`` describes
the header as data and formats it, ``reader`` parses it and reads regions of the arrays.
"""
