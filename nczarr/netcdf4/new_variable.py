"""Parts of making a variable: its type, its fill value, its quantisation."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from nczarr import model
from nczarr.model import CHAR, STRING, Attribute, Type
from nczarr.model.types import primitive_for_dtype
from nczarr.netcdf4.constants import CLASSIC_FORMATS, SUPPORTED_TYPES, default_fillvals
from nczarr.netcdf4.errors import (
    NetCDFAttributeError,
    NetCDFRuntimeError,
    NetCDFTypeError,
    NetCDFValueError,
)
from nczarr.netcdf4.quantize import ATTRIBUTE_OF_MODE
from nczarr.netcdf4.user_types import EnumType, VLType, _UserType

if TYPE_CHECKING:
    from nczarr.netcdf4.dataset import Dataset
    from nczarr.netcdf4.variable import Variable

_CLASSIC_TYPES = ("S1", "i1", "i2", "i4", "f4", "f8")


def resolve_datatype(group: Dataset, datatype: Any, where: str) -> tuple[Type, Any, Any]:
    """Find out what ``datatype`` means.

    Returns
    -------
    type : Type
        Of the model.
    shown : CompoundType, VLType, EnumType, OpaqueType or None
        The interface's object for it, if it is not a plain numpy type.
    dtype : numpy.dtype or None
        For a plain numpy type, as it was given.

    Raises
    ------
    NetCDFTypeError, NetCDFValueError, NetCDFRuntimeError
        If netCDF, or the data model of the dataset, has no such type.
    """
    classic = group._nc_session.data_model in CLASSIC_FORMATS
    if isinstance(datatype, _UserType):
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
        return STRING, VLType(group, str, None), None
    if datatype.kind == "c":
        raise NetCDFValueError(
            f"complex datatypes ({datatype}) are only supported with `auto_complex=True` {where}"
        )
    code = datatype.str[1:]
    if code not in SUPPORTED_TYPES:
        raise NetCDFTypeError(
            f"Illegal primitive data type, must be one of {', '.join(SUPPORTED_TYPES)}, got {datatype} {where}"
        )
    data_model = group._nc_session.data_model
    if classic and code not in _CLASSIC_TYPES and data_model != "NETCDF3_64BIT_DATA":
        raise NetCDFRuntimeError(f"NetCDF: Attempting netcdf-4 operation on strict nc3 netcdf-4 file {where}")
    type_ = primitive_for_dtype(datatype)
    assert type_ is not None
    return type_, None, datatype


def _user_type(group: Dataset, datatype: _UserType, where: str) -> tuple[Type, Any, Any]:
    type_ = datatype._nc_model
    if type_ == STRING:
        return type_, datatype, None
    if isinstance(type_, model.UserType):
        own = group._nc_session.root._nc_all_types().get(type_.fqn)
        if own is not None and own._nc_model == type_:
            return type_, own, None
        # A type of another dataset: the one of the same name here is meant.
        scope: Dataset | None = group
        while scope is not None:
            for candidate in scope._nc_types:
                if candidate.name == datatype.name and type(candidate) is type(datatype):
                    return candidate._nc_model, candidate, None
            scope = scope.parent
    raise NetCDFRuntimeError(
        f"NetCDF: Bad type ID: the type {datatype.name!r} is not in this dataset {where}"
    )


def set_fill(variable: Variable, fill_value: Any) -> None:
    """Set ``_FillValue`` as the keyword `fill_value` asks for.

    Raises
    ------
    NetCDFAttributeError
        For vlen, opaque and compound variables.
    NetCDFValueError
        If the value cannot be one of the variable's type.
    """
    if fill_value is None or fill_value is False:
        return
    type_, name = variable._nc_type, "_FillValue"
    primitive = isinstance(type_, model.PrimitiveType) and type_ != STRING
    if isinstance(fill_value, str) and fill_value == "default":
        if not primitive:
            warnings.warn(
                "WARNING: there is no default fill value for this data type, "
                "so fill_value='default' does not do anything.",
                stacklevel=4,
            )
            return
        fill_value = np.array(default_fillvals[type_.dtype.str[1:]], type_.dtype)
    if type_ == STRING:
        attribute = Attribute.of(name, str(fill_value), STRING)
    elif primitive or isinstance(variable._nc_datatype, EnumType):
        try:
            value = np.array(np.array(fill_value, variable._nc_dtype).reshape(-1)[:1], type_.dtype)
        except (ValueError, TypeError, OverflowError) as error:
            raise NetCDFValueError(
                f"fill_value {fill_value!r} is no value of {variable._nc_dtype}: {error}",
                fqn=variable._nc_name,
            ) from error
        if type_ == CHAR and value.size == 0:
            value = np.array([b"\0"], "S1")
        attribute = Attribute(name, type_, value)
    else:
        raise NetCDFAttributeError("cannot set _FillValue attribute for VLEN or compound variable")
    variable._nc_attributes[name] = attribute


def set_quantization(variable: Variable, digits: int | None, mode: str, where: str) -> None:
    """Note that floats are quantised on writing.

    Raises
    ------
    NetCDFValueError
        For an unknown mode.
    NetCDFRuntimeError
        If the variable does not hold floats, or the number of digits is out of range.
    """
    if digits is None:
        return
    if mode not in ATTRIBUTE_OF_MODE:
        raise NetCDFValueError(
            f"'quantize_mode' keyword argument must be 'BitGroom','GranularBitRound' or 'BitRound', got '{mode}'"
        )
    dtype = variable._nc_type.dtype
    if dtype.kind != "f":
        raise NetCDFRuntimeError(f"NetCDF: Invalid argument: only floats can be quantised {where}")
    most = (6 if dtype.itemsize == 4 else 15) if mode != "BitRound" else (23 if dtype.itemsize == 4 else 52)
    if not 1 <= int(digits) <= most:
        raise NetCDFRuntimeError(f"NetCDF: Invalid argument: significant_digits {digits} for {mode} {where}")
    variable._nc_quantization = (int(digits), mode)
    name = ATTRIBUTE_OF_MODE[mode]
    variable._nc_attributes[name] = Attribute.of(name, int(digits), model.INT)
