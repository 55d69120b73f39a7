"""Convert compression between its forms: Zarr's codecs, HDF5's filters, words of users, keywords and CDL attributes.

A variable has Zarr's codecs as they are stored or requested, and beside them the filters that netCDF records. One table
names every filter of HDF5 in each of these forms. The specification is ``docs/spec/nczarr-v3-storage.md``, *Storage
hints*. Variables without codecs get codecs for their filters, which every Zarr v3 reader has:

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

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard

from nczarr.dataclass import dataclass
from nczarr.errors import UnsupportedError


class FilterKind(NamedTuple):
    """A filter of HDF5.

    Attributes
    ----------
    number : int
        Its number in HDF5's registry.
    name : str
        Its name in messages and listings.
    keyword : str
        Its name in ``createVariable`` and in netCDF4-python's ``filters``.
    codecs : tuple of str
        The Zarr codecs that do the same. The first one decodes the chunks of an HDF5 file.
    special : str
        Its special attribute in CDL; others are in ``_Filter``.
    levels : tuple of int
        The lowest level, the highest one, and the one that filters and codecs without a level have.
    """

    number: int
    name: str
    keyword: str = ""
    codecs: tuple[str, ...] = ()
    special: str = ""
    levels: tuple[int, int, int] = (0, 0, 0)


DEFLATE, SHUFFLE, FLETCHER32, SZIP, BZIP2, LZF, BLOSC, ZSTD = 1, 2, 3, 4, 307, 32000, 32001, 32015

_KINDS = (
    FilterKind(
        DEFLATE, "deflate", "zlib", ("numcodecs.zlib", "gzip", "numcodecs.gzip"), "_DeflateLevel", (0, 9, 1)
    ),
    FilterKind(SHUFFLE, "shuffle", "shuffle", ("numcodecs.shuffle",), "_Shuffle"),
    FilterKind(
        FLETCHER32, "fletcher32", "fletcher32", ("numcodecs.fletcher32", "crc32c", "numcodecs.crc32c"),
        "_Fletcher32",
    ),
    FilterKind(SZIP, "szip", "szip"),
    FilterKind(5, "nbit"),
    FilterKind(6, "scaleoffset"),
    FilterKind(BZIP2, "bzip2", "bzip2", ("numcodecs.bz2",), "", (1, 9, 9)),
    FilterKind(LZF, "lzf"),
    FilterKind(BLOSC, "blosc", "blosc", ("blosc", "numcodecs.blosc"), "", (0, 9, 5)),
    FilterKind(32004, "lz4"),
    FilterKind(32008, "bitshuffle"),
    FilterKind(32013, "zfp"),
    FilterKind(ZSTD, "zstd", "zstd", ("zstd", "numcodecs.zstd"), "", (-131072, 22, 3)),
    FilterKind(32017, "sz"),
    FilterKind(32026, "blosc2"),
)  # fmt: skip
#: The filters by number, and by each of their Zarr codecs.
FILTERS = {kind.number: kind for kind in _KINDS}
BY_CODEC = {codec: kind for kind in _KINDS for codec in kind.codecs}
#: Codecs that only detect damage.
CHECKSUMS = frozenset(FILTERS[FLETCHER32].codecs)
#: Filters that nczarr encodes and decodes.
ENCODED = frozenset(kind.number for kind in _KINDS if kind.codecs)
#: Filters of every HDF5 and netCDF library. All others are plugins.
BUILT_IN = frozenset({DEFLATE, SHUFFLE, FLETCHER32, SZIP})
#: Filters of strings and sequences. Their chunks contain references only: HDF5 refuses a checksum of these, and
#: the netCDF library refuses plugins.
OF_REFERENCES = frozenset({DEFLATE, SHUFFLE, SZIP})

#: Blosc's compressors and shuffles by their number.
BLOSC_COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
BLOSC_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
_BLOSC_DEFAULTS = (0, 0, 0, 0, 5, 1, 0)
#: blosc stores the size of an element in one byte.
_BLOSC_MAX_TYPESIZE = 255

#: Codecs that turn an array into bytes. The data type and the byte order of a variable choose them.
SERIALIZERS = frozenset({"bytes", "vlen-utf8", "vlen-bytes"})
#: Codecs of every reader of Zarr v3.
PORTABLE = SERIALIZERS | {"blosc", "gzip", "zstd", "crc32c"}
#: Codecs of numcodecs that are also codecs of Zarr v3, where zarr-python writes their own names.
_ON_V3 = {f"numcodecs.{name}": name for name in ("blosc", "gzip", "zstd", "vlen-utf8", "vlen-bytes")}
#: The settings that Zarr v3 requires, with zarr-python's defaults.
_SETTINGS: dict[str, dict[str, Any]] = {
    "blosc": {"cname": "zstd", "clevel": 5, "blocksize": 0},
    "gzip": {"level": 5},
    "zstd": {"level": 0, "checksum": False},
}

#: The words for choosing codecs by the filters of a variable; see :func:`codecs_for`.
CHOICES = ("auto", "source", "default", "numcodecs")
#: The compressors that users name by a word and a level, with their default levels.
_WORDS = {"zstd": 3, "gzip": 6, "blosc": 5}
HINT = "zstd:3, gzip:6, blosc:zstd:5, blosc:lz4:5, none, source, default, or a codec by its name or as JSON"
_DEFAULT_CLEVEL = 3
#: For copies: three times as fast as level 3, a few percent larger.
_COPY_CLEVEL = 1
#: Chunks of at most this many bytes are compressed on request only: decoding them takes longer than reading them, and
#: on a disk, whose blocks are larger, compression saves nothing.
_SMALL_CHUNK = 1 << 10


@dataclass(frozen=True)
class Filter:
    """One HDF5 filter of a variable.

    Parameters
    ----------
    id : int
        HDF5's registered filter ID: 1 deflate, 2 shuffle, 3 fletcher32, 4 szip, 307 bzip2, 32001 blosc, 32015 zstd.
    parameters : tuple of int
        The filter's unsigned integer parameters, without those that the HDF5 library adds (shuffle's element size).

    Examples
    --------
    >>> Filter(Filter.DEFLATE, (5,)).parameters
    (5,)
    """

    id: int
    parameters: tuple[int, ...] = ()

    DEFLATE = DEFLATE
    SHUFFLE = SHUFFLE
    FLETCHER32 = FLETCHER32
    SZIP = SZIP
    BZIP2 = BZIP2
    BLOSC = BLOSC
    ZSTD = ZSTD


@dataclass(frozen=True)
class NamedConfig:
    """The name and configuration of a codec, storage transformer or extension in a document of Zarr.

    Parameters
    ----------
    name : str
    configuration : mapping
        JSON values; empty if the document has none.
    must_understand : bool
        False: a reader may ignore an unknown name.

    Examples
    --------
    >>> NamedConfig("gzip", {"level": 1}).to_json()
    {'name': 'gzip', 'configuration': {'level': 1}}
    >>> NamedConfig("crc32c").to_json()
    {'name': 'crc32c'}
    """

    name: str
    configuration: Mapping[str, Any] = field(default_factory=dict)
    must_understand: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the JSON for a v3 document."""
        result: dict[str, Any] = {"name": self.name}
        # zarr-python rejects its numcodecs names without a configuration, even an empty one.
        if self.configuration or self.name.startswith("numcodecs."):
            result["configuration"] = dict(self.configuration)
        if not self.must_understand:
            result["must_understand"] = False
        return result


class ZarrCodec(Protocol):
    """A codec of zarr-python."""

    def to_dict(self) -> Any: ...


class NumcodecsCodec(Protocol):
    """A codec of numcodecs."""

    def get_config(self) -> Any: ...


#: One codec in any form that a user may give: words, JSON, or an object.
AskedCodec: TypeAlias = str | NamedConfig | Mapping[str, Any] | ZarrCodec | NumcodecsCodec
#: One codec, or several that follow each other.
AskedCodecs: TypeAlias = AskedCodec | Sequence[AskedCodec]


# --- filters


def filter_name(number: int) -> str:
    """Return the name of a filter, or its number.

    Examples
    --------
    >>> filter_name(32015), filter_name(40000)
    ('zstd', '40000')
    """
    return FILTERS[number].name if number in FILTERS else str(number)


def level_of(number: int, parameters: Sequence[int]) -> int:
    """Return the level among the parameters of a compressor, limited to the levels that it has.

    Examples
    --------
    >>> level_of(DEFLATE, (12,)), level_of(ZSTD, ()), level_of(ZSTD, (0xFFFFFFFE,))
    (9, 3, -2)
    """
    low, high, default = FILTERS[number].levels
    return max(low, min(signed(parameters[0]) if parameters else default, high))


def signed(parameter: int) -> int:
    """Return a parameter as a signed number. HDF5 stores a negative level of zstd without its sign."""
    return parameter - (1 << 32) if parameter >> 31 else parameter


def blosc_parameters(parameters: Sequence[int]) -> tuple[int, ...]:
    """Return the parameters of blosc, completed by its defaults.

    They are two versions, the element size, the chunk size, the level, the shuffle and the compressor.

    Examples
    --------
    >>> blosc_parameters((2, 2, 4, 4000))
    (2, 2, 4, 4000, 5, 1, 0)
    """
    return (*parameters, *_BLOSC_DEFAULTS[len(parameters) :])


# --- filters to codecs


def codecs_for(
    filters: Sequence[Filter], choice: str, itemsize: int, nbytes: int | None
) -> tuple[NamedConfig, ...]:
    """Choose the codecs of a variable that has none, without the one that turns arrays into bytes.

    Parameters
    ----------
    choice : str
        ``auto`` follows the filters, and compresses variables without a compressor with blosc (zstd, shuffle);
        ``source`` does not compress them; ``default`` is a fast blosc (zstd, shuffle) for all; ``numcodecs`` follows
        the filters with codecs that keep the bytes of the netCDF file, and which only zarr-python reads.
    itemsize : int
        Bytes of a stored element; 1 for strings and sequences.
    nbytes : int or None
        Bytes of a chunk; None for strings and sequences. Blosc is not chosen for small chunks.

    Examples
    --------
    >>> [c.name for c in codecs_for([Filter(2), Filter(1, (4,)), Filter(3)], "auto", 4, 4000)]
    ['blosc', 'crc32c']
    >>> codecs_for([], "auto", 4, 1000), codecs_for([], "source", 4, 4000)
    ((), ())
    """
    ids = {f.id for f in filters}
    if choice == "numcodecs" and ids & ENCODED:
        return tuple(_exact(filters, itemsize))
    checksum = (NamedConfig("crc32c"),) if FLETCHER32 in ids else ()
    if choice in ("auto", "source") and (portable := _portable(filters, itemsize)):
        return (portable, *checksum)
    has_compressor = not ids <= {SHUFFLE, FLETCHER32}
    if (choice in ("source", "numcodecs") and not has_compressor) or (
        nbytes is not None and nbytes <= _SMALL_CHUNK
    ):
        return checksum
    return (_blosc("zstd", _COPY_CLEVEL if choice == "default" else _DEFAULT_CLEVEL, itemsize), *checksum)


def exact_codecs(filters: Sequence[Filter], itemsize: int) -> tuple[NamedConfig, ...] | None:
    """Return the codecs that decode the bytes of filtered HDF5 chunks; None if there are none.

    Examples
    --------
    >>> [c.name for c in exact_codecs([Filter(2), Filter(1, (4,))], 4)], exact_codecs([Filter(4)], 4)
    (['numcodecs.shuffle', 'numcodecs.zlib'], None)
    """
    return tuple(_exact(filters, itemsize)) if {f.id for f in filters} <= ENCODED else None


def _exact(filters: Sequence[Filter], itemsize: int) -> Iterable[NamedConfig]:
    for f in filters:
        if f.id == SHUFFLE:
            yield NamedConfig("numcodecs.shuffle", {"elementsize": itemsize})
        elif f.id == FLETCHER32:
            yield NamedConfig("numcodecs.fletcher32", {})
        elif f.id == BLOSC:
            yield _blosc_filter(f, itemsize)
        elif f.id in ENCODED:
            level, name = level_of(f.id, f.parameters), FILTERS[f.id].codecs[0]
            yield _zstd(level) if f.id == ZSTD else NamedConfig(name, {"level": level})


def _portable(filters: Sequence[Filter], itemsize: int) -> NamedConfig | None:
    """Return the codec of all readers for the compressor among filters; None without one."""
    shuffle = SHUFFLE in {f.id for f in filters} and 1 < itemsize <= _BLOSC_MAX_TYPESIZE
    for f in filters:
        if f.id == DEFLATE:
            level = level_of(f.id, f.parameters)
            return _blosc("zlib", level, itemsize) if shuffle else NamedConfig("gzip", {"level": level})
        if f.id == ZSTD:
            level = level_of(f.id, f.parameters)
            # blosc's levels 1 to 9 stand for zstd's 1, 3, 5, …, 22.
            return _blosc("zstd", max(1, min((level + 1) // 2, 9)), itemsize) if shuffle else _zstd(level)
        if f.id == BLOSC:
            return _blosc_filter(f, itemsize)
    return None


def _zstd(level: int) -> NamedConfig:
    return NamedConfig("zstd", {"level": level, "checksum": False})


def _blosc(cname: str, clevel: int, itemsize: int, shuffle: str | None = None) -> NamedConfig:
    asked = {"cname": cname, "clevel": clevel} | ({} if shuffle is None else {"shuffle": shuffle})
    return complete(NamedConfig("blosc", asked), itemsize)


def _blosc_filter(f: Filter, itemsize: int) -> NamedConfig:
    level, shuffle, number = blosc_parameters(f.parameters)[4:7]
    cname = dict(enumerate(BLOSC_COMPRESSORS)).get(number, "zstd")
    kind = dict(enumerate(BLOSC_SHUFFLES)).get(shuffle, "shuffle")
    # snappy was removed from the blosc library.
    return _blosc("lz4" if cname == "snappy" else cname, min(level, 9), itemsize, kind)


def complete(codec: NamedConfig, itemsize: int) -> NamedConfig:
    """Return a codec with the settings that Zarr v3 requires, for elements of a size.

    Examples
    --------
    >>> complete(NamedConfig("blosc", {"cname": "lz4", "shuffle": 2}), 8).configuration
    {'cname': 'lz4', 'clevel': 5, 'shuffle': 'bitshuffle', 'typesize': 8, 'blocksize': 0}
    >>> complete(NamedConfig("example.negate"), 8).configuration
    {}
    """
    defaults = _SETTINGS.get(codec.name)
    if defaults is None:
        return codec
    given = dict(codec.configuration)
    if codec.name == "blosc":
        typesize = given.get("typesize") or (itemsize if itemsize <= _BLOSC_MAX_TYPESIZE else 1)
        shuffle = given.get("shuffle")
        if shuffle is None:
            shuffle = "shuffle" if typesize > 1 else "noshuffle"
        elif type(shuffle) is int and -1 <= shuffle <= 2:  # Zarr v2; numcodecs chooses for -1
            shuffle = (
                BLOSC_SHUFFLES[shuffle] if shuffle >= 0 else ("shuffle" if itemsize > 1 else "bitshuffle")
            )
        given |= {"shuffle": shuffle, "typesize": typesize}
        order = ("cname", "clevel", "shuffle", "typesize", "blocksize")
        given = {key: (defaults | given)[key] for key in order} | given
        return NamedConfig(codec.name, given, codec.must_understand)
    return NamedConfig(codec.name, defaults | given, codec.must_understand)


def named_on_v3(codec: NamedConfig) -> NamedConfig:
    """Return a codec of Zarr v2, which has numcodecs' name, under the name that zarr-python writes on v3.

    Examples
    --------
    >>> named_on_v3(NamedConfig("numcodecs.gzip", {"level": 3})).name
    'gzip'
    >>> named_on_v3(NamedConfig("numcodecs.lz4")).name
    'numcodecs.lz4'
    """
    name = _ON_V3.get(codec.name)
    return codec if name is None else NamedConfig(name, codec.configuration, codec.must_understand)


# --- codecs to filters


class Filtered(NamedTuple):
    """The filters of HDF5 for codecs, and the names of the codecs for which HDF5 has none."""

    filters: tuple[Filter, ...]
    missing: tuple[str, ...]


def filters_for(codecs: Sequence[NamedConfig]) -> Filtered:
    """Return the netCDF filters that are most similar to codecs.

    Examples
    --------
    >>> filters_for([NamedConfig("numcodecs.delta"), NamedConfig("bytes"), NamedConfig("gzip", {"level": 5})])
    Filtered(filters=(Filter(id=1, parameters=(5,)),), missing=('numcodecs.delta',))
    """
    filters: list[Filter] = []
    missing: list[str] = []
    for codec in codecs:
        kind = BY_CODEC.get(codec.name)
        if (
            codec.name == "sharding_indexed"
        ):  # behind another codec; otherwise the storage has the codecs inside
            with suppress(UnsupportedError):  # reading the values reports it
                inside = filters_for(parse_codecs(codec.configuration.get("codecs", ())))
                filters += inside.filters
                missing += inside.missing
        elif kind is None:
            # The order of the dimensions in a chunk is not a filter.
            if codec.name not in SERIALIZERS | {"transpose"}:
                missing.append(codec.name)
        elif kind.number == BLOSC:
            filters.extend(_from_blosc(codec.configuration))
        elif kind.number in (SHUFFLE, FLETCHER32):
            filters.append(Filter(kind.number))
        else:
            level = _int(codec.configuration.get("level"), kind.levels[2])
            filters.append(Filter(kind.number, (level & 0xFFFFFFFF,)))
    return Filtered(tuple(filters), tuple(missing))


def _from_blosc(c: Mapping[str, object]) -> list[Filter]:
    cname, shuffle, level = c.get("cname"), c.get("shuffle"), _int(c.get("clevel"), 5)
    if cname in ("zlib", "zstd") and shuffle in ("shuffle", "noshuffle", 0, 1):
        before = [Filter(SHUFFLE)] if shuffle in ("shuffle", 1) else []
        if cname == "zlib":
            return [*before, Filter(DEFLATE, (level,))]
        return [*before, Filter(ZSTD, (22 if level >= 9 else max(1, 2 * level - 1),))]
    number = BLOSC_COMPRESSORS.index(cname) if cname in BLOSC_COMPRESSORS else 5
    kind = BLOSC_SHUFFLES.index(shuffle) if shuffle in BLOSC_SHUFFLES else 1
    size, block = _int(c.get("typesize"), 1), _int(c.get("blocksize"), 0)
    return [Filter(BLOSC, (2, 2, size, block, level, kind, number))]


def _int(value: object, default: int) -> int:
    return value if type(value) is int else default


def packing_of(codecs: Sequence[NamedConfig]) -> tuple[NamedConfig, ...]:
    """Return codecs without the one that turns arrays into bytes, which follows from the data type."""
    return tuple(codec for codec in codecs if codec.name not in SERIALIZERS)


def on_axes(codecs: Iterable[NamedConfig], places: Sequence[int | None], rank: int) -> Iterator[NamedConfig]:
    """Yield codecs for other axes: those that stay keep their order inside a chunk, and new ones are the slowest.

    Parameters
    ----------
    places : sequence of int or None
        The old place of each axis; None for a new one.
    rank : int
        The number of old axes. A codec may order more: the inner ones of text and opaque values, which stay.

    Examples
    --------
    >>> turned = NamedConfig("transpose", {"order": [1, 0]})
    >>> [codec.configuration for codec in on_axes([turned], (None, 0, 1), 2)]
    [{'order': [0, 2, 1]}]
    """
    for codec in codecs:
        order = codec.configuration.get("order")
        # An order that is no permutation is reported where the values are read.
        if codec.name == "transpose" and _is_permutation(order):
            old = [*places, *range(rank, len(order))]
            new = [axis for axis, place in enumerate(old) if place is None]
            new += [old.index(place) for place in order if place in old]
            # The next codec sees the axes in this order.
            places, rank = [None if (p := old[axis]) is None else order.index(p) for axis in new], len(order)
            codec = replace(codec, configuration={"order": new})
            if len(new) < 2:  # an order of one axis says nothing
                continue
        yield codec


def _is_permutation(order: object) -> TypeGuard[list[int]]:
    if not isinstance(order, list) or not all(type(n) is int for n in order):
        return False
    return sorted(order) == list(range(len(order)))


def follow_from(codecs: Sequence[NamedConfig], filters: Sequence[Filter]) -> bool:
    """Return True if nczarr itself chooses these codecs for the filters: they say nothing that the filters do not say.

    Examples
    --------
    >>> follow_from([NamedConfig("bytes"), NamedConfig("gzip", {"level": 5})], [Filter(1, (5,))])
    True
    >>> follow_from([NamedConfig("bytes"), NamedConfig("numcodecs.lz4")], ())
    False
    """
    packing = packing_of(codecs)
    settings = [c.configuration.get(key) for c in packing for key in ("typesize", "elementsize")]
    itemsize = next((n for n in settings if type(n) is int and n > 0), 1)
    return any(packing == codecs_for(filters, choice, itemsize, n) for choice in CHOICES for n in (0, None))


def chosen_codecs(
    filters: Sequence[Filter], codecs: Sequence[NamedConfig] | None
) -> tuple[NamedConfig, ...] | None:
    """Return the codecs that a user or a program has chosen; None if they follow from the filters.

    Examples
    --------
    >>> chosen_codecs((), [NamedConfig("bytes"), NamedConfig("numcodecs.lz4")])
    (NamedConfig(name='numcodecs.lz4', configuration={}, must_understand=True),)
    """
    return None if codecs is None or follow_from(codecs, filters) else packing_of(codecs)


def is_uncompressed_by_choice(
    filters: Sequence[Filter], codecs: Sequence[NamedConfig] | None, itemsize: int, nbytes: int | None
) -> bool:
    """Return True if values have no codec, where nczarr itself would choose one. Parameters as :func:`codecs_for`.

    Examples
    --------
    >>> [is_uncompressed_by_choice((), codecs, 4, 4000) for codecs in ((), None, [NamedConfig("gzip")])]
    [True, False, False]
    >>> is_uncompressed_by_choice((), (), 4, 400)
    False
    """
    if codecs is None or filters or packing_of(codecs):
        return False
    return bool(codecs_for((), "auto", itemsize, nbytes))


def netcdf_filters(filters: tuple[Filter, ...], codecs: Sequence[NamedConfig] | None) -> Filtered:
    """Return the filters of a netCDF file for a storage: the recorded ones, else those for codecs that were chosen.

    Examples
    --------
    >>> netcdf_filters((), [NamedConfig("bytes"), NamedConfig("numcodecs.lz4"), NamedConfig("gzip", {"level": 1})])
    Filtered(filters=(Filter(id=1, parameters=(1,)),), missing=('numcodecs.lz4',))
    >>> netcdf_filters((Filter(1, (5,)),), [NamedConfig("bytes"), NamedConfig("numcodecs.lz4")])
    Filtered(filters=(Filter(id=1, parameters=(5,)),), missing=())
    """
    if codecs is None or follow_from(codecs, filters):
        return Filtered(filters, ())
    found = filters_for(codecs)
    return Filtered(filters, ()) if filters not in ((), found.filters) else found


# --- words, names and objects


def parse_codecs(asked: object) -> tuple[NamedConfig, ...]:
    """Return the codecs that a user asks for, in any form.

    Parameters
    ----------
    asked : str, mapping, NamedConfig, object, or sequence of these
        ``zstd:5``, ``gzip:6``, ``blosc:lz4:5``, ``none``; the name of a codec, also with a level; JSON; the
        configuration of Zarr v3 (``name``) or v2 (``id``); or a codec of zarr-python or numcodecs.

    Raises
    ------
    UnsupportedError
        If a text or an object is none of these, or a level is out of range.

    Examples
    --------
    >>> parse_codecs("gzip:6")[0].configuration["level"], parse_codecs("none")
    (6, ())
    >>> [c.name for c in parse_codecs([{"id": "delta", "dtype": "<i4"}, "numcodecs.bz2:9"])]
    ['numcodecs.delta', 'numcodecs.bz2']
    """
    if isinstance(asked, NamedConfig):
        return (asked,)
    if isinstance(asked, str):
        return _parse_text(asked)
    if isinstance(asked, Mapping):
        return (_from_json(asked),)
    for method in ("to_dict", "get_config"):  # of zarr-python, and of numcodecs
        if callable(convert := getattr(asked, method, None)) and not isinstance(asked, type):
            return (_from_json(convert()),)
    if isinstance(asked, Iterable):
        return tuple(codec for one in asked for codec in parse_codecs(one))
    raise UnsupportedError(f"{asked!r} is not a codec", hint=HINT)


def is_configuration(value: object) -> bool:
    """Return whether a value is the JSON of one codec with its settings, and not codecs by the names of variables.

    Examples
    --------
    >>> is_configuration({"name": "gzip", "configuration": {"level": 3}}), is_configuration({"name": "gzip:3"})
    (True, False)
    """
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("configuration"), Mapping)
        and value.keys() <= {"name", "configuration", "must_understand"}
    )


def _from_json(value: Mapping[Any, Any]) -> NamedConfig:
    name, configuration = value.get("name"), value.get("configuration") or {}
    if isinstance(name, str) and name and isinstance(configuration, Mapping):
        if not value.keys() - {"name", "configuration", "must_understand"}:
            return NamedConfig(name, dict(configuration), value.get("must_understand") is not False)
    elif isinstance(identifier := value.get("id"), str) and identifier:
        settings = {k: v for k, v in value.items() if k != "id"}
        return named_on_v3(NamedConfig(f"numcodecs.{identifier}", settings))
    raise UnsupportedError(f"{dict(value)!r} is not a codec", hint=HINT)


def _parse_text(text: str) -> tuple[NamedConfig, ...]:
    if text.lstrip().startswith(("{", "[")):
        try:
            return parse_codecs(json.loads(text))
        except ValueError as error:
            raise UnsupportedError(f"compression {text!r}: {error}", hint=HINT) from None
    if text == "none":
        return ()
    name, *rest = text.split(":")
    if name not in _WORDS:
        before, _, number = text.rpartition(":")
        has_level = bool(before) and number.isdecimal()
        return (NamedConfig(before, {"level": int(number)}) if has_level else NamedConfig(text),)
    cname = "zstd"
    if name == "blosc" and rest and not rest[0].isdecimal():
        cname = rest.pop(0)
    if cname not in BLOSC_COMPRESSORS or cname == "snappy" or len(rest) > 1:
        raise no_compression(text)
    try:
        level = int(rest[0]) if rest else _WORDS[name]
    except ValueError:
        level = 1 << 32
    low, high, _ = BY_CODEC[name].levels
    if not low <= level <= high:
        raise UnsupportedError(f"compression {text!r}: the level of {name} is from {low} to {high}")
    if name == "blosc":
        return (NamedConfig("blosc", {"cname": cname, "clevel": level}),)
    return (_zstd(level) if name == "zstd" else NamedConfig(name, {"level": level}),)


def no_compression(text: str) -> UnsupportedError:
    """Return the error for a text that names no codec."""
    return UnsupportedError(f"there is no compression {text!r}", hint=HINT)


def codec_name(codec: NamedConfig) -> str:
    """Return the name of a codec with its level, as in listings.

    Examples
    --------
    >>> codec_name(NamedConfig("blosc", {"cname": "lz4", "clevel": 5})), codec_name(NamedConfig("numcodecs.lz4"))
    ('blosc:lz4:5', 'lz4')
    """
    settings = codec.configuration
    level = settings.get("level", settings.get("clevel"))
    inner = f":{settings['cname']}" if "cname" in settings else ""
    return f"{codec.name.removeprefix('numcodecs.')}{inner}{'' if level is None else f':{level}'}"


def text_of(codecs: Sequence[NamedConfig], itemsize: int) -> str:
    """Return the text that :func:`parse_codecs` turns into these codecs, for elements of a size.

    Examples
    --------
    >>> text_of([NamedConfig("zstd", {"level": 5, "checksum": False})], 4), text_of([], 4)
    ('zstd:5', 'none')
    >>> text_of([NamedConfig("numcodecs.lz4", {"acceleration": 2})], 4)
    '[{"name": "numcodecs.lz4", "configuration": {"acceleration": 2}}]'
    """
    text = codec_name(codecs[0]) if codecs else "none"
    if len(codecs) <= 1 and text.partition(":")[0] in (*_WORDS, "none"):
        found = [complete(codec, itemsize) for codec in parse_codecs(text)]
        if found == [complete(codec, itemsize) for codec in codecs]:
            return text
    return json.dumps([codec.to_json() for codec in codecs], ensure_ascii=False)
