"""Define the data type of packed records: ``struct``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nczarr.errors import MetadataError, UnsupportedError
from nczarr.lazy import cached_property
from nczarr.zarr.types.base import MAX_ITEM_BYTES, DataType, bad, show
from nczarr.zarr.types.text import decode_base64, encode_base64


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
    def parse(
        cls, name: str, configuration: Mapping[str, Any], parse_data_type: Callable[[Any], DataType]
    ) -> StructType:
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
                if not 1 <= length <= MAX_ITEM_BYTES:
                    raise bad(f"configuration.fields: {field.name!r} has a dimension of length {length}")
                count *= length
            size += field.data_type.itemsize * count
            if size > MAX_ITEM_BYTES:
                raise bad(f"configuration.fields: the record has more than {MAX_ITEM_BYTES} bytes")
        return cls(name, fields)

    @property
    def has_array_fields(self) -> bool:
        """True if a field, at any depth, has dimensions; Zarr v3 documents cannot express this."""
        return any(
            field.shape or (isinstance(field.data_type, StructType) and field.data_type.has_array_fields)
            for field in self.fields
        )

    @property
    def configuration(self) -> Mapping[str, Any]:
        if any(field.shape for field in self.fields):
            raise UnsupportedError(
                "a Zarr v3 struct cannot have array fields",
                hint="use one field or nested struct for each element",
            )
        if self.name == "structured":
            return {"fields": [[field.name, field.data_type.to_json()] for field in self.fields]}
        return {"fields": [{"name": f.name, "data_type": f.data_type.to_json()} for f in self.fields]}

    def fill_from_json(self, value: Any) -> Any:
        if isinstance(value, str):
            data = decode_base64(value, self.dtype.itemsize)
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

    def fill_to_json(self, value: Any) -> Any:
        scalar = np.asarray(self.to_scalar(value), self.dtype)
        if self.name == "structured" or self.has_array_fields:
            return encode_base64(scalar.astype(self.stored_dtype("little")).tobytes())
        return {field.name: field.data_type.fill_to_json(scalar[field.name][()]) for field in self.fields}
