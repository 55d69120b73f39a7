"""Chunks: move what a selection means between the stored chunks of an array and memory.

:class:`Chunks` says where the chunks of one array lie and which codecs they have. A :class:`Selection`, normalised
once, is planned along each dimension (:func:`plan`), and a reader or writer carries the plan out: one for local files,
which goes straight to the system, and one for every other store, which batches its requests. Shards are read by one
reader from either. Small chunks are done in rows, and decoded chunks that are asked for in parts are kept in one cache
for all arrays. Nothing here knows documents or other arrays.
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
