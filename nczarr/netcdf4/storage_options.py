"""How a variable is stored: the keywords of ``createVariable`` to the model's hints, and back for questions."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nczarr.model import CHAR, STRING, Filter, PrimitiveType, Storage, Type, VlenType
from nczarr.netcdf4.errors import NetCDFRuntimeError, NetCDFValueError

if TYPE_CHECKING:
    from nczarr.netcdf4.dimension import Dimension

_BLOSC = ("blosc_lz", "blosc_lz4", "blosc_lz4hc", "blosc_snappy", "blosc_zlib", "blosc_zstd")
_COMPRESSIONS = ("zlib", "szip", "zstd", "bzip2", *(name for name in _BLOSC if name != "blosc_snappy"))
_CHUNK_BYTES = 16 << 20
_LONE_UNLIMITED_BYTES = 4096
# Where netCDF-C puts blosc's settings among the filter's parameters.
_BLOSC_LEVEL, _BLOSC_SHUFFLE, _BLOSC_COMPRESSOR = 4, 5, 6


def make_filters(
    compression: str | None, complevel: int | None, shuffle: bool, blosc_shuffle: int, fletcher32: bool
) -> tuple[Filter, ...]:
    """The filters that the keywords ask for.

    Raises
    ------
    NetCDFValueError
        For a compression that is not known or not available.
    NetCDFRuntimeError
        For a level that is out of range.

    Examples
    --------
    >>> make_filters("zlib", 4, True, 1, False)
    (Filter(id=2, parameters=()), Filter(id=1, parameters=(4,)))
    """
    filters: list[Filter] = []
    if compression and compression not in _COMPRESSIONS:
        raise NetCDFValueError(
            f"Unsupported value for compression kwarg: {compression!r}",
            hint=f"one of {', '.join(_COMPRESSIONS)}",
        )
    if compression and complevel:
        level = int(complevel)
        if compression == "szip":
            raise NetCDFValueError("compression='szip' is not available", hint="use 'zstd'")
        low, high = {"zstd": (-131072, 22), "bzip2": (1, 9)}.get(compression, (0, 9))
        if not low <= level <= high:
            raise NetCDFRuntimeError(f"NetCDF: Invalid argument: complevel {level} for {compression}")
        if compression == "zlib":
            if shuffle:
                filters.append(Filter(Filter.SHUFFLE))
            filters.append(Filter(Filter.DEFLATE, (level,)))
        elif compression in ("zstd", "bzip2"):
            filters.append(Filter(Filter.ZSTD if compression == "zstd" else Filter.BZIP2, (level,)))
        else:
            parameters = (0, 0, 0, 0, level, int(blosc_shuffle), _BLOSC.index(compression))
            filters.append(Filter(Filter.BLOSC, parameters))
    if fletcher32:
        filters.append(Filter(Filter.FLETCHER32))
    return tuple(filters)


def describe_filters(filters: Sequence[Filter]) -> dict[str, Any]:
    """What :meth:`Variable.filters` says.

    Examples
    --------
    >>> describe_filters([Filter(Filter.DEFLATE, (5,))])["complevel"]
    5
    """
    told: dict[str, Any] = {
        "zlib": False,
        "szip": False,
        "zstd": False,
        "bzip2": False,
        "blosc": False,
        "shuffle": False,
        "complevel": 0,
        "fletcher32": False,
    }
    simple = {Filter.DEFLATE: "zlib", Filter.ZSTD: "zstd", Filter.BZIP2: "bzip2"}
    for f in filters:
        values = f.parameters
        if f.id in simple:
            told[simple[f.id]] = True
            told["complevel"] = _signed(values[0]) if values else 0
        elif f.id == Filter.SHUFFLE:
            told["shuffle"] = True
        elif f.id == Filter.FLETCHER32:
            told["fletcher32"] = True
        elif f.id == Filter.BLOSC and len(values) > _BLOSC_COMPRESSOR:
            code = values[_BLOSC_COMPRESSOR]
            name = _BLOSC[code] if code < len(_BLOSC) else str(code)
            told["blosc"] = {"compressor": name, "shuffle": values[_BLOSC_SHUFFLE]}
            told["complevel"] = values[_BLOSC_LEVEL]
        elif f.id == Filter.SZIP and len(values) > 1:
            told["szip"] = {"coding": "nn" if values[0] & 32 else "ec", "pixels_per_block": values[1]}
    return told


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value


def make_storage(
    type_: Type,
    dimensions: Sequence[Dimension],
    *,
    filters: tuple[Filter, ...],
    contiguous: bool,
    chunksizes: Sequence[int] | None,
    endian: str,
    no_fill: bool,
    where: str,
) -> Storage:
    """The storage hints of a new variable.

    Raises
    ------
    NetCDFRuntimeError, NetCDFValueError
        For combinations that cannot be.
    """
    unlimited = any(d._nc_unlimited for d in dimensions)
    if not dimensions:
        filters = ()
    if contiguous:
        if chunksizes is not None:
            raise NetCDFValueError(f"cannot specify chunksizes for a contiguous dataset {where}")
        if unlimited or filters:
            raise NetCDFRuntimeError(f"NetCDF: Invalid argument: contiguous storage {where}")
    chunks = _checked_chunks(chunksizes, dimensions, where) if chunksizes is not None else None
    if dimensions and (chunks is not None or filters or unlimited):
        defaults = default_chunks(type_, dimensions)
        shape = tuple(c or d for c, d in zip(chunks or defaults, defaults, strict=True))
        return Storage("chunked", shape, filters, endian, no_fill)
    return Storage("contiguous", None, (), endian, no_fill)


def _checked_chunks(
    chunksizes: Sequence[int], dimensions: Sequence[Dimension], where: str
) -> tuple[int, ...]:
    try:
        chunks = tuple(int(c) for c in chunksizes)
    except TypeError as error:
        raise NetCDFValueError(
            f"chunksizes must be a sequence with the same length as dimensions {where}"
        ) from error
    if len(chunks) != len(dimensions):
        raise NetCDFValueError(f"chunksizes must be a sequence with the same length as dimensions {where}")
    for chunk, dimension in zip(chunks, dimensions, strict=True):
        if chunk < 0:
            raise NetCDFValueError(f"chunksizes must not be negative {where}")
        if not dimension._nc_unlimited and chunk > dimension._nc_size:
            raise NetCDFValueError(f"chunksize cannot exceed dimension size {where}")
    return chunks


def default_chunks(type_: Type, dimensions: Sequence[Dimension]) -> tuple[int, ...]:
    """The chunk shape that netCDF-C chooses where none is asked for.

    One record for unlimited dimensions beside fixed ones, 4 KiB for a lone unlimited dimension, and as much of
    the fixed dimensions as makes 16 MiB.
    """
    size = 16 if isinstance(type_, VlenType) else 8 if type_ == STRING else max(type_.dtype.itemsize, 1)
    fixed = [d for d in dimensions if not d._nc_unlimited]
    if len(dimensions) == 1 and not fixed:
        return (max(_LONE_UNLIMITED_BYTES // size, 1),)
    if not fixed:
        return (max(int((_CHUNK_BYTES / size) ** (1 / len(dimensions))), 1),) * len(dimensions)
    total = 1.0
    for d in fixed:
        total *= d._nc_size
    # netCDF-C takes the n-th root over all dimensions that are not yet decided.
    factor = (_CHUNK_BYTES / (max(total, 1) * size)) ** (1 / len(fixed))
    chunks = []
    for d in dimensions:
        if d._nc_unlimited:
            chunks.append(1)
            continue
        chunk = max(min(int(factor * d._nc_size - 0.5), d._nc_size), 1)
        pieces = -(-d._nc_size // chunk)
        if pieces > 0:  # spread the overhang over the chunks
            chunk -= (pieces * chunk - d._nc_size) // pieces
        chunks.append(max(chunk, 1))
    return tuple(chunks)


def check_endian(endian: str, where: str) -> None:
    """Raise :class:`NetCDFValueError` for an unknown byte order."""
    if endian not in ("little", "big", "native"):
        raise NetCDFValueError(
            f"'endian' keyword argument must be 'little','big' or 'native', got '{endian}' {where}"
        )


def check_byte_order(datatype: Any, endian: str) -> None:
    """Warn if a dtype asks for another byte order than the keyword."""
    order = {"<": "little", ">": "big", "=": "native"}.get(getattr(datatype, "byteorder", ""))
    if order is None or order == endian or (order == "native" and endian == sys.byteorder):
        return
    warnings.warn("endian-ness of dtype and endian kwarg do not match, using endian kwarg", stacklevel=5)


def stored_endian(type_: Type, storage: Storage) -> str:
    """Byte order of a stored variable, as :meth:`Variable.endian` tells it after reopening."""
    if not isinstance(type_, PrimitiveType) or type_ in (CHAR, STRING):
        return "native"
    if storage.endian == "big" and type_.dtype.itemsize > 1:
        return "big"
    return "little" if storage.endian == "big" or storage.endian == "little" else sys.byteorder


def interface_dtype(type_: Type, storage: Storage) -> np.dtype:
    """The dtype of a stored primitive variable: big-endian if it is stored so."""
    if stored_endian(type_, storage) == "big" and sys.byteorder == "little":
        return type_.dtype.newbyteorder(">")
    if storage.endian == "little" and sys.byteorder == "big":
        return type_.dtype.newbyteorder("<")
    return type_.dtype
