"""Provide the engine ``nczarr`` of xarray, and the accessor ``nczarr`` of its datasets and trees.

xarray finds the engine through the entry point group ``xarray.backends``, and imports it at its first opening;
``import nczarr.xarray`` does, too.

Examples
--------
>>> import xarray
>>> from nczarr.netcdf4 import Dataset
>>> target = {}
>>> with Dataset(target, "w") as ds:
...     x = ds.createDimension("x", 3)
...     v = ds.createVariable("v", "i2", ("x",), fill_value=-1)
...     v.scale_factor = 0.5
...     v[:2] = [1.0, 1.5]
>>> xarray.open_dataset(target, engine=NCZarrBackendEntrypoint)["v"].values
array([1. , 1.5, nan])
"""

from __future__ import annotations

from nczarr.xarray.accessor import NCZarrAccessor
from nczarr.xarray.engine import NCZarrBackendEntrypoint

__all__ = ["NCZarrAccessor", "NCZarrBackendEntrypoint"]
