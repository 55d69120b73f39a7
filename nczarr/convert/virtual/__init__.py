"""Write datasets whose values stay in netCDF files: references to their chunks, in kerchunk's forms and in Icechunk.

The documents are those that a copy would write; each chunk is a place in a file: which file, where it begins, how
long it is (``places``, ``references``). :func:`write_virtual` puts them into the form that the target's name asks
for. Values are never read.
"""
