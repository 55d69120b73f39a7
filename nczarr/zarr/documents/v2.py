"""Parse and write the documents of Zarr v2: ``.zarray``, ``.zgroup``, ``.zattrs``.

Implements the Zarr v2 specification, and reads netcdf-c's deviations from it: unknown keys in ``.zarray`` and
``.zgroup`` (kept in ``extra``), fill values in lists, fill values of byte strings as plain text, and codec options as
strings. Rewritten documents keep the spelling of their values.
"""

from __future__ import annotations

import numpy as np

from nczarr.errors import NCZarrError, UnsupportedError, error_context
from nczarr.zarr.chunk_keys import ChunkKeyEncoding
from nczarr.zarr.documents import v2_encoding as encoding
from nczarr.zarr.documents.json import ParseCache
from nczarr.zarr.grids import RegularGrid, parse_chunk_shape, parse_shape
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, NamedConfig
from nczarr.zarr.types import DataType, Endian, Json, JsonMapping, JsonObject, Scalar, bad, show

_REQUIRED = frozenset(("shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters"))
_KEYS = frozenset(("zarr_format", *_REQUIRED, "dimension_separator"))
_SPELLED = ("dtype", "compressor", "filters", "order", "fill_value", "dimension_separator")
_ENCODING = ("dtype", "compressor", "filters", "order")
_DTYPE_OPTIONS = ("dtype", "astype", "encode_dtype", "decode_dtype")
_NETCDF_KEYS = frozenset(("_nczarr_array", "_NCZARR_ARRAY", "_nczarr_attr", "_NCZARR_ATTR", "_nczarr_attrs"))
_DOT, _SLASH = ChunkKeyEncoding("v2", "."), ChunkKeyEncoding("v2", "/")
Encoding = tuple[DataType, tuple[NamedConfig, ...], Scalar]
_encodings = ParseCache[Encoding]()


def _check_format(document: JsonMapping) -> None:
    version = document.get("zarr_format")
    if type(version) is not int or version != 2:
        raise bad(f"zarr_format: {show(version)} is not 2")


def _by_netcdf(*parts: JsonMapping) -> bool:
    return any(not part.keys().isdisjoint(_NETCDF_KEYS) for part in parts)


def parse_group(zgroup: JsonMapping, zattrs: JsonObject | None, place: str) -> GroupMetadata:
    """Return the metadata of a v2 group.

    Parameters
    ----------
    zgroup : dict
        The ``.zgroup`` document.
    zattrs : dict or None
        The ``.zattrs`` document, if it exists; not copied.
    place : str
        The location of ``.zgroup``, for messages.

    Raises
    ------
    MetadataError

    Examples
    --------
    >>> parse_group({"zarr_format": 2}, {"title": "x"}, "a/.zgroup").attributes
    {'title': 'x'}
    """
    with error_context(place):
        _check_format(zgroup)
    return GroupMetadata(zattrs or {}, extra={k: v for k, v in zgroup.items() if k != "zarr_format"})


def parse_array(zarray: JsonMapping, zattrs: JsonObject | None, place: str) -> ArrayMetadata:
    """Return the metadata of a v2 array in their v3 form.

    Parameters
    ----------
    zarray : dict
        The ``.zarray`` document.
    zattrs : dict or None
        The ``.zattrs`` document, if it exists; not copied.
    place : str
        The location of ``.zarray``, for messages.

    Raises
    ------
    MetadataError
        If a document is invalid; the message has the document and the key.
    UnsupportedError
        If the array is valid, but nczarr cannot represent it.

    Examples
    --------
    >>> m = parse_array({"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": ">i4", "fill_value": -1,
    ...                  "compressor": {"id": "zlib", "level": 1}, "order": "C", "filters": None}, None, "v/.zarray")
    >>> m.data_type.name, [codec.name for codec in m.codecs], m.chunk_key_encoding.key((1,))
    ('int32', ['bytes', 'numcodecs.zlib'], '1')
    """
    attributes = zattrs or {}
    with error_context(place):
        _check_format(zarray)
        if not zarray.keys() >= _REQUIRED:
            raise bad(f"{', '.join(sorted(_REQUIRED - zarray.keys()))}: missing")
        shape = parse_shape(zarray["shape"])
        separator = zarray.get("dimension_separator") or "."
        if separator not in (".", "/"):
            raise bad(f'dimension_separator: {show(separator)} is not "." or "/"')
        raw_text = zarray["dtype"] == ">S1" or _by_netcdf(zarray, attributes)
        parts = tuple([zarray[key] for key in (*_ENCODING, "fill_value")])
        data_type, codecs, fill = _encodings.get(
            (parts, len(shape), raw_text), lambda: _shared(zarray, len(shape), raw_text)
        )
        return ArrayMetadata._make(
            shape=shape,
            data_type=data_type,
            chunk_grid=RegularGrid(parse_chunk_shape(zarray["chunks"], shape, "chunks")),
            chunk_key_encoding=_SLASH if separator == "/" else _DOT,
            fill_value=fill,
            codecs=codecs,
            attributes=attributes,
            dimension_names=None,
            storage_transformers=(),
            extensions=(),
            extra={} if zarray.keys() <= _KEYS else {k: v for k, v in zarray.items() if k not in _KEYS},
            origin={key: zarray[key] for key in _SPELLED if key in zarray},
        )


def _shared(zarray: JsonMapping, ndim: int, raw_text: bool) -> Encoding:
    data_type, endian, codecs = _encoding(zarray, ndim)
    return data_type, codecs, encoding.parse_fill(data_type, zarray["fill_value"], endian, raw_text=raw_text)


def _encoding(parts: JsonMapping, ndim: int) -> tuple[DataType, Endian | None, tuple[NamedConfig, ...]]:
    if parts["dtype"] == "|O":
        data_type, endian = encoding.object_type(parts["filters"]), None
    else:
        data_type, endian = encoding.parse_v2_dtype(parts["dtype"])
    codecs = encoding.codecs_from_v2(
        data_type, endian, ndim, parts["order"], parts["filters"], parts["compressor"]
    )
    return data_type, endian, codecs


def group_documents(metadata: GroupMetadata) -> dict[str, JsonObject]:
    """Return the documents of a v2 group by name; ``.zattrs`` only if there are attributes.

    Raises
    ------
    UnsupportedError
        If the group has extensions.

    Examples
    --------
    >>> group_documents(GroupMetadata({"title": "x"}))
    {'.zgroup': {'zarr_format': 2}, '.zattrs': {'title': 'x'}}
    """
    if metadata.extensions:
        raise UnsupportedError("extensions: Zarr v2 has no extensions")
    result: dict[str, JsonObject] = {".zgroup": {"zarr_format": 2, **metadata.extra}}
    if metadata.attributes:
        result[".zattrs"] = metadata.attributes
    return result


def array_documents(metadata: ArrayMetadata) -> dict[str, JsonObject]:
    """Return the documents of a v2 array by name; ``.zattrs`` only if there are attributes.

    A value of `metadata.origin` is written unchanged if it is equivalent to the metadata. So a caller can choose a
    spelling (``{"dtype": ">S1"}``).

    Raises
    ------
    UnsupportedError
        If v2 cannot represent a part of the metadata; the message names it.
    """
    grid = encoding.regular_grid(metadata, "Zarr v2", "dimension_names", "storage_transformers", "extensions")
    ndim, data_type = len(metadata.shape), metadata.data_type
    endian, order, filters, compressor = encoding.codecs_to_v2(metadata.codecs, ndim)
    if filters and any(item["id"] in ("delta", "fixedscaleoffset", "quantize", "astype") for item in filters):
        filters = [_ordered(item, endian) for item in filters]
    parts = {
        "dtype": encoding.dtype_to_v2(data_type, endian),
        "compressor": compressor,
        "filters": filters,
        "order": order,
    }
    origin = metadata.origin or {}
    parts = _respell(parts, origin, metadata)
    raw_text = parts["dtype"] == ">S1" or _by_netcdf(metadata.extra, metadata.attributes)
    fill = encoding.fill_to_v2(data_type, metadata.fill_value, endian, raw_text=raw_text)
    if "fill_value" in origin and _same_fill(
        data_type, origin["fill_value"], metadata.fill_value, endian, raw_text
    ):
        fill = origin["fill_value"]
    zarray: JsonObject = {
        "zarr_format": 2,
        "shape": list(metadata.shape),
        "chunks": list(grid.chunk_shape),
        **parts,
        "fill_value": fill,
    }
    if metadata.chunk_key_encoding.separator == "/" or "dimension_separator" in origin:
        zarray["dimension_separator"] = metadata.chunk_key_encoding.separator
    zarray.update(metadata.extra)
    result = {".zarray": zarray}
    if metadata.attributes:
        result[".zattrs"] = metadata.attributes
    return result


def _ordered(item: JsonObject, endian: Endian | None) -> JsonObject:
    # The dtypes of filters are native in memory; their output in a chunk has the byte order of the bytes codec.
    if endian != "big":
        return item
    return {
        option: setting.replace("<", ">", 1)
        if option in _DTYPE_OPTIONS and isinstance(setting, str)
        else setting
        for option, setting in item.items()
    }


def _respell(parts: JsonObject, origin: JsonMapping, metadata: ArrayMetadata) -> JsonObject:
    """Use the spelling of `origin` if it is equivalent to the metadata: all of it, or only the dtype."""
    spellings = {key: origin[key] for key in _ENCODING if key in origin}
    for candidate in (spellings, {key: spellings[key] for key in ("dtype",) if key in spellings}):
        if not candidate:
            continue
        spelled = {**parts, **candidate}
        try:
            data_type, _, codecs = _encoding(spelled, len(metadata.shape))
        except NCZarrError:
            continue
        if data_type == metadata.data_type and _same_codecs(codecs, metadata):
            return spelled
    return parts


def _same_codecs(codecs: tuple[NamedConfig, ...], metadata: ArrayMetadata) -> bool:
    if codecs == metadata.codecs:
        return True
    # Codecs of a v3 document may have other names and convert to the same v2 codecs.
    ndim = len(metadata.shape)
    return encoding.codecs_to_v2(codecs, ndim) == encoding.codecs_to_v2(metadata.codecs, ndim)


def _same_fill(
    data_type: DataType, spelled: Json, value: Scalar, endian: Endian | None, raw_text: bool
) -> bool:
    try:
        read = encoding.fill_from_v2(data_type, spelled, endian, raw_text=raw_text)
    except NCZarrError:
        return False
    if read is None or value is None:
        return read is value
    if isinstance(read, np.datetime64 | np.timedelta64):  # numpy has no repr of generic units
        return bool(read.dtype == value.dtype and read.tobytes() == value.tobytes())
    return bool(data_type.fill_to_json(read) == data_type.fill_to_json(value)) and repr(read) == repr(value)
