"""Check documents against the rules of NCZarr on Zarr v3 that reading does not need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from nczarr.mapping.dialect import Reading
from nczarr.mapping.findings import Finding
from nczarr.mapping.nczarr3.keys import (
    SUPERBLOCK_KEY,
    VERSION,
    array_keys,
    group_keys,
    has_object,
)
from nczarr.mapping.plain.documents import Labels
from nczarr.mapping.values.attributes import ATTR_KEY
from nczarr.model import EnumType, Variable, fill_value_of, forward_references, same_values, split_fqn
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy


def validate(hierarchy: Hierarchy, reading: Reading) -> Iterator[Finding]:
    """Yield the rules that a hierarchy breaks, beside what its reading found."""
    yield from _version(hierarchy, reading)
    for fqn, path in reading.groups.items():
        group = hierarchy.nodes[path]
        if isinstance(group, GroupMetadata):
            yield from _attributes(fqn, group.attributes, group_keys(group)[0].get(ATTR_KEY))
    for fqn, type_ in reading.dataset.all_types.items():
        if isinstance(type_, EnumType):
            yield from _enum(fqn, type_)
    for fqn, type_ in forward_references(reading.dataset):
        what = f"it uses the type {type_.fqn} before the group that declares it: CDL and netCDF-4 files cannot say so"
        yield Finding("type-forward", fqn, what, "note")
    labels = Labels(reading.dataset)
    faulty = {finding.where for finding in reading.findings if finding.severity == "error"}
    for fqn, variable in reading.dataset.all_variables.items():
        metadata = hierarchy.nodes[reading.variables[fqn].path]
        assert isinstance(metadata, ArrayMetadata)
        keys = array_keys(metadata)[0]
        yield from _attributes(fqn, metadata.attributes, keys.get(ATTR_KEY))
        if keys and fqn not in faulty:
            yield from _array(fqn, variable, metadata, reading, labels)


def _version(hierarchy: Hierarchy, reading: Reading) -> Iterator[Finding]:
    root = hierarchy.nodes[""]
    assert isinstance(root, GroupMetadata)
    keys = group_keys(root)[0]
    version = keys.get(SUPERBLOCK_KEY, {}).get("version")
    old = [
        path
        for path in (b.path for b in reading.variables.values())
        if isinstance(node := hierarchy.nodes[path], ArrayMetadata)
        and not has_object(node)
        and array_keys(node)[0]
    ]
    if hierarchy.layout == "v3" and ((isinstance(version, str) and version < VERSION) or old):
        what = f"the keys are written as version {version or '3.0.0'} has them"
        if old and version == VERSION:
            what = f"the array {old[0]!r} has its keys where version 3.0.0 has them"
        yield Finding("version-old", "/", what, "note", f"write them as version {VERSION} does")


def _enum(fqn: str, type_: EnumType) -> Iterator[Finding]:
    if not type_.members:
        yield Finding("enum-empty", fqn, "the enum has no members", "warning")
    for name, count in Counter(name for name, _ in type_.members).items():
        if count > 1:
            yield Finding("enum-duplicate", fqn, f"{count} members are named {name!r}", "error")


def _attributes(fqn: str, plain: dict[str, Any], info: Any) -> Iterator[Finding]:
    order = info.get("order") if isinstance(info, dict) else None
    if isinstance(order, list):
        for name, count in Counter(n for n in order if isinstance(n, str)).items():
            if count > 1:
                what = f"{ATTR_KEY}.order has {name!r} {count} times"
                yield Finding("order-duplicate", fqn, what, "note", "write it once")
    for name, value in plain.items():
        if _has_bare_number(value):
            what = f"attribute {name!r} has NaN or an infinity as a bare word, which is no JSON"
            yield Finding("bare-nan", fqn, what, "warning", "write it as text")


def _has_bare_number(value: Any) -> bool:
    if isinstance(value, float):
        return value != value or value in (float("inf"), float("-inf"))
    if isinstance(value, list):
        return any(map(_has_bare_number, value))
    return isinstance(value, dict) and any(map(_has_bare_number, value.values()))


def _array(
    fqn: str, variable: Variable, metadata: ArrayMetadata, reading: Reading, labels: Labels
) -> Iterator[Finding]:
    encoding = reading.variables[fqn].encoding
    if encoding.type != variable.type:
        return
    expected = encoding.encode_fill(fill_value_of(variable))
    if not same_values(
        metadata.data_type.dtype.type(expected) if _is_number(metadata) else expected, metadata.fill
    ):
        yield Finding(
            "fill-value",
            fqn,
            f"fill_value is {metadata.fill!r}; the rule gives {expected!r}: what was never written reads otherwise "
            "than in netCDF",
            "warning",
        )
    names = labels.of(split_fqn(fqn)[0], variable.dimensions, encoding.inner_shape)
    if metadata.dimension_names != names:
        what = f"dimension_names are {_listed(metadata.dimension_names)}; the rule gives {_listed(names)}"
        yield Finding("labels", fqn, what, "note", "write them")


def _is_number(metadata: ArrayMetadata) -> bool:
    return metadata.data_type.dtype.kind in "iuf"


def _listed(names: Any) -> str:
    return "missing" if names is None else ", ".join(map(str, names)) or "none"
