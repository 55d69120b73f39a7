"""Define layouts: the documents of a hierarchy, their keys, and the search for them.

A layout implements one version of Zarr. The search for all nodes reads one document if metadata are consolidated; else
it needs one listing and one concurrent batch of reads. If a store lists each folder separately (local files, index
pages of web servers), the search does not list arrays, which may have a million chunks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nczarr.errors import DatasetNotFoundError, MetadataError
from nczarr.stores import LocalStore, Store
from nczarr.zarr.documents.consolidated import DocumentTexts, parse_root
from nczarr.zarr.documents.json import dump_json
from nczarr.zarr.limits import LIMITS
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata
from nczarr.zarr.names import parent_path

Metadata = ArrayMetadata | GroupMetadata


@dataclass
class RawNode:
    """A node with unparsed metadata.

    Parameters
    ----------
    documents : dict
        JSON objects by key of the store; empty for an implicit group.
    consolidated : bool
        True if the documents are from consolidated metadata.
    """

    is_array: bool
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    consolidated: bool = False


class DamagedNode(RawNode):
    """A node whose document is not a JSON object, or has no valid node type; its descendants are ignored."""

    def __init__(self, error: MetadataError) -> None:
        super().__init__(is_array=True)
        self.error = error


@dataclass
class Found:
    """The result of a search: nodes by path, and flags for consolidated metadata and a complete search.

    `left_out` are paths of documents inside arrays, where the specification allows no node.
    """

    nodes: dict[str, RawNode]
    consolidated: bool = False
    complete: bool = True
    left_out: tuple[str, ...] = ()

    @classmethod
    def among(cls, nodes: Mapping[str, RawNode], consolidated: bool = False, complete: bool = True) -> Found:
        """Return the nodes and their implicit groups, parents first, without nodes inside arrays."""
        result = with_parents(nodes)
        left_out = () if nodes.keys() <= result.keys() else tuple(p for p in nodes if p not in result)
        return cls(result, consolidated, complete, left_out)


def join_key(*parts: str) -> str:
    """Join the non-empty parts of a key.

    Examples
    --------
    >>> join_key("", "zarr.json"), join_key("g/v", "zarr.json")
    ('zarr.json', 'g/v/zarr.json')
    """
    return "/".join(part for part in parts if part)


def with_parents(nodes: Mapping[str, RawNode]) -> dict[str, RawNode]:
    """Return nodes and their implicit groups, parents first, without nodes inside arrays."""
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
        # `path` is now the nearest known ancestor.
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
        If the store has no ``zarr.json``.
    """
    data = read_document(store, "zarr.json")
    if data is None:
        raise DatasetNotFoundError("no zarr.json in the store", path=store.url)
    return parse_root(data, store.place("zarr.json"))


def read_document(store: Store, key: str) -> bytes | None:
    """Read one metadata document; see :func:`read_documents`."""
    if isinstance(store, LocalStore):
        return store.get_range(key, 0, LIMITS.document_bytes + 1)
    return store.get(key)


def read_documents(store: Store, keys: list[str]) -> Sequence[bytes | None]:
    """Read metadata documents in one batch, and local files only up to the size limit of a document.

    Without the limit, a huge sparse file would exhaust the memory.
    """
    if isinstance(store, LocalStore):
        return [read_document(store, key) for key in keys]
    return store.get_many(keys)


class Layout(ABC):
    """The keys and documents of one version of Zarr."""

    name: ClassVar[str]

    @abstractmethod
    def discover(
        self, store: Store, use_consolidated: bool | None, root: dict[str, Any] | None = None
    ) -> Found:
        """Find all nodes.

        Parameters
        ----------
        use_consolidated : bool or None
            None: use consolidated metadata if they exist.
        root : dict, optional
            The document ``zarr.json``, if the caller has read it.

        Raises
        ------
        DatasetNotFoundError
            If the store has no hierarchy of this layout, or no required consolidated metadata.
        """

    @abstractmethod
    def fetch(self, store: Store, paths: Iterable[str]) -> dict[str, RawNode]:
        """Read the documents of nodes in one concurrent batch; the result omits missing nodes."""

    def is_unchanged(self, store: Store, path: str, known: RawNode) -> bool:
        """Return True if the stored document of a node is byte-identical to the known one; False if unknown."""
        return False

    @abstractmethod
    def parse(self, raw: RawNode, path: str, store: Store) -> Metadata:
        """Return the metadata of a node."""

    @abstractmethod
    def documents(self, path: str, metadata: Metadata) -> dict[str, dict[str, Any]]:
        """Return the documents of a node by key, in the order of writing."""

    def deviations(self, raw: RawNode) -> Iterator[str]:
        """Yield the tolerated deviations of a document from its specification."""
        return iter(())

    @abstractmethod
    def document_keys(self, path: str) -> list[str]:
        """Return the keys of all possible documents of the node."""

    @abstractmethod
    def chunk_prefix(self, path: str) -> str:
        """Return the prefix of an array's chunk keys, with its slash."""

    def node_prefixes(self, path: str) -> list[str]:
        """Return the prefixes of all keys of the node and its descendants."""
        return [path]

    @abstractmethod
    def consolidate(
        self, nodes: Iterable[tuple[str, dict[str, dict[str, Any]]]]
    ) -> dict[str, dict[str, Any]]:
        """Return the documents with the consolidated metadata, including the root's, by key."""

    def consolidated_texts(
        self, nodes: Iterable[tuple[str, dict[str, dict[str, Any]]]], texts: DocumentTexts
    ) -> list[tuple[str, bytes]]:
        """Return the documents of :meth:`consolidate` as bytes, with cached texts of the nodes."""
        return [(key, self.encode(key, document)) for key, document in self.consolidate(nodes).items()]

    def encode(self, key: str, document: Mapping[str, Any]) -> bytes:
        """Return a document as bytes."""
        return dump_json(document, key)


def walk(
    layout: Layout, store: Store, legal: Callable[[str], bool], named: Iterable[str] = ()
) -> dict[str, RawNode]:
    """Find the nodes below the root by folder: one batch of reads for each level, and no listing of arrays.

    `named` are additional paths to look for, from another source.
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
