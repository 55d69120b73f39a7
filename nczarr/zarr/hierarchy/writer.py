"""Write the documents of a hierarchy, and its consolidated metadata."""

from __future__ import annotations

from collections.abc import Mapping

from nczarr.errors import NCZarrError
from nczarr.stores import LocalStore, Store
from nczarr.zarr.documents.json import as_it_stands, dump_json
from nczarr.zarr.hierarchy.layouts import Layout, Nodes, RawNode

#: The documents that make a hierarchy visible.
_DECIDING = frozenset({"zarr.json", ".zgroup", ".zarray"})
#: The search for rejected documents stops after this number of consecutive rejections.
_MOST_REFUSED = 64


class DocumentWriter:
    """Write the documents of a hierarchy; the owner serialises the calls.

    Attributes
    ----------
    consolidated : bool
        True: the store has consolidated metadata, which :meth:`sync` rewrites.
    hidden : bool
        True: documents stay in memory until :meth:`publish`, so that no reader opens an incomplete hierarchy.
    keeps_bare_numbers : bool
        See :class:`~nczarr.zarr.Hierarchy`.
    """

    def __init__(self, layout: Layout, nodes: Nodes, *, consolidated: bool, hidden: bool) -> None:
        self.consolidated = consolidated
        self.hidden = hidden
        self.keeps_bare_numbers = False
        self._store: Store = layout.store
        self._layout = layout
        self._nodes = nodes
        self._stale = False
        self._unpublished: dict[str, bytes] = {}
        #: Documents with new lengths that :meth:`sync` writes together with the root's document.
        self._lengths: dict[str, bytes] = {}

    def put(self, changed: Mapping[str, RawNode], *, lengths: bool = False) -> None:
        """Write the documents of nodes in one batch, and remove the documents that they replace.

        The root's document is written by :meth:`sync` or :meth:`publish` if the hierarchy is hidden or has
        consolidated metadata. With `lengths`, only the shapes of arrays differ, and attributes of their groups; in a
        local directory with consolidated metadata, :meth:`sync` writes all of them together.
        """
        root_later = self.hidden or self.consolidated
        writes: list[tuple[str, bytes]] = []
        for path, node in changed.items():
            if path or not root_later:
                texts = [(key, dump_json(document, key)) for key, document in node.documents.items()]
                if len(texts) == 1:
                    node.written = texts[0][1]
                writes += texts
        for key, _ in writes:
            self._lengths.pop(key, None)
        # Each document of an array waited for the disk: they wait in memory for the one of the root.
        if lengths and self.consolidated and type(self._store) is LocalStore:
            self._lengths.update(writes)
        # A store that takes Zarr's keys only (Icechunk) takes no chunk before its array, and has commits.
        elif self.hidden and self._store.takes_any_key:
            self._unpublished.update(writes)
        else:
            self._store.set_many(writes)
        for path, node in changed.items():
            old = self._nodes.raw(path)
            for key in old.documents if old else ():
                if key not in node.documents and self._unpublished.pop(key, None) is None:
                    self._store.delete(key)
        self._stale = True

    def put_absent(self, path: str, node: RawNode) -> RawNode:
        """Write the documents of a node unless it exists, and return the node that exists then."""
        if self.hidden or (self.consolidated and not path):  # no other program sees it, or `sync` writes it
            self.put({path: node})
            return node
        self._stale = True
        for key, document in node.documents.items():
            # A node below a group that another writer put meanwhile replaced the group by an empty one.
            if not self._store.set_if_absent(key, dump_json(document, key)):
                return self._layout.fetch([path]).get(path, node)
        return node

    def forget(self, path: str) -> None:
        """Drop the unpublished documents of a removed node."""
        for key in self._layout.document_keys(path):
            self._unpublished.pop(key, None)
            self._lengths.pop(key, None)
        self._stale = True

    def sync(self) -> None:
        """Rewrite the consolidated metadata if they exist and a node has changed."""
        if self.consolidated and self._stale and not self.hidden:
            self._write_root()

    def consolidate(self) -> None:
        """Write consolidated metadata; those of a hidden hierarchy are written by :meth:`publish`."""
        self.consolidated = self._stale = True
        self.sync()

    def prepare(self) -> None:
        """Write all documents of a hidden hierarchy, except the root's."""
        if self.hidden:
            self._store.set_many(self._unpublished.items())
            self._unpublished.clear()

    def publish(self) -> None:
        """Write all documents of a hidden hierarchy, last the root's with the consolidated metadata."""
        if self.hidden:
            self.prepare()
            self._write_root()
            self.hidden = False

    def refused(self) -> dict[str, Exception]:
        """Write the unpublished documents one by one, and return the errors of rejected nodes by path.

        The result is also empty if the store rejects many consecutive documents.
        """
        refused: dict[str, Exception] = {}
        in_a_row = 0
        for key, text in self._unpublished.items():
            try:
                self._store.set(key, text)
                in_a_row = 0
            except (NCZarrError, OSError) as error:
                # One refused document kept a whole new dataset hidden.
                refused.setdefault(key.rpartition("/")[0], error)
                in_a_row += 1
                if in_a_row == _MOST_REFUSED:
                    return {}
        return refused

    def _write_root(self) -> None:
        writes: dict[str, bytes] = {}
        if self.consolidated:
            writes.update(self._layout.consolidated_texts((path, self._node(path)) for path in self._nodes))
        else:
            writes.update((key, dump_json(item, key)) for key, item in self._node("").documents.items())
        # A sync waited for the disk once for each array.
        if self._lengths and isinstance(self._store, LocalStore):
            ((key, text),) = writes.items()
            self._store.set_before(self._lengths.items(), key, text)
            self._lengths.clear()
            self._stale = False
            return
        # The documents that make the hierarchy visible are written last; a version 2 root has separate attributes.
        for deciding in (False, True):
            self._store.set_many([item for item in writes.items() if (item[0] in _DECIDING) == deciding])
        self._stale = False

    def _node(self, path: str) -> RawNode:
        node = self._nodes.raw(path)
        assert node is not None
        return RawNode(node.is_array, as_it_stands(node.documents)) if self.keeps_bare_numbers else node
