"""Open what ``Dataset(...)`` was given as a session: stores, netCDF files, memory; and move datasets from and to CDL.

A session does not know what it edits: Zarr stores come from the mapping, netCDF files from their own edge.
"""
