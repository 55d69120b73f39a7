"""Layouts: which documents a hierarchy has, under which keys, and how all of them are found.

A layout knows one version of Zarr. Finding all nodes costs one document where metadata are consolidated; else one
listing and one concurrent batch of reads. Where folders are listed one by one (local files, index pages of web
servers) arrays, which may hold a million chunks, are not listed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nczarr.errors import DatasetNotFoundError, MetadataError, NCZarrError
from nczarr.stores import Store
from nczarr.zarr.documents import consolidated
from nczarr.zarr.documents import v3 as documents_v3
from nczarr.zarr.documents.json import dump_json, parse_object
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata
from nczarr.zarr.names import check_name, split_path

Metadata = ArrayMetadata | GroupMetadata
Items = list[tuple[str, bytes]]


@dataclass
class RawNode:
    """A node that was found and not parsed yet.

    Parameters
    ----------
    is_array : bool
    documents : dict
        JSON objects by key of the store; empty for a group that only its members imply.
    consolidated : bool
        The documents come from consolidated metadata.
    """

    is_array: bool
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    consolidated: bool = False


@dataclass
class Found:
    """What a layout found: nodes by path, whether there are consolidated metadata, whether these are all."""

    nodes: dict[str, RawNode]
    consolidated: bool = False
    complete: bool = True


def join_key(*parts: str) -> str:
    """Return the key made of parts, without the empty ones.

    Examples
    --------
    >>> join_key("", "zarr.json"), join_key("g/v", "zarr.json")
    ('zarr.json', 'g/v/zarr.json')
    """
    return "/".join(part for part in parts if part)


def with_parents(nodes: Mapping[str, RawNode]) -> dict[str, RawNode]:
    """Return nodes with the groups that are only implied, parents first, without nodes inside arrays."""
    root = nodes.get("") or RawNode(False)
    result: dict[str, RawNode] = {"": root}
    for path, node in nodes.items():
        if "/" not in path and not root.is_array:
            result.setdefault(path, node)
            continue
        names = split_path(path)
        inside_array = False
        for i in range(len(names)):
            parent = "/".join(names[:i])
            if parent not in result:
                result[parent] = nodes.get(parent) or RawNode(False)
            inside_array = inside_array or result[parent].is_array
        if not inside_array:
            result.setdefault(path, node)
    return result


def read_zarr_json(store: Store) -> dict[str, Any]:
    """Return the document ``zarr.json`` of a store.

    Raises
    ------
    DatasetNotFoundError
        If there is none.
    """
    data = store.get("zarr.json")
    if data is None:
        raise DatasetNotFoundError("no zarr.json here", path=store.url)
    return parse_object(data, store.place("zarr.json"))


class Layout(ABC):
    """One version of Zarr; see the module."""

    name: ClassVar[str]

    @abstractmethod
    def discover(
        self, store: Store, use_consolidated: bool | None, root: dict[str, Any] | None = None
    ) -> Found:
        """Find all nodes.

        Parameters
        ----------
        store : Store
        use_consolidated : bool or None
            None: consolidated metadata if they are there.
        root : dict, optional
            The document ``zarr.json``, if it was read already.

        Raises
        ------
        DatasetNotFoundError
            If there is no hierarchy of this layout, or no consolidated metadata and they were asked for.
        """

    @abstractmethod
    def fetch(self, store: Store, paths: Iterable[str]) -> dict[str, RawNode]:
        """Read the documents of some nodes in one concurrent batch; nodes that do not exist are left out."""

    @abstractmethod
    def parse(self, raw: RawNode, path: str, store: Store) -> Metadata:
        """Return the metadata of a node that was found."""

    @abstractmethod
    def documents(self, path: str, metadata: Metadata) -> dict[str, dict[str, Any]]:
        """Return the documents of a node by key, in the order of writing."""

    @abstractmethod
    def document_keys(self, path: str) -> list[str]:
        """Return every key that may hold a document of the node."""

    @abstractmethod
    def chunk_prefix(self, path: str) -> str:
        """Return what stands before the chunk keys of an array, with its slash."""

    def node_prefixes(self, path: str) -> list[str]:
        """Return the prefixes below which everything belongs to the node."""
        return [path]

    @abstractmethod
    def consolidate(
        self, nodes: Iterable[tuple[str, dict[str, dict[str, Any]]]]
    ) -> dict[str, dict[str, Any]]:
        """Return the documents that hold the consolidated metadata (the root's among them), by key."""

    def encode(self, key: str, document: Mapping[str, Any]) -> bytes:
        """Return a document as bytes."""
        return dump_json(document, key)


def walk(layout: Layout, store: Store, legal: Callable[[str], bool]) -> dict[str, RawNode]:
    """Find the nodes below the root folder by folder: one batch of reads for each level, no arrays listed."""
    nodes: dict[str, RawNode] = {}
    level = [""]
    while level:
        below = [join_key(path, n) for path in level for n in store.list_dir(path)[1] if legal(n)]
        found = layout.fetch(store, below)
        nodes.update(found)
        level = [path for path, node in found.items() if not node.is_array]
    return nodes


class V3Layout(Layout):
    """Zarr v3: one ``zarr.json`` for each node, chunks beside it."""

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
            nodes = {"": root_node}
            for path, document in inside.items():
                try:
                    is_array = documents_v3.node_type(document, "") == "array"
                except MetadataError as error:
                    error.path = f"{place}: consolidated_metadata.metadata[{path!r}]"
                    raise
                nodes[path] = RawNode(is_array, {path + "/zarr.json": document}, True)
            return Found(with_parents(nodes), consolidated=True)
        if use_consolidated:
            raise DatasetNotFoundError("no consolidated metadata", path=place)
        stored = isinstance(root.get("consolidated_metadata"), dict)
        if not store.listable:
            return Found({"": root_node}, stored, complete=False)
        nodes = {"": root_node}
        if store.lists_by_folder:
            nodes.update(walk(self, store, lambda name: check_name(name, writing=False) is None))
            return Found(nodes, stored)
        paths = [key[: -len("/zarr.json")] for key in store.list() if key.endswith("/zarr.json")]
        legal = [p for p in paths if all(check_name(name, writing=False) is None for name in split_path(p))]
        nodes.update(self.fetch(store, legal))
        return Found(with_parents(nodes), stored)

    def fetch(self, store: Store, paths: Iterable[str]) -> dict[str, RawNode]:
        keys = [join_key(path, "zarr.json") for path in paths]
        result = {}
        for key, data in zip(keys, store.get_many(keys), strict=True):
            if data is not None:
                place = store.place(key)
                document = parse_object(data, place)
                kind = documents_v3.node_type(document, place)
                result[key.removesuffix("zarr.json").removesuffix("/")] = RawNode(
                    kind == "array", {key: document}
                )
        return result

    def parse(self, raw: RawNode, path: str, store: Store) -> Metadata:
        for key, document in raw.documents.items():
            try:
                return documents_v3.parse_found(document, "", raw.is_array)
            except NCZarrError as error:
                inside = f"{store.place('zarr.json')}: consolidated_metadata.metadata[{path!r}]"
                error.path = error.path or (inside if raw.consolidated else store.place(key))
                raise
        return GroupMetadata()

    def documents(self, path: str, metadata: Metadata) -> dict[str, dict[str, Any]]:
        key = join_key(path, "zarr.json")
        try:
            return {key: documents_v3.node_document(metadata)}
        except MetadataError as error:
            error.path = error.path or key
            raise

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
            document = next(iter(documents.values()), {"zarr_format": 3, "node_type": "group"})
            if path:
                others.append((path, document))
            else:
                root = {key: value for key, value in document.items() if key != "consolidated_metadata"}
        return {"zarr.json": {**root, "consolidated_metadata": consolidated.inline_metadata(others)}}
