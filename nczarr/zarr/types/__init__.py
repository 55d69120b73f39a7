"""Zarr data types: the dtype, the fill value and the JSON of each, found by name or for a numpy dtype."""

from nczarr.zarr.types.base import DataType, Endian
from nczarr.zarr.types.numbers import BoolType, ComplexType, FloatType, IntegerType, TimeType
from nczarr.zarr.types.registry import data_type_for, parse_data_type
from nczarr.zarr.types.struct import StructField, StructType
from nczarr.zarr.types.text import BytesType, FixedBytesType, FixedTextType, RawBitsType, StringType

__all__ = [
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
    "data_type_for",
    "parse_data_type",
]
