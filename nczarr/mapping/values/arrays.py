"""Choose the grid and the codecs of an array from the storage of a variable, and return the storage of an array.

The specification is ``docs/spec/nczarr-v3-storage.md``, *Storage hints*. Codecs of the storage are kept as they are;
the filters of a variable without codecs are translated by :mod:`nczarr.compression`.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from math import prod

from nczarr.compression import (
    CHECKSUMS,
    CHOICES,
    SERIALIZERS,
    NamedConfig,
    codecs_for,
    complete,
    named_on_v3,
)
from nczarr.errors import MetadataError
from nczarr.mapping.options import ON_V3, WriteOptions
from nczarr.mapping.values.encodings import Encoding
from nczarr.model import Filter, Storage
from nczarr.model.chunk_shapes import chunks_in_shards
from nczarr.zarr import ArrayMetadata, DataType, RegularGrid, inner_codecs
from nczarr.zarr.chunk_keys import ChunkKeyEncoding, parse_chunk_key_encoding
from nczarr.zarr.codecs.base import ChunkSpec, requested_codecs
from nczarr.zarr.codecs.chain import completed_chain
from nczarr.zarr.metadata import parse_named_config

#: Chunk keys of Zarr before version 3.
V2_KEYS = ChunkKeyEncoding("v2", ".")
#: Chunk keys by the option `chunk_keys`.
_CHUNK_KEYS = {"default": ChunkKeyEncoding(), "v2": V2_KEYS}
#: The settings of shards besides their chunks, where nczarr chooses them.
#: Bytes of a chunk in a shard from which compression gains more than the 16 bytes of blosc's header.
_SMALLEST_IN_SHARDS = 128
_SHARD_INDEX = NamedConfig(
    "sharding_indexed",
    {
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
        "index_location": "start",
    },
)
#: The form of the chunk keys in a copy; earlier versions of Zarr have no other choice than v2's separator.
_KEEP_KEYS = frozenset({"v3", "v2"})


def grid_and_codecs(
    storage: Storage, default: tuple[int, ...], encoding: Encoding, options: WriteOptions
) -> tuple[RegularGrid, tuple[NamedConfig, ...]]:
    """Return the grid and the codecs of the array of a variable, both with inner dimensions.

    Parameters
    ----------
    default : tuple of int
        The chunk shape for a storage without one. Shards of other lengths get the nearest chunk shape that they can
        contain: it may be that of a netCDF source.

    Raises
    ------
    CodecError
        A codec of the storage is unknown, misconfigured, or unsuitable for the data type.

    Examples
    --------
    >>> from nczarr.mapping.values.encodings import encoding_for_writing
    >>> from nczarr.model import INT
    >>> storage = Storage(shard_shape=(100,), array_chunks=(10,))
    >>> grid, codecs = grid_and_codecs(storage, (5,), encoding_for_writing(INT), WriteOptions())
    >>> grid.chunk_shape, codecs[0].name, codecs[0].configuration["chunk_shape"]
    ((100,), 'sharding_indexed', [10])
    """
    shards = storage.shard_shape if options.layout in ON_V3 else None
    chunks = storage.array_chunks or storage.chunk_shape or default
    # Zarr requires shards of whole inner chunks.
    if shards:
        chunks = chunks_in_shards(shards, chunks)
    codecs = codecs_of(storage, encoding, options, chunks, in_shards=bool(shards))
    if shards:
        index = {**_SHARD_INDEX.configuration, **(storage.shard_index or _SHARD_INDEX).configuration}
        inside = {
            "chunk_shape": list(chunks + encoding.inner_shape),
            "codecs": [codec.to_json() for codec in codecs],
        }
        codecs = (NamedConfig("sharding_indexed", inside | index),)
    return RegularGrid((shards or chunks) + encoding.inner_shape), codecs


def codecs_of(
    storage: Storage,
    encoding: Encoding,
    options: WriteOptions,
    chunks: tuple[int, ...],
    *,
    in_shards: bool = False,
) -> tuple[NamedConfig, ...]:
    """Return the codecs of chunks, from array to stored bytes.

    Parameters
    ----------
    chunks : tuple of int
        The shape of a chunk, also of one in a shard, without inner dimensions. A variable without dimensions has
        ``()``; its single value is compressed on request only.

    Examples
    --------
    >>> from nczarr.mapping.values.encodings import encoding_for_writing
    >>> from nczarr.model import INT
    >>> s = Storage(filters=(Filter(2), Filter(1, (4,))), endian="big")
    >>> [c.name for c in codecs_of(s, encoding_for_writing(INT), WriteOptions(), (100,))]
    ['bytes', 'blosc']
    """
    data_type, asked = encoding.data_type, storage.codecs
    itemsize = 1 if data_type.is_variable else data_type.dtype.itemsize
    choice = options.compression
    if asked is None and choice in CHOICES:
        nbytes = prod(chunks + encoding.inner_shape) * itemsize if chunks else 0
        # Many small chunks in a large shard are worth compressing down to those that the compressor's header doubles.
        is_large = in_shards and nbytes >= _SMALLEST_IN_SHARDS
        large = None if (data_type.is_variable and chunks) or is_large else nbytes
        asked = codecs_for(storage.filters, choice, itemsize, large)
    elif asked is None:
        checksum = codecs_for([f for f in storage.filters if f.id == f.FLETCHER32], "source", itemsize, 0)
        asked = (*(requested_codecs(choice) if chunks else ()), *checksum)
    # A second checksum of one chunk tells no more.
    if options.checksum and not (asked and asked[-1].name in CHECKSUMS):
        asked = (*asked, NamedConfig("crc32c"))
    serializer = _serializer(encoding, storage, asked)
    if storage.codecs is None and choice in CHOICES:
        return (serializer, *asked)
    spec = ChunkSpec(chunks + encoding.inner_shape, data_type.dtype, data_type.zero())
    return completed_chain(asked, spec, serializer)


def _serializer(encoding: Encoding, storage: Storage, asked: tuple[NamedConfig, ...]) -> NamedConfig:
    """Return the codec from array to bytes for a data type, in the byte order of the storage or of its codecs."""
    data_type = encoding.data_type
    if data_type.is_variable:
        return NamedConfig("vlen-utf8" if data_type.name == "string" else "vlen-bytes")
    if not data_type.needs_endian:
        return NamedConfig("bytes")
    endian = next((c.configuration.get("endian") for c in asked if c.name in SERIALIZERS), None)
    if endian not in ("little", "big"):
        is_big = storage.endian == "big" and encoding.type.value_type.is_atomic
        endian = "big" if is_big else "little"
    return NamedConfig("bytes", {"endian": endian})


def chunk_keys(storage: Storage, options: WriteOptions) -> ChunkKeyEncoding:
    """Return the encoding of chunk keys: the requested one, or that of the storage."""
    kept = storage.chunk_keys
    if options.chunk_keys is not None or kept is None:
        return _CHUNK_KEYS[options.chunk_keys or "default"]
    return parse_chunk_key_encoding(kept.name, kept.configuration)


def array_storage(
    metadata: ArrayMetadata,
    ndim: int,
    zarr_layout: str,
    *,
    layout: str | None = None,
    chunk_shape: tuple[int, ...] | None = None,
    filters: tuple[Filter, ...] = (),
    endian: str = "native",
    no_fill: bool = False,
    data_type: str | None = None,
) -> Storage:
    """Return how an array stores the values of a variable with `ndim` dimensions, so that a copy can do the same.

    The keywords are the hints that netCDF records beside it: to put them into a finished storage took a twentieth of
    the opening of many variables.

    Examples
    --------
    >>> from nczarr.zarr import data_type_for
    >>> array = ArrayMetadata((9,), data_type_for("int8"), RegularGrid((3,)), codecs=(NamedConfig("bytes"),))
    >>> array_storage(array, 1, "v3").array_chunks
    (3,)
    """
    chunks, shards = metadata.shapes
    codecs: tuple[NamedConfig, ...] | None = metadata.codecs
    index = None
    if shards:
        codecs, sharding = None, metadata.codecs[0].configuration
        index = NamedConfig(
            "sharding_indexed",
            {
                "index_codecs": sharding.get("index_codecs", _SHARD_INDEX.configuration["index_codecs"]),
                "index_location": sharding.get("index_location", "end"),
            },
        )
        with suppress(MetadataError):  # reading the values reports it
            codecs = inner_codecs(metadata.codecs[0])
    elif zarr_layout != "v3":
        codecs = tuple(complete(named_on_v3(c), _itemsize(metadata.data_type)) for c in metadata.codecs)
    keys = _named_keys(metadata.chunk_key_encoding) if zarr_layout in _KEEP_KEYS else None
    return Storage(
        layout=layout,
        chunk_shape=chunk_shape,
        filters=filters,
        endian=endian,
        no_fill=no_fill,
        shard_shape=shards and shards[:ndim],
        codecs=codecs,
        array_chunks=chunks[:ndim] or None,
        shard_index=index,
        chunk_keys=keys,
        data_type=data_type,
    )


@lru_cache(maxsize=64)
def _named_keys(encoding: ChunkKeyEncoding) -> NamedConfig:
    return parse_named_config(encoding.to_json(), "chunk_key_encoding")


def _itemsize(data_type: DataType) -> int:
    return 1 if data_type.is_variable else data_type.dtype.itemsize
