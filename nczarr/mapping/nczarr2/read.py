"""Read NCZarr on Zarr v2: every form that netcdf-c has written (see :mod:`nczarr.mapping.nczarr2.versions`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nczarr import model
from nczarr.errors import MetadataError, NCZarrError, UnsupportedError, error_context
from nczarr.mapping.dialect import Binding, Reading, left_out_nodes, own_dimension
from nczarr.mapping.findings import Findings
from nczarr.mapping.nczarr2 import versions
from nczarr.mapping.nczarr2.versions import ArrayInfo, GroupInfo, Version
from nczarr.mapping.values.attributes import infer_attribute
from nczarr.mapping.values.encodings import Encoding, PlainEncoding
from nczarr.mapping.values.filters import filters_of
from nczarr.mapping.values.foreign import FixedTextEncoding, ScalarEncoding
from nczarr.mapping.values.scalars import array_of, check_unicode, float_from_json, int_from_json, show
from nczarr.model import CHAR, STRING, Attribute, Dataset, Dimension, PrimitiveType, join_fqn, split_fqn
from nczarr.model.nodes import dataset_of
from nczarr.system.environment import read_json
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy, NamedConfig, data_type_for

#: netCDF's default fill value with six digits, as netcdf-c prints it.
_ROUNDED_FILL = 9.96921e36


def read_nczarr_v2(hierarchy: Hierarchy, name: str) -> Reading:
    """Read the model; see :meth:`nczarr.mapping.dialect.Dialect.read`."""
    version = versions.find_version(hierarchy)
    if version is None:
        raise MetadataError("the hierarchy has no keys of NCZarr", path=hierarchy.store.url)
    reader = _Reader(hierarchy, version)
    dataset = reader.read(name)
    guessed = frozenset(fqn for own in reader.own.values() for fqn in own)
    findings = tuple(reader.findings.items)
    return Reading(dataset, reader.variables, reader.groups, tuple(reader.losses), findings, guessed)


@dataclass
class _Reader:
    hierarchy: Hierarchy
    version: Version

    def __post_init__(self) -> None:
        self.variables: dict[str, Binding] = {}
        self.groups: dict[str, str] = {}
        self.unknown = self.hierarchy.unknown_nodes()
        self.losses = [*left_out_nodes(self.unknown)]
        self.dimensions: dict[str, Dimension] = {}
        #: Lengths of dimensions that differ from those in the groups.
        self.grown: dict[str, int] = {}
        #: Dimensions of arrays whose lengths contradict others, by group and FQN.
        self.own: dict[str, dict[str, Dimension]] = {}
        self.findings = Findings()
        self.array_infos: dict[str, ArrayInfo] = {}
        self.resolved: dict[str, str] = {}
        self.infos: dict[str, GroupInfo] = {}
        self.children: dict[str, list[str]] = {}

    def place(self, path: str, document: str) -> str:
        return self.hierarchy.store.place(f"{path}/{document}" if path else document)

    def read(self, name: str) -> Dataset:
        for path in self.hierarchy.nodes:
            if path and path not in self.unknown:
                self.children.setdefault(path.rpartition("/")[0], []).append(path)
        self.declare("", "/")
        self.settle()
        body = self.group("", "/", "")
        if self.grown:
            body = model.with_lengths(body, self.grown)
        return dataset_of(body, name, "netCDF-4")

    # -- groups

    def declare(self, path: str, fqn: str) -> None:
        """Record the dimensions of a group and all groups below it, because arrays refer to any of them."""
        with error_context(self.place(path, ".zgroup")):
            info = self.version.group(self.hierarchy, path) or GroupInfo()
        self.infos[path] = info
        self.groups[fqn] = path
        for name, (size, unlimited) in info.dimensions.items():
            self.dimensions[join_fqn(fqn, name)] = Dimension(name, size, unlimited)
        for child in self.ordered(path, arrays=False):
            self.declare(child, join_fqn(fqn, child.rpartition("/")[2]))

    def settle(self) -> None:
        """Set the size of fixed dimensions to the length of their arrays, if all arrays have another length."""
        lengths: dict[str, dict[str, int]] = {}
        for fqn, path in self.groups.items():
            for child in self.ordered(path, arrays=True):
                name = child.rpartition("/")[2]
                with error_context(self.place(child, ".zarray"), fqn=join_fqn(fqn, name)):
                    metadata = self.hierarchy.nodes[child]
                    self.array_infos[child] = info = self.version.array(self.hierarchy, child)
                shape = metadata.shape if isinstance(metadata, ArrayMetadata) else ()
                references = info.references
                if references is not None and len(references) == len(shape):
                    for reference, length in zip(references, shape, strict=True):
                        lengths.setdefault(self.resolve(reference), {})[join_fqn(fqn, name)] = length
        for reference, found in lengths.items():
            dimension = self.dimensions.get(reference)
            if dimension is None or dimension.unlimited or dimension.size in found.values():
                continue
            size = found.get(reference, max(found.values()))
            what = f"the recorded size is {dimension.size}, but its arrays have {size}"
            self.findings.add("size-stale", reference, what)
            self.dimensions[reference] = replace(dimension, size=size)
            self.grown[reference] = size

    def resolve(self, reference: str) -> str:
        """Return the FQN of a reference: netcdf-c writes plain names; earlier versions of nczarr escaped blanks."""
        if reference not in self.resolved:
            plain = model.format_fqn(reference.strip("/").split("/"))
            self.resolved[reference] = plain if plain in self.dimensions else reference
        return self.resolved[reference]

    def ordered(self, path: str, *, arrays: bool) -> list[str]:
        """Return the children of a group: those that NCZarr lists, then the others."""
        info = self.infos[path]
        prefix = f"{path}/" if path else ""
        listed = [prefix + node for node in (info.arrays if arrays else info.groups)]
        if not self.hierarchy.complete:
            self.hierarchy.load(listed)
        listed = [node for node in listed if node not in self.unknown]
        is_array = self.hierarchy.is_array
        for node in listed:
            if node not in self.hierarchy.nodes or is_array(node) != arrays:
                what = f"there is no {'array' if arrays else 'group'} {node.rpartition('/')[2]!r}"
                raise MetadataError(f"_nczarr_group: {what}", path=self.place(path, ".zgroup"))
        others = [c for c in self.children.get(path, ()) if is_array(c) == arrays and c not in listed]
        return [*listed, *others]

    def group(self, path: str, fqn: str, name: str) -> model.Group:
        metadata = self.hierarchy.nodes[path]
        if not isinstance(metadata, GroupMetadata):
            raise MetadataError("an array in place of a group", path=self.place(path, ".zarray"))
        variables = tuple(self.variable(child, fqn) for child in self.ordered(path, arrays=True))
        groups = tuple(
            self.group(child, join_fqn(fqn, child.rpartition("/")[2]), child.rpartition("/")[2])
            for child in self.ordered(path, arrays=False)
        )
        # The model has no dimensions that represent anonymous ones.
        dimensions = tuple(
            Dimension(n, size, unlimited)
            for n, (size, unlimited) in self.infos[path].dimensions.items()
            if not _is_anonymous(n, size)
        )
        dimensions += tuple(self.own.get(fqn, {}).values())
        return model.Group(
            name,
            attributes=self.attributes(path, metadata.attributes, fqn),
            dimensions=dimensions,
            variables=variables,
            groups=groups,
        )

    # -- attributes

    def attributes(
        self, path: str, plain: Mapping[str, object], fqn: str, type_: PrimitiveType | None = None
    ) -> tuple[Attribute, ...]:
        place = self.place(path, ".zattrs")
        with error_context(place, fqn=fqn):
            types = self.version.attribute_types(self.hierarchy, path)
        found = []
        for name, value in plain.items():
            if name in versions.HIDDEN_NAMES or name.startswith(versions.HIDDEN_PREFIXES):
                continue
            try:
                check_unicode(name, "attributes")
                declared = versions.attribute_type(types[name]) if name in types else None
                if declared is None and name == "_FillValue" and type_ is not None:
                    declared = type_
                if declared is None:
                    found.append(infer_attribute(name, value))
                else:
                    found.append(Attribute(name, declared, self.values(path, name, value, declared)))
            except NCZarrError as error:
                error.message = f"attribute {name!r}: {error.message}"
                error.path, error.fqn = place, fqn
                raise
        return tuple(found)

    def values(self, path: str, name: str, value: object, type_: PrimitiveType) -> np.ndarray:
        if type_ == CHAR:
            text = value if isinstance(value, str) else self.spelled(path, name, value)
            check_unicode(text, "the value")
            return np.frombuffer(text.encode("utf-8", "surrogateescape"), "S1").copy()
        items = value if isinstance(value, list) else [value]
        if type_ == STRING:
            texts = [i if isinstance(i, str) else _compact(i) for i in items]
            for text in texts:
                check_unicode(text, "the value")
            return array_of(STRING, texts)
        convert = float_from_json if type_.is_float else int_from_json
        return array_of(type_, [convert(item, type_.dtype) for item in items])

    def spelled(self, path: str, name: str, value: object) -> str:
        """Return a text that netcdf-c wrote as JSON, as spelled in the document where possible."""
        data = self.hierarchy.store.get(f"{path}/.zattrs" if path else ".zattrs")
        if data is None or isinstance(value, list | dict):
            return _compact(value)
        try:
            # Numbers keep their spelling: the text 1.50 differs from 1.5.
            document = read_json(data, parse_float=str, parse_int=str, parse_constant=str)
        except ValueError:
            return _compact(value)
        text = document.get(name) if isinstance(document, dict) else None
        return text if isinstance(text, str) else _compact(value)

    # -- variables

    def variable(self, path: str, group: str) -> model.Variable:
        name = path.rpartition("/")[2]
        fqn = join_fqn(group, name)
        with error_context(self.place(path, ".zarray"), fqn=fqn):
            metadata = self.hierarchy.nodes[path]
            assert isinstance(metadata, ArrayMetadata)
            return self.bound(path, fqn, name, metadata, self.array_infos[path])

    def bound(
        self, path: str, fqn: str, name: str, metadata: ArrayMetadata, info: ArrayInfo
    ) -> model.Variable:
        spelled = str((metadata.origin or {}).get("dtype", ""))
        type_ = _type(metadata, spelled)
        attributes = self.attributes(path, metadata.attributes, fqn, type_)
        corrected = self.corrected(metadata, type_, spelled, {a.name for a in attributes})
        encoding: Encoding = PlainEncoding(type_, corrected.data_type)
        if type_ == STRING and corrected.data_type.dtype != object:
            encoding = FixedTextEncoding(type_, corrected.data_type)
        shape = metadata.shape
        if info.scalar and shape == (1,):
            encoding, shape = ScalarEncoding(type_, corrected.data_type, (1,), encoding), ()
        if corrected is not metadata:
            self.hierarchy.override(path, corrected)
        self.variables[fqn] = Binding(path, encoding)
        storage = model.Storage(
            layout="chunked" if shape else None,
            chunk_shape=tuple(metadata.chunk_shape) if shape else None,
            filters=filters_of(metadata.codecs),
            endian="big" if spelled.startswith(">") and type_.dtype.itemsize > 1 else "native",
            no_fill=metadata.fill_value is None,
        )
        references = self.references(fqn, info, metadata, shape)
        return model.Variable(name, type_, references, attributes=attributes, storage=storage)

    def corrected(
        self, metadata: ArrayMetadata, type_: PrimitiveType, spelled: str, attributes: set[str]
    ) -> ArrayMetadata:
        """Return the metadata, corrected where the document contradicts the values that netcdf-c has stored."""
        changes: dict[str, Any] = {}
        if type_ == CHAR and metadata.data_type.dtype != CHAR.dtype:
            fill = metadata.fill_value if isinstance(metadata.fill_value, str) else ""
            changes = {
                "data_type": data_type_for("S1"),
                "fill_value": np.bytes_(fill.encode("latin-1", "replace")[:1]),
                "codecs": tuple(NamedConfig("bytes") if c.name == "bytes" else c for c in metadata.codecs),
            }
        if self.version.native_order and spelled.startswith(">") and type_.dtype.itemsize > 1:
            changes["codecs"] = tuple(
                NamedConfig("bytes", {"endian": "little"}) if c.name == "bytes" else c
                for c in metadata.codecs
            )
        if type_.is_float and "_FillValue" not in attributes and metadata.fill_value is not None:
            rounded = type_.dtype.type(_ROUNDED_FILL)
            if metadata.fill_value == rounded:
                changes["fill_value"] = model.default_fill(type_)
        return replace(metadata, **changes) if changes else metadata

    def references(
        self, fqn: str, info: ArrayInfo, metadata: ArrayMetadata, shape: tuple[int, ...]
    ) -> tuple[model.DimensionRef, ...]:
        if info.references is None:
            return self.named(metadata, shape)
        if len(info.references) != len(shape):
            raise MetadataError(
                f"_nczarr_array.dimension_references: {len(info.references)} for the shape {list(shape)}"
            )
        found: list[model.DimensionRef] = []
        for reference, length in zip(info.references, shape, strict=True):
            reference = self.resolve(reference)
            dimension = self.dimensions.get(reference)
            if dimension is None:
                raise MetadataError(
                    f"_nczarr_array.dimension_references: there is no dimension {show(reference)}"
                )
            if dimension.size != length and not dimension.unlimited:
                found.append(self.own_dimension(fqn, reference, dimension, length))
                continue
            if length > dimension.size:  # another program has appended values without updating the group
                self.dimensions[reference] = replace(dimension, size=length)
                self.grown[reference] = length
            found.append(length if _is_anonymous(dimension.name, dimension.size) else reference)
        return tuple(found)

    def own_dimension(self, fqn: str, reference: str, dimension: Dimension, length: int) -> str:
        """Return the dimension of an array that another program has resized."""
        what = f"it has {length} elements along {reference}, others have {dimension.size}"
        self.findings.add("size-conflict", fqn, f"{what}; it is read with a dimension of its own")
        group = split_fqn(fqn)[0]
        own = own_dimension(group, dimension, length, self.dimensions)
        if own not in self.dimensions:
            made = Dimension(split_fqn(own)[1], length)
            self.dimensions[own] = self.own.setdefault(group, {})[own] = made
        return own

    def named(self, metadata: ArrayMetadata, shape: tuple[int, ...]) -> tuple[model.DimensionRef, ...]:
        """Return the dimensions of an array without NCZarr's keys: by xarray's names, else anonymous."""
        names = metadata.attributes.get("_ARRAY_DIMENSIONS")
        if not isinstance(names, list) or len(names) != len(shape):
            return tuple(shape)
        found: list[model.DimensionRef] = []
        for name, length in zip(names, shape, strict=True):
            dimension = self.dimensions.get(join_fqn("/", name)) if isinstance(name, str) and name else None
            found.append(join_fqn("/", name) if dimension and dimension.size == length else length)
        return tuple(found)


def _is_anonymous(name: str, size: int) -> bool:
    return name == f"{versions.ANONYMOUS}{size}"


def _type(metadata: ArrayMetadata, spelled: str) -> PrimitiveType:
    if spelled in (">S1", "<U1", ">U1"):
        return CHAR
    dtype = metadata.data_type.dtype
    if dtype.kind in "SUO":
        return STRING
    found = model.primitive_for_dtype(dtype) if dtype.kind in "iuf" else None
    if found is None:
        raise UnsupportedError(f"dtype: {show(spelled)} is not a type of NCZarr")
    return found


def _compact(value: object) -> str:
    """Return JSON like netcdf-c: ``{"a": [1,2], "b": 3}``."""
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {_compact(v)}" for k, v in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_compact, value))}]"
    return json.dumps(value, ensure_ascii=False)
