"""Model netCDF datasets: types, nodes, names and rules. Objects are frozen; the package does no input or output."""

from nczarr.compression import Filter
from nczarr.model.compare import Difference, compare, describe_type
from nczarr.model.names import ROOT, check_name, format_fqn, join_fqn, normalize_name, parse_fqn, split_fqn
from nczarr.model.nodes import (
    Attribute,
    Dataset,
    Dimension,
    DimensionRef,
    Group,
    Storage,
    Variable,
    bind_data,
    fill_value_of,
    own_fill_value,
    rewrite,
    same_values,
    source_of,
    with_lengths,
)
from nczarr.model.resolve import forward_references, long_names, names_no_file_has, resolve
from nczarr.model.sources import (
    ArraySource,
    CornerSource,
    DatasetSink,
    MemorySource,
    Region,
    RepeatedSource,
    regions,
)
from nczarr.model.types import (
    BYTE,
    CHAR,
    DEFAULT_FILL,
    DOUBLE,
    FLOAT,
    INT,
    INT64,
    PRIMITIVES,
    SHORT,
    STRING,
    UBYTE,
    UINT,
    UINT64,
    USHORT,
    CompoundType,
    EnumType,
    Field,
    OpaqueType,
    PrimitiveType,
    Type,
    TypeReference,
    UserType,
    VlenType,
    default_fill,
    ordered_types,
    parts_of,
    primitive_for_dtype,
    walk_types,
)

__all__ = [
    "BYTE", "CHAR", "DEFAULT_FILL", "DOUBLE", "FLOAT", "INT", "INT64", "PRIMITIVES", "ROOT", "SHORT", "STRING",
    "UBYTE", "UINT", "UINT64", "USHORT", "ArraySource", "Attribute", "CompoundType", "CornerSource", "Dataset",
    "DatasetSink", "Difference", "Dimension", "DimensionRef", "EnumType", "Field", "Filter", "Group",
    "MemorySource", "OpaqueType", "PrimitiveType", "Region", "RepeatedSource", "Storage", "Type",
    "TypeReference", "UserType", "Variable", "VlenType", "bind_data", "check_name", "compare", "default_fill",
    "describe_type", "fill_value_of", "format_fqn", "forward_references", "join_fqn", "long_names", "names_no_file_has",
    "normalize_name", "ordered_types", "own_fill_value", "parse_fqn", "parts_of", "primitive_for_dtype",
    "regions", "resolve", "rewrite", "same_values", "source_of", "split_fqn", "walk_types", "with_lengths",
]  # fmt: skip
