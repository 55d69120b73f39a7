"""Read and write netCDF files of every format.

:func:`open_dataset` returns the model of a file, with data that load on access. :func:`create_dataset` writes
a file region by region under a temporary name. :func:`open_file` and :func:`create_file` edit a file in place.
``netcdf.edit`` writes for both. ``netcdf.classic`` implements CDF-1, CDF-2 and CDF-5 without a library.
``netcdf.hdf5`` implements netCDF-4, reads other HDF5 files as the netCDF library does, and imports h5py on first
use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.formats import is_netcdf
from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.netcdf.bytes.file import MemoryFile
    from nczarr.netcdf.bytes.guarded import has_readers
    from nczarr.netcdf.datasets import OpenFile, create_dataset, open_dataset, provenance
    from nczarr.netcdf.edit.editor import EditedFile
    from nczarr.netcdf.edit.opening import create_file, open_file
    from nczarr.netcdf.isolated import open_isolated, provenance_isolated
    from nczarr.netcdf.remote import RemoteSink, open_remote
    from nczarr.netcdf.sink import FileSink
else:
    __getattr__ = lazy(
        __name__,
        {
            "bytes.file": ["MemoryFile"],
            "bytes.guarded": ["has_readers"],
            "datasets": ["OpenFile", "create_dataset", "open_dataset", "provenance"],
            "edit.editor": ["EditedFile"],
            "edit.opening": ["create_file", "open_file"],
            "isolated": ["open_isolated", "provenance_isolated"],
            "remote": ["RemoteSink", "open_remote"],
            "sink": ["FileSink"],
        },
    )

__all__ = [
    "EditedFile",
    "FileSink",
    "MemoryFile",
    "OpenFile",
    "RemoteSink",
    "create_dataset",
    "create_file",
    "has_readers",
    "is_netcdf",
    "open_dataset",
    "open_file",
    "open_isolated",
    "open_remote",
    "provenance",
    "provenance_isolated",
]
