"""Define the data types of array elements, in memory, in chunks, and in metadata documents.

A :class:`DataType` has a numpy dtype, and converts itself and its fill values to and from JSON without loss.
:func:`parse_data_type` finds a type by its Zarr name, :func:`data_type_for` by a numpy dtype. Other packages add types
to the registry (``docs/extending.md``).
"""

from nczarr.zarr.types.base import DataType
from nczarr.zarr.types.registry import DATA_TYPES, parse_data_type

# The interface for authors of data types.
__all__ = ["DATA_TYPES", "DataType", "parse_data_type"]
