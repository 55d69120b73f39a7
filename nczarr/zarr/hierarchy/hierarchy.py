"""Read and change the groups and arrays of one store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

from nczarr.errors import (
    DatasetNotFoundError,
    MetadataError,
    NCZarrError,
    ReadOnlyError,
    StoreError,
    UnsupportedError,
)
from nczarr.rooms import Door
from nczarr.stores import Store
from nczarr.system.locks import Rank, make_lock
from nczarr.zarr.documents import consolidated
from nczarr.zarr.documents.json import same_json
from nczarr.zarr.hierarchy.layouts import (
    ConsolidatedUse,
    Documents,
    Found,
    Layout,
    Metadata,
    Nodes,
    RawNode,
    UnreadNode,
)
from nczarr.zarr.hierarchy.survey import outdated_nodes
from nczarr.zarr.hierarchy.writer import DocumentWriter
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, are_stored_alike
from nczarr.zarr.names import check_path, check_siblings, parent_path

if TYPE_CHECKING:
    from nczarr import display
    from nczarr.zarr import describe
    from nczarr.zarr.chunks.array import Array
    from nczarr.zarr.types import DataType
else:
    describe, display = Door("nczarr.zarr.describe"), Door("nczarr.display")


LayoutName = Literal["v3", "v2", "draft-2019", "experimental-v3"]


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
    omits_empty_chunks : bool
        Writers leave out new chunks in which every value is the fill value. Set before an array is opened.
    missing : mapping
        Nodes that the consolidated metadata name, and of which a complete listing of the store has nothing: another
        program has removed, renamed or lost them. They are not in `nodes`. The values are True for arrays; parents come
        before children.
    complete : bool
        False if consolidated metadata are not used and the listings of the store may omit keys. Then `nodes` has only
        the root, the listed nodes, and those from `load`.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> from nczarr.zarr import create_hierarchy
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
        self.store = store
        self.complete = found.complete
        self.missing = found.missing
        self._layout = layout
        self._nodes = Nodes(found.nodes, lambda raw, path: layout.parse(raw, path))
        self._writer = DocumentWriter(layout, self._nodes, consolidated=found.consolidated, hidden=hidden)
        self._left_out = found.left_out
        self._writable = writable
        self._current = current
        self._is_new = False
        self._arrays: dict[str, Array] = {}
        self.omits_empty_chunks = False
        # Nodes that this object has put, whose ancestors all have documents; the check of ancestors stops at them.
        self._put: set[str] = set()
        #: Held while nodes or lengths of arrays change.
        self.lock = make_lock(Rank.STRUCTURE)

    @property
    def layout(self) -> LayoutName:
        """The name of the layout."""
        return cast("LayoutName", self._layout.name)

    @property
    def nodes(self) -> Nodes:
        """Metadata by path, parents before children."""
        return self._nodes

    def data_types(self) -> list[DataType]:
        """Return the data types of all arrays; one document of those with the same data type is parsed.

        Raises
        ------
        MetadataError
            If such a document is damaged.
        """
        found: dict[object, str] = {}
        for path, raw in self._nodes.raw_items():
            if raw.is_array:
                text = raw.data_type if isinstance(raw, UnreadNode) else None
                found.setdefault(text or path, path)
        arrays = [metadata for path in found.values() if (metadata := self._nodes[path]).is_array]
        return list({array.data_type.name: array.data_type for array in arrays}.values())

    def claimed(self, path: str) -> int | None:
        """Return the length of the first axis in the document of an array, which may have grown in memory."""
        metadata = self._nodes[path]
        return metadata.shape[0] if metadata.is_array and metadata.shape else None

    @property
    def writable(self) -> bool:
        """True if nodes can be put and deleted."""
        return self._writable

    @property
    def hidden(self) -> bool:
        """True until `publish` writes the root's document."""
        return self._writer.hidden

    @property
    def consolidated(self) -> bool:
        """True if the store has consolidated metadata, or after `consolidate`."""
        return self._writer.consolidated

    @property
    def keeps_bare_numbers(self) -> bool:
        """True if consolidated metadata keep bare ``NaN`` and infinities; see the class."""
        return self._writer.keeps_bare_numbers

    @keeps_bare_numbers.setter
    def keeps_bare_numbers(self, value: bool) -> None:
        self._writer.keeps_bare_numbers = value

    def __repr__(self) -> str:
        return f"<Hierarchy {self.store.url} {self.layout}, {len(self._nodes)} nodes>"

    def _repr_html_(self) -> str:
        return display.show_group(describe.describe_hierarchy(self))

    # -- reading

    def is_array(self, path: str) -> bool:
        """Return True if there is an array at `path`, without parsing its metadata."""
        return path in self._nodes and self._nodes.is_array(path)

    def children(self, path: str = "") -> list[str]:
        """Return the paths of the children of a group, in order; an array has none.

        Raises
        ------
        DatasetNotFoundError
            If there is no node at the path.

        Examples
        --------
        >>> from nczarr.stores import MemoryStore
        >>> from nczarr.zarr import create_hierarchy
        >>> h = create_hierarchy(MemoryStore())
        >>> h.put_group("g", GroupMetadata()); h.put_group("g/h", GroupMetadata())
        >>> h.children(), h.children("g")
        (['g'], ['g/h'])
        """
        index = self._nodes.children
        if index is None:
            with self.lock:  # otherwise the index could miss a node that another thread puts
                index = self._nodes.index_children()
        found = index.get(path)
        return list(index.get(self._known(path), ()) if found is None else found)

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
            # Two objects for one array would each have shapes, locks and caches of their own.
            with self.lock:
                array = self._arrays.get(path)
                if array is None:
                    metadata = self._nodes[self._known(path, "array")]
                    if not metadata.is_array:
                        raise DatasetNotFoundError(f"{path!r} is a group, not an array", path=self.store.url)
                    array = self._arrays[path] = self._open(path, metadata)
        return array

    def _known(self, path: str, kind: str = "node") -> str:
        """Return a path if there is a node."""
        if path not in self._nodes:
            where = ": only the consolidated metadata name it" if path in self.missing else ""
            hint = f"paths begin without '/': {path.lstrip('/')!r}" if path.startswith("/") else None
            raise DatasetNotFoundError(f"no {kind} {path!r}{where}", path=self.store.url, hint=hint)
        return path

    def _open(self, path: str, metadata: ArrayMetadata) -> Array:
        from nczarr.zarr.chunks.array import Array, extend

        save = None
        confirm: Callable[[Callable[[], bool]], None] | None = None
        raw = self._nodes.raw(path)
        if self._writable:
            save = partial(self._save, path)
            # Consolidated metadata may name an array that has gone, whose chunks would read as fill
            # values.
            if raw is not None and raw.consolidated and not self.store.lists_free:
                confirm = DocumentQuestion(self._layout, path)
        elif raw is not None:
            # No reference to the hierarchy, so that it is freed with its last reference.
            confirm = partial(confirm_array, self._layout, path, raw)
        prefix = self._layout.chunk_prefix(path)
        array = Array(
            self.store, prefix, metadata, path=path, save=save, confirm=confirm, current=self._current,
            omits_empty=self.omits_empty_chunks,
        )  # fmt: skip
        return extend(array) if metadata.extensions else array

    def unknown_nodes(self) -> dict[str, str]:
        """Return the nodes except the root that cannot be opened: reasons by path.

        The document of such a node requires an unknown feature, has the fill value null, or violates the specification.
        The descendants of such a group cannot be opened, either. All other nodes can be opened.

        Examples
        --------
        >>> from nczarr.stores import MemoryStore
        >>> from nczarr.zarr import open_hierarchy
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
            except (MetadataError, UnsupportedError) as error:
                found[path] = error.message
        return found

    def override(self, path: str, metadata: Metadata) -> None:
        """Replace the metadata of an existing node in memory, without writing them.

        For documents with a deviating meaning, such as those of old versions of netcdf-c.
        """
        with self.lock:
            self._nodes.override(self._known(path), metadata)
            self._arrays.pop(path, None)

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
            found = self._layout.fetch(missing) if missing else {}
            for path, raw in found.items():
                self._nodes.put_found(path, raw)
            return list(found)

    # -- writing

    def put_group(self, path: str, metadata: GroupMetadata) -> None:
        """Create a group, or replace its metadata; missing parent groups are created.

        Raises
        ------
        ReadOnlyError, MetadataError
        MetadataError
            If the path or one of its parents is an array.
        """
        self.put_many([(path, metadata)])

    def put_array(self, path: str, metadata: ArrayMetadata) -> Array:
        """Create an array, or replace its metadata; its chunks do not change.

        Missing parent groups are created.

        Raises
        ------
        ReadOnlyError, MetadataError
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
            implicit: dict[str, RawNode] = {}
            parsed: dict[str, Metadata] = {}
            by_case = {p.lower(): p for p in self._nodes} if self.layout == "draft-2019" else None
            for path, metadata in items:
                self._check_put(path, metadata, raw, implicit)
                # The draft forbids siblings that differ in case only, since file systems may not tell
                # them apart.
                if by_case is not None:
                    check_siblings(path, by_case)
                    by_case[path.lower()] = path
                is_array = metadata.is_array
                raw[path] = RawNode(is_array, self._layout.documents(path, metadata))
                parsed[path] = metadata
            raw |= self._put_implicit({path: node for path, node in implicit.items() if path not in parsed})
            self._writer.put({path: node for path, node in raw.items() if path in parsed})
            for path, node in raw.items():
                self._nodes.put(path, node, parsed.get(path))
                array = self._arrays.get(path)
                # A variable that a program holds keeps its array while the metadata stay the same.
                if array is not None and array.metadata != parsed.get(path):
                    del self._arrays[path]
            self._put.update(raw)
            if "" in raw:
                self._writer.sync()

    def is_own(self, path: str) -> bool:
        """Return True if this object has written the node's documents."""
        return path in self._put

    def put_lengths(self, arrays: Iterable[str], groups: Mapping[str, GroupMetadata]) -> None:
        """Write only the shapes of arrays that have grown in memory, and the attributes of their groups.

        For Zarr v3 and nodes from this object (:meth:`is_own`). Arrays are written first and together, then the groups
        from within, the root last; with consolidated metadata, :meth:`sync` writes the root, in a local directory
        together with the others.
        """
        with self.lock:
            self._check_writable()
            longer = {path: self.array(path).metadata for path in arrays}
            steps: list[Mapping[str, Metadata]] = [longer]
            steps += [{path: groups[path]} for path in sorted(groups, reverse=True)]
            # With one request after another, a step of 50 variables took 2.8 s, now 0.5.
            for together in steps:
                nodes: dict[str, RawNode] = {}
                for path, metadata in together.items():
                    ((key, before),) = self._nodes.documents(path).items()
                    if metadata.is_array:
                        nodes[path] = RawNode(True, {key: {**before, "shape": list(metadata.shape)}})
                    else:
                        nodes[path] = RawNode(False, {key: {**before, "attributes": metadata.attributes}})
                self._writer.put(nodes, lengths=True)
                for path, node in nodes.items():
                    self._nodes.put(path, node, together[path])

    def _put_implicit(self, nodes: Mapping[str, RawNode]) -> dict[str, RawNode]:
        """Create parents that no caller has put, if they are absent: another program may have created them meanwhile.

        Returns
        -------
        dict
            The nodes that exist then, by path.

        Raises
        ------
        MetadataError
            If one of them is an array now.
        """
        # Of two writers, one put a group with attributes, and the implicit parent of the other one
        # replaced it by an empty one.
        there = self._layout.fetch(nodes) if nodes and not self.hidden else {}
        for path, found in there.items():
            # Version 3 allows no node inside an array, so no reader would find the new one.
            if found.is_array:
                problem = f"{path!r} is an array, which another program has created"
                raise MetadataError(problem, path=self.store.url, hint="open the dataset again")
        for path, node in nodes.items():
            if path not in there:
                there[path] = self._writer.put_absent(path, node)
        return there

    def _check_put(
        self, path: str, metadata: Metadata, new: dict[str, RawNode], implicit: dict[str, RawNode]
    ) -> None:
        check_path(path, layout=self.layout)
        is_array = metadata.is_array
        existing = new.get(path) or self._nodes.raw(path)
        # Documents of one kind beside chunks of another would read as damage.
        if existing is not None and existing.is_array != is_array and (path or len(self._nodes) > 1):
            problem = f"{path!r} is {'an array' if existing.is_array else 'a group'} already"
            raise MetadataError(problem, path=self.store.url, hint="delete it first, or use another name")
        missing = []
        parent = path
        while parent:
            parent = parent_path(parent)
            node = new.get(parent) or self._nodes.raw(parent)
            if node is None or (not node.documents and not node.is_array):
                missing.append(parent)
                continue
            # Chunks and nodes would share the keys below the array.
            if node.is_array:
                problem = f"cannot create {path!r} inside the array {parent!r}"
                raise MetadataError(problem, path=self.store.url, hint="only groups have children")
            if parent in new or parent in self._put:
                break
        for parent in reversed(missing):
            new[parent] = implicit[parent] = RawNode(False, self._layout.documents(parent, GroupMetadata()))

    def _save(self, path: str, metadata: ArrayMetadata) -> None:
        """Write the metadata of an array after its own change of shape."""
        with self.lock:
            # `put_many` drops an array with other metadata, and this one changes its own.
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
        MetadataError
            If a path is the root, which cannot be deleted.
        """
        paths = list(paths)
        with self.lock:
            self._check_writable()
            for path in paths:
                if not path:
                    raise MetadataError("the root cannot be deleted", path=self.store.url)
                self._known(path)
            for path in paths:
                for node in [p for p in self._nodes if p == path or p.startswith(path + "/")]:
                    self._writer.forget(node)
                    self._nodes.remove(node)
                    self._put.discard(node)
                    self._arrays.pop(node, None)
            self._writer.sync()
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
        from nczarr.zarr.chunks.array import Array

        store = self.store
        # Only an older store has chunks that a killed process has left.
        if self._is_new or not store.takes_any_key:
            return
        known: dict[str, set[str]] = {}
        for path, metadata in arrays:
            prefix = self.chunk_prefix(path).rstrip("/")
            above, _, name = prefix.rpartition("/")
            # `erase` fails fast for a missing local directory; other stores need a listing of the parent.
            if store.lists_all and not store.is_local:
                if above not in known:
                    known[above] = set(store.list_dir(above)[1])
                if name not in known[above]:
                    continue
            Array(store, prefix, metadata, path=path).erase()

    def chunk_prefix(self, path: str) -> str:
        """Return the prefix of the chunk keys of an array at `path`, which need not exist."""
        return self._layout.chunk_prefix(path)

    def make_documents(self, path: str, metadata: Metadata) -> Documents:
        """Return the documents of a node by key, without writing them."""
        return self._layout.documents(path, metadata)

    def parse_documents(self, path: str, documents: Documents, *, is_array: bool) -> Metadata:
        """Return the metadata in documents of the form that :meth:`make_documents` returns.

        Raises
        ------
        MetadataError
            If the documents are damaged.
        """
        return self._layout.parse(RawNode(is_array, documents), path)

    def consolidate(self) -> None:
        """Write consolidated metadata (v3: inline in the root's document; v2: ``.zmetadata``).

        For a hidden hierarchy, :meth:`publish` writes them. The drafts have no consolidated metadata: the call does
        nothing.
        """
        with self.lock:
            self._check_writable()
            self._writer.consolidate()

    def sync(self) -> None:
        """Rewrite the consolidated metadata if they exist and a node has changed."""
        with self.lock:
            self._writer.sync()

    def prepare(self) -> None:
        """Write all documents of a hidden hierarchy, except the root's: no reader opens it yet."""
        with self.lock:
            self._check_writable()
            # Each batch of 64 documents waited for the disk: 1,000 variables waited 33 times.
            self._writer.prepare()

    def publish(self) -> None:
        """Write all documents of a hidden hierarchy, last the root's with the consolidated metadata."""
        with self.lock:
            self._check_writable()
            self._writer.publish()

    def refused_nodes(self) -> dict[str, Exception]:
        """Write the documents of a hidden hierarchy one by one, and return the errors of rejected nodes by path.

        The result is also empty if the store rejects many consecutive documents.
        """
        with self.lock:
            self._check_writable()
            return self._writer.refused()

    # -- checking

    def check_consolidated(self) -> list[str]:
        """Compare the consolidated metadata in the store with the documents of the nodes.

        Returns
        -------
        list of str
            A message for each difference; empty if the consolidated metadata are correct or do not exist.
        """
        return list(consolidated_differences(self._layout))

    def outdated_nodes(self) -> list[str]:
        """Return the nodes of a directory that its consolidated metadata describe wrongly now.

        Their documents are newer than the consolidated metadata, removed, or not in these. Empty for other stores.

        Examples
        --------
        >>> from nczarr.stores import MemoryStore
        >>> from nczarr.zarr import create_hierarchy
        >>> create_hierarchy(MemoryStore()).outdated_nodes()
        []
        """
        nodes = dict(self._nodes.raw_items())
        is_copy = any(node.consolidated for node in nodes.values())
        return list(outdated_nodes(self._layout, nodes)) if is_copy else []

    def is_outdated(self, path: str) -> bool:
        """Return True if the stored documents of a node differ from the ones in memory.

        Parameters
        ----------
        path : str
            Path of the node; ``""`` is the root.

        Examples
        --------
        >>> from nczarr.stores import MemoryStore
        >>> from nczarr.zarr import create_hierarchy
        >>> hierarchy = create_hierarchy(MemoryStore())
        >>> hierarchy.is_outdated("")
        False
        >>> hierarchy.store.set("zarr.json", b'{"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}}')
        >>> hierarchy.is_outdated("")
        True
        """
        return self.has_outdated([path])

    def has_outdated(self, paths: Collection[str]) -> bool:
        """Return True if :meth:`is_outdated` holds for one of some nodes; their documents are read together.

        Examples
        --------
        >>> from nczarr.stores import MemoryStore
        >>> from nczarr.zarr import create_hierarchy
        >>> create_hierarchy(MemoryStore()).has_outdated([""])
        False
        """
        own = self._layout.fetch(paths)
        return any(
            path not in own or not same_json(own[path].documents, self._nodes.documents(path))
            for path in paths
        )

    def deviations(self) -> Iterator[tuple[str, str]]:
        """Yield the tolerated deviations of the hierarchy from its specification, each as a path and a message."""
        ignored = "the document is inside an array, where the specification allows no node; it is ignored"
        yield from ((path, ignored) for path in self._left_out)
        for path, raw in self._nodes.raw_items():
            for message in self._layout.deviations(raw):
                yield path, message

    def _check_writable(self) -> None:
        if not self._writable:
            problem = "the hierarchy is open for reading"
            raise ReadOnlyError(problem, path=self.store.url, hint='use mode="r+"')

    def close(self) -> None:
        """Release the arrays and their cached chunks; the store stays open, because it belongs to the caller."""
        arrays = dict(self._arrays)
        self._arrays.clear()
        # A closed hierarchy kept its decoded chunks in memory.
        if arrays:
            from nczarr.zarr.chunks.chunks import forget_chunks

            forget_chunks({array.owner for array in arrays.values()})


# --- comparing with what other programs have stored since


class DocumentQuestion:
    """Asks at the first missing chunk of an array whether the array exists; one request, whose answer is kept.

    A writer changes documents itself, so it does not compare them as :func:`confirm_array` does.
    """

    def __init__(self, layout: Layout, path: str) -> None:
        self._layout, self._path = layout, path
        self._is_answered = False

    def __call__(self, holds_any: Callable[[], bool]) -> None:
        """Raise StoreError if there is neither a document nor a chunk."""
        if self._is_answered:
            return
        # An opening sends no request for each node of an object store, so a lost array read as fill
        # values.
        if self._layout.fetch([self._path]).get(self._path) is None:
            refuse_missing(self._layout, self._path, holds_any)
            return
        self._is_answered = True


def refuse_missing(layout: Layout, path: str, holds_any: Callable[[], bool]) -> None:
    """Raise StoreError for an array without a document, unless any of the chunks of a read exists.

    Some programs write only the consolidated metadata, without the original documents: chunks prove the array.
    """
    if not holds_any():
        raise StoreError(
            "the array is missing: only the consolidated metadata name it, and none of the requested chunks exists",
            path=layout.store.url,
            fqn=f"/{path}",
            hint="restore it from a copy; consolidated=False opens what is stored",
        )


def confirm_array(layout: Layout, path: str, known: RawNode, holds_any: Callable[[], bool]) -> None:
    """Check that an array still exists and still has the storage of its known document.

    Raises
    ------
    StoreError
        If another program has removed, renamed or replaced the array.
    """
    if layout.is_unchanged(path, known):
        return
    found = layout.fetch([path]).get(path)
    if found is None and known.consolidated:
        with suppress(DatasetNotFoundError):
            found = layout.discover(ConsolidatedUse.REQUIRED).nodes.get(path)
        if found is not None:
            refuse_missing(layout, path, holds_any)
    # zarr-python adds empty lists and tensorstore omits defaults when they rewrite a document.
    new = None if found is None else layout.parse(found, path)
    old = None if new is None else layout.parse(known, path)
    # Its chunks would be decoded with the codecs of another array, or read as fill values.
    if not (new and old and new.is_array and old.is_array and are_stored_alike(old, new)):
        raise StoreError(
            "the array was removed, renamed or replaced since the dataset was opened",
            path=layout.store.url,
            fqn=f"/{path}",
            hint="open the dataset again",
        )


def consolidated_differences(layout: Layout) -> Iterator[str]:
    """Yield the differences between the stored consolidated metadata and the documents of the nodes."""
    try:
        copy = layout.discover(ConsolidatedUse.REQUIRED)
    except DatasetNotFoundError:
        return
    actual = layout.discover(ConsolidatedUse.NEVER)
    if not actual.complete:
        actual.nodes.update(layout.fetch([path for path in copy.nodes if path not in actual.nodes]))
    for path, node in actual.nodes.items():
        # Documents may be equivalent: zarr-python writes defaults into its consolidated metadata.
        with suppress(NCZarrError):
            if path in copy.nodes and layout.parse(copy.nodes[path], path) == layout.parse(node, path):
                copy.nodes[path] = node
    yield from consolidated.differences(_flat(copy), _flat(actual))


def _flat(found: Found) -> Documents:
    return {
        key: {name: value for name, value in document.items() if name != "consolidated_metadata"}
        for node in found.nodes.values()
        for key, document in node.documents.items()
    }
