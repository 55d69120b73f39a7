"""NCZarr on Zarr v3, reading: from documents to the model (``docs/spec/nczarr-v3.md``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nczarr.errors import MetadataError, NCZarrError
from nczarr.mapping.layout import Binding, Reading
from nczarr.mapping.nczarr3.attributes import ATTR_KEY, RESERVED, decode_attributes
from nczarr.mapping.nczarr3.keys import ARRAY_KEY, GROUP_KEY, SUPERBLOCK_KEY, nczarr_keys
from nczarr.mapping.nczarr3.types import find_type, types_from_json
from nczarr.mapping.node_names import unescape_name
from nczarr.mapping.plain.arrays import PlainArrays
from nczarr.mapping.values.encodings import encoding_for_reading
from nczarr.mapping.values.json import show
from nczarr.model import (
    Dataset,
    Dimension,
    DimensionRef,
    Filter,
    Group,
    Storage,
    Type,
    UserType,
    Variable,
    check_name,
    join_fqn,
)
from nczarr.zarr.hierarchy.hierarchy import Hierarchy
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata


def is_nczarr_v3(hierarchy: Hierarchy) -> bool:
    """True if the root of a hierarchy (v3, or a draft) has NCZarr's keys of version 3."""
    if hierarchy.is_array(""):
        return False
    try:
        keys = nczarr_keys(hierarchy.nodes[""])
    except MetadataError as error:
        error.path = error.path or hierarchy.store.place("zarr.json")
        raise
    return SUPERBLOCK_KEY in keys or GROUP_KEY in keys


def read_nczarr_v3(hierarchy: Hierarchy, name: str) -> Reading:
    """Read the model; see :meth:`nczarr.mapping.layout.Layout.read`."""
    reader = _Reader(hierarchy)
    dataset = reader.read(name)
    return Reading(dataset, reader.variables, reader.group_paths)


@dataclass
class _Node:
    """A group of the hierarchy, looked at once."""

    fqn: str
    path: str
    name: str
    metadata: GroupMetadata
    keys: dict[str, Any]
    info: dict[str, Any]
    arrays: list[str] = field(default_factory=list)
    groups: list[_Node] = field(default_factory=list)
    dimensions: list[Dimension] = field(default_factory=list)


class _Reader:
    def __init__(self, hierarchy: Hierarchy) -> None:
        self.hierarchy = hierarchy
        self.variables: dict[str, Binding] = {}
        self.group_paths: dict[str, str] = {}
        self.dimensions: dict[str, Dimension] = {}
        self.types: dict[str, UserType] = {}
        self.group_types: dict[str, tuple[UserType, ...]] = {}
        self.reserved = RESERVED
        self.plain = PlainArrays(hierarchy)
        self.children: dict[str, list[str]] = {}

    # -- where things are, for messages

    def place(self, path: str) -> str:
        return self.hierarchy.store.place(f"{path}/zarr.json" if path else "zarr.json")

    def wrong(self, message: str, path: str, fqn: str | None = None) -> MetadataError:
        return MetadataError(message, path=self.place(path), fqn=fqn)

    # -- groups

    def read(self, name: str) -> Dataset:
        if not self.hierarchy.complete:
            self.load_declared()
        for path in self.hierarchy.nodes:
            if path:
                self.children.setdefault(path.rpartition("/")[0], []).append(path)
        root = self.node("", "/", "")
        superblock = self.superblock(root)
        declared = {n.fqn: n.info.get("types", {}) for n in _walk(root)}
        try:
            self.group_types = types_from_json(declared)
        except NCZarrError as error:
            error.path = error.path or self.place("")
            raise
        self.types = {t.fqn: t for types in self.group_types.values() for t in types}
        for node in _walk(root):
            self.plain.begin_group(node.fqn, [t.name for t in self.group_types[node.fqn]], self.dimensions)
        body = self.group(root)
        return Dataset(
            name,
            attributes=body.attributes,
            types=body.types,
            dimensions=body.dimensions,
            variables=body.variables,
            groups=body.groups,
            format=superblock.get("format"),
        )

    def load_declared(self) -> None:
        """On a store that cannot list, look for what groups declare: one batch for each level."""
        level = [""]
        while level:
            wanted: list[str] = []
            for path in level:
                if self.hierarchy.is_array(path):
                    continue
                info = self.hierarchy.nodes[path].attributes.get(GROUP_KEY)
                for key in ("arrays", "groups"):
                    names = info.get(key) if isinstance(info, dict) else None
                    if isinstance(names, list):
                        names = [n for n in names if isinstance(n, str) and n and "/" not in n]
                        wanted += [f"{path}/{n}" if path else n for n in names]
            level = self.hierarchy.load(wanted) if wanted else []

    def superblock(self, root: _Node) -> Mapping[str, Any]:
        superblock: Mapping[str, Any] = root.keys.get(SUPERBLOCK_KEY, {})
        version = superblock.get("version", "3")
        if not isinstance(version, str) or version.partition(".")[0] != "3":
            raise self.wrong(
                f"attributes.{SUPERBLOCK_KEY}.version: {show(version)} is not a version 3 that nczarr knows",
                "",
            )
        origin = superblock.get("format")
        if origin is not None and not isinstance(origin, str):
            raise self.wrong(f"attributes.{SUPERBLOCK_KEY}.format: {show(origin)} is not text", "")
        if superblock.get("nzug"):
            self.reserved = RESERVED | {"conventions"}
        return superblock

    def node(self, path: str, fqn: str, name: str) -> _Node:
        metadata = self.hierarchy.nodes[path]
        if not isinstance(metadata, GroupMetadata):
            raise self.wrong("an array in place of a group", path, fqn)
        try:
            keys = nczarr_keys(metadata)
        except MetadataError as error:
            error.path = self.place(path)
            raise
        info = keys.get(GROUP_KEY, {})
        node = _Node(fqn, path, name, metadata, keys, info)
        self.group_paths[fqn] = path
        node.dimensions = list(self.declared_dimensions(node))
        self.dimensions.update({join_fqn(fqn, d.name): d for d in node.dimensions})
        arrays, groups = self.child_paths(node)
        node.arrays = arrays
        seen: set[str] = set()
        for child in groups:
            child_name = self.true_name(child, GROUP_KEY)
            if child_name in seen:
                raise self.wrong(f"two groups are named {child_name!r}", child, fqn)
            seen.add(child_name)
            node.groups.append(self.node(child, join_fqn(fqn, child_name), child_name))
        return node

    def declared_dimensions(self, node: _Node) -> list[Dimension]:
        declared = node.info.get("dimensions", {})
        key = f"attributes.{GROUP_KEY}.dimensions"
        if not isinstance(declared, dict):
            raise self.wrong(f"{key}: {show(declared)} is not an object", node.path)
        found = []
        for name, value in declared.items():
            size, unlimited = value, False
            if isinstance(value, dict):
                size, unlimited = value.get("size"), bool(value.get("unlimited", False))
            if type(size) is not int or size < 0:
                raise self.wrong(f"{key}.{name}: {show(value)} is not a size", node.path)
            if wrong := check_name(name):
                raise self.wrong(f"{key}: {wrong}", node.path)
            found.append(Dimension(name, size, unlimited))
        return found

    def child_paths(self, node: _Node) -> tuple[list[str], list[str]]:
        """The children in declared order; then those that nobody declared, in the order of the hierarchy."""
        prefix = f"{node.path}/" if node.path else ""
        listed: dict[str, list[str]] = {}
        for key in ("arrays", "groups"):
            names = node.info.get(key, [])
            if not isinstance(names, list) or not all(isinstance(n, str) and n for n in names):
                raise self.wrong(
                    f"attributes.{GROUP_KEY}.{key}: {show(names)} is not a list of names", node.path
                )
            if len(set(names)) != len(names):
                raise self.wrong(f"attributes.{GROUP_KEY}.{key}: {show(names)} names a node twice", node.path)
            listed[key] = [prefix + n for n in names]
        for key, is_array in (("arrays", True), ("groups", False)):
            for path in listed[key]:
                if path not in self.hierarchy.nodes or self.hierarchy.is_array(path) != is_array:
                    what = "array" if is_array else "group"
                    raise self.wrong(
                        f"attributes.{GROUP_KEY}.{key}: there is no {what} {path[len(prefix) :]!r}", node.path
                    )
        taken = {*listed["arrays"], *listed["groups"]}
        for path in self.children.get(node.path, ()):
            if path not in taken:
                listed["arrays" if self.hierarchy.is_array(path) else "groups"].append(path)
        return listed["arrays"], listed["groups"]

    def true_name(self, path: str, key: str) -> str:
        node_name = path.rpartition("/")[2]
        try:
            recorded = nczarr_keys(self.hierarchy.nodes[path]).get(key, {}).get("name")
        except MetadataError as error:
            error.path = error.path or self.place(path)
            raise
        name = unescape_name(node_name) or node_name if recorded is None else recorded
        wrong = check_name(name) if isinstance(name, str) else f"{show(name)} is not text"
        if wrong:
            raise self.wrong(f"attributes.{key}.name: {wrong}", path)
        return str(name)

    def group(self, node: _Node) -> Group:
        variables: dict[str, Variable] = {}
        for path in node.arrays:
            name = self.true_name(path, ARRAY_KEY)
            if name in variables:
                raise self.wrong(f"two arrays are named {name!r}", path, node.fqn)
            variables[name] = self.variable(node, path, name)
        attributes = self.attributes(node.metadata, node.keys, node.path, node.fqn)
        groups = tuple(self.group(child) for child in node.groups)
        return Group(
            node.name,
            attributes=attributes,
            types=(*self.group_types[node.fqn], *self.plain.types(node.fqn)),
            dimensions=(*node.dimensions, *self.plain.dimensions(node.fqn)),
            variables=tuple(variables.values()),
            groups=groups,
        )

    def attributes(
        self,
        metadata: ArrayMetadata | GroupMetadata,
        keys: dict[str, Any],
        path: str,
        fqn: str,
        array: Any = None,
    ) -> Any:
        reserved = self.reserved if fqn == "/" else RESERVED
        try:
            return decode_attributes(
                metadata.attributes, keys.get(ATTR_KEY), self.types, array=array, reserved=reserved
            )
        except MetadataError as error:
            error.path, error.fqn = self.place(path), fqn
            raise

    # -- variables

    def variable(self, node: _Node, path: str, name: str) -> Variable:
        fqn = join_fqn(node.fqn, name)
        metadata = self.hierarchy.nodes[path]
        assert isinstance(metadata, ArrayMetadata)
        keys = nczarr_keys(metadata)
        info = keys.get(ARRAY_KEY)
        try:
            type_ = self.declared_type(metadata, info or {})
            if type_ is None:
                # Somebody else added an array that netCDF has no type for.
                variable, self.variables[fqn] = self.plain.variable(node.fqn, path, name, metadata)
                return variable
            encoding = encoding_for_reading(type_, metadata.data_type)
            ndim = metadata.ndim - len(encoding.inner_shape)
            if ndim < 0 or metadata.shape[ndim:] != encoding.inner_shape:
                raise MetadataError(
                    f"shape: {list(metadata.shape)} does not end with {list(encoding.inner_shape)}, "
                    f"as values of {type_.name!r} have to"
                )
            if info is None or "dimension_references" not in info:
                references = self.plain.references(node.fqn, name, metadata, metadata.shape[:ndim])
            else:
                references = self.references(info["dimension_references"], metadata.shape[:ndim])
            storage = _storage(info or {}, metadata, ndim)
        except MetadataError as error:
            error.path, error.fqn = error.path or self.place(path), error.fqn or fqn
            raise
        attributes = self.attributes(metadata, keys, path, fqn, array=type_)
        self.variables[fqn] = Binding(path, encoding)
        return Variable(name, type_, references, attributes=attributes, storage=storage)

    def declared_type(self, metadata: ArrayMetadata, info: dict[str, Any]) -> Type | None:
        if "type" in info:
            try:
                return find_type(info["type"], self.types)
            except MetadataError as error:
                error.message = f"attributes.{ARRAY_KEY}.type: {error.message}"
                raise
        return self.plain.simple_type(metadata.data_type)

    def references(self, items: Any, shape: tuple[int, ...]) -> tuple[DimensionRef, ...]:
        key = f"attributes.{ARRAY_KEY}.dimension_references"
        if not isinstance(items, list) or len(items) != len(shape):
            raise MetadataError(
                f"{key}: {show(items)} is not a list of {len(shape)} dimensions",
                hint="if another tool copied or cut this array, remove its _nczarr_ attributes",
            )
        for item, length in zip(items, shape, strict=True):
            if type(item) is int and item >= 0:
                size, unlimited = item, False
            else:
                dimension = self.dimensions.get(item) if isinstance(item, str) else None
                if dimension is None:
                    raise MetadataError(f"{key}: there is no dimension {show(item)}")
                size, unlimited = dimension.size, dimension.unlimited
            # An append that was cut short leaves arrays longer than the size that is recorded last.
            if size != length and not (unlimited and length > size):
                raise MetadataError(
                    f"shape: {length} along {show(item)}, which has the size {size}",
                    hint="if another tool copied or cut this array, remove its _nczarr_ attributes",
                )
        return tuple(items)


def _walk(node: _Node) -> Any:
    yield node
    for child in node.groups:
        yield from _walk(child)


def _storage(info: dict[str, Any], metadata: ArrayMetadata, ndim: int) -> Storage:
    """The storage hints of a variable."""

    def wrong(key: str, what: str) -> MetadataError:
        return MetadataError(f"attributes.{ARRAY_KEY}.{key}: {show(info[key])} is not {what}")

    layout = info.get("storage")
    if layout not in (None, "contiguous", "chunked", "compact"):
        raise wrong("storage", "contiguous, chunked or compact")
    endian = info.get("endian", "native")
    if endian not in ("native", "little", "big"):
        raise wrong("endian", "little, big or native")
    no_fill = info.get("no_fill", False)
    if not isinstance(no_fill, bool):
        raise wrong("no_fill", "true or false")
    chunks: tuple[int, ...] | None = None
    if "chunk_shape" in info:
        value = info["chunk_shape"]
        if value is not None:
            if (
                not isinstance(value, list)
                or len(value) != ndim
                or any(type(n) is not int or n < 1 for n in value)
            ):
                raise wrong("chunk_shape", f"a list of {ndim} lengths")
            chunks = tuple(value)
    elif layout == "chunked":
        chunks = tuple(metadata.chunk_shape[:ndim])
    filters = info.get("filters", [])
    if not isinstance(filters, list):
        raise wrong("filters", "a list")
    return Storage(layout, chunks, tuple(_filter(f) for f in filters), endian, no_fill)


def _filter(value: Any) -> Filter:
    number = value.get("id") if isinstance(value, dict) else None
    parameters = value.get("parameters", []) if isinstance(value, dict) else None
    if (
        type(number) is not int
        or not isinstance(parameters, list)
        or any(type(p) is not int or not 0 <= p < 2**32 for p in parameters)
    ):
        raise MetadataError(f"attributes.{ARRAY_KEY}.filters: {show(value)} is not a filter")
    return Filter(number, tuple(parameters))
