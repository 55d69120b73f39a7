"""Check the documents of NCZarr on Zarr v3 for the constraints that reading does not need.

Reading reports the others: :mod:`nczarr.mapping.constraints` is the list of all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from nczarr import model
from nczarr.json_values import JsonObject, as_list, as_object, as_text, member, show, texts_in
from nczarr.mapping.dialect import Reading, array_at
from nczarr.mapping.findings import Finding, make_finding
from nczarr.mapping.nczarr3 import keys as spec
from nczarr.mapping.node_names import PREFIX, is_forbidden, unescape_name
from nczarr.mapping.plain.write import Labels
from nczarr.mapping.values.attributes import ATTR_KEY
from nczarr.zarr import ArrayMetadata, Hierarchy

#: Findings that explain why a group has no keys.
_LOST = ("keys-removed", "record-lost", "record-damaged")


def check_documents(hierarchy: Hierarchy, reading: Reading) -> Iterator[Finding]:
    """Yield the findings of a dataset that reading does not report."""
    yield from _check_version(hierarchy, reading)
    if _is_current(hierarchy, reading):
        yield from _Members(hierarchy, reading).check()
    for fqn, path in reading.groups.items():
        group = hierarchy.nodes[path]
        if not group.is_array:
            yield from _check_attributes(fqn, group.attributes, spec.group_keys(group)[0])
    for fqn, type_ in reading.dataset.all_types.items():
        if isinstance(type_, model.EnumType):
            if not type_.members:
                yield make_finding("enum-empty", fqn, "the enum has no members")
            for name, count in Counter(name for name, _ in type_.members).items():
                if count > 1:
                    yield make_finding("enum-duplicate", fqn, f"{count} members are named {name!r}")
    for fqn, type_ in model.forward_references(reading.dataset):
        what = f"it uses the type {type_.fqn} before its declaration, which is impossible in CDL and netCDF-4 files"
        yield make_finding("type-forward", fqn, what)
    yield from _check_names(reading.dataset)
    labels = Labels(reading.dataset)
    # One fault is one finding.
    faulty = {finding.where for finding in reading.findings if finding.severity == "error"}
    for fqn, variable in reading.dataset.all_variables.items():
        metadata = array_at(hierarchy.nodes, reading.variables[fqn].path)
        keys = spec.array_keys(metadata)[0]
        yield from _check_attributes(fqn, metadata.attributes, keys)
        if (keys or spec.has_object(metadata)) and fqn not in faulty:
            yield from _check_array(fqn, variable, metadata, reading, labels)


# --- the identity, and the members that a writer has to write


def _superblock(hierarchy: Hierarchy) -> JsonObject:
    root = hierarchy.nodes[""]
    assert not root.is_array
    return member(spec.group_keys(root)[0], spec.SUPERBLOCK_KEY)


def _is_current(hierarchy: Hierarchy, reading: Reading) -> bool:
    """Return whether the keys are those of this version: in earlier ones, no node names a dataset."""
    superblock = _superblock(hierarchy)
    if not superblock:  # another program has removed it
        return reading.identity is not None
    return hierarchy.layout == "v3" and not spec.is_earlier(superblock.get("version"))


def _check_version(hierarchy: Hierarchy, reading: Reading) -> Iterator[Finding]:
    version = _superblock(hierarchy).get("version")
    arrays = {b.path: array_at(hierarchy.nodes, b.path) for b in reading.variables.values()}
    old = [path for path, a in arrays.items() if not spec.has_object(a) and spec.array_keys(a)[0]]
    # zarr-python 3.0.0 to 3.1.3 refuse arrays with the object: portable copies have the keys elsewhere.
    if reading.keys_in_attributes:
        old = []
    if hierarchy.layout == "v3" and (spec.is_earlier(version) or old):
        what = f"the keys are written as in version {version or '3.0.0'}"
        if old and version == spec.VERSION:
            what = f"the array {old[0]!r} has its keys in the place of version 3.0.0"
        yield make_finding("version-old", "/", what)


class _Members:
    """The members with which nodes say what they are: identity, FQN, name, and the form of the object."""

    def __init__(self, hierarchy: Hierarchy, reading: Reading) -> None:
        self.hierarchy, self.reading = hierarchy, reading
        self.paths = {path: fqn for fqn, path in reading.groups.items()}
        self.lost = {f.where for f in reading.findings if f.code in _LOST}

    def check(self) -> Iterator[Finding]:
        superblock = _superblock(self.hierarchy)
        if superblock:
            if superblock.get(spec.MARK) != spec.CONVENTION["uuid"]:
                what = f"{spec.SUPERBLOCK_KEY}.{spec.MARK} is not {spec.CONVENTION['uuid']}"
                yield make_finding("convention-missing", "/", what)
            yield from self.identity("/", superblock, spec.SUPERBLOCK_KEY)
        for path, fqn in self.paths.items():
            if path and path not in self.reading.foreign:
                yield from self.group(path, fqn)
        for fqn, binding in self.reading.variables.items():
            if binding.path not in self.reading.foreign:
                yield from self.array(binding.path, fqn)

    def group(self, path: str, fqn: str) -> Iterator[Finding]:
        group = self.hierarchy.nodes[path]
        assert not group.is_array
        keys = spec.group_keys(group)[0]
        if not keys and (fqn in self.lost or not self.is_listed(path, "groups")):
            return
        record = member(keys, spec.GROUP_KEY)
        if record.get(spec.FQN) != self.recorded(path):
            what = f"{spec.GROUP_KEY}.{spec.FQN} is {show(record.get(spec.FQN))}"
            yield make_finding("fqn-wrong", fqn, what)
        yield from self.identity(fqn, record, spec.GROUP_KEY)
        yield from self.name(path, fqn, record)

    def array(self, path: str, fqn: str) -> Iterator[Finding]:
        metadata = array_at(self.hierarchy.nodes, path)
        keys, wrong = spec.array_keys(metadata)
        if wrong:  # an unreadable key violates no further constraint
            return
        if not spec.has_object(metadata):
            if not keys and self.is_listed(path, "arrays"):
                what = "the array has no object 'nczarr': another program has replaced it; it is read as plain Zarr"
                yield make_finding("object-missing", fqn, what)
            return
        configuration, what = spec.first_object(metadata)
        if what:
            yield make_finding("object-damaged", fqn, f"the object 'nczarr' {what}")
        yield from self.identity(fqn, configuration, f"{spec.EXTENSION_NAME}.configuration")
        info = member(keys, spec.ARRAY_KEY)
        yield from self.name(path, fqn, info)
        yield from self.unlimited(fqn, info)

    def identity(self, fqn: str, keys: JsonObject, where: str) -> Iterator[Finding]:
        value = keys.get(spec.DATASET)
        if not as_text(value):
            yield make_finding("dataset-missing", fqn, f"{where}.{spec.DATASET} is missing")

    def name(self, path: str, fqn: str, info: JsonObject) -> Iterator[Finding]:
        node = path.rpartition("/")[2]
        if node.startswith(PREFIX):
            if "name" not in info:
                what = f"the record has no name, and the name of the node is {node!r}"
                yield make_finding("name-missing", fqn, what)
        elif is_forbidden(node):
            yield make_finding("node-name", fqn, f"the node name {node!r} is not escaped")

    def unlimited(self, fqn: str, info: JsonObject) -> Iterator[Finding]:
        dataset, listed = self.reading.dataset, info.get("unlimited", [])
        dimensions, references = dataset.all_dimensions, info.get("dimension_references")
        if not isinstance(references, list) and dataset.all_variables[fqn].dimensions:
            return  # unreadable references violate no further constraint
        names = texts_in(references)
        lost = {
            r for r in names if r not in dimensions
        }  # its group is missing, or its lengths are in conflict
        expected = {r for r in names if r in dimensions and dimensions[r].unlimited}
        if not isinstance(listed, list) or {str(r) for r in listed} - lost != expected:
            what = f"{spec.ARRAY_KEY}.unlimited is {show(listed)}; the groups declare {sorted(expected)}"
            yield make_finding("unlimited-wrong", fqn, what)

    def is_listed(self, path: str, kind: str) -> bool:
        """Return whether the own record of a group lists the node."""
        above, _, node = path.rpartition("/")
        group = self.hierarchy.nodes[above]
        record = member(spec.group_keys(group)[0], spec.GROUP_KEY) if not group.is_array else {}
        return node in texts_in(record.get(kind))

    def recorded(self, path: str) -> str:
        """Return the FQN of a group by the names in the records, of which two may be equal."""
        if not path:
            return model.ROOT
        above, _, node = path.rpartition("/")
        group = self.hierarchy.nodes[path]
        record = member(spec.group_keys(group)[0], spec.GROUP_KEY) if not group.is_array else {}
        name = record.get("name")
        if not isinstance(name, str) or model.check_name(name):
            name = model.split_fqn(self.paths[path])[1] if not record else unescape_name(node) or node
        return model.join_fqn(self.recorded(above), name)


def _check_names(dataset: model.Dataset) -> Iterator[Finding]:
    """Yield names that are not in Unicode's form NFC, which writers have to write."""
    for fqn, group in dataset.all_groups.items():
        named = [(fqn, a.name) for a in group.attributes]
        inside = [
            *(d.name for d in group.dimensions),
            *(t.name for t in group.types),
            *(g.name for g in group.groups),
        ]
        named += [(model.join_fqn(fqn, name), name) for name in inside]
        for variable in group.variables:
            where = model.join_fqn(fqn, variable.name)
            named += [(where, variable.name), *((where, a.name) for a in variable.attributes)]
        for type_ in group.types:
            if isinstance(type_, model.CompoundType):
                named += [(type_.fqn, f.name) for f in type_.fields]
            if isinstance(type_, model.EnumType):
                named += [(type_.fqn, name) for name, _ in type_.members]
        for where, name in named:
            if model.normalize_name(name) != name:
                yield make_finding("name-not-nfc", where, f"the name {name!r} is not in Unicode's form NFC")


def _check_attributes(fqn: str, plain: JsonObject, keys: JsonObject) -> Iterator[Finding]:
    order = member(keys, ATTR_KEY).get("order")
    for name, count in Counter(texts_in(order)).items():
        if count > 1:
            yield make_finding("order-duplicate", fqn, f"{ATTR_KEY}.order has {name!r} {count} times")
    for name, value in plain.items():
        if _has_bare_number(value):
            what = f"attribute {name!r} has NaN or an infinity as a bare word, which is invalid JSON"
            yield make_finding("bare-nan", fqn, what)


def _has_bare_number(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    return any(map(_has_bare_number, as_list(value) or as_object(value).values()))


def _check_array(
    fqn: str, variable: model.Variable, metadata: ArrayMetadata, reading: Reading, labels: Labels
) -> Iterator[Finding]:
    encoding = reading.variables[fqn].encoding
    if encoding.type != variable.type:
        return
    expected = encoding.encode_fill(model.fill_value_of(variable))
    dtype = metadata.data_type.dtype
    if not model.same_values(dtype.type(expected) if dtype.kind in "iuf" else expected, metadata.fill):
        what = f"fill_value is {metadata.fill!r}; the rule requires {expected!r}: unwritten values differ from netCDF"
        yield make_finding("fill-value", fqn, what)
    names = labels.of(model.split_fqn(fqn)[0], variable.dimensions, encoding.inner_shape)
    found = metadata.dimension_names
    # The rule fixes the names of dimensions only; other labels must not be one of these.
    if found is None or any(
        f != n and (n in labels.names or f is None or f in labels.names or found.count(f) > 1)
        for f, n in zip(found, names, strict=True)
    ):
        sides = ["missing" if n is None else ", ".join(map(str, n)) or "none" for n in (found, names)]
        yield make_finding("labels", fqn, f"dimension_names are {sides[0]}; the rule requires {sides[1]}")
