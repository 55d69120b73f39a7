"""Convert netCDF4-python's keywords of compression and rounding to filters, codecs and attributes.

``createVariable`` has these keywords, and so have the encodings of xarray.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nczarr import model
from nczarr.compression import CHECKSUMS, FILTERS, NamedConfig
from nczarr.errors import ArgumentError, ArgumentTypeError, EditError, NCZarrError, RangeError
from nczarr.model import Attribute, Filter, Type
from nczarr.netcdf4.errors import translating
from nczarr.netcdf4.values import types
from nczarr.netcdf4.values.attributes import make_attribute
from nczarr.netcdf4.values.numbers import ATTRIBUTE_OF_MODE

_KINDS = {
    FILTERS[number].keyword: FILTERS[number]
    for number in (Filter.DEFLATE, Filter.SZIP, Filter.ZSTD, Filter.BZIP2)
}
_COMPRESSIONS = (*_KINDS, *(name for name in types.BLOSC if name != "blosc_snappy"))
#: netCDF-C's limit.
_SZIP_MOST_PIXELS = 32


def filters_by_keywords(
    compression: Any = None,
    *,
    zlib: bool = False,
    complevel: int | None = 4,
    shuffle: bool = True,
    szip_coding: str = "nn",
    szip_pixels_per_block: int = 8,
    blosc_shuffle: int = 1,
    fletcher32: bool = False,
) -> tuple[Filter, ...]:
    """Return the filters. No Zarr codec is szip: the store records the filter for netCDF files.

    Raises
    ------
    ArgumentError
        For an unknown compression or coding.
    EditError
        For a level, a shuffling or a number of pixels out of range.
    ArgumentTypeError
        For a level or a shuffling that is not a number.

    Examples
    --------
    >>> filters_by_keywords(zlib=True)
    (Filter(id=2, parameters=()), Filter(id=1, parameters=(4,)))
    """
    compression = "zlib" if zlib and not compression else compression
    found: list[Filter] = []
    # complevel=0 means no compression, as in netCDF4-python.
    if compression and codecs_by_keyword(compression) is None and complevel:
        level = _int("complevel", complevel)
        kind = _KINDS.get(compression, FILTERS[Filter.BLOSC])
        low, high, _ = kind.levels
        if kind.number == Filter.SZIP:
            found.append(_szip(szip_coding, szip_pixels_per_block))
        elif not low <= level <= high:
            raise EditError(f"NetCDF: Invalid argument: complevel {level} for {compression}")
        elif kind.number != Filter.BLOSC:
            # netCDF4-python shuffles for zlib only.
            if shuffle and kind.number == Filter.DEFLATE:
                found.append(Filter(Filter.SHUFFLE))
            found.append(Filter(kind.number, (level & 0xFFFFFFFF,)))  # HDF5's parameters have no sign
        else:
            shuffling = _int("blosc_shuffle", blosc_shuffle)
            if shuffling < 0:
                raise RangeError(f"blosc_shuffle is negative: {shuffling}")
            if shuffling not in (0, 1, 2):
                raise EditError(f"NetCDF: Invalid argument: blosc_shuffle {shuffling}")
            parameters = (0, 0, 0, 0, level, shuffling, types.BLOSC.index(compression))
            found.append(Filter(Filter.BLOSC, parameters))
    if fletcher32:
        found.append(Filter(Filter.FLETCHER32))
    return tuple(found)


def codecs_by_keyword(compression: Any, *, fletcher32: bool = False) -> tuple[NamedConfig, ...] | None:
    """Return the codecs of Zarr that a compression names; None for a compression of netCDF, or for none.

    Raises
    ------
    ArgumentError
        For an unknown compression.

    Examples
    --------
    >>> codecs_by_keyword("zlib"), codecs_by_keyword("lz4")[0].name
    (None, 'numcodecs.lz4')
    """
    is_word = isinstance(compression, str) and compression in ("", *_COMPRESSIONS)
    if compression is None or compression is False or is_word:
        return None
    try:
        listed = compression if isinstance(compression, list | tuple) else ()
        # `complevel` and `shuffle` would not apply to a keyword in a list.
        if found := {one for one in listed if isinstance(one, str)} & {*_COMPRESSIONS}:
            raise ArgumentError(f"{found.pop()!r} is a keyword of netCDF: a codec in a list has a level")
        from nczarr.zarr.codecs.base import requested_codecs  # the codecs take a tenth of the start

        codecs = requested_codecs(compression)
    except NCZarrError as error:
        raise ArgumentError(
            f"Unsupported value for compression kwarg: {compression!r}",
            hint=f"one of {', '.join(_COMPRESSIONS)}, or a codec of Zarr: its name, JSON or object",
        ) from error
    return with_checksum(codecs) if fletcher32 else codecs


def with_checksum(codecs: tuple[NamedConfig, ...]) -> tuple[NamedConfig, ...]:
    """Return codecs with a checksum, as ``fletcher32`` requests."""
    # Two checksums of one chunk cost twice and tell no more.
    return codecs if {codec.name for codec in codecs} & CHECKSUMS else (*codecs, NamedConfig("crc32c"))


def _szip(coding: str, pixels_per_block: object) -> Filter:
    pixels = _int("szip_pixels_per_block", pixels_per_block)
    if coding not in types.SZIP:
        raise ArgumentError(f"unknown szip coding {coding!r} ('ec' or 'nn' supported)")
    # HDF5's szip takes even numbers of pixels up to 32.
    if pixels % 2 or not 2 <= pixels <= _SZIP_MOST_PIXELS:
        raise EditError(
            f"NetCDF: Invalid argument: szip_pixels_per_block {pixels}",
            hint=f"an even number up to {_SZIP_MOST_PIXELS}",
        )
    return Filter(Filter.SZIP, (types.SZIP[coding], pixels))


def quantization_attribute(type_: Type, significant_digits: object, mode: object, where: str) -> Attribute:
    """Return the attribute that notes how floats are quantized on writing.

    Raises
    ------
    ArgumentError
        For an unknown mode.
    EditError
        If the variable does not hold floats, or the number of digits is out of range.

    Examples
    --------
    >>> quantization_attribute(model.FLOAT, 3, "BitGroom", "").name
    '_QuantizeBitGroomNumberOfSignificantDigits'
    """
    digits = _int("significant_digits", significant_digits)
    if not isinstance(mode, str) or mode not in ATTRIBUTE_OF_MODE:
        raise ArgumentError(
            f"'quantize_mode' keyword argument must be 'BitGroom','GranularBitRound' or 'BitRound', got '{mode}'"
        )
    # netCDF-C refuses it, too.
    if type_.dtype.kind != "f":
        raise EditError(f"NetCDF: Invalid argument: only floats can be quantised {where}")
    single = type_.dtype.itemsize == 4
    most = (6 if single else 15) if mode != "BitRound" else (23 if single else 52)
    if not 1 <= digits <= most:
        raise EditError(f"NetCDF: Invalid argument: significant_digits {digits} for {mode} {where}")
    return Attribute.of(ATTRIBUTE_OF_MODE[mode], digits, model.INT)


def digit_attribute(digit: Any, data_model: str, where: str) -> Attribute:
    """Return the attribute ``least_significant_digit``.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the digit is not one number.

    Examples
    --------
    >>> int(digit_attribute(2, "NETCDF4", "").values[0])
    2
    """
    name = "least_significant_digit"
    attribute = make_attribute(name, digit, group=None, data_model=data_model)
    if np.size(digit) != 1:
        raise ArgumentError(f"{name} is one number, not {digit!r} {where}")
    if np.array(digit).dtype.kind not in "biuf":
        raise ArgumentTypeError(f"{name} is a number, not {digit!r} {where}")
    if np.isnan(digit).any():
        raise ArgumentError(f"{name} is not a number {where}")
    return attribute


def whole_number(name: str, value: object) -> int:
    """Return a keyword as a whole number.

    Raises
    ------
    ArgumentTypeError
        If it is none.

    Examples
    --------
    >>> whole_number("complevel", 4.0)
    4
    """
    if isinstance(value, str | bytes):
        raise ArgumentTypeError(f"{name} is a whole number, not {value!r}")
    with translating("{} is a whole number, not {!r}", name, value):
        return int(value)  # type: ignore[call-overload]


def _int(name: str, value: object) -> int:
    """Return a number in the range of a C ``int``."""
    number = whole_number(name, value)
    # Cython's conversion to a C int refuses it in netCDF4-python.
    if not -(1 << 31) <= number < 1 << 31:
        raise RangeError(f"{name} does not fit into 32 bits: {number}")
    return number
