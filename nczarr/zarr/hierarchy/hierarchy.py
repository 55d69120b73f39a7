"""Open or create the hierarchy of a store, and read and change its nodes.

:func:`open_hierarchy` detects the version of Zarr in a store and finds all nodes; metadata are parsed on first access.
:func:`create_hierarchy` creates a new hierarchy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, ValuesView
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from nczarr.errors import (
    DatasetNotFoundError,
    ExtensionError,
    MetadataError,
    NCZarrError,
    ReadOnlyError,
    StoreError,
    UnsupportedError,
    ZarrNameError,
)
from nczarr.stores import LocalStore, Store
from nczarr.system.locks import Rank, make_lock
from nczarr.zarr.documents import consolidated as consolidated_metadata
from nczarr.zarr.documents.consolidated import DocumentTexts, parse_root
from nczarr.zarr.documents.json import as_it_stands
from nczarr.zarr.hierarchy.draft import DraftLayout, ExperimentalLayout
from nczarr.zarr.hierarchy.layout import DamagedNode, Found, Layout, Metadata, RawNode, read_document
from nczarr.zarr.hierarchy.v2 import V2Layout
from nczarr.zarr.hierarchy.v3 import V3Layout
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, are_stored_alike
from nczarr.zarr.names import check_path, check_siblings, parent_path
from nczarr.zarr.types.base import show

if TYPE_CHECKING:
    from nczarr.zarr.arrays.array import Array


LayoutName = Literal["v3", "v2", "draft-2019", "experimental-v3"]
#: The number of attempts to open a hierarchy that another program replaces at the same time.
_TRIES = 5
_DECIDING = frozenset({"zarr.json", ".zgroup", ".zarray"})
#: The keys that define the stored bytes of an array, in any version of Zarr.
_STORAGE = frozenset({
    "chunk_grid", "chunk_key_encoding", "chunk_memory_layout", "chunks", "codecs", "compressor", "data_type",
    "dimension_separator", "dtype", "fill_value", "filters", "node_type", "order", "storage_transformers",
    "zarr_format",
})  # fmt: skip


#: The search for rejected documents stops after this number of consecutive rejections.
_MOST_REFUSED = 64


class Nodes(Mapping[str, Metadata]):
    """The metadata of all nodes by path, parsed on first use; parents come before children."""

    def __init__(self, store: Store, layout: Layout, raw: dict[str, RawNode]) -> None:
        self._store = store
        self._layout = layout
        self._raw = raw
        self._parsed: dict[str, Metadata] = {}

    def __getitem__(self, path: str) -> Metadata:
        parsed = self._parsed.get(path)
        if parsed is None:
            # No lock: if two threads parse the same document, the results are equal. A newer entry is kept.
            parsed = self._parsed.setdefault(path, self._layout.parse(self._raw[path], path, self._store))
        return parsed

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._raw))  # a copy, because another thread may add nodes during the iteration

    def __len__(self) -> int:
        return len(self._raw)

    def __contains__(self, path: object) -> bool:
        return path in self._raw

    def values(self) -> ValuesView[Metadata]:
        """All metadata; who asks for them wants them all, and so they are parsed now."""
        return {path: self[path] for path in self}.values()

    def is_array(self, path: str) -> bool:
        """Return True if the node is an array, without parsing its metadata."""
        return self._raw[path].is_array

    def documents(self, path: str) -> dict[str, dict[str, Any]]:
        """Return the node's stored documents by key; callers must not change them."""
        return self._raw[path].documents


class Hierarchy:
    """The groups and arrays of one store.

    :func:`open_hierarchy` and :func:`create_hierarchy` return objects of this class. Reading is thread-safe; a lock
    serialises changes.

    Attributes
    ----------
    store : Store
    layout : str
        ``v3``, ``v2``, ``draft-2019`` or ``experimental-v3``.
    nodes : Mapping
        Metadata by path: ``""`` is the root, ``"g/v"`` a descendant. Metadata are parsed on first access, so a
        damaged document affects only its own node.
    consolidated : bool
        True if the store has consolidated metadata (used on opening or not), or after `consolidate`.
    keeps_bare_numbers : bool
        True: consolidated metadata keep the bare ``NaN`` and infinities of the nodes' documents, which are not valid
        JSON. False: these become strings.
    complete : bool
        False if consolidated metadata are not used and the listings of the store may omit keys. Then `nodes` has only
        the root, the listed nodes, and those from `load`.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> hierarchy = create_hierarchy(MemoryStore(), attributes={"title": "x"})
    >>> hierarchy.put_group("g", GroupMetadata())
    >>> list(hierarchy.nodes), hierarchy.layout
    (['', 'g'], 'v3')
    """

    def __init__(
        self,
        store: Store,
        layout: Layout,
        found: Found,
        *,
        writable: bool,
        hidden: bool = False,
        current: Callable[[], None] | None = None,
    ) -> None:
        self._current = current
        self._new = False
        self.store = store
        self.consolidated = found.consolidated
        self.keeps_bare_numbers = False
        self.complete = found.complete
        self._left_out = found.left_out
        self._layout = layout
        self._nodes = Nodes(store, layout, found.nodes)
        self._writable = writable
        self._hidden = hidden
        self._stale = False
        # Documents of a hidden hierarchy; `publish` writes them, so that no reader opens an incomplete hierarchy.
        self._unpublished: dict[str, bytes] = {}
        self._arrays: dict[str, Array] = {}
        self._children: dict[str, list[str]] | None = None
        # Nodes that this object has put, whose ancestors all have documents; the check of ancestors stops at them.
        self._put: set[str] = set()
        self._texts = DocumentTexts()
        #: Held while nodes or lengths of arrays change.
        self.lock = make_lock(Rank.STRUCTURE)

    @property
    def layout(self) -> LayoutName:
        """The name of the layout."""
        return self._layout.name  # type: ignore[return-value]

    @property
    def nodes(self) -> Nodes:
        """Metadata by path, parents before children."""
        return self._nodes

    @property
    def writable(self) -> bool:
        """True if nodes can be put and deleted."""
        return self._writable

    @property
    def hidden(self) -> bool:
        """True until `publish` writes the root's document."""
        return self._hidden

    def __repr__(self) -> str:
        return f"<Hierarchy {self.store.url} {self.layout}, {len(self._nodes)} nodes>"

    def _repr_html_(self) -> str:
        from nczarr.display import show_group
        from nczarr.zarr.describe import describe_hierarchy

        return show_group(describe_hierarchy(self))

    # -- reading

    def is_array(self, path: str) -> bool:
        """Return True if there is an array at `path`, without parsing its metadata."""
        return path in self._nodes and self._nodes.is_array(path)

    def children(self, path: str = "") -> list[str]:
        """Return the paths of the children of a group, in order.

        Examples
        --------
        >>> from nczarr.stores import MemoryStore
        >>> h = create_hierarchy(MemoryStore())
        >>> h.put_group("g", GroupMetadata()); h.put_group("g/h", GroupMetadata())
        >>> h.children(), h.children("g")
        (['g'], ['g/h'])
        """
        index = self._children
        if index is None:
            with self.lock:  # otherwise the index could miss a node that another thread puts
                index = {}
                for node in self._nodes:
                    if node:
                        index.setdefault(parent_path(node), []).append(node)
                self._children = index
        return list(index.get(path, ()))

    def array(self, path: str) -> Array:
        """Return the array at a path; always the same object.

        Raises
        ------
        DatasetNotFoundError
            If there is no array at the path.
        MetadataError
            If the document of the array is damaged.
        """
        array = self._arrays.get(path)
        if array is None:
            with self.lock:
                array = self._arrays.get(path)
                if array is None:
                    array = self._arrays[path] = self._open(path, self._array_metadata(path))
        return array

    def _array_metadata(self, path: str) -> ArrayMetadata:
        if path not in self._nodes:
            raise DatasetNotFoundError(f"no array {path!r}", path=self.store.url)
        metadata = self._nodes[path]
        if not isinstance(metadata, ArrayMetadata):
            raise DatasetNotFoundError(f"{path!r} is a group, not an array", path=self.store.url)
        return metadata

    def _open(self, path: str, metadata: ArrayMetadata) -> Array:
        from nczarr.zarr.arrays.array import Array

        save = self._saver(path) if self._writable else None
        confirm = None
        if not self._writable:  # no reference to the hierarchy, so that it is freed with its last reference
            confirm = partial(_confirm, self.store, self._layout, path, self._nodes._raw[path])
        prefix = self._layout.chunk_prefix(path)
        array = Array(
            self.store, prefix, metadata, path=path, save=save, confirm=confirm, current=self._current
        )
        if metadata.extensions:
            from nczarr.zarr.arrays.extended import extend

            return extend(array)
        return array

    def unknown_nodes(self) -> dict[str, str]:
        """Return the nodes except the root that cannot be opened: reasons by path.

        The document of such a node requires an unknown feature, has the fill value null, or violates the specification.
        The descendants of such a group cannot be opened, either. All other nodes can be opened.

        Examples
        --------
        >>> from nczarr.stores import MemoryStore
        >>> store = MemoryStore()
        >>> store.set("zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
        >>> store.set("g/zarr.json", b'{"zarr_format": 3, "node_type": "group", "extensions": []}')
        >>> open_hierarchy(store).unknown_nodes()
        {'g': 'extensions: the list is empty; a document without extensions must omit the key'}
        """
        found: dict[str, str] = {}
        for path in self._nodes:
            if not path:
                continue
            above = parent_path(path)
            if above in found:
                found[path] = f"the group {above!r} cannot be opened"
                continue
            try:
                self._nodes[path]
            except (ExtensionError, MetadataError, UnsupportedError) as error:
                found[path] = error.message
        return found

    def override(self, path: str, metadata: Metadata) -> None:
        """Replace the metadata of an existing node in memory, without writing them.

        For documents with a deviating meaning, such as those of old versions of netcdf-c.
        """
        with self.lock:
            if path not in self._nodes:
                raise DatasetNotFoundError(f"no node {path!r}", path=self.store.url)
            self._nodes._parsed[path] = metadata
            self._arrays.pop(path, None)

    def _saver(self, path: str) -> Callable[[ArrayMetadata], None]:
        return lambda metadata: self._save(path, metadata)

    def load(self, paths: Iterable[str]) -> list[str]:
        """Find nodes by path in one concurrent batch, for stores whose listings are incomplete.

        Returns
        -------
        list of str
            The existing paths; `nodes` contains them afterwards.
        """
        with self.lock:
            missing = [
                check_path(p, writing=False, layout=self.layout) for p in paths if p not in self._nodes
            ]
            found = self._layout.fetch(self.store, missing) if missing else {}
            for path, raw in found.items():
                self._add_parents(path)
                self._nodes._raw[path] = raw
            self._children = None
            return list(found)

    def _add_parents(self, path: str) -> None:
        missing = []
        while path:
            path = parent_path(path)
            if path in self._nodes:
                break
            missing.append(path)
        for path in reversed(missing):
            self._nodes._raw[path] = RawNode(False)

    # -- writing

    def put_group(self, path: str, metadata: GroupMetadata) -> None:
        """Create a group, or replace its metadata; missing parent groups are created.

        Raises
        ------
        ReadOnlyError, ZarrNameError
        MetadataError
            If the path or one of its parents is an array.
        """
        self.put_many([(path, metadata)])

    def put_array(self, path: str, metadata: ArrayMetadata) -> Array:
        """Create an array, or replace its metadata; its chunks do not change.

        Missing parent groups are created.

        Raises
        ------
        ReadOnlyError, ZarrNameError
        MetadataError
            If the path is a group, one of its parents is an array, or the metadata are invalid in the layout.
        UnsupportedError
            If the layout cannot represent a part of the metadata.
        """
        self.put_many([(path, metadata)])
        return self.array(path)

    def put_many(self, items: Iterable[tuple[str, Metadata]]) -> None:
        """Create or replace many nodes with one batch of writes; see `put_group` and `put_array`.

        All documents are created and checked before the first write. With consolidated metadata, the root's document is
        written last, together with the copies, so that readers do not mix old and new documents.
        """
        with self.lock:
            self._check_writable()
            raw: dict[str, RawNode] = {}
            parsed: dict[str, Metadata] = {}
            by_case = {p.lower(): p for p in self._nodes} if self.layout == "draft-2019" else None
            for path, metadata in items:
                self._check_put(path, metadata, raw)
                if by_case is not None:
                    check_siblings(path, by_case)
                    by_case[path.lower()] = path
                is_array = isinstance(metadata, ArrayMetadata)
                raw[path] = RawNode(is_array, self._layout.documents(path, metadata))
                parsed[path] = metadata
            root_later = self._hidden or self.consolidated
            writes = [
                write
                for path, node in raw.items()
                if path or not root_later
                for write in self._encoded(path, node)
            ]
            # A store that takes Zarr's keys only (Icechunk) takes no chunk before its array, and has commits.
            if self._hidden and self.store.takes_any_key:
                self._unpublished.update(writes)
            else:
                self.store.set_many(writes)
            for path in raw:
                self._remove_other_documents(path, raw[path])
            self._nodes._raw.update(raw)
            self._put.update(raw)
            self._children = None
            for path, metadata in parsed.items():
                self._nodes._parsed[path] = metadata
                array = self._arrays.get(path)
                if array is not None and isinstance(metadata, ArrayMetadata) and array.metadata != metadata:
                    del self._arrays[path]
            self._stale = True
            if "" in raw:
                self.sync()

    def _encoded(self, path: str, node: RawNode) -> list[tuple[str, bytes]]:
        """Return the texts of a node's documents by key, and cache a single one for consolidated metadata."""
        texts = [(key, self._layout.encode(key, document)) for key, document in node.documents.items()]
        if len(texts) == 1:
            ((key, text),) = texts
            self._texts.keep(path, node.documents[key], text)
        return texts

    def is_own(self, path: str) -> bool:
        """Return True if this object has written the node's documents."""
        return path in self._put

    def put_lengths(self, arrays: Iterable[str], groups: Mapping[str, GroupMetadata]) -> None:
        """Write only the shapes of arrays that have grown in memory, and the attributes of their groups.

        For Zarr v3 and nodes from this object (:meth:`is_own`). Arrays are written first, the root last; with
        consolidated metadata, :meth:`sync` writes the root. Until then, readers of a local directory use the
        consolidated copies, because the other documents get the modification time of the root's document.
        """
        with self.lock:
            self._check_writable()
            changed: list[tuple[str, Metadata, dict[str, Any]]] = []
            for path in arrays:
                array = self.array(path).metadata
                changed.append((path, array, {"shape": list(array.shape)}))
            for path in sorted(groups, reverse=True):
                changed.append((path, groups[path], {"attributes": groups[path].attributes}))
            for path, metadata, update in changed:
                ((key, before),) = self._nodes.documents(path).items()
                document = {**before, **update}
                if path or not self.consolidated:  # `sync` writes the root with the copies inside
                    text = self._layout.encode(key, document)
                    if self.consolidated and type(self.store) is LocalStore:
                        self.store.set_as_old_as(key, text, "zarr.json")
                    else:
                        self.store.set(key, text)
                    self._texts.keep(path, document, text)
                self._nodes._raw[path] = RawNode(isinstance(metadata, ArrayMetadata), {key: document})
                self._nodes._parsed[path] = metadata
            self._stale = True

    def _check_put(self, path: str, metadata: Metadata, new: dict[str, RawNode]) -> None:
        check_path(path, layout=self.layout)
        is_array = isinstance(metadata, ArrayMetadata)
        existing = new.get(path) or self._nodes._raw.get(path)
        if existing is not None and existing.is_array != is_array and (path or len(self._nodes) > 1):
            kind = "an array" if existing.is_array else "a group"
            raise MetadataError(
                f"{path!r} is {kind} already",
                path=self.store.url,
                hint="delete it first, or use another name",
            )
        missing = []
        parent = path
        while parent:
            parent = parent_path(parent)
            node = new.get(parent) or self._nodes._raw.get(parent)
            if node is None or (not node.documents and not node.is_array):
                missing.append(parent)
                continue
            if node.is_array:
                raise MetadataError(
                    f"cannot create {path!r} inside the array {parent!r}",
                    path=self.store.url,
                    hint="only groups have children",
                )
            if parent in new or parent in self._put:
                break
        for parent in reversed(missing):
            new[parent] = RawNode(False, self._layout.documents(parent, GroupMetadata()))

    def _remove_other_documents(self, path: str, node: RawNode) -> None:
        old = self._nodes._raw.get(path)
        if old is not None:
            for key in old.documents:
                if key not in node.documents:
                    self._delete_document(key)

    def _delete_document(self, key: str) -> None:
        if self._unpublished.pop(key, None) is None:
            self.store.delete(key)

    def _save(self, path: str, metadata: ArrayMetadata) -> None:
        """Write the metadata of an array after its own change of shape."""
        with self.lock:
            array = self._arrays.pop(path, None)
            try:
                self.put_many([(path, metadata)])
            finally:
                if array is not None:
                    self._arrays[path] = array

    def delete(self, path: str) -> None:
        """Delete a node and its descendants; see :meth:`delete_many`."""
        self.delete_many([path])

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete nodes and their descendants.

        The consolidated metadata and the nodes' documents are removed before the chunks, so that no reader finds a
        node without its values.

        Raises
        ------
        DatasetNotFoundError
            If a node does not exist.
        ZarrNameError
            If a path is the root, which cannot be deleted.
        """
        paths = list(paths)
        with self.lock:
            self._check_writable()
            for path in paths:
                if not path:
                    raise ZarrNameError("the root cannot be deleted", path=self.store.url)
                if path not in self._nodes:
                    raise DatasetNotFoundError(f"no node {path!r}", path=self.store.url)
            for path in paths:
                for node in [p for p in self._nodes if p == path or p.startswith(path + "/")]:
                    for key in self._layout.document_keys(node):
                        self._unpublished.pop(key, None)
                    del self._nodes._raw[node]
                    self._nodes._parsed.pop(node, None)
                    self._put.discard(node)
                    self._arrays.pop(node, None)
            self._children = None
            self._stale = True
            self.sync()
            for path in paths:
                for key in self._layout.document_keys(path):
                    self.store.delete(key)
                for prefix in self._layout.node_prefixes(path):
                    self.store.delete_prefix(prefix)

    def erase_unclaimed(self, arrays: Iterable[tuple[str, ArrayMetadata]]) -> None:
        """Remove chunks without a document at the paths of new arrays.

        A process that dies during the removal or the move of an array leaves such chunks, which would become values of
        the new array. The call costs a listing, or a request for each chunk if listings are incomplete; for a new
        hierarchy it costs nothing.
        """
        from nczarr.zarr.arrays.array import Array

        store = self.store
        if self._new or not store.takes_any_key:
            return
        known: dict[str, set[str]] = {}
        for path, metadata in arrays:
            prefix = self.chunk_prefix(path).rstrip("/")
            above, _, name = prefix.rpartition("/")
            # `erase` fails fast for a missing local directory; other stores need a listing of the parent.
            if store.lists_all and not isinstance(store, LocalStore):
                if above not in known:
                    known[above] = set(store.list_dir(above)[1])
                if name not in known[above]:
                    continue
            Array(store, prefix, metadata, path=path).erase()

    def chunk_prefix(self, path: str) -> str:
        """Return the prefix of the chunk keys of an array at `path`, which need not exist."""
        return self._layout.chunk_prefix(path)

    def make_documents(self, path: str, metadata: Metadata) -> dict[str, dict[str, Any]]:
        """Return the documents of a node by key, without writing them."""
        return self._layout.documents(path, metadata)

    def parse_documents(self, path: str, documents: dict[str, dict[str, Any]], *, is_array: bool) -> Metadata:
        """Return the metadata in documents of the form that :meth:`make_documents` returns.

        Raises
        ------
        MetadataError
            If the documents are damaged.
        """
        return self._layout.parse(RawNode(is_array, documents), path, self.store)

    def consolidate(self) -> None:
        """Write consolidated metadata (v3: inline in the root's document; v2: ``.zmetadata``).

        For a hidden hierarchy, :meth:`publish` writes them. The drafts have no consolidated metadata: the call does
        nothing.
        """
        with self.lock:
            self._check_writable()
            self.consolidated = True
            if not self._hidden:
                self._write_root()

    def sync(self) -> None:
        """Rewrite the consolidated metadata if they exist and a node has changed."""
        with self.lock:
            if self.consolidated and self._stale and not self._hidden:
                self._write_root()

    def publish(self) -> None:
        """Write all documents of a hidden hierarchy, last the root's with the consolidated metadata."""
        with self.lock:
            self._check_writable()
            if self._hidden:
                self.store.set_many(self._unpublished.items())
                self._write_root()
                self._unpublished.clear()
                self._hidden = False

    def refused_nodes(self) -> dict[str, Exception]:
        """Write the documents of a hidden hierarchy one by one, and return the errors of rejected nodes by path.

        The result is also empty if the store rejects many consecutive documents.
        """
        refused: dict[str, Exception] = {}
        in_a_row = 0
        with self.lock:
            self._check_writable()
            for key, text in self._unpublished.items():
                try:
                    self.store.set(key, text)
                    in_a_row = 0
                except (NCZarrError, OSError) as error:
                    refused.setdefault(key.rpartition("/")[0], error)
                    in_a_row += 1
                    if in_a_row == _MOST_REFUSED:
                        return {}
        return refused

    def _write_root(self) -> None:
        nodes = self._nodes

        def documents_of(path: str) -> dict[str, dict[str, Any]]:
            documents = nodes.documents(path)
            return as_it_stands(documents) if self.keeps_bare_numbers else documents

        writes: dict[str, bytes] = {}
        if self.consolidated:
            pairs = ((path, documents_of(path)) for path in nodes)
            writes.update(self._layout.consolidated_texts(pairs, self._texts))
        for key, document in documents_of("").items():
            if key not in writes:
                writes[key] = self._layout.encode(key, document)
        # The documents that make the hierarchy visible are written last; a version 2 root has separate attributes.
        self.store.set_many([item for item in writes.items() if item[0] not in _DECIDING])
        self.store.set_many([item for item in writes.items() if item[0] in _DECIDING])
        self._stale = False

    def check_consolidated(self) -> list[str]:
        """Compare the consolidated metadata in the store with the documents of the nodes.

        Returns
        -------
        list of str
            A message for each difference; empty if the consolidated metadata are correct or do not exist.
        """
        try:
            copy = self._layout.discover(self.store, True)
        except DatasetNotFoundError:
            return []
        actual = self._layout.discover(self.store, False)
        if not actual.complete:
            asked = [path for path in copy.nodes if path not in actual.nodes]
            actual.nodes.update(self._layout.fetch(self.store, asked))
        for path, node in actual.nodes.items():
            if path in copy.nodes and self._are_equivalent(path, copy.nodes[path], node):
                copy.nodes[path] = node
        return list(consolidated_metadata.differences(_flat(copy), _flat(actual)))

    def is_outdated(self, path: str) -> bool:
        """Return True if the stored documents of a node differ from the ones in memory.

        Parameters
        ----------
        path : str
            Path of the node; ``""`` is the root.

        Examples
        --------
        >>> from nczarr.stores import MemoryStore
        >>> hierarchy = create_hierarchy(MemoryStore())
        >>> hierarchy.is_outdated("")
        False
        >>> hierarchy.store.set("zarr.json", b'{"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}}')
        >>> hierarchy.is_outdated("")
        True
        """
        own = self._layout.fetch(self.store, [path]).get(path)
        return own is None or own.documents != self._nodes.documents(path)

    def _are_equivalent(self, path: str, left: RawNode, right: RawNode) -> bool:
        """Return True for equivalent documents: zarr-python writes defaults into its consolidated metadata."""
        try:
            return self._layout.parse(left, path, self.store) == self._layout.parse(right, path, self.store)
        except NCZarrError:
            return False

    def deviations(self) -> Iterator[tuple[str, str]]:
        """Yield the tolerated deviations of the hierarchy from its specification, each as a path and a message."""
        for path in self._left_out:
            yield (
                path,
                "the document is inside an array, where the specification allows no node; it is ignored",
            )
        for path, raw in list(self._nodes._raw.items()):
            for message in self._layout.deviations(raw):
                yield path, message

    def _check_writable(self) -> None:
        if not self._writable:
            raise ReadOnlyError(
                "the hierarchy is open for reading", path=self.store.url, hint='use mode="r+"'
            )

    def close(self) -> None:
        """Release the arrays and their cached chunks; the store stays open, because it belongs to the caller."""
        arrays = dict(self._arrays)
        self._arrays.clear()
        if arrays:
            from nczarr.zarr.chunks.chunks import forget_chunks

            forget_chunks({array.owner for array in arrays.values()})


def _confirm(store: Store, layout: Layout, path: str, known: RawNode) -> None:
    """Check that an array still exists and still has the storage of its known document.

    Raises
    ------
    StoreError
        If another program has removed, renamed or replaced the array.
    """
    if layout.is_unchanged(store, path, known):
        return
    found = layout.fetch(store, [path]).get(path)
    if found is None and known.consolidated:
        # Some programs write only the consolidated metadata, without the original documents.
        with contextlib.suppress(DatasetNotFoundError):
            found = layout.discover(store, True).nodes.get(path)
    if found is None or not _is_same_array(layout, store, path, known, found):
        raise StoreError(
            "the array was removed, renamed or replaced since the dataset was opened",
            path=store.url,
            fqn=f"/{path}",
            hint="open the dataset again",
        )


def _is_same_array(layout: Layout, store: Store, path: str, known: RawNode, found: RawNode) -> bool:
    if _storage_of(found) == _storage_of(known):
        return True
    # zarr-python adds empty lists and tensorstore omits defaults when they rewrite a document.
    old, new = layout.parse(known, path, store), layout.parse(found, path, store)
    return isinstance(old, ArrayMetadata) and isinstance(new, ArrayMetadata) and are_stored_alike(old, new)


def _storage_of(node: RawNode) -> list[dict[str, Any]]:
    """Return the parts of an array's documents that define its stored bytes.

    The shape and the dimension names of an array may change.
    """
    return [
        {name: value for name, value in document.items() if name in _STORAGE}
        for key, document in sorted(node.documents.items())
        if not key.endswith(".zattrs")
    ]


def _flat(found: Found) -> dict[str, Any]:
    result = {}
    for node in found.nodes.values():
        for key, document in node.documents.items():
            result[key] = {name: value for name, value in document.items() if name != "consolidated_metadata"}
    return result


def open_hierarchy(
    store: Store,
    *,
    layout: LayoutName | None = None,
    consolidated: bool | None = None,
    mode: Literal["r", "r+"] = "r",
) -> Hierarchy:
    """Open the hierarchy in a store.

    Parameters
    ----------
    store : Store
    layout : str, optional
        ``v3``, ``v2``, ``draft-2019`` or ``experimental-v3``; detected by default.
    consolidated : bool, optional
        True: consolidated metadata are required. False: they are ignored. None: they are used if they exist.
    mode : {"r", "r+"}

    Raises
    ------
    DatasetNotFoundError
        If the store has no hierarchy; the message lists the keys that nczarr looked for, and those that exist.
    MetadataError
        If the root's document is damaged.
    ReadOnlyError
        If the store is read-only and `mode` is ``"r+"``.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> create_hierarchy(store, attributes={"title": "run 42"}).layout
    'v3'
    >>> open_hierarchy(store).nodes[""].attributes
    {'title': 'run 42'}
    """
    if mode == "r+" and not store.writable:
        raise ReadOnlyError("the store is read-only", path=store.url)
    found_layout, found, current = _find(store, layout, consolidated)
    if mode == "r+":
        _refuse_damaged(found)
    store.check_names(found.nodes)
    return Hierarchy(store, found_layout, found, writable=mode == "r+", current=current)


def _refuse_damaged(found: Found) -> None:
    """Raise MetadataError for a damaged document: changes of the hierarchy would overwrite or lose it."""
    for node in found.nodes.values():
        if isinstance(node, DamagedNode):
            hint = "restore the document, or remove its folder; reading skips the node"
            raise MetadataError(node.error.message, path=node.error.path, hint=hint)


def _find(
    store: Store, layout: LayoutName | None, consolidated: bool | None
) -> tuple[Layout, Found, Callable[[], None]]:
    """Find all nodes; repeat this if another program replaces the dataset at the same time.

    The third item raises StoreError if the dataset is replaced later.
    """
    for _ in range(_TRIES):
        current = store.hold()
        try:
            found = _find_layout(store, layout, consolidated)
        except NCZarrError:
            if _is_current(current):
                raise
        else:
            if _is_current(current):
                return *found, current
    raise StoreError(
        f"another program replaced the dataset during each of {_TRIES} attempts to open it",
        path=store.url,
        hint="open it again when the other program has finished",
    )


def _is_current(check: Callable[[], None]) -> bool:
    try:
        check()
    except StoreError:
        return False
    return True


def create_hierarchy(
    store: Store,
    *,
    layout: LayoutName = "v3",
    attributes: dict[str, Any] | None = None,
    hidden: bool = False,
) -> Hierarchy:
    """Create a new hierarchy with an empty root group.

    Existing keys of the store are ignored.

    Parameters
    ----------
    store : Store
    layout : str
    attributes : dict, optional
        The attributes of the root group.
    hidden : bool
        True: :meth:`Hierarchy.publish` writes the root's document, so that no reader opens an incomplete hierarchy.

    Raises
    ------
    ReadOnlyError
        If the store is read-only.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> create_hierarchy(store, layout="v2").close()
    >>> sorted(store.list())
    ['.zgroup']
    """
    if not store.writable:
        raise ReadOnlyError("the store is read-only", path=store.url)
    hierarchy = Hierarchy(
        store, _layout_named(layout), Found({"": RawNode(False)}), writable=True, hidden=hidden
    )
    hierarchy._new = True
    hierarchy.put_group("", GroupMetadata(attributes or {}))
    return hierarchy


#: The layouts that can be opened, by name.
LAYOUTS: dict[str, type[Layout]] = {
    "v3": V3Layout,
    "v2": V2Layout,
    "draft-2019": DraftLayout,
    "experimental-v3": ExperimentalLayout,
}


def _layout_named(name: str) -> Layout:
    if name not in LAYOUTS:
        raise NCZarrError(f"{name!r} is not a layout; known layouts: {', '.join(LAYOUTS)}")
    return LAYOUTS[name]()


def _find_layout(store: Store, layout: str | None, consolidated: bool | None) -> tuple[Layout, Found]:
    """Return the layout and the nodes of a store.

    Raises
    ------
    DatasetNotFoundError
        If the store has no hierarchy (of the requested layout).
    MetadataError
        If ``zarr.json`` is damaged, or has an unknown version.
    """
    chosen: Layout
    if layout is not None:
        chosen = _layout_named(layout)
        return chosen, chosen.discover(store, consolidated)
    data = read_document(store, "zarr.json")
    if data is None:
        chosen = V2Layout()
        try:
            return chosen, chosen.discover(store, consolidated)
        except DatasetNotFoundError as error:
            if consolidated:
                raise
            raise _not_found(store) from error
    place = store.place("zarr.json")
    root = parse_root(data, place)
    version = root.get("zarr_format")
    if isinstance(version, str):
        later = root.get("metadata_key_suffix") or str(root.get("metadata_encoding")).startswith("http")
        chosen = ExperimentalLayout() if later else DraftLayout()
    elif type(version) is int and version == 3:
        chosen = V3Layout()
    else:
        raise MetadataError(f"zarr_format: {show(version)} is not a known version", path=place)
    return chosen, chosen.discover(store, consolidated, root)


def _not_found(store: Store) -> DatasetNotFoundError:
    try:
        keys, prefixes = store.list_dir() if store.listable else ([], [])
    except StoreError:
        keys, prefixes = [], []
    names = sorted([*keys, *(name + "/" for name in prefixes)])
    if names:
        rest = f" and {len(names) - 8} more" if len(names) > 8 else ""
        content = f"the store contains {', '.join(names[:8])}{rest}"
    else:
        content = "the store is empty" if store.lists_all else "the store has no complete listing"
    return DatasetNotFoundError(
        f"no Zarr hierarchy: looked for zarr.json, .zmetadata, .zgroup and .zarray; {content}", path=store.url
    )
