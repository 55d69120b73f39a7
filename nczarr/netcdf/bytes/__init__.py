"""Read and write the bytes of netCDF files, whatever lies in them.

A :class:`ByteFile` is read and written at any place, on disk or in memory; :class:`Ranges` are read beside the library
that has the file open. A :class:`GuardedFile` is what HDF5 writes to: a full disk does
not kill it, and the bytes reach the file in an order that a kill in between does little harm to.
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
