"""Find the groups and dimensions of an NCZarr hierarchy and their records, wherever these survived.

A group's record is its keys in its attributes; else the copy that an array holds, as other programs replace all
attributes of a group at once; else nothing, and the arrays alone say what they need. Other programs change shapes and
rename groups, and know nothing of records: so the arrays count, and a reference whose group is gone means the
dimension of that name upwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from nczarr.errors import MetadataError, ModelError
from nczarr.lazy import cached_property
from nczarr.mapping.dialect import own_dimension
from nczarr.mapping.findings import Findings
from nczarr.mapping.nczarr3.identity import Home, find_copies, find_home
from nczarr.mapping.nczarr3.keys import ARRAY_KEY, GROUP_KEY, array_keys, group_keys
from nczarr.mapping.node_names import escape_name, unescape_name
from nczarr.mapping.values.json import show
from nczarr.model import Dimension, DimensionRef, check_name, format_fqn, join_fqn, parse_fqn, split_fqn
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy


@dataclass(slots=True)
class DeclaredDimension:
    """A dimension as a record has it; the size may be left to the arrays."""

    name: str
    size: int | None
    unlimited: bool


@dataclass(slots=True)
class ArrayNode:
    """An array, its true name, and NCZarr's keys in it."""

    fqn: str
    path: str
    name: str
    metadata: ArrayMetadata
    keys: dict[str, Any]

    @property
    def info(self) -> dict[str, Any]:
        """What NCZarr says of the array; empty if it says nothing."""
        info: dict[str, Any] = self.keys.get(ARRAY_KEY, {})
        return info


@dataclass
class GroupNode:
    """A group, its true name, and its record.

    `source` says where the record comes from: the group's own attributes, a copy in an array, or nowhere.
    """

    fqn: str
    path: str
    name: str
    metadata: GroupMetadata
    keys: dict[str, Any]
    source: Literal["own", "copy", "none"]
    dimensions: list[DeclaredDimension] = field(default_factory=list)
    arrays: list[ArrayNode] = field(default_factory=list)
    groups: list[GroupNode] = field(default_factory=list)

    @property
    def info(self) -> dict[str, Any]:
        """The record of dimensions, types and children."""
        info: dict[str, Any] = self.keys.get(GROUP_KEY, {})
        return info

    def walk(self) -> Iterator[GroupNode]:
        """Yield this group and all below it, parents first."""
        yield self
        for child in self.groups:
            yield from child.walk()


class GroupFinder:
    """Builds the tree of groups and arrays of a hierarchy."""

    def __init__(self, hierarchy: Hierarchy, findings: Findings) -> None:
        self.hierarchy = hierarchy
        self.findings = findings
        self.children: dict[str, list[str]] = {}
        self.array_keys: dict[str, dict[str, Any]] = {}
        self.unreadable: set[str] = set()
        #: The paths of groups and arrays that belong to another dataset.
        self.foreign: set[str] = set()
        self.home = Home(None)
        self.unknown: dict[str, str] = {}

    def find(self) -> GroupNode:
        """Return the root with all that is below it."""
        if not self.hierarchy.complete:
            self._load_declared()
        self.unknown = self.hierarchy.unknown_nodes()
        self.home = find_home(self.hierarchy, self.unknown) or Home(None)
        if self.home.unclear:
            what = "the group's keys are gone, and copies of several records stand in arrays; none of them counts"
            self.findings.add("copy-unclear", "/", what, "error")
        nodes = self.hierarchy.nodes
        for path in nodes:
            if path in self.unknown:
                continue
            if path:
                self.children.setdefault(path.rpartition("/")[0], []).append(path)
            metadata = nodes[path]
            if not self.home.has(metadata):
                self._note_foreign(path, metadata)
            elif isinstance(metadata, ArrayMetadata):
                self.array_keys[path], wrong = array_keys(metadata)
                for what in wrong:
                    self.unreadable.add(path)
                    self.findings.add(
                        "key-unreadable", f"/{path}", f"{what}; it is read as plain Zarr", "error"
                    )
        return self._root()

    def _note_foreign(self, path: str, metadata: ArrayMetadata | GroupMetadata) -> None:
        """Note a node of another dataset: its keys say nothing here."""
        self.foreign.add(path)
        is_array = isinstance(metadata, ArrayMetadata)
        if is_array:
            self.array_keys[path] = {}
        what = f"the {'array' if is_array else 'group'} belongs to another dataset, from which it was copied"
        self.findings.add("node-foreign", f"/{path}", f"{what}; it is read as plain Zarr", "error")

    def _root(self) -> GroupNode:
        """The root with all that is below it; above a group that is opened without its dataset, empty groups."""
        if not self.home.is_part or self.home.fqn is None:
            return self._group("", "/", "")
        *above, name = parse_fqn(self.home.fqn)
        node = self._group("", self.home.fqn, name)
        for depth in range(len(above), -1, -1):
            name = above[depth - 1] if depth else ""
            parent = GroupNode(format_fqn(above[:depth]), "", name, GroupMetadata(), {}, "none")
            parent.groups.append(node)
            node = parent
        return node

    def _load_declared(self) -> None:
        """Where listings do not name every node, look for what groups declare: one batch for each level."""
        level = [""]
        while level:
            wanted: list[str] = []
            for path in level:
                if self.hierarchy.is_array(path) or path in self.hierarchy.unknown_nodes():
                    continue
                info = self.hierarchy.nodes[path].attributes.get(GROUP_KEY)
                for key in ("arrays", "groups"):
                    names = info.get(key) if isinstance(info, dict) else None
                    if isinstance(names, list):
                        names = [n for n in names if isinstance(n, str) and n and "/" not in n]
                        wanted += [f"{path}/{n}" if path else n for n in names]
            self.hierarchy.load(wanted)
            level = [path for path in dict.fromkeys(wanted) if path in self.hierarchy.nodes]

    @cached_property
    def copies(self) -> dict[str, dict[str, Any]]:
        """The records of this dataset's groups that arrays hold, by FQN: where they should be, before others."""
        found: dict[str, dict[str, Any]] = {}
        copies = [c for c in find_copies(self.hierarchy, self.array_keys) if c.dataset == self.home.dataset]
        if self.home.copy is not None:
            found[self.home.copy.fqn] = self.home.copy.record
        for copy in sorted(copies, key=lambda c: not c.is_in_place):
            if not self.home.unclear:
                found.setdefault(copy.fqn, copy.record)
        return found

    # -- groups

    def _group(self, path: str, fqn: str, name: str) -> GroupNode:
        metadata = self.hierarchy.nodes[path]
        if not isinstance(metadata, GroupMetadata):
            raise MetadataError(
                "an array in place of a group", path=self.hierarchy.store.place(f"{path}/zarr.json"), fqn=fqn
            )
        keys, wrong = group_keys(metadata) if path not in self.foreign else ({}, [])
        for what in wrong:
            self._wrong_record(fqn, what)
        source: Literal["own", "copy", "none"] = "own"
        if path in self.foreign:
            source = "none"
        elif not keys:
            keys, source = self._recovered(path, fqn)
        node = GroupNode(fqn, path, name, metadata, keys, source)
        node.dimensions = list(self._dimensions(node))
        arrays, groups = self._child_paths(node)
        taken: set[str] = set()
        for child in arrays:
            child_name = self._name(child, self.array_keys[child].get(ARRAY_KEY, {}), fqn, taken)
            child_metadata = self.hierarchy.nodes[child]
            assert isinstance(child_metadata, ArrayMetadata)
            node.arrays.append(
                ArrayNode(
                    join_fqn(fqn, child_name), child, child_name, child_metadata, self.array_keys[child]
                )
            )
        taken = set()
        for child in groups:
            child_metadata = self.hierarchy.nodes[child]
            info = (
                group_keys(child_metadata)[0].get(GROUP_KEY)
                if isinstance(child_metadata, GroupMetadata) and child not in self.foreign
                else None
            )
            child_name = self._name(child, info or self._copied_info(child, fqn), fqn, taken)
            node.groups.append(self._group(child, join_fqn(fqn, child_name), child_name))
        return node

    def _recovered(self, path: str, fqn: str) -> tuple[dict[str, Any], Literal["own", "copy", "none"]]:
        """The record of a group that has none itself."""
        if self.copies.get(fqn):
            self.findings.add(
                "keys-removed",
                fqn,
                "the group's keys were removed by another program; the copy in an array has them",
                "warning",
                "write the keys back",
            )
            return self.copies[fqn], "copy"
        below = [p for p in self.children.get(path, ()) if self.hierarchy.is_array(p)]
        if not path or any(self.array_keys[p] for p in below):
            self.findings.add(
                "record-lost",
                fqn,
                "the group's keys are gone, and no array has a copy: order, unused dimensions and types, and what "
                "was known of attributes are lost",
                "warning",
                "write what the arrays know",
            )
            return {}, "none"
        return {}, "own" if not self.children.get(path) else "none"

    def _copied_info(self, path: str, parent: str) -> dict[str, Any]:
        """The record of a group whose node name is escaped and whose keys are gone, found by its true name."""
        node = path.rpartition("/")[2]
        if unescape_name(node) is not None:
            return {}
        for fqn, record in self.copies.items():
            info: dict[str, Any] = record.get(GROUP_KEY, {})
            name = info.get("name")
            if isinstance(name, str) and fqn == join_fqn(parent, name) and escape_name(name) == node:
                return info
        return {}

    def _dimensions(self, node: GroupNode) -> Iterator[DeclaredDimension]:
        declared = node.info.get("dimensions", [])
        if isinstance(declared, dict):  # version 3.0
            declared = [
                {"name": name, **(value if isinstance(value, dict) else {"size": value})}
                for name, value in declared.items()
            ]
        if not isinstance(declared, list):
            self._wrong_record(node.fqn, f"{GROUP_KEY}.dimensions: {show(declared)} is not a list")
            return
        seen: set[str] = set()
        for item in declared:
            name = item.get("name") if isinstance(item, dict) else None
            if not isinstance(name, str) or check_name(name) or name in seen:
                self._wrong_record(
                    node.fqn, f"{GROUP_KEY}.dimensions: {show(item)} has no name, or one that is taken"
                )
                continue
            seen.add(name)
            size = item.get("size")
            if size is not None and (type(size) is not int or size < 0):
                self._wrong_record(node.fqn, f"{GROUP_KEY}.dimensions: {show(item)} has no size")
                size = None
            yield DeclaredDimension(name, size, item.get("unlimited") is True)

    def _wrong_record(self, fqn: str, what: str) -> None:
        self.findings.add(
            "record-damaged", fqn, f"{what}; it is ignored", "warning", "write what was understood"
        )

    def _child_paths(self, node: GroupNode) -> tuple[list[str], list[str]]:
        """The children in declared order; then those that no record declares, in the order of the hierarchy."""
        prefix = f"{node.path}/" if node.path else ""
        listed: dict[str, list[str]] = {"arrays": [], "groups": []}
        taken: set[str] = set()
        for key, what in (("arrays", "array"), ("groups", "group")):
            names = node.info.get(key, [])
            if not isinstance(names, list):
                self._wrong_record(node.fqn, f"{GROUP_KEY}.{key}: {show(names)} is not a list of names")
                continue
            for name in names:
                path = f"{prefix}{name}"
                if not isinstance(name, str) or not name or "/" in name or path in taken:
                    self._wrong_record(
                        node.fqn, f"{GROUP_KEY}.{key}: {show(name)} is no name, or stands there twice"
                    )
                elif path in self.unknown:
                    continue
                elif (path in self.array_keys) != (key == "arrays") or path not in self.hierarchy.nodes:
                    self.findings.add(
                        "node-missing",
                        node.fqn,
                        f"the {what} {name!r} is listed and not there: it was deleted or renamed",
                        "warning",
                        "update the list",
                    )
                else:
                    taken.add(path)
                    listed[key].append(path)
        for path in self.children.get(node.path, ()):
            if path in taken:
                continue
            is_array = self.hierarchy.is_array(path)
            listed["arrays" if is_array else "groups"].append(path)
            if node.source != "none":
                what = "array" if is_array else "group"
                kind = "" if not is_array or self.array_keys[path] else ", as plain Zarr"
                self.findings.add(
                    "node-unlisted",
                    node.fqn,
                    f"the {what} {path[len(prefix) :]!r} is not listed: another program added it; it comes last{kind}",
                    "note",
                    "add it to the list",
                )
        return listed["arrays"], listed["groups"]

    def _name(self, path: str, info: dict[str, Any], parent: str, taken: set[str]) -> str:
        """The true name of a node: what its record says, else what its node name stands for."""
        node_name = path.rpartition("/")[2]
        plain = unescape_name(node_name) or node_name
        name = info.get("name", plain)
        wrong = check_name(name) if isinstance(name, str) else f"{show(name)} is not text"
        if wrong:
            if "name" in info:
                self.findings.add("key-unreadable", join_fqn(parent, plain), f"name: {wrong}", "error")
            name = plain if check_name(plain) is None else escape_name(plain).replace("/", "_").strip() or "_"
        if name in taken:
            other, number = plain, 2
            while other in taken or check_name(other) is not None:
                other, number = f"{name}_{number}", number + 1
            self.findings.add(
                "name-taken",
                join_fqn(parent, other),
                f"another node is named {name!r}; it is read as {other!r}",
                "error",
            )
            name = other
        taken.add(name)
        return str(name)


def group_of(fqn: str) -> str:
    """The FQN of the group that a node is in."""
    return split_fqn(fqn)[0]


@dataclass
class _Entry:
    declared: DeclaredDimension
    #: Length along it and array, for each use.
    uses: list[tuple[int, ArrayNode]] = field(default_factory=list)


class DimensionFinder:
    """All dimensions of a dataset by FQN, and what the arrays say of them."""

    def __init__(self, root: GroupNode, findings: Findings) -> None:
        self.findings = findings
        self.groups: dict[str, GroupNode] = {node.fqn: node for node in root.walk()}
        self.entries: dict[str, _Entry] = {
            join_fqn(node.fqn, d.name): _Entry(d) for node in self.groups.values() for d in node.dimensions
        }
        self.sizes: dict[str, Dimension] = {}
        #: Dimensions that only a conflict made necessary.
        self.guessed: dict[tuple[str, str, int], str] = {}

    # -- references

    def bind(self, array: ArrayNode, reference: str, length: int) -> str:
        """Return the FQN of the dimension that an array's reference means, and note the length."""
        fqn = reference if reference in self.entries else self._find(array, reference)
        self.entries[fqn].uses.append((length, array))
        return fqn

    def _find(self, array: ArrayNode, reference: str) -> str:
        *above, name = parse_fqn(reference)
        home, own = format_fqn(above), group_of(array.fqn)
        if home in self.groups:
            if self.groups[home].source != "none":
                self.findings.add(
                    "dimension-unlisted",
                    home,
                    f"the dimension {name!r} is used by {array.fqn} and not declared",
                    "note",
                    "declare it",
                )
            return self._declare(home, name, array, reference)
        names = parse_fqn(own)
        for depth in range(len(names), -1, -1):
            fqn = join_fqn(format_fqn(names[:depth]), name)
            if fqn in self.entries:
                self._moved(array, reference, fqn)
                return fqn
        fqn = self._declare(own, name, array, reference)
        self._moved(array, reference, fqn)
        return fqn

    def _moved(self, array: ArrayNode, reference: str, fqn: str) -> None:
        self.findings.add(
            "reference-moved",
            array.fqn,
            f"the dimension {reference} is gone, as its group was renamed or deleted; it is taken for {fqn}",
            "warning",
            "rewrite the reference",
        )

    def _declare(self, group: str, name: str, array: ArrayNode, reference: str) -> str:
        unlimited = array.info.get("unlimited", [])
        declared = DeclaredDimension(name, None, isinstance(unlimited, list) and reference in unlimited)
        self.groups[group].dimensions.append(declared)
        fqn = join_fqn(group, name)
        self.entries[fqn] = _Entry(declared)
        return fqn

    # -- sizes

    def settle(self) -> Mapping[str, Dimension]:
        """Find the size of every dimension, when all references are bound; returns the dimensions by FQN."""
        for fqn, entry in list(self.entries.items()):
            size = self._size(fqn, entry)
            self.sizes[fqn] = Dimension(entry.declared.name, size, entry.declared.unlimited)
        return self.sizes

    def _size(self, fqn: str, entry: _Entry) -> int:
        recorded = entry.declared.size
        lengths = {length for length, _ in entry.uses}
        if not lengths:
            return recorded or 0
        longest = max(lengths)
        if entry.declared.unlimited:
            for length, array in entry.uses:
                if length < longest:
                    what = f"it has {length} of {longest} steps of {fqn}; the others read as fill"
                    self.findings.add("length-differs", array.fqn, what, "warning", "extend its shape")
        elif len(lengths) > 1:
            return self._conflict(fqn, entry, lengths)
        if recorded is not None and recorded != longest:
            self.findings.add(
                "size-stale",
                fqn,
                f"the recorded size is {recorded}, its arrays have {longest}",
                "note",
                "update the record",
            )
        return longest

    def _conflict(self, fqn: str, entry: _Entry, lengths: set[int]) -> int:
        recorded = entry.declared.size
        own = [n for n, array in entry.uses if array.fqn == fqn and len(array.metadata.shape) == 1]
        size = recorded if recorded in lengths else own[0] if own else max(lengths)
        assert size is not None
        for length, array in entry.uses:
            if length != size:
                self.findings.add(
                    "size-conflict",
                    array.fqn,
                    f"it has {length} elements along {fqn}, others have {size}; it is read with a dimension of its own",
                    "error",
                )
        return size

    def reference(self, array: ArrayNode, fqn: str, length: int) -> DimensionRef:
        """Return the dimension that an array has, once sizes are settled: its own where lengths are in conflict."""
        dimension = self.sizes[fqn]
        if dimension.size == length or dimension.unlimited:
            return fqn
        group = group_of(array.fqn)
        key = (group, fqn, length)
        if key not in self.guessed:
            own = own_dimension(group, dimension, length, self.sizes)
            if own in self.sizes:
                return own
            self.guessed[key] = own
            name = split_fqn(own)[1]
            self.sizes[own] = Dimension(name, length)
            self.groups[group].dimensions.append(DeclaredDimension(name, length, False))
        return self.guessed[key]


def is_reference(item: object) -> bool:
    """True for an FQN below the root, or the size of an anonymous dimension.

    Examples
    --------
    >>> [is_reference(x) for x in ("/x", 3, "x", "/", -1, True)]
    [True, True, False, False, False, False]
    """
    if type(item) is int:
        return item >= 0
    return isinstance(item, str) and _is_fqn(item)


@lru_cache(maxsize=4096)
def _is_fqn(item: str) -> bool:
    if item == "/":
        return False
    try:
        parse_fqn(item)
    except ModelError:
        return False
    return True
