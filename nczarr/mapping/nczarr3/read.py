"""Read NCZarr on Zarr v3: from documents to the model (``docs/spec/nczarr-v3.md``).

Other programs change stores and know nothing of NCZarr. What can be understood is read, and what was found is
told (*Recovery* there); the data of an array are an error only where no reading is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nczarr.errors import MetadataError, error_context
from nczarr.mapping.dialect import Binding, Part, Reading, left_out_nodes
from nczarr.mapping.findings import Findings
from nczarr.mapping.nczarr3.groups import (
    ArrayNode,
    DimensionFinder,
    GroupFinder,
    GroupNode,
    group_of,
    is_reference,
)
from nczarr.mapping.nczarr3.identity import Home, find_home
from nczarr.mapping.nczarr3.keys import ARRAY_KEY, SUPERBLOCK_KEY, is_known_version
from nczarr.mapping.plain.arrays import PlainArrays
from nczarr.mapping.values.attributes import ATTR_KEY, RESERVED, Known, decode_attributes
from nczarr.mapping.values.encodings import Encoding, encoding_for_reading
from nczarr.mapping.values.json import show
from nczarr.mapping.values.types import TypeBinder, declarations
from nczarr.model import (
    Attribute,
    Dataset,
    DimensionRef,
    Filter,
    Group,
    Storage,
    Type,
    UserType,
    Variable,
    join_fqn,
    split_fqn,
)
from nczarr.model.nodes import dataset_of
from nczarr.zarr import ArrayMetadata, Hierarchy


def is_nczarr_v3(hierarchy: Hierarchy) -> bool:
    """True if the root of a hierarchy (v3, or a draft) has NCZarr's keys of version 3, or its arrays say so.

    Raises
    ------
    UnsupportedError
        If the keys are those of netCDF-C's draft for Zarr v3.
    """
    return find_home(hierarchy, hierarchy.unknown_nodes()) is not None


def read_nczarr_v3(hierarchy: Hierarchy, name: str) -> Reading:
    """Read the model; see :meth:`nczarr.mapping.dialect.Dialect.read`."""
    reader = _Reader(hierarchy)
    dataset = reader.read(name)
    return Reading(
        dataset,
        reader.variables,
        reader.group_paths,
        left_out_nodes(reader.unknown),
        findings=tuple(reader.findings.items),
        guessed=frozenset(reader.dimensions.guessed.values()) | reader.dimensions_of_foreign(dataset),
        identity=reader.home.dataset,
        foreign=frozenset(reader.foreign),
        part=Part(reader.home.fqn or "") if reader.home.is_part else None,
    )


@dataclass(slots=True)
class _Held:
    """How the values of an array are held: the type, how, and the dimensions it refers to; None: by labels."""

    type: Type
    encoding: Encoding
    references: list[Any] | None


class _Reader:
    def __init__(self, hierarchy: Hierarchy) -> None:
        self.hierarchy = hierarchy
        self.findings = Findings()
        self.variables: dict[str, Binding] = {}
        self.group_paths: dict[str, str] = {}
        self.binder = TypeBinder()
        self.types: dict[str, UserType] = {}
        self.group_types: dict[str, list[UserType]] = {}
        self.reserved = RESERVED
        self.plain = PlainArrays(hierarchy)
        self.held: dict[str, _Held | None] = {}
        self.known: Known = {}
        self.unknown: dict[str, str] = {}
        self.home = Home(None)
        self.foreign: set[str] = set()

    def place(self, path: str) -> str:
        return self.hierarchy.store.place(f"{path}/zarr.json" if path else "zarr.json")

    def read(self, name: str) -> Dataset:
        finder = GroupFinder(self.hierarchy, self.findings)
        root, self.unknown = finder.find(), finder.unknown
        self.home, self.foreign = finder.home, finder.foreign
        superblock = self.superblock(root)
        groups = list(root.walk())
        self.group_paths = {node.fqn: node.path for node in groups}
        self.declare_types(groups)
        self.dimensions = DimensionFinder(root, self.findings)
        for node in groups:
            for array in node.arrays:
                self.look_at(array)
        sizes = self.dimensions.settle()
        final = {array.path: self.final_references(array) for node in groups for array in node.arrays}
        for node in groups:
            self.plain.begin_group(node.fqn, [t.name for t in self.group_types[node.fqn]], sizes)
        body = self.group(root, final)
        return dataset_of(body, name, superblock.get("format"))

    def dimensions_of_foreign(self, dataset: Dataset) -> frozenset[str]:
        """The dimensions that were made up for arrays of another dataset, and that no array of this one has."""
        if not self.foreign:
            return frozenset()
        made = {join_fqn(g, d.name) for g in self.group_paths for d in self.plain.dimensions(g)}
        for fqn, variable in dataset.all_variables.items():
            if self.variables[fqn].path not in self.foreign:
                made -= {r for r in variable.dimensions if isinstance(r, str)}
        return frozenset(made)

    def superblock(self, root: GroupNode) -> dict[str, Any]:
        superblock: dict[str, Any] = dict(root.keys.get(SUPERBLOCK_KEY, {}))
        version = superblock.get("version")
        if version is None:
            if root.source != "none":
                self.findings.add(
                    "version-missing", "/", f"{SUPERBLOCK_KEY}.version is missing", "note", "write it"
                )
        elif not is_known_version(version):
            raise MetadataError(
                f"attributes.{SUPERBLOCK_KEY}.version: {show(version)} is not a version 3 that nczarr knows",
                path=self.place(""),
            )
        if not isinstance(superblock.get("format", ""), str):
            what = f"{SUPERBLOCK_KEY}.format: {show(superblock.pop('format'))} is not text"
            self.findings.add("record-damaged", "/", what, "warning", "remove it")
        if superblock.get("nzug"):
            self.reserved = RESERVED | {"conventions"}
        return superblock

    # -- types

    def declare_types(self, groups: list[GroupNode]) -> None:
        """Bind the types that the groups declare, and those that only arrays know any more."""
        homes: dict[str, list[str]] = {node.fqn: [] for node in groups}
        unlisted: dict[str, str] = {}
        for node in groups:
            for name, declaration in self.declared(node.info.get("types", []), node.fqn).items():
                self.declare(homes, node.fqn, name, declaration)
        known = {node.fqn: node for node in groups}
        for node in groups:
            for array in node.arrays:
                if "types" in array.info:
                    self.declare_from_array(homes, unlisted, node, array, known)
        for group, fqns in homes.items():
            self.group_types[group] = self.bound(fqns)
        for fqn in self.binder.declared.keys() - self.types.keys():
            del self.binder.declared[fqn]
        for fqn, array_fqn in unlisted.items():
            if fqn in self.types:  # what is damaged cannot be declared
                home, name = split_fqn(fqn)
                what = f"the type {name!r} is used by {array_fqn} and not declared"
                self.findings.add("type-unlisted", home, what, "note", "declare it")
        for fqn, reference in self.binder.moved.items():
            self.moved(fqn, f"the type {reference}")

    def bound(self, fqns: list[str]) -> list[UserType]:
        """The declared types; what is damaged is left out."""
        found = []
        for fqn in fqns:
            try:
                self.types[fqn] = self.binder.bind(fqn)
            except MetadataError as error:
                self.damaged_type(fqn, error)
                continue
            found.append(self.types[fqn])
        return found

    def declared(self, listed: Any, where: str) -> dict[str, Any]:
        """The declarations of a group; what has no name of its own is left out."""
        try:
            return declarations(listed)
        except MetadataError as error:
            what = f"{error.message}; it is left out"
            self.findings.add("record-damaged", where, what, "warning", "write what was understood")
        found: dict[str, Any] = {}
        for item in listed if isinstance(listed, list) else ():
            try:
                found = {**declarations([item]), **found}
            except MetadataError:
                continue
        return found

    def declare(self, homes: dict[str, list[str]], group: str, name: str, declaration: Any) -> None:
        try:
            homes[group].append(self.binder.declare(group, name, declaration))
        except MetadataError as error:
            self.damaged_type(group, error)

    def declare_from_array(
        self,
        homes: dict[str, list[str]],
        unlisted: dict[str, str],
        node: GroupNode,
        array: ArrayNode,
        groups: dict[str, GroupNode],
    ) -> None:
        """Take over types that no group declares any more from an array that needs them."""
        try:
            found = declarations(array.info["types"])
        except MetadataError as error:
            self.findings.add("key-unreadable", array.fqn, error.message, "error")
            return
        for fqn, declaration in found.items():
            if not is_reference(fqn):
                self.findings.add("key-unreadable", array.fqn, f"types: {show(fqn)} is not an FQN", "error")
                continue
            home, name = split_fqn(fqn)
            if self.binder.resolve(fqn, node.fqn) is not None and (
                fqn in self.binder.declared or home not in groups
            ):
                continue
            if home in groups:
                if groups[home].source != "none":
                    unlisted.setdefault(fqn, array.fqn)
                self.declare(homes, home, name, declaration)
            elif join_fqn(node.fqn, name) not in self.binder.declared:
                self.declare(homes, node.fqn, name, declaration)

    def damaged_type(self, where: str, error: MetadataError) -> None:
        self.findings.add("type-damaged", error.fqn or where, f"{error.message}; it is left out", "error")

    def moved(self, where: str, what: str) -> None:
        self.findings.add(
            "reference-moved",
            where,
            f"{what} is gone, as its group was renamed or deleted; the nearest of that name is taken",
            "warning",
            "rewrite the reference",
        )

    def find_type(self, name: Any, fqn: str) -> Type:
        found = (
            self.types.get(name) or self.binder.find(name, group_of(fqn)) if isinstance(name, str) else None
        )
        if found is None:
            raise MetadataError(f"there is no type {show(name)}")
        if isinstance(found, UserType) and found.fqn != name:
            self.moved(fqn, f"the type {name}")
        return found

    # -- arrays: how they are held

    def look_at(self, array: ArrayNode) -> None:
        """Find the type of an array, and bind its references; what does not fit makes it plain Zarr."""
        self.held[array.path] = held = self.holding(array)
        if held is None or held.references is None:
            return
        for i, (item, length) in enumerate(zip(held.references, array.metadata.shape, strict=False)):
            if isinstance(item, str):
                held.references[i] = self.dimensions.bind(array, item, length)
            elif item != length:
                what = f"the anonymous dimension of {item} has {length} elements"
                self.findings.add("size-stale", array.fqn, what, "note", "update the record")
                held.references[i] = length

    def holding(self, array: ArrayNode) -> _Held | None:
        info, metadata = array.info, array.metadata
        type_ = simple = self.plain.simple_type(metadata.data_type)
        if "type" in info:
            try:
                type_ = self.find_type(info["type"], array.fqn)
            except MetadataError as error:
                what = f"{error.message}; values are read by their data type"
                self.findings.add("type-missing", array.fqn, what, "error")
        if type_ is None:
            return None  # netCDF has no type for what another program added
        try:
            encoding = encoding_for_reading(type_, metadata.data_type)
            ndim = metadata.ndim - len(encoding.inner_shape)
            if ndim < 0 or metadata.shape[ndim:] != encoding.inner_shape:
                raise MetadataError(
                    f"the shape {list(metadata.shape)} does not end with {list(encoding.inner_shape)}, "
                    f"as values of {type_.name!r} have to"
                )
        except MetadataError as error:
            what = f"{error.message}; values are read by their data type"
            self.findings.add("type-mismatch", array.fqn, what, "error")
            if simple is None:
                return None
            type_, ndim = simple, metadata.ndim
            encoding = encoding_for_reading(simple, metadata.data_type)
        return _Held(type_, encoding, self.references(array, ndim))

    def references(self, array: ArrayNode, ndim: int) -> list[Any] | None:
        if "dimension_references" not in array.info:
            if array.keys and ndim:
                what = f"{ARRAY_KEY}.dimension_references is missing; the labels are taken"
                self.findings.add("references-missing", array.fqn, what, "warning", "write them")
            return None
        items = array.info["dimension_references"]
        if not isinstance(items, list) or not all(map(is_reference, items)):
            what = f"{ARRAY_KEY}.dimension_references: {show(items)} is not a list of dimensions"
            self.findings.add("key-unreadable", array.fqn, f"{what}; the labels are taken", "error")
            return None
        if len(items) != ndim:
            what = f"{len(items)} dimension references for {ndim} dimensions; the labels are taken"
            self.findings.add("rank-mismatch", array.fqn, what, "error")
            return None
        return list(items)

    def final_references(self, array: ArrayNode) -> tuple[DimensionRef, ...] | None:
        held = self.held[array.path]
        if held is None or held.references is None:
            return None
        return tuple(
            self.dimensions.reference(array, item, length) if isinstance(item, str) else item
            for item, length in zip(held.references, array.metadata.shape, strict=False)
        )

    # -- the model

    def group(self, node: GroupNode, final: dict[str, tuple[DimensionRef, ...] | None]) -> Group:
        variables = tuple(self.variable(node, array, final[array.path]) for array in node.arrays)
        reserved = self.reserved if node.fqn == "/" else RESERVED
        with error_context(self.place(node.path), fqn=node.fqn):
            attributes = self.attributes(
                node.metadata.attributes, node.keys, node.fqn, node.fqn, None, reserved
            )
        groups = tuple(self.group(child, final) for child in node.groups)
        dimensions = tuple(self.dimensions.sizes[join_fqn(node.fqn, d.name)] for d in node.dimensions)
        return Group(
            node.name,
            attributes=attributes,
            types=(*self.group_types[node.fqn], *self.plain.types(node.fqn)),
            dimensions=(*dimensions, *self.plain.dimensions(node.fqn)),
            variables=variables,
            groups=groups,
        )

    def attributes(
        self,
        plain: dict[str, Any],
        keys: dict[str, Any],
        group: str,
        where: str,
        array: Type | None,
        reserved: frozenset[str] = RESERVED,
    ) -> tuple[Attribute, ...]:
        def stale(name: str, why: str) -> None:
            what = f"attribute {name!r}: {why}" if name else why
            self.findings.add(
                "annotation-stale", where, f"{what}; the annotation is ignored", "note", "drop the annotation"
            )

        info = keys.get(ATTR_KEY)
        return decode_attributes(
            plain,
            info,
            self.types if info is None else self.types_for(info, group, where),
            array=array,
            reserved=reserved,
            stale=stale,
            known=self.known,
        )

    def types_for(self, info: Any, group: str, where: str) -> Mapping[str, UserType]:
        """The types that annotations may name, those of groups that were renamed or deleted by their old names."""
        named = info.get("types") if isinstance(info, dict) else None
        moved = {}
        for name in named.values() if isinstance(named, dict) else ():
            if not isinstance(name, str) or not name.startswith("/") or name in self.types:
                continue
            if fqn := self.binder.resolve(name, group):
                moved[name] = self.types[fqn]
                self.moved(where, f"the type {name}")
        return {**self.types, **moved} if moved else self.types

    def variable(
        self, node: GroupNode, array: ArrayNode, references: tuple[DimensionRef, ...] | None
    ) -> Variable:
        held, metadata = self.held[array.path], array.metadata
        if held is None:
            with error_context(self.place(array.path), fqn=array.fqn):
                variable, self.variables[array.fqn] = self.plain.variable(
                    node.fqn, array.path, array.name, metadata
                )
            return variable
        ndim = metadata.ndim - len(held.encoding.inner_shape)
        if references is None:
            references = self.plain.references(node.fqn, array.name, metadata, metadata.shape[:ndim])
        with error_context(self.place(array.path), fqn=array.fqn):
            attributes = self.attributes(metadata.attributes, array.keys, node.fqn, array.fqn, held.type)
        try:
            storage = read_storage(array.info, metadata, ndim)
        except MetadataError as error:
            what = f"{error.message}; what is said of storage is ignored"
            self.findings.add("storage-damaged", array.fqn, what, "warning", "drop it")
            storage = Storage()
        self.variables[array.fqn] = Binding(array.path, held.encoding)
        return Variable(array.name, held.type, references, attributes=attributes, storage=storage)


def read_storage(info: dict[str, Any], metadata: ArrayMetadata, ndim: int) -> Storage:
    """Return the storage hints of a variable.

    Raises
    ------
    MetadataError
        If one of them is damaged.
    """

    def wrong(key: str, what: str) -> MetadataError:
        return MetadataError(f"{ARRAY_KEY}.{key}: {show(info[key])} is not {what}")

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
        raise MetadataError(f"{ARRAY_KEY}.filters: {show(value)} is not a filter")
    return Filter(number, tuple(parameters))
