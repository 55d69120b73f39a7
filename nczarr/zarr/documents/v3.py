"""Parse and write the documents of Zarr v3: ``zarr.json``.

Implements the section *Metadata* of the Zarr v3 core specification, version 3.1, and ZEP 10's ``extensions``. The
parser enforces each MUST of the specification, with two exceptions that every reader makes. It reads a chunk of length
0 along a dimension of length 0 as length 1, and it accepts short-hand names of data types and codecs.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TypeVar

from nczarr.compression import NamedConfig
from nczarr.errors import MetadataError, error_context
from nczarr.json_values import (
    Json,
    JsonObject,
    as_object,
    bad,
    checked_list,
    checked_object,
    checked_text,
    show,
)
from nczarr.zarr.chunk_keys import ChunkKeyEncoding, parse_chunk_key_encoding
from nczarr.zarr.documents import extensions
from nczarr.zarr.documents.json import parse_part
from nczarr.zarr.grids import parse_chunk_grid, parse_shape
from nczarr.zarr.metadata import (
    ArrayMetadata,
    GroupMetadata,
    ParseCache,
    key_of,
    parse_named_config,
    parse_named_configs,
)
from nczarr.zarr.types import DataType, Scalar, parse_data_type

Parsed = TypeVar("Parsed")
_ARRAY_REQUIRED = frozenset({
    "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs",
})  # fmt: skip
_ARRAY_KEYS = _ARRAY_REQUIRED | {
    "zarr_format", "node_type", "attributes", "dimension_names", "storage_transformers", "extensions",
}  # fmt: skip
_GROUP_KEYS = frozenset(("zarr_format", "node_type", "attributes", "extensions", "consolidated_metadata"))
_ENCODING = itemgetter("data_type", "fill_value", "chunk_key_encoding", "codecs")
Encoding = tuple[DataType, Scalar, ChunkKeyEncoding, tuple[NamedConfig, ...]]
_arrays = ParseCache[ArrayMetadata]()
_encodings = ParseCache[Encoding]()
_ATTRIBUTES = b'"attributes":'
#: Metadata without attributes, by the texts before and after the attributes.
_around = ParseCache[ArrayMetadata | None]()


def node_type(document: JsonObject, place: str) -> str:
    """Return ``"array"`` or ``"group"`` for a v3 document.

    Raises
    ------
    MetadataError
        If the document has another node type or version.
    """
    version, kind = document.get("zarr_format"), document.get("node_type")
    # 3.0 equals 3 in Python, and the specification has the integer.
    if type(version) is not int or version != 3:
        raise MetadataError(f"zarr_format: {show(version)} is not 3", path=place)
    if kind != "array" and kind != "group":
        raise MetadataError(f'node_type: {show(kind)} is not "array" or "group"', path=place)
    return str(kind)


def parse_node(document: JsonObject, place: str) -> ArrayMetadata | GroupMetadata:
    """Return the metadata in a v3 document.

    Parameters
    ----------
    document : dict
        The JSON object. Its attributes are not copied.
    place : str
        The location of the document, for messages.

    Raises
    ------
    MetadataError
        If the document violates the specification; the message has the key path.
    MetadataError
        If an extension that must be understood is unknown.

    Examples
    --------
    >>> parse_node({"zarr_format": 3, "node_type": "group"}, "a.zarr/zarr.json")
    GroupMetadata(attributes={}, extensions=(), extra={})
    """
    with error_context(place):
        return parse_found(document, node_type(document, place) == "array")


def parse_found(document: JsonObject, is_array: bool) -> ArrayMetadata | GroupMetadata:
    """Return the metadata in a v3 document of known `node_type`; the caller adds the location to errors."""
    return _array(document) if is_array else _group(document)


def parse_unread(is_array: bool, text: bytes, attributes: bytes | None) -> ArrayMetadata | GroupMetadata:
    """Return the metadata in a v3 document, given its text and the text of its attributes; see `parse_found`."""
    if not is_array or attributes is None:
        return parse_found(parse_part(text), is_array)
    whole, own = bytes(text), bytes(attributes)
    before, _, after = whole.partition(_ATTRIBUTES)
    after = after.lstrip()
    metadata = None
    if after.startswith(own):
        rest = after[len(own) :]
        key = before + b"\0" + rest  # no JSON text has a zero byte
        metadata = _around.get(key) or _around.keep(key, _read_around(before, rest))
    # Of two members of one name, the last counts: only the whole document tells which it is.
    if metadata is None:
        return _array(parse_part(text))
    found = parse_part(attributes)
    return metadata.with_attributes(found if type(found) is dict else checked_object(found, "attributes"))


def _read_around(before: bytes, after: bytes) -> ArrayMetadata | None:
    """Return the metadata of an array without its attributes; None if the text is split at another member."""
    document = parse_part(b"%b%b0%b" % (before, _ATTRIBUTES, after))
    # The text `"attributes":` may be inside of another member.
    if type(document["attributes"]) is not int or "extensions" in document:
        return None
    return _whole_array({**document, "attributes": {}})


def _group(document: JsonObject) -> GroupMetadata:
    metadata = GroupMetadata(
        attributes=_attributes(document),
        extensions=_extensions(document),
        extra=_extra(document, _GROUP_KEYS),
    )
    return extensions.apply_on_metadata(metadata)


def _array(document: JsonObject) -> ArrayMetadata:
    # Many arrays of a hierarchy differ only in their attributes and in keys outside the specification.
    # The hooks of extensions may look at the attributes.
    if "extensions" in document or "attributes" not in document:
        return _whole_array(document)
    others = {key: value for key, value in document.items() if key in _ARRAY_KEYS}
    others["attributes"] = {}
    key = key_of(others)
    metadata = _arrays.get(key) or _arrays.keep(key, _whole_array(others))
    extra = _extra(document, _ARRAY_KEYS) if len(others) < len(document) else None
    return metadata.with_attributes(_attributes(document), extra)


def _whole_array(document: JsonObject) -> ArrayMetadata:
    if not document.keys() >= _ARRAY_REQUIRED:
        raise bad(f"{', '.join(sorted(_ARRAY_REQUIRED - document.keys()))}: missing")
    shape = parse_shape(document["shape"])
    grid = _required(document["chunk_grid"], "chunk_grid")
    encoded = _ENCODING(document)
    key = key_of(encoded)
    data_type, fill_value, key_encoding, codecs = _encodings.get(key) or _encodings.keep(
        key, _encoding(*encoded)
    )
    metadata = ArrayMetadata(
        shape,
        data_type,
        parse_chunk_grid(grid.name, grid.configuration, shape),
        key_encoding,
        fill_value,
        codecs,
        attributes=_attributes(document),
        dimension_names=_dimension_names(document.get("dimension_names"), shape),
        storage_transformers=_transformers(document.get("storage_transformers", [])),
        extensions=_extensions(document),
        extra=_extra(document, _ARRAY_KEYS),
    )
    return extensions.apply_on_metadata(metadata)


def _encoding(data_type_json: object, fill: object, key_encoding: object, codecs: object) -> Encoding:
    data_type = _at("data_type", parse_data_type, data_type_json)
    configs = parse_named_configs(codecs, "codecs")
    if not configs:
        raise bad("codecs: the list is empty")
    try:
        fill_value = _at("fill_value", data_type.fill_from_json, fill)
    except MetadataError as error:
        if fill is not None:
            raise
        # GDAL writes null: missing chunks have no value then, but the other chunks are readable.
        raise MetadataError(error.message, hint="write the array again with a fill value") from None
    keys = _required(key_encoding, "chunk_key_encoding")
    return data_type, fill_value, parse_chunk_key_encoding(keys.name, keys.configuration), configs


def _at(key: str, parse: Callable[[object], Parsed], value: object) -> Parsed:
    try:
        return parse(value)
    except MetadataError as error:
        separator = "." if error.message.startswith(("name:", "configuration", "must_understand")) else ": "
        error.message = f"{key}{separator}{error.message}"
        raise


def _required(value: object, key: str) -> NamedConfig:
    config = parse_named_config(value, key)
    # The specification does not allow it: a reader that skipped the grid would read wrong chunks.
    if not config.must_understand:
        raise bad(f"{key}.must_understand: false is not allowed for this key")
    return config


def _attributes(document: JsonObject) -> JsonObject:
    return checked_object(document.get("attributes", {}), "attributes")


def _dimension_names(value: object, shape: tuple[int, ...]) -> tuple[str | None, ...] | None:
    if value is None:  # null means no names; zarr-python 3.0 wrote it
        return None
    names = checked_list(value, "dimension_names")
    if len(names) != len(shape):
        raise bad(f"dimension_names: {len(names)} names for {len(shape)} dimensions")
    for i, name in enumerate(names):
        if name is not None:
            checked_text(name, f"dimension_names[{i}]", "a string or null")
    return tuple(names)


def _transformers(value: object) -> tuple[NamedConfig, ...]:
    transformers = parse_named_configs(value, "storage_transformers")
    for i, transformer in enumerate(transformers):
        # A transformer changes what the stored bytes mean.
        if transformer.must_understand:
            raise MetadataError(f"storage_transformers[{i}]: {show(transformer.name)} is unknown")
    return transformers


def _extensions(document: JsonObject) -> tuple[NamedConfig, ...]:
    value = document.get("extensions", {})
    return () if _is_additional(value) else extensions.parse_extensions(value)


def _is_additional(value: object) -> bool:
    """An object is not ZEP 10's list of extensions, but an additional key, which the core specification allows."""
    return isinstance(value, dict)


def _ignorable(value: object, key: str) -> Json:
    # An unknown key may change what the chunks mean, so the specification lets a reader skip only such
    # objects.
    if as_object(value).get("must_understand") is False:
        return value
    if _is_additional(value) and extensions.find_extension(key) is not None:
        return value
    raise bad(f'{show(key)}: an unknown key that is not an object with "must_understand": false')


def _extra(document: JsonObject, known: frozenset[str]) -> JsonObject:
    has_other = _is_additional(document.get("extensions"))
    if document.keys() <= known and not has_other:
        return {}
    return {
        key: _ignorable(value, key)
        for key, value in document.items()
        if key not in known or (has_other and key == "extensions")
    }


def array_document(metadata: ArrayMetadata) -> JsonObject:
    """Return the v3 document of an array: a JSON object without short-hand names.

    Raises
    ------
    MetadataError
        If the fill value is undefined, or v3 has no such encoding of chunk keys.
    UnsupportedError
        If v3 has no such data type.
    """
    metadata = extensions.apply_on_document(metadata)
    _check_v3(metadata)
    document: JsonObject = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(metadata.shape),
        "data_type": metadata.data_type.to_json(),
        "chunk_grid": metadata.chunk_grid.to_json(),
        "chunk_key_encoding": metadata.chunk_key_encoding.to_json(),
        "fill_value": metadata.data_type.fill_to_json(metadata.fill_value),
        "codecs": [codec.to_json() for codec in metadata.codecs],
        "attributes": metadata.attributes,
    }
    if metadata.dimension_names is not None:
        document["dimension_names"] = list(metadata.dimension_names)
    if metadata.storage_transformers:
        document["storage_transformers"] = [item.to_json() for item in metadata.storage_transformers]
    if metadata.extensions:
        document["extensions"] = [entry.to_json() for entry in metadata.extensions]
    document.update(metadata.extra)
    return document


def _check_v3(metadata: ArrayMetadata) -> None:
    # zarr-python, tensorstore and zarrs refuse null.
    if metadata.fill_value is None:
        raise bad("fill_value: Zarr v3 requires a fill value")
    if metadata.chunk_key_encoding.name == "experimental":
        raise bad("chunk_key_encoding: Zarr v3 has no experimental form")
    ndim = len(metadata.shape)
    if metadata.chunk_grid.ndim != ndim:
        raise bad(f"chunk_grid: {metadata.chunk_grid.ndim} lengths for {ndim} dimensions")
    if metadata.dimension_names is not None and len(metadata.dimension_names) != ndim:
        raise bad(f"dimension_names: {len(metadata.dimension_names)} names for {ndim} dimensions")
    if not metadata.codecs:
        raise bad("codecs: the list is empty")


def group_document(metadata: GroupMetadata) -> JsonObject:
    """Return the v3 document of a group: a JSON object.

    Examples
    --------
    >>> group_document(GroupMetadata({"title": "x"}))
    {'zarr_format': 3, 'node_type': 'group', 'attributes': {'title': 'x'}}
    """
    metadata = extensions.apply_on_document(metadata)
    document: JsonObject = {"zarr_format": 3, "node_type": "group", "attributes": metadata.attributes}
    if metadata.extensions:
        document["extensions"] = [entry.to_json() for entry in metadata.extensions]
    document.update(metadata.extra)
    return document


def node_document(metadata: ArrayMetadata | GroupMetadata) -> JsonObject:
    """Return the v3 document of a node; see `array_document` and `group_document`."""
    return array_document(metadata) if metadata.is_array else group_document(metadata)
