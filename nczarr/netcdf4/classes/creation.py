"""Turn the keywords of ``createVariable`` into type, storage and attributes of the model."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from nczarr import model
from nczarr.filters import FILTERS, OF_REFERENCES
from nczarr.model import (
    CHAR,
    STRING,
    Attribute,
    Filter,
    PrimitiveType,
    Storage,
    Type,
    primitive_for_dtype,
)
from nczarr.netcdf4.classes.base import data_model_of, node_of, session_of
from nczarr.netcdf4.classes.user_types import UserDefinedType, shown_type, text_type
from nczarr.netcdf4.compatibility import CLASSIC_FORMATS, SUPPORTED_TYPES, default_fillvals
from nczarr.netcdf4.errors import (
    NetCDFAttributeError,
    NetCDFOverflowError,
    NetCDFRuntimeError,
    NetCDFTypeError,
    NetCDFValueError,
    translated,
)
from nczarr.netcdf4.values.attributes import make_attribute
from nczarr.netcdf4.values.quantize import ATTRIBUTE_OF_MODE
from nczarr.netcdf4.values.types import (
    BLOSC,
    SZIP,
    complex_type,
    default_chunks,
    describe_filters,
    item_size,
    part_type,
)
from nczarr.session import DimensionNode, TypeNode, check_unicode

_CLASSIC_TYPES = ("S1", "i1", "i2", "i4", "f4", "f8")
_KINDS = {
    FILTERS[number].keyword: FILTERS[number]
    for number in (Filter.DEFLATE, Filter.SZIP, Filter.ZSTD, Filter.BZIP2)
}
_COMPRESSIONS = (*_KINDS, *(name for name in BLOSC if name != "blosc_snappy"))
_SZIP_MOST_PIXELS = 32
#: Bytes of a chunk in HDF5.
_LARGEST_CHUNK = (1 << 32) - 1


def make_filters(
    compression: str | None,
    complevel: int | None,
    shuffle: bool,
    blosc_shuffle: int,
    fletcher32: bool,
    szip_coding: str = "nn",
    szip_pixels_per_block: int = 8,
) -> tuple[Filter, ...]:
    """The filters that the keywords ask for.

    No Zarr codec is szip: it is recorded as all filters are, and the way to a netCDF file has it again.

    Raises
    ------
    NetCDFValueError
        For a compression or a coding that is not known.
    NetCDFRuntimeError
        For a level, a shuffling or a number of pixels that is out of range.
    NetCDFTypeError
        For a level or a shuffling that is no number.

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
        level = _int("complevel", complevel)
        kind = _KINDS.get(compression, FILTERS[Filter.BLOSC])
        low, high, _ = kind.levels
        if kind.number != Filter.SZIP and not low <= level <= high:
            raise NetCDFRuntimeError(f"NetCDF: Invalid argument: complevel {level} for {compression}")
        if kind.number == Filter.SZIP:
            filters.append(_szip(szip_coding, szip_pixels_per_block))
        elif kind.number != Filter.BLOSC:
            if shuffle and kind.number == Filter.DEFLATE:
                filters.append(Filter(Filter.SHUFFLE))
            filters.append(Filter(kind.number, (level & 0xFFFFFFFF,)))  # HDF5's parameters have no sign
        else:
            shuffling = _int("blosc_shuffle", blosc_shuffle)
            if shuffling not in (0, 1, 2):
                raise NetCDFRuntimeError(f"NetCDF: Invalid argument: blosc_shuffle {shuffling}")
            parameters = (0, 0, 0, 0, level, shuffling, BLOSC.index(compression))
            filters.append(Filter(Filter.BLOSC, parameters))
    if fletcher32:
        filters.append(Filter(Filter.FLETCHER32))
    return tuple(filters)


def _whole(name: str, value: Any) -> int:
    try:
        if not isinstance(value, str | bytes):
            return int(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise NetCDFTypeError(f"{name} is a whole number, not {value!r}")


def _int(name: str, value: Any) -> int:
    """A number of a C ``int``."""
    number = _whole(name, value)
    if not -(1 << 31) <= number < 1 << 31:
        raise NetCDFOverflowError(f"{name} does not fit into 32 bits: {number}")
    return number


def _szip(coding: str, pixels: int) -> Filter:
    pixels = _int("szip_pixels_per_block", pixels)
    if coding not in SZIP:
        raise NetCDFValueError(f"unknown szip coding {coding!r} ('ec' or 'nn' supported)")
    if pixels % 2 or not 2 <= pixels <= _SZIP_MOST_PIXELS:
        raise NetCDFRuntimeError(
            f"NetCDF: Invalid argument: szip_pixels_per_block {pixels}",
            hint=f"an even number up to {_SZIP_MOST_PIXELS}",
        )
    return Filter(Filter.SZIP, (SZIP[coding], pixels))


def make_storage(
    type_: Type,
    dimensions: Sequence[DimensionNode],
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
    unlimited = any(d.unlimited for d in dimensions)
    if not dimensions:
        filters = ()
    if contiguous:
        if chunksizes is not None and dimensions:
            raise NetCDFValueError(f"cannot specify chunksizes for a contiguous dataset {where}")
        if unlimited or filters:
            raise NetCDFRuntimeError(f"NetCDF: Invalid argument: contiguous storage {where}")
    # A scalar has no chunks: what is said of them has no meaning, as in netCDF4-python.
    chunks = _checked_chunks(chunksizes, dimensions, where) if chunksizes is not None and dimensions else None
    if dimensions and (chunks is not None or filters or unlimited):
        defaults = default_chunks(type_, dimensions)
        shape = tuple(c or d for c, d in zip(chunks or defaults, defaults, strict=True))
        _check_chunk(type_, shape, filters, where)
        return Storage("chunked", shape, filters, endian, no_fill)
    return Storage("contiguous", None, (), endian, no_fill)


def _check_chunk(type_: Type, shape: tuple[int, ...], filters: tuple[Filter, ...], where: str) -> None:
    """Raise for a chunk that HDF5 has no room for, that is smaller than a block of szip, or of a type without szip."""
    count = math.prod(shape)
    if count * item_size(type_) > _LARGEST_CHUNK:
        raise NetCDFRuntimeError(
            f"NetCDF: Bad chunk sizes: {shape} {where}", hint="a chunk has less than 4 GiB"
        )
    for filter_ in filters:
        if filter_.id == Filter.SZIP and (type_ == CHAR or isinstance(type_, model.CompoundType)):
            raise NetCDFRuntimeError(
                f"NetCDF: Invalid argument: szip takes numbers, not {type_.name} {where}"
            )
        if filter_.id == Filter.SZIP and count < filter_.parameters[1]:
            raise NetCDFRuntimeError(
                f"NetCDF: Invalid argument: szip_pixels_per_block {filter_.parameters[1]} is more than "
                f"the {count} elements of a chunk {where}"
            )


def suitable_filters(filters: tuple[Filter, ...], type_: Type, where: str) -> tuple[Filter, ...]:
    """Return the filters that a netCDF file can apply to values of a type; warn of those that are left off.

    Chunks of strings and sequences hold references to what lies elsewhere in the file: a checksum would cover the
    references only, and HDF5 refuses it; plugins have nothing to compress.
    """
    if not type_.dtype.hasobject:
        return filters
    kept = tuple([f for f in filters if f.id in OF_REFERENCES])
    left = [name for name, found in describe_filters([f for f in filters if f not in kept]).items() if found]
    names = [name for name in left if name != "complevel"]
    if names:
        warnings.warn(
            f"netCDF files keep strings and sequences outside of the chunks: {', '.join(names)} is left off {where}",
            stacklevel=4,
        )
    return kept


def _checked_chunks(
    chunksizes: Sequence[int], dimensions: Sequence[DimensionNode], where: str
) -> tuple[int, ...]:
    if not np.iterable(chunksizes) or isinstance(chunksizes, str | bytes):
        raise NetCDFTypeError(f"chunksizes is a sequence with the same length as dimensions {where}")
    chunks = tuple([_whole("a chunksize", c) for c in chunksizes])
    if len(chunks) != len(dimensions):
        raise NetCDFValueError(f"chunksizes must be a sequence with the same length as dimensions {where}")
    for chunk, dimension in zip(chunks, dimensions, strict=True):
        if chunk < 0 or (dimension.unlimited and chunk >= 1 << 64):
            raise NetCDFOverflowError(f"a chunksize has 64 bits and no sign, {chunk} does not fit {where}")
        if not dimension.unlimited and chunk > dimension.size:
            raise NetCDFValueError(f"chunksize cannot exceed dimension size {where}")
    return chunks


def check_endian(endian: str, type_: Type, where: str) -> None:
    """Raise for a byte order that is not known, or of a type that is no plain number and has none to choose."""
    if endian not in ("little", "big", "native"):
        raise NetCDFValueError(
            f"'endian' keyword argument must be 'little','big' or 'native', got '{endian}' {where}"
        )
    if endian != "native" and (not isinstance(type_, model.PrimitiveType) or type_ in (CHAR, model.STRING)):
        raise NetCDFRuntimeError(
            f"NetCDF: Invalid argument: endian={endian!r} {where}", hint="only numbers have a byte order"
        )


def check_byte_order(datatype: Any, endian: str) -> None:
    """Warn if a dtype asks for another byte order than the keyword."""
    order = {"<": "little", ">": "big", "=": "native"}.get(getattr(datatype, "byteorder", ""))
    if order is None or order == endian or (order == "native" and endian == sys.byteorder):
        return
    warnings.warn("endian-ness of dtype and endian kwarg do not match, using endian kwarg", stacklevel=5)


def resolve_datatype(
    group: Any, datatype: Any, where: str
) -> tuple[Type | TypeNode, UserDefinedType | None, np.dtype | None]:
    """Find the type of the model that ``datatype`` means.

    Returns
    -------
    type : Type or TypeNode
    shown : UserDefinedType or None
        The object that shows it, if it is not a plain numpy type.
    dtype : numpy.dtype or None
        For a plain numpy type, as it was given; complex for pairs of a real and an imaginary part.

    Raises
    ------
    NetCDFTypeError, NetCDFValueError, NetCDFRuntimeError
        If netCDF, or the data model of the dataset, has no such type.
    """
    data_model = data_model_of(session_of(group))
    classic = data_model in CLASSIC_FORMATS
    if isinstance(datatype, UserDefinedType):
        return _user_type(group, datatype, where)
    if datatype is not str:
        try:
            datatype = np.dtype(datatype)
        except TypeError as error:
            raise NetCDFTypeError(f"Illegal data type {datatype!r} {where}: {error}") from error
        if datatype.kind == "U" or (datatype.kind == "S" and datatype.itemsize > 1):
            datatype = str
    if datatype is str:
        if classic:
            raise NetCDFValueError(
                f"Variable length strings are only supported for the NETCDF4 format {where}",
                hint="turn text into characters with stringtochar",
            )
        return STRING, text_type(), None
    if datatype.kind == "c":
        return _complex_type(group, datatype, where)
    code = datatype.str[1:]
    if code not in SUPPORTED_TYPES:
        raise NetCDFTypeError(
            f"Illegal primitive data type, must be one of {', '.join(SUPPORTED_TYPES)}, got {datatype} {where}"
        )
    if classic and code not in _CLASSIC_TYPES and data_model != "NETCDF3_64BIT_DATA":
        raise NetCDFRuntimeError(f"NetCDF: Attempting netcdf-4 operation on strict nc3 netcdf-4 file {where}")
    type_ = primitive_for_dtype(datatype)
    assert type_ is not None
    return type_, None, datatype


def _complex_type(
    group: Any, datatype: np.dtype, where: str
) -> tuple[Type | TypeNode, UserDefinedType | None, np.dtype | None]:
    """Compounds of a real and an imaginary part; pairs of them in the models of netCDF-3."""
    data_model = data_model_of(session_of(group))
    if not session_of(group).auto_complex:
        raise NetCDFValueError(
            f"complex datatypes ({datatype}) are only supported with `auto_complex=True` {where}"
        )
    if data_model.startswith("NETCDF3"):
        return part_type(datatype), None, datatype
    if data_model in CLASSIC_FORMATS:
        raise NetCDFRuntimeError(
            f"NetCDF: Attempting netcdf-4 operation on strict nc3 netcdf-4 file {where}: complex numbers",
            hint='they are compounds, which format="NETCDF4" has, or pairs, as in NETCDF3_CLASSIC',
        )
    node = complex_type(node_of(group), datatype)
    return node, shown_type(node), None


def _user_type(
    group: Any, datatype: UserDefinedType, where: str
) -> tuple[Type | TypeNode, UserDefinedType | None, np.dtype | None]:
    node: TypeNode | None = node_of(datatype)
    if node is None:
        return STRING, datatype, None
    scope = node_of(group)
    *_, root = scope.ancestors()
    own = root.all_types().get(node.type.fqn)
    if own is not None and own.type == node.type:
        return own, shown_type(own), None
    # A type of another dataset: the one of the same name here is meant.
    for candidate in (t for g in scope.ancestors() for t in g.types):
        if candidate.type.name == datatype.name and type(candidate.type) is type(node.type):
            return candidate, shown_type(candidate), None
    raise NetCDFRuntimeError(
        f"NetCDF: Bad type ID: the type {datatype.name!r} is not in this dataset {where}"
    )


def first_attributes(
    type_: Type,
    dtype: Any,
    data_model: str,
    where: str,
    *,
    fill_value: Any,
    least_significant_digit: Any,
    significant_digits: int | None,
    quantize_mode: str,
) -> dict[str, Attribute]:
    """The attributes that keywords of `createVariable` stand for; errors as of the functions below."""
    found = []
    if significant_digits is not None:
        found.append(quantization_attribute(type_, significant_digits, quantize_mode, where))
    fill = fill_attribute(type_, dtype, fill_value)
    if fill is not None:
        found.append(fill)
    if least_significant_digit is not None:
        name = "least_significant_digit"
        found.append(make_attribute(name, least_significant_digit, group=None, data_model=data_model))
    return {attribute.name: attribute for attribute in found}


def fill_attribute(type_: Type, dtype: Any, fill_value: Any) -> Attribute | None:
    """``_FillValue`` as the keyword `fill_value` asks for; None: there is none.

    Raises
    ------
    NetCDFAttributeError
        For vlen, opaque and compound variables.
    NetCDFValueError, NetCDFTypeError, NetCDFOverflowError
        If the value cannot be one of the variable's type.
    """
    if fill_value is None or fill_value is False:
        return None
    name = "_FillValue"
    primitive = isinstance(type_, PrimitiveType) and type_ != STRING
    if isinstance(fill_value, str) and fill_value == "default":
        if not primitive:
            warnings.warn(
                "WARNING: there is no default fill value for this data type, "
                "so fill_value='default' does not do anything.",
                stacklevel=4,
            )
            return None
        fill_value = np.array(default_fillvals[type_.dtype.str[1:]], type_.dtype)
    if type_ == STRING:
        text = str(fill_value)
        check_unicode(text, "the fill value")
        return Attribute.of(name, text, STRING)
    if not primitive and not isinstance(type_, model.EnumType):
        raise NetCDFAttributeError("cannot set _FillValue attribute for VLEN or compound variable")
    try:
        given = np.array(fill_value, dtype)
        value = np.array(given.reshape(-1)[:1], type_.dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise translated(error, f"fill_value {fill_value!r} is no value of {dtype}") from error
    if given.ndim > 1 or given.size > 1 or (not given.size and type_ != CHAR):
        raise NetCDFValueError(f"fill_value {fill_value!r} is not one value")
    if type_ == CHAR and value.size == 0:
        value = np.array([b"\0"], "S1")
    return Attribute(name, type_, value)


def quantization_attribute(type_: Type, digits: int, mode: str, where: str) -> Attribute:
    """The attribute that notes how floats are quantised on writing.

    Raises
    ------
    NetCDFValueError
        For an unknown mode.
    NetCDFRuntimeError
        If the variable does not hold floats, or the number of digits is out of range.
    NetCDFTypeError
        If the number of digits is none.
    """
    digits = _int("significant_digits", digits)
    if mode not in ATTRIBUTE_OF_MODE:
        raise NetCDFValueError(
            f"'quantize_mode' keyword argument must be 'BitGroom','GranularBitRound' or 'BitRound', got '{mode}'"
        )
    dtype = type_.dtype
    if dtype.kind != "f":
        raise NetCDFRuntimeError(f"NetCDF: Invalid argument: only floats can be quantised {where}")
    most = (6 if dtype.itemsize == 4 else 15) if mode != "BitRound" else (23 if dtype.itemsize == 4 else 52)
    if not 1 <= digits <= most:
        raise NetCDFRuntimeError(f"NetCDF: Invalid argument: significant_digits {digits} for {mode} {where}")
    return Attribute.of(ATTRIBUTE_OF_MODE[mode], digits, model.INT)
