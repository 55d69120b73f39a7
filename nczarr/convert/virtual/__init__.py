"""Write datasets whose values stay in netCDF files: references to their chunks, in kerchunk's forms and in Icechunk."""

from nczarr.convert.virtual.write import write_virtual

__all__ = ["write_virtual"]
