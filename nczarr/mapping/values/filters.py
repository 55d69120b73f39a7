"""Choose the grid and the codecs of an array from netCDF's chunks and filters, and convert codecs back to filters.

The specification is ``docs/spec/nczarr-v3-storage.md``, *Storage hints*. The filter list of a variable is recorded
unchanged. The chunks are encoded with codecs that every Zarr v3 reader has:

====================  =========================================================================
filters               codecs
====================  =========================================================================
none                  ``blosc`` (zstd, shuffle); none for a small chunk, or without compression
deflate               ``gzip``
shuffle, deflate      ``blosc`` (zlib, shuffle)
zstd                  ``zstd``
shuffle, zstd         ``blosc`` (zstd, shuffle)
blosc                 ``blosc`` with the same parameters
fletcher32            ``crc32c``, after the others (in NCZarr v2 ``fletcher32``, which netCDF-C reads)
others                ``blosc`` (zstd, shuffle), except a lone shuffle and small chunks: as for none
====================  =========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from nczarr import filters as table
from nczarr.errors import MetadataError, UnsupportedError
from nczarr.mapping.options import ON_V3, WriteOptions
from nczarr.mapping.values.encodings import Encoding
from nczarr.model import EnumType, Filter, PrimitiveType, Storage
from nczarr.model.chunk_shapes import chunks_in_shards
from nczarr.zarr import NamedConfig, RegularGrid, inner_codecs

#: blosc stores the size of an element in one byte.
_BLOSC_MAX_TYPESIZE = 255
_DEFAULT_CLEVEL = 3
_NO_COMPRESSORS = (Filter.SHUFFLE, Filter.FLETCHER32)
#: For copies: three times as fast as level 3, a few percent larger.
_COPY_CLEVEL = 1
#: Chunks of at most this many bytes are compressed on request only: decoding them takes longer than reading them, and
#: on a disk, whose blocks are larger, compression saves nothing.
_SMALL_CHUNK = 1 << 10
#: Lowest, highest and default level by the name of the codec.
_LEVELS = {"zstd": (-131072, 22, 3), "gzip": (0, 9, 6), "blosc": (0, 9, 5), "none": (0, 0, 0)}


def stored_form(
    fqn: str, storage: Storage, chunks: tuple[int, ...], encoding: Encoding, options: WriteOptions
) -> tuple[RegularGrid, tuple[NamedConfig, ...]]:
    """Return the grid and the codecs of the array of a variable, both with inner dimensions.

    Parameters
    ----------
    chunks : tuple of int
        The chunk shape, unless `options` define one for this variable. Shards of other lengths get the nearest chunk
        shape that they can contain: it may be that of a netCDF source.

    Examples
    --------
    >>> from nczarr.mapping.options import ArrayShape
    >>> from nczarr.mapping.values.encodings import encoding_for_writing
    >>> from nczarr.model import INT
    >>> options = WriteOptions(arrays={"/v": ArrayShape((10,))})
    >>> storage = Storage(shard_shape=(100,))
    >>> grid, codecs = stored_form("/v", storage, (5,), encoding_for_writing(INT), options)
    >>> grid.chunk_shape, codecs[0].name, codecs[0].configuration["chunk_shape"]
    ((100,), 'sharding_indexed', [10])
    """
    shape = options.arrays.get(fqn)
    shards = storage.shard_shape if options.layout in ON_V3 else None
    if shape is not None and shape.chunks is not None:
        chunks = shape.chunks
    if shape is not None and shape.compression is not None:
        own = shape.compression
        options = replace(options, compression=own, compress=options.compress and own != "source")
    if shards:
        chunks = chunks_in_shards(shards, chunks)
    if shape is not None and shape.codecs is not None and shape.data_type == encoding.data_type:
        codecs = shape.codecs
    else:
        codecs = codecs_for(storage, encoding, options, chunks if shards is None else shards)
    if shards and codecs[0].name != "sharding_indexed":
        index_codecs = [NamedConfig("bytes", {"endian": "little"}), NamedConfig("crc32c")]
        configuration = {
            "chunk_shape": list(chunks + encoding.inner_shape),
            "codecs": [codec.to_json() for codec in codecs],
            "index_codecs": [codec.to_json() for codec in index_codecs],
            "index_location": "start",
        }
        codecs = (NamedConfig("sharding_indexed", configuration),)
    return RegularGrid((shards or chunks) + encoding.inner_shape), codecs


def codecs_for(
    storage: Storage, encoding: Encoding, options: WriteOptions, chunks: tuple[int, ...]
) -> tuple[NamedConfig, ...]:
    """Return the codecs of an array, from array to stored bytes.

    `chunks` is the shape of the data under one key, without inner dimensions. A variable without dimensions has
    ``()``; its single value is not compressed.

    Examples
    --------
    >>> from nczarr.mapping.values.encodings import encoding_for_writing
    >>> from nczarr.model import INT
    >>> s = Storage(filters=(Filter(2), Filter(1, (4,))), endian="big")
    >>> [c.name for c in codecs_for(s, encoding_for_writing(INT), WriteOptions(), (100,))]
    ['bytes', 'blosc']
    """
    data_type = encoding.data_type
    itemsize = 1 if data_type.is_variable else data_type.dtype.itemsize
    small = not data_type.is_variable and prod(chunks + encoding.inner_shape) * itemsize <= _SMALL_CHUNK
    checksum = NamedConfig("numcodecs.fletcher32" if options.layout == "nczarr-v2" else "crc32c")
    ids = {f.id for f in storage.filters}
    own_checksum = [checksum] if Filter.FLETCHER32 in ids else []
    rest: list[NamedConfig] | None = None
    if options.compression == "source":
        rest = (_portable if options.codecs == "portable" else _numcodecs)(storage.filters, itemsize)
    elif options.compression != "default":
        rest = parse_compression(options.compression, itemsize) if chunks else []
        if options.layout == "nczarr-v2":
            # netCDF-C does not have gzip, which is zlib with another header.
            rest = [replace(c, name="numcodecs.zlib") if c.name == "gzip" else c for c in rest]
        rest += own_checksum
    if rest is None:
        level = _COPY_CLEVEL if options.compression == "default" else _DEFAULT_CLEVEL
        compress = options.compress or not ids <= set(_NO_COMPRESSORS)
        rest = [_blosc("zstd", level, itemsize)] if chunks and not small and compress else []
        rest += own_checksum
    if options.checksum and rest[-1:] != [checksum]:
        rest.append(checksum)
    serializer = NamedConfig("bytes")
    if data_type.is_variable:
        serializer = NamedConfig("vlen-utf8" if data_type.name == "string" else "vlen-bytes")
    elif data_type.needs_endian:
        is_big = storage.endian == "big" and isinstance(encoding.type, PrimitiveType | EnumType)
        serializer = NamedConfig("bytes", {"endian": "big" if is_big else "little"})
    return (serializer, *rest)


def parse_compression(text: str, itemsize: int) -> list[NamedConfig]:
    """Return the codecs of the option `compression`.

    Raises
    ------
    UnsupportedError
        The text is not one of ``zstd``, ``gzip``, ``blosc:zstd`` …, with or without a level, or ``none``.

    Examples
    --------
    >>> parse_compression("gzip:6", 4)[0].configuration["level"], parse_compression("none", 4)
    (6, [])
    >>> parse_compression("blosc:lz4:5", 4)[0].configuration["cname"]
    'lz4'
    """
    name, *rest = text.split(":")
    cname = ""
    if name == "blosc":
        cname = rest.pop(0) if rest and not rest[0].isdecimal() else "zstd"
    bounds = _LEVELS.get(name)
    known = not cname or cname in ("zstd", "lz4", "lz4hc", "blosclz", "zlib")
    if bounds is None or not known or len(rest) > (name != "none"):
        raise UnsupportedError(
            f"there is no compression {text!r}",
            hint="zstd:3, gzip:6, blosc:zstd:5, blosc:lz4:5, none, source, or default",
        )
    low, high, level = bounds
    try:
        level = int(rest[0]) if rest else level
    except ValueError:
        level = high + 1
    if not low <= level <= high:
        raise UnsupportedError(f"compression {text!r}: the level of {name} is from {low} to {high}")
    if name == "none":
        return []
    if name == "blosc":
        return [_blosc(cname, level, itemsize)]
    return [_zstd(level) if name == "zstd" else NamedConfig(name, {"level": level})]


def codecs_of_filters(filters: Sequence[Filter], itemsize: int) -> list[NamedConfig] | None:
    """Return the codecs that decode the bytes of filtered HDF5 chunks; None if there are none.

    Examples
    --------
    >>> [c.name for c in codecs_of_filters([Filter(2), Filter(1, (4,))], 4)], codecs_of_filters([Filter(4)], 4)
    (['numcodecs.shuffle', 'numcodecs.zlib'], None)
    """
    return (_numcodecs(filters, itemsize) or []) if {f.id for f in filters} <= table.ENCODED else None


def _zstd(level: int) -> NamedConfig:
    return NamedConfig("zstd", {"level": level, "checksum": False})


def _blosc(cname: str, clevel: int, itemsize: int, shuffle: str | None = None) -> NamedConfig:
    typesize = itemsize if itemsize <= _BLOSC_MAX_TYPESIZE else 1
    if shuffle is None:
        shuffle = "shuffle" if typesize > 1 else "noshuffle"
    return NamedConfig(
        "blosc",
        {"cname": cname, "clevel": clevel, "shuffle": shuffle, "typesize": typesize, "blocksize": 0},
    )


def _blosc_filter(f: Filter, itemsize: int) -> NamedConfig:
    level, shuffle, number = table.blosc_parameters(f.parameters)[4:7]
    cname = dict(enumerate(table.BLOSC_COMPRESSORS)).get(number, "zstd")
    kind = dict(enumerate(table.BLOSC_SHUFFLES)).get(shuffle, "shuffle")
    # snappy was removed from the blosc library.
    return _blosc("lz4" if cname == "snappy" else cname, min(level, 9), itemsize, kind)


def _portable(filters: Sequence[Filter], itemsize: int) -> list[NamedConfig] | None:
    ids = {f.id for f in filters}
    shuffle = Filter.SHUFFLE in ids and 1 < itemsize <= _BLOSC_MAX_TYPESIZE
    for f in filters:
        if f.id == Filter.DEFLATE:
            level = table.level_of(f.id, f.parameters)
            codec = _blosc("zlib", level, itemsize) if shuffle else NamedConfig("gzip", {"level": level})
        elif f.id == Filter.ZSTD:
            level = table.level_of(f.id, f.parameters)
            # blosc's levels 1 to 9 stand for zstd's 1, 3, 5, …, 22.
            codec = _blosc("zstd", max(1, min((level + 1) // 2, 9)), itemsize) if shuffle else _zstd(level)
        elif f.id == Filter.BLOSC:
            codec = _blosc_filter(f, itemsize)
        else:
            continue
        return [codec, NamedConfig("crc32c")] if Filter.FLETCHER32 in ids else [codec]
    return None


def _numcodecs(filters: Sequence[Filter], itemsize: int) -> list[NamedConfig] | None:
    codecs = []
    for f in filters:
        if f.id == Filter.SHUFFLE:
            codecs.append(NamedConfig("numcodecs.shuffle", {"elementsize": itemsize}))
        elif f.id == Filter.FLETCHER32:
            codecs.append(NamedConfig("numcodecs.fletcher32", {}))
        elif f.id == Filter.BLOSC:
            codecs.append(_blosc_filter(f, itemsize))
        elif f.id in table.ENCODED:
            level, name = table.level_of(f.id, f.parameters), table.FILTERS[f.id].codecs[0]
            codecs.append(_zstd(level) if f.id == Filter.ZSTD else NamedConfig(name, {"level": level}))
    return codecs or None


def filters_of(codecs: Sequence[NamedConfig]) -> tuple[Filter, ...]:
    """Return the netCDF filters that are most similar to the codecs of plain Zarr.

    Examples
    --------
    >>> filters_of([NamedConfig("bytes"), NamedConfig("gzip", {"level": 5})])
    (Filter(id=1, parameters=(5,)),)
    """
    filters: list[Filter] = []
    for codec in codecs:
        name = codec.name
        if name == "sharding_indexed":
            try:
                return filters_of(inner_codecs(codec))
            except MetadataError:  # reading the values reports it
                return ()
        kind = table.BY_CODEC.get(name)
        if kind is None:
            continue
        if kind.number == Filter.BLOSC:
            filters.extend(_from_blosc(codec.configuration))
        elif kind.number in (Filter.SHUFFLE, Filter.FLETCHER32):
            filters.append(Filter(kind.number))
        else:
            level = _int(codec.configuration.get("level"), kind.levels[2])
            filters.append(Filter(kind.number, (level & 0xFFFFFFFF,)))
    return tuple(filters)


def _from_blosc(c: Mapping[str, object]) -> list[Filter]:
    cname, shuffle, level = c.get("cname"), c.get("shuffle"), _int(c.get("clevel"), 5)
    if cname in ("zlib", "zstd") and shuffle in ("shuffle", "noshuffle", 0, 1):
        before = [Filter(Filter.SHUFFLE)] if shuffle in ("shuffle", 1) else []
        if cname == "zlib":
            return [*before, Filter(Filter.DEFLATE, (level,))]
        return [*before, Filter(Filter.ZSTD, (22 if level >= 9 else max(1, 2 * level - 1),))]
    number = table.BLOSC_COMPRESSORS.index(cname) if cname in table.BLOSC_COMPRESSORS else 5
    kind = table.BLOSC_SHUFFLES.index(shuffle) if shuffle in table.BLOSC_SHUFFLES else 1
    size, block = _int(c.get("typesize"), 1), _int(c.get("blocksize"), 0)
    return [Filter(Filter.BLOSC, (2, 2, size, block, level, kind, number))]


def _int(value: object, default: int) -> int:
    return value if type(value) is int else default
