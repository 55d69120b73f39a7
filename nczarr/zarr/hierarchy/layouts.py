"""Define the nodes of a hierarchy, and find, read and write them in each version of Zarr: v3, v2 and the drafts.

A layout implements one version of Zarr: its documents, their keys, and the search for them. The search for all nodes
reads one document if metadata are consolidated; else it needs one listing and one concurrent batch of reads. If a store
lists each folder separately (local files, index pages of web servers), the search does not list arrays, which may have
a million chunks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, ValuesView
from contextlib import suppress
from dataclasses import field
from enum import Enum, auto
from typing import ClassVar

from nczarr.dataclass import dataclass
from nczarr.errors import DatasetNotFoundError, MetadataError, NCZarrError, UnsupportedError, error_context
from nczarr.json_values import JsonObject, show
from nczarr.stores import Store
from nczarr.zarr.documents import consolidated
from nczarr.zarr.documents import draft as documents_draft
from nczarr.zarr.documents import v2 as documents_v2
from nczarr.zarr.documents import v3 as documents_v3
from nczarr.zarr.documents.consolidated import DocumentHead, UnreadDocuments, parse_root
from nczarr.zarr.documents.json import dump_json, parse_object, parse_part
from nczarr.zarr.limits import LIMITS
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata
from nczarr.zarr.names import check_name, parent_path, split_path

Metadata = ArrayMetadata | GroupMetadata
Documents = dict[str, JsonObject]
"""The documents of a node by key of the store."""


class ConsolidatedUse(Enum):
    """How a search for nodes uses consolidated metadata."""

    #: Without them, there is no hierarchy.
    REQUIRED = auto()
    IF_STORED = auto()
    NEVER = auto()

    @classmethod
    def of(cls, consolidated: bool | None) -> ConsolidatedUse:
        """Return the use that a program asks for, in zarr-python's words."""
        return cls.IF_STORED if consolidated is None else cls.REQUIRED if consolidated else cls.NEVER


@dataclass
class RawNode:
    """A node with unparsed metadata.

    Parameters
    ----------
    documents : dict
        JSON objects by key of the store; empty for an implicit group.
    consolidated : bool
        True if the documents are from consolidated metadata.
    written : bytes or None
        The text of the only document, after it was written.
    """

    is_array: bool
    documents: Documents = field(default_factory=dict)
    consolidated: bool = False
    written: bytes | None = field(default=None, compare=False, repr=False)

    def may_name(self, key: str) -> bool:
        """Return False if no member of the parsed documents, nor of their attributes, has a name with `key` in it."""
        for document in self.documents.values():
            names = [*document]
            for value in document.values():
                if type(value) is dict:
                    names += value
            # The member may be in the configuration of an extension, which is not searched.
            if any(key in name for name in names) or "extensions" in document:
                return True
        return False


class DamagedNode(RawNode):
    """A node whose document is not a JSON object, or has no valid node type; its descendants are ignored."""

    def __init__(self, error: MetadataError) -> None:
        super().__init__(is_array=True)
        self.error = error


@dataclass
class Found:
    """The result of a search: nodes by path, and flags for consolidated metadata and a complete search.

    `left_out` are paths of documents inside arrays, where the specification allows no node. `missing` are nodes that
    only consolidated metadata name, True for arrays; see :mod:`nczarr.zarr.hierarchy.survey`.
    """

    nodes: dict[str, RawNode]
    consolidated: bool = False
    complete: bool = True
    left_out: tuple[str, ...] = ()
    missing: Mapping[str, bool] = field(default_factory=dict)

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
    # Arrays in the root alone need no search for their parents.
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

    def may_name(self, key: str) -> bool:
        """Return False if no member of a document, nor of its attributes, has a name with `key` in it."""
        if any(raw.may_name(key) for raw in self._raw.values() if type(raw) is RawNode):
            # Parsing each document would cost what the search saves.
            return True
        name = key.encode()
        unread = (bytes(raw.text) for raw in self._raw.values() if isinstance(raw, UnreadNode))
        # JSON may also write the letters of a name as escapes.
        return any(name in text or rb"\u00" in text for text in unread)

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
        # The documents of other writers may lack groups between: these have members only.
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
    # A hostile document of many gigabytes would fill the memory.
    if store.is_local:
        return store.get_range(key, 0, LIMITS.document_bytes + 1)
    return store.get(key)


class Layout(ABC):
    """The keys and documents of one version of Zarr in a store."""

    name: ClassVar[str]
    #: The key of the consolidated metadata; empty if there are none.
    copies_key: ClassVar[str] = ""
    #: The names of a node's documents, and of those that make it a node.
    document_names: ClassVar[tuple[str, ...]] = ()
    defining_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, store: Store) -> None:
        self.store = store

    @abstractmethod
    def discover(self, use: ConsolidatedUse, root: JsonObject | None = None) -> Found:
        """Find all nodes.

        Parameters
        ----------
        use : ConsolidatedUse
        root : dict, optional
            The document ``zarr.json``, if the caller has read it.

        Raises
        ------
        DatasetNotFoundError
            If the store has no hierarchy of this layout, or no required consolidated metadata.
        """

    def read_documents(self, keys: list[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the existing ones of metadata documents, read in one batch; see :func:`read_document`."""
        if self.store.is_local:
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
    def consolidated_texts(self, nodes: Iterable[tuple[str, RawNode]]) -> list[tuple[str, bytes]]:
        """Return the root's documents and the consolidated metadata by key."""

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

    def search(self, root: RawNode, has_copies: bool, copied: Callable[[], Mapping[str, RawNode]]) -> Found:
        """Find the nodes below the root by listing, without consolidated metadata.

        `has_copies` tells if the store has consolidated metadata, and `copied` returns their nodes. A
        listing that promises nothing may omit these nodes; their own documents show whether they exist. A complete
        listing shows which of them are missing.
        """
        store, nodes = self.store, {"": root}
        # A server of plain HTTP lists nothing: the nodes are found when they are asked for.
        if not store.listable:
            return Found(nodes, has_copies, complete=False)
        named: dict[str, RawNode] = {}
        if has_copies:
            # A search that does not use consolidated metadata also succeeds beside damaged ones.
            with suppress(DatasetNotFoundError, MetadataError):
                named = {path: node for path, node in copied().items() if path and self.is_legal(path)}
        # A listing that promises nothing may lack nodes that are there.
        unsure = () if store.lists_all else list(named)
        if store.lists_by_folder:
            nodes.update(self._walk(unsure))
            found = Found(nodes, has_copies, complete=store.lists_all)
        else:
            names = {key.rpartition("/")[2] for key in self.document_keys("")}
            keys = [key for key in store.list() if key.rpartition("/")[2] in names]
            # A name of another program is no node: ".." and "__x" are never asked for.
            keys = [key for key in keys if self.is_legal(key.rpartition("/")[0])]
            keys += [key for path in unsure for key in self.document_keys(path)]
            nodes.update(self.read(list(dict.fromkeys(keys))))
            found = Found.among(nodes, has_copies, complete=store.lists_all)
        if named:
            found.missing = {path: named[path].is_array for path in _not_found(named, found)}
        return found

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
            # An array's folder may have a million chunks.
            level = [path for path, node in found.items() if not node.is_array]
        return nodes


# --- the versions of Zarr


def _not_found(named: Iterable[str], found: Found) -> Iterator[str]:
    """Yield the named nodes that a complete search has not found, parents first."""
    if found.complete:
        for path in sorted(set(named).difference(found.nodes, found.left_out)):
            above = path
            while (above := parent_path(above)) not in found.nodes:
                pass
            if not found.nodes[above].is_array:  # the search does not enter arrays
                yield path


class UnreadNode(RawNode):
    """A node in consolidated metadata with an unparsed document."""

    consolidated = True
    _documents: Documents | None = None

    def __init__(self, place: str, path: str, text: bytes, head: DocumentHead) -> None:
        self.is_array = head.node_type == "array"
        self.place = place
        self.path = path
        self.text = text
        self.attributes = head.attributes
        self._head = head

    @property
    def data_type(self) -> bytes | None:
        """The text of the data type; None if the document has none."""
        # Not at the opening: few programs ask, and a copy for each of a thousand arrays is a tenth of its time.
        return None if self._head.data_type is None else bytes(self._head.data_type)

    @property
    def documents(self) -> Documents:  # type: ignore[override]
        """The document by its key, parsed once."""
        if self._documents is None:
            with error_context(_inside(self.place, self.path)):
                self._documents = {self.path + "/zarr.json": parse_part(self.text)}
        return self._documents


class V3Layout(Layout):
    """Zarr v3: each node has a ``zarr.json``, arrays also chunks."""

    name = "v3"
    copies_key = "zarr.json"
    document_names = defining_names = ("zarr.json",)

    def discover(self, use: ConsolidatedUse, root: JsonObject | None = None) -> Found:
        place = self.store.place("zarr.json")
        root = root or self.read_zarr_json()
        root_node = RawNode(documents_v3.node_type(root, place) == "array", {"zarr.json": root})
        # An array at the root has no members to search for.
        if root_node.is_array:
            return Found({"": root_node})
        inside = consolidated.parse_inline(root, place) if use is not ConsolidatedUse.NEVER else None
        if inside is not None:
            return Found.among({"": root_node, **_copied_nodes(inside, place)}, consolidated=True)
        if use is ConsolidatedUse.REQUIRED:
            raise DatasetNotFoundError(
                "no consolidated metadata", path=place, hint="open without consolidated=True"
            )
        has_copies = isinstance(root.get("consolidated_metadata"), dict)
        return self.search(
            root_node, has_copies, lambda: _copied_nodes(consolidated.parse_inline(root, place) or {}, place)
        )

    def read(self, keys: list[str]) -> dict[str, RawNode]:
        result: dict[str, RawNode] = {}
        for key, data in self.read_documents(keys):
            place, path = self.store.place(key), key.removesuffix("zarr.json").removesuffix("/")
            try:
                document = parse_object(data, place)
                result[path] = RawNode(documents_v3.node_type(document, place) == "array", {key: document})
            except MetadataError as error:
                # Without the root there is no hierarchy. Any other damaged node is an error of that node
                # alone.
                if not path:
                    raise
                result[path] = DamagedNode(error)
        return result

    def is_unchanged(self, path: str, known: RawNode) -> bool:
        if not isinstance(known, UnreadNode):
            return False
        return read_document(self.store, join_key(path, "zarr.json")) == bytes(known.text)

    def parse(self, raw: RawNode, path: str) -> Metadata:
        # This node alone is refused: one document that is no JSON refused the whole dataset.
        if isinstance(raw, DamagedNode):
            raise MetadataError(raw.error.message, path=raw.error.path, hint=raw.error.hint)
        try:
            if isinstance(raw, UnreadNode):
                return documents_v3.parse_unread(raw.is_array, raw.text, raw.attributes)
            document = next(iter(raw.documents.values()), None)
            return GroupMetadata() if document is None else documents_v3.parse_found(document, raw.is_array)
        except NCZarrError as error:
            # The location is computed only on errors: there may be thousands of nodes.
            root, key = self.store.place("zarr.json"), join_key(path, "zarr.json")
            error.path = error.path or (_inside(root, path) if raw.consolidated else self.store.place(key))
            raise

    def documents(self, path: str, metadata: Metadata) -> Documents:
        key = join_key(path, "zarr.json")
        with error_context(key):
            return {key: documents_v3.node_document(metadata)}

    def document_keys(self, path: str) -> list[str]:
        return [join_key(path, "zarr.json")]

    def consolidated_texts(self, nodes: Iterable[tuple[str, RawNode]]) -> list[tuple[str, bytes]]:
        root: JsonObject = {}
        parts: list[tuple[str, bytes]] = []
        for path, node in nodes:
            if path and node.written is not None:
                parts.append((path, node.written))
                continue
            own = next(iter(node.documents.values()), _IMPLIED)
            # zarr-python writes an empty copy into each nested group.
            if "consolidated_metadata" in own:
                own = {key: value for key, value in own.items() if key != "consolidated_metadata"}
            if path:
                node.written = dump_json(own, path)
                parts.append((path, node.written))
            else:
                root = own
        return [("zarr.json", consolidated.join_inline(dump_json(root, "zarr.json"), parts))]


def _copied_nodes(inside: dict[str, JsonObject] | UnreadDocuments, place: str) -> dict[str, RawNode]:
    """Return the nodes in consolidated metadata."""
    if isinstance(inside, UnreadDocuments):
        unread = zip(inside.items(), inside.heads.values(), strict=True)
        return {path: UnreadNode(place, path, text, head) for (path, text), head in unread}
    nodes: dict[str, RawNode] = {}
    for path, document in inside.items():
        try:
            is_array = documents_v3.node_type(document, "") == "array"
        except MetadataError as error:
            error.path = _inside(place, path)  # only on errors: there may be thousands of nodes
            nodes[path] = DamagedNode(error)
        else:
            nodes[path] = RawNode(is_array, {path + "/zarr.json": document}, True)
    return nodes


#: The document of an implicit group, which has members but no document.
_IMPLIED: JsonObject = {"zarr_format": 3, "node_type": "group"}


def _inside(place: str, path: str) -> str:
    return f"{place}: consolidated_metadata.metadata[{path!r}]"


_NAMES = (".zarray", ".zgroup", ".zattrs")


class V2Layout(Layout):
    """Zarr v2, including NCZarr v2."""

    name: ClassVar[str] = "v2"
    copies_key = ".zmetadata"
    document_names = _NAMES
    defining_names = _NAMES[:2]

    def discover(self, use: ConsolidatedUse, root: JsonObject | None = None) -> Found:
        store = self.store
        if use is not ConsolidatedUse.NEVER:
            data = read_document(store, ".zmetadata")
            if data is not None:
                return Found.among(self._copied(data), consolidated=True)
            if use is ConsolidatedUse.REQUIRED:
                raise DatasetNotFoundError(
                    "no consolidated metadata (.zmetadata)",
                    path=store.url,
                    hint="open without consolidated=True",
                )
        nodes = self.fetch([""])
        if not nodes:
            raise DatasetNotFoundError("no .zgroup and no .zarray in the store", path=store.url)
        if nodes[""].is_array:
            return Found(nodes)
        data = read_document(store, ".zmetadata") if use is ConsolidatedUse.NEVER else None
        return self.search(nodes[""], data is not None, lambda: self._copied(data or b""))

    def _copied(self, data: bytes) -> dict[str, RawNode]:
        """Return the nodes in the consolidated metadata."""
        place = self.store.place(".zmetadata")
        return _nodes(consolidated.parse_zmetadata(parse_object(data, place, lenient=True), place), True)

    def read(self, keys: list[str]) -> dict[str, RawNode]:
        found = self.read_documents(keys)
        documents = {key: parse_object(data, self.store.place(key), lenient=True) for key, data in found}
        return _nodes(documents, False)

    def parse(self, raw: RawNode, path: str) -> Metadata:
        if not raw.documents:
            return GroupMetadata()
        main = join_key(path, ".zarray" if raw.is_array else ".zgroup")
        place = f"{self.store.place('.zmetadata')}: {main}" if raw.consolidated else self.store.place(main)
        zattrs = raw.documents.get(join_key(path, ".zattrs"))
        if raw.is_array:
            return documents_v2.parse_array(raw.documents[main], zattrs, place)
        return documents_v2.parse_group(raw.documents.get(main, {"zarr_format": 2}), zattrs, place)

    def documents(self, path: str, metadata: Metadata) -> Documents:
        with error_context(path):
            if metadata.is_array:
                documents = documents_v2.array_documents(metadata)
            else:
                documents = documents_v2.group_documents(metadata)
        return {join_key(path, name): document for name, document in documents.items()}

    def document_keys(self, path: str) -> list[str]:
        return [join_key(path, name) for name in _NAMES]

    def consolidated_texts(self, nodes: Iterable[tuple[str, RawNode]]) -> list[tuple[str, bytes]]:
        documents: Documents = {}
        root: Documents = {}
        for path, node in nodes:
            documents.update(node.documents)
            if not path:
                root = node.documents
        copies = {"zarr_consolidated_format": 1, "metadata": documents}
        return [(key, dump_json(item, key)) for key, item in {**root, ".zmetadata": copies}.items()]


def _nodes(documents: Documents, is_consolidated: bool) -> dict[str, RawNode]:
    """Group documents by node; a node with both ``.zarray`` and ``.zgroup`` is an array."""
    nodes: dict[str, RawNode] = {}
    # The attributes are added to a node that is known already.
    for key in sorted(documents, key=lambda key: key.endswith(".zattrs")):
        path, _, name = key.rpartition("/")
        if name in (".zarray", ".zgroup"):
            node = nodes.setdefault(path, RawNode(False, {}, is_consolidated))
            node.is_array = node.is_array or name == ".zarray"
        # In version 2, attributes alone make no node.
        if name in _NAMES and path in nodes:
            nodes[path].documents[key] = documents[key]
    return nodes


class DraftLayout(Layout):
    r"""The 2019 draft. One listing of ``meta/`` finds all nodes; groups with members need no document.

    =====================  ===============================  ==========================
    \                      2019 draft                       experimental v3
    =====================  ===============================  ==========================
    bootstrap              zarr.json                        zarr.json
    root group             meta/root.group                  meta/root.group.json
    array /g/v             meta/root/g/v.array              meta/root/g/v.array.json
    its chunks             data/g/v/0.0                     data/root/g/v/c0/0
    =====================  ===============================  ==========================
    """

    name: ClassVar[str] = "draft-2019"
    experimental: ClassVar[bool] = False
    _data: ClassVar[str] = "data"

    _suffix = ""

    def discover(self, use: ConsolidatedUse, root: JsonObject | None = None) -> Found:
        store = self.store
        if use is ConsolidatedUse.REQUIRED:
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
                # Names such as ".." in a listing must not lead out of the hierarchy.
                legal = path.startswith("/") and all(check_name(n) is None for n in split_path(path[1:]))
                return (path[1:], kind == ".array") if legal or not path else None
        return None

    def _key(self, path: str, kind: str) -> str:
        return f"meta/{join_key('root', path)}.{kind}{self._suffix}"

    def read(self, keys: list[str]) -> dict[str, RawNode]:
        nodes: dict[str, RawNode] = {}
        for key, data in self.read_documents(keys):
            found = self._path(key)
            # The array wins where a path has documents of both kinds.
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
        is_array = metadata.is_array
        key = self._key(path, "array" if is_array else "group")
        with error_context(key):
            document = (
                documents_draft.array_document(metadata)
                if metadata.is_array
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

    def consolidated_texts(self, nodes: Iterable[tuple[str, RawNode]]) -> list[tuple[str, bytes]]:
        root: Documents = next((node.documents for path, node in nodes if not path), {})
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


#: The layouts that can be opened, by name.
LAYOUTS: dict[str, type[Layout]] = {
    layout.name: layout for layout in (V3Layout, V2Layout, DraftLayout, ExperimentalLayout)
}
