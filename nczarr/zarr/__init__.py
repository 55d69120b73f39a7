"""The Zarr engine: documents, codecs, grids, arrays, hierarchies. It knows stores, and nothing of netCDF.

The names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nczarr.zarr.arrays import Array
    from nczarr.zarr.chunks import Selection
    from nczarr.zarr.grids import RegularGrid
    from nczarr.zarr.hierarchy import Hierarchy, create_hierarchy, open_hierarchy
    from nczarr.zarr.limits import LIMITS, Limits
    from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, NamedConfig
    from nczarr.zarr.types import DataType, data_type_for

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
    "open_hierarchy",
]

_HOMES = {
    "LIMITS": "limits",
    "Limits": "limits",
    "Array": "arrays.array",
    "ArrayMetadata": "metadata",
    "DataType": "types",
    "GroupMetadata": "metadata",
    "Hierarchy": "hierarchy.hierarchy",
    "NamedConfig": "metadata",
    "RegularGrid": "grids",
    "Selection": "chunks.selection",
    "create_hierarchy": "hierarchy.hierarchy",
    "data_type_for": "types",
    "open_hierarchy": "hierarchy.hierarchy",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"nczarr.zarr.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'nczarr.zarr' has no attribute {name!r}")
