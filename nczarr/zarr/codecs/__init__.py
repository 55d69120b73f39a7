"""Encode the chunks of an array as stored bytes, and decode them.

:class:`Chain` builds and runs the codecs of one array; the rest of the package uses nothing else. A codec has one of
three kinds: array to array, array to bytes, bytes to bytes. A registry finds it by name; each module here registers
its own codecs, and other packages add more (``docs/extending.md``). Stored bytes are never trusted: each codec has a
limit on its output before it decodes.
"""

from nczarr.zarr.codecs import array_array, array_bytes, bytes_bytes, sharding
from nczarr.zarr.codecs.base import (
    ArrayArrayCodec,
    ArrayBytesCodec,
    BytesBytesCodec,
    ChunkSpec,
    find_codec,
    known_codecs,
    register_codec,
)

# The interface for authors of codecs.
__all__ = [
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "BytesBytesCodec",
    "ChunkSpec",
    "find_codec",
    "known_codecs",
    "register_codec",
]

#: These modules register their codecs on import.
_BUILT_IN = (array_array, array_bytes, bytes_bytes, sharding)
