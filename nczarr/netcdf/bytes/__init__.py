"""Read and write the bytes of netCDF files, independently of their format.

A :class:`ByteFile` reads and writes at any offset, on disk or in memory. :class:`Ranges` read byte ranges of
a file that a library has open. A :class:`GuardedFile` receives the writes of HDF5: it keeps the bytes that a
full disk refuses, and orders the writes so that a kill between two of them rarely damages the file.
"""

from nczarr.netcdf.bytes.file import ByteFile, DiskFile, MemoryFile, read_all, write_all
from nczarr.netcdf.bytes.guarded import GuardedFile
from nczarr.netcdf.bytes.ranges import Range, Ranges, RemoteRanges

__all__ = [
    "ByteFile",
    "DiskFile",
    "GuardedFile",
    "MemoryFile",
    "Range",
    "Ranges",
    "RemoteRanges",
    "read_all",
    "write_all",
]
