"""Encode netCDF values as Zarr elements, JSON values and codecs.

Each form is exact both ways: an :class:`Encoding` between the model's values and those of an array, JSON for
attributes, types and single values (``docs/spec/nczarr-v3.md``), codecs for netCDF's filters. Nothing here knows
groups or documents.
"""

from nczarr.mapping.values.attributes import (
    ATTR_KEY,
    RESERVED,
    Known,
    decode_attributes,
    encode_attributes,
    infer_attribute,
)
from nczarr.mapping.values.encodings import (
    Encoding,
    PackedEncoding,
    PlainEncoding,
    ViewEncoding,
    encoding_for_reading,
    encoding_for_writing,
    simple_type,
)
from nczarr.mapping.values.json import (
    array_of,
    check_unicode,
    float_from_json,
    float_to_json,
    int_from_json,
    scalar_to_json,
    show,
)
from nczarr.mapping.values.storage import codecs_of_filters, filters_of, parse_compression, stored_form
from nczarr.mapping.values.types import TypeBinder, declarations, find_type, type_name, types_to_json

__all__ = [
    "ATTR_KEY",
    "RESERVED",
    "Encoding",
    "Known",
    "PackedEncoding",
    "PlainEncoding",
    "TypeBinder",
    "ViewEncoding",
    "array_of",
    "check_unicode",
    "codecs_of_filters",
    "declarations",
    "decode_attributes",
    "encode_attributes",
    "encoding_for_reading",
    "encoding_for_writing",
    "filters_of",
    "find_type",
    "float_from_json",
    "float_to_json",
    "infer_attribute",
    "int_from_json",
    "parse_compression",
    "scalar_to_json",
    "show",
    "simple_type",
    "stored_form",
    "type_name",
    "types_to_json",
]
