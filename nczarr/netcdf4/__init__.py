"""Provide netCDF4-python's interface on Zarr: the same classes, functions and constants.

Programs written for ``netCDF4`` use it with ``import nczarr as netCDF4``, or unchanged after :func:`install`. Errors
are NCZarrErrors and also the builtin exceptions of netCDF4-python.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from nczarr.netcdf4 import utils
from nczarr.netcdf4.compatibility import (
    default_fillvals,
    dtype_is_complex,
    get_alignment,
    get_chunk_cache,
    install,
    rc_get,
    rc_set,
    set_alignment,
    set_chunk_cache,
    storage,
    uninstall,
)
from nczarr.netcdf4.dataset import Dataset, Group
from nczarr.netcdf4.declarations import CompoundType, Dimension, EnumType, OpaqueType, VLType
from nczarr.netcdf4.errors import NetCDF4MissingFeatureException
from nczarr.netcdf4.multi_file import MFDataset, MFTime, _Dimension, _Variable
from nczarr.netcdf4.values.characters import chartostring, stringtoarr, stringtochar
from nczarr.netcdf4.variable import Variable

if TYPE_CHECKING:
    from cftime import date2index, date2num, num2date

#: The version of netCDF4-python whose interface this is.
__version__ = "1.7.2"
#: The emulated versions of netCDF-C and HDF5.
__netcdf4libversion__ = "4.9.3"
__hdf5libversion__ = "1.14.0"

# The features of netCDF-C, of which only those that need MPI are missing.
__has_rename_grp__ = __has_nc_inq_path__ = __has_nc_inq_format_extended__ = __has_nc_rc_set__ = 1
__has_nc_open_mem__ = __has_nc_create_mem__ = __has_cdf5_format__ = __has_set_alignment__ = 1
__has_ncfilter__ = __has_zstandard_support__ = __has_bzip2_support__ = __has_blosc_support__ = 1
__has_szip_support__ = __has_quantization_support__ = 1
__has_parallel4_support__ = __has_pnetcdf_support__ = __has_parallel_support__ = 0

#: netCDF-C's numbers, which netCDF4-python exports.
NC_DISKLESS = 8
NC_PERSIST = 16384

is_native_little = sys.byteorder == "little"
is_native_big = sys.byteorder == "big"
default_encoding = "utf-8"
unicode_error = "replace"

_CFTIME = ("date2index", "date2num", "num2date")

__all__ = [
    "NC_DISKLESS",
    "NC_PERSIST",
    "CompoundType",
    "Dataset",
    "Dimension",
    "EnumType",
    "Group",
    "MFDataset",
    "MFTime",
    "NetCDF4MissingFeatureException",
    "OpaqueType",
    "VLType",
    "Variable",
    "_Dimension",
    "_Variable",
    "__hdf5libversion__",
    "__netcdf4libversion__",
    "chartostring",
    "date2index",
    "date2num",
    "default_encoding",
    "default_fillvals",
    "dtype_is_complex",
    "get_alignment",
    "get_chunk_cache",
    "getlibversion",
    "install",
    "is_native_big",
    "is_native_little",
    "num2date",
    "rc_get",
    "rc_set",
    "set_alignment",
    "set_chunk_cache",
    "storage",
    "stringtoarr",
    "stringtochar",
    "unicode_error",
    "uninstall",
    "utils",
]
__all__ += [name for name in globals() if name.startswith("__has_")]


def getlibversion() -> str:
    """Return the emulated version of netCDF-C.

    Examples
    --------
    >>> getlibversion()
    '4.9.3'
    """
    return __netcdf4libversion__


def __getattr__(name: str) -> object:
    # cftime is slow to import, so it is imported on first use.
    if name in _CFTIME:
        import cftime

        found: object = getattr(cftime, name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
