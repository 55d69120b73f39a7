"""Implement the Zarr Object Model (ZEP 6): the structure of a hierarchy as JSON, without data.

The package reads a model from JSON or from a hierarchy, creates the described hierarchy, and flattens a model to
consolidated metadata. It compares models, matches them with patterns, validates them with a schema, and converts
version 2 to version 3.
"""

from nczarr.zarr.zom.model import (
    ZomArray,
    ZomGroup,
    ZomNode,
    flatten,
    from_hierarchy,
    node_metadata,
    parse_zom,
    to_hierarchy,
    unflatten,
)
from nczarr.zarr.zom.tools import (
    canonical_zom,
    match_zom,
    same_structure,
    schema_problems,
    validate_zom,
    zom_differences,
    zom_schema,
    zom_to_v3,
)

__all__ = [
    "ZomArray",
    "ZomGroup",
    "ZomNode",
    "canonical_zom",
    "flatten",
    "from_hierarchy",
    "match_zom",
    "node_metadata",
    "parse_zom",
    "same_structure",
    "schema_problems",
    "to_hierarchy",
    "unflatten",
    "validate_zom",
    "zom_differences",
    "zom_schema",
    "zom_to_v3",
]
