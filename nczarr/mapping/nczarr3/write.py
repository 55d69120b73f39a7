"""Write NCZarr on Zarr v3: from the model to documents (``docs/spec/nczarr-v3.md``)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from nczarr.mapping.dialect import Known, Plan
from nczarr.mapping.nczarr3.identity import dataset_of, new_identity
from nczarr.mapping.nczarr3.keys import (
    ARRAY_KEY,
    CONVENTION,
    CONVENTION_KEY,
    COPY_KEY,
    DATASET,
    EXTENSION_NAME,
    FQN,
    GROUP_KEY,
    MARK,
    NZUG,
    SUPERBLOCK_KEY,
    VERSION,
    has_object,
)
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.plain.documents import Documents, plan_documents
from nczarr.mapping.plain.write import CHUNK_KEYS, v2_codecs
from nczarr.mapping.values.attributes import ATTR_KEY, RESERVED
from nczarr.mapping.values.encodings import simple_type
from nczarr.mapping.values.types import type_name, types_to_json
from nczarr.model import (
    CHAR,
    STRING,
    Dataset,
    Dimension,
    Group,
    Storage,
    UserType,
    Variable,
    join_fqn,
    walk_types,
)
from nczarr.zarr import ArrayMetadata, GroupMetadata, NamedConfig


def plan_nczarr_v3(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
) -> Plan:
    """Make the documents; see :meth:`nczarr.mapping.dialect.Dialect.plan`."""
    known = known or Known()
    # An array whose keys have another form, or name no dataset, is written anew.
    arrays = {
        fqn: entry
        for fqn, entry in known.arrays.items()
        if fqn in known.fixed
        or (has_object(entry[0]) and known.identity is not None and dataset_of(entry[0]) == known.identity)
    }
    return _Writer(dataset, options, names, replace(known, arrays=arrays)).plan()


def plan_keys_in_attributes(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
) -> Plan:
    """Make documents that carry all keys as attributes, for versions of Zarr that have no place for others."""
    return _Writer(dataset, options, names, known or Known(), in_attributes=True).plan()


@dataclass
class _Writer:
    dataset: Dataset
    options: WriteOptions
    names: NodeNames
    known: Known
    in_attributes: bool = False

    def plan(self) -> Plan:
        reserved = RESERVED | {"conventions"} if self.options.nzug else RESERVED
        documents = plan_documents(self.dataset, self.options, self.names, self.known, reserved)
        plan = documents.plan
        records: dict[str, dict[str, Any]] = {}
        for fqn, group in self.dataset.all_groups.items():
            path = plan.groups[fqn]
            records[fqn] = self.group_keys(fqn, group, documents, path)
            if self.in_attributes:
                plan.nodes[path] = self.group_metadata(fqn, plan.nodes[path], records[fqn])
        keys = {
            fqn: self.array_keys(fqn, variable, documents)
            for fqn, variable in self.dataset.all_variables.items()
            if plan.variables[fqn].path not in documents.kept
        }
        identity = None
        copies: dict[str, str] = {}
        if not self.in_attributes:
            identity = self.known.identity or new_identity(self.dataset, self.content(records, keys, plan))
            self.identify(identity, records, plan)
            copies = self.copies(records)
        for fqn, binding in plan.variables.items():
            node = plan.nodes[binding.path]
            assert isinstance(node, ArrayMetadata)
            if fqn not in keys:
                if fqn in self.known.fixed:
                    continue
                plan.nodes[binding.path] = _with_copy(node, copies.get(fqn))
                continue
            if fqn in copies:
                keys[fqn][COPY_KEY] = copies[fqn]
            plan.nodes[binding.path] = self.array_metadata(node, keys[fqn], identity)
        return replace(plan, identity=identity)

    # -- identity

    def content(
        self, records: dict[str, dict[str, Any]], keys: dict[str, dict[str, Any]], plan: Plan
    ) -> list[Any]:
        """All that the documents say, as JSON from which a new identity is made."""
        nodes = [
            [path, node.attributes, list(node.shape) if isinstance(node, ArrayMetadata) else None]
            for path, node in plan.nodes.items()
        ]
        return [records, keys, nodes]

    def identify(self, identity: str, records: dict[str, dict[str, Any]], plan: Plan) -> None:
        """Name the dataset, and the group itself, in the record of each group."""
        for fqn, record in records.items():
            if fqn == "/":
                record[SUPERBLOCK_KEY] = {
                    **record[SUPERBLOCK_KEY],
                    MARK: CONVENTION["uuid"],
                    DATASET: identity,
                }
            else:
                record[GROUP_KEY] = {FQN: fqn, DATASET: identity, **record.get(GROUP_KEY, {})}
            path = plan.groups[fqn]
            plan.nodes[path] = self.group_metadata(fqn, plan.nodes[path], record)

    # -- groups

    def group_keys(self, fqn: str, group: Group, documents: Documents, path: str) -> dict[str, Any]:
        keys: dict[str, Any] = {}
        if fqn == "/":
            keys[SUPERBLOCK_KEY] = {"version": VERSION}
            if self.dataset.format is not None:
                keys[SUPERBLOCK_KEY]["format"] = self.dataset.format
            if self.options.nzug:
                keys[SUPERBLOCK_KEY]["nzug"] = True
        info = self.group_info(fqn, group, documents.plan, path)
        if info:
            keys[GROUP_KEY] = info
        if path in documents.attributes:
            keys[ATTR_KEY] = documents.attributes[path]
        return keys

    def group_info(self, fqn: str, group: Group, plan: Plan, path: str) -> dict[str, Any]:
        info: dict[str, Any] = {}
        if fqn != "/" and path.rpartition("/")[2] != group.name:
            info["name"] = group.name
        if group.dimensions:
            info["dimensions"] = [_dimension(d) for d in group.dimensions]
        if group.types:
            info["types"] = types_to_json(group.types)
        arrays = [plan.variables[join_fqn(fqn, v.name)].path for v in group.variables]
        groups = [plan.groups[join_fqn(fqn, g.name)] for g in group.groups]
        for key, paths in (("arrays", arrays), ("groups", groups)):
            if paths:
                info[key] = [p.rpartition("/")[2] for p in paths]
        return info

    def group_metadata(
        self, fqn: str, node: ArrayMetadata | GroupMetadata, keys: dict[str, Any]
    ) -> GroupMetadata:
        plain = dict(node.attributes)
        if fqn == "/" and self.options.nzug:
            plain["conventions"] = _nzug_conventions(self.dataset)
        if fqn == "/" and self.options.zarr_conventions:
            plain[CONVENTION_KEY] = [dict(CONVENTION)]
        extensions = (_extension_entry(keys),) if self.options.extensions and keys else ()
        return GroupMetadata({**plain, **keys}, extensions)

    def copies(self, records: dict[str, dict[str, Any]]) -> dict[str, str]:
        """The text of the copies that each array holds: the first of a group that of the group."""
        variables = [fqn for fqn in self.dataset.all_variables if fqn not in self.known.fixed]
        if not variables:
            return {}
        held: dict[str, dict[str, Any]] = {}
        for fqn, group in self.dataset.all_groups.items():
            if records[fqn]:
                own = [f for v in group.variables if (f := join_fqn(fqn, v.name)) not in self.known.fixed]
                at = own[0] if own else variables[0]
                held.setdefault(at, {})[fqn] = _without_growing_sizes(records[fqn])
        return {
            at: json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            for at, record in held.items()
        }

    # -- arrays

    def array_keys(self, fqn: str, variable: Variable, documents: Documents) -> dict[str, Any]:
        binding = documents.plan.variables[fqn]
        info: dict[str, Any] = {}
        if binding.path.rpartition("/")[2] != variable.name:
            info["name"] = variable.name
        if variable.dimensions:
            info["dimension_references"] = list(variable.dimensions)
            unlimited = [ref for ref in variable.dimensions if self.dataset.is_unlimited(ref)]
            if unlimited and not self.in_attributes:
                info["unlimited"] = list(dict.fromkeys(unlimited))
        if simple_type(binding.encoding.data_type) != variable.type:
            info["type"] = type_name(variable.type)
        if not self.in_attributes:
            types = _types_of(variable)
            if types:
                info["types"] = types_to_json(types, full_names=True)
        node = documents.plan.nodes[binding.path]
        assert isinstance(node, ArrayMetadata)
        info.update(_storage_info(variable.storage, node.chunk_shape[: len(variable.dimensions)]))
        keys: dict[str, Any] = {ARRAY_KEY: info} if info else {}
        if binding.path in documents.attributes:
            keys[ATTR_KEY] = documents.attributes[binding.path]
        return keys

    def array_metadata(
        self, node: ArrayMetadata, keys: dict[str, Any], identity: str | None
    ) -> ArrayMetadata:
        if identity is None:
            return node.with_attributes({**node.attributes, **keys}) if keys else node
        extensions = (_extension_entry(keys),) if self.options.extensions and keys else ()
        return replace(node, extra={EXTENSION_NAME: _array_object(keys, identity)}, extensions=extensions)


def _array_object(keys: dict[str, Any], identity: str) -> dict[str, Any]:
    """The top-level object that carries the keys of an array."""
    return {
        "name": EXTENSION_NAME,
        "must_understand": False,
        "configuration": {"version": VERSION, DATASET: identity, **keys},
    }


def _extension_entry(keys: dict[str, Any]) -> NamedConfig:
    """The entry of ZEP 10's list that carries the keys of a node."""
    return NamedConfig(EXTENSION_NAME, dict(keys), must_understand=False)


def _dimension(dimension: Dimension) -> dict[str, Any]:
    info: dict[str, Any] = {"name": dimension.name, "size": dimension.size}
    if dimension.unlimited:
        info["unlimited"] = True
    return info


def _without_growing_sizes(keys: dict[str, Any]) -> dict[str, Any]:
    """A record without the sizes that change while a dataset grows: its copy is then to be left alone."""
    info = keys.get(GROUP_KEY, {})
    if not any("unlimited" in d for d in info.get("dimensions", ())):
        return keys
    dimensions = [
        {k: v for k, v in d.items() if k != "size" or "unlimited" not in d} for d in info["dimensions"]
    ]
    return {**keys, GROUP_KEY: {**info, "dimensions": dimensions}}


def _with_copy(node: ArrayMetadata, text: str | None) -> ArrayMetadata:
    """An array that stays as it is, with the right copy of its group's record, or without one."""
    if not has_object(node):
        return node
    own = node.extra[EXTENSION_NAME]
    configuration = own.get("configuration") if isinstance(own, dict) else None
    if not isinstance(configuration, dict) or configuration.get(COPY_KEY) == text:
        return node
    configuration = dict(configuration)
    configuration.pop(COPY_KEY, None)
    if text is not None:
        configuration[COPY_KEY] = text
    return replace(
        node,
        extra={**node.extra, EXTENSION_NAME: {**own, "configuration": configuration}},
    )


def _types_of(variable: Variable) -> Iterable[UserType]:
    """The user-defined types that an array and its attributes need, each behind those that it needs itself."""
    found: dict[str, UserType] = {}
    for type_ in (variable.type, *(a.type for a in variable.attributes)):
        if isinstance(type_, UserType):
            found.update({t.fqn: t for t in walk_types(type_) if isinstance(t, UserType)})
    return found.values()


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


def plan_draft_2019(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
) -> Plan:
    """Make the documents; see :meth:`nczarr.mapping.dialect.Dialect.plan`.

    The draft has attributes, so NCZarr's keys stand there and hold the whole model; its list of extensions has
    another form, and it has no names of dimensions.
    """
    plan = plan_keys_in_attributes(dataset, replace(options, extensions=False), names, known)
    return replace(
        plan,
        nodes={
            path: replace(
                node, chunk_key_encoding=CHUNK_KEYS, dimension_names=None, codecs=v2_codecs(node.codecs)
            )
            if isinstance(node, ArrayMetadata)
            else node
            for path, node in plan.nodes.items()
        },
    )
