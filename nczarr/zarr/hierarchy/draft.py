"""Find, read and write the nodes of the 2019 draft and of zarr-python's experimental v3.

=====================  ===============================  ==========================
\\                      2019 draft                       experimental v3
=====================  ===============================  ==========================
bootstrap              zarr.json                        zarr.json
root group             meta/root.group                  meta/root.group.json
array /g/v             meta/root/g/v.array              meta/root/g/v.array.json
its chunks             data/g/v/0.0                     data/root/g/v/c0/0
=====================  ===============================  ==========================

One listing of ``meta/`` finds all nodes; groups with members need no document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from nczarr.errors import DatasetNotFoundError, MetadataError, UnsupportedError, error_context
from nczarr.zarr.documents import draft as documents_draft
from nczarr.zarr.documents.consolidated import DocumentTexts
from nczarr.zarr.documents.json import dump_json, parse_object
from nczarr.zarr.hierarchy.layout import Documents, Found, Layout, Metadata, RawNode, join_key
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata
from nczarr.zarr.names import check_name, split_path
from nczarr.zarr.types.base import JsonObject, show


class DraftLayout(Layout):
    """The 2019 draft."""

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
