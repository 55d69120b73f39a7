"""Define layouts: which documents a hierarchy has, under which keys, and how all of them are found.

A layout knows one version of Zarr. Finding all nodes costs one document where metadata are consolidated; else one
listing and one concurrent batch of reads. Where folders are listed one by one (local files, index pages of web
servers) arrays, which may hold a million chunks, are not listed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nczarr.errors import DatasetNotFoundError
from nczarr.stores import Store
from nczarr.zarr.documents.json import dump_json, parse_object
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata
from nczarr.zarr.names import split_path

Metadata = ArrayMetadata | GroupMetadata


@dataclass
class RawNode:
    """A node that was found and not parsed yet.

    Parameters
    ----------
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
