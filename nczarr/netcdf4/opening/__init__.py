"""Open what ``Dataset(...)`` was given as a session: stores, netCDF files, memory; and move datasets from and to CDL.

A session does not know what it edits: Zarr stores come from the mapping, netCDF files from their own edge.
"""

from nczarr.netcdf4.opening.cdl_text import from_cdl, to_cdl
from nczarr.netcdf4.opening.targets import open_session, open_to_read

__all__ = ["from_cdl", "open_session", "open_to_read", "to_cdl"]
