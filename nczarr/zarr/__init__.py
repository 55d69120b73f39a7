"""Implement Zarr: documents, codecs, grids, arrays and hierarchies on stores, independent of netCDF.

Names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.compression import NamedConfig
from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.zarr.chunks.array import Array
    from nczarr.zarr.chunks.selection import Selection
    from nczarr.zarr.grids import RegularGrid
    from nczarr.zarr.hierarchy.hierarchy import Hierarchy
    from nczarr.zarr.hierarchy.opening import create_hierarchy, open_hierarchy
    from nczarr.zarr.limits import LIMITS, Limits
    from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, inner_codecs
    from nczarr.zarr.types import DataType, data_type_for
else:
    __getattr__ = lazy(
        __name__,
        {
            "chunks.array": ["Array"],
            "chunks.selection": ["Selection"],
            "grids": ["RegularGrid"],
            "hierarchy.hierarchy": ["Hierarchy"],
            "hierarchy.opening": ["create_hierarchy", "open_hierarchy"],
            "limits": ["LIMITS", "Limits"],
            "metadata": ["ArrayMetadata", "GroupMetadata", "inner_codecs"],
            "types": ["DataType", "data_type_for"],
        },
    )

__all__ = [
    "LIMITS",
    "Array",
    "ArrayMetadata",
    "DataType",
    "GroupMetadata",
    "Hierarchy",
    "Limits",
    "NamedConfig",
    "RegularGrid",
    "Selection",
    "create_hierarchy",
    "data_type_for",
    "inner_codecs",
    "open_hierarchy",
]
