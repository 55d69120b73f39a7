"""Define the data types of array elements, in memory, in chunks, and in metadata documents.

A :class:`DataType` has a numpy dtype, and converts itself and its fill values to and from JSON without loss.
:func:`parse_data_type` finds a type by its Zarr name, :func:`data_type_for` by a numpy dtype. Other packages add types
to the registry (``docs/extending.md``).
"""

from nczarr.zarr.types.base import DataType, Endian, bad, show
from nczarr.zarr.types.numbers import BoolType, ComplexType, FloatType, IntegerType, TimeType
from nczarr.zarr.types.registry import DATA_TYPES, data_type_for, parse_data_type
from nczarr.zarr.types.struct import StructField, StructType
from nczarr.zarr.types.text import (
    BytesType,
    FixedBytesType,
    FixedTextType,
    RawBitsType,
    StringType,
    decode_base64,
    encode_base64,
)

__all__ = [
    "DATA_TYPES",
    "BoolType",
    "BytesType",
    "ComplexType",
    "DataType",
    "Endian",
    "FixedBytesType",
    "FixedTextType",
    "FloatType",
    "IntegerType",
    "RawBitsType",
    "StringType",
    "StructField",
    "StructType",
    "TimeType",
    "bad",
    "data_type_for",
    "decode_base64",
    "encode_base64",
    "parse_data_type",
    "show",
]
