"""Parse and write the JSON documents of arrays and groups.

One module for each version of Zarr converts its documents to and from :class:`~nczarr.zarr.metadata.ArrayMetadata` and
``GroupMetadata``; the rest of the engine is independent of the version. Parsing has limits and loses nothing, and each
error names the document and the key. Extensions (ZEP 10) have hooks here; other packages add them by entry points
(``docs/extending.md``).
"""

from nczarr.zarr.documents.consolidated import DocumentTexts, UnreadDocuments, parse_root
from nczarr.zarr.documents.extensions import (
    Extension,
    active_extensions,
    register_extension,
    unregister_extension,
)
from nczarr.zarr.documents.json import as_it_stands, dump_json, parse_json, parse_object, parse_part
from nczarr.zarr.documents.v2_types import parse_v2_dtype
from nczarr.zarr.documents.v3 import node_document

__all__ = [
    "DocumentTexts",
    "Extension",
    "UnreadDocuments",
    "active_extensions",
    "as_it_stands",
    "dump_json",
    "node_document",
    "parse_json",
    "parse_object",
    "parse_part",
    "parse_root",
    "parse_v2_dtype",
    "register_extension",
    "unregister_extension",
]
