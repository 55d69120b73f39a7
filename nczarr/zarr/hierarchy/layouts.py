"""Find, read and write the nodes of each version of Zarr: v3, v2, the 2019 draft and its descendant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import ClassVar

from nczarr.errors import DatasetNotFoundError, MetadataError, NCZarrError, UnsupportedError, error_context
from nczarr.zarr.documents import consolidated
from nczarr.zarr.documents import draft as documents_draft
from nczarr.zarr.documents import v2 as documents_v2
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
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata
from nczarr.zarr.names import check_name, split_path
from nczarr.zarr.types import JsonObject, show


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


_NAMES = (".zarray", ".zgroup", ".zattrs")


class V2Layout(Layout):
    """Zarr v2, including NCZarr v2."""

    name: ClassVar[str] = "v2"

    def discover(self, use_consolidated: bool | None, root: JsonObject | None = None) -> Found:
        store = self.store
        if use_consolidated is not False:
            data = read_document(store, ".zmetadata")
            if data is not None:
                place = store.place(".zmetadata")
                documents = consolidated.parse_zmetadata(parse_object(data, place, lenient=True), place)
                return Found.among(_nodes(documents, True), consolidated=True)
            if use_consolidated:
                raise DatasetNotFoundError(
                    "no consolidated metadata (.zmetadata)",
                    path=store.url,
                    hint="open without consolidated=True",
                )
        nodes = self.fetch([""])
        if not nodes:
            raise DatasetNotFoundError("no .zgroup and no .zarray in the store", path=store.url)
        if nodes[""].is_array:
            return Found(nodes)
        has_copies = use_consolidated is False and store.exists(".zmetadata")
        return self.search(nodes[""], has_copies, lambda: self.discover(True).nodes)

    def read(self, keys: list[str]) -> dict[str, RawNode]:
        found = self.read_documents(keys)
        documents = {key: parse_object(data, self.store.place(key), lenient=True) for key, data in found}
        return _nodes(documents, False)

    def parse(self, raw: RawNode, path: str) -> Metadata:
        if not raw.documents:
            return GroupMetadata()
        main = join_key(path, ".zarray" if raw.is_array else ".zgroup")
        place = f"{self.store.place('.zmetadata')}: {main}" if raw.consolidated else self.store.place(main)
        zattrs = raw.documents.get(join_key(path, ".zattrs"))
        if raw.is_array:
            return documents_v2.parse_array(raw.documents[main], zattrs, place)
        return documents_v2.parse_group(raw.documents.get(main, {"zarr_format": 2}), zattrs, place)

    def documents(self, path: str, metadata: Metadata) -> Documents:
        with error_context(path):
            if isinstance(metadata, ArrayMetadata):
                documents = documents_v2.array_documents(metadata)
            else:
                documents = documents_v2.group_documents(metadata)
        return {join_key(path, name): document for name, document in documents.items()}

    def document_keys(self, path: str) -> list[str]:
        return [join_key(path, name) for name in _NAMES]

    def consolidated_texts(
        self, nodes: Iterable[tuple[str, Documents]], texts: DocumentTexts
    ) -> list[tuple[str, bytes]]:
        documents: Documents = {}
        root: Documents = {}
        for path, items in nodes:
            documents.update(items)
            if not path:
                root = items
        copies = consolidated.zmetadata(documents.items())
        return [(key, dump_json(item, key)) for key, item in {**root, ".zmetadata": copies}.items()]


def _nodes(documents: Documents, is_consolidated: bool) -> dict[str, RawNode]:
    """Group documents by node; a node with both ``.zarray`` and ``.zgroup`` is an array."""
    nodes: dict[str, RawNode] = {}
    for key in sorted(documents, key=lambda key: key.endswith(".zattrs")):
        path, _, name = key.rpartition("/")
        if name in (".zarray", ".zgroup"):
            node = nodes.setdefault(path, RawNode(False, {}, is_consolidated))
            node.is_array = node.is_array or name == ".zarray"
        if name in _NAMES and path in nodes:
            nodes[path].documents[key] = documents[key]
    return nodes


class DraftLayout(Layout):
    r"""The 2019 draft. One listing of ``meta/`` finds all nodes; groups with members need no document.

    =====================  ===============================  ==========================
    \                      2019 draft                       experimental v3
    =====================  ===============================  ==========================
    bootstrap              zarr.json                        zarr.json
    root group             meta/root.group                  meta/root.group.json
    array /g/v             meta/root/g/v.array              meta/root/g/v.array.json
    its chunks             data/g/v/0.0                     data/root/g/v/c0/0
    =====================  ===============================  ==========================
    """

    name: ClassVar[str] = "draft-2019"
    experimental: ClassVar[bool] = False
    _data: ClassVar[str] = "data"

    _suffix = ""

    def discover(self, use_consolidated: bool | None, root: JsonObject | None = None) -> Found:
        store = self.store
        if use_consolidated:
            raise DatasetNotFoundError("the drafts have no consolidated metadata", path=store.url)
        place = store.place("zarr.json")
        bootstrap = root or self.read_zarr_json()
        documents_draft.check_bootstrap(bootstrap, place)
        suffix = bootstrap.get("metadata_key_suffix", "")
        if not isinstance(suffix, str) or "/" in suffix:
            raise MetadataError(f"metadata_key_suffix: {show(suffix)} is not a suffix", path=place)
        self._suffix = suffix
        if not store.listable:
            return Found.among({"": RawNode(False), **self.fetch([""])}, complete=False)
        keys = [key for key in store.list("meta") if self._path(key) is not None]
        return Found.among({"": RawNode(False), **self.read(keys)}, complete=store.lists_all)

    def _path(self, key: str) -> tuple[str, bool] | None:
        """Return the path of a metadata key, and True for an array; None for other keys."""
        if not key.startswith("meta/root") or not key.endswith(self._suffix):
            return None
        name = key[len("meta/root") : len(key) - len(self._suffix)]
        for kind in (".array", ".group"):
            if name.endswith(kind):
                path = name.removesuffix(kind)
                legal = path.startswith("/") and all(check_name(n) is None for n in split_path(path[1:]))
                return (path[1:], kind == ".array") if legal or not path else None
        return None

    def _key(self, path: str, kind: str) -> str:
        return f"meta/{join_key('root', path)}.{kind}{self._suffix}"

    def read(self, keys: list[str]) -> dict[str, RawNode]:
        nodes: dict[str, RawNode] = {}
        for key, data in self.read_documents(keys):
            found = self._path(key)
            if found is not None and (found[1] or found[0] not in nodes):
                nodes[found[0]] = RawNode(found[1], {key: parse_object(data, self.store.place(key))})
        return nodes

    def parse(self, raw: RawNode, path: str) -> Metadata:
        store = self.store
        for key, document in raw.documents.items():
            if raw.is_array:
                return documents_draft.parse_array(document, store.place(key), experimental=self.experimental)
            if key != "zarr.json":
                return documents_draft.parse_group(document, store.place(key))
        return GroupMetadata()

    def documents(self, path: str, metadata: Metadata) -> Documents:
        is_array = isinstance(metadata, ArrayMetadata)
        key = self._key(path, "array" if is_array else "group")
        with error_context(key):
            document = (
                documents_draft.array_document(metadata)
                if isinstance(metadata, ArrayMetadata)
                else documents_draft.group_document(metadata)
            )
        # The bootstrap document makes the hierarchy visible to readers, so it is written last, after the root's.
        return {key: document} if path else {key: document, "zarr.json": documents_draft.bootstrap_document()}

    def deviations(self, raw: RawNode) -> Iterator[str]:
        if not self.experimental:
            for document in raw.documents.values():
                yield from documents_draft.deviations(document, raw.is_array)

    def document_keys(self, path: str) -> list[str]:
        return [self._key(path, "array"), self._key(path, "group")]

    def chunk_prefix(self, path: str) -> str:
        return join_key(self._data, path) + "/"

    def node_prefixes(self, path: str) -> list[str]:
        return [join_key("meta/root", path), join_key(self._data, path)]

    def consolidated_texts(
        self, nodes: Iterable[tuple[str, Documents]], texts: DocumentTexts
    ) -> list[tuple[str, bytes]]:
        root = next((documents for path, documents in nodes if not path), {})
        return [(key, dump_json(document, key)) for key, document in root.items()]


class ExperimentalLayout(DraftLayout):
    """The experimental v3 of zarr-python 2.13 to 2.18; metadata are read-only."""

    name: ClassVar[str] = "experimental-v3"
    experimental: ClassVar[bool] = True
    _data: ClassVar[str] = "data/root"

    def documents(self, path: str, metadata: Metadata) -> Documents:
        raise UnsupportedError(
            "nczarr does not write zarr-python's experimental v3",
            fqn="/" + path,
            hint="copy the dataset to another layout",
        )
