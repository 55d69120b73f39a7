"""Split a large consolidated document into those inside it, which stay text until they are asked for.

The outer objects are read, and the syntax of all is checked. Equal texts have equal values, so that what many arrays
have in common is read once (:func:`nczarr.zarr.documents.v3.parse_unread`): all but their attributes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from nczarr.collector import paused_collector
from nczarr.zarr.documents.json import MAX_CHECKED, check_bounds, fast_library, parse_object, parse_part

#: What stands beside consolidated metadata in a root's document, and beside the documents in these.
_ROOT = ("zarr_format", "node_type", "attributes")
_INSIDE = ("kind", "must_understand")


class UnreadDocuments(dict[str, Any]):
    """The documents in consolidated metadata by path: as JSON whose syntax was checked, texts with their bytes' buffer.

    Attributes
    ----------
    heads : dict
        By path too, what was read of each: `node_type`, and the text of its `attributes`, None if there are none.
    """

    def __init__(self, texts: dict[str, Any], heads: dict[str, Any]) -> None:
        super().__init__(texts)
        self.heads = heads


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
    texts, heads = _decoders()
    with paused_collector():
        try:
            root = texts(data)
            inside = root.consolidated_metadata
            documents = UnreadDocuments(inside.metadata, heads(data).consolidated_metadata.metadata)
        except (library.MsgspecError, RecursionError) as error:
            raise ValueError(str(error)) from None
    return {
        **_read(root, _ROOT),
        "consolidated_metadata": {**_read(inside, _INSIDE), "metadata": documents},
    }


def _read(found: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: parse_part(text) for name in names if (text := getattr(found, name)) is not None}


@functools.cache
def _decoders() -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """What reads a root's document: the texts in it, and the heads of the documents inside.

    Refused is what no document of version 3 is, and a root, or consolidated metadata, with other members than usual.
    """
    library = fast_library()
    raw, struct = library.Raw, library.defstruct

    def decoder(document: Any, names: Any, inside: Any, strict: bool) -> Callable[[Any], Any]:
        """What reads a root whose consolidated documents are read as `document` says, other members as texts."""
        metadata = dict.__class_getitem__((str, document))
        members = [(name, raw, None) for name in inside]
        consolidated = struct(
            "consolidated", [("metadata", metadata), *members], forbid_unknown_fields=strict
        )
        members = [(name, raw, None) for name in names]
        root = struct(
            "root", [("consolidated_metadata", consolidated), *members], forbid_unknown_fields=strict
        )
        decode: Callable[[Any], Any] = library.json.Decoder(root).decode
        return decode

    fields = [
        ("zarr_format", Literal[3]),
        ("node_type", Literal["array", "group"]),
        ("attributes", raw, None),
    ]
    head = struct("head", fields, gc=False)
    return decoder(raw, _ROOT, _INSIDE, True), decoder(head, (), (), False)
