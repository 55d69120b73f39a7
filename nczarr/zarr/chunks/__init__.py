"""Read and write selections of an array from and to its stored chunks.

:class:`Chunks` has the keys and codecs of one array's chunks. :func:`normalize` converts an index to a
:class:`Selection`, :func:`plan` splits it along each dimension, and a reader or writer executes the plan. Local files
have their own reader and writer, which call the operating system directly; those for other stores batch their
requests. One reader of shards serves both. Small chunks are processed in rows. One cache for all arrays keeps decoded
chunks that are read in parts. This package is independent of metadata documents.
"""
