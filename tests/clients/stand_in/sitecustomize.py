"""Put nczarr in the place of netCDF4 in this process and all that it starts; Python imports this module by itself."""

import os

if os.environ.get("NCZARR_STANDS_IN"):
    import nczarr.netcdf4

    nczarr.netcdf4.install()
