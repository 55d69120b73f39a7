"""Write datasets whose values stay in netCDF files: references to their chunks, in kerchunk's forms and in Icechunk.

The metadata documents are those of a copy. Each chunk is a reference: a file, an offset and a size. Values of chunks
are never read.
"""
