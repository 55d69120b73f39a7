"""Keep the groups and arrays of one store: open a hierarchy or create one, look nodes up, change them.

:func:`open_hierarchy` finds out which version of Zarr a store holds and all its nodes; metadata are parsed when
they are asked for. :func:`create_hierarchy` begins a new one.
"""

from __future__ import annotations

import contextlib
import threading
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
from nczarr.forking import inheriting
from nczarr.stores import LocalStore, Store
from nczarr.zarr.documents import DocumentTexts, as_it_stands, parse_root
from nczarr.zarr.documents import consolidated as consolidated_metadata
from nczarr.zarr.hierarchy.draft import DraftLayout, ExperimentalLayout
from nczarr.zarr.hierarchy.layout import DamagedNode, Found, Layout, Metadata, RawNode, read_document
from nczarr.zarr.hierarchy.v2 import V2Layout
from nczarr.zarr.hierarchy.v3 import V3Layout
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, are_stored_alike
from nczarr.zarr.names import check_path, check_siblings, parent_path
from nczarr.zarr.types import show

if TYPE_CHECKING:
    from nczarr.zarr.arrays import Array

#: Objects whose locks are renewed in a forked child.
_INHERITING = inheriting("_inherit")


LayoutName = Literal["v3", "v2", "draft-2019", "experimental-v3"]
#: How often a hierarchy is opened that is replaced while it is read.
_TRIES = 5
_DECIDING = frozenset({"zarr.json", ".zgroup", ".zarray"})
#: What an array's document says of its bytes, in any version of Zarr.
_STORAGE = frozenset({
    "chunk_grid", "chunk_key_encoding", "chunk_memory_layout", "chunks", "codecs", "compressor", "data_type",
    "dimension_separator", "dtype", "fill_value", "filters", "node_type", "order", "storage_transformers",
    "zarr_format",
})  # fmt: skip


#: So many documents are refused one after the other before the store is given up.
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
            # No lock: two threads may parse the same document, with equal results; what was put meanwhile stays.
            parsed = self._parsed.setdefault(path, self._layout.parse(self._raw[path], path, self._store))
        return parsed

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._raw))  # another thread may add nodes meanwhile; a list is made in one step

    def __len__(self) -> int:
        return len(self._raw)

    def __contains__(self, path: object) -> bool:
        return path in self._raw

    def values(self) -> ValuesView[Metadata]:
        """All metadata; who asks for them wants them all, and so they are parsed now."""
        return {path: self[path] for path in self}.values()

    def is_array(self, path: str) -> bool:
        """True if the node is an array; its metadata are not parsed."""
        return self._raw[path].is_array

    def documents(self, path: str) -> dict[str, dict[str, Any]]:
        """Return the node's documents by key, as they are in the store; not to be changed."""
        return self._raw[path].documents


class Hierarchy:
    """The groups and arrays of one store.

    Objects come from :func:`open_hierarchy` and :func:`create_hierarchy`. Reading is safe from several threads;
    changes are serialised by a lock.

    Attributes
    ----------
    store : Store
    layout : str
        ``v3``, ``v2``, ``draft-2019`` or ``experimental-v3``.
    nodes : Mapping
        Metadata by path: ``""`` is the root, ``"g/v"`` a node below. Metadata are parsed when they are looked
        up, so a damaged document is an error of its node only.
    consolidated : bool
        There are consolidated metadata (used on opening or not), or `consolidate` asked for them.
    keeps_bare_numbers : bool
        Consolidating writes bare ``NaN`` and infinities, which are no JSON, where the nodes' documents have them;
        otherwise the words.
    complete : bool
        False if nothing is consolidated (or it is not used) and the store does not promise that a listing names
        every key: then `nodes` holds the root, what a listing named, and what `load` was asked for.

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
        # Documents of a hidden hierarchy: written when it is published, so that no part of it opens as complete.
        self._waiting: dict[str, bytes] = {}
        self._arrays: dict[str, Array] = {}
        self._children: dict[str, list[str]] | None = None
        # Nodes that were put: all above them have documents. So nesting costs one look at each new node.
        self._settled: set[str] = set()
        self._texts = DocumentTexts()
        self._lock = threading.RLock()
        _INHERITING.add(self)

    def _inherit(self) -> None:
        """Renew the lock in a forked child."""
        self._lock = threading.RLock()

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
        """True until `publish` has written the root's document."""
        return self._hidden

    def __repr__(self) -> str:
        return f"<Hierarchy {self.store.url} {self.layout}, {len(self._nodes)} nodes>"

    def _repr_html_(self) -> str:
        from nczarr.display import show_group
        from nczarr.zarr.describe import describe_hierarchy

        return show_group(describe_hierarchy(self))

    # -- reading

    def is_array(self, path: str) -> bool:
        """True if there is an array at `path`; its metadata are not parsed."""
        return path in self._nodes and self._nodes.is_array(path)

    def children(self, path: str = "") -> list[str]:
        """Return the paths of the nodes directly below a group, in order.

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
            with self._lock:  # or a node that is put meanwhile would not be there next time
                index = {}
                for node in self._nodes:
                    if node:
                        index.setdefault(parent_path(node), []).append(node)
                self._children = index
        return list(index.get(path, ()))

    def array(self, path: str) -> Array:
        """Return the array at a path; the same object every time.

        Raises
        ------
        DatasetNotFoundError
            If there is no array.
        MetadataError
            If its document is damaged.
        """
        array = self._arrays.get(path)
        if array is None:
            with self._lock:
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
        if not self._writable:  # without the hierarchy itself, which would not go with its last name then
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
        """Return the nodes that cannot be opened, by path: the reason of each, without the root.

        The document of such a node asks for something unknown which must be understood, has the fill value null, or
        breaks the specification. The nodes below a group of this kind are among them. All other nodes can be opened.

        Examples
        --------
        >>> from nczarr.stores import MemoryStore
        >>> store = MemoryStore()
        >>> store.set("zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
        >>> store.set("g/zarr.json", b'{"zarr_format": 3, "node_type": "group", "extensions": []}')
        >>> open_hierarchy(store).unknown_nodes()
        {'g': 'extensions: the list is empty; a document without extensions has no such key'}
        """
        found: dict[str, str] = {}
        for path in self._nodes:
            if not path:
                continue
            above = parent_path(path)
            if above in found:
                found[path] = f"the group {above!r} is left out"
                continue
            try:
                self._nodes[path]
            except (ExtensionError, MetadataError, UnsupportedError) as error:
                found[path] = error.message
        return found

    def override(self, path: str, metadata: Metadata) -> None:
        """Use other metadata for a node that exists, without writing them.

        For documents that say one thing and mean another, such as those of old versions of netcdf-c.
        """
        with self._lock:
            if path not in self._nodes:
                raise DatasetNotFoundError(f"no node {path!r}", path=self.store.url)
            self._nodes._parsed[path] = metadata
            self._arrays.pop(path, None)

    def _saver(self, path: str) -> Callable[[ArrayMetadata], None]:
        return lambda metadata: self._save(path, metadata)

    def load(self, paths: Iterable[str]) -> list[str]:
        """Look for nodes by path, in one concurrent batch; for stores whose listings do not name every node.

        Returns
        -------
        list of str
            The paths that exist; they are in `nodes` afterwards.
        """
        with self._lock:
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
        """Create a group, or replace its metadata; groups above it that are missing are created.

        Raises
        ------
        ReadOnlyError, ZarrNameError
        MetadataError
            If there is an array at the path or above it.
        """
        self.put_many([(path, metadata)])

    def put_array(self, path: str, metadata: ArrayMetadata) -> Array:
        """Create an array, or replace its metadata; chunks are not touched.

        Groups above it that are missing are created.

        Raises
        ------
        ReadOnlyError, ZarrNameError
        MetadataError
            If there is a group at the path, an array above it, or the layout cannot hold the metadata.
        UnsupportedError
            If the layout has no place for something in the metadata.
        """
        self.put_many([(path, metadata)])
        return self.array(path)

    def put_many(self, items: Iterable[tuple[str, Metadata]]) -> None:
        """Create or replace many nodes with one batch of writes; see `put_group` and `put_array`.

        All documents are made and checked before the first one is written. Where there are consolidated metadata the
        root is written last and with them: without, readers would mix documents of before and after.
        """
        with self._lock:
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
                self._waiting.update(writes)
            else:
                self.store.set_many(writes)
            for path in raw:
                self._remove_other_documents(path, raw[path])
            self._nodes._raw.update(raw)
            self._settled.update(raw)
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
        """Return the texts of a node's documents by key, and keep one that consolidated metadata can have as it is."""
        texts = [(key, self._layout.encode(key, document)) for key, document in node.documents.items()]
        if len(texts) == 1:
            ((key, text),) = texts
            self._texts.keep(path, node.documents[key], text)
        return texts

    def is_own(self, path: str) -> bool:
        """True if this object has put the node, so that its documents are of the form that it writes."""
        return path in self._settled

    def put_lengths(self, arrays: Iterable[str], groups: Mapping[str, GroupMetadata]) -> None:
        """Write the shapes of arrays that have grown in memory, and groups that say so, and nothing else.

        For Zarr v3, and nodes that are this object's own (:meth:`is_own`). Arrays come first, the root last; where
        there are consolidated metadata it waits for :meth:`sync`. Until then readers of a local directory go on
        with the consolidated copy: the other documents get the time of the root's, and so are not newer.
        """
        with self._lock:
            self._check_writable()
            changed: list[tuple[str, Metadata, dict[str, Any]]] = []
            for path in arrays:
                array = self.array(path).metadata
                changed.append((path, array, {"shape": list(array.shape)}))
            for path in sorted(groups, reverse=True):
                changed.append((path, groups[path], {"attributes": groups[path].attributes}))
            for path, metadata, news in changed:
                ((key, before),) = self._nodes.documents(path).items()
                document = {**before, **news}
                if path or not self.consolidated:  # the root's text is made with the copies in it
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
            raise MetadataError(f"{path!r} is {kind} already", path=self.store.url)
        missing = []
        parent = path
        while parent:
            parent = parent_path(parent)
            node = new.get(parent) or self._nodes._raw.get(parent)
            if node is None or (not node.documents and not node.is_array):
                missing.append(parent)
                continue
            if node.is_array:
                raise MetadataError(f"{path!r} would be inside the array {parent!r}", path=self.store.url)
            if parent in new or parent in self._settled:
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
        if self._waiting.pop(key, None) is None:
            self.store.delete(key)

    def _save(self, path: str, metadata: ArrayMetadata) -> None:
        """Write the metadata of an array that changed itself (a new shape)."""
        with self._lock:
            array = self._arrays.pop(path, None)
            try:
                self.put_many([(path, metadata)])
            finally:
                if array is not None:
                    self._arrays[path] = array

    def delete(self, path: str) -> None:
        """Delete a node with all that is below it; see :meth:`delete_many`."""
        self.delete_many([path])

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete nodes with all that is below them.

        The consolidated metadata and the nodes' documents go first, then the chunks: no reader finds a node
        without its values.

        Raises
        ------
        DatasetNotFoundError
            If there is none.
        ZarrNameError
            For the root, which cannot be deleted.
        """
        paths = list(paths)
        with self._lock:
            self._check_writable()
            for path in paths:
                if not path:
                    raise ZarrNameError("the root cannot be deleted", path=self.store.url)
                if path not in self._nodes:
                    raise DatasetNotFoundError(f"no node {path!r}", path=self.store.url)
            for path in paths:
                for node in [p for p in self._nodes if p == path or p.startswith(path + "/")]:
                    for key in self._layout.document_keys(node):
                        self._waiting.pop(key, None)
                    del self._nodes._raw[node]
                    self._nodes._parsed.pop(node, None)
                    self._settled.discard(node)
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
        """Remove chunks from where new arrays will be.

        A process that died while it removed an array, or moved one, leaves chunks without a document; they would be
        values of the new array. Costs a listing (a question for each chunk where listings do not name every key), and
        nothing where the hierarchy was made here.
        """
        from nczarr.zarr.arrays.array import Array

        store = self.store
        if self._new or not store.takes_any_key:
            return
        known: dict[str, set[str]] = {}
        for path, metadata in arrays:
            prefix = self.chunk_prefix(path).rstrip("/")
            above, _, name = prefix.rpartition("/")
            # A local directory says at once that it is not there; other listings name the directories that are.
            if store.lists_all and not isinstance(store, LocalStore):
                if above not in known:
                    known[above] = set(store.list_dir(above)[1])
                if name not in known[above]:
                    continue
            Array(store, prefix, metadata, path=path).erase()

    def chunk_prefix(self, path: str) -> str:
        """Return where the chunks of an array at `path` are, or would be."""
        return self._layout.chunk_prefix(path)

    def make_documents(self, path: str, metadata: Metadata) -> dict[str, dict[str, Any]]:
        """Return the documents by key that a node would have; nothing is written."""
        return self._layout.documents(path, metadata)

    def parse_documents(self, path: str, documents: dict[str, dict[str, Any]], *, is_array: bool) -> Metadata:
        """Return what the documents of a node say, as :meth:`make_documents` makes them.

        Raises
        ------
        MetadataError
            If they are damaged.
        """
        return self._layout.parse(RawNode(is_array, documents), path, self.store)

    def consolidate(self) -> None:
        """Write consolidated metadata (v3: inline in the root's document; v2: ``.zmetadata``).

        A hidden hierarchy gets them when it is published. The drafts have none: nothing is done.
        """
        with self._lock:
            self._check_writable()
            self.consolidated = True
            if not self._hidden:
                self._write_root()

    def sync(self) -> None:
        """Rewrite the consolidated metadata if there are any and a node has changed."""
        with self._lock:
            if self.consolidated and self._stale and not self._hidden:
                self._write_root()

    def publish(self) -> None:
        """Write the root's document, and with it the consolidated metadata, if it is not written yet."""
        with self._lock:
            self._check_writable()
            if self._hidden:
                self.store.set_many(self._waiting.items())
                self._write_root()
                self._waiting.clear()
                self._hidden = False

    def refused_nodes(self) -> dict[str, Exception]:
        """Write the documents of a hidden hierarchy one by one; return the nodes whose documents the store refuses.

        Empty also where it refuses one document after the other.
        """
        refused: dict[str, Exception] = {}
        in_a_row = 0
        with self._lock:
            self._check_writable()
            for key, text in self._waiting.items():
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

        def said(path: str) -> dict[str, dict[str, Any]]:
            documents = nodes.documents(path)
            return as_it_stands(documents) if self.keeps_bare_numbers else documents

        writes: dict[str, bytes] = {}
        if self.consolidated:
            pairs = ((path, said(path)) for path in nodes)
            writes.update(self._layout.consolidated_texts(pairs, self._texts))
        for key, document in said("").items():
            if key not in writes:
                writes[key] = self._layout.encode(key, document)
        # What makes readers see the hierarchy comes last: a version 2 root has attributes in a document of their own.
        self.store.set_many([item for item in writes.items() if item[0] not in _DECIDING])
        self.store.set_many([item for item in writes.items() if item[0] in _DECIDING])
        self._stale = False

    def check_consolidated(self) -> list[str]:
        """Compare the consolidated metadata in the store with the documents of the nodes.

        Returns
        -------
        list of str
            A sentence for each difference; empty if there are no consolidated metadata or they are right.
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
            if path in copy.nodes and self._mean_the_same(path, copy.nodes[path], node):
                copy.nodes[path] = node
        return list(consolidated_metadata.differences(_flat(copy), _flat(actual)))

    def is_outdated(self, path: str) -> bool:
        """Say whether the store's own documents of a node are other than what is known of it.

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

    def _mean_the_same(self, path: str, left: RawNode, right: RawNode) -> bool:
        """True for documents of one meaning, as zarr-python spells out defaults in its consolidated metadata."""
        try:
            return self._layout.parse(left, path, self.store) == self._layout.parse(right, path, self.store)
        except NCZarrError:
            return False

    def deviations(self) -> Iterator[tuple[str, str]]:
        """Say where the hierarchy breaks its specification and is read all the same: a path and a sentence each."""
        for path in self._left_out:
            yield path, "there is a document inside an array, where no node can be; it is left out"
        for path, raw in list(self._nodes._raw.items()):
            for sentence in self._layout.deviations(raw):
                yield path, sentence

    def _check_writable(self) -> None:
        if not self._writable:
            raise ReadOnlyError(
                "the hierarchy is open for reading", path=self.store.url, hint='use mode="r+"'
            )

    def close(self) -> None:
        """Forget the arrays and the chunks that are kept of them; the store stays open, it belongs to the caller."""
        arrays = dict(self._arrays)
        self._arrays.clear()
        if arrays:
            from nczarr.zarr.chunks import forget_chunks

            forget_chunks({array.owner for array in arrays.values()})


def _confirm(store: Store, layout: Layout, path: str, known: RawNode) -> None:
    """Make sure that an array is still there, and still the one whose document is known.

    Raises
    ------
    StoreError
        It was removed, renamed or replaced by another program.
    """
    if layout.is_unchanged(store, path, known):
        return
    found = layout.fetch(store, [path]).get(path)
    if found is None and known.consolidated:
        # Not all programs write the documents that the consolidated metadata are copies of.
        with contextlib.suppress(DatasetNotFoundError):
            found = layout.discover(store, True).nodes.get(path)
    if found is None or not _is_same_array(layout, store, path, known, found):
        raise StoreError(
            "the array was removed, renamed or replaced since the dataset was opened",
            path=store.url,
            fqn=f"/{path}",
            hint="open it again",
        )


def _is_same_array(layout: Layout, store: Store, path: str, known: RawNode, found: RawNode) -> bool:
    if _storage_of(found) == _storage_of(known):
        return True
    # zarr-python adds empty lists, and tensorstore leaves defaults out, when they rewrite a document.
    old, new = layout.parse(known, path, store), layout.parse(found, path, store)
    return isinstance(old, ArrayMetadata) and isinstance(new, ArrayMetadata) and are_stored_alike(old, new)


def _storage_of(node: RawNode) -> list[dict[str, Any]]:
    """Return what the documents of an array say that cannot change while it is the same array.

    Its shape can, and what is said about its dimensions.
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
        ``v3``, ``v2``, ``draft-2019`` or ``experimental-v3``; found out if it is not given.
    consolidated : bool, optional
        True: consolidated metadata have to be there. False: they are not used. None: used if they are there.
    mode : {"r", "r+"}

    Raises
    ------
    DatasetNotFoundError
        If there is none; the message says what was looked for and what is there.
    MetadataError
        If the root's document is damaged.
    ReadOnlyError
        If the store cannot be written and `mode` is ``"r+"``.

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
        raise ReadOnlyError("the store cannot be written", path=store.url)
    found_layout, found, current = _find(store, layout, consolidated)
    if mode == "r+":
        _refuse_damaged(found)
    store.check_names(found.nodes)
    return Hierarchy(store, found_layout, found, writable=mode == "r+", current=current)


def _refuse_damaged(found: Found) -> None:
    """Refuse to change a hierarchy in which a document is damaged: a change would write over it, or forget it."""
    for node in found.nodes.values():
        if isinstance(node, DamagedNode):
            hint = "restore the document or remove its folder; for reading the node is left out"
            raise MetadataError(node.error.message, path=node.error.path, hint=hint)


def _find(
    store: Store, layout: LayoutName | None, consolidated: bool | None
) -> tuple[Layout, Found, Callable[[], None]]:
    """Find all nodes; once more if the dataset is replaced meanwhile. What is returned last tells if it is later."""
    for _ in range(_TRIES):
        current = store.hold()
        try:
            found = _find_layout(store, layout, consolidated)
        except NCZarrError:
            if _holds(current):
                raise
        else:
            if _holds(current):
                return *found, current
    raise StoreError("the dataset is replaced again and again while it is opened", path=store.url)


def _holds(check: Callable[[], None]) -> bool:
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
    """Begin a new hierarchy with an empty root group.

    What the store holds already is not looked at.

    Parameters
    ----------
    store : Store
    layout : str
    attributes : dict, optional
        Of the root group.
    hidden : bool
        True: the root's document is written by :meth:`Hierarchy.publish`, so that no reader takes an
        unfinished hierarchy for a whole one.

    Raises
    ------
    ReadOnlyError
        If the store cannot be written.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> create_hierarchy(store, layout="v2").close()
    >>> sorted(store.list())
    ['.zgroup']
    """
    if not store.writable:
        raise ReadOnlyError("the store cannot be written", path=store.url)
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
        raise NCZarrError(f"{name!r} is not a layout; there are {', '.join(LAYOUTS)}")
    return LAYOUTS[name]()


def _find_layout(store: Store, layout: str | None, consolidated: bool | None) -> tuple[Layout, Found]:
    """Return the layout of a store and the nodes in it.

    Raises
    ------
    DatasetNotFoundError
        If there is no hierarchy (of the layout asked for).
    MetadataError
        If ``zarr.json`` is damaged, or of a version that nczarr does not know.
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
        raise MetadataError(f"zarr_format: {show(version)} is not a version that is known", path=place)
    return chosen, chosen.discover(store, consolidated, root)


def _not_found(store: Store) -> DatasetNotFoundError:
    try:
        keys, prefixes = store.list_dir() if store.listable else ([], [])
    except StoreError:
        keys, prefixes = [], []
    names = sorted([*keys, *(name + "/" for name in prefixes)])
    if names:
        there = (
            "there are " + ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        )
    else:
        there = "nothing is there" if store.lists_all else "the store does not list what is there"
    return DatasetNotFoundError(
        f"no Zarr hierarchy: looked for zarr.json, .zmetadata, .zgroup and .zarray; {there}", path=store.url
    )
