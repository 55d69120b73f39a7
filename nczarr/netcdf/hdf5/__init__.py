"""Read and write netCDF-4 files, through the low-level interface of h5py.

The modules from the bottom up: ``library`` (h5py, its lock and errors, and C functions that h5py lacks),
``memory`` (values with pointers), ``types`` and ``filters`` (chunks with plugin filters). ``tree`` (the
objects and dimensions of the groups), ``chunks`` (reads without HDF5's lock) and ``source`` (values) build on
them, and ``reader``, ``objects`` (creation) and ``writer`` on these. :mod:`nczarr.netcdf.bytes` handles the
bytes below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.netcdf.hdf5.objects import ObjectMaker
    from nczarr.netcdf.hdf5.reader import find_objects, read_hdf5
    from nczarr.netcdf.hdf5.source import HDF5File
    from nczarr.netcdf.hdf5.writer import HDF5Sink, check_names, check_types
else:
    __getattr__ = lazy(
        __name__,
        {
            "objects": ["ObjectMaker"],
            "reader": ["find_objects", "read_hdf5"],
            "source": ["HDF5File"],
            "writer": ["HDF5Sink", "check_names", "check_types"],
        },
    )

__all__ = ["HDF5File", "HDF5Sink", "ObjectMaker", "check_names", "check_types", "find_objects", "read_hdf5"]
