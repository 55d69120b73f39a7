"""nczarr: the full netCDF-4 data model on Zarr v3.

Most programs need only these names:

* :func:`open` gives the model of a dataset of any format: read-only, with values that are read on demand;
* :class:`Dataset` opens or creates a dataset, with netCDF4-python's interface;
* :func:`copy` converts between netCDF files, Zarr hierarchies and CDL text;
* :func:`join` makes one dataset of many sources, and :func:`append` adds sources to a dataset;
* :func:`edit` changes attributes and names of a stored dataset, by statements in CDL's words;
* :func:`scan` reads the headers of many files once, for :func:`join`;
* :func:`from_xarray` turns a dataset or tree of xarray into the model, which :func:`copy` writes;
* :func:`diff` compares two datasets bit by bit, and :func:`digest` computes checksums;
* :class:`NCZarrError` is the base class of all errors.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nczarr.errors import NCZarrError
from nczarr.rooms import Door

if TYPE_CHECKING:
    from nczarr.convert import append, copy, diff, digest, edit, join, scan
    from nczarr.convert.front import open
    from nczarr.netcdf4 import (
        CompoundType,
        Dataset,
        Dimension,
        EnumType,
        Group,
        MFDataset,
        MFTime,
        Variable,
        VLType,
        chartostring,
        date2index,
        date2num,
        default_fillvals,
        num2date,
        stringtoarr,
        stringtochar,
    )
    from nczarr.xarray_model import from_xarray

__version__ = "1.0.0rc1"

__all__ = [
    "CompoundType",
    "Dataset",
    "Dimension",
    "EnumType",
    "Group",
    "MFDataset",
    "MFTime",
    "NCZarrError",
    "VLType",
    "Variable",
    "__version__",
    "append",
    "chartostring",
    "copy",
    "date2index",
    "date2num",
    "default_fillvals",
    "diff",
    "digest",
    "edit",
    "from_xarray",
    "join",
    "num2date",
    "open",
    "scan",
    "stringtoarr",
    "stringtochar",
]

_HOMES = dict.fromkeys(__all__, "nczarr.netcdf4") | {
    "append": "nczarr.convert",
    "copy": "nczarr.convert",
    "diff": "nczarr.convert",
    "digest": "nczarr.convert",
    "edit": "nczarr.convert",
    "from_xarray": "nczarr.xarray_model",
    "join": "nczarr.convert",
    "open": "nczarr.convert.front",
    "scan": "nczarr.convert",
}


_RARE = """
    NC_DISKLESS NC_PERSIST NetCDF4MissingFeatureException OpaqueType __has_blosc_support__
    __has_bzip2_support__ __has_cdf5_format__ __has_nc_create_mem__ __has_nc_inq_format_extended__
    __has_nc_inq_path__ __has_nc_open_mem__ __has_nc_rc_set__ __has_ncfilter__ __has_parallel4_support__
    __has_parallel_support__ __has_pnetcdf_support__ __has_quantization_support__ __has_rename_grp__
    __has_set_alignment__ __has_szip_support__ __has_zstandard_support__ __hdf5libversion__
    __netcdf4libversion__ default_encoding dtype_is_complex get_alignment get_chunk_cache getlibversion
    install is_native_big is_native_little rc_get rc_set set_alignment set_chunk_cache storage
    unicode_error uninstall utils
"""
#: Rarely used names of netCDF4-python, available for ``import nczarr as netCDF4``.
_ALSO = frozenset(_RARE.split())


def __getattr__(name: str) -> Any:
    # Import on first use, so that `import nczarr` is fast.
    if name in _ALSO:
        return getattr(import_module("nczarr.netcdf4"), name)
    if name in _HOMES:
        value = getattr(Door(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'nczarr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
