"""Define layouts: which documents a hierarchy has, under which keys, and how all of them are found.

A layout knows one version of Zarr. Finding all nodes costs one document where metadata are consolidated; else one
listing and one concurrent batch of reads. Where folders are listed one by one (local files, index pages of web
servers) arrays, which may hold a million chunks, are not listed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nczarr.errors import DatasetNotFoundError, MetadataError
from nczarr.stores import LocalStore, Store
from nczarr.zarr.documents import DocumentTexts, dump_json, parse_root
from nczarr.zarr.limits import LIMITS
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata
from nczarr.zarr.names import parent_path

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


class DamagedNode(RawNode):
    """A node whose document is no JSON object, or names no kind of node; what is below it is not looked for."""

    def __init__(self, error: MetadataError) -> None:
        super().__init__(is_array=True)
        self.error = error


@dataclass
class Found:
    """What a layout found: nodes by path, whether there are consolidated metadata, whether these are all.

    `left_out` are documents of nodes inside arrays, where no node can be.
    """

    nodes: dict[str, RawNode]
    consolidated: bool = False
    complete: bool = True
    left_out: tuple[str, ...] = ()

    @classmethod
    def among(cls, nodes: Mapping[str, RawNode], consolidated: bool = False, complete: bool = True) -> Found:
        """Return the nodes with the groups that they imply, parents first, and without nodes inside arrays."""
        result = with_parents(nodes)
        left_out = () if nodes.keys() <= result.keys() else tuple(p for p in nodes if p not in result)
        return cls(result, consolidated, complete, left_out)


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
    if not root.is_array and "/" not in "".join(nodes):
        return {"": root, **nodes}
    result: dict[str, RawNode] = {"": root}
    left_out: set[str] = set()
    for path, node in nodes.items():
        if "/" not in path and not root.is_array:
            result.setdefault(path, node)
            continue
        missing = []
        while path not in result and path not in left_out:
            missing.append(path)
            path = parent_path(path)
        # `path` is the nearest node above that is known already: each step looks at one parent only.
        inside_array = path in left_out or (bool(missing) and result[path].is_array)
        for below in reversed(missing):
            if inside_array:
                left_out.add(below)
            else:
                result[below] = nodes.get(below) or RawNode(False)
                inside_array = result[below].is_array
    return result


def read_zarr_json(store: Store) -> dict[str, Any]:
    """Return the document ``zarr.json`` of a store.

    Raises
    ------
    DatasetNotFoundError
        If there is none.
    """
    data = read_document(store, "zarr.json")
    if data is None:
        raise DatasetNotFoundError("no zarr.json here", path=store.url)
    return parse_root(data, store.place("zarr.json"))


def read_document(store: Store, key: str) -> bytes | None:
    """Read one metadata document; see :func:`read_documents`."""
    if isinstance(store, LocalStore):
        return store.get_range(key, 0, LIMITS.document_bytes + 1)
    return store.get(key)


def read_documents(store: Store, keys: list[str]) -> Sequence[bytes | None]:
    """Read metadata documents in one batch; of local files no more than a document may have.

    A sparse file costs nothing to make, and would fill the memory.
    """
    if isinstance(store, LocalStore):
        return [read_document(store, key) for key in keys]
    return store.get_many(keys)


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

    def is_unchanged(self, store: Store, path: str, known: RawNode) -> bool:
        """True if what the store has of a node is letter for letter what is known; if not, :meth:`fetch` tells more."""
        return False

    @abstractmethod
    def parse(self, raw: RawNode, path: str, store: Store) -> Metadata:
        """Return the metadata of a node that was found."""

    @abstractmethod
    def documents(self, path: str, metadata: Metadata) -> dict[str, dict[str, Any]]:
        """Return the documents of a node by key, in the order of writing."""

    def deviations(self, raw: RawNode) -> Iterator[str]:
        """Say what a document breaks of its specification and is read all the same."""
        return iter(())

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

    def consolidated_texts(
        self, nodes: Iterable[tuple[str, dict[str, dict[str, Any]]]], texts: DocumentTexts
    ) -> list[tuple[str, bytes]]:
        """Return the documents of :meth:`consolidate` as bytes, made of the texts that are known."""
        return [(key, self.encode(key, document)) for key, document in self.consolidate(nodes).items()]

    def encode(self, key: str, document: Mapping[str, Any]) -> bytes:
        """Return a document as bytes."""
        return dump_json(document, key)


def walk(
    layout: Layout, store: Store, legal: Callable[[str], bool], named: Iterable[str] = ()
) -> dict[str, RawNode]:
    """Find the nodes below the root folder by folder: one batch of reads for each level, no arrays listed.

    `named` are paths that something else names; they are asked for too.
    """
    nodes: dict[str, RawNode] = {}
    level = [""]
    others: dict[str, list[str]] = {}
    for path in named:
        others.setdefault(parent_path(path), []).append(path)
    while level:
        listed = [join_key(path, n) for path in level for n in store.list_dir(path)[1] if legal(n)]
        below = dict.fromkeys([*listed, *(other for path in level for other in others.get(path, ()))])
        found = layout.fetch(store, below)
        nodes.update(found)
        level = [path for path, node in found.items() if not node.is_array]
    return nodes
