"""Parse and write the documents of Zarr v2: ``.zarray``, ``.zgroup``, ``.zattrs``.

Implements the Zarr v2 specification, and reads netcdf-c's deviations from it: unknown keys in ``.zarray`` and
``.zgroup`` (kept in ``extra``), fill values in lists, fill values of byte strings as plain text, and codec options as
strings. Rewritten documents keep the spelling of their values.

The drafts have the same codecs, data types and fill values. The v2 codec ``{"id": "zlib", "level": 4}`` becomes the v3
codec ``numcodecs.zlib`` with the other members as its configuration. Filters of numbers (``delta``,
``fixedscaleoffset``, …) precede the ``bytes`` codec; their dtypes become native, and ``bytes`` gets the byte order of
the chunk. Values of netcdf-c are normalized: an ``elementsize`` that is 0 or missing becomes the size of an element,
and numbers in strings become numbers.

A v2 ``dtype`` is numpy's type string (``"<f4"``, ``"|S8"``, ``"<M8[ns]"``) or a list of fields. It includes the byte
order; in v3, the ``bytes`` codec has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from nczarr.compression import NamedConfig
from nczarr.errors import MetadataError, NCZarrError, UnsupportedError, error_context
from nczarr.json_values import (
    Json,
    JsonMapping,
    JsonObject,
    as_list,
    as_object,
    as_text,
    bad,
    checked_list,
    checked_name,
    checked_object,
    checked_text,
    show,
)
from nczarr.lazy import pattern
from nczarr.zarr import types
from nczarr.zarr.chunk_keys import ChunkKeyEncoding
from nczarr.zarr.grids import RegularGrid, parse_chunk_shape, parse_shape
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, ParseCache, key_of
from nczarr.zarr.types import DataType, Endian, Scalar, StructType

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
    # For Python, 2.0 and 2 are equal; readers in other languages refuse the first.
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
        # zarr-python before 2.8 writes no such key.
        if separator not in (".", "/"):
            raise bad(f'dimension_separator: {show(separator)} is not "." or "/"')
        # netCDF-C writes the fill value of characters as plain text, and zarr-python in base64.
        raw_text = zarray["dtype"] == ">S1" or _by_netcdf(zarray, attributes)
        parts = tuple([zarray[key] for key in (*_ENCODING, "fill_value")])
        # Variables of a dataset share few encodings, so each is parsed once.
        key = key_of((parts, len(shape), raw_text))
        encoding = _encodings.get(key) or _encodings.keep(key, _encoding(zarray, len(shape), raw_text))
        data_type, codecs, fill = encoding
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


def _encoding(zarray: JsonMapping, ndim: int, raw_text: bool) -> Encoding:
    filters, endian = zarray["filters"], None
    if zarray["dtype"] == "|O":
        data_type = object_type(filters)
    else:
        data_type, endian = parse_v2_dtype(zarray["dtype"])
    codecs = codecs_from_v2(data_type, endian, ndim, zarray["order"], filters, zarray["compressor"])
    return data_type, codecs, parse_fill(data_type, zarray["fill_value"], endian, raw_text=raw_text)


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
    # They would be dropped without a word.
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
    grid = regular_grid(metadata, "Zarr v2", "dimension_names", "storage_transformers", "extensions")
    ndim, data_type = len(metadata.shape), metadata.data_type
    endian, order, filters, compressor = codecs_to_v2(metadata.codecs, ndim)
    # In the wrong byte order, these filters give other values in silence.
    if filters and any(item["id"] in ("delta", "fixedscaleoffset", "quantize", "astype") for item in filters):
        filters = [_ordered(item, endian) for item in filters]
    zarray: JsonObject = {
        "zarr_format": 2,
        "shape": list(metadata.shape),
        "chunks": list(grid.chunk_shape),
        "dtype": dtype_to_v2(data_type, endian),
        "compressor": compressor,
        "filters": filters,
        "order": order,
        "fill_value": None,
    }
    origin = metadata.origin or {}
    # Old readers of version 2 do not know the key, and "." is the default.
    if metadata.chunk_key_encoding.separator == "/" or "dimension_separator" in origin:
        zarray["dimension_separator"] = metadata.chunk_key_encoding.separator
    zarray.update(metadata.extra)
    parse = partial(parse_array, zattrs=metadata.attributes, place="")
    respell(zarray, {key: origin[key] for key in _ENCODING if key in origin}, parse)
    raw_text = zarray["dtype"] == ">S1" or _by_netcdf(metadata.extra, metadata.attributes)
    zarray["fill_value"] = fill_to_v2(data_type, metadata.fill_value, endian, raw_text=raw_text)
    respell(zarray, {key: origin[key] for key in ("fill_value",) if key in origin}, parse)
    result = {".zarray": zarray}
    if metadata.attributes:
        result[".zattrs"] = metadata.attributes
    return result


def _ordered(item: JsonObject, endian: Endian | None) -> JsonObject:
    # The dtypes of filters are native in memory; their output in a chunk has the byte order of the bytes codec.
    if endian != "big":
        return item
    return {
        option: as_text(setting).replace("<", ">", 1) or setting if option in _DTYPE_OPTIONS else setting
        for option, setting in item.items()
    }


def respell(document: JsonObject, spelled: JsonMapping, parse: Callable[[JsonObject], ArrayMetadata]) -> None:
    """Use another spelling of values in a document if it is equivalent: of all of them, or of each."""
    if not spelled:
        return
    with suppress(NCZarrError):
        meant = parse(document)
        for values in (spelled, *({key: value} for key, value in spelled.items())):
            with suppress(NCZarrError):
                if parse({**document, **values}) == meant:
                    document.update(values)


#: Filters that encode object arrays as bytes; ``vlen-array`` has the same format as ``vlen-bytes``.
VARIABLE_FILTERS = {"vlen-utf8": "vlen-utf8", "vlen-bytes": "vlen-bytes", "vlen-array": "vlen-bytes"}
_ON_NUMBERS = frozenset(("astype", "bitround", "delta", "fixedscaleoffset", "packbits", "quantize"))
_TO_BYTES = frozenset(("pcodec", "zfpy"))
_INTEGER = pattern(r"-?[0-9]{1,18}")
_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")


def object_type(filters: object) -> DataType:
    """Return the data type of a v2 array of dtype ``|O``, which its first filter defines.

    Raises
    ------
    UnsupportedError
        If the filter is not one of text, bytes or sequences (``pickle`` runs code from the data).

    Examples
    --------
    >>> object_type([{"id": "vlen-utf8"}]).name
    'string'
    """
    name = as_object(next(iter(as_list(filters)), None)).get("id")
    # In version 2, the dtype of objects says nothing of their type.
    if name == "vlen-utf8":
        return types.StringType()
    if as_text(name) in VARIABLE_FILTERS:
        return types.BytesType()
    raise UnsupportedError(
        f"dtype: the first filter of an object array is {show(name)}; supported: {', '.join(VARIABLE_FILTERS)}"
    )


def _codec(value: object, key: str, data_type: DataType) -> tuple[str, JsonObject]:
    item = checked_object(value, key, "an object with an id")
    name = checked_name(item.get("id"), f"{key}.id")
    # netcdf-c 4.9.1 and 4.9.2 write the numbers of a configuration as text.
    configuration = {
        option: int(setting) if _INTEGER.fullmatch(as_text(setting)) else setting
        for option, setting in item.items()
        if option != "id"
    }
    # netCDF-C writes 0, with which zarr-python and numcodecs decode garbage in silence.
    if name == "shuffle" and not configuration.get("elementsize"):
        configuration["elementsize"] = data_type.itemsize or 1
    if name == "blosc" and not configuration.get("typesize"):
        configuration["typesize"] = min(data_type.itemsize or 1, 255)
    return name, configuration


def _native(
    configuration: JsonObject, key: str, input_order: Endian | None
) -> tuple[JsonObject, Endian | None]:
    """Return the configuration of a filter with native dtypes, and the byte order of the filter's output."""
    result = dict(configuration)
    order: Endian | None = None
    # numcodecs interprets its input as its own dtype, without a check.
    for option in ("dtype", "decode_dtype", "astype", "encode_dtype"):  # the last one is that of the output
        text = configuration.get(option)
        if text is None:
            continue
        try:
            dtype = np.dtype(text)
        except (TypeError, ValueError):
            raise bad(f"{key}.{option}: {show(text)} is not a dtype") from None
        if dtype.hasobject:
            raise UnsupportedError(f"{key}.{option}: {show(text)} is a dtype of objects")
        result[option] = dtype.newbyteorder("=").str
        order = None if dtype.itemsize == 1 else "big" if dtype.str[0] == ">" else "little"
        # Decoded in the wrong order, the values are other ones, without an error.
        if option in ("dtype", "decode_dtype") and input_order and order and order != input_order:
            raise UnsupportedError(
                f"{key}.{option}: {show(text)}, but the input of the filter is {input_order}-endian"
            )
    return result, order


def codecs_from_v2(
    data_type: DataType, endian: Endian | None, ndim: int, order: object, filters: object, compressor: object
) -> tuple[NamedConfig, ...]:
    """Return the v3 codecs for the order, filters and compressor of a v2 array.

    Raises
    ------
    MetadataError
        If one of them is invalid.
    UnsupportedError
        If a filter of numbers follows a filter of bytes, or has another byte order than its input.

    Examples
    --------
    >>> from nczarr.zarr.types import data_type_for
    >>> for codec in codecs_from_v2(data_type_for("i4"), "little", 2, "F",
    ...                             [{"id": "shuffle", "elementsize": "0"}], {"id": "zlib", "level": "4"}):
    ...     print(codec.name, dict(codec.configuration))
    transpose {'order': [1, 0]}
    bytes {'endian': 'little'}
    numcodecs.shuffle {'elementsize': 4}
    numcodecs.zlib {'level': 4}
    """
    if order not in ("C", "F"):
        raise bad(f'order: {show(order)} is not "C" or "F"')
    codecs: list[NamedConfig] = []
    if order == "F" and ndim > 1:
        codecs.append(NamedConfig("transpose", {"order": list(range(ndim))[::-1]}))
    in_bytes = False
    items = [] if filters in (None, {}) else checked_list(filters, "filters")
    steps = [(f"filters[{i}]", item) for i, item in enumerate(items)]
    for key, item in [*steps, ("compressor", compressor)] if compressor is not None else steps:
        name, configuration = _codec(item, key, data_type)
        if not in_bytes and data_type.is_variable and name in VARIABLE_FILTERS:
            codecs.append(NamedConfig(VARIABLE_FILTERS[name]))
            in_bytes = True
            continue
        if name in _ON_NUMBERS or name in _TO_BYTES:
            # Version 3 has no codec on numbers behind one on bytes.
            if in_bytes:
                raise UnsupportedError(f"{key}: the filter {name!r} follows a filter whose output is bytes")
            configuration, output = _native(configuration, key, endian)
            if name == "packbits":
                endian = None
            elif "dtype" in configuration or "encode_dtype" in configuration:
                endian = output
            in_bytes = name in _TO_BYTES
        elif not in_bytes:
            codecs.append(_to_bytes(endian))
            in_bytes = True
        codecs.append(NamedConfig(f"numcodecs.{name}", configuration))
    if not in_bytes:
        codecs.append(_to_bytes(endian))
    return tuple(codecs)


def _to_bytes(endian: Endian | None) -> NamedConfig:
    return NamedConfig("bytes", {"endian": endian} if endian else {})


def codecs_to_v2(
    codecs: Sequence[NamedConfig], ndim: int
) -> tuple[Endian | None, str, list[JsonObject] | None, JsonObject | None]:
    """Return byte order, ``order``, ``filters`` and ``compressor`` of a v2 array for v3 codecs.

    The last bytes-to-bytes codec becomes the compressor.

    Raises
    ------
    UnsupportedError
        If v2 has no such codec, or not at this position.

    Examples
    --------
    >>> codecs_to_v2([NamedConfig("bytes", {"endian": "big"}), NamedConfig("numcodecs.shuffle", {"elementsize": 4}),
    ...               NamedConfig("gzip", {"level": 1})], 1)
    ('big', 'C', [{'id': 'shuffle', 'elementsize': 4}], {'id': 'gzip', 'level': 1})
    """
    order, endian, in_bytes = "C", None, False
    filters: list[JsonObject] = []
    on_bytes: list[JsonObject] = []
    for i, codec in enumerate(codecs):
        name = codec.name.removeprefix("numcodecs.")
        if codec.name == "transpose":
            permutation = list(codec.configuration.get("order", ()))
            # Order F is the one transposition that version 2 has.
            if i or permutation not in (list(range(ndim)), list(range(ndim))[::-1]):
                raise UnsupportedError(f"codecs[{i}]: Zarr v2 supports no transpose except order F")
            order = "F" if ndim > 1 and permutation[0] else "C"
        elif codec.name == "bytes":
            endian, in_bytes = codec.configuration.get("endian"), True
        elif codec.name in ("vlen-utf8", "vlen-bytes"):
            filters.append({"id": codec.name})
            in_bytes = True
        elif in_bytes:
            on_bytes.append(_v2_codec(codec, i))
        elif codec.name.startswith("numcodecs.") and (name in _ON_NUMBERS or name in _TO_BYTES):
            (on_bytes if name in _TO_BYTES else filters).append({"id": name, **codec.configuration})
            in_bytes = name in _TO_BYTES
        elif codec.name == "bitround":
            filters.append({"id": "bitround", **codec.configuration})
        else:
            raise UnsupportedError(f"codecs[{i}]: Zarr v2 has no codec {codec.name!r}")
    # Version 2 has one compressor, the last step; all others are filters.
    compressor = on_bytes.pop() if on_bytes else None
    return endian, order, [*filters, *on_bytes] or None, compressor


#: The members of codecs with a v3 name in v2's form, with their defaults.
_V2_FORMS: dict[str, JsonObject] = {
    "blosc": {"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "blocksize": 0},
    "gzip": {"level": 5},
    "zstd": {"level": 0, "checksum": False},
}


def _v2_codec(codec: NamedConfig, i: int) -> JsonObject:
    if codec.name.startswith("numcodecs."):
        result = {"id": codec.name.removeprefix("numcodecs."), **codec.configuration}
        # Version 2 has no typesize: a reader takes that of the dtype.
        if result["id"] == "blosc":
            result.pop("typesize", None)
        return result
    if codec.name not in _V2_FORMS:
        raise UnsupportedError(f"codecs[{i}]: Zarr v2 has no codec {codec.name!r}")
    result = {"id": codec.name}
    for option, default in _V2_FORMS[codec.name].items():
        result[option] = codec.configuration.get(option, default)
    # Version 2 has numbers where version 3 has words.
    if result.get("shuffle") in _SHUFFLES:
        result["shuffle"] = _SHUFFLES.index(result["shuffle"])
    # Older versions of numcodecs do not know this option of zstd.
    if not result.get("checksum", True):
        del result["checksum"]
    return result


def regular_grid(metadata: ArrayMetadata, version: str, *without: str) -> RegularGrid:
    """Return the grid of an array whose chunks v2 and the draft can describe.

    Raises
    ------
    UnsupportedError
        If the version has no such grid or keys, or if one of the fields `without` is not empty.
    """
    if not isinstance(metadata.chunk_grid, RegularGrid):
        raise UnsupportedError(f"chunk_grid: {version} supports only regular chunk grids")
    if metadata.chunk_key_encoding.name != "v2":
        raise UnsupportedError(f'chunk_key_encoding: {version} supports only the encoding "v2"')
    for key in without:
        if getattr(metadata, key):
            raise UnsupportedError(f"{key}: {version} has no {key.replace('_', ' ')}")
    return metadata.chunk_grid


_TYPE = pattern(r"([<>|=]?)([biufcSUVMm])([0-9]{0,10})(\[[0-9A-Za-zμ]+\])?")
_FLOAT_NAMES = {
    "nan": "NaN",
    "inf": "Infinity",
    "infinity": "Infinity",
    "-inf": "-Infinity",
    "-infinity": "-Infinity",
}


def parse_v2_dtype(value: object, key: str = "dtype") -> tuple[DataType, Endian | None]:
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
    if not as_list(value):
        raise bad(f"{key}: {show(value)} is not a data type")
    fields = []
    orders: set[Endian | None] = set()
    for i, item in enumerate(as_list(value)):
        where = f"{key}[{i}]"
        name, *rest = as_list(item) or [None]
        if len(rest) not in (1, 2) or not as_text(name):
            raise bad(f"{where}: {show(item)} is not a field")
        data_type, order = parse_v2_dtype(rest[0], where)
        orders.add(order)
        fields.append(types.StructField(name, data_type, parse_shape(rest[1], where) if rest[1:] else ()))
    orders.discard(None)
    # The bytes codec has one byte order for all fields.
    if len(orders) > 1:
        raise UnsupportedError(f"{key}: the fields have different byte orders")
    try:
        return StructType.checked("struct", tuple(fields)), next(iter(orders), None)
    except MetadataError as error:
        error.message = error.message.replace("configuration.fields", key, 1)
        raise


def _simple(value: str, key: str) -> tuple[DataType, Endian | None]:
    if value == "bool":  # the drafts' name
        return types.BoolType(), None
    match = _TYPE.fullmatch(value)
    if match is None:
        raise bad(f"{key}: {show(value)} is not a known data type")
    try:
        dtype = np.dtype(value)
        # numpy reads S and U as texts without a character.
        if dtype.kind in "SUV" and not dtype.itemsize:
            raise bad(f"{key}: {show(value)} has no length")
        data_type = types.data_type_for(dtype)
    except (TypeError, ValueError, UnsupportedError):
        raise bad(f"{key}: {show(value)} is not a known data type") from None
    if not data_type.needs_endian:
        return data_type, None
    # The mark = and a missing mark mean the byte order of the machine that reads.
    order = match[1] if match[1] in "<>" and match[1] else dtype.str[0]
    return data_type, "big" if order == ">" else "little"


def dtype_to_v2(data_type: DataType, endian: Endian | None) -> Json:
    """Return the v2 ``dtype`` for a data type in a byte order.

    Raises
    ------
    UnsupportedError
        If v2 has no such type.

    Examples
    --------
    >>> from nczarr.zarr.types import parse_data_type
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


def _type_in_v2(data_type: DataType) -> DataType:
    """Return the type that a v2 document has for one of another package, which it can name by its dtype alone.

    The fill value in the form of that package would be illegal there.
    """
    is_known = data_type.name in types.BUILT_IN or data_type.dtype.kind not in "biufcmM"
    # A type of another package with the dtype M8[s] got 1970 as its fill value.
    return data_type if is_known else types.data_type_for(data_type.dtype)


def fill_from_v2(
    data_type: DataType, value: Json, endian: Endian | None, *, raw_text: bool = False
) -> Scalar:
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
    >>> from nczarr.zarr.types import parse_data_type
    >>> int(fill_from_v2(parse_data_type("int16"), [-99], "little"))
    -99
    """
    if len(as_list(value)) == 1:
        # netCDF-C writes a list of one fill value.
        value = value[0]
    if value is None:
        return None
    data_type = _type_in_v2(data_type)
    kind = data_type.dtype.kind
    if kind in "biu":
        return data_type.fill_from_json(_whole_number(value, bool if kind == "b" else int))
    if kind == "f":
        return data_type.fill_from_json(_float_name(value))
    if kind == "c":
        parts = as_list(value) or [value, 0.0]
        return data_type.fill_from_json([_float_name(part) for part in parts])
    if kind not in "mM" and type(value) is int and value == 0:
        return data_type.zero()  # zarr-python 2's default for every type
    if kind in "mMU" or data_type.name == "string":
        return data_type.fill_from_json(value)
    text = checked_text(value)
    if isinstance(data_type, StructType):
        data = types.decode_base64(text, data_type.dtype.itemsize)
        return np.frombuffer(data, data_type.stored_dtype(endian)).astype(data_type.dtype)[0]
    return _bytes_fill(data_type, text, raw_text)


def _whole_number(value: Json, kind: type[bool | int]) -> Json:
    """Return a number without a fraction as the kind: writers of v2 spell 1 as ``1.0`` or ``true``, and false as 0."""
    try:
        return kind(value) if value == kind(value) and not as_text(value) else value
    except (
        TypeError,
        ValueError,
        OverflowError,
    ):  # a text, a list, not a number: the data type has the error
        return value


def parse_fill(data_type: DataType, value: Json, endian: Endian | None, *, raw_text: bool = False) -> Scalar:
    """Return the fill value of a document; errors name its key."""
    try:
        return fill_from_v2(data_type, value, endian, raw_text=raw_text)
    except NCZarrError as error:
        error.message = f"fill_value: {error.message}"
        raise


def _float_name(value: object) -> Json:
    return _FLOAT_NAMES.get(as_text(value).lower(), value)


def _bytes_fill(data_type: DataType, value: str, raw_text: bool) -> Scalar:
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
    return data_type.to_scalar(data if data_type.is_variable else data[: data_type.itemsize])


def fill_to_v2(data_type: DataType, value: object, endian: Endian | None, *, raw_text: bool = False) -> Json:
    """Return a fill value as JSON of a v2 document; the inverse of `fill_from_v2`.

    The payload of a NaN is lost: v2 has only ``"NaN"``.

    Examples
    --------
    >>> from nczarr.zarr.types import data_type_for
    >>> fill_to_v2(data_type_for("S4"), b"ab", None), fill_to_v2(data_type_for("S4"), b"ab", None, raw_text=True)
    ('YWI=', 'ab')
    """
    if value is None:
        return None
    data_type = _type_in_v2(data_type)
    if isinstance(data_type, StructType):
        return types.encode_base64(
            np.asarray(value, data_type.dtype).astype(data_type.stored_dtype(endian)).tobytes()
        )
    kind = data_type.dtype.kind
    if kind == "V":
        return types.encode_base64(data_type.to_scalar(value).tobytes())
    if raw_text and (data_type.dtype.kind == "S" or (data_type.is_variable and data_type.name != "string")):
        return bytes(data_type.to_scalar(value)).decode("utf-8", "surrogateescape")
    result = data_type.fill_to_json(value)
    if kind == "c":
        return [_plain_nan(part) for part in result]
    return _plain_nan(result) if kind == "f" else result


def _plain_nan(value: object) -> Json:
    return types.special_number_word(math.nan) if as_text(value).startswith("0x") else value
