"""Find data types by Zarr name or numpy dtype.

=======================================  =============================  ===============================
data type                                values in memory               fill value in JSON
=======================================  =============================  ===============================
bool                                     bool                           true, false
int8 … int64, uint8 … uint64             the same                       integer
float16, float32, float64                the same                       number, "NaN", "0x7fc00001", …
complex64, complex128                    the same                       [real, imaginary]
string                                   object: str                    string
bytes, variable_length_bytes             object: bytes                  base64, [integers]
fixed_length_utf32                       U                              string
null_terminated_bytes                    S                              base64
raw_bytes                                V                              base64
r<N>                                     V<N/8>                         [integers]
struct, structured                       packed structured dtype        {field: fill}, base64
numpy.datetime64, numpy.timedelta64      M8, m8                         integer, "NaT"
=======================================  =============================  ===============================

Other packages add data types by entry points of the group ``nczarr.data_types``. The object of the entry point is a
callable that takes the name and the configuration and returns a :class:`DataType`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nczarr.errors import ExtensionError, MetadataError, UnsupportedError
from nczarr.zarr.plugins import Registry
from nczarr.zarr.types.base import MAX_ITEM_BYTES, DataType, bad, show
from nczarr.zarr.types.numbers import (
    NUMERIC_TYPES,
    TimeType,
)
from nczarr.zarr.types.struct import StructField, StructType
from nczarr.zarr.types.text import BytesType, FixedBytesType, FixedTextType, RawBitsType, StringType

_RAW = re.compile(r"r([1-9][0-9]{0,10})")
_PLAIN: dict[str, DataType] = {
    **NUMERIC_TYPES,
    "string": StringType(),
    "bytes": BytesType(),
    "variable_length_bytes": BytesType("variable_length_bytes"),
}
_BY_KIND = {(t.dtype.kind, t.dtype.itemsize): t for t in NUMERIC_TYPES.values()}
#: Parsers of a name and a configuration, for the types with parameters.
DATA_TYPES = Registry[Callable[[str, Mapping[str, Any]], DataType]](
    "nczarr.data_types", "data type", MetadataError
)


def parse_data_type(value: Any) -> DataType:
    """Return the data type for the ``data_type`` of a v3 document.

    Parameters
    ----------
    value : str or dict
        A name, or an object with ``name`` and ``configuration``.

    Raises
    ------
    ExtensionError
        If the data type is unknown.
    MetadataError
        If the value is not a data type.

    Examples
    --------
    >>> parse_data_type("uint8").dtype
    dtype('uint8')
    >>> parse_data_type({"name": "raw_bytes", "configuration": {"length_bytes": 3}}).dtype
    dtype('V3')
    """
    name: Any
    configuration: Any
    if isinstance(value, str):
        name, configuration = value, {}
    elif isinstance(value, dict):
        name, configuration = value.get("name"), value.get("configuration", {})
        if not isinstance(name, str):
            raise bad(f"name: {show(name)} is not a string")
        if not isinstance(configuration, dict):
            raise bad(f"configuration: {show(configuration)} is not an object")
        if value.get("must_understand", True) is not True:
            raise bad("must_understand: false is not allowed for a data type")
        if extra := set(value) - {"name", "configuration", "must_understand"}:
            raise bad(f"the keys {show(sorted(extra))} are unknown")
    else:
        raise bad(f"{show(value)} is not a data type")
    if (plain := _PLAIN.get(name)) is not None:
        if configuration:
            raise bad(f"configuration: the data type {name} has no configuration")
        return plain
    if match := _RAW.fullmatch(name):
        bits = int(match[1])
        if bits % 8 or bits // 8 > MAX_ITEM_BYTES:
            raise bad(f"{name}: the number of bits is not a multiple of 8 below {8 * MAX_ITEM_BYTES}")
        return RawBitsType(name)
    parse = DATA_TYPES.find(name)
    if parse is None:
        known = ", ".join((*_PLAIN, *DATA_TYPES.names()))
        raise ExtensionError(
            f"the data type {show(name)} is unknown", hint=f"known data types: {known}, r<N>"
        )
    return parse(name, configuration)


def _struct(name: str, configuration: Mapping[str, Any]) -> DataType:
    return StructType.parse(name, configuration, parse_data_type)


for _names, _parse in (
    (("numpy.datetime64", "numpy.timedelta64"), TimeType.parse),
    (("fixed_length_utf32",), FixedTextType.parse),
    (("null_terminated_bytes", "raw_bytes"), FixedBytesType.parse),
    (("struct", "structured"), _struct),
):
    for _name in _names:
        DATA_TYPES.register(_name, _parse)


def data_type_for(dtype: np.dtype | str | type) -> DataType:
    """Return the data type for a numpy dtype of any byte order, or for the name of a Zarr data type.

    Raises
    ------
    UnsupportedError
        If Zarr has no such type. The dtype object is ambiguous: pass ``"string"`` or ``"bytes"`` instead.

    Examples
    --------
    >>> data_type_for(">i4").name, data_type_for("S8").to_json()
    ('int32', {'name': 'null_terminated_bytes', 'configuration': {'length_bytes': 8}})
    >>> data_type_for("string").name
    'string'
    """
    if isinstance(dtype, str) and (dtype in _PLAIN or _RAW.fullmatch(dtype)):
        return parse_data_type(dtype)
    try:
        dt = np.dtype(dtype)
    except TypeError:
        if isinstance(dtype, str) and DATA_TYPES.find(dtype) is not None:
            return parse_data_type(dtype)
        raise UnsupportedError(f"{show(dtype)} is not a dtype") from None
    numeric = _BY_KIND.get((dt.kind, dt.itemsize))
    if numeric is not None:
        return numeric
    if dt.kind == "T":
        return _PLAIN["string"]
    if dt.names is not None:
        return _struct_for(dt)
    if dt.kind in "USV" and dt.itemsize and dt.subdtype is None:
        if dt.kind == "U":
            return FixedTextType(length_bytes=dt.itemsize)
        return FixedBytesType("null_terminated_bytes" if dt.kind == "S" else "raw_bytes", dt.itemsize)
    if dt.kind in "Mm":
        unit, scale = np.datetime_data(dt)  # type: ignore[arg-type]
        return TimeType("numpy.datetime64" if dt.kind == "M" else "numpy.timedelta64", unit, scale)
    hint = 'use "string" or "bytes" as the dtype' if dt.hasobject else None
    raise UnsupportedError(f"Zarr has no data type for the dtype {dt}", hint=hint)


def _struct_for(dt: np.dtype) -> StructType:
    fields = []
    for name in dt.names or ():
        member = dt[name]
        fields.append(StructField(name, data_type_for(member.base), member.shape))
    return StructType.checked("struct", tuple(fields))
