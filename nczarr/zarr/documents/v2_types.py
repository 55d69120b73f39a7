"""Convert Zarr v2's data types and fill values to those of v3, and back.

A v2 ``dtype`` is numpy's type string (``"<f4"``, ``"|S8"``, ``"<M8[ns]"``) or a list of fields. It includes the byte
order; in v3, the ``bytes`` codec has it. The drafts use the same strings.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import numpy as np

from nczarr.errors import MetadataError, UnsupportedError
from nczarr.zarr.grids import parse_shape
from nczarr.zarr.types.base import DataType, Endian, bad, show
from nczarr.zarr.types.numbers import BoolType, ComplexType, FloatType, IntegerType, TimeType
from nczarr.zarr.types.registry import data_type_for
from nczarr.zarr.types.struct import StructField, StructType
from nczarr.zarr.types.text import (
    BytesType,
    FixedBytesType,
    FixedTextType,
    RawBitsType,
    StringType,
    decode_base64,
    encode_base64,
)

_TYPE = re.compile(r"([<>|=]?)([biufcSUVMm])([0-9]{0,10})(\[[0-9A-Za-zμ]+\])?")
_FLOAT_NAMES = {
    "nan": "NaN",
    "inf": "Infinity",
    "infinity": "Infinity",
    "-inf": "-Infinity",
    "-infinity": "-Infinity",
}


def parse_v2_dtype(value: Any, key: str = "dtype") -> tuple[DataType, Endian | None]:
    """Return the data type and the byte order of a v2 ``dtype``.

    ``|O`` is not accepted: the filters define its data type.

    Raises
    ------
    MetadataError
        If the value is not a type.
    UnsupportedError
        If the fields of a record have different byte orders.

    Examples
    --------
    >>> data_type, endian = parse_v2_dtype(">i4")
    >>> data_type.name, endian
    ('int32', 'big')
    >>> parse_v2_dtype([["a", "<i2"], ["b", "|u1", [3]]])[0].dtype.itemsize
    5
    """
    if isinstance(value, str):
        return _simple(value, key)
    if not isinstance(value, list) or not value:
        raise bad(f"{key}: {show(value)} is not a data type")
    fields = []
    orders: set[Endian | None] = set()
    for i, item in enumerate(value):
        where = f"{key}[{i}]"
        if (
            not isinstance(item, list)
            or len(item) not in (2, 3)
            or not isinstance(item[0], str)
            or not item[0]
        ):
            raise bad(f"{where}: {show(item)} is not a field")
        data_type, order = parse_v2_dtype(item[1], where)
        orders.add(order)
        fields.append(StructField(item[0], data_type, parse_shape(item[2], where) if len(item) == 3 else ()))
    orders.discard(None)
    if len(orders) > 1:
        raise UnsupportedError(f"{key}: the fields have different byte orders")
    try:
        return StructType.checked("struct", tuple(fields)), next(iter(orders), None)
    except MetadataError as error:
        error.message = error.message.replace("configuration.fields", key, 1)
        raise


def _simple(value: str, key: str) -> tuple[DataType, Endian | None]:
    if value == "bool":  # the drafts' name
        return BoolType(), None
    match = _TYPE.fullmatch(value)
    if match is None:
        raise bad(f"{key}: {show(value)} is not a known data type")
    try:
        dtype = np.dtype(value)
        if dtype.kind in "SUV" and not dtype.itemsize:
            raise bad(f"{key}: {show(value)} has no length")
        data_type = data_type_for(dtype)
    except (TypeError, ValueError, UnsupportedError):
        raise bad(f"{key}: {show(value)} is not a known data type") from None
    if not data_type.needs_endian:
        return data_type, None
    order = match[1] if match[1] in "<>" and match[1] else dtype.str[0]
    return data_type, "big" if order == ">" else "little"


def dtype_to_v2(data_type: DataType, endian: Endian | None) -> Any:
    """Return the v2 ``dtype`` for a data type in a byte order.

    Raises
    ------
    UnsupportedError
        If v2 has no such type.

    Examples
    --------
    >>> from nczarr.zarr.types.registry import parse_data_type
    >>> dtype_to_v2(parse_data_type("float32"), "big"), dtype_to_v2(parse_data_type("string"), None)
    ('>f4', '|O')
    """
    if data_type.is_variable:
        return "|O"
    if isinstance(data_type, StructType):
        result = []
        for field in data_type.fields:
            item = [field.name, dtype_to_v2(field.data_type, endian)]
            result.append([*item, list(field.shape)] if field.shape else item)
        return result
    return data_type.stored_dtype(endian or "little").str


def fill_from_v2(data_type: DataType, value: Any, endian: Endian | None, *, raw_text: bool = False) -> Any:
    """Return the fill value for its JSON in a v2 document.

    Parameters
    ----------
    value : JSON
        null means undefined; lists of one value, as from netcdf-c 4.8.0, are accepted.
    endian : str or None
        The byte order of the array; fill values of records have it.
    raw_text : bool
        True: fill values of byte strings are plain text, as from netcdf-c, not base64.

    Raises
    ------
    MetadataError
        If the value is not a fill value of this type.

    Examples
    --------
    >>> from nczarr.zarr.types.registry import parse_data_type
    >>> int(fill_from_v2(parse_data_type("int16"), [-99], "little"))
    -99
    """
    if isinstance(value, list) and len(value) == 1 and not isinstance(data_type, RawBitsType):
        value = value[0]
    if value is None:
        return None
    if isinstance(data_type, BoolType):
        return data_type.fill_from_json(bool(value) if value in (0, 1) else value)
    if isinstance(data_type, IntegerType):
        is_integral = isinstance(value, float) and value.is_integer()
        return data_type.fill_from_json(int(value) if is_integral or isinstance(value, bool) else value)
    if isinstance(data_type, FloatType):
        return data_type.fill_from_json(_float_name(value))
    if isinstance(data_type, ComplexType):
        parts = value if isinstance(value, list) else [value, 0.0]
        return data_type.fill_from_json([_float_name(part) for part in parts])
    if isinstance(data_type, TimeType):
        return data_type.fill_from_json(value)
    if type(value) is int and value == 0:  # zarr-python 2's default for every type
        return data_type.zero()
    if isinstance(data_type, StringType | FixedTextType):
        return data_type.fill_from_json(value)
    if not isinstance(value, str):
        raise bad(f"{show(value)} is not a string")
    if isinstance(data_type, StructType):
        data = decode_base64(value, data_type.dtype.itemsize)
        return np.frombuffer(data, data_type.stored_dtype(endian)).astype(data_type.dtype)[0]
    return _bytes_fill(data_type, value, raw_text)


def _float_name(value: Any) -> Any:
    return _FLOAT_NAMES.get(value.lower(), value) if isinstance(value, str) else value


def _bytes_fill(data_type: DataType, value: str, raw_text: bool) -> Any:
    if data_type.dtype.kind == "V":
        return data_type.fill_from_json(value)
    if not raw_text:
        with suppress(MetadataError):
            return data_type.fill_from_json(value)
    # netcdf-c: plain text, truncated to the length of the type like data.
    try:
        data = value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise bad(f"{show(value)} contains a lone surrogate, so it is not valid text") from None
    if isinstance(data_type, FixedBytesType):
        return data_type.to_scalar(data[: data_type.length_bytes])
    return data


def fill_to_v2(data_type: DataType, value: Any, endian: Endian | None, *, raw_text: bool = False) -> Any:
    """Return a fill value as JSON of a v2 document; the inverse of `fill_from_v2`.

    The payload of a NaN is lost: v2 has only ``"NaN"``.

    Examples
    --------
    >>> from nczarr.zarr.types.registry import data_type_for
    >>> fill_to_v2(data_type_for("S4"), b"ab", None), fill_to_v2(data_type_for("S4"), b"ab", None, raw_text=True)
    ('YWI=', 'ab')
    """
    if value is None:
        return None
    if isinstance(data_type, StructType):
        return encode_base64(
            np.asarray(value, data_type.dtype).astype(data_type.stored_dtype(endian)).tobytes()
        )
    if isinstance(data_type, RawBitsType):
        return encode_base64(data_type.to_scalar(value).tobytes())
    if raw_text and (isinstance(data_type, BytesType) or data_type.dtype.kind == "S"):
        return bytes(data_type.to_scalar(value)).decode("utf-8", "surrogateescape")
    result = data_type.fill_to_json(value)
    if isinstance(result, list):
        return [_plain_nan(part) for part in result]
    return _plain_nan(result) if isinstance(data_type, FloatType) else result


def _plain_nan(value: Any) -> Any:
    return "NaN" if isinstance(value, str) and value.startswith("0x") else value
