"""What netCDF4-python tells about the libraries below it, as far as it makes sense here."""

from __future__ import annotations

from typing import Any

import numpy as np

#: The version of netCDF-C whose behaviour is followed; no HDF5 is involved.
__netcdf4libversion__ = "4.9.3"
__hdf5libversion__ = "1.14.0"

__has_rename_grp__ = 1
__has_nc_inq_path__ = 1
__has_nc_inq_format_extended__ = 1
__has_nc_open_mem__ = 1
__has_nc_create_mem__ = 1
__has_cdf5_format__ = 1
__has_parallel4_support__ = 0
__has_pnetcdf_support__ = 0
__has_parallel_support__ = 0
__has_quantization_support__ = 1
__has_zstandard_support__ = 1
__has_bzip2_support__ = 1
__has_blosc_support__ = 1
__has_szip_support__ = 0
__has_set_alignment__ = 1
__has_ncfilter__ = 1
__has_nc_rc_set__ = 1

NC_DISKLESS = 8
NC_PERSIST = 16384


def getlibversion() -> str:
    """The version of netCDF-C whose behaviour is followed.

    Examples
    --------
    >>> getlibversion()
    '4.9.3'
    """
    return __netcdf4libversion__


def dtype_is_complex(dtype: Any) -> bool:
    """True for complex numbers of 64 or 128 bits.

    Examples
    --------
    >>> dtype_is_complex("c16"), dtype_is_complex("f8")
    (True, False)
    """
    try:
        return np.dtype(dtype).str[1:] in ("c8", "c16")
    except TypeError:
        return False
