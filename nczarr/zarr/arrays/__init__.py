"""Arrays: regions of elements, read from and written to stored chunks.

An :class:`Array` normalises a selection once (:class:`Selection`), plans which part of which chunk goes where, and
hands plan and :class:`Chunks` (where the chunks lie, which codecs they have) to a reader or writer: one for local
files, which goes straight to the system, and one for every other store, which batches its requests. Shards are read
by one reader from either. Nothing here knows documents or other arrays; small chunks are done in rows, and decoded
chunks that are asked for in parts are kept in one cache for all arrays.
"""

from nczarr.zarr.arrays.array import Array
from nczarr.zarr.arrays.chunks import Chunks
from nczarr.zarr.arrays.extended import ExtendedArray, extend
from nczarr.zarr.arrays.selection import Axis, Selection, normalize

__all__ = ["Array", "Axis", "Chunks", "ExtendedArray", "Selection", "extend", "normalize"]
