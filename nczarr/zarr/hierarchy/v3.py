"""Find, read and write the nodes of a Zarr v3 hierarchy: each has a ``zarr.json``, arrays also chunks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from nczarr.errors import DatasetNotFoundError, MetadataError, NCZarrError, error_context
from nczarr.zarr.documents import consolidated
from nczarr.zarr.documents import v3 as documents_v3
from nczarr.zarr.documents.consolidated import DocumentHead, DocumentTexts, UnreadDocuments
from nczarr.zarr.documents.json import dump_json, parse_object, parse_part
from nczarr.zarr.hierarchy.layout import (
    DamagedNode,
    Documents,
    Found,
    Layout,
    Metadata,
    RawNode,
    join_key,
    read_document,
)
from nczarr.zarr.metadata import GroupMetadata
from nczarr.zarr.types.base import JsonObject


class UnreadNode(RawNode):
    """A node in consolidated metadata with an unparsed document."""

    consolidated = True
    _documents: Documents | None = None

    def __init__(self, place: str, path: str, text: bytes, head: DocumentHead) -> None:
        self.is_array = head.node_type == "array"
        self.place = place
        self.path = path
        self.text = text
        self.attributes = head.attributes

    @property
    def documents(self) -> Documents:  # type: ignore[override]
        """The document by its key, parsed once."""
        if self._documents is None:
            with error_context(_inside(self.place, self.path)):
                self._documents = {self.path + "/zarr.json": parse_part(self.text)}
        return self._documents


class V3Layout(Layout):
    """Zarr v3: each node has a ``zarr.json``, arrays also chunks."""

    name = "v3"

    def discover(self, use_consolidated: bool | None, root: JsonObject | None = None) -> Found:
        place = self.store.place("zarr.json")
        root = root or self.read_zarr_json()
        root_node = RawNode(documents_v3.node_type(root, place) == "array", {"zarr.json": root})
        if root_node.is_array:
            return Found({"": root_node})
        inside = consolidated.parse_inline(root, place) if use_consolidated is not False else None
        if inside is not None:
            return Found.among({"": root_node, **_copied_nodes(inside, place)}, consolidated=True)
        if use_consolidated:
            raise DatasetNotFoundError(
                "no consolidated metadata", path=place, hint="open without consolidated=True"
            )
        has_copies = isinstance(root.get("consolidated_metadata"), dict)
        return self.search(root_node, has_copies, lambda: consolidated.parse_inline(root, place) or ())

    def read(self, keys: list[str]) -> dict[str, RawNode]:
        result: dict[str, RawNode] = {}
        for key, data in self.read_documents(keys):
            place, path = self.store.place(key), key.removesuffix("zarr.json").removesuffix("/")
            try:
                document = parse_object(data, place)
                result[path] = RawNode(documents_v3.node_type(document, place) == "array", {key: document})
            except MetadataError as error:
                if not path:
                    raise
                result[path] = DamagedNode(error)
        return result

    def is_unchanged(self, path: str, known: RawNode) -> bool:
        if not isinstance(known, UnreadNode):
            return False
        return read_document(self.store, join_key(path, "zarr.json")) == bytes(known.text)

    def parse(self, raw: RawNode, path: str) -> Metadata:
        if isinstance(raw, DamagedNode):
            raise MetadataError(raw.error.message, path=raw.error.path, hint=raw.error.hint)
        try:
            if isinstance(raw, UnreadNode):
                return documents_v3.parse_unread(raw.is_array, raw.text, raw.attributes)
            document = next(iter(raw.documents.values()), None)
            return GroupMetadata() if document is None else documents_v3.parse_found(document, raw.is_array)
        except NCZarrError as error:
            # The location is computed only on errors: there may be thousands of nodes.
            root, key = self.store.place("zarr.json"), join_key(path, "zarr.json")
            error.path = error.path or (_inside(root, path) if raw.consolidated else self.store.place(key))
            raise

    def documents(self, path: str, metadata: Metadata) -> Documents:
        key = join_key(path, "zarr.json")
        with error_context(key):
            return {key: documents_v3.node_document(metadata)}

    def document_keys(self, path: str) -> list[str]:
        return [join_key(path, "zarr.json")]

    def consolidated_texts(
        self, nodes: Iterable[tuple[str, Documents]], texts: DocumentTexts
    ) -> list[tuple[str, bytes]]:
        root: JsonObject = {}
        parts: list[tuple[str, bytes]] = []
        for path, documents in nodes:
            own = next(iter(documents.values()), _IMPLIED)
            if "consolidated_metadata" in own:
                own = {key: value for key, value in own.items() if key != "consolidated_metadata"}
            if path:
                parts.append((path, texts.get(path, own, partial(dump_json, own, path))))
            else:
                root = own
        return [("zarr.json", consolidated.join_inline(dump_json(root, "zarr.json"), parts))]


def _copied_nodes(inside: dict[str, JsonObject] | UnreadDocuments, place: str) -> dict[str, RawNode]:
    """Return the nodes in consolidated metadata."""
    if isinstance(inside, UnreadDocuments):
        unread = zip(inside.items(), inside.heads.values(), strict=True)
        return {path: UnreadNode(place, path, text, head) for (path, text), head in unread}
    nodes: dict[str, RawNode] = {}
    for path, document in inside.items():
        try:
            is_array = documents_v3.node_type(document, "") == "array"
        except MetadataError as error:
            error.path = _inside(place, path)  # only on errors: there may be thousands of nodes
            nodes[path] = DamagedNode(error)
        else:
            nodes[path] = RawNode(is_array, {path + "/zarr.json": document}, True)
    return nodes


#: The document of an implicit group, which has members but no document.
_IMPLIED: JsonObject = {"zarr_format": 3, "node_type": "group"}


def _inside(place: str, path: str) -> str:
    return f"{place}: consolidated_metadata.metadata[{path!r}]"
