"""Turn netCDF's storage, chunks and filters, into Zarr's grid and codecs, and back.

The specification is ``docs/spec/nczarr-v3.md``, *Chunks* and *Filters*.

The filter list of a variable is recorded as it is. What the chunks are really encoded with is chosen here, from
codecs that every Zarr v3 reader has:

====================  =========================================================================
filters               codecs
====================  =========================================================================
none                  ``blosc`` (zstd, shuffle); none if compression is not wanted, or for a small chunk
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

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from nczarr.errors import MetadataError, UnsupportedError
from nczarr.filters import (
    BLOSC_COMPRESSORS,
    BLOSC_SHUFFLES,
    BY_CODEC,
    ENCODED,
    FILTERS,
    blosc_parameters,
    level_of,
)
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.values.encodings import Encoding
from nczarr.model import EnumType, Filter, PrimitiveType, Storage
from nczarr.zarr import NamedConfig, RegularGrid, inner_codecs

#: blosc counts the bytes of an element in one byte.
_BLOSC_MAX_TYPESIZE = 255
_DEFAULT_CLEVEL = 3
_NO_COMPRESSORS = (Filter.SHUFFLE, Filter.FLETCHER32)
#: Copies: three times as fast as level 3, a few percent larger.
_COPY_CLEVEL = 1
#: Chunks of no more bytes are compressed only if that is asked for: to decode them takes longer than to read them, and
#: on a disk, whose blocks are larger, they need no less room.
_SMALL_CHUNK = 1 << 10


def stored_form(
    fqn: str, storage: Storage, chunks: tuple[int, ...], encoding: Encoding, options: WriteOptions
) -> tuple[RegularGrid, tuple[NamedConfig, ...]]:
    """Return the grid and the codecs of the array of a variable; inner dimensions are added to both.

    Parameters
    ----------
    chunks : tuple of int
        The chunk shape where `options` say nothing of this variable.

    Raises
    ------
    UnsupportedError
        If the shards do not hold whole chunks.

    Examples
    --------
    >>> from nczarr.mapping.options import ArrayShape
    >>> from nczarr.mapping.values.encodings import encoding_for_writing
    >>> from nczarr.model import INT
    >>> options = WriteOptions(arrays={"/v": ArrayShape((10,), (100,))})
    >>> grid, codecs = stored_form("/v", Storage(), (5,), encoding_for_writing(INT), options)
    >>> grid.chunk_shape, codecs[0].name, codecs[0].configuration["chunk_shape"]
    ((100,), 'sharding_indexed', [10])
    """
    shape = options.arrays.get(fqn)
    if shape is not None and shape.chunks is not None:
        chunks = shape.chunks
    if shape is not None and shape.codecs is not None and shape.data_type == encoding.data_type:
        codecs = shape.codecs
    else:
        stored = chunks if shape is None or shape.shards is None else shape.shards
        codecs = codecs_for(storage, encoding, options, stored)
    inner = encoding.inner_shape
    if shape is None or shape.shards is None or not chunks:
        return RegularGrid(chunks + inner), codecs
    if len(shape.shards) != len(chunks) or any(s % c for s, c in zip(shape.shards, chunks, strict=True)):
        raise UnsupportedError(f"shards of {shape.shards} do not hold whole chunks of {chunks}", fqn=fqn)
    sharding = NamedConfig(
        "sharding_indexed",
        {
            "chunk_shape": list(chunks + inner),
            "codecs": [codec.to_json() for codec in codecs],
            "index_codecs": [
                NamedConfig("bytes", {"endian": "little"}).to_json(),
                NamedConfig("crc32c").to_json(),
            ],
            "index_location": "end",
        },
    )
    return RegularGrid(shape.shards + inner), (sharding,)


def codecs_for(
    storage: Storage, encoding: Encoding, options: WriteOptions, chunks: tuple[int, ...]
) -> tuple[NamedConfig, ...]:
    """Return the codecs of an array, from array to stored bytes.

    `chunks` is the shape of what is stored under one key, without inner dimensions; ``()`` for a variable without
    dimensions, of which the one value is not worth a compressor.

    Examples
    --------
    >>> from nczarr.mapping.values.encodings import encoding_for_writing
    >>> from nczarr.model import INT
    >>> s = Storage(filters=(Filter(2), Filter(1, (4,))), endian="big")
    >>> [c.name for c in codecs_for(s, encoding_for_writing(INT), WriteOptions(), (100,))]
    ['bytes', 'blosc']
    """
    data_type = encoding.data_type
    if data_type.name == "string":
        first = NamedConfig("vlen-utf8")
    elif data_type.is_variable:
        first = NamedConfig("vlen-bytes")
    elif data_type.needs_endian:
        number = isinstance(encoding.type, PrimitiveType | EnumType)
        first = NamedConfig("bytes", {"endian": "big" if storage.endian == "big" and number else "little"})
    else:
        first = NamedConfig("bytes")
    itemsize = 1 if data_type.is_variable else data_type.dtype.itemsize
    scalar = not chunks
    small = not data_type.is_variable and prod(chunks + encoding.inner_shape) * itemsize <= _SMALL_CHUNK
    rest: list[NamedConfig] | None = None
    if options.compression == "source":
        make = _portable if options.codecs == "portable" else _numcodecs
        rest = make(storage.filters, itemsize)
    elif options.compression != "default":
        rest = [] if scalar else parse_compression(options.compression, itemsize)
        if options.layout == "nczarr-v2":
            # netCDF-C has no gzip, which is zlib with another header.
            rest = [replace(c, name="numcodecs.zlib") if c.name == "gzip" else c for c in rest]
        rest += [_checksum(options)] if _has_checksum(storage) else []
    if rest is None:
        level = _COPY_CLEVEL if options.compression == "default" else _DEFAULT_CLEVEL
        wanted = options.compress or any(f.id not in _NO_COMPRESSORS for f in storage.filters)
        rest = [] if scalar or small or not wanted else [_blosc("zstd", level, itemsize)]
        rest += [_checksum(options)] if _has_checksum(storage) else []
    if options.checksum and rest[-1:] != [_checksum(options)]:
        rest.append(_checksum(options))
    return (first, *rest)


def _checksum(options: WriteOptions) -> NamedConfig:
    """The codec that puts a checksum to a chunk; netCDF-C knows HDF5's only."""
    return NamedConfig("numcodecs.fletcher32" if options.layout == "nczarr-v2" else "crc32c")


def _has_checksum(storage: Storage) -> bool:
    return any(f.id == Filter.FLETCHER32 for f in storage.filters)


def parse_compression(text: str, itemsize: int) -> list[NamedConfig]:
    """Return the codecs that a word of the command line asks for.

    Raises
    ------
    UnsupportedError
        If it is not one of ``zstd``, ``gzip``, ``blosc:zstd`` …, each with a level or without, or ``none``.

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
    bounds = {"zstd": (-131072, 22, 3), "gzip": (0, 9, 6), "blosc": (0, 9, 5), "none": (0, 0, 0)}.get(name)
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
        low, high = 1, 0
    if not low <= level <= high:
        raise UnsupportedError(
            f"compression {text!r}: the level of {name} is from {bounds[0]} to {bounds[1]}"
        )
    if name == "none":
        return []
    if name == "blosc":
        return [_blosc(cname, level, itemsize)]
    return [NamedConfig(name, {"level": level, "checksum": False} if name == "zstd" else {"level": level})]


def codecs_of_filters(filters: Sequence[Filter], itemsize: int) -> list[NamedConfig] | None:
    """Return the codecs that decode the very bytes of filtered HDF5 chunks; None if there are none.

    Examples
    --------
    >>> [c.name for c in codecs_of_filters([Filter(2), Filter(1, (4,))], 4)], codecs_of_filters([Filter(4)], 4)
    (['numcodecs.shuffle', 'numcodecs.zlib'], None)
    """
    return (_numcodecs(filters, itemsize) or []) if {f.id for f in filters} <= ENCODED else None


def _blosc(cname: str, clevel: int, itemsize: int, shuffle: str | None = None) -> NamedConfig:
    typesize = itemsize if itemsize <= _BLOSC_MAX_TYPESIZE else 1
    if shuffle is None:
        shuffle = "shuffle" if typesize > 1 else "noshuffle"
    return NamedConfig(
        "blosc",
        {"cname": cname, "clevel": clevel, "shuffle": shuffle, "typesize": typesize, "blocksize": 0},
    )


def _blosc_filter(f: Filter, itemsize: int) -> NamedConfig:
    level, shuffle, number = blosc_parameters(f.parameters)[4:7]
    cname = BLOSC_COMPRESSORS[number] if number < len(BLOSC_COMPRESSORS) else "zstd"
    kind = BLOSC_SHUFFLES[shuffle] if shuffle < len(BLOSC_SHUFFLES) else "shuffle"
    # The blosc library has no snappy any more.
    return _blosc("lz4" if cname == "snappy" else cname, min(level, 9), itemsize, kind)


def _portable(filters: Sequence[Filter], itemsize: int) -> list[NamedConfig] | None:
    ids = {f.id for f in filters}
    shuffle = Filter.SHUFFLE in ids and 1 < itemsize <= _BLOSC_MAX_TYPESIZE
    for f in filters:
        if f.id == Filter.DEFLATE:
            level = level_of(f.id, f.parameters)
            codec = _blosc("zlib", level, itemsize) if shuffle else NamedConfig("gzip", {"level": level})
        elif f.id == Filter.ZSTD:
            level = level_of(f.id, f.parameters)
            # blosc's levels 1 to 9 stand for zstd's 1, 3, 5, …, 22.
            blosc_level = max(1, min((level + 1) // 2, 9))
            codec = (
                _blosc("zstd", blosc_level, itemsize)
                if shuffle
                else NamedConfig("zstd", {"level": level, "checksum": False})
            )
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
        elif f.id in ENCODED:
            checksum = {"checksum": False} if f.id == Filter.ZSTD else {}
            level = level_of(f.id, f.parameters)
            codecs.append(NamedConfig(FILTERS[f.id].codecs[0], {"level": level, **checksum}))
    return codecs or None


def filters_of(codecs: Sequence[NamedConfig]) -> tuple[Filter, ...]:
    """Return the netCDF filters that say most nearly what the codecs of plain Zarr do.

    Examples
    --------
    >>> filters_of([NamedConfig("bytes"), NamedConfig("gzip", {"level": 5})])
    (Filter(id=1, parameters=(5,)),)
    """
    filters: list[Filter] = []
    for codec in codecs:
        name, c = codec.name, codec.configuration
        if name == "sharding_indexed":
            try:
                return filters_of(inner_codecs(codec))
            except MetadataError:  # reading the values reports it
                return ()
        kind = BY_CODEC.get(name)
        if kind is None:
            continue
        if kind.number == Filter.BLOSC:
            filters.extend(_from_blosc(c))
        elif kind.number in (Filter.SHUFFLE, Filter.FLETCHER32):
            filters.append(Filter(kind.number))
        else:
            filters.append(Filter(kind.number, (_int(c.get("level"), kind.levels[2]) & 0xFFFFFFFF,)))
    return tuple(filters)


def _from_blosc(c: Any) -> list[Filter]:
    cname, shuffle, level = c.get("cname"), c.get("shuffle"), _int(c.get("clevel"), 5)
    if cname == "zlib" and shuffle in ("shuffle", "noshuffle", 0, 1):
        before = [Filter(Filter.SHUFFLE)] if shuffle in ("shuffle", 1) else []
        return [*before, Filter(Filter.DEFLATE, (level,))]
    if cname == "zstd" and shuffle in ("shuffle", "noshuffle", 0, 1):
        before = [Filter(Filter.SHUFFLE)] if shuffle in ("shuffle", 1) else []
        zstd = 22 if level >= 9 else max(1, 2 * level - 1)
        return [*before, Filter(Filter.ZSTD, (zstd,))]
    number = BLOSC_COMPRESSORS.index(cname) if cname in BLOSC_COMPRESSORS else 5
    kind = BLOSC_SHUFFLES.index(shuffle) if shuffle in BLOSC_SHUFFLES else 1
    size, block = _int(c.get("typesize"), 1), _int(c.get("blocksize"), 0)
    return [Filter(Filter.BLOSC, (2, 2, size, block, level, kind, number))]


def _int(value: Any, default: int) -> int:
    return value if type(value) is int else default
