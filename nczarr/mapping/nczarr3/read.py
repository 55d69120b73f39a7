"""Read NCZarr on Zarr v3: from documents to the model (``docs/spec/nczarr-v3.md``).

Other programs change stores without knowledge of NCZarr. Everything understandable is read, and deviations are
reported as findings (``nczarr-v3-recovery.md``, *Recovery*); an array is an error only if no interpretation is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from typing import Any

from nczarr import model
from nczarr.dataclass import dataclass
from nczarr.errors import MetadataError, error_context
from nczarr.json_values import JsonObject, as_list, as_object, as_text, member, only_integers, show
from nczarr.mapping.dialect import Binding, OpenedGroup, Reading, left_out_nodes
from nczarr.mapping.findings import Findings
from nczarr.mapping.nczarr3 import keys
from nczarr.mapping.nczarr3.groups import ArrayNode, DimensionFinder, GroupFinder, RecordedGroup
from nczarr.mapping.nczarr3.keys import ARRAY_KEY, SUPERBLOCK_KEY, is_reference
from nczarr.mapping.plain.read import PlainArrays, describe
from nczarr.mapping.values.arrays import array_storage
from nczarr.mapping.values.attributes import ATTR_KEY, RESERVED, AttributeCache, decode_attributes
from nczarr.mapping.values.declarations import TypeBinder, declarations
from nczarr.mapping.values.encodings import Encoding, encoding_for_reading, simple_type
from nczarr.model import DimensionRef, Type, UserType, join_fqn, split_fqn
from nczarr.model.nodes import IngestedSource, JoinRecord, KnownSteps, dataset_of
from nczarr.zarr import ArrayMetadata, Hierarchy


def is_nczarr_v3(hierarchy: Hierarchy) -> bool:
    """Return whether the root of a hierarchy (v3, or a draft), or its arrays, have NCZarr's keys of version 3.

    Raises
    ------
    UnsupportedError
        The keys are those of netCDF-C's draft for Zarr v3.
    """
    # Plain Zarr is told without parsing its documents.
    may_be = hierarchy.nodes.may_name(keys.EXTENSION_NAME)
    return may_be and keys.find_home(hierarchy, hierarchy.unknown_nodes()) is not None


def read_nczarr_v3(hierarchy: Hierarchy, name: str) -> Reading:
    """Read the model; see :meth:`nczarr.mapping.dialect.Dialect.read`."""
    return HierarchyReader(hierarchy).read(name)


@dataclass(slots=True)
class ArrayForm:
    """The encoding of an array, and its dimension references; None: the data type, the labels define them."""

    encoding: Encoding | None
    references: list[DimensionRef] | None


class HierarchyReader:
    """Reads a hierarchy; a subclass finds groups, forms, attributes and storage hints elsewhere."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self.hierarchy = hierarchy
        self.findings = Findings()
        self.finder = GroupFinder(hierarchy, self.findings)
        self.variables: dict[str, Binding] = {}
        self.binder = TypeBinder()
        self.group_types: dict[str, list[UserType]] = {}
        self.reserved = RESERVED
        self.is_nz = False
        self.plain = PlainArrays(hierarchy)
        #: By path; None for an array that is read as plain Zarr.
        self.forms: dict[str, ArrayForm | None] = {}
        self.known: AttributeCache = {}
        #: The storage of arrays whose documents are equal but for their attributes, and the objects that they share.
        self.storages: dict[tuple[object, ...], tuple[model.Storage, tuple[object, ...]]] = {}

    def place(self, path: str) -> str:
        return self.hierarchy.store.place(f"{path}/zarr.json" if path else "zarr.json")

    def read(self, name: str) -> Reading:
        finder = self.finder
        root = finder.find()
        superblock = self.superblock(root)
        groups = list(root.walk())
        arrays = [array for node in groups for array in node.arrays]
        self.declare_types(groups)
        self.dimensions = DimensionFinder(root, self.findings)
        for array in arrays:
            self.bind_array(array)
        sizes = self.dimensions.settle()
        for array in arrays:
            self.settle_references(array)
        self.plain.begin(self.group_types, sizes)
        dataset = dataset_of(self.group(root), name, superblock.get("format"))
        dataset = replace(
            dataset,
            sources=self.sources(superblock.get("sources", [])),
            joined=self.joined(superblock.get("joined", {})),
        )
        guessed = set(self.dimensions.guessed.values())
        if finder.foreign:  # the dimensions that only arrays of another dataset use
            added = {join_fqn(node.fqn, d.name) for node in groups for d in self.plain.dimensions(node.fqn)}
            for fqn, variable in dataset.all_variables.items():
                if self.variables[fqn].path not in finder.foreign:
                    added.difference_update(variable.dimensions)
            guessed |= added
        return Reading(
            dataset,
            self.variables,
            {node.fqn: node.path for node in groups},
            left_out_nodes(finder.unknown),
            findings=tuple(self.findings.items),
            guessed=frozenset(guessed),
            identity=finder.home.dataset,
            foreign=frozenset(finder.foreign),
            part=OpenedGroup(finder.home.fqn or "") if finder.home.is_part else None,
            nz=self.is_nz,
            keys_in_attributes=superblock.get(keys.ARRAY_CARRIER) == keys.IN_ATTRIBUTES,
        )

    def superblock(self, root: RecordedGroup) -> JsonObject:
        superblock = dict(member(root.keys, SUPERBLOCK_KEY))
        version = superblock.get("version")
        if version is None:
            if root.source != "none":
                self.findings.add("version-missing", "/", f"{SUPERBLOCK_KEY}.version is missing")
        # A later major version may give known keys another meaning.
        elif not keys.is_known_version(version):
            raise MetadataError(
                f"attributes.{SUPERBLOCK_KEY}.version: {show(version)} is not a version 3 that nczarr supports",
                path=self.place(""),
            )
        if as_text(superblock.get("format")) != superblock.get("format", ""):
            what = f"{SUPERBLOCK_KEY}.format: {show(superblock.pop('format'))} is not text"
            self.findings.add("record-damaged", "/", what)
        # NZUG-1.0, the earlier form of NZ-1.0, declares itself in the root alone.
        self.is_nz = superblock.get("nz") is True
        if self.is_nz or superblock.get("nzug") is True:
            self.reserved = RESERVED | {"conventions"}
        return superblock

    def sources(self, recorded: object) -> tuple[IngestedSource, ...]:
        """Return the recorded sources without damaged entries."""
        kinds: dict[str, type] = {"name": str, "sha256": str, "version": str, "size": int}
        found: list[IngestedSource] = []
        # One object, where one file was copied.
        for entry in recorded if isinstance(recorded, list) else [recorded]:
            own = as_object(entry)
            given = {key: own[key] for key in kinds if key in own}
            steps = only_integers(own.get("steps", []))
            is_right = "name" in given and all(type(value) is kinds[key] for key, value in given.items())
            # Two records of one source would skip or repeat its steps in an append.
            is_right = is_right and given["name"] not in [source.name for source in found]
            if not is_right or steps is None or len(steps) not in (0, 2):
                what = (
                    f"{SUPERBLOCK_KEY}.sources: {show(entry)} is not a source, or its name is that of another"
                )
                self.findings.add("record-damaged", "/", what)
                continue
            found.append(IngestedSource(**given, steps=(steps[0], steps[1]) if steps else None))
        return tuple(found)

    def joined(self, recorded: object) -> JoinRecord:
        """Return the record of the join without damaged parts."""
        own = as_object(recorded)
        coordinates = {}
        names = [each.name for each in fields(KnownSteps)]
        for fqn, entry in as_object(own.get("coordinates", {})).items():
            numbers: dict[str, Any] = {name: as_object(entry).get(name) for name in names}
            # JSON's true is an int for Python.
            if type(numbers["count"]) is int and all(type(n) in (int, float) for n in numbers.values()):
                coordinates[fqn] = KnownSteps(**numbers)
            else:
                what = f"{SUPERBLOCK_KEY}.joined.coordinates: {show(entry)} is not a record of steps"
                self.findings.add("record-damaged", "/", what)
        return JoinRecord(as_object(own.get("options", {})), coordinates)

    # -- types

    def declare_types(self, groups: list[RecordedGroup]) -> None:
        """Bind the types that groups declare, and those that only arrays declare."""
        homes: dict[str, list[str]] = {node.fqn: [] for node in groups}
        unlisted: dict[str, str] = {}
        for node in groups:
            for name, declaration in self.declared(node.info.get("types", []), node.fqn).items():
                self.declare(homes, node.fqn, name, declaration)
        lost = {node.fqn for node in groups if node.source == "none"}
        for node in groups:
            for array in [array for array in node.arrays if "types" in array.info]:
                for fqn, home in self.declare_from_array(homes, node, array):
                    if home not in lost:
                        unlisted.setdefault(fqn, array.fqn)
        for group, fqns in homes.items():
            own: list[UserType] = []
            self.group_types[group] = own
            for fqn in fqns:
                with self.damaged(fqn):
                    own.append(self.binder.bind(fqn))
        # A damaged type is as one that was never declared.
        for fqn in self.binder.declared.keys() - self.binder.bound.keys():
            del self.binder.declared[fqn]
        for fqn, array_fqn in unlisted.items():
            if fqn in self.binder.bound:  # damaged types cannot be declared
                home, name = split_fqn(fqn)
                what = f"the type {name!r} is used by {array_fqn} but not declared"
                self.findings.add("type-unlisted", home, what)
        for fqn, reference in self.binder.moved.items():
            self.add_moved(fqn, reference)

    def declared(self, listed: object, where: str) -> JsonObject:
        """Return the declarations of a group without those that have no valid name."""
        with self.findings.of_errors("record-damaged", where, "; it is left out"):
            return declarations(listed)
        found: JsonObject = {}
        # One declaration without a name does not take the others with it.
        for item in as_list(listed):
            with suppress(MetadataError):
                found = {**declarations([item]), **found}
        return found

    def declare(self, homes: dict[str, list[str]], group: str, name: str, declaration: object) -> None:
        with self.damaged(group):
            homes[group].append(self.binder.declare(group, name, declaration))

    def declare_from_array(
        self, homes: dict[str, list[str]], node: RecordedGroup, array: ArrayNode
    ) -> Iterator[tuple[str, str]]:
        """Declare the types of an array that no group declares any more; yield those of existing groups."""
        found: JsonObject = {}
        with self.findings.of_errors("key-unreadable", array.fqn):
            found = declarations(array.info["types"])
        for fqn, declaration in found.items():
            if not is_reference(fqn):
                self.findings.add("key-unreadable", array.fqn, f"types: {show(fqn)} is not an FQN")
                continue
            home, name = split_fqn(fqn)
            known = fqn in self.binder.declared or home not in homes
            if known and self.binder.resolve(fqn, node.fqn) is not None:
                continue
            if home in homes:
                yield fqn, home
                self.declare(homes, home, name, declaration)
            elif join_fqn(node.fqn, name) not in self.binder.declared:
                self.declare(homes, node.fqn, name, declaration)

    @contextmanager
    def damaged(self, where: str) -> Iterator[None]:
        """Leave out a type whose declaration is damaged."""
        try:
            yield
        except MetadataError as error:
            self.findings.add("type-damaged", error.fqn or where, f"{error.message}; it is left out")

    def add_moved(self, where: str, name: str) -> None:
        what = f"the type {name} is missing: its group was renamed or deleted; the nearest of that name replaces it"
        self.findings.add("reference-moved", where, what)

    def find_type(self, name: object, fqn: str) -> Type:
        if not as_text(name):
            raise MetadataError(f"there is no type {show(name)}")
        found = self.binder.find(as_text(name), split_fqn(fqn)[0])
        # Another program has renamed or removed the group of the type.
        if isinstance(found, UserType) and found.fqn != name:
            self.add_moved(fqn, as_text(name))
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
            # zarr-python resizes arrays without NCZarr's keys: the array is right.
            elif item != length:
                what = f"the anonymous dimension of {item} has {length} elements"
                self.findings.add("size-stale", array.fqn, what)
                form.references[i] = length

    def form_of(self, array: ArrayNode) -> ArrayForm | None:
        """Return the form of an array; None if netCDF has no type for it, and another program has added it."""
        info, metadata = array.info, array.metadata
        type_ = simple = simple_type(metadata.data_type)
        ending = "; the data type determines the values"
        if "type" in info:
            with self.findings.of_errors("type-missing", array.fqn, ending):
                type_ = self.find_type(info["type"], array.fqn)
        if type_ is not None:
            with self.findings.of_errors("type-mismatch", array.fqn, ending):
                encoding = encoding_for_reading(type_, metadata.data_type)
                ndim = metadata.ndim - len(encoding.inner_shape)
                if ndim < 0 or metadata.shape[ndim:] != encoding.inner_shape:
                    raise MetadataError(
                        f"the shape {list(metadata.shape)} does not end with {list(encoding.inner_shape)}, "
                        f"as values of {type_.name!r} require"
                    )
                return ArrayForm(encoding, self.references(array, ndim))
        elif "type" not in info and not array.unreadable and self.is_own(array):
            what = f"the data type {metadata.data_type.name!r} implies no type; it determines the values"
            self.findings.add("type-missing", array.fqn, what)
        # Only the type is lost: the other keys count.
        if simple is None and not array.keys:
            return None
        plain = None if simple is None else encoding_for_reading(simple, metadata.data_type)
        return ArrayForm(plain, self.references(array, metadata.ndim))

    def is_own(self, array: ArrayNode) -> bool:
        """Return whether an array of the dataset has keys, or the object that contains them."""
        has_keys = bool(array.keys) or keys.has_object(array.metadata)
        return has_keys and array.path not in self.finder.foreign

    def references(self, array: ArrayNode, ndim: int) -> list[DimensionRef] | None:
        key, items = f"{ARRAY_KEY}.dimension_references", as_list(array.info.get("dimension_references"))
        # An array that another program has added has labels at most.
        if "dimension_references" not in array.info:
            if not array.keys or array.unreadable or not ndim:
                return None
            code, what = "references-missing", f"{key} is missing; the labels replace them"
        elif items != array.info["dimension_references"] or not all(map(is_reference, items)):
            given = show(array.info["dimension_references"])
            code, what = (
                "key-unreadable",
                f"{key}: {given} is not a list of dimensions; the labels replace it",
            )
        elif len(items) != ndim:
            code, what = "rank-mismatch", f"{len(items)} dimension references for {ndim} dimensions"
            what += "; the labels replace them"
        else:
            return list(items)
        self.findings.add(code, array.fqn, what)
        return None

    def settle_references(self, array: ArrayNode) -> None:
        form = self.forms[array.path]
        if form is not None and form.references is not None:
            for i, (item, length) in enumerate(zip(form.references, array.metadata.shape, strict=False)):
                if isinstance(item, str):
                    form.references[i] = self.dimensions.reference(array, item, length)

    # -- the model

    def group(self, node: RecordedGroup) -> model.Group:
        variables = tuple([self.variable(node, array) for array in node.arrays])
        reserved = self.reserved if node.fqn == "/" or self.is_nz else RESERVED
        with error_context(self.place(node.path), fqn=node.fqn):
            attributes = self.attributes(node, node, None, reserved)
        groups = tuple([self.group(child) for child in node.groups])
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
        self,
        group: RecordedGroup,
        owner: RecordedGroup | ArrayNode,
        array: Type | None,
        reserved: frozenset[str],
    ) -> tuple[model.Attribute, ...]:
        def stale(name: str, why: str) -> None:
            what = f"attribute {name!r}: {why}" if name else why
            self.findings.add("annotation-stale", owner.fqn, f"{what}; the annotation is ignored")

        info = owner.keys.get(ATTR_KEY)
        types = self.binder.bound if info is None else self.types_for(info, group.fqn, owner.fqn)
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
        for name in map(as_text, member(info, "types").values()):
            if not name.startswith("/") or name in self.binder.bound:
                continue
            if fqn := self.binder.resolve(name, group):
                moved[name] = self.binder.bound[fqn]
                self.add_moved(where, name)
        return {**self.binder.bound, **moved} if moved else self.binder.bound

    def variable(self, node: RecordedGroup, array: ArrayNode) -> model.Variable:
        form, metadata = self.forms[array.path], array.metadata
        with error_context(self.place(array.path), fqn=array.fqn):
            if form is None:
                found = self.plain.variable(node.fqn, array.path, array.name, metadata)
                variable, self.variables[array.fqn] = found
                return variable
            encoding, described = form.encoding, None
            if encoding is None:
                encoding, described = self.plain.encoding(node.fqn, array.name, metadata)
            ndim = metadata.ndim - len(encoding.inner_shape)
            references = tuple(form.references or ())
            if form.references is None:
                references = self.plain.references(node.fqn, metadata, metadata.shape[:ndim])
            attributes = self.attributes(node, array, encoding.type, RESERVED)
            if described:
                attributes = describe(attributes, encoding, described)
        storage = self.storage(array, ndim, encoding)
        self.variables[array.fqn] = Binding(array.path, encoding)
        return model.Variable(array.name, encoding.type, references, attributes=attributes, storage=storage)

    def storage(self, array: ArrayNode, ndim: int, encoding: Encoding) -> model.Storage:
        data_type = encoding.kept_type
        shared = (array.info, array.metadata.codecs, array.metadata.chunk_grid)
        key = (*map(id, shared), ndim, data_type)
        if key in self.storages:
            return self.storages[key][0]
        # Hints never decide what values are.
        with self.findings.of_errors("storage-damaged", array.fqn, "; the storage hints are ignored"):
            found = read_storage(array.info, array.metadata, ndim, self.hierarchy.layout, data_type)
            self.storages[key] = found, shared  # so that no other object gets these identities
            return found
        return read_storage({}, array.metadata, ndim, self.hierarchy.layout, data_type)


def read_storage(
    info: JsonObject, metadata: ArrayMetadata, ndim: int, zarr_layout: str, data_type: str | None = None
) -> model.Storage:
    """Return the storage hints of a variable; raise MetadataError for a damaged one."""
    layout, chunks = info.get("storage"), info.get("chunk_shape")
    filters, endian = info.get("filters", []), info.get("endian", "native")
    no_fill = info.get("no_fill", False)
    for key, is_valid, what in (
        ("storage", layout in (None, "contiguous", "chunked", "compact"), "contiguous, chunked or compact"),
        ("endian", endian in ("native", "little", "big"), "little, big or native"),
        ("no_fill", no_fill is True or no_fill is False, "true or false"),
        (
            "chunk_shape",
            chunks is None or len(only_integers(chunks, 1) or ()) == ndim,
            f"a list of {ndim} lengths",
        ),
        ("filters", as_list(filters) == filters, "a list"),
    ):
        if not is_valid:
            raise MetadataError(f"{ARRAY_KEY}.{key}: {show(info[key])} is not {what}")
    if layout == "chunked" and "chunk_shape" not in info:
        chunks = metadata.shapes[0][:ndim]
    return array_storage(
        metadata,
        ndim,
        zarr_layout,
        layout=layout,
        chunk_shape=None if chunks is None else tuple(chunks),
        filters=tuple([_filter(f) for f in filters]),
        endian=endian,
        no_fill=no_fill,
        data_type=data_type,
    )


def _filter(value: object) -> model.Filter:
    number = as_object(value).get("id")
    parameters = only_integers(as_object(value).get("parameters", []))
    # HDF5 stores the parameters of a filter as unsigned integers of 32 bits.
    if type(number) is not int or parameters is None or max(parameters, default=0) >= 2**32:
        raise MetadataError(f"{ARRAY_KEY}.filters: {show(value)} is not a filter")
    return model.Filter(number, tuple(parameters))
