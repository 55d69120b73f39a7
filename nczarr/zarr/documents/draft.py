"""Parse and write the documents of the 2019 draft "Zarr core protocol version 3.0" and its descendants.

The draft has one bootstrap document, ``zarr.json``, and one document for each node (``meta/root/g/v.array``,
``meta/root/g.group``). The experimental API of zarr-python 2.13 to 2.18 wrote a later form (``.array.json``). nczarr
reads both and writes the 2019 form. The parser converts documents to v3 metadata: ``chunk_memory_layout`` and
``compressor`` become codecs, and the byte order in ``data_type`` becomes that of the ``bytes`` codec.

Extensions cover features outside the draft's core: records, byte strings, text and times are extension data types
whose ``type`` is numpy's type string; further codecs besides one compressor are the extension ``filters``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

from nczarr.compression import NamedConfig
from nczarr.errors import MetadataError, error_context
from nczarr.json_values import (
    Json,
    JsonMapping,
    JsonObject,
    as_list,
    as_object,
    as_text,
    bad,
    checked_flag,
    checked_list,
    checked_object,
    member,
    show,
)
from nczarr.lazy import pattern
from nczarr.zarr.chunk_keys import ChunkKeyEncoding
from nczarr.zarr.documents import v2 as encoding
from nczarr.zarr.documents.extensions import apply_on_metadata, find_extension
from nczarr.zarr.grids import RegularGrid, parse_chunk_shape, parse_shape
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata
from nczarr.zarr.types import DataType, Endian

CORE_URI = "http://purl.org/zarr/spec/protocol/core/3.0"
_CODEC_URI = "http://purl.org/zarr/spec/codec/{}/1.0"
_DATETIME_URI = "http://purl.org/zarr/spec/protocol/extensions/datetime-dtypes/1.0"
_FILTERS_URI = "http://purl.org/zarr/spec/protocol/extensions/filters/1.0"
_DTYPE_URI = "https://numpy.org/doc/stable/reference/arrays.dtypes.html"
#: Writers of the draft differ in the host, the plural and the version of these URIs.
_CODEC = pattern(r"https?://(?:www\.)?purl\.org/zarr/spec/codecs?/([A-Za-z0-9_.\-]+?)(?:/v?[0-9.]+)?/?")
_VERSION = pattern(r"https?://.+/(?:v)?([0-9]+)(?:\.[0-9]+)*(?:/.*)?")
_CORE_TYPE = pattern(r"bool|[iu]1|[<>][iu][248]|[<>]f[248]|[<>]c(?:8|16)")
_REQUIRED = ("shape", "data_type", "chunk_grid", "fill_value")
_ARRAY_KEYS = frozenset({
    *_REQUIRED, "zarr_format", "chunk_memory_layout", "compressor", "chunk_codecs", "extensions", "attributes",
})  # fmt: skip
_GROUP_KEYS = frozenset(("zarr_format", "extensions", "attributes"))
_SPELLED = ("data_type", "compressor", "chunk_memory_layout", "fill_value")


def bootstrap_document() -> JsonObject:
    """Return the bootstrap document of a new hierarchy.

    Examples
    --------
    >>> bootstrap_document()["metadata_encoding"]
    'application/json'
    """
    return {"zarr_format": CORE_URI, "metadata_encoding": "application/json", "extensions": []}


def check_bootstrap(document: JsonMapping, place: str) -> None:
    """Check the version, the encoding and the extensions of a bootstrap document.

    Unknown names are ignored, as the draft requires for every version 3.x.

    Raises
    ------
    MetadataError
        If the version or the encoding is unknown, or an extension that must be understood.
    """
    with error_context(place):
        _check_version(document.get("zarr_format"))
        encoding = document.get("metadata_encoding", "application/json")
        # The experimental form of zarr-python 2.13 to 2.18 has the URI of the specification here.
        if encoding != "application/json" and not _VERSION.fullmatch(as_text(encoding)):
            raise bad(f"metadata_encoding: {show(encoding)} is unknown")
        _extensions(document)


def _check_version(value: object) -> None:
    match = _VERSION.fullmatch(as_text(value))
    if match is None or match[1] != "3":
        raise bad(f"zarr_format: {show(value)} is not the URI of version 3.x")


def _extensions(document: JsonMapping) -> tuple[NamedConfig, ...]:
    entries = []
    for i, item in enumerate(checked_list(document.get("extensions", []), "extensions")):
        uri = as_text(as_object(item).get("extension"))
        if not uri:
            raise bad(f"extensions[{i}]: {show(item)} is not an object with the URI of an extension")
        must_understand = checked_flag(item.get("must_understand", True), f"extensions[{i}].must_understand")
        # An unknown extension may give the stored bytes another meaning.
        if must_understand and uri != _FILTERS_URI and find_extension(uri) is None:
            raise MetadataError(f"extensions[{i}]: the extension {uri!r} must be understood, but is unknown")
        rest = {key: setting for key, setting in item.items() if key not in ("extension", "must_understand")}
        entries.append(NamedConfig(uri, rest, must_understand))
    return tuple(entries)


def parse_group(document: JsonMapping, place: str) -> GroupMetadata:
    """Return the metadata of a group of the draft.

    Examples
    --------
    >>> parse_group({"extensions": [], "attributes": {"spam": "ham"}}, "meta/root.group").attributes
    {'spam': 'ham'}
    """
    with error_context(place):
        if "zarr_format" in document:
            _check_version(document["zarr_format"])
        extra = {key: value for key, value in document.items() if key not in _GROUP_KEYS}
        attributes = checked_object(document.get("attributes", {}), "attributes")
        return apply_on_metadata(GroupMetadata(attributes, _extensions(document), extra))


def deviations(document: JsonMapping, is_array: bool) -> Iterator[str]:
    """Yield the deviations of a document from the 2019 draft that the parser tolerates.

    Examples
    --------
    >>> list(deviations({"attributes": {}}, False))
    ['extensions: missing']
    """
    required = ("extensions", "attributes", *(("chunk_memory_layout",) if is_array else ()))
    yield from (f"{key}: missing" for key in required if key not in document)
    known = _ARRAY_KEYS if is_array else _GROUP_KEYS
    yield from (f"{show(key)}: the draft reserves all other names" for key in document if key not in known)
    for i, entry in enumerate(_extensions(document)):
        written = document["extensions"][i]
        if "must_understand" not in written:
            yield f"extensions[{i}].must_understand: missing ({entry.name})"
    data_type: Json = document.get("data_type")
    if _has_wrong_fallback(data_type):
        yield f"data_type.fallback: {show(data_type['fallback'])} is not a data type of the core protocol"


def _has_wrong_fallback(data_type: Json) -> bool:
    given = as_object(data_type)
    return "fallback" in given and not _CORE_TYPE.fullmatch(as_text(given["fallback"]))


def _codec_id(item: object, key: str) -> JsonObject:
    """Return a codec of the draft as a v2 codec."""
    codec = checked_object(item, key, "an object with a codec")
    uri = codec.get("codec")
    match = _CODEC.fullmatch(as_text(uri))
    if match is None:
        raise bad(f"{key}.codec: {show(uri)} is not the URI of a known codec")
    configuration = checked_object(codec.get("configuration", {}), f"{key}.configuration")
    inline = {option: value for option, value in codec.items() if option not in ("codec", "configuration")}
    return {**inline, **configuration, "id": match[1]}


def _codec_document(item: JsonMapping) -> JsonObject:
    configuration = {key: value for key, value in item.items() if key != "id"}
    return {"codec": _CODEC_URI.format(item["id"]), "configuration": configuration}


def _data_type(value: object, filters: object) -> tuple[DataType, Endian | None]:
    if isinstance(value, str):
        if not _CORE_TYPE.fullmatch(value):
            raise bad(f"data_type: {show(value)} is not a data type of the core protocol")
        return encoding.parse_v2_dtype(value, "data_type")
    given = as_object(value)
    if not as_text(given.get("extension")) or "type" not in given:
        raise bad(f"data_type: {show(value)} is not a data type, or an object with extension and type")
    try:
        # The dtype of objects says nothing of their type; their first filter does.
        if given["type"] == "|O":
            return encoding.object_type(filters), None
        return encoding.parse_v2_dtype(given["type"], "data_type.type")
    except MetadataError:
        # The draft lets a reader that does not know an extension use the named type of the core instead.
        fallback = as_text(given.get("fallback"))
        if _CORE_TYPE.fullmatch(fallback):
            return encoding.parse_v2_dtype(fallback, "data_type.fallback")
        raise


def _filters(document: JsonMapping, extensions: tuple[NamedConfig, ...], attributes: JsonObject) -> Json:
    for entry in extensions:
        if entry.name == _FILTERS_URI:
            items = checked_list(entry.configuration.get("filters"), "extensions: filters")
            return [_codec_id(item, f"filters[{i}]") for i, item in enumerate(items)]
    # zarr-python's draft arrays have their filters among the attributes. A program may have an attribute of this name.
    filters = as_list(attributes.get("filters"))
    return filters if filters and all("id" in as_object(f) for f in filters) else None


def _grid(value: object, shape: tuple[int, ...]) -> tuple[RegularGrid, Literal["/", "."]]:
    grid = checked_object(value, "chunk_grid")
    if grid.get("type") != "regular":
        raise bad(f"chunk_grid.type: the grid {show(grid.get('type'))} is unknown")
    separator = grid.get("separator", ".")
    if separator not in (".", "/"):
        raise bad(f'chunk_grid.separator: {show(separator)} is not "." or "/"')
    return RegularGrid(parse_chunk_shape(grid.get("chunk_shape"), shape, "chunk_grid.chunk_shape")), separator


def parse_array(document: JsonMapping, place: str, *, experimental: bool = False) -> ArrayMetadata:
    """Return the metadata of an array of the draft in their v3 form.

    Parameters
    ----------
    place : str
        The location of the document, for messages.
    experimental : bool
        True: chunk keys have the later form (``c0/0``).

    Raises
    ------
    MetadataError, UnsupportedError

    Examples
    --------
    >>> m = parse_array({"shape": [4], "data_type": ">i2", "chunk_grid": {"type": "regular", "chunk_shape": [2]},
    ...                  "chunk_memory_layout": "C", "fill_value": None, "extensions": [], "attributes": {},
    ...                  "compressor": {"codec": "https://purl.org/zarr/spec/codec/gzip/1.0",
    ...                                 "configuration": {"level": 1}}}, "meta/root/v.array")
    >>> m.data_type.name, [codec.name for codec in m.codecs], m.fill_value
    ('int16', ['bytes', 'numcodecs.gzip'], None)
    """
    with error_context(place):
        # The drafts of the first months have the version in each document.
        if "zarr_format" in document:
            _check_version(document["zarr_format"])
        for key in _REQUIRED:
            if key not in document:
                raise bad(f"{key}: missing")
        attributes = checked_object(document.get("attributes", {}), "attributes")
        extensions = _extensions(document)
        filters = _filters(document, extensions, attributes)
        shape = parse_shape(document["shape"])
        data_type, endian = _data_type(document["data_type"], filters)
        grid, separator = _grid(document["chunk_grid"], shape)
        order = document.get("chunk_memory_layout", "C")
        if not as_text(order):
            raise bad(f"chunk_memory_layout: {show(order)} is unknown")
        # The codecs after the filters are a list, as in the draft's first months, or one compressor.
        items = checked_list(document.get("chunk_codecs", []), "chunk_codecs")
        steps = [_codec_id(item, f"chunk_codecs[{i}]") for i, item in enumerate(items)]
        last = None if "chunk_codecs" in document else document.get("compressor")
        compressor = None if last is None else _codec_id(last, "compressor")
        codecs = encoding.codecs_from_v2(
            data_type, endian, len(shape), order, (filters or []) + steps, compressor
        )
        if document.get("storage_transformers"):
            grid, codecs = _sharded(document["storage_transformers"], grid, codecs)
        # They are codecs now: a copy as attributes would be taken for filters again.
        if filters and "filters" in attributes and not any(e.name == _FILTERS_URI for e in extensions):
            attributes = {key: value for key, value in attributes.items() if key != "filters"}
        fill = encoding.parse_fill(data_type, document["fill_value"], endian)
        metadata = ArrayMetadata(
            shape=shape,
            data_type=data_type,
            chunk_grid=grid,
            chunk_key_encoding=ChunkKeyEncoding("experimental" if experimental else "v2", separator),
            fill_value=fill,
            codecs=codecs,
            attributes=attributes,
            extensions=tuple(entry for entry in extensions if entry.name != _FILTERS_URI),
            extra={k: v for k, v in document.items() if k not in _ARRAY_KEYS and k != "storage_transformers"},
            origin={key: document[key] for key in _SPELLED if key in document},
        )
        return apply_on_metadata(metadata)


def _sharded(
    value: object, grid: RegularGrid, codecs: tuple[NamedConfig, ...]
) -> tuple[RegularGrid, tuple[NamedConfig, ...]]:
    """Convert zarr-python's sharding storage transformer to the sharding codec, which has the same stored bytes."""
    items = as_list(value)
    settings = member(items[0], "configuration") if len(items) == 1 else {}
    if not settings or items[0].get("type") != "indexed":
        raise bad(f"storage_transformers: {show(value)} is unknown")
    key = "storage_transformers[0].configuration.chunks_per_shard"
    counts = parse_shape(settings.get("chunks_per_shard"), key)
    if len(counts) != len(grid.chunk_shape) or 0 in counts:
        raise bad(f"{key}: {show(list(counts))} is not a shape of {len(grid.chunk_shape)} positive integers")
    configuration = {
        "chunk_shape": list(grid.chunk_shape),
        "codecs": [codec.to_json() for codec in codecs],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "index_location": "end",
    }
    shards = tuple(chunk * count for chunk, count in zip(grid.chunk_shape, counts, strict=True))
    return RegularGrid(shards), (NamedConfig("sharding_indexed", configuration),)


def group_document(metadata: GroupMetadata) -> JsonObject:
    """Return the document of a group in the 2019 form.

    Examples
    --------
    >>> group_document(GroupMetadata({"spam": "ham"}))
    {'extensions': [], 'attributes': {'spam': 'ham'}}
    """
    return {"extensions": _extension_list(metadata), "attributes": metadata.attributes, **metadata.extra}


def _extension_list(metadata: ArrayMetadata | GroupMetadata) -> list[JsonObject]:
    return [
        {"extension": entry.name, "must_understand": entry.must_understand, **entry.configuration}
        for entry in metadata.extensions
    ]


def array_document(metadata: ArrayMetadata) -> JsonObject:
    """Return the document of an array in the 2019 form.

    Raises
    ------
    UnsupportedError
        If the draft cannot represent a part of the metadata; the message names it.
    """
    regular = encoding.regular_grid(metadata, "the 2019 draft", "dimension_names", "storage_transformers")
    endian, order, filters, compressor = encoding.codecs_to_v2(metadata.codecs, len(metadata.shape))
    extensions = _extension_list(metadata)
    if filters:
        items = [_codec_document(item) for item in filters]
        extensions.append({"extension": _FILTERS_URI, "must_understand": True, "filters": items})
    grid: JsonObject = {"type": "regular", "chunk_shape": list(regular.chunk_shape)}
    # "." is the draft's default.
    if metadata.chunk_key_encoding.separator == "/":
        grid["separator"] = "/"
    document: JsonObject = {
        "shape": list(metadata.shape),
        "data_type": _type_document(metadata.data_type, endian),
        "chunk_grid": grid,
        "chunk_memory_layout": order,
        "fill_value": encoding.fill_to_v2(metadata.data_type, metadata.fill_value, endian),
        "extensions": extensions,
        "attributes": metadata.attributes,
        **metadata.extra,
    }
    if compressor is not None:
        document["compressor"] = _codec_document(compressor)
    origin = metadata.origin or {}
    # A fallback that the draft does not allow is not written again.
    spelled = {k: v for k, v in origin.items() if k in _SPELLED and not _has_wrong_fallback(v)}
    encoding.respell(document, spelled, partial(parse_array, place=""))
    return document


def _type_document(data_type: DataType, endian: Endian | None) -> Json:
    text = encoding.dtype_to_v2(data_type, endian)
    if isinstance(text, str):
        # The draft names booleans by a word, and all other types as numpy does.
        if text == "|b1":
            return "bool"
        core = text.removeprefix("|")
        if _CORE_TYPE.fullmatch(core):
            return core
    if data_type.is_time:
        return {"extension": _DATETIME_URI, "type": text, "fallback": text[0] + "i8"}
    result = {"extension": _DTYPE_URI, "type": text}
    # Readers that do not know the type get its bytes.
    return {**result, "fallback": "u1"} if data_type.itemsize == 1 else result
