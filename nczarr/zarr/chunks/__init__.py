"""Read and write selections of an array from and to its stored chunks.

:class:`Chunks` has the keys and codecs of one array's chunks. :func:`normalize` converts an index to a
:class:`Selection`, :func:`plan` splits it along each dimension, and a reader or writer executes the plan. Local files
have their own reader and writer, which call the operating system directly; those for other stores batch their
requests. One reader of shards serves both. Small chunks are processed in rows. One cache for all arrays keeps decoded
chunks that are read in parts. This package is independent of metadata documents.
"""

from nczarr.zarr.chunks.chunks import Chunks, forget_chunks
from nczarr.zarr.chunks.files import supported
from nczarr.zarr.chunks.locks import while_held
from nczarr.zarr.chunks.plan import chunk_count, each_axis, plan, steps
from nczarr.zarr.chunks.read_files import read_from_files
from nczarr.zarr.chunks.read_store import read_from_store
from nczarr.zarr.chunks.selection import Axis, Selection, normalize
from nczarr.zarr.chunks.write import write_to_files, write_to_store, write_whole

__all__ = [
    "Axis",
    "Chunks",
    "Selection",
    "chunk_count",
    "each_axis",
    "forget_chunks",
    "normalize",
    "plan",
    "read_from_files",
    "read_from_store",
    "steps",
    "supported",
    "while_held",
    "write_to_files",
    "write_to_store",
    "write_whole",
]
