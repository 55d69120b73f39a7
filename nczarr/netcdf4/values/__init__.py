"""Convert values between the model's form and what a program sees: indices, masks, packing, text, rounding.

Nothing here knows the classes of the interface: functions take a session's nodes, and the settings of a variable
(:class:`nczarr.netcdf4.values.settings.Settings`).
"""

from nczarr.netcdf4.values.attributes import attribute_value, lookup_in, make_attribute
from nczarr.netcdf4.values.characters import chartostring, stringtoarr, stringtochar
from nczarr.netcdf4.values.complexes import (
    PAIR,
    complex_dtype,
    complex_type,
    pair_dimension,
    pair_dtype,
    part_type,
)
from nczarr.netcdf4.values.indexing import parse_selection
from nczarr.netcdf4.values.layout import (
    BLOSC,
    SZIP,
    chunking_of,
    default_chunks,
    describe_filters,
    item_size,
    shown_dtype,
    stored_endian,
)
from nczarr.netcdf4.values.masking import cast_safely
from nczarr.netcdf4.values.quantize import ATTRIBUTE_OF_MODE, quantization_in, round_to_digit
from nczarr.netcdf4.values.reading import read
from nczarr.netcdf4.values.records import aligned_dtype, find_compound, view_dtype
from nczarr.netcdf4.values.settings import Settings
from nczarr.netcdf4.values.writing import write

__all__ = [
    "ATTRIBUTE_OF_MODE",
    "BLOSC",
    "PAIR",
    "SZIP",
    "Settings",
    "aligned_dtype",
    "attribute_value",
    "cast_safely",
    "chartostring",
    "chunking_of",
    "complex_dtype",
    "complex_type",
    "default_chunks",
    "describe_filters",
    "find_compound",
    "item_size",
    "lookup_in",
    "make_attribute",
    "pair_dimension",
    "pair_dtype",
    "parse_selection",
    "part_type",
    "quantization_in",
    "read",
    "round_to_digit",
    "shown_dtype",
    "stored_endian",
    "stringtoarr",
    "stringtochar",
    "view_dtype",
    "write",
]
