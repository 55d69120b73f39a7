"""Read NCZarr on Zarr v3: from documents to the model (``docs/spec/nczarr-v3.md``).

Other programs change stores without knowledge of NCZarr. Everything understandable is read, and deviations are
reported as findings (``nczarr-v3-recovery.md``, *Recovery*); an array is an error only if no interpretation is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nczarr import model
from nczarr.errors import MetadataError, error_context
from nczarr.mapping.dialect import Binding, Part, Reading, left_out_nodes
from nczarr.mapping.findings import Findings
from nczarr.mapping.nczarr3 import keys
from nczarr.mapping.nczarr3.groups import ArrayNode, DimensionFinder, GroupFinder, GroupNode
from nczarr.mapping.nczarr3.keys import ARRAY_KEY, SUPERBLOCK_KEY, is_reference
from nczarr.mapping.plain.read import PlainArrays
from nczarr.mapping.values.attributes import ATTR_KEY, RESERVED, AttributeCache, decode_attributes
from nczarr.mapping.values.declarations import TypeBinder, declarations
from nczarr.mapping.values.encodings import Encoding, encoding_for_reading, simple_type
from nczarr.mapping.values.scalars import JSONObject, member, show
from nczarr.model import Dataset, DimensionRef, Type, UserType, join_fqn, split_fqn
from nczarr.model.nodes import dataset_of
from nczarr.zarr import ArrayMetadata, Hierarchy


def is_nczarr_v3(hierarchy: Hierarchy) -> bool:
    """Return whether the root of a hierarchy (v3, or a draft), or its arrays, have NCZarr's keys of version 3.

    Raises
    ------
    UnsupportedError
        The keys are those of netCDF-C's draft for Zarr v3.
    """
    return keys.find_home(hierarchy, hierarchy.unknown_nodes()) is not None


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
class _Form:
    """The type of an array, its encoding, and its dimension references; None: the labels define the dimensions."""

    type: Type
    encoding: Encoding
    references: list[DimensionRef] | None


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
        #: By path; None for an array that is read as plain Zarr.
        self.forms: dict[str, _Form | None] = {}
        self.known: AttributeCache = {}
        self.unknown: dict[str, str] = {}
        self.home = keys.Home(None)
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
                self.bind_array(array)
        sizes = self.dimensions.settle()
        final = {array.path: self.final_references(array) for node in groups for array in node.arrays}
        self.plain.begin(self.group_types, sizes)
        body = self.group(root, final)
        return dataset_of(body, name, superblock.get("format"))

    def dimensions_of_foreign(self, dataset: Dataset) -> frozenset[str]:
        """Return the dimensions that only arrays of another dataset use."""
        if not self.foreign:
            return frozenset()
        added = {join_fqn(g, d.name) for g in self.group_paths for d in self.plain.dimensions(g)}
        for fqn, variable in dataset.all_variables.items():
            if self.variables[fqn].path not in self.foreign:
                added -= {r for r in variable.dimensions if isinstance(r, str)}
        return frozenset(added)

    def superblock(self, root: GroupNode) -> JSONObject:
        superblock = dict(member(root.keys, SUPERBLOCK_KEY))
        version = superblock.get("version")
        if version is None:
            if root.source != "none":
                self.findings.add("version-missing", "/", f"{SUPERBLOCK_KEY}.version is missing")
        elif not keys.is_known_version(version):
            raise MetadataError(
                f"attributes.{SUPERBLOCK_KEY}.version: {show(version)} is not a version 3 that nczarr supports",
                path=self.place(""),
            )
        if not isinstance(superblock.get("format", ""), str):
            what = f"{SUPERBLOCK_KEY}.format: {show(superblock.pop('format'))} is not text"
            self.findings.add("record-damaged", "/", what)
        if superblock.get("nzug") is True:
            self.reserved = RESERVED | {"conventions"}
        return superblock

    # -- types

    def declare_types(self, groups: list[GroupNode]) -> None:
        """Bind the types that groups declare, and those that only arrays declare."""
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
            if fqn in self.types:  # damaged types cannot be declared
                home, name = split_fqn(fqn)
                what = f"the type {name!r} is used by {array_fqn} but not declared"
                self.findings.add("type-unlisted", home, what)
        for fqn, reference in self.binder.moved.items():
            self.add_moved(fqn, reference)

    def bound(self, fqns: list[str]) -> list[UserType]:
        """Return the declared types without damaged types."""
        found = []
        for fqn in fqns:
            try:
                self.types[fqn] = self.binder.bind(fqn)
            except MetadataError as error:
                self.add_damaged(fqn, error)
                continue
            found.append(self.types[fqn])
        return found

    def declared(self, listed: object, where: str) -> JSONObject:
        """Return the declarations of a group without those that have no valid name."""
        try:
            return declarations(listed)
        except MetadataError as error:
            self.findings.add("record-damaged", where, f"{error.message}; it is left out")
        found: JSONObject = {}
        for item in listed if isinstance(listed, list) else ():
            try:
                found = {**declarations([item]), **found}
            except MetadataError:
                continue
        return found

    def declare(self, homes: dict[str, list[str]], group: str, name: str, declaration: object) -> None:
        try:
            homes[group].append(self.binder.declare(group, name, declaration))
        except MetadataError as error:
            self.add_damaged(group, error)

    def declare_from_array(
        self,
        homes: dict[str, list[str]],
        unlisted: dict[str, str],
        node: GroupNode,
        array: ArrayNode,
        groups: dict[str, GroupNode],
    ) -> None:
        """Declare the types of an array that no group declares any more."""
        try:
            found = declarations(array.info["types"])
        except MetadataError as error:
            self.findings.add("key-unreadable", array.fqn, error.message)
            return
        for fqn, declaration in found.items():
            if not is_reference(fqn):
                self.findings.add("key-unreadable", array.fqn, f"types: {show(fqn)} is not an FQN")
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

    def add_damaged(self, where: str, error: MetadataError) -> None:
        self.findings.add("type-damaged", error.fqn or where, f"{error.message}; it is left out")

    def add_moved(self, where: str, name: str) -> None:
        what = f"the type {name} is missing: its group was renamed or deleted; the nearest of that name replaces it"
        self.findings.add("reference-moved", where, what)

    def find_type(self, name: object, fqn: str) -> Type:
        if not isinstance(name, str):
            raise MetadataError(f"there is no type {show(name)}")
        found = self.types.get(name) or self.binder.find(name, split_fqn(fqn)[0])
        if isinstance(found, UserType) and found.fqn != name:
            self.add_moved(fqn, name)
        return found

    # -- arrays

    def bind_array(self, array: ArrayNode) -> None:
        """Find the form of an array, and bind its references."""
        self.forms[array.path] = form = self.form_of(array)
        if form is None or form.references is None:
            return
        for i, (item, length) in enumerate(zip(form.references, array.metadata.shape, strict=False)):
            if isinstance(item, str):
                form.references[i] = self.dimensions.bind(array, item, length)
            elif item != length:
                what = f"the anonymous dimension of {item} has {length} elements"
                self.findings.add("size-stale", array.fqn, what)
                form.references[i] = length

    def form_of(self, array: ArrayNode) -> _Form | None:
        info, metadata = array.info, array.metadata
        type_ = simple = simple_type(metadata.data_type)
        if "type" in info:
            try:
                type_ = self.find_type(info["type"], array.fqn)
            except MetadataError as error:
                what = f"{error.message}; the data type determines the values"
                self.findings.add("type-missing", array.fqn, what)
        if type_ is None:
            return None  # netCDF has no type for an array that another program added
        try:
            encoding = encoding_for_reading(type_, metadata.data_type)
            ndim = metadata.ndim - len(encoding.inner_shape)
            if ndim < 0 or metadata.shape[ndim:] != encoding.inner_shape:
                raise MetadataError(
                    f"the shape {list(metadata.shape)} does not end with {list(encoding.inner_shape)}, "
                    f"as values of {type_.name!r} require"
                )
        except MetadataError as error:
            what = f"{error.message}; the data type determines the values"
            self.findings.add("type-mismatch", array.fqn, what)
            if simple is None:
                return None
            type_, ndim = simple, metadata.ndim
            encoding = encoding_for_reading(simple, metadata.data_type)
        return _Form(type_, encoding, self.references(array, ndim))

    def references(self, array: ArrayNode, ndim: int) -> list[DimensionRef] | None:
        if "dimension_references" not in array.info:
            if array.keys and ndim:
                what = f"{ARRAY_KEY}.dimension_references is missing; the labels replace them"
                self.findings.add("references-missing", array.fqn, what)
            return None
        items = array.info["dimension_references"]
        if not isinstance(items, list) or not all(map(is_reference, items)):
            what = f"{ARRAY_KEY}.dimension_references: {show(items)} is not a list of dimensions"
            self.findings.add("key-unreadable", array.fqn, f"{what}; the labels replace it")
            return None
        if len(items) != ndim:
            what = f"{len(items)} dimension references for {ndim} dimensions; the labels replace them"
            self.findings.add("rank-mismatch", array.fqn, what)
            return None
        return list(items)

    def final_references(self, array: ArrayNode) -> tuple[DimensionRef, ...] | None:
        form = self.forms[array.path]
        if form is None or form.references is None:
            return None
        return tuple(
            self.dimensions.reference(array, item, length) if isinstance(item, str) else item
            for item, length in zip(form.references, array.metadata.shape, strict=False)
        )

    # -- the model

    def group(self, node: GroupNode, final: dict[str, tuple[DimensionRef, ...] | None]) -> model.Group:
        variables = tuple(self.variable(node, array, final[array.path]) for array in node.arrays)
        reserved = self.reserved if node.fqn == "/" else RESERVED
        with error_context(self.place(node.path), fqn=node.fqn):
            attributes = self.attributes(node, node, None, reserved)
        groups = tuple(self.group(child, final) for child in node.groups)
        dimensions = tuple(self.dimensions.sizes[join_fqn(node.fqn, d.name)] for d in node.dimensions)
        return model.Group(
            node.name,
            attributes=attributes,
            types=(*self.group_types[node.fqn], *self.plain.types(node.fqn)),
            dimensions=(*dimensions, *self.plain.dimensions(node.fqn)),
            variables=variables,
            groups=groups,
        )

    def attributes(
        self, group: GroupNode, owner: GroupNode | ArrayNode, array: Type | None, reserved: frozenset[str]
    ) -> tuple[model.Attribute, ...]:
        def stale(name: str, why: str) -> None:
            what = f"attribute {name!r}: {why}" if name else why
            self.findings.add("annotation-stale", owner.fqn, f"{what}; the annotation is ignored")

        info = owner.keys.get(ATTR_KEY)
        types = self.types if info is None else self.types_for(info, group.fqn, owner.fqn)
        return decode_attributes(
            owner.metadata.attributes,
            info,
            types,
            array=array,
            reserved=reserved,
            stale=stale,
            known=self.known,
        )

    def types_for(self, info: object, group: str, where: str) -> Mapping[str, UserType]:
        """Return the types that annotations may name, including types of renamed or deleted groups by old names."""
        moved = {}
        for name in member(info, "types").values():
            if not isinstance(name, str) or not name.startswith("/") or name in self.types:
                continue
            if fqn := self.binder.resolve(name, group):
                moved[name] = self.types[fqn]
                self.add_moved(where, name)
        return {**self.types, **moved} if moved else self.types

    def variable(
        self, node: GroupNode, array: ArrayNode, references: tuple[DimensionRef, ...] | None
    ) -> model.Variable:
        form, metadata = self.forms[array.path], array.metadata
        with error_context(self.place(array.path), fqn=array.fqn):
            if form is None:
                found = self.plain.variable(node.fqn, array.path, array.name, metadata)
                variable, self.variables[array.fqn] = found
                return variable
            ndim = metadata.ndim - len(form.encoding.inner_shape)
            if references is None:
                references = self.plain.references(node.fqn, metadata, metadata.shape[:ndim])
            attributes = self.attributes(node, array, form.type, RESERVED)
        try:
            storage = read_storage(array.info, metadata, ndim)
        except MetadataError as error:
            what = f"{error.message}; the storage hints are ignored"
            self.findings.add("storage-damaged", array.fqn, what)
            storage = read_storage({}, metadata, ndim)
        self.variables[array.fqn] = Binding(array.path, form.encoding)
        return model.Variable(array.name, form.type, references, attributes=attributes, storage=storage)


def read_storage(info: JSONObject, metadata: ArrayMetadata, ndim: int) -> model.Storage:
    """Return the storage hints of a variable; raise MetadataError for a damaged one."""

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
    stored, shards = metadata.shapes
    value = info.get("chunk_shape")
    if value is not None:
        valid = isinstance(value, list) and len(value) == ndim
        if not valid or any(type(n) is not int or n < 1 for n in value):
            raise wrong("chunk_shape", f"a list of {ndim} lengths")
        chunks = tuple(value)
    elif layout == "chunked" and "chunk_shape" not in info:
        chunks = stored[:ndim]
    filters = info.get("filters", [])
    if not isinstance(filters, list):
        raise wrong("filters", "a list")
    shards = shards and shards[:ndim]
    return model.Storage(layout, chunks, tuple(_filter(f) for f in filters), endian, no_fill, shards)


def _filter(value: object) -> model.Filter:
    number = value.get("id") if isinstance(value, dict) else None
    parameters = value.get("parameters", []) if isinstance(value, dict) else None
    if (
        type(number) is not int
        or not isinstance(parameters, list)
        or any(type(p) is not int or not 0 <= p < 2**32 for p in parameters)
    ):
        raise MetadataError(f"{ARRAY_KEY}.filters: {show(value)} is not a filter")
    return model.Filter(number, tuple(parameters))
