"""Find the groups and dimensions of an NCZarr hierarchy, and their records.

The record of a group consists of the keys in its attributes. Other programs replace all attributes of a group at once;
then the copy in an array is the record, or, without a copy, the arrays alone define the dimensions that they need.
Other programs also change shapes and rename groups without updating records. Therefore arrays take precedence over
records, and a reference into a missing group means the dimension of that name in an enclosing group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Literal

from nczarr.dataclass import dataclass
from nczarr.json_values import Json, JsonObject, as_list, as_object, as_text, member, show, texts_in
from nczarr.lazy import cached_property
from nczarr.mapping.dialect import array_at, own_dimension
from nczarr.mapping.findings import Findings
from nczarr.mapping.nczarr3 import keys as spec
from nczarr.mapping.nczarr3.keys import GROUP_KEY, group_keys
from nczarr.mapping.node_names import escape_name, free_name, unescape_name
from nczarr.model import Dimension, DimensionRef, check_name, format_fqn, join_fqn, parse_fqn, split_fqn
from nczarr.model.names import check_reach, find_nearest
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy

#: The origin of a record: the group's own attributes, a copy in an array, or none.
RecordOrigin = Literal["own", "copy", "none"]


@dataclass(slots=True)
class ArrayNode:
    """An array, its netCDF name, and its NCZarr keys."""

    fqn: str
    path: str
    name: str
    metadata: ArrayMetadata
    keys: JsonObject
    #: Whether a key is none of the valid ones: its absence violates no further constraint.
    unreadable: bool = False

    @property
    def info(self) -> JsonObject:
        """NCZarr's description of the array; may be empty."""
        return member(self.keys, spec.ARRAY_KEY)


@dataclass(slots=True)
class DeclaredDimension:
    """A dimension in a record; without a size, the arrays define it."""

    name: str
    size: int | None
    unlimited: bool
    #: The length and the array of each use.
    uses: list[tuple[int, ArrayNode]] = field(default_factory=list)


@dataclass
class RecordedGroup:
    """A group, its netCDF name, and its record."""

    fqn: str
    path: str
    name: str
    metadata: GroupMetadata
    keys: JsonObject
    source: RecordOrigin
    dimensions: list[DeclaredDimension] = field(default_factory=list)
    arrays: list[ArrayNode] = field(default_factory=list)
    groups: list[RecordedGroup] = field(default_factory=list)

    @property
    def info(self) -> JsonObject:
        """The record of dimensions, types and children."""
        return member(self.keys, GROUP_KEY)

    def walk(self) -> Iterator[RecordedGroup]:
        """Yield this group and all groups below it, parents first."""
        yield self
        for child in self.groups:
            yield from child.walk()


class GroupFinder:
    """Builds the tree of groups and arrays of a hierarchy."""

    def __init__(self, hierarchy: Hierarchy, findings: Findings) -> None:
        self.hierarchy = hierarchy
        self.findings = findings
        self.array_keys: dict[str, JsonObject] = {}
        #: By path, what is wrong with keys of arrays.
        self.unreadable: dict[str, list[str]] = {}
        #: The paths of groups and arrays that belong to another dataset.
        self.foreign: set[str] = set()
        self.home = spec.Home(None)
        self.unknown: dict[str, str] = {}

    def find(self) -> RecordedGroup:
        """Return the root with all nodes below it."""
        if not self.hierarchy.complete:
            self._load_declared()
        self.unknown = self.hierarchy.unknown_nodes()
        self.home = spec.find_home(self.hierarchy, self.unknown) or spec.Home(None)
        if self.home.unclear:
            what = "the group's keys are missing, and arrays contain copies of several records"
            self.findings.add("copy-unclear", "/", f"{what}; all are ignored")
        nodes = self.hierarchy.nodes
        for path in nodes:
            # A node that cannot be opened is left out, and its neighbours are read.
            if path in self.unknown:
                continue
            metadata = nodes[path]
            if not self.home.has(metadata):
                # The keys of a node of another dataset are ignored.
                self.foreign.add(path)
                is_array = metadata.is_array
                if is_array:
                    self.array_keys[path] = {}
                what = f"the {'array' if is_array else 'group'} was copied from another dataset"
                self.findings.add("node-foreign", f"/{path}", f"{what}; it is read as plain Zarr")
            elif metadata.is_array:
                self.array_keys[path], wrong = spec.array_keys(metadata)
                if wrong:
                    self.unreadable[path] = wrong
        if not self.home.is_part or self.home.fqn is None:
            return self._group("", "/", "")
        return self._root_of_part(self.home.fqn)

    def _root_of_part(self, fqn: str) -> RecordedGroup:
        """Return an empty root with empty groups above a group that is opened without its dataset."""
        *above, name = parse_fqn(fqn)
        node = self._group("", fqn, name)
        for depth in range(len(above), -1, -1):
            name = above[depth - 1] if depth else ""
            parent = RecordedGroup(format_fqn(above[:depth]), "", name, GroupMetadata(), {}, "none")
            parent.groups.append(node)
            node = parent
        return node

    def _load_declared(self) -> None:
        """Request the nodes that groups declare, where listings are incomplete: one batch for each level."""
        level = [""]
        while level:
            declared: list[str] = []
            for path in level:
                if self.hierarchy.is_array(path) or path in self.hierarchy.unknown_nodes():
                    continue
                info = member(self.hierarchy.nodes[path].attributes, GROUP_KEY)
                for key in ("arrays", "groups"):
                    # A damaged name would be a request for a key of another group, or of the store's root.
                    names = [n for n in texts_in(info.get(key)) if n and "/" not in n]
                    declared += [f"{path}/{n}" if path else n for n in names]
            self.hierarchy.load(declared)
            level = [path for path in dict.fromkeys(declared) if path in self.hierarchy.nodes]

    def children(self, path: str) -> list[str]:
        """Return the paths of the nodes in a group that can be opened."""
        return [child for child in self._index.get(path, ()) if child not in self.unknown]

    @cached_property
    def _index(self) -> dict[str, list[str]]:
        # Without the lock of the hierarchy, which no other thread has yet.
        return self.hierarchy.nodes.index_children()

    @cached_property
    def copies(self) -> dict[str, JsonObject]:
        """The copies of the records of this dataset's groups, by FQN; those in their usual place take precedence."""
        found: dict[str, JsonObject] = {}
        copies = [
            c for c in spec.find_copies(self.hierarchy, self.array_keys) if c.dataset == self.home.dataset
        ]
        if self.home.copy is not None:
            found[self.home.copy.fqn] = self.home.copy.record
        for copy in sorted(copies, key=lambda c: not c.is_in_place):
            if not self.home.unclear:
                found.setdefault(copy.fqn, copy.record)
        return found

    # -- groups

    def _group(self, path: str, fqn: str, name: str) -> RecordedGroup:
        metadata = self.hierarchy.nodes[path]
        # The dialects refuse an array as the root, and the paths of children are of one kind.
        assert not metadata.is_array
        node = RecordedGroup(fqn, path, name, metadata, *self._record(path, fqn, metadata))
        node.dimensions = list(self._dimensions(node))
        arrays, groups = self._child_paths(node)
        taken: set[str] = set()
        for child in arrays:
            array, own = array_at(self.hierarchy.nodes, child), self.array_keys.get(child, {})
            child_name = self._name(child, member(own, spec.ARRAY_KEY), fqn, taken)
            child_fqn, unreadable = join_fqn(fqn, child_name), self.unreadable.get(child, ())
            node.arrays.append(ArrayNode(child_fqn, child, child_name, array, own, bool(unreadable)))
            for what in unreadable:
                self.findings.add("key-unreadable", child_fqn, f"{what}; it is read as plain Zarr")
        taken = set()
        for child in groups:
            group = self.hierarchy.nodes[child]
            info: JsonObject = {}
            if not group.is_array and child not in self.foreign:
                info = member(group_keys(group)[0], GROUP_KEY)
            child_name = self._name(child, info or self._copied_info(child, fqn), fqn, taken)
            node.groups.append(self._group(child, join_fqn(fqn, child_name), child_name))
        return node

    def _record(self, path: str, fqn: str, metadata: GroupMetadata) -> tuple[JsonObject, RecordOrigin]:
        """Return the record of a group, and its source."""
        if path in self.foreign:
            return {}, "none"
        keys, wrong = group_keys(metadata)
        for what in wrong:
            self._add_damaged(fqn, what)
        if keys:
            return keys, "own"
        if self.copies.get(fqn):
            what = "another program has removed the group's keys; the copy in an array replaces them"
            self.findings.add("keys-removed", fqn, what)
            return self.copies[fqn], "copy"
        children = self.children(path)
        if not path or any(self.array_keys.get(child) for child in children):
            what = (
                "the group's keys are missing, and no array has a copy: the order of nodes, unused dimensions and "
                "types, and the types of attributes are lost"
            )
            self.findings.add("record-lost", fqn, what)
            return {}, "none"
        return {}, "none" if children else "own"

    def _copied_info(self, path: str, parent: str) -> JsonObject:
        """Return the record of a group without keys whose node name is cut; the copy contains its netCDF name."""
        stem, cut, _ = path.rpartition("/")[2].partition("..")
        beginning = unescape_name(stem)
        if not cut or beginning is None or beginning == stem:
            return {}
        below = {f: split_fqn(f) for f in self.copies if spec.is_reference(f)}
        found = [f for f, (above, name) in below.items() if above == parent and name.startswith(beginning)]
        return member(self.copies[found[0]], GROUP_KEY) if len(found) == 1 else {}

    def _dimensions(self, node: RecordedGroup) -> Iterator[DeclaredDimension]:
        seen: set[str] = set()
        for item in self._dimension_entries(node):
            name = as_text(as_object(item).get("name"))
            if check_name(name) or name in seen:
                what = f"{GROUP_KEY}.dimensions: {show(item)} has an invalid or repeated name"
                self._add_damaged(node.fqn, what)
                continue
            seen.add(name)
            size = item.get("size")
            # JSON's true is an int for Python.
            if size is not None and (type(size) is not int or size < 0):
                self._add_damaged(node.fqn, f"{GROUP_KEY}.dimensions: {show(item)} has no valid size")
                size = None
            elif size is None and node.source == "own":  # copies leave out the sizes of unlimited dimensions
                what = (
                    f"{GROUP_KEY}.dimensions: {show(item)} has no size; that of its arrays, or 0, replaces it"
                )
                self.findings.add("size-missing", join_fqn(node.fqn, name), what)
            yield DeclaredDimension(name, size, item.get("unlimited") is True)

    def _dimension_entries(self, node: RecordedGroup) -> list[Json]:
        """Return the entries of a group's dimensions in the form of the present version."""
        declared = node.info.get("dimensions", [])
        if isinstance(declared, dict):  # version 3.0: names to lengths, or to objects
            return [{"name": n, **(as_object(value) or {"size": value})} for n, value in declared.items()]
        return self._list(node, "dimensions", "a list")

    def _list(self, node: RecordedGroup, key: str, what: str) -> list[Json]:
        """Return a list of a group's record; an empty one, with a finding, for another value."""
        value = node.info.get(key, [])
        if as_list(value) != value:
            self._add_damaged(node.fqn, f"{GROUP_KEY}.{key}: {show(value)} is not {what}")
        return as_list(value)

    def _add_damaged(self, fqn: str, what: str) -> None:
        self.findings.add("record-damaged", fqn, f"{what}; it is ignored")

    def _child_paths(self, node: RecordedGroup) -> tuple[list[str], list[str]]:
        """Return the arrays and groups in declared order, then undeclared nodes in the order of their code points."""
        prefix = f"{node.path}/" if node.path else ""
        listed: dict[str, list[str]] = {"arrays": [], "groups": []}
        taken: set[str] = set()
        for key in listed:
            for name in self._list(node, key, "a list of names"):
                path = f"{prefix}{name}"
                # A node that is listed twice would be two variables with the chunks of one.
                if not as_text(name) or "/" in name or path in taken:
                    self._add_damaged(node.fqn, f"{GROUP_KEY}.{key}: {show(name)} is invalid or repeated")
                elif path in self.unknown:
                    continue
                elif (path in self.array_keys) != (key == "arrays") or path not in self.hierarchy.nodes:
                    self.findings.add_missing(node.fqn, path, key == "arrays", self.hierarchy)
                else:
                    taken.add(path)
                    listed[key].append(path)
        for path in sorted(self.children(node.path)):
            if path in taken:
                continue
            is_array = self.hierarchy.is_array(path)
            listed["arrays" if is_array else "groups"].append(path)
            # A group that has lost its record lists nothing, and one finding says so.
            if node.source != "none":
                what = f"the {'array' if is_array else 'group'} {path[len(prefix) :]!r} is not listed"
                kind = "" if not is_array or self.array_keys[path] else ", as plain Zarr"
                what = f"{what}: another program added it; it is last{kind}"
                self.findings.add("node-unlisted", node.fqn, what)
        return listed["arrays"], listed["groups"]

    def _name(self, path: str, info: JsonObject, parent: str, taken: set[str]) -> str:
        """Return the netCDF name of a node, from its record or from its node name."""
        node_name = path.rpartition("/")[2]
        plain = unescape_name(node_name) or node_name
        name = info.get("name", plain)
        wrong = check_name(name) if as_text(name) == name else f"{show(name)} is not text"
        if wrong:
            if "name" in info:
                self.findings.add("key-unreadable", join_fqn(parent, plain), f"name: {wrong}")
            # Zarr allows more characters in the name of a node than netCDF in that of a variable.
            name = plain if check_name(plain) is None else escape_name(plain).replace("/", "_").strip() or "_"
        # The model finds variables by their paths: of two with one name, the second would hide the first.
        if name in taken:
            other = plain
            if other in taken or check_name(other) is not None:
                other = free_name(name, taken)
            what = f"another node is named {name!r}; it is read as {other!r}"
            self.findings.add("name-taken", join_fqn(parent, other), what)
            name = other
        taken.add(name)
        return str(name)


class DimensionFinder:
    """All dimensions of a dataset by FQN, and their lengths in the arrays."""

    def __init__(self, root: RecordedGroup, findings: Findings) -> None:
        self.findings = findings
        self.groups: dict[str, RecordedGroup] = {node.fqn: node for node in root.walk()}
        self.declared = {join_fqn(n.fqn, d.name): d for n in self.groups.values() for d in n.dimensions}
        self.sizes: dict[str, Dimension] = {}
        #: Dimensions that exist only because lengths contradict each other.
        self.guessed: dict[tuple[str, str, int], str] = {}
        #: By the path of a group and a reference: why its arrays cannot have the dimension; None if they can.
        self._reach: dict[tuple[str, str], str | None] = {}

    # -- references

    def bind(self, array: ArrayNode, reference: str, length: int) -> str:
        """Return the FQN of the dimension that a reference of an array means, and record its length."""
        if wrong := self._check_reach(array, reference):
            what = f"{wrong}; it is read with a dimension of its own"
            self.findings.add("dimension-unreachable", array.fqn, what)
            return reference
        fqn = reference if reference in self.declared else self._find(array, reference)
        self.declared[fqn].uses.append((length, array))
        return fqn

    def _check_reach(self, array: ArrayNode, reference: str) -> str | None:
        """Return the reason why an array cannot have a dimension of an existing group; None if it can."""
        key = (array.path.rpartition("/")[0], reference)
        if key not in self._reach:
            exists = split_fqn(reference)[0] in self.groups
            self._reach[key] = check_reach(split_fqn(array.fqn)[0], reference) if exists else None
        return self._reach[key]

    def _find(self, array: ArrayNode, reference: str) -> str:
        *above, name = parse_fqn(reference)
        home, own = format_fqn(above), split_fqn(array.fqn)[0]
        if home in self.groups:
            if self.groups[home].source != "none":
                what = f"the dimension {name!r} is used by {array.fqn} but not declared"
                self.findings.add("dimension-unlisted", home, what)
            return self._declare(home, name, array, reference)
        fqn = find_nearest(name, own, self.declared) or self._declare(own, name, array, reference)
        what = f"the dimension {reference} is missing: its group was renamed or deleted; {fqn} replaces it"
        self.findings.add("reference-moved", array.fqn, what)
        return fqn

    def _declare(self, group: str, name: str, array: ArrayNode, reference: str) -> str:
        unlimited = array.info.get("unlimited", [])
        declared = DeclaredDimension(name, None, reference in as_list(unlimited))
        self.groups[group].dimensions.append(declared)
        fqn = join_fqn(group, name)
        self.declared[fqn] = declared
        return fqn

    # -- sizes

    def settle(self) -> Mapping[str, Dimension]:
        """Determine all sizes after all references are bound, and return the dimensions by FQN."""
        for fqn, declared in self.declared.items():
            self.sizes[fqn] = Dimension(declared.name, self._size(fqn, declared), declared.unlimited)
        return self.sizes

    def _size(self, fqn: str, entry: DeclaredDimension) -> int:
        recorded = entry.size
        lengths = {length for length, _ in entry.uses}
        if not lengths:
            return recorded or 0
        longest = max(lengths)
        # Other programs lengthen one array only. The rest of the others reads as fill values.
        if entry.unlimited:
            for length, array in entry.uses:
                if length < longest:
                    what = f"it has {length} of {longest} steps of {fqn}; the others are read as fill values"
                    self.findings.add("length-differs", array.fqn, what)
        # No reading of a fixed dimension with two lengths is right: the record decides, then the
        # coordinate variable.
        elif len(lengths) > 1:
            own = [n for n, array in entry.uses if array.fqn == fqn and len(array.metadata.shape) == 1]
            size = recorded if recorded in lengths else own[0] if own else longest
            assert size is not None
            for length, array in entry.uses:
                if length != size:
                    what = f"it has {length} elements along {fqn}, others have {size}"
                    what = f"{what}; it is read with a dimension of its own"
                    self.findings.add("size-conflict", array.fqn, what)
            return size
        # Other programs resize arrays without the record of the group.
        if recorded is not None and recorded != longest:
            what = f"the recorded size is {recorded}, but its arrays have {longest}"
            self.findings.add("size-stale", fqn, what)
        return longest

    def reference(self, array: ArrayNode, fqn: str, length: int) -> DimensionRef:
        """Return the dimension of an array after sizes are determined.

        It is one of the array's own where lengths are in conflict, or the array cannot have the dimension.
        """
        dimension = self.sizes.get(fqn) or Dimension(split_fqn(fqn)[1], length)
        if not self._check_reach(array, fqn) and (dimension.size == length or dimension.unlimited):
            return fqn
        group = split_fqn(array.fqn)[0]
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
