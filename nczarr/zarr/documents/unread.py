"""Split a large consolidated document into those inside it, which stay text until they are asked for.

The outer objects are read, and the syntax of all is checked. Equal texts have equal values, so that what many arrays
have in common is read once (:func:`nczarr.zarr.documents.v3.parse_unread`): all but their attributes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from nczarr.collector import paused_collector
from nczarr.zarr.documents.json import MAX_CHECKED, check_bounds, fast_library, parse_object, parse_part

_KINDS = {"array": True, "group": False}


class UnreadDocument(NamedTuple):
    """The document of a node as JSON, whose syntax was checked; the texts have the buffers of their bytes."""

    is_array: bool
    text: Any
    #: The text of the attributes; None if there are none.
    attributes: Any


class UnreadDocuments(dict[str, UnreadDocument]):
    """The documents in consolidated metadata by path."""


def parse_root(data: bytes, document: str) -> dict[str, Any]:
    """Return the value of a root's document.

    If it is large, nothing is wrong with it, and the package `msgspec` is there, the documents consolidated inside are
    :class:`UnreadDocuments`.

    Raises
    ------
    MetadataError
        If it is not a JSON object; see :func:`~nczarr.zarr.documents.json.parse_object`.
    """
    if len(data) > MAX_CHECKED:
        check_bounds(data, document)
        try:
            return _split(data)
        except ValueError:
            pass  # read as any other, which says better what is wrong
    return parse_object(data, document)


def _split(data: bytes) -> dict[str, Any]:
    library = fast_library()
    if library is None:
        raise ValueError("no msgspec")
    if not data.isascii():
        data.decode()  # texts that are not read are not looked at so closely
    names, heads = _decoders()
    with paused_collector():
        try:
            root = names(data)
            inside = names(root.pop("consolidated_metadata", b"{}"))
            metadata = inside.pop("metadata", b"null")
            documents = UnreadDocuments(
                (path, UnreadDocument(_KINDS[head.node_type], text, head.attributes))
                for (path, text), head in zip(names(metadata).items(), heads(metadata).values(), strict=True)
            )
        except (library.MsgspecError, RecursionError) as error:
            raise ValueError(str(error)) from None
    consolidated = {**_read(inside), "metadata": documents}
    return {**_read(root), "consolidated_metadata": consolidated}


def _read(members: dict[str, Any]) -> dict[str, Any]:
    return {name: parse_part(text) for name, text in members.items()}


@functools.cache
def _decoders() -> tuple[Callable[[Any], dict[str, Any]], Callable[[Any], dict[str, Any]]]:
    """What reads an object's members as texts, and what reads the heads of the documents in an object.

    The latter refuses what no document of version 3 is.
    """
    library = fast_library()
    fields = [
        ("zarr_format", Literal[3]),
        ("node_type", Literal["array", "group"]),
        ("attributes", library.Raw, None),
    ]
    head = library.defstruct("head", fields, gc=False)
    decoder = library.json.Decoder
    return decoder(_objects_of(library.Raw)).decode, decoder(_objects_of(head)).decode


def _objects_of(kind: Any) -> Any:
    return dict.__class_getitem__((str, kind))
