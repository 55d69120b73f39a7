"""Read and write regions of arrays as numpy arrays, and change their shape.

An :class:`Array` normalises an index to a :class:`Selection`, and :mod:`nczarr.zarr.chunks` reads or writes it. The
array has metadata, but is independent of documents and other arrays. An :class:`ExtendedArray` applies the hooks of an
extension.
"""
