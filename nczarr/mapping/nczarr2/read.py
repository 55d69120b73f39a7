"""Read NCZarr on Zarr v2: every form that netcdf-c has written.

====================  ========================================================  ===============================
written by            place of NCZarr's keys                                    particularities
====================  ========================================================  ===============================
4.8.0                 files ``.nczarr``, ``.nczgroup``, ``.nczvar``,            types are numbers as text;
                      ``.nczattr``                                              values of attributes are lists
4.8.1, 4.9.0          upper-case keys in ``.zgroup``, ``.zarray``, ``.zattrs``  char is ``<U1``, one byte each
4.9.1, 4.9.2          the same in lower case                                    char is ``>S1``
4.9.3 and later       all in ``.zattrs``, with longer words                     —
====================  ========================================================  ===============================

Up to 4.9.2 big-endian variables were stored in native order under a ``>`` type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from nczarr import model
from nczarr.compression import filters_for
from nczarr.errors import MetadataError, NCZarrError, error_context
from nczarr.json_values import (
    Json,
    JsonObject,
    as_list,
    as_object,
    as_text,
    checked_object,
    checked_text,
    only_texts,
    show,
)
from nczarr.mapping.dialect import Reading
from nczarr.mapping.findings import Findings
from nczarr.mapping.nczarr3.groups import (
    ArrayNode,
    DeclaredDimension,
    GroupFinder,
    RecordedGroup,
    RecordOrigin,
)
from nczarr.mapping.nczarr3.read import ArrayForm, HierarchyReader
from nczarr.mapping.values import scalars
from nczarr.mapping.values.arrays import array_storage
from nczarr.mapping.values.attributes import infer_attribute
from nczarr.mapping.values.encodings import Encoding, FixedTextEncoding, PlainEncoding, ScalarEncoding
from nczarr.model import CHAR, STRING, DimensionRef, Type, join_fqn
from nczarr.system.environment import read_json
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy, NamedConfig, data_type_for
from nczarr.zarr.documents.json import parse_object
from nczarr.zarr.hierarchy.layouts import join_key

#: Sizes of dimensions have fewer digits than this.
_MOST_DIGITS = 20
#: netCDF's default fill value with six digits, as netcdf-c prints it.
_ROUNDED_FILL = 9.96921e36
#: Prefix of the dimensions that netcdf-c creates for anonymous ones, before their size.
ANONYMOUS = "_Anonymous_Dim_"
#: Attributes of the documents that are not attributes of the model.
HIDDEN_NAMES = frozenset({"_ARRAY_DIMENSIONS", "_NCProperties"})
HIDDEN_PREFIXES = ("_nczarr_", "_NCZARR_")

#: The atomic types by their netCDF numbers, as text.
_NUMBERS = {str(t.number): t for t in model.PRIMITIVES.values()}
#: The files of version 4.8.0, by key.
_SIDE_FILES = {"_nczarr_group": ".nczgroup", "_nczarr_array": ".nczvar", "_nczarr_attr": ".nczattr"}


def is_nczarr_v2(hierarchy: Hierarchy) -> bool:
    """Return whether the root of a v2 hierarchy has NCZarr's keys, or one more file, 4.8.0's superblock."""
    if hierarchy.is_array(""):
        return False
    root = hierarchy.nodes[""]
    return (
        "_nczarr_superblock" in root.attributes
        or "_nczarr_superblock" in root.extra
        or "_NCZARR_SUPERBLOCK" in root.extra
        or (not hierarchy.consolidated and hierarchy.store.get(".nczarr") is not None)
    )


def read_nczarr_v2(hierarchy: Hierarchy, name: str) -> Reading:
    """Read the model; see :meth:`nczarr.mapping.dialect.Dialect.read`."""
    return _NCZarr2Reader(hierarchy).read(name)


class _Finder(GroupFinder):
    """Builds the tree of groups and arrays of a hierarchy from the keys of any version."""

    def __init__(self, hierarchy: Hierarchy, findings: Findings) -> None:
        super().__init__(hierarchy, findings)
        root = hierarchy.nodes[""]
        #: Chunks of a big-endian type are in the order of the machine (in effect little-endian).
        self.native_order = "_nczarr_superblock" not in root.attributes
        #: The files of version 4.8.0, by key of the store.
        self.files: dict[str, JsonObject] | None = None
        # Version 4.8.0 of netCDF-C alone has files for its keys.
        if self.native_order and not root.extra.keys() & {"_nczarr_superblock", "_NCZARR_SUPERBLOCK"}:
            keys = []
            for path in hierarchy.nodes:
                kind = ".nczvar" if hierarchy.is_array(path) else ".nczgroup"
                keys += [join_key(path, kind), join_key(path, ".nczattr")]
            found = zip(keys, hierarchy.store.get_many(keys), strict=True)
            self.files = {key: parse_object(data, key) for key, data in found if data is not None}
        self.dimensions: dict[str, DeclaredDimension] = {}

    def place(self, path: str, document: str) -> str:
        return self.hierarchy.store.place(join_key(path, document))

    def key(self, path: str, key: str) -> JsonObject:
        """Return one of NCZarr's keys of a node; empty if there is none."""
        if self.files is not None:
            return self.files.get(join_key(path, _SIDE_FILES[key]), {})
        metadata = self.hierarchy.nodes[path]
        places = (metadata.attributes, metadata.extra)
        # netCDF-C 4.8.1 and 4.9.0 write the keys in capitals.
        return _object(next((p[k] for p in places for k in (key, key.upper()) if k in p), None), key)

    def find(self) -> RecordedGroup:
        self.unknown = self.hierarchy.unknown_nodes()
        root = self._group("", "/", "")
        for node in root.walk():
            for array in node.arrays:
                with error_context(self.place(array.path, ".zarray"), fqn=array.fqn):
                    array.keys = self.keys_of_array(array)
        return root

    def _record(self, path: str, fqn: str, metadata: GroupMetadata) -> tuple[JsonObject, RecordOrigin]:
        return {}, "own"

    def _dimensions(self, node: RecordedGroup) -> Iterator[DeclaredDimension]:
        where = "_nczarr_group.dimensions"
        with error_context(self.place(node.path, ".zgroup")):
            info = self.key(node.path, "_nczarr_group")
            declared = _object(info.get("dimensions", info.get("dims")), where)
            own = [_dimension(name, size, where) for name, size in declared.items()]
        self.dimensions.update({join_fqn(node.fqn, d.name): d for d in own})
        # The model has no dimensions that represent anonymous ones.
        return (d for d in own if not _is_anonymous(d))

    def _child_paths(self, node: RecordedGroup) -> tuple[list[str], list[str]]:
        key = "_nczarr_group"
        with error_context(self.place(node.path, ".zgroup")):
            info = self.key(node.path, key)
            arrays = _names(info.get("arrays", info.get("vars", [])), f"{key}.arrays")
            groups = _names(info.get("groups", []), f"{key}.groups")
            return self.ordered(node, arrays, True), self.ordered(node, groups, False)

    def _name(self, path: str, info: JsonObject, parent: str, taken: set[str]) -> str:
        return path.rpartition("/")[2]

    def ordered(self, node: RecordedGroup, names: list[str], is_array: bool) -> list[str]:
        """Return the children of a group: those that NCZarr lists, then the others."""
        hierarchy = self.hierarchy
        named = [join_key(node.path, name) for name in names]
        if not hierarchy.complete:
            hierarchy.load(named)
        listed: list[str] = []
        for path in named:
            # A missing array refused the whole dataset.
            if path in hierarchy.nodes and hierarchy.is_array(path) == is_array:
                listed += [] if path in self.unknown else [path]
            else:
                self.findings.add_missing(node.fqn, path, is_array, hierarchy)
        others = [child for child in self.children(node.path) if child not in listed]
        return [*listed, *(child for child in others if hierarchy.is_array(child) == is_array)]

    def keys_of_array(self, array: ArrayNode) -> JsonObject:
        """Return NCZarr's description of an array in the words of version 3; empty if NCZarr does not know it."""
        key, where = "_nczarr_array", "_nczarr_array.dimension_references"
        info = self.key(array.path, key)
        listed = info.get("dimension_references", info.get("dimrefs"))
        names = [] if listed is None else _names(listed, where)
        # Up to 4.9.2 a scalar is recognizable only by its lack of dimensions.
        scalar = bool(info.get("scalar")) or info.get("storage") == "scalar" or listed == []
        is_scalar = scalar and array.metadata.shape == (1,)
        if listed is None and not is_scalar:
            return {}
        shape = () if is_scalar else array.metadata.shape
        if len(names) != len(shape):
            raise MetadataError(f"{where}: {len(names)} for the shape {list(shape)}")
        return {key: {"dimension_references": [self.reference(n, where) for n in names], "scalar": is_scalar}}

    def reference(self, name: str, where: str) -> DimensionRef:
        # netcdf-c writes plain names; earlier versions of nczarr escaped blanks.
        plain = model.format_fqn(name.strip("/").split("/"))
        fqn = plain if plain in self.dimensions else name
        if fqn not in self.dimensions:
            raise MetadataError(f"{where}: there is no dimension {show(name)}")
        dimension = self.dimensions[fqn]
        return int(dimension.size or 0) if _is_anonymous(dimension) else fqn


class _NCZarr2Reader(HierarchyReader):
    """Reads types, attributes and storage hints from the documents of version 2."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        super().__init__(hierarchy)
        self.finder = self.own = _Finder(hierarchy, self.findings)

    def place(self, path: str) -> str:
        return self.own.place(path, ".zarray" if self.hierarchy.is_array(path) else ".zgroup")

    def superblock(self, root: RecordedGroup) -> JsonObject:
        return {"format": "netCDF-4"}

    def form_of(self, array: ArrayNode) -> ArrayForm | None:
        metadata, spelled = array.metadata, _spelled(array)
        type_ = _type(metadata, spelled)
        if type_ is None:
            return None
        is_swapped = self.own.native_order and spelled.startswith(">") and type_.dtype.itemsize > 1
        corrected = _corrected(metadata, type_, is_swapped)
        encoding: Encoding = PlainEncoding(type_, corrected.data_type)
        if type_ == STRING and corrected.data_type.dtype != object:
            encoding = FixedTextEncoding(type_, corrected.data_type)
        # netCDF-C stores a scalar as an array of one element.
        if array.info.get("scalar"):
            encoding = ScalarEncoding(type_, corrected.data_type, (1,), encoding)
        if corrected is not metadata:
            self.hierarchy.override(array.path, corrected)
        return ArrayForm(encoding, self.references(array, metadata.ndim - len(encoding.inner_shape)))

    def storage(self, array: ArrayNode, ndim: int, encoding: Encoding) -> model.Storage:
        metadata = array.metadata
        is_big = _spelled(array).startswith(">") and encoding.type.dtype.itemsize > 1
        stored = array_storage(metadata, ndim, self.hierarchy.layout)
        return replace(
            stored,
            layout="chunked" if ndim else None,
            chunk_shape=stored.array_chunks,
            filters=filters_for(stored.codecs or ()).filters,
            endian="big" if is_big else "native",
            no_fill=metadata.fill_value is None,
            data_type=encoding.kept_type,
        )

    def attributes(
        self,
        group: RecordedGroup,
        owner: RecordedGroup | ArrayNode,
        array: Type | None,
        reserved: frozenset[str],
    ) -> tuple[model.Attribute, ...]:
        place, key = self.own.place(owner.path, ".zattrs"), "_nczarr_attr"
        with error_context(place, fqn=owner.fqn):
            types = _object(self.own.key(owner.path, key).get("types"), f"{key}.types")
            for name, spelled in types.items():
                checked_text(spelled, f"{key}.types.{name}", "text")
        found = []
        for name, value in owner.metadata.attributes.items():
            if name in HIDDEN_NAMES or name.startswith(HIDDEN_PREFIXES):
                continue
            try:
                scalars.check_unicode(name, "attributes")
                declared = _attribute_type(types[name]) if name in types else None
                if declared is None and name == "_FillValue" and isinstance(array, model.PrimitiveType):
                    declared = array
                if declared is None:
                    found.append(infer_attribute(name, value))
                else:
                    values = self.values(owner.path, name, value, declared)
                    found.append(model.Attribute(name, declared, values))
            except NCZarrError as error:
                error.message = f"attribute {name!r}: {error.message}"
                error.path, error.fqn = place, owner.fqn
                raise
        return tuple(found)

    def values(self, path: str, name: str, value: Json, type_: model.PrimitiveType) -> np.ndarray:
        items = [value] if as_list(value) != value else as_list(value)
        # netCDF-C writes a text that is JSON as JSON: "123" becomes a number.
        if type_ == CHAR:
            items = [value if as_text(value) == value else self.spelled(path, name, value)]
        # netCDF-C stores a text that is JSON as JSON: 123, true, [1, 2].
        elif type_ == STRING:
            items = [i if as_text(i) == i else _compact(i) for i in items]
        else:
            convert = scalars.float_from_json if type_.is_float else scalars.int_from_json
            return scalars.array_of(type_, [convert(item, type_.dtype) for item in items])
        for text in items:
            scalars.check_unicode(text, "the value")
        if type_ == STRING:
            return scalars.array_of(STRING, items)
        return np.frombuffer(items[0].encode("utf-8", "surrogateescape"), "S1").copy()

    def spelled(self, path: str, name: str, value: object) -> str:
        """Return a text that netcdf-c wrote as JSON, as spelled in the document where possible."""
        data = self.hierarchy.store.get(join_key(path, ".zattrs"))
        if data is None or isinstance(value, list | dict):
            return _compact(value)
        try:
            # Numbers keep their spelling: the text 1.50 differs from 1.5.
            document = read_json(data, parse_float=str, parse_int=str, parse_constant=str)
        except ValueError:
            return _compact(value)
        return as_text(as_object(document).get(name)) or _compact(value)


def _spelled(array: ArrayNode) -> str:
    """Return the data type as spelled in the document."""
    return str((array.metadata.origin or {}).get("dtype", ""))


def _corrected(metadata: ArrayMetadata, type_: model.PrimitiveType, is_swapped: bool) -> ArrayMetadata:
    """Return the metadata, corrected where the document contradicts the values that netcdf-c has stored."""
    changes: dict[str, Any] = {}
    # Up to 4.9.0, char is "<U1" with one byte stored for each character.
    if type_ == CHAR and metadata.data_type.dtype != CHAR.dtype:
        fill = as_text(metadata.fill_value)
        changes = {
            "data_type": data_type_for("S1"),
            "fill_value": np.bytes_(fill.encode("latin-1", "replace")[:1]),
            "codecs": _with_bytes(metadata, NamedConfig("bytes")),
        }
    # Up to 4.9.2, big-endian variables are stored in the order of the machine.
    if is_swapped:
        changes["codecs"] = _with_bytes(metadata, NamedConfig("bytes", {"endian": "little"}))
    # netCDF-C writes six digits of a double, so its default fill value comes back as another number.
    if (
        type_.is_float
        and "_FillValue" not in metadata.attributes
        and metadata.fill_value == type_.dtype.type(_ROUNDED_FILL)
    ):
        changes["fill_value"] = model.default_fill(type_)
    return replace(metadata, **changes) if changes else metadata


def _with_bytes(metadata: ArrayMetadata, serializer: NamedConfig) -> tuple[NamedConfig, ...]:
    return tuple([serializer if c.name == "bytes" else c for c in metadata.codecs])


def _is_anonymous(dimension: DeclaredDimension) -> bool:
    return dimension.name == f"{ANONYMOUS}{dimension.size}"


def _type(metadata: ArrayMetadata, spelled: str) -> model.PrimitiveType | None:
    if spelled in (">S1", "<U1", ">U1"):
        return CHAR
    dtype = metadata.data_type.dtype
    if dtype.kind in "SUO":
        return STRING
    return model.primitive_for_dtype(dtype) if dtype.kind in "iuf" else None


def _attribute_type(spelled: str) -> model.PrimitiveType | None:
    """Return the type of a spelling; None for JSON (``|J0``); raise MetadataError for an unknown type."""
    if spelled in _NUMBERS:
        return _NUMBERS[spelled]
    if spelled.startswith("|J"):
        return None
    if spelled in (">S1", "<U1", ">U1", "char"):
        return CHAR
    if spelled[1:2] in ("S", "U") and spelled[2:].isascii() and spelled[2:].isdigit():
        return STRING
    try:
        found = model.primitive_for_dtype(spelled)
    except (TypeError, ValueError, SyntaxError):  # numpy also parses lists, numbers and tuples
        found = None
    if found is None:
        raise MetadataError(f"_nczarr_attr.types: {show(spelled)} is not a supported type")
    return found


def _object(value: object, what: str) -> JsonObject:
    """Return a JSON object; empty for None."""
    return {} if value is None else checked_object(value, what)


def _names(value: object, what: str) -> list[str]:
    names = only_texts(value)
    if names is None or "" in names:
        raise MetadataError(f"{what}: {show(value)} is not a list of names")
    return names


def _dimension(name: str, value: object, where: str) -> DeclaredDimension:
    scalars.check_unicode(name, where)
    # netcdf-c has an object here for an unlimited dimension, and the length alone for another.
    given = as_object(value) or {"size": value}
    size, unlimited = given.get("size"), given.get("unlimited", False)
    digits = as_text(size)
    if digits.isascii() and digits.isdigit() and len(digits) < _MOST_DIGITS:
        size = int(digits)
    if type(size) is not int or size < 0:
        raise MetadataError(f"{where}.{name}: {show(size)} is not a size")
    return DeclaredDimension(name, size, bool(unlimited))


def _compact(value: object) -> str:
    """Return JSON like netcdf-c: ``{"a": [1,2], "b": 3}``."""
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {_compact(v)}" for k, v in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_compact, value))}]"
    return json.dumps(value, ensure_ascii=False)
