"""Copy values with as little decoding as possible, and record finished blocks.

:mod:`nczarr.transfer` copies values block by block. Before it, :func:`store_chunked` stores the Dask arrays of xarray,
task by task, :func:`copy_stored` copies chunks that are stored as the same bytes in source and target, and
:func:`rechunk` copies variables of which the transfer would decode each chunk many times. :class:`Recording` records
finished blocks, so that an interrupted copy can continue.
"""
