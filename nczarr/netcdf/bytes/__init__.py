"""Read and write the bytes of netCDF files, independently of their format.

A :class:`ByteFile` reads and writes at any offset, on disk or in memory. :class:`Ranges` read byte ranges of
a file that a library has open. A :class:`GuardedFile` receives the writes of HDF5: it keeps the bytes that a
full disk refuses, and orders the writes so that a kill between two of them rarely damages the file.
"""
