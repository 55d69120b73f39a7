"""Map netCDF onto Zarr v2 like netcdf-c's NCZarr.

The package reads every form that netcdf-c has written (``versions``), and writes the form that version 4.9.3 and later
read exactly. This form has no user-defined types; writing drops or refuses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.mapping.nczarr2.read import read_nczarr_v2
    from nczarr.mapping.nczarr2.versions import find_version
    from nczarr.mapping.nczarr2.write import plan_nczarr_v2
else:
    __getattr__ = lazy(
        __name__, {"versions": ["find_version"], "write": ["plan_nczarr_v2"], "read": ["read_nczarr_v2"]}
    )

__all__ = ["find_version", "plan_nczarr_v2", "read_nczarr_v2"]
