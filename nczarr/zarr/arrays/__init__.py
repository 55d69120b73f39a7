"""Arrays: regions of elements, read and written as numpy arrays, and the shape that they are in.

An :class:`Array` normalises a selection once (:class:`Selection`) and lets :mod:`nczarr.zarr.chunks` move it; it knows
its metadata, but no document and no other array. An :class:`ExtendedArray` shows one as its extensions say.
"""

from nczarr.zarr.arrays.array import Array
from nczarr.zarr.arrays.extended import ExtendedArray, extend
from nczarr.zarr.chunks import Axis, Chunks, Selection, normalize

__all__ = ["Array", "Axis", "Chunks", "ExtendedArray", "Selection", "extend", "normalize"]
