"""Write NCZarr on Zarr v3: from the model to documents (``docs/spec/nczarr-v3.md``)."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from nczarr import model
from nczarr.dataclass import dataclass
from nczarr.json_values import JsonObject, member
from nczarr.mapping.dialect import KeptNodes, Metadata, Plan, array_at
from nczarr.mapping.nczarr3 import keys as spec
from nczarr.mapping.nczarr3.keys import ARRAY_KEY, COPY_KEY, GROUP_KEY, SUPERBLOCK_KEY
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.plain.write import DocumentPlanner, for_v2
from nczarr.mapping.values.attributes import ATTR_KEY
from nczarr.mapping.values.declarations import type_name, types_to_json
from nczarr.mapping.values.encodings import simple_type
from nczarr.model import Dataset, Group, UserType, Variable, join_fqn
from nczarr.zarr import ArrayMetadata, GroupMetadata, NamedConfig

#: The type names of netCDF that NZ-1.0 has, too.
_NUMBERS = frozenset(t.zarr_name for t in model.PRIMITIVES.values() if t.dtype.kind in "iuf")


def plan_nczarr_v3(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: KeptNodes | None = None
) -> Plan:
    """Plan the documents; see :meth:`nczarr.mapping.dialect.Dialect.plan`."""
    known = known or KeptNodes()

    def is_current(metadata: ArrayMetadata) -> bool:
        if options.keys_in_attributes:
            return not spec.has_object(metadata) and ARRAY_KEY in metadata.attributes
        own = spec.has_object(metadata) and known.identity is not None
        return own and spec.dataset_of(metadata) == known.identity

    # Arrays are rewritten if their keys have an old form, or belong to no dataset.
    arrays = {f: entry for f, entry in known.arrays.items() if f in known.fixed or is_current(entry[0])}
    return _NCZarr3Planner(dataset, options, names, replace(known, arrays=arrays)).planned()


def plan_keys_in_attributes(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: KeptNodes | None = None
) -> Plan:
    """Plan documents with all keys as attributes, for versions of Zarr without another place for them."""
    return _NCZarr3Planner(dataset, options, names, known or KeptNodes(), in_attributes=True).planned()


def plan_draft_2019(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: KeptNodes | None = None
) -> Plan:
    """Plan the documents; see :meth:`nczarr.mapping.dialect.Dialect.plan`.

    The draft has attributes, which contain NCZarr's keys with the whole model. Its list of extensions has another form,
    and it has no names of dimensions.
    """
    plan = plan_keys_in_attributes(dataset, replace(options, extensions=False), names, known)
    nodes = {p: for_v2(node) if node.is_array else node for p, node in plan.nodes.items()}
    return replace(plan, nodes=nodes)


@dataclass
class _NCZarr3Planner(DocumentPlanner):
    in_attributes: bool = False

    def planned(self) -> Plan:
        plan = super().planned()
        records = {fqn: self.group_keys(fqn, group) for fqn, group in self.dataset.all_groups.items()}
        keys = {
            fqn: self.array_keys(fqn, variable)
            for fqn, variable in self.dataset.all_variables.items()
            if plan.variables[fqn].path not in self.kept
        }
        identity = None
        copies: dict[str, str] = {}
        if not self.in_attributes:
            nodes = [
                [path, node.attributes, list(node.shape) if node.is_array else None]
                for path, node in plan.nodes.items()
            ]
            content = [records, keys, nodes]
            identity = self.known.identity or spec.new_identity(self.dataset, content)
            self.identify(identity, records)
            copies = self.copies(records)
        for fqn, record in records.items():
            path = plan.groups[fqn]
            plan.nodes[path] = self.group_metadata(fqn, plan.nodes[path], record)
        for fqn, binding in plan.variables.items():
            node = array_at(plan.nodes, binding.path)
            if fqn in keys:
                if fqn in copies:
                    keys[fqn][COPY_KEY] = copies[fqn]
                plan.nodes[binding.path] = self.array_metadata(node, keys[fqn], identity)
            elif fqn not in self.known.fixed:
                plan.nodes[binding.path] = _with_copy(node, copies.get(fqn))
        return replace(plan, identity=identity)

    def identify(self, identity: str, records: dict[str, JsonObject]) -> None:
        """Add the identity of the dataset, and the FQN of the group, to the record of each group."""
        for fqn, record in records.items():
            if fqn == "/":
                # A group that is copied alone tells by these what it was.
                own = {spec.MARK: spec.CONVENTION["uuid"], spec.DATASET: identity}
                record[SUPERBLOCK_KEY] = {**record[SUPERBLOCK_KEY], **own}
            else:
                record[GROUP_KEY] = {spec.FQN: fqn, spec.DATASET: identity, **record.get(GROUP_KEY, {})}

    # -- groups

    def group_keys(self, fqn: str, group: Group) -> JsonObject:
        keys: JsonObject = {}
        path = self.plan.groups[fqn]
        if fqn == "/":
            keys[SUPERBLOCK_KEY] = {"version": spec.VERSION}
            if self.dataset.format is not None:
                keys[SUPERBLOCK_KEY]["format"] = self.dataset.format
            if self.options.nz:
                keys[SUPERBLOCK_KEY]["nz"] = True
            if self.options.keys_in_attributes:
                keys[SUPERBLOCK_KEY][spec.ARRAY_CARRIER] = spec.IN_ATTRIBUTES
            if self.dataset.sources:
                own = [asdict(source) for source in self.dataset.sources]
                # None is no member in the schema of the format.
                keys[SUPERBLOCK_KEY]["sources"] = [
                    {name: value for name, value in source.items() if value is not None} for source in own
                ]
            joined = {n: v for n, v in asdict(self.dataset.joined).items() if v}
            if joined:
                keys[SUPERBLOCK_KEY]["joined"] = joined
        info, annotations = self.group_info(fqn, group, path), self.annotations.get(path, {})
        if self.options.nz and annotations and annotations != (numbers := _numbers_in(annotations)):
            # NZ-1.0 knows the types of numbers only, so that the whole is in the record.
            info[ATTR_KEY], annotations = annotations, numbers
        if info:
            keys[GROUP_KEY] = info
        if annotations:
            keys[ATTR_KEY] = annotations
        return keys

    def group_info(self, fqn: str, group: Group, path: str) -> JsonObject:
        info: JsonObject = {}
        # Nodes whose name Zarr forbids, or a file system folds, have another one in the store.
        if fqn != "/" and path.rpartition("/")[2] != group.name:
            info["name"] = group.name
        if group.dimensions:
            info["dimensions"] = [
                {"name": d.name, "size": d.size, **({"unlimited": True} if d.unlimited else {})}
                for d in group.dimensions
            ]
        if group.types:
            info["types"] = types_to_json(group.types)
        return info | {key: names for key, names in self.children(fqn, group).items() if names}

    def group_metadata(self, fqn: str, node: Metadata, keys: JsonObject) -> GroupMetadata:
        plain = dict(node.attributes)
        declared = [dict(spec.NZ_CONVENTION)] if self.options.nz else []
        if fqn == "/" and self.options.zarr_conventions:
            declared.append(dict(spec.CONVENTION))
        if self.options.nz:
            plain["conventions"] = _nz_conventions(self.dataset.all_groups[fqn])
        if declared:
            plain[spec.CONVENTION_KEY] = declared
        return GroupMetadata({**plain, **keys}, self.extensions(keys))

    def extensions(self, keys: JsonObject) -> tuple[NamedConfig, ...]:
        """Return ZEP 10's list with the keys of a node."""
        if not self.options.extensions or not keys:
            return ()
        return (NamedConfig(spec.EXTENSION_NAME, dict(keys), must_understand=False),)

    def copies(self, records: dict[str, JsonObject]) -> dict[str, str]:
        """Return the text of the copies in each array: the first array of a group holds the copy of its record."""
        # An array that is kept as it is gets no copy, which would rewrite its document.
        variables = [fqn for fqn in self.dataset.all_variables if fqn not in self.known.fixed]
        if not variables:
            return {}
        copies: dict[str, JsonObject] = {}
        for fqn, group in self.dataset.all_groups.items():
            if records[fqn]:
                own = [f for v in group.variables if (f := join_fqn(fqn, v.name)) not in self.known.fixed]
                holder = own[0] if own else variables[0]
                # tensorstore sorts objects of JSON when it rewrites a document, and keeps text.
                copies.setdefault(holder, {})[fqn] = _without_growing_sizes(records[fqn])
        return {
            holder: json.dumps(copy, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            for holder, copy in copies.items()
        }

    # -- arrays

    def array_keys(self, fqn: str, variable: Variable) -> JsonObject:
        binding = self.plan.variables[fqn]
        info: JsonObject = {}
        if binding.path.rpartition("/")[2] != variable.name:
            info["name"] = variable.name
        if variable.dimensions:
            info["dimension_references"] = list(variable.dimensions)
            # An array whose group has lost its keys is restored by these.
            unlimited = [ref for ref in variable.dimensions if self.dataset.is_unlimited(ref)]
            if unlimited and not self.in_attributes:
                info["unlimited"] = list(dict.fromkeys(unlimited))
        if simple_type(binding.encoding.data_type) != variable.type:
            info["type"] = type_name(variable.type)
        # An array whose group has lost its types is read by these.
        types = {} if self.in_attributes else _types_of(variable)
        if types:
            info["types"] = types_to_json(types.values(), full_names=True)
        node = array_at(self.plan.nodes, binding.path)
        info.update(_storage_info(variable.storage, node.shapes[0][: len(variable.dimensions)]))
        keys: JsonObject = {ARRAY_KEY: info} if info else {}
        if binding.path in self.annotations:
            keys[ATTR_KEY] = self.annotations[binding.path]
        return keys

    def array_metadata(self, node: ArrayMetadata, keys: JsonObject, identity: str | None) -> ArrayMetadata:
        if identity is None:
            return node.with_attributes({**node.attributes, **keys}) if keys else node
        own = {
            "name": spec.EXTENSION_NAME,
            "must_understand": False,
            "configuration": {"version": spec.VERSION, spec.DATASET: identity, **keys},
        }
        attributes = node.attributes
        if self.options.nz:
            attributes = {**attributes, spec.CONVENTION_KEY: [dict(spec.NZ_CONVENTION)]}
            # Readers of NZ-1.0 look here: a float32 scale_factor was a double for them.
            if numbers := _numbers_in(keys.get(ATTR_KEY, {})):
                attributes[ATTR_KEY] = numbers
        extra: JsonObject = {spec.EXTENSION_NAME: own}
        # zarr-python before 3.1.4 refuses arrays with a top-level object.
        if self.options.keys_in_attributes:
            attributes, extra = {**attributes, **keys}, {}
        made = node.with_attributes(attributes, extra)
        return replace(made, extensions=self.extensions(keys)) if self.options.extensions else made


def _without_growing_sizes(keys: JsonObject) -> JsonObject:
    """Return a record without the sizes of unlimited dimensions, so that its copy does not change when they grow."""
    info = member(keys, GROUP_KEY)
    if not any("unlimited" in d for d in info.get("dimensions", ())):
        return keys
    dimensions = [
        {k: v for k, v in d.items() if k != "size" or "unlimited" not in d} for d in info["dimensions"]
    ]
    return {**keys, GROUP_KEY: {**info, "dimensions": dimensions}}


def _with_copy(node: ArrayMetadata, text: str | None) -> ArrayMetadata:
    """Return an otherwise unchanged array with the current copy of its group's record, or without a copy."""
    own = member(node.extra, spec.EXTENSION_NAME)
    if not own and ARRAY_KEY in node.attributes:
        attributes = {k: v for k, v in node.attributes.items() if k != COPY_KEY}
        return node.with_attributes(attributes | ({} if text is None else {COPY_KEY: text}))
    before = member(own, "configuration")
    # An unchanged document is not written again.
    if not before or before.get(COPY_KEY) == text:
        return node
    configuration = {k: v for k, v in before.items() if k != COPY_KEY}
    if text is not None:
        configuration[COPY_KEY] = text
    return replace(node, extra={**node.extra, spec.EXTENSION_NAME: {**own, "configuration": configuration}})


def _types_of(variable: Variable) -> dict[str, UserType]:
    """Return the user-defined types of an array and its attributes by FQN, each after the types that it contains."""
    found: dict[str, UserType] = {}
    for type_ in (variable.type, *(a.type for a in variable.attributes)):
        if type_.is_user_defined:
            found.update({t.fqn: t for t in model.walk_types(type_) if isinstance(t, UserType)})
    return found


def _storage_info(storage: model.Storage, chunks: tuple[int, ...]) -> JsonObject:
    """Return the hints that the array lacks; `chunks` is the chunk shape of the array."""
    info: JsonObject = {}
    if storage.layout is not None:
        info["storage"] = storage.layout
    if storage.layout == "chunked" and storage.chunk_shape is None:
        info["chunk_shape"] = None
    elif storage.chunk_shape is not None and (storage.layout != "chunked" or storage.chunk_shape != chunks):
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


def _numbers_in(annotations: JsonObject) -> JsonObject:
    """Return the annotations that NZ-1.0 has: the types of attributes of numbers; empty if there are none."""
    types = member(annotations, "types")
    numbers = {name: type_ for name, type_ in types.items() if type_ in _NUMBERS}
    return {"types": numbers} if numbers else {}


def _nz_conventions(group: Group) -> str:
    """Return NZ-1.0 and the declared conventions of a group."""
    declared = group.attribute.get("conventions") or group.attribute.get("Conventions")
    words = [spec.NZ]
    if declared is not None and declared.type in (model.CHAR, model.STRING):
        words += declared.text.replace("\0", "").encode("utf-8", "replace").decode().split()
    return " ".join(dict.fromkeys(words))
