"""Map netCDF onto plain Zarr, with xarray's conventions.

Dimensions are ``dimension_names`` (``_ARRAY_DIMENSIONS`` in version 2), attributes are plain JSON, and what Zarr's
types cannot say is lost (``docs/spec/plain-zarr.md``). NCZarr's documents are these with more keys, so that their
planner (:func:`plan_documents`) and the reader of arrays without keys (:class:`PlainArrays`) serve both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.mapping.plain.arrays import DIMENSIONS_KEY, PlainArrays
    from nczarr.mapping.plain.documents import Documents, Labels, chunks_of, plan_documents
    from nczarr.mapping.plain.losses import ORDER
    from nczarr.mapping.plain.read import read_plain
    from nczarr.mapping.plain.write import CHUNK_KEYS, plan_plain_v2, plan_plain_v3, v2_codecs
else:
    __getattr__ = lazy(
        __name__,
        {
            "arrays": ["DIMENSIONS_KEY", "PlainArrays"],
            "documents": ["Documents", "Labels", "chunks_of", "plan_documents"],
            "losses": ["ORDER"],
            "read": ["read_plain"],
            "write": ["CHUNK_KEYS", "plan_plain_v2", "plan_plain_v3", "v2_codecs"],
        },
    )

__all__ = [
    "CHUNK_KEYS",
    "DIMENSIONS_KEY",
    "ORDER",
    "Documents",
    "Labels",
    "PlainArrays",
    "chunks_of",
    "plan_documents",
    "plan_plain_v2",
    "plan_plain_v3",
    "read_plain",
    "v2_codecs",
]
