"""Convert the keywords of ``createVariable`` to type, storage and attributes of the model."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from inspect import Parameter, Signature, signature
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from nczarr.compression import OF_REFERENCES, NamedConfig
from nczarr.dataclass import dataclass
from nczarr.errors import ArgumentError, ArgumentTypeError, EditError, NodeAttributeError, RangeError
from nczarr.model import CHAR, STRING, Attribute, Filter, Storage, Type, primitive_for_dtype
from nczarr.model.chunk_shapes import chunks_in_shards, misfit
from nczarr.netcdf4.base import data_model_of
from nczarr.netcdf4.compatibility import CLASSIC_FORMATS, SUPPORTED_TYPES, default_fillvals
from nczarr.netcdf4.declarations import UserDefinedType, shown_type, text_type
from nczarr.netcdf4.errors import translating
from nczarr.netcdf4.values import types
from nczarr.netcdf4.values.keywords import (
    codecs_by_keyword,
    digit_attribute,
    filters_by_keywords,
    quantization_attribute,
    whole_number,
)
from nczarr.session import DimensionNode, Session, TypeNode
from nczarr.session.errors import check_unicode
from nczarr.system.warning import warn

#: The type of the model, the object of the interface for it, and the given numpy type; see :func:`resolve_datatype`.
ResolvedType: TypeAlias = "tuple[Type | TypeNode, UserDefinedType | None, np.dtype | None]"

#: Limit of the bytes of a chunk in HDF5.
_LARGEST_CHUNK = (1 << 32) - 1


@dataclass(frozen=True)
class VariableOptions:
    """The keywords of ``createVariable``, and the text that names the variable in errors.

    Examples
    --------
    >>> VariableOptions("(variable 'v')", zlib=True).filters()
    (Filter(id=2, parameters=()), Filter(id=1, parameters=(4,)))
    """

    where: str
    compression: Any = None
    zlib: bool = False
    complevel: int | None = 4
    shuffle: bool = True
    szip_coding: str = "nn"
    szip_pixels_per_block: int = 8
    blosc_shuffle: int = 1
    fletcher32: bool = False
    contiguous: bool = False
    chunksizes: Sequence[int] | None = None
    endian: str = "native"
    least_significant_digit: int | None = None
    significant_digits: int | None = None
    quantize_mode: str = "BitGroom"
    fill_value: object = None
    chunk_cache: int | None = None
    shards: Sequence[int] | str | None = None

    def filters(self) -> tuple[Filter, ...]:
        """Return the filters; see :func:`filters_by_keywords`."""
        return filters_by_keywords(
            self.compression,
            zlib=self.zlib,
            complevel=self.complevel,
            shuffle=self.shuffle,
            szip_coding=self.szip_coding,
            szip_pixels_per_block=self.szip_pixels_per_block,
            blosc_shuffle=self.blosc_shuffle,
            fletcher32=self.fletcher32,
        )

    def storage(
        self, session: Session, type_: Type, dimensions: Sequence[DimensionNode], filters: tuple[Filter, ...]
    ) -> Storage:
        """Return the storage of the variable.

        Raises
        ------
        EditError, ArgumentError
            For options that exclude each other.
        """
        no_fill = self.fill_value is False or not session.fill
        filters, codecs = self._compression(session, dimensions, filters)
        # netCDF-3 files and scalars have no chunks: chunk sizes are ignored, as in netCDF4-python.
        chunksizes = None if session.rules.netcdf3 or not dimensions else self.chunksizes
        unlimited = any(d.unlimited for d in dimensions)
        if self.contiguous and not session.rules.netcdf3:
            if chunksizes is not None:
                raise ArgumentError(f"cannot specify chunksizes for a contiguous dataset {self.where}")
            # HDF5 has both for chunks only, and the error of netCDF-C has these words.
            if unlimited or filters or codecs:
                raise EditError(f"NetCDF: Invalid argument: contiguous storage {self.where}")
        chunks = None if chunksizes is None else self._checked_chunks(chunksizes, dimensions)
        shards = None if self.shards is None else self._checked_shards(session, dimensions)
        is_chunked = unlimited or filters or codecs or chunks is not None or shards is not None
        if not (dimensions and is_chunked):
            return Storage("contiguous", None, (), self.endian, no_fill, codecs=codecs)
        shape, shards = self._layout(session, type_, dimensions, filters, chunks, shards)
        return Storage("chunked", shape, filters, self.endian, no_fill, shards, codecs)

    def _layout(
        self,
        session: Session,
        type_: Type,
        dimensions: Sequence[DimensionNode],
        filters: tuple[Filter, ...],
        chunks: tuple[int, ...] | None,
        shards: tuple[int, ...] | None,
    ) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """Return the shapes of chunks and shards; None leaves them to the session.

        It chooses the chunks of all new variables of a Zarr dataset together.
        """
        takes_szip = any(f.id == Filter.SZIP for f in filters)
        # Zarr's variables get one chunk length along each dimension, for which all new ones are needed.
        if chunks is shards is None and session.stored.disk_format == "ZARR" and not takes_szip:
            return None, None
        defaults = types.default_chunks_of(session, type_, dimensions)
        if shards:
            defaults = chunks_in_shards(shards, defaults)
        shape = tuple(c or d for c, d in zip(chunks or defaults, defaults, strict=True))
        self._check_chunk(type_, shape, filters)
        if shards is not None:
            shards = self._fitting_shards(shards, type_, dimensions, shape)
        return shape, shards

    def _compression(
        self, session: Session, dimensions: Sequence[DimensionNode], filters: tuple[Filter, ...]
    ) -> tuple[tuple[Filter, ...], tuple[NamedConfig, ...] | None]:
        """Return the filters of the variable, or the codecs that `compression` names, which leave none to filters."""
        codecs = codecs_by_keyword(self.compression, fletcher32=self.fletcher32) if dimensions else None
        if codecs is not None and session.stored.disk_format == "NETCDF3":
            raise ArgumentError(f"netCDF-3 files have no codecs {self.where}")
        # Of netCDF-3 files and scalars, filters are ignored, as in netCDF4-python.
        is_filtered = bool(dimensions) and not session.rules.netcdf3 and codecs is None
        return filters if is_filtered else (), codecs

    def _fitting_shards(
        self,
        shards: tuple[int, ...],
        type_: Type,
        dimensions: Sequence[DimensionNode],
        chunks: tuple[int, ...],
    ) -> tuple[int, ...] | None:
        """Return shards of whole chunks; an automatic shape for ``()``."""
        if not shards:
            return types.default_shards_of(type_, dimensions, chunks)
        # A shard length that was too large by mistake ended in a MemoryError at the first write.
        if wrong := misfit(shards, chunks):
            raise ArgumentError(
                f"{wrong} {self.where}",
                hint="a multiple of chunksizes; 0 in chunksizes chooses a length that fits",
            )
        return shards

    def _checked_chunks(
        self, chunksizes: Sequence[int], dimensions: Sequence[DimensionNode]
    ) -> tuple[int, ...]:
        if np.ndim(chunksizes) != 1 and not isinstance(chunksizes, str | bytes):
            raise ArgumentTypeError(
                f"chunksizes is a sequence with the same length as dimensions {self.where}"
            )
        chunks = self._lengths("chunksizes", "a chunksize", chunksizes, dimensions)
        for chunk, dimension in zip(chunks, dimensions, strict=True):
            if chunk < 0 or (dimension.unlimited and chunk >= 1 << 64):
                raise RangeError(f"the chunksize {chunk} is not in 0 to 2**64 - 1 {self.where}")
            # netCDF4-python refuses it with these words; along an unlimited dimension it takes any
            # length.
            if not dimension.unlimited and chunk > dimension.size:
                raise ArgumentError(f"chunksize cannot exceed dimension size {self.where}")
        return chunks

    def _checked_shards(self, session: Session, dimensions: Sequence[DimensionNode]) -> tuple[int, ...]:
        """Return the shard shape; ``()`` for an automatic one."""
        if session.rules.netcdf3 or session.rules.restrictions.without_shards:
            raise ArgumentError(
                f"shards: this format has none {self.where}",
                hint="Zarr v3 has shards: the layouts nczarr-v3 and zarr-v3",
            )
        if self.contiguous:
            raise ArgumentError(f"cannot specify shards for a contiguous dataset {self.where}")
        if isinstance(self.shards, str) and self.shards == "auto":
            return ()
        if not np.iterable(self.shards) or isinstance(self.shards, str | bytes):
            raise ArgumentTypeError(
                f"shards is 'auto' or a sequence with the same length as dimensions {self.where}"
            )
        if not dimensions:
            raise ArgumentError(f"a scalar has no shards {self.where}")
        shards = self._lengths("shards", "the length of a shard", self.shards, dimensions)
        if any(not 1 <= s < 1 << 63 for s in shards):
            raise ArgumentError(f"the length of a shard is positive, not as in {shards} {self.where}")
        return shards

    def _lengths(
        self, name: str, each: str, given: Iterable[object], dimensions: Sequence[DimensionNode]
    ) -> tuple[int, ...]:
        lengths = tuple(given)
        if len(lengths) != len(dimensions):
            raise ArgumentError(f"{name} must be a sequence with the same length as dimensions {self.where}")
        return tuple([whole_number(each, length) for length in lengths])

    def _check_chunk(self, type_: Type, shape: tuple[int, ...], filters: tuple[Filter, ...]) -> None:
        """Raise for a chunk that is too large for HDF5, or that szip cannot compress."""
        count = math.prod(shape)
        # HDF5 keeps the size of a chunk in 32 bits.
        if count * types.item_size(type_) > _LARGEST_CHUNK:
            raise EditError(
                f"NetCDF: Bad chunk sizes: {shape} {self.where}", hint="a chunk has less than 4 GiB"
            )
        for pixels in [f.parameters[1] for f in filters if f.id == Filter.SZIP]:
            # HDF5 refuses it when the file is closed, and the values were lost.
            if type_ == CHAR or type_.kind == "compound":
                raise EditError(
                    f"NetCDF: Invalid argument: szip takes numbers, not {type_.name} {self.where}"
                )
            if count < pixels:
                raise EditError(
                    f"NetCDF: Invalid argument: szip_pixels_per_block {pixels} is more than "
                    f"the {count} elements of a chunk {self.where}"
                )

    def suitable_filters(self, type_: Type) -> tuple[Filter, ...]:
        """Return the filters that a netCDF file can apply to values of a type, and warn of the others.

        Chunks of strings and sequences contain references to HDF5's heaps. HDF5 refuses a checksum of references, and
        plugins cannot compress them.
        """
        filters = self.filters()
        # HDF5 stores pointers in the chunks of strings and sequences.
        if not type_.dtype.hasobject:
            return filters
        kept = tuple([f for f in filters if f.id in OF_REFERENCES])
        dropped = types.describe_filters([f for f in filters if f not in kept])
        names = [name for name, found in dropped.items() if found and name != "complevel"]
        if names:
            warn(
                f"netCDF files keep strings and sequences outside of the chunks: {', '.join(names)} is left off "
                f"{self.where}"
            )
        return kept

    def check_endian(self, type_: Type, dtype: np.dtype | None) -> None:
        """Raise for an unknown byte order or a type without byte order. Warn if a dtype has another byte order."""
        endian = self.endian
        if endian not in ("little", "big", "native"):
            raise ArgumentError(
                f"'endian' keyword argument must be 'little','big' or 'native', got '{endian}' {self.where}"
            )
        plain = type_.is_atomic and type_ != STRING
        if endian != "native" and (not plain or type_ == CHAR):
            raise EditError(
                f"NetCDF: Invalid argument: endian={endian!r} {self.where}",
                hint="only numbers have a byte order",
            )
        # netCDF4-python warns where dtype and endian differ, and takes endian.
        if dtype is None or not plain or dtype.kind == "c":
            return
        order = {"<": "little", ">": "big", "=": "native"}.get(dtype.byteorder, endian)
        # netCDF4-python warns, and takes the keyword.
        if order != endian and not (order == "native" and endian == sys.byteorder):
            warn("endian-ness of dtype and endian kwarg do not match, using endian kwarg")

    def attributes(
        self, type_: Type, dtype: np.dtype | type[str] | None, data_model: str
    ) -> dict[str, Attribute]:
        """Return the first attributes of the variable.

        Raises
        ------
        NodeAttributeError, ArgumentError, ArgumentTypeError, RangeError
            As :func:`fill_attribute` and :func:`make_attribute`, or for an unknown mode of quantization.
        EditError
            If the variable does not hold floats, or the number of digits is out of range.
        """
        found = []
        if self.significant_digits is not None:
            digits = self.significant_digits
            found.append(quantization_attribute(type_, digits, self.quantize_mode, self.where))
        fill = fill_attribute(type_, dtype, self.fill_value)
        if fill is not None:
            found.append(fill)
        if self.least_significant_digit is not None:
            found.append(digit_attribute(self.least_significant_digit, data_model, self.where))
        return {attribute.name: attribute for attribute in found}


def constructor_signature() -> Signature:
    """Return the signature of :class:`nczarr.netcdf4.Variable`, with the keywords of the options."""
    kind = Parameter.POSITIONAL_OR_KEYWORD
    first = [Parameter(name, kind) for name in ("grp", "name", "datatype")]
    options = list(signature(VariableOptions).parameters.values())[1:]
    return Signature([*first, Parameter("dimensions", kind, default=()), *options])


def resolve_datatype(
    group: Any, datatype: UserDefinedType | type[str] | DTypeLike, where: str
) -> ResolvedType:
    """Return the type of the model for ``datatype``.

    Returns
    -------
    type : Type or TypeNode
    shown : UserDefinedType or None
        The object of the interface for the type; None for a numpy type.
    dtype : numpy.dtype or None
        The given numpy type; complex for pairs of a real and an imaginary part.

    Raises
    ------
    ArgumentTypeError, ArgumentError, EditError
        If netCDF or the data model of the dataset lacks the type.
    """
    data_model = data_model_of(group._nc_session)
    classic = data_model in CLASSIC_FORMATS
    if isinstance(datatype, UserDefinedType):
        return _user_type(group, datatype, where)
    dtype: np.dtype = np.dtype("O")
    if datatype is not str:
        try:
            dtype = np.dtype(datatype)
        except TypeError as error:
            raise ArgumentTypeError(f"Illegal data type {datatype!r} {where}: {error}") from error
    # netCDF4-python stores texts of any length as strings.
    if datatype is str or dtype.kind == "U" or (dtype.kind == "S" and dtype.itemsize > 1):
        if classic:
            raise ArgumentError(
                f"Variable length strings are only supported for the NETCDF4 format {where}",
                hint="turn text into characters with stringtochar",
            )
        return STRING, text_type(), None
    if dtype.kind == "c":
        return _complex_type(group, dtype, where)
    code = dtype.str[1:]
    if code not in SUPPORTED_TYPES:
        raise ArgumentTypeError(
            f"Illegal primitive data type, must be one of {', '.join(SUPPORTED_TYPES)}, got {dtype} {where}"
        )
    type_ = primitive_for_dtype(dtype)
    assert type_ is not None
    # netCDF-C creates these types in CDF-5 and in netCDF-4 files only.
    if classic and not type_.is_classic and data_model != "NETCDF3_64BIT_DATA":
        raise EditError(f"NetCDF: Attempting netcdf-4 operation on strict nc3 netcdf-4 file {where}")
    return type_, None, dtype


def _complex_type(group: Any, datatype: np.dtype, where: str) -> ResolvedType:
    """Return the compound of a real and an imaginary part, or in netCDF-3 models the type of the pairs' parts."""
    data_model = data_model_of(group._nc_session)
    if not group._nc_session.auto_complex:
        raise ArgumentError(
            f"complex datatypes ({datatype}) are only supported with `auto_complex=True` {where}"
        )
    if data_model.startswith("NETCDF3"):
        return types.complex_parts(datatype)[1], None, datatype
    if data_model in CLASSIC_FORMATS:
        raise EditError(
            f"NetCDF: Attempting netcdf-4 operation on strict nc3 netcdf-4 file {where}: complex numbers",
            hint='they are compounds, which format="NETCDF4" has, or pairs, as in NETCDF3_CLASSIC',
        )
    node = types.complex_type(group._nc_node, datatype)
    return node, shown_type(node), None


def _user_type(group: Any, datatype: UserDefinedType, where: str) -> ResolvedType:
    node: TypeNode | None = datatype._nc_node
    if node is None:
        return STRING, datatype, None
    scope = group._nc_node
    *_, root = scope.ancestors()
    own = root.all_types().get(node.type.fqn)
    if own is not None and own.type == node.type:
        return own, shown_type(own), None
    # For a type of another dataset, use the type with its name in this dataset.
    for candidate in (t for g in scope.ancestors() for t in g.types):
        if candidate.type.name == datatype.name and type(candidate.type) is type(node.type):
            return candidate, shown_type(candidate), None
    raise EditError(f"NetCDF: Bad type ID: the type {datatype.name!r} is not in this dataset {where}")


def fill_attribute(type_: Type, dtype: np.dtype | type[str] | None, fill_value: object) -> Attribute | None:
    """Return ``_FillValue`` for the keyword `fill_value`, or None.

    Raises
    ------
    NodeAttributeError
        For vlen, opaque and compound variables.
    ArgumentError, ArgumentTypeError, RangeError
        If the value is not of the variable's type.
    """
    # As in netCDF4-python, False leaves the variable without fill values, and None gives it the default ones.
    if fill_value is None or fill_value is False:
        return None
    name = "_FillValue"
    primitive = type_.is_atomic and type_ != STRING
    if isinstance(fill_value, str) and fill_value == "default":
        if not primitive:
            warn(
                "WARNING: there is no default fill value for this data type, "
                "so fill_value='default' does not do anything."
            )
            return None
        fill_value = np.array(default_fillvals[type_.dtype.str[1:]], type_.dtype)
    if type_ == STRING:
        text = str(fill_value)
        check_unicode(text, "the fill value")
        return Attribute.of(name, text, STRING)
    # netCDF4-python raises an AttributeError.
    if not primitive and type_.kind != "enum":
        raise NodeAttributeError("cannot set _FillValue attribute for VLEN or compound variable")
    with translating("fill_value {!r} is no value of {}", fill_value, dtype):
        given = np.array(fill_value, dtype)
        value = np.array(given.reshape(-1)[:1], type_.dtype)
    # numpy would take the first of several values.
    if given.ndim > 1 or given.size > 1 or (not given.size and type_ != CHAR):
        raise NodeAttributeError(f"NetCDF: Invalid argument: fill_value {fill_value!r} is not one value")
    if type_ == CHAR and value.size == 0:
        value = np.array([b"\0"], "S1")
    return Attribute(name, type_, value)
