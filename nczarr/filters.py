"""List the filters of HDF5 with their names in Zarr, in netCDF4-python and in CDL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


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
        The lowest, the highest and the default level.
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
    FilterKind(FLETCHER32, "fletcher32", "fletcher32", ("numcodecs.fletcher32", "crc32c"), "_Fletcher32"),
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
)
#: The filters by number, and by each of their Zarr codecs.
FILTERS = {kind.number: kind for kind in _KINDS}
BY_CODEC = {codec: kind for kind in _KINDS for codec in kind.codecs}
#: Filters that nczarr encodes and decodes.
ENCODED = frozenset(kind.number for kind in _KINDS if kind.codecs)
#: Filters of every HDF5 and netCDF library. All others are plugins.
BUILT_IN = frozenset({DEFLATE, SHUFFLE, FLETCHER32, SZIP})
#: Filters of strings and sequences. Their chunks contain references only: HDF5 refuses a checksum of these, and
#: the netCDF library refuses plugins.
OF_REFERENCES = frozenset({DEFLATE, SHUFFLE, SZIP})

#: Blosc's compressors by their number.
BLOSC_COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
BLOSC_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
_BLOSC_DEFAULTS = (0, 0, 0, 0, 5, 1, 0)


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
