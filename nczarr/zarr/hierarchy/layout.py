"""Define the nodes of a hierarchy, and layouts: their documents, their keys, and the search for them.

A layout implements one version of Zarr. The search for all nodes reads one document if metadata are consolidated; else
it needs one listing and one concurrent batch of reads. If a store lists each folder separately (local files, index
pages of web servers), the search does not list arrays, which may have a million chunks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, ValuesView
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

from nczarr.errors import DatasetNotFoundError, MetadataError
from nczarr.stores import LocalStore, Store
from nczarr.zarr.documents.consolidated import DocumentTexts, parse_root
from nczarr.zarr.limits import LIMITS
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata
from nczarr.zarr.names import check_name, parent_path, split_path
from nczarr.zarr.types import JsonObject

Metadata = ArrayMetadata | GroupMetadata
Documents = dict[str, JsonObject]
"""The documents of a node by key of the store."""


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
    documents: Documents = field(default_factory=dict)
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
    for path in nodes:
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


class Nodes(Mapping[str, Metadata]):
    """The metadata of all nodes by path, parsed on first use; parents come before children.

    Reading is thread-safe; the owner serialises the changes.
    """

    def __init__(self, raw: dict[str, RawNode], parse: Callable[[RawNode, str], Metadata]) -> None:
        self._raw = raw
        self._parse = parse
        self._parsed: dict[str, Metadata] = {}
        #: The paths of the children of each group, if they are indexed.
        self.children: dict[str, list[str]] | None = None

    def __getitem__(self, path: str) -> Metadata:
        parsed = self._parsed.get(path)
        if parsed is None:
            # No lock: if two threads parse the same document, the results are equal. A newer entry is kept.
            parsed = self._parsed.setdefault(path, self._parse(self._raw[path], path))
        return parsed

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._raw))  # a copy, because another thread may add nodes during the iteration

    def __len__(self) -> int:
        return len(self._raw)

    def __contains__(self, path: object) -> bool:
        return path in self._raw

    def values(self) -> ValuesView[Metadata]:
        """Return all metadata, which are parsed before the first one is returned."""
        return {path: self[path] for path in self}.values()

    def is_array(self, path: str) -> bool:
        """Return True if the node is an array, without parsing its metadata."""
        return self._raw[path].is_array

    def documents(self, path: str) -> Documents:
        """Return the node's stored documents by key; callers must not change them."""
        return self._raw[path].documents

    def raw(self, path: str) -> RawNode | None:
        """Return the unparsed node; None if it does not exist."""
        return self._raw.get(path)

    def raw_items(self) -> list[tuple[str, RawNode]]:
        """Return the unparsed nodes with their paths."""
        return list(self._raw.items())

    def index_children(self) -> dict[str, list[str]]:
        """Return the paths of the children of each group, and keep them until a node is added or removed."""
        index: dict[str, list[str]] = {}
        for node in self:
            if node:
                index.setdefault(parent_path(node), []).append(node)
        self.children = index
        return index

    def put(self, path: str, raw: RawNode, metadata: Metadata | None = None) -> None:
        """Add or replace a node; without `metadata`, the documents are parsed on first use."""
        self._raw[path] = raw
        if metadata is None:
            self._parsed.pop(path, None)
        else:
            self._parsed[path] = metadata
        self.children = None

    def put_found(self, path: str, raw: RawNode) -> None:
        """Add a node, and implicit groups for its missing parents."""
        missing = [path]
        while (parent := parent_path(missing[-1])) not in self._raw:
            missing.append(parent)
        for parent in reversed(missing[1:]):
            self.put(parent, RawNode(False))
        self.put(path, raw)

    def override(self, path: str, metadata: Metadata) -> None:
        """Replace the parsed metadata of a node, not its documents."""
        self._parsed[path] = metadata

    def remove(self, path: str) -> None:
        """Remove one node."""
        del self._raw[path]
        self._parsed.pop(path, None)
        self.children = None


def read_document(store: Store, key: str) -> bytes | None:
    """Read one metadata document, and a local file only up to the size limit of a document.

    Without the limit, a huge sparse file would exhaust the memory.
    """
    if isinstance(store, LocalStore):
        return store.get_range(key, 0, LIMITS.document_bytes + 1)
    return store.get(key)


class Layout(ABC):
    """The keys and documents of one version of Zarr in a store."""

    name: ClassVar[str]

    def __init__(self, store: Store) -> None:
        self.store = store

    @abstractmethod
    def discover(self, use_consolidated: bool | None, root: JsonObject | None = None) -> Found:
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

    def read_documents(self, keys: list[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the existing ones of metadata documents, read in one batch; see :func:`read_document`."""
        if isinstance(self.store, LocalStore):
            found: Sequence[bytes | None] = [read_document(self.store, key) for key in keys]
        else:
            found = self.store.get_many(keys)
        return ((key, data) for key, data in zip(keys, found, strict=True) if data is not None)

    @abstractmethod
    def read(self, keys: list[str]) -> dict[str, RawNode]:
        """Read documents in one concurrent batch, and return their nodes by path; missing keys are ignored."""

    def fetch(self, paths: Iterable[str]) -> dict[str, RawNode]:
        """Read the documents of nodes in one concurrent batch; the result omits missing nodes."""
        return self.read([key for path in paths for key in self.document_keys(path)])

    def is_unchanged(self, path: str, known: RawNode) -> bool:
        """Return True if the stored document of a node is byte-identical to the known one; False if unknown."""
        return False

    @abstractmethod
    def parse(self, raw: RawNode, path: str) -> Metadata:
        """Return the metadata of a node."""

    @abstractmethod
    def documents(self, path: str, metadata: Metadata) -> Documents:
        """Return the documents of a node by key, in the order of writing."""

    def deviations(self, raw: RawNode) -> Iterator[str]:
        """Yield the tolerated deviations of a document from its specification."""
        return iter(())

    @abstractmethod
    def document_keys(self, path: str) -> list[str]:
        """Return the keys of all possible documents of the node."""

    def chunk_prefix(self, path: str) -> str:
        """Return the prefix of an array's chunk keys, with its slash."""
        return path + "/" if path else ""

    def node_prefixes(self, path: str) -> list[str]:
        """Return the prefixes of all keys of the node and its descendants."""
        return [path]

    @abstractmethod
    def consolidated_texts(
        self, nodes: Iterable[tuple[str, Documents]], texts: DocumentTexts
    ) -> list[tuple[str, bytes]]:
        """Return the root's documents and the consolidated metadata by key; `texts` has texts of other nodes."""

    # --- searching

    def read_zarr_json(self) -> JsonObject:
        """Return the document ``zarr.json``.

        Raises
        ------
        DatasetNotFoundError
            If the store has no ``zarr.json``.
        """
        data = read_document(self.store, "zarr.json")
        if data is None:
            raise DatasetNotFoundError("no zarr.json in the store", path=self.store.url)
        return parse_root(data, self.store.place("zarr.json"))

    def is_legal(self, path: str) -> bool:
        """Return True if all names of a path are legal in the layout."""
        return all(check_name(name, writing=False, layout=self.name) is None for name in split_path(path))

    def search(self, root: RawNode, has_copies: bool, copied: Callable[[], Iterable[str]]) -> Found:
        """Find the nodes below the root by listing, without consolidated metadata.

        `has_copies` tells if the store has consolidated metadata, and `copied` returns the paths of their nodes. A
        listing may omit these nodes; their own documents show whether they exist.
        """
        store, nodes = self.store, {"": root}
        if not store.listable:
            return Found(nodes, has_copies, complete=False)
        named: list[str] = []
        if has_copies and not store.lists_all:
            with suppress(DatasetNotFoundError, MetadataError):
                named = [path for path in copied() if path and self.is_legal(path)]
        if store.lists_by_folder:
            nodes.update(self._walk(named))
            return Found(nodes, has_copies, complete=store.lists_all)
        names = {key.rpartition("/")[2] for key in self.document_keys("")}
        keys = [key for key in store.list() if key.rpartition("/")[2] in names]
        keys = [key for key in keys if self.is_legal(key.rpartition("/")[0])]
        keys += [key for path in named for key in self.document_keys(path)]
        nodes.update(self.read(list(dict.fromkeys(keys))))
        return Found.among(nodes, has_copies, complete=store.lists_all)

    def _walk(self, named: Iterable[str]) -> dict[str, RawNode]:
        """Find the nodes by folder: one batch of reads for each level, and no listing of arrays.

        `named` are additional paths to look for, from another source.
        """
        nodes: dict[str, RawNode] = {}
        level = [""]
        others: dict[str, list[str]] = {}
        for path in named:
            others.setdefault(parent_path(path), []).append(path)
        while level:
            below: dict[str, None] = {}
            for path, (_, found_names) in zip(level, self.store.list_dirs(level), strict=True):
                names = filter(self.is_legal, found_names)
                below.update(dict.fromkeys([join_key(path, name) for name in names]))
            below.update(dict.fromkeys([other for path in level for other in others.get(path, ())]))
            found = self.fetch(below)
            nodes.update(found)
            level = [path for path, node in found.items() if not node.is_array]
        return nodes
