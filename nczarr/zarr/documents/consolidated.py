"""Read and write consolidated metadata: copies of all documents of a hierarchy in one document.

Version 3 stores the copies inline in the root group's ``zarr.json`` (flat keys, full documents), version 2 in
``.zmetadata``. Copies can become stale; :func:`differences` lists stale ones.

A large document is split into its inner documents. Their syntax is checked, but they stay text until first use.
Arrays often differ only in their attributes, so the equal rest of their texts is parsed once
(:func:`nczarr.zarr.documents.v3.parse_unread`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, Protocol

from nczarr.errors import MetadataError, error_context
from nczarr.json_values import JsonMapping, JsonObject, bad, checked_object, show
from nczarr.zarr.documents.json import (
    MAX_CHECKED,
    check_bounds,
    different_keys,
    dump_json,
    parse_object,
    parse_part,
)
from nczarr.zarr.names import check_path, check_paths
from nczarr.zarr.plugins import optional_module

#: The other members of a root's document, and the other members of its ``consolidated_metadata``.
_ROOT = ("zarr_format", "node_type", "attributes")
_INSIDE = ("kind", "must_understand")


#: Reads a root's document; the class of the result is made at run time.
Decoder = Callable[[bytes], Any]


class DocumentHead(Protocol):
    """The parsed part of a document: `node_type`, and `attributes` and `data_type` as texts (None if absent)."""

    node_type: str
    attributes: bytes | None
    data_type: bytes | None


class UnreadDocuments(dict[str, Any]):
    """The documents in consolidated metadata by path, as unparsed JSON with checked syntax.

    Attributes
    ----------
    heads : dict
        The parsed part of each document by path.
    """

    def __init__(self, texts: JsonObject, heads: dict[str, DocumentHead]) -> None:
        super().__init__(texts)
        self.heads = heads


def parse_root(data: bytes, document: str) -> JsonObject:
    """Return the value of a root's document.

    If the document is large and valid, and the package `msgspec` is installed, the consolidated documents inside are
    :class:`UnreadDocuments`.

    Raises
    ------
    MetadataError
        If the document is not a JSON object; see :func:`~nczarr.zarr.documents.json.parse_object`.
    """
    # Smaller documents are checked for duplicate names, which the fast library does not tell.
    if len(data) > MAX_CHECKED:
        check_bounds(data, document)
        try:
            return _split(data)
        except ValueError:
            pass  # `parse_object` has exact messages
    return parse_object(data, document)


def _split(data: bytes) -> JsonObject:
    library = optional_module("msgspec")
    if library is None:
        raise ValueError("no msgspec")
    if not data.isascii():
        data.decode()  # the library does not check the UTF-8 of unparsed texts
    read_root, read_head = _decoders()
    try:
        root = read_root(data)
        inside = root.consolidated_metadata
        heads = {path: read_head(text) for path, text in inside.metadata.items()}
    except (library.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None
    documents = UnreadDocuments(inside.metadata, heads)
    return {**_read(root, _ROOT), "consolidated_metadata": {**_read(inside, _INSIDE), "metadata": documents}}


def _read(found: object, names: tuple[str, ...]) -> JsonObject:
    return {name: parse_part(text) for name in names if (text := getattr(found, name)) is not None}


@functools.cache
def _decoders() -> tuple[Decoder, Decoder]:
    """Return the decoders of a root's document, whose members stay text, and of the head of a document inside.

    They reject documents of other versions, and unknown members of the root or its consolidated metadata.
    """
    library = optional_module("msgspec")
    raw, struct = library.Raw, library.defstruct
    texts = dict.__class_getitem__((str, raw))
    members = [("metadata", texts), *((name, raw, None) for name in _INSIDE)]
    consolidated = struct("consolidated", members, forbid_unknown_fields=True)
    members = [("consolidated_metadata", consolidated), *((name, raw, None) for name in _ROOT)]
    root = struct("root", members, forbid_unknown_fields=True)
    fields = [
        ("zarr_format", Literal[3]),
        ("node_type", Literal["array", "group"]),
        ("attributes", raw, None),
        ("data_type", raw, None),
    ]
    head = struct("head", fields, gc=False)
    return library.json.Decoder(root).decode, library.json.Decoder(head).decode


def parse_inline(document: JsonMapping, place: str) -> dict[str, JsonObject] | UnreadDocuments | None:
    """Return the documents in the ``consolidated_metadata`` of a v3 group document, by path.

    Returns
    -------
    dict, UnreadDocuments or None
        None if there are none, or if their kind is unknown and optional. Unparsed documents are returned unchanged.

    Raises
    ------
    MetadataError
        If the documents are damaged, or their kind is unknown and must be understood.

    Examples
    --------
    >>> parse_inline({"consolidated_metadata": {"kind": "inline", "must_understand": False,
    ...               "metadata": {"v": {"node_type": "array"}}}}, "zarr.json")
    {'v': {'node_type': 'array'}}
    """
    if document.get("consolidated_metadata") is None:
        return None
    with error_context(place):
        value = checked_object(document["consolidated_metadata"], "consolidated_metadata")
        if value.get("kind") != "inline":
            # Another kind of copy may be ignored: the documents of the nodes are there.
            if value.get("must_understand") is False:
                return None
            raise bad(f"consolidated_metadata.kind: {show(value.get('kind'))} is unknown")
        metadata = checked_object(value.get("metadata"), "consolidated_metadata.metadata")
    inside = f"{place}: consolidated_metadata.metadata"
    check_paths(metadata, document=inside)
    if isinstance(metadata, UnreadDocuments) and "" not in metadata:
        return metadata
    for path, item in metadata.items():
        # The root has no copy of itself, and a document is an object.
        if not path or not isinstance(item, dict):
            raise MetadataError(
                f"consolidated_metadata.metadata[{path!r}]: not the document of a descendant", path=place
            )
    return metadata


def join_inline(root: bytes, texts: Iterable[tuple[str, bytes]]) -> bytes:
    """Insert the documents of all other nodes into a root group's document; all are JSON texts.

    Examples
    --------
    >>> join_inline(b'{"node_type":"group"}', [("v", b'{"node_type":"array"}')]).decode()[21:]
    '"consolidated_metadata":{"kind":"inline","must_understand":false,"metadata":{"v":{"node_type":"array"}}}}'
    """
    inside = b",".join([dump_json(path) + b":" + text for path, text in texts])
    head = b'"consolidated_metadata":{"kind":"inline","must_understand":false,"metadata":{'
    return b"".join((root[:-1], b"," if len(root) > 2 else b"", head, inside, b"}}}"))


def parse_zmetadata(document: JsonMapping, place: str) -> dict[str, JsonObject]:
    """Return the documents in a v2 ``.zmetadata``, by key (``"g/v/.zarray"``).

    Raises
    ------
    MetadataError
        If the document is damaged.

    Examples
    --------
    >>> parse_zmetadata({"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}}}, "")
    {'.zgroup': {'zarr_format': 2}}
    """
    version = document.get("zarr_consolidated_format")
    with error_context(place):
        # JSON's true equals 1 for Python.
        if type(version) is not int or version != 1:
            raise bad(f"zarr_consolidated_format: {show(version)} is not 1")
        metadata = checked_object(document.get("metadata"), "metadata")
        for key, item in metadata.items():
            if key.startswith("/"):
                raise bad(f"metadata[{key!r}]: keys must not begin with '/'")
            check_path(key.rpartition("/")[0], layout="v2", document=f"{place}: metadata")
            checked_object(item, f"metadata[{key!r}]")
    return metadata


def differences(stored: JsonMapping, actual: JsonMapping) -> Iterator[str]:
    """Yield the differences between consolidated documents and those of the nodes.

    Parameters
    ----------
    stored, actual : mapping
        Documents by path or key.

    Yields
    ------
    str
        One message for each missing, superfluous or different document.

    Examples
    --------
    >>> list(differences({"v": {"shape": [3]}}, {"v": {"shape": [4]}, "x": {}}))
    ["'v': the consolidated copy differs in shape", "'x': missing from the consolidated copy"]
    """
    for path, document in actual.items():
        if path not in stored:
            yield f"{path!r}: missing from the consolidated copy"
        elif keys := different_keys(stored[path], document):
            yield f"{path!r}: the consolidated copy differs in {', '.join(keys)}"
    for path in stored:
        if path not in actual:
            yield f"{path!r}: only in the consolidated copy"
