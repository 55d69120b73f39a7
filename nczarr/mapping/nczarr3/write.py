"""NCZarr on Zarr v3, writing: from the model to documents (``docs/spec/nczarr-v3.md``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nczarr.errors import ModelError
from nczarr.mapping.layout import Binding, Known, Plan
from nczarr.mapping.nczarr3.attributes import ATTR_KEY, RESERVED, encode_attributes
from nczarr.mapping.nczarr3.dimension_names import Labels
from nczarr.mapping.nczarr3.keys import (
    ARRAY_KEY,
    CONVENTION,
    CONVENTION_KEY,
    EXTENSION_NAME,
    GROUP_KEY,
    NZUG,
    SUPERBLOCK_KEY,
    VERSION,
)
from nczarr.mapping.nczarr3.types import type_name, types_to_json
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.plain.types import simple_type
from nczarr.mapping.values.chunks import default_chunks
from nczarr.mapping.values.encodings import Encoding, encoding_for_writing
from nczarr.mapping.values.form import stored_form
from nczarr.model import (
    CHAR,
    STRING,
    Attribute,
    CompoundType,
    Dataset,
    EnumType,
    Group,
    PrimitiveType,
    Storage,
    Variable,
    default_fill,
    join_fqn,
)
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, NamedConfig

#: Bytes that a value of variable size is taken for when chunks are chosen.
_VARIABLE_SIZE = 64


def plan_nczarr_v3(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
) -> Plan:
    """Make the documents; see :meth:`nczarr.mapping.layout.Layout.plan`."""
    writer = _Writer(dataset, options, names, known or Known())
    writer.group("/", dataset, "", None)
    return Plan(writer.nodes, writer.variables, writer.groups)


def fill_value_of(variable: Variable) -> Any:
    """Return the value of elements that were never written: ``_FillValue``, or netCDF's default.

    Examples
    --------
    >>> from nczarr.model import SHORT
    >>> int(fill_value_of(Variable("v", SHORT, attributes=(Attribute.of("_FillValue", -1, SHORT),))))
    -1
    """
    own = own_fill_value(variable)
    return default_fill(variable.type) if own is None else own


def own_fill_value(variable: Variable) -> Any:
    """Return the value of ``_FillValue`` as one of the variable's type; None if there is none that fits.

    Examples
    --------
    >>> from nczarr.model import SHORT
    >>> own_fill_value(Variable("v", SHORT, attributes=(Attribute.of("_FillValue", 0.5),)))
    """
    fill = variable.attribute.get("_FillValue")
    if fill is not None and len(fill.values):
        if fill.type == variable.type:
            return fill.values[0]
        if isinstance(fill.type, PrimitiveType) and isinstance(variable.type, PrimitiveType):
            kinds = fill.type.dtype.kind + variable.type.dtype.kind
            if all(k in "iuf" for k in kinds):
                with np.errstate(all="ignore"):
                    cast = fill.values[:1].astype(variable.type.dtype)
                    back = cast.astype(fill.type.dtype)
                if back.tobytes() == fill.values[:1].tobytes():
                    return cast[0]
    return None


def chunks_of(
    dataset: Dataset, variable: Variable, encoding: Encoding, shape: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the chunk shape of a variable's array, without the inner dimensions."""
    if variable.storage.chunk_shape is not None:
        return variable.storage.chunk_shape
    itemsize = _VARIABLE_SIZE if encoding.dtype.hasobject else encoding.dtype.itemsize
    return default_chunks(shape, [dataset.is_unlimited(ref) for ref in variable.dimensions], itemsize)


@dataclass
class _Writer:
    dataset: Dataset
    options: WriteOptions
    names: NodeNames
    known: Known

    def __post_init__(self) -> None:
        self.nodes: dict[str, ArrayMetadata | GroupMetadata] = {}
        self.variables: dict[str, Binding] = {}
        self.groups: dict[str, str] = {}
        self.labels = Labels(self.dataset)

    def group(self, fqn: str, group: Group, path: str, true_name: str | None) -> None:
        children = [("array", v.name) for v in group.variables] + [("group", g.name) for g in group.groups]
        known = {
            child: self.known.nodes[fqn, *child] for child in children if (fqn, *child) in self.known.nodes
        }
        nodes = self.names.assign(children, known)
        self.groups[fqn] = path
        _check_names(fqn, group)
        info: dict[str, Any] = {}
        if true_name is not None:
            info["name"] = true_name
        if group.dimensions:
            info["dimensions"] = {
                d.name: {"size": d.size, "unlimited": True} if d.unlimited else d.size
                for d in group.dimensions
            }
        if group.types:
            info["types"] = types_to_json(group.types)
        for kind, key in (("array", "arrays"), ("group", "groups")):
            listed = [nodes[child] for child in children if child[0] == kind]
            if listed:
                info[key] = listed
        self.nodes[path] = self._group_metadata(fqn, group, info)
        prefix = f"{path}/" if path else ""
        for variable in group.variables:
            node = nodes["array", variable.name]
            self._variable(fqn, variable, prefix + node, variable.name if node != variable.name else None)
        for child in group.groups:
            node = nodes["group", child.name]
            self.group(
                join_fqn(fqn, child.name), child, prefix + node, child.name if node != child.name else None
            )

    def _group_metadata(self, fqn: str, group: Group, info: dict[str, Any]) -> GroupMetadata:
        keys: dict[str, Any] = {}
        reserved = RESERVED
        if fqn == "/":
            keys[SUPERBLOCK_KEY] = {"version": VERSION}
            if self.dataset.format is not None:
                keys[SUPERBLOCK_KEY]["format"] = self.dataset.format
            if self.options.nzug:
                keys[SUPERBLOCK_KEY]["nzug"] = True
                reserved = RESERVED | {"conventions"}
        if info:
            keys[GROUP_KEY] = info
        plain = self._attributes(group.attributes, fqn, keys, reserved)
        if fqn == "/":
            if self.options.nzug:
                plain["conventions"] = _nzug_conventions(group)
            plain[CONVENTION_KEY] = [dict(CONVENTION)]
        return GroupMetadata({**plain, **keys}, self._extensions(keys))

    def _attributes(
        self,
        attributes: tuple[Attribute, ...],
        fqn: str,
        keys: dict[str, Any],
        reserved: frozenset[str] = RESERVED,
        array: Any = None,
    ) -> dict[str, Any]:
        for attribute in attributes:
            _check_text(attribute.name, f"{fqn}: attribute")
        plain, info = encode_attributes(
            attributes, array=array, reserved=reserved, annotate_text=self.options.nzug
        )
        if info:
            keys[ATTR_KEY] = info
        return plain

    def _extensions(self, keys: dict[str, Any]) -> tuple[NamedConfig, ...]:
        if not self.options.extensions or not keys:
            return ()
        return (NamedConfig(EXTENSION_NAME, keys, must_understand=False),)

    def _variable(self, group: str, variable: Variable, path: str, true_name: str | None) -> None:
        fqn = join_fqn(group, variable.name)
        if fqn in self.known.arrays and self.known.arrays[fqn][1].path == path:
            self.nodes[path], self.variables[fqn] = self.known.arrays[fqn]
            return
        shape = self.dataset.shape(variable)
        fill = fill_value_of(variable)
        encoding = encoding_for_writing(
            variable.type, fill, char=self.options.char, compound=self.options.compound
        )
        chunks = chunks_of(self.dataset, variable, encoding, shape)
        grid, codecs = stored_form(fqn, variable.storage, chunks, encoding, self.options)
        keys: dict[str, Any] = {}
        info = _array_info(variable, encoding, true_name, grid.chunk_shape[: len(shape)])
        if info:
            keys[ARRAY_KEY] = info
        plain = self._attributes(variable.attributes, fqn, keys, array=variable.type)
        self.nodes[path] = ArrayMetadata(
            shape=shape + encoding.inner_shape,
            data_type=encoding.data_type,
            chunk_grid=grid,
            fill_value=encoding.encode_fill(fill),
            codecs=codecs,
            attributes={**plain, **keys},
            dimension_names=self.labels.of(group, variable.dimensions, encoding.inner_shape),
            extensions=self._extensions(keys),
        )
        self.variables[fqn] = Binding(path, encoding)


def _array_info(
    variable: Variable, encoding: Encoding, true_name: str | None, chunks: tuple[int, ...]
) -> dict[str, Any]:
    info: dict[str, Any] = {}
    if true_name is not None:
        info["name"] = true_name
    if variable.dimensions:
        info["dimension_references"] = list(variable.dimensions)
    if simple_type(encoding.data_type) != variable.type:
        info["type"] = type_name(variable.type)
    info.update(_storage_info(variable.storage, chunks))
    return info


def _storage_info(storage: Storage, chunks: tuple[int, ...]) -> dict[str, Any]:
    """The hints that the array itself does not say; `chunks` is what it has."""
    info: dict[str, Any] = {}
    if storage.layout is not None:
        info["storage"] = storage.layout
    if storage.layout == "chunked":
        if storage.chunk_shape is None:
            info["chunk_shape"] = None
        elif storage.chunk_shape != chunks:
            info["chunk_shape"] = list(storage.chunk_shape)
    elif storage.chunk_shape is not None:
        info["chunk_shape"] = list(storage.chunk_shape)
    if storage.filters:
        info["filters"] = [
            {"id": f.id, **({"parameters": list(f.parameters)} if f.parameters else {})}
            for f in storage.filters
        ]
    if storage.endian != "native":
        info["endian"] = storage.endian
    if storage.no_fill:
        info["no_fill"] = True
    return info


def _nzug_conventions(group: Group) -> str:
    """NZUG-1.0 and what the dataset follows already, from the most general on."""
    declared = group.attribute.get("conventions") or group.attribute.get("Conventions")
    words = [NZUG]
    if declared is not None and declared.type in (CHAR, STRING):
        words += declared.text.replace("\0", "").encode("utf-8", "replace").decode().split()
    return " ".join(dict.fromkeys(words))


def _check_names(fqn: str, group: Group) -> None:
    for dimension in group.dimensions:
        _check_text(dimension.name, f"{fqn}: dimension")
    for type_ in group.types:
        _check_text(type_.name, f"{fqn}: type")
        if isinstance(type_, EnumType):
            inside = [name for name, _ in type_.members]
        else:
            inside = [f.name for f in type_.fields] if isinstance(type_, CompoundType) else []
        for name in inside:
            _check_text(name, f"{type_.fqn}: member")


def _check_text(name: str, where: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise ModelError(f"{where}: the name {name!r} is not Unicode text; JSON cannot hold it") from None
