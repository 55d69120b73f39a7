"""Find, read and write the nodes of a Zarr v2 hierarchy: ``.zgroup``, ``.zarray``, ``.zattrs`` and chunks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar

from nczarr.errors import DatasetNotFoundError, MetadataError, error_context
from nczarr.stores import Store
from nczarr.zarr.documents import consolidated
from nczarr.zarr.documents import v2 as documents_v2
from nczarr.zarr.documents.json import parse_object
from nczarr.zarr.hierarchy.layout import Found, Layout, RawNode, join_key, read_document, read_documents, walk
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata
from nczarr.zarr.names import check_name, split_path

_NAMES = (".zarray", ".zgroup", ".zattrs")


def _legal(path: str) -> bool:
    return all(check_name(name, layout="v2") is None for name in split_path(path))


class V2Layout(Layout):
    """Zarr v2, including NCZarr v2."""

    name: ClassVar[str] = "v2"

    def discover(
        self, store: Store, use_consolidated: bool | None, root: dict[str, Any] | None = None
    ) -> Found:
        if use_consolidated is not False:
            data = read_document(store, ".zmetadata")
            if data is not None:
                place = store.place(".zmetadata")
                documents = consolidated.parse_zmetadata(parse_object(data, place, lenient=True), place)
                return Found.among((_nodes(documents, True)), consolidated=True)
            if use_consolidated:
                raise DatasetNotFoundError(
                    "no consolidated metadata (.zmetadata)",
                    path=store.url,
                    hint="open without consolidated=True",
                )
        nodes = self.fetch(store, [""])
        if not nodes:
            raise DatasetNotFoundError("no .zgroup and no .zarray in the store", path=store.url)
        if nodes[""].is_array:
            return Found(nodes)
        stored = use_consolidated is False and store.exists(".zmetadata")
        if not store.listable:
            return Found(nodes, stored, complete=False)
        named: list[str] = []
        if not store.lists_all and stored:
            # The copies name nodes that a listing may omit; their own documents show whether they exist.
            with suppress(DatasetNotFoundError, MetadataError):
                named = [path for path in self.discover(store, True).nodes if path and _legal(path)]
        if store.lists_by_folder:
            nodes.update(walk(self, store, _legal, named))
            return Found(nodes, stored, complete=store.lists_all)
        keys = [
            key for key in store.list() if key.rpartition("/")[2] in _NAMES and _legal(key.rpartition("/")[0])
        ]
        keys += [join_key(path, name) for path in named for name in _NAMES]
        nodes.update(self._read(store, list(dict.fromkeys(keys))))
        return Found.among(nodes, stored, complete=store.lists_all)

    def fetch(self, store: Store, paths: Iterable[str]) -> dict[str, RawNode]:
        return self._read(store, [join_key(path, name) for path in paths for name in _NAMES])

    def _read(self, store: Store, keys: list[str]) -> dict[str, RawNode]:
        documents = {}
        for key, data in zip(keys, read_documents(store, keys), strict=True):
            if data is not None:
                documents[key] = parse_object(data, store.place(key), lenient=True)
        return _nodes(documents, False)

    def parse(self, raw: RawNode, path: str, store: Store) -> ArrayMetadata | GroupMetadata:
        if not raw.documents:
            return GroupMetadata()
        main = join_key(path, ".zarray" if raw.is_array else ".zgroup")
        place = f"{store.place('.zmetadata')}: {main}" if raw.consolidated else store.place(main)
        zattrs = raw.documents.get(join_key(path, ".zattrs"))
        if raw.is_array:
            return documents_v2.parse_array(raw.documents[main], zattrs, place)
        return documents_v2.parse_group(raw.documents.get(main, {"zarr_format": 2}), zattrs, place)

    def documents(self, path: str, metadata: ArrayMetadata | GroupMetadata) -> dict[str, dict[str, Any]]:
        with error_context(path):
            if isinstance(metadata, ArrayMetadata):
                documents = documents_v2.array_documents(metadata)
            else:
                documents = documents_v2.group_documents(metadata)
        return {join_key(path, name): document for name, document in documents.items()}

    def document_keys(self, path: str) -> list[str]:
        return [join_key(path, name) for name in _NAMES]

    def chunk_prefix(self, path: str) -> str:
        return path + "/" if path else ""

    def consolidate(
        self, nodes: Iterable[tuple[str, dict[str, dict[str, Any]]]]
    ) -> dict[str, dict[str, Any]]:
        documents: dict[str, dict[str, Any]] = {}
        root: dict[str, dict[str, Any]] = {}
        for path, items in nodes:
            documents.update(items)
            if not path:
                root = items
        return {**root, ".zmetadata": consolidated.zmetadata(documents.items())}


def _nodes(documents: dict[str, dict[str, Any]], is_consolidated: bool) -> dict[str, RawNode]:
    """Group documents by node; a node with both ``.zarray`` and ``.zgroup`` is an array."""
    nodes: dict[str, RawNode] = {}
    for key, document in documents.items():
        path, _, name = key.rpartition("/")
        if name in (".zarray", ".zgroup"):
            node = nodes.setdefault(path, RawNode(False, {}, is_consolidated))
            node.is_array = node.is_array or name == ".zarray"
            node.documents[key] = document
    for key, document in documents.items():
        path, _, name = key.rpartition("/")
        if name == ".zattrs" and path in nodes:
            nodes[path].documents[key] = document
    return nodes
