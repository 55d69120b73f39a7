"""Say how a stored variable looks to a program: its dtype, byte order, chunks and filters, in netCDF-4's words."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from nczarr.model import CHAR, STRING, Filter, PrimitiveType, Storage, Type, VlenType
from nczarr.model.chunk_shapes import netcdf_c_chunks
from nczarr.netcdf4.values.records import aligned_dtype
from nczarr.session import DimensionNode, VariableNode

#: netCDF-C's names of blosc's compressors, by their number.
BLOSC = ("blosc_lz", "blosc_lz4", "blosc_lz4hc", "blosc_snappy", "blosc_zlib", "blosc_zstd")
#: HDF5's numbers for szip's entropy coding and nearest neighbour coding.
SZIP = {"ec": 4, "nn": 32}
# Where netCDF-C puts blosc's settings among the filter's parameters.
_BLOSC_LEVEL, _BLOSC_SHUFFLE, _BLOSC_COMPRESSOR = 4, 5, 6


def shown_dtype(type_: Type, storage: Storage) -> Any:
    """The dtype of a stored variable: big-endian if it is stored so, ``str`` for text, of the elements for sequences.

    Examples
    --------
    >>> from nczarr.model import INT
    >>> shown_dtype(INT, Storage()), shown_dtype(VlenType("/row", INT), Storage()), shown_dtype(STRING, Storage())
    (dtype('int32'), dtype('int32'), <class 'str'>)
    """
    if isinstance(type_, VlenType):
        type_ = type_.base
    elif isinstance(type_, PrimitiveType):
        if stored_endian(type_, storage) == "big" and sys.byteorder == "little":
            return type_.dtype.newbyteorder(">")
        if storage.endian == "little" and sys.byteorder == "big":
            return type_.dtype.newbyteorder("<")
    return str if type_ == STRING else aligned_dtype(type_)


def stored_endian(type_: Type, storage: Storage) -> str:
    """Byte order of a stored variable, as :meth:`Variable.endian` tells it after reopening."""
    if not isinstance(type_, PrimitiveType) or type_ in (CHAR, STRING):
        return "native"
    if storage.endian == "big" and type_.dtype.itemsize > 1:
        return "big"
    return "little" if storage.endian == "big" or storage.endian == "little" else sys.byteorder


def default_chunks(type_: Type, dimensions: Sequence[DimensionNode]) -> tuple[int, ...]:
    """The chunk shape that netCDF-C chooses where none is asked for."""
    itemsize = item_size(type_)
    return netcdf_c_chunks([d.size for d in dimensions], [d.unlimited for d in dimensions], itemsize)


def item_size(type_: Type) -> int:
    """Return the bytes that a value takes in a chunk of HDF5."""
    return 16 if isinstance(type_, VlenType) else 8 if type_ == STRING else max(type_.dtype.itemsize, 1)


def chunking_of(node: VariableNode) -> tuple[int, ...] | None:
    """The chunk shape that netCDF knows of; None if it is contiguous."""
    hints, dimensions = node.storage, node.dimensions
    if hints.chunk_shape and hints.layout in (None, "chunked"):
        return tuple(hints.chunk_shape)
    if any(d.unlimited for d in dimensions) or hints.layout == "chunked":
        return default_chunks(node.type, dimensions)
    return None


def describe_filters(filters: Sequence[Filter]) -> dict[str, Any]:
    """Tell filters with their settings, as netCDF4-python and xarray name them.

    Examples
    --------
    >>> describe_filters([Filter(Filter.DEFLATE, (5,))])["complevel"]
    5
    """
    described: dict[str, Any] = {
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
            described[simple[f.id]] = True
            described["complevel"] = _signed(values[0]) if values else 0
        elif f.id == Filter.SHUFFLE:
            described["shuffle"] = True
        elif f.id == Filter.FLETCHER32:
            described["fletcher32"] = True
        elif f.id == Filter.BLOSC and len(values) > _BLOSC_COMPRESSOR:
            code = values[_BLOSC_COMPRESSOR]
            name = BLOSC[code] if code < len(BLOSC) else str(code)
            described["blosc"] = {"compressor": name, "shuffle": values[_BLOSC_SHUFFLE]}
            described["complevel"] = values[_BLOSC_LEVEL]
        elif f.id == Filter.SZIP and len(values) > 1:
            coding = "nn" if values[0] & SZIP["nn"] else "ec"
            described["szip"] = {"coding": coding, "pixels_per_block": values[1]}
    return described


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value
