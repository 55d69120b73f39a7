"""Parse and write the JSON documents of arrays and groups.

One module for each version of Zarr converts its documents to and from :class:`~nczarr.zarr.metadata.ArrayMetadata` and
``GroupMetadata``; the rest of the engine is independent of the version. Parsing has limits and loses nothing, and each
error names the document and the key. Extensions (ZEP 10) have hooks here; other packages add them by entry points
(``docs/extending.md``).
"""

from nczarr.zarr.documents.extensions import Extension

# The interface for authors of extensions.
__all__ = ["Extension"]
