"""Change a stored dataset: write the difference between what is there and what a model says.

The new model is planned as if it were new; then nodes move, go, come and change, in an order in which a reader
that comes in between sees no size that the arrays do not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nczarr.errors import ReadOnlyError
from nczarr.mapping.dialect import Binding, Dialect, Known, Plan
from nczarr.mapping.nczarr3 import CONVENTION, CONVENTION_KEY, EXTENSION_NAME, SUPERBLOCK_KEY
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.rewriting.changed import put_changed
from nczarr.mapping.rewriting.moving import move, plan_steps, touch
from nczarr.mapping.rewriting.variable_data import VariableData
from nczarr.mapping.values import encoding_for_reading
from nczarr.model import Attribute, Dataset, Variable, format_fqn, parse_fqn, resolve
from nczarr.zarr import ArrayMetadata, Hierarchy


@dataclass(frozen=True)
class Before:
    """A stored dataset before a change: its model, where everything is, and how documents are made of it.

    Parameters
    ----------
    data : mapping
        The values of each variable, by FQN.
    groups : mapping
        The path of each group, by FQN.
    """

    hierarchy: Hierarchy
    dialect: Dialect
    dataset: Dataset
    data: Mapping[str, VariableData]
    groups: Mapping[str, str]
    options: WriteOptions
    names: NodeNames

    def plan(self, dataset: Dataset, known: Known) -> Plan:
        """Make the documents for a model."""
        return self.dialect.plan(dataset, self.options, self.names, known)


def apply_update(before: Before, new: Dataset) -> tuple[Plan, Dataset]:
    """Change the hierarchy to another model.

    Returns
    -------
    (Plan, Dataset)
        What is there now, and the new model, resolved; its data are not bound.
    """
    hierarchy = before.hierarchy
    if not hierarchy.writable:
        raise ReadOnlyError("the dataset is open for reading", path=hierarchy.store.url)
    sources = _sources(new, before.data)
    for source in sources.values():
        before.data[source].extend()
    resolved = resolve(_without_data(new))
    plan = before.plan(resolved, _known(before, new, resolved, sources))
    resolved = plan.dataset or resolved
    plan = keep_foreign(_keep_storage(plan, before, resolved, sources), before, sources)
    removed = _removed(plan, before, sources)
    moves = _moves(plan, before, sources)
    # What is in the way of something new goes first, the rest when nothing names it any more.
    blocking = [
        p
        for p in removed
        if not any(here.startswith(f"{p}/") for here, _ in moves) and any(touch(p, new) for new in plan.nodes)
    ]
    if blocking:
        hierarchy.delete_many(blocking)
    rest = [p for p in removed if p not in blocking]
    left = [p for step in plan_steps(moves)[0] for p in step] + rest
    gone = [path for path in dict.fromkeys(left) if path not in plan.nodes]
    journal = move(hierarchy, moves, plan.nodes, gone)
    try:
        put_changed(hierarchy, plan.nodes)
        gone = [path for path in gone if path in hierarchy.nodes]
        if gone:
            hierarchy.delete_many([p for p in gone if not any(p.startswith(f"{other}/") for other in gone)])
        elif removed or moves:
            hierarchy.sync()
        if journal is not None:
            journal.remove(hierarchy.store)
    except BaseException:
        if journal is not None:
            journal.give_up(hierarchy.store)
        raise
    return plan, resolved


def _without_data(dataset: Dataset) -> Dataset:
    """The model without data: those of variables that change their shape would not fit it."""

    def strip(group: Any) -> Any:
        return replace(
            group,
            variables=tuple(v.with_data(None) for v in group.variables),
            groups=tuple(strip(g) for g in group.groups),
        )

    result = strip(dataset)
    assert isinstance(result, Dataset)
    return result


def _sources(new: Dataset, data: Mapping[str, VariableData]) -> dict[str, str]:
    """For each variable of the new model that exists already, its FQN in the old one."""
    by_id = {id(values): fqn for fqn, values in data.items()}
    sources: dict[str, str] = {}
    used: set[str] = set()
    for fqn, variable in new.all_variables.items():
        source = by_id.get(id(variable.data))
        if source is not None and source not in used:
            sources[fqn] = source
            used.add(source)
    for fqn in new.all_variables:
        if fqn not in sources and fqn in data and fqn not in used:
            sources[fqn] = fqn
            used.add(fqn)
    return sources


def _known(before: Before, given: Dataset, new: Dataset, sources: Mapping[str, str]) -> Known:
    """The node names of what keeps its name, and the metadata of what did not change."""
    old, data, groups = before.dataset, before.data, before.groups
    nodes: dict[tuple[str, str, str], str] = {}
    for fqn in new.all_groups:
        if fqn != "/" and fqn in old.all_groups and fqn in groups:
            *parents, name = parse_fqn(fqn)
            nodes[format_fqn(parents), "group", name] = groups[fqn].rpartition("/")[2]
    for fqn, source in sources.items():
        if fqn == source:
            *parents, name = parse_fqn(fqn)
            nodes[format_fqn(parents), "array", name] = data[fqn].path.rpartition("/")[2]
    arrays: dict[str, tuple[ArrayMetadata, Binding]] = {}
    if list(old.all_dimensions) == list(new.all_dimensions) and old.all_types == new.all_types:
        for fqn, source in sources.items():
            variable = given.all_variables[fqn]
            same = fqn == source and variable is old.all_variables[fqn]
            if same and new.shape(variable) == data[fqn].shape:
                binding = data[fqn].binding
                metadata = before.hierarchy.nodes[binding.path]
                if isinstance(metadata, ArrayMetadata) and metadata.shape[: len(variable.dimensions)] == (
                    data[fqn].shape
                ):
                    arrays[fqn] = (metadata, binding)
    return Known(nodes, arrays)


def _fill(variable: Variable) -> Attribute | None:
    return variable.attribute.get("_FillValue")


def _keep_storage(plan: Plan, before: Before, new: Dataset, sources: Mapping[str, str]) -> Plan:
    """The plan, with the chunks and codecs that arrays have already wherever nothing asks for others."""
    nodes, variables = dict(plan.nodes), dict(plan.variables)
    for fqn, source in sources.items():
        old, after = before.dataset.all_variables[source], new.all_variables[fqn]
        if (
            old.type != after.type
            or old.storage != after.storage
            or len(old.dimensions) != len(after.dimensions)
        ):
            continue
        binding = before.data[source].binding
        existing = before.hierarchy.nodes[binding.path]
        planned = nodes[plan.variables[fqn].path]
        if planned is existing:
            continue
        assert isinstance(existing, ArrayMetadata)
        assert isinstance(planned, ArrayMetadata)
        if existing.data_type != planned.data_type:
            encoding = encoding_for_reading(after.type, existing.data_type)
            if encoding != binding.encoding or _fill(old) != _fill(after):
                continue
        fill = existing.fill_value if _fill(old) == _fill(after) else planned.fill_value
        nodes[plan.variables[fqn].path] = replace(
            planned,
            shape=new.shape(after) + binding.encoding.inner_shape,
            data_type=existing.data_type,
            chunk_grid=existing.chunk_grid,
            chunk_key_encoding=existing.chunk_key_encoding,
            codecs=existing.codecs,
            fill_value=fill,
            storage_transformers=existing.storage_transformers,
            origin=existing.origin,
        )
        variables[fqn] = Binding(plan.variables[fqn].path, binding.encoding)
    return replace(plan, nodes=nodes, variables=variables)


def keep_foreign(plan: Plan, before: Before, sources: Mapping[str, str]) -> Plan:
    """The plan, with what is no part of the model and belongs to others: conventions, and unknown keys."""
    groups, nodes = before.groups, dict(plan.nodes)
    places = {path: groups[fqn] for fqn, path in plan.groups.items() if fqn in groups}
    places.update({plan.variables[fqn].path: before.data[source].path for fqn, source in sources.items()})
    for path, old in places.items():
        existing, planned = before.hierarchy.nodes[old], nodes[path]
        if planned is existing:
            continue
        foreign = {k: v for k, v in existing.extra.items() if k != EXTENSION_NAME}
        if foreign:
            planned = replace(planned, extra={**foreign, **planned.extra})
        declared = existing.attributes.get(CONVENTION_KEY)
        if isinstance(declared, list):
            own = planned.attributes.get(CONVENTION_KEY, [])
            # Version 3.0 declared itself always; xarray shows that, and cannot write it to a netCDF file.
            old_form = existing.attributes.get(SUPERBLOCK_KEY, {}).get("version") == "3.0.0"
            others = [c for c in declared if c not in own and not (old_form and c == CONVENTION)]
            if others:
                planned = replace(planned, attributes={**planned.attributes, CONVENTION_KEY: [*own, *others]})
        nodes[path] = planned
    return replace(plan, nodes=nodes)


def _removed(plan: Plan, before: Before, sources: Mapping[str, str]) -> list[str]:
    """The topmost paths that go; paths of arrays that move are not among them."""
    hierarchy, staying = before.hierarchy, {before.data[source].path for source in sources.values()}
    gone: list[str] = []
    for path in hierarchy.nodes:
        if not path or (
            path in plan.nodes and hierarchy.is_array(path) == isinstance(plan.nodes[path], ArrayMetadata)
        ):
            continue
        if path in staying or any(path.startswith(f"{g}/") for g in gone):
            continue
        gone.append(path)
    return gone


def _moves(plan: Plan, before: Before, sources: Mapping[str, str]) -> list[tuple[str, str]]:
    moves = []
    for fqn, source in sources.items():
        here, there = before.data[source].path, plan.variables[fqn].path
        if here != there:
            moves.append((here, there))
    return moves
