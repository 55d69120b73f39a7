"""Read and write netCDF-4 files, through the low-level interface of h5py.

From the bottom up: ``library`` (h5py, its lock and errors), ``direct`` (C functions that h5py lacks), ``memory``
(values with pointers), ``types``, ``filters`` (chunks of plugins' filters); on these ``tree`` (the objects of the
groups), ``dimensions``, ``chunks`` (read outside HDF5's lock), ``source`` (values); on these ``reader``, ``objects``
(that are made) and ``writer``. The bytes below are :mod:`nczarr.netcdf.bytes`.
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
