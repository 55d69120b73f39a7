"""Define data types of records, and find data types by Zarr name or numpy dtype.

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
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nczarr.errors import ExtensionError, MetadataError, UnsupportedError
from nczarr.lazy import cached_property
from nczarr.zarr.plugins import Registry
from nczarr.zarr.types import base
from nczarr.zarr.types.base import DataType, Json, JsonMapping, Scalar, bad, checked_object, show

_RAW = re.compile(r"r([1-9][0-9]{0,10})")
_PLAIN: dict[str, DataType] = {
    **base.NUMERIC_TYPES,
    "string": base.StringType(),
    "bytes": base.BytesType(),
    "variable_length_bytes": base.BytesType("variable_length_bytes"),
}
_BY_KIND = {(t.dtype.kind, t.dtype.itemsize): t for t in base.NUMERIC_TYPES.values()}
#: Parsers of a name and a configuration, for the types with parameters.
DATA_TYPES = Registry[Callable[[str, JsonMapping], DataType]]("nczarr.data_types", "data type", MetadataError)


def parse_data_type(value: object) -> DataType:
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
    document = {"name": value} if isinstance(value, str) else value
    if not isinstance(document, dict):
        raise bad(f"{show(value)} is not a data type")
    name = document.get("name")
    if not isinstance(name, str):
        raise bad(f"name: {show(name)} is not a string")
    configuration = checked_object(document.get("configuration", {}), "configuration")
    if document.get("must_understand", True) is not True:
        raise bad("must_understand: false is not allowed for a data type")
    if extra := document.keys() - {"name", "configuration", "must_understand"}:
        raise bad(f"the keys {show(sorted(extra))} are unknown")
    if (plain := _PLAIN.get(name)) is not None:
        if configuration:
            raise bad(f"configuration: the data type {name} has no configuration")
        return plain
    if match := _RAW.fullmatch(name):
        bits = int(match[1])
        if bits % 8 or bits // 8 > base.MAX_ITEM_BYTES:
            raise bad(f"{name}: the number of bits is not a multiple of 8 below {8 * base.MAX_ITEM_BYTES}")
        return base.RawBitsType(name)
    parse = DATA_TYPES.find(name)
    if parse is None:
        known = ", ".join((*_PLAIN, *DATA_TYPES.names()))
        raise ExtensionError(
            f"the data type {show(name)} is unknown", hint=f"known data types: {known}, r<N>"
        )
    return parse(name, configuration)


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
        record: np.dtype = dt
        members = [(name, record[name]) for name in dt.names]
        fields = [StructField(name, data_type_for(member.base), member.shape) for name, member in members]
        return StructType.checked("struct", tuple(fields))
    if dt.kind in "USV" and dt.itemsize and dt.subdtype is None:
        if dt.kind == "U":
            return base.FixedTextType(length_bytes=dt.itemsize)
        return base.FixedBytesType("null_terminated_bytes" if dt.kind == "S" else "raw_bytes", dt.itemsize)
    if dt.kind in "Mm":
        unit, scale = np.datetime_data(dt)  # type: ignore[arg-type]
        return base.TimeType("numpy.datetime64" if dt.kind == "M" else "numpy.timedelta64", unit, scale)
    hint = 'use "string" or "bytes" as the dtype' if dt.hasobject else None
    raise UnsupportedError(f"Zarr has no data type for the dtype {dt}", hint=hint)


@dataclass(frozen=True)
class StructField:
    """A field: its name, data type and shape (only Zarr v2 has array fields)."""

    name: str
    data_type: DataType
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class StructType(DataType):
    """``struct``: records of named fields of fixed size, packed; the fill value is an object.

    The older name ``structured`` (fields as pairs, fill value in base64) is read, and kept on rewriting.

    Examples
    --------
    >>> from nczarr.zarr.types.registry import parse_data_type
    >>> t = parse_data_type({"name": "struct", "configuration": {"fields": [
    ...     {"name": "a", "data_type": "int16"}, {"name": "b", "data_type": "float64"}]}})
    >>> t.dtype.itemsize, t.fill_from_json({"a": 1, "b": "NaN"}).item()
    (10, (1, nan))
    """

    name: str = "struct"
    fields: tuple[StructField, ...] = ()

    @cached_property
    def dtype(self) -> np.dtype:
        return np.dtype([(field.name, field.data_type.dtype, field.shape) for field in self.fields])

    @classmethod
    def parse(cls, name: str, configuration: JsonMapping) -> StructType:
        """Return the type for a name and the ``configuration`` of a document."""
        items = configuration.get("fields")
        if not isinstance(items, list) or not items:
            raise bad(f"configuration.fields: {show(items)} is not a list of fields")
        fields = []
        for i, item in enumerate(items):
            if isinstance(item, dict) and "name" in item and "data_type" in item:
                field_name, type_json = item["name"], item["data_type"]
            elif isinstance(item, list) and len(item) == 2:
                field_name, type_json = item
            else:
                raise bad(f"configuration.fields[{i}]: {show(item)} is not a field")
            if not isinstance(field_name, str) or not field_name:
                raise bad(f"configuration.fields[{i}].name: {show(field_name)} is not a name")
            try:
                data_type = parse_data_type(type_json)
            except MetadataError as error:
                error.message = f"configuration.fields[{i}].data_type.{error.message}"
                raise
            fields.append(StructField(field_name, data_type))
        return cls.checked(name, tuple(fields))

    @classmethod
    def checked(cls, name: str, fields: tuple[StructField, ...]) -> StructType:
        """Return the type, after a check of the fields: unique names, fixed sizes, total size."""
        names = [field.name for field in fields]
        if len(set(names)) != len(names):
            raise bad(f"configuration.fields: the field names {show(names)} are not unique")
        size = 0
        for field in fields:
            if field.data_type.itemsize is None:
                raise bad(f"configuration.fields: {field.name!r} has no fixed size")
            count = 1
            for length in field.shape:
                if not 1 <= length <= base.MAX_ITEM_BYTES:
                    raise bad(f"configuration.fields: {field.name!r} has a dimension of length {length}")
                count *= length
            size += field.data_type.itemsize * count
            if size > base.MAX_ITEM_BYTES:
                raise bad(f"configuration.fields: the record has more than {base.MAX_ITEM_BYTES} bytes")
        return cls(name, fields)

    @property
    def has_array_fields(self) -> bool:
        """True if a field, at any depth, has dimensions; Zarr v3 documents cannot express this."""
        return any(
            field.shape or (isinstance(field.data_type, StructType) and field.data_type.has_array_fields)
            for field in self.fields
        )

    @property
    def configuration(self) -> JsonMapping:
        if any(field.shape for field in self.fields):
            raise UnsupportedError(
                "a Zarr v3 struct cannot have array fields",
                hint="use one field or nested struct for each element",
            )
        if self.name == "structured":
            return {"fields": [[field.name, field.data_type.to_json()] for field in self.fields]}
        return {"fields": [{"name": f.name, "data_type": f.data_type.to_json()} for f in self.fields]}

    def fill_from_json(self, value: object) -> Scalar:
        if isinstance(value, str):
            data = base.decode_base64(value, self.dtype.itemsize)
            return np.frombuffer(data, self.stored_dtype("little")).astype(self.dtype)[0]
        if not isinstance(value, dict):
            raise bad(f"{show(value)} is not an object with the fields of the struct")
        if set(value) != {field.name for field in self.fields}:
            raise bad(f"the keys {show(list(value))} are not the fields of the struct")
        record = np.zeros((), self.dtype)
        for field in self.fields:
            try:
                record[field.name] = field.data_type.fill_from_json(value[field.name])
            except MetadataError as error:
                error.message = f"{field.name}: {error.message}"
                raise
        return record[()]

    def fill_to_json(self, value: object) -> Json:
        scalar = np.asarray(self.to_scalar(value), self.dtype)
        if self.name == "structured" or self.has_array_fields:
            return base.encode_base64(scalar.astype(self.stored_dtype("little")).tobytes())
        return {field.name: field.data_type.fill_to_json(scalar[field.name][()]) for field in self.fields}


for _names, _parse in (
    (("numpy.datetime64", "numpy.timedelta64"), base.TimeType.parse),
    (("fixed_length_utf32",), base.FixedTextType.parse),
    (("null_terminated_bytes", "raw_bytes"), base.FixedBytesType.parse),
    (("struct", "structured"), StructType.parse),
):
    for _name in _names:
        DATA_TYPES.register(_name, _parse)
