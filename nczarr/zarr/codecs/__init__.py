"""Codecs: from a chunk of an array to its stored bytes, and back.

:class:`Chain` puts the codecs of one array together and runs them; whoever reads and writes chunks needs no more.
A codec is of one of three kinds (array to array, array to bytes, bytes to bytes) and is found by its name in a
registry, to which every module here adds its own and other packages add theirs (``docs/extending.md``). Bytes
that come from a store are never trusted: each codec knows how much may come out before it decodes.
"""

from nczarr.zarr.codecs import array_array, array_bytes, bytes_bytes, zstd
from nczarr.zarr.codecs.base import (
    ArrayArrayCodec,
    ArrayBytesCodec,
    Buffer,
    BytesBytesCodec,
    ChunkSpec,
    as_bytes_array,
    find_codec,
    known_codecs,
    register_codec,
    scratch,
)
from nczarr.zarr.codecs.chain import Chain, chain_of
from nczarr.zarr.codecs.sharding import ShardIndex, ShardingCodec

__all__ = [
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "Buffer",
    "BytesBytesCodec",
    "Chain",
    "ChunkSpec",
    "ShardIndex",
    "ShardingCodec",
    "as_bytes_array",
    "chain_of",
    "find_codec",
    "known_codecs",
    "register_codec",
    "scratch",
]

#: Imported because they register their codecs.
_BUILT_IN = (array_array, array_bytes, bytes_bytes, zstd)
