"""Find, read and write the nodes of a Zarr v3 hierarchy: each has a ``zarr.json``, arrays also chunks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from nczarr.errors import DatasetNotFoundError, MetadataError, NCZarrError, error_context
from nczarr.stores import Store
from nczarr.zarr.documents import consolidated
from nczarr.zarr.documents import v3 as documents_v3
from nczarr.zarr.documents.consolidated import DocumentTexts, UnreadDocuments
from nczarr.zarr.documents.json import dump_json, parse_object, parse_part
from nczarr.zarr.hierarchy.layout import (
    DamagedNode,
    Found,
    Layout,
    Metadata,
    RawNode,
    join_key,
    read_document,
    read_documents,
    read_zarr_json,
    walk,
)
from nczarr.zarr.metadata import GroupMetadata
from nczarr.zarr.names import check_name, split_path


class UnreadNode(RawNode):
    """A node in consolidated metadata with an unparsed document."""

    consolidated = True
    _documents: dict[str, dict[str, Any]] | None = None

    def __init__(self, place: str, path: str, text: Any, head: Any) -> None:
        self.is_array = head.node_type == "array"
        self.place = place
        self.path = path
        self.text = text
        self.attributes = head.attributes

    @property
    def documents(self) -> dict[str, dict[str, Any]]:  # type: ignore[override]
        """The document by its key, parsed once."""
        if self._documents is None:
            with error_context(_inside(self.place, self.path)):
                self._documents = {self.path + "/zarr.json": parse_part(self.text)}
        return self._documents


class V3Layout(Layout):
    """Zarr v3: each node has a ``zarr.json``, arrays also chunks."""

    name = "v3"

    def discover(
        self, store: Store, use_consolidated: bool | None, root: dict[str, Any] | None = None
    ) -> Found:
        place = store.place("zarr.json")
        root = root or read_zarr_json(store)
        root_node = RawNode(documents_v3.node_type(root, place) == "array", {"zarr.json": root})
        if root_node.is_array:
            return Found({"": root_node})
        inside = consolidated.parse_inline(root, place) if use_consolidated is not False else None
        if inside is not None:
            nodes: dict[str, RawNode] = {"": root_node}
            if isinstance(inside, UnreadDocuments):
                unread = zip(inside.items(), inside.heads.values(), strict=True)
                nodes.update({path: UnreadNode(place, path, text, head) for (path, text), head in unread})
                return Found.among(nodes, consolidated=True)
            for path, document in inside.items():
                try:
                    is_array = documents_v3.node_type(document, "") == "array"
                except MetadataError as error:
                    error.path = _inside(place, path)  # only on errors: there may be thousands of nodes
                    nodes[path] = DamagedNode(error)
                    continue
                nodes[path] = RawNode(is_array, {path + "/zarr.json": document}, True)
            return Found.among((nodes), consolidated=True)
        if use_consolidated:
            raise DatasetNotFoundError(
                "no consolidated metadata", path=place, hint="open without consolidated=True"
            )
        stored = isinstance(root.get("consolidated_metadata"), dict)
        if not store.listable:
            return Found({"": root_node}, stored, complete=False)
        nodes = {"": root_node}
        named: list[str] = []
        if not store.lists_all and stored:
            # The copies name nodes that a listing may omit; their own documents show whether they exist.
            with suppress(MetadataError):
                named = [p for p in consolidated.parse_inline(root, place) or () if _legal(p)]
        if store.lists_by_folder:
            nodes.update(walk(self, store, _legal, named))
            return Found(nodes, stored, complete=store.lists_all)
        paths = [key[: -len("/zarr.json")] for key in store.list() if key.endswith("/zarr.json")]
        nodes.update(self.fetch(store, dict.fromkeys([*filter(_legal, paths), *named])))
        return Found.among(nodes, stored, complete=store.lists_all)

    def fetch(self, store: Store, paths: Iterable[str]) -> dict[str, RawNode]:
        keys = [join_key(path, "zarr.json") for path in paths]
        result: dict[str, RawNode] = {}
        for key, data in zip(keys, read_documents(store, keys), strict=True):
            if data is not None:
                place, path = store.place(key), key.removesuffix("zarr.json").removesuffix("/")
                try:
                    document = parse_object(data, place)
                    kind = documents_v3.node_type(document, place)
                except MetadataError as error:
                    if not path:
                        raise
                    result[path] = DamagedNode(error)
                    continue
                result[path] = RawNode(kind == "array", {key: document})
        return result

    def is_unchanged(self, store: Store, path: str, known: RawNode) -> bool:
        if not isinstance(known, UnreadNode):
            return False
        return read_document(store, join_key(path, "zarr.json")) == bytes(known.text)

    def parse(self, raw: RawNode, path: str, store: Store) -> Metadata:
        if isinstance(raw, DamagedNode):
            raise MetadataError(raw.error.message, path=raw.error.path, hint=raw.error.hint)
        try:
            if isinstance(raw, UnreadNode):
                return documents_v3.parse_unread(raw.is_array, raw.text, raw.attributes)
            document = next(iter(raw.documents.values()), None)
            return GroupMetadata() if document is None else documents_v3.parse_found(document, raw.is_array)
        except NCZarrError as error:
            # The location is computed only on errors: there may be thousands of nodes.
            root, key = store.place("zarr.json"), join_key(path, "zarr.json")
            error.path = error.path or (_inside(root, path) if raw.consolidated else store.place(key))
            raise

    def documents(self, path: str, metadata: Metadata) -> dict[str, dict[str, Any]]:
        key = join_key(path, "zarr.json")
        with error_context(key):
            return {key: documents_v3.node_document(metadata)}

    def document_keys(self, path: str) -> list[str]:
        return [join_key(path, "zarr.json")]

    def chunk_prefix(self, path: str) -> str:
        return path + "/" if path else ""

    def consolidate(
        self, nodes: Iterable[tuple[str, dict[str, dict[str, Any]]]]
    ) -> dict[str, dict[str, Any]]:
        root: dict[str, Any] = {}
        others = []
        for path, documents in nodes:
            document = next(iter(documents.values()), _IMPLIED)
            if path:
                others.append((path, document))
            else:
                root = {key: value for key, value in document.items() if key != "consolidated_metadata"}
        return {"zarr.json": {**root, "consolidated_metadata": consolidated.inline_metadata(others)}}

    def consolidated_texts(
        self, nodes: Iterable[tuple[str, dict[str, dict[str, Any]]]], texts: DocumentTexts
    ) -> list[tuple[str, bytes]]:
        root: dict[str, Any] = {}
        parts: list[tuple[str, bytes]] = []
        for path, documents in nodes:
            document = next(iter(documents.values()), _IMPLIED)
            if not path:
                root = {key: value for key, value in document.items() if key != "consolidated_metadata"}
            elif "consolidated_metadata" in document:
                inner = {key: value for key, value in document.items() if key != "consolidated_metadata"}
                parts.append((path, dump_json(inner, path)))
            else:
                parts.append((path, texts.get(path, document, partial(dump_json, document, path))))
        return [("zarr.json", consolidated.join_inline(dump_json(root, "zarr.json"), parts))]


def _legal(path: str) -> bool:
    return all(check_name(name, writing=False) is None for name in split_path(path))


#: The document of an implicit group, which has members but no document.
_IMPLIED: dict[str, Any] = {"zarr_format": 3, "node_type": "group"}


def _inside(place: str, path: str) -> str:
    return f"{place}: consolidated_metadata.metadata[{path!r}]"
