"""Constants of the netCDF4 interface: fill values, type codes, and what this library can do."""

from __future__ import annotations

import sys

#: netCDF's default fill values by numpy type code.
default_fillvals: dict[str, str | int | float] = {
    "S1": "\x00",
    "i1": -127,
    "u1": 255,
    "i2": -32767,
    "u2": 65535,
    "i4": -2147483647,
    "u4": 4294967295,
    "i8": -9223372036854775806,
    "u8": 18446744073709551614,
    "f4": 9.969209968386869e36,
    "f8": 9.969209968386869e36,
    "c8": 9.969209968386869e36,
    "c16": 9.969209968386869e36,
}

#: Type codes that variables and attributes may have.
SUPPORTED_TYPES = ("S1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")

is_native_little = sys.byteorder == "little"
is_native_big = sys.byteorder == "big"
default_encoding = "utf-8"
unicode_error = "replace"

#: Data models by the value of ``_Format``.
MODEL_OF_FORMAT: dict[str | None, str] = {
    None: "NETCDF4",
    "netCDF-4": "NETCDF4",
    "netCDF-4 classic model": "NETCDF4_CLASSIC",
    "classic": "NETCDF3_CLASSIC",
    "64-bit offset": "NETCDF3_64BIT_OFFSET",
    "cdf5": "NETCDF3_64BIT_DATA",
}
FORMAT_OF_MODEL: dict[str, str] = {model: text for text, model in MODEL_OF_FORMAT.items() if text}

#: What the `format` argument may be, and the data model that it means.
DATA_MODELS: dict[str, str] = {
    **{model: model for model in FORMAT_OF_MODEL},
    "NETCDF3_64BIT": "NETCDF3_64BIT_OFFSET",
}

#: Data models without groups, user types and strings.
CLASSIC_FORMATS = frozenset(FORMAT_OF_MODEL) - {"NETCDF4"}
