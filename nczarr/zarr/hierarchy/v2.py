"""Find, read and write the nodes of a Zarr v2 hierarchy: ``.zgroup``, ``.zarray``, ``.zattrs`` and chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from nczarr.errors import DatasetNotFoundError, error_context
from nczarr.zarr.documents import consolidated
from nczarr.zarr.documents import v2 as documents_v2
from nczarr.zarr.documents.consolidated import DocumentTexts
from nczarr.zarr.documents.json import dump_json, parse_object
from nczarr.zarr.hierarchy.layout import Documents, Found, Layout, Metadata, RawNode, join_key, read_document
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata
from nczarr.zarr.types.base import JsonObject

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
