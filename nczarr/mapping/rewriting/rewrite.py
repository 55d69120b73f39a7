"""Write all documents of a dataset anew from what was understood of them; values stay where they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nczarr.errors import MetadataError
from nczarr.mapping.dialect import Known, Plan, Reading
from nczarr.mapping.nczarr3.keys import GROUP_KEY, array_keys, group_keys
from nczarr.mapping.rewriting.changed import put_changed
from nczarr.mapping.rewriting.keeping import Before, keep_foreign
from nczarr.mapping.values.attributes import ATTR_KEY, RESERVED, decode_attributes
from nczarr.mapping.values.types import declarations
from nczarr.model import Attribute, Dataset, Type, format_fqn, parse_fqn
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy


def rewrite_documents(before: Before, reading: Reading, untouched: frozenset[str]) -> Plan:
    """Write all documents; those of nodes in `untouched` stay as they are. Returns what is there now."""
    hierarchy = before.hierarchy
    for fqn, values in before.data.items():
        if fqn not in untouched:
            values.extend()
    dataset = _without(reading.dataset, reading.guessed)
    plan = before.plan(dataset, _known(hierarchy, reading, untouched))
    for fqn, variable in dataset.all_variables.items():
        path = plan.variables[fqn].path
        planned, existing = plan.nodes[path], hierarchy.nodes[path]
        if fqn in untouched:
            continue
        assert isinstance(planned, ArrayMetadata)
        assert isinstance(existing, ArrayMetadata)
        kept = _plain(existing.attributes, planned, variable.attributes, dataset, variable.type)
        plan.nodes[path] = replace(
            existing,
            attributes=kept,
            dimension_names=planned.dimension_names,
            extra=planned.extra,
            extensions=planned.extensions,
        )
    for fqn, group in dataset.all_groups.items():
        path = plan.groups[fqn]
        existing, planned = hierarchy.nodes[path], plan.nodes[path]
        assert isinstance(planned, GroupMetadata)
        assert isinstance(existing, GroupMetadata)
        planned = _with_damaged_types(existing, planned)
        plan.nodes[path] = replace(
            planned, attributes=_plain(existing.attributes, planned, group.attributes, dataset, None)
        )
    plan = keep_foreign(plan, before, dataset, {fqn: fqn for fqn in plan.variables})
    put_changed(hierarchy, plan.nodes)
    return replace(plan, variables=dict(reading.variables))


def _with_damaged_types(existing: GroupMetadata, planned: GroupMetadata) -> GroupMetadata:
    """A group's document with the declarations that were not understood, as they are: they are not ours to drop."""
    said = group_keys(existing)[0].get(GROUP_KEY, {}).get("types")
    info = planned.attributes.get(GROUP_KEY, {})
    if not said:
        return planned
    try:
        declared = declarations(said)
    except MetadataError:
        return planned  # what has no name is nobody's
    known = {t["name"]: t for t in info.get("types", ())}
    damaged = [{**d, "name": n} for n, d in declared.items() if n not in known and isinstance(d, dict)]
    if not damaged:
        return planned
    types = [*info.get("types", ()), *damaged]
    return replace(planned, attributes={**planned.attributes, GROUP_KEY: {**info, "types": types}})


def _without(dataset: Dataset, guessed: frozenset[str]) -> Dataset:
    """The model without dimensions that were made up."""
    if not guessed:
        return dataset

    def strip(group: Any, fqn: str) -> Any:
        prefix = "" if fqn == "/" else fqn
        return replace(
            group,
            dimensions=tuple(
                d for d in group.dimensions if format_fqn([*parse_fqn(fqn), d.name]) not in guessed
            ),
            groups=tuple(strip(g, prefix + format_fqn([g.name])) for g in group.groups),
        )

    result: Dataset = strip(dataset, "/")
    return result


def _known(hierarchy: Hierarchy, reading: Reading, untouched: frozenset[str]) -> Known:
    nodes: dict[tuple[str, str, str], str] = {}
    for kind, paths in (
        ("group", reading.groups),
        ("array", {fqn: b.path for fqn, b in reading.variables.items()}),
    ):
        for fqn, path in paths.items():
            if fqn != "/":
                *above, name = parse_fqn(fqn)
                nodes[format_fqn(above), kind, name] = path.rpartition("/")[2]
    arrays = {}
    for fqn in untouched & reading.variables.keys():
        metadata = hierarchy.nodes[reading.variables[fqn].path]
        assert isinstance(metadata, ArrayMetadata)
        arrays[fqn] = (metadata, reading.variables[fqn])
    encodings, grids = {}, {}
    for fqn, binding in reading.variables.items():
        encodings[fqn] = binding.encoding
        metadata = hierarchy.nodes[binding.path]
        assert isinstance(metadata, ArrayMetadata)
        grids[fqn] = metadata.chunk_grid
    return Known(nodes, arrays, frozenset(arrays), encodings, grids, reading.identity)


def _plain(
    existing: Mapping[str, Any],
    planned: ArrayMetadata | GroupMetadata,
    attributes: tuple[Attribute, ...],
    dataset: Dataset,
    array: Type | None,
) -> dict[str, Any]:
    """The attributes as another program wrote them (nested objects, true and false), where they say the same."""
    keys = array_keys(planned) if isinstance(planned, ArrayMetadata) else group_keys(planned)
    info = keys[0].get(ATTR_KEY)
    own = {k: v for k, v in planned.attributes.items() if k in RESERVED}
    plain = {k: v for k, v in existing.items() if k not in RESERVED}
    told: list[str] = []
    decoded = decode_attributes(
        plain, info, dataset.all_types, array=array, stale=lambda name, why: told.append(name)
    )
    return {**plain, **own} if decoded == attributes and not told else planned.attributes
