"""Put nczarr in the place of netCDF4 in this process and all that it starts; Python imports this module by itself.

``NCZARR_STANDS_IN=plain`` puts the package itself there, as ``import nczarr as netCDF4`` does in programs that
are edited.
"""

import os
import sys

if stands_in := os.environ.get("NCZARR_STANDS_IN"):
    import nczarr.netcdf4

    if stands_in == "plain":
        sys.modules["netCDF4"] = nczarr
        sys.modules["netCDF4.utils"] = nczarr.netcdf4.utils
    else:
        nczarr.netcdf4.install()
