"""Change a stored dataset: write the difference between what is there and what a model says.

The new model is planned as if it were new; then nodes move, go, come and change, in an order in which a reader
that comes in between sees no size that the arrays do not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nczarr.errors import ModelError, ReadOnlyError, UnsupportedError
from nczarr.mapping.dialect import Binding, Known, Plan
from nczarr.mapping.rewriting.changed import put_changed
from nczarr.mapping.rewriting.keeping import Before, keep_foreign, keep_plain, keep_storage, kept_encodings
from nczarr.mapping.rewriting.rename_journal import move, plan_steps, touch
from nczarr.mapping.rewriting.variable_data import VariableData
from nczarr.model import Dataset, format_fqn, parse_fqn, resolve
from nczarr.zarr import ArrayMetadata
from nczarr.zarr.grids import ChunkGrid


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
    if hierarchy.is_array(""):
        _refuse_more_than_an_array(before, resolved)
    encodings = kept_encodings(before, resolved, sources)
    known = replace(
        _known(before, new, resolved, sources),
        encodings=encodings,
        grids={fqn: _grid(before, sources[fqn]) for fqn in encodings},
    )
    plan = before.plan(resolved, known)
    resolved = plan.dataset or resolved
    plan = keep_storage(plan, before, resolved, sources, encodings)
    plan = keep_foreign(keep_plain(plan, before, resolved, sources), before, resolved, sources)
    removed = _removed(plan, before, sources)
    moves = _moves(plan, before, sources)
    _refuse_loss_of_others(plan, before, removed)
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
    unchanged = list(old.all_dimensions) == list(new.all_dimensions) and old.all_types == new.all_types
    fixed = set()
    for fqn, source in sources.items():
        foreign = data[source].path in before.foreign
        if not unchanged and not foreign:
            continue
        variable = given.all_variables[fqn]
        same = fqn == source and variable is old.all_variables[fqn]
        if same and new.shape(variable) == data[fqn].shape:
            binding = data[fqn].binding
            metadata = before.hierarchy.nodes[binding.path]
            if isinstance(metadata, ArrayMetadata) and metadata.shape[: len(variable.dimensions)] == (
                data[fqn].shape
            ):
                arrays[fqn] = (metadata, binding)
                if foreign:
                    fixed.add(fqn)
    return Known(nodes, arrays, frozenset(fixed), identity=before.identity)


def _grid(before: Before, fqn: str) -> ChunkGrid:
    metadata = before.hierarchy.nodes[before.data[fqn].path]
    assert isinstance(metadata, ArrayMetadata)
    return metadata.chunk_grid


def _own(before: Before) -> set[str]:
    """The paths of the nodes that the model knows."""
    return {*before.groups.values(), *(values.path for values in before.data.values())}


def _removed(plan: Plan, before: Before, sources: Mapping[str, str]) -> list[str]:
    """The topmost paths that go; paths of arrays that move are not among them, and none that are not the model's."""
    hierarchy, staying = before.hierarchy, {before.data[source].path for source in sources.values()}
    own = _own(before)
    gone: list[str] = []
    for path in hierarchy.nodes:
        if not path or path not in own or path in staying:
            continue
        if path in plan.nodes and hierarchy.is_array(path) == isinstance(plan.nodes[path], ArrayMetadata):
            continue
        if not any(path.startswith(f"{g}/") for g in gone):
            gone.append(path)
    return gone


def _refuse_loss_of_others(plan: Plan, before: Before, removed: list[str]) -> None:
    """Refuse a change that would take along a node that has no place in the model, or take its place.

    Raises
    ------
    ModelError
    """
    own = _own(before)
    for path in before.hierarchy.nodes:
        if path in own or not path:
            continue
        if path in plan.nodes or any(path.startswith(f"{group}/") for group in removed):
            raise ModelError(
                f"the node {path!r}, which netCDF has no place for, would be lost by this change",
                path=before.hierarchy.store.url,
                hint="rename or remove it with a Zarr library first",
            )


def _refuse_more_than_an_array(before: Before, new: Dataset) -> None:
    """Refuse what a Zarr array by itself, without a group around it, has no place for.

    Raises
    ------
    UnsupportedError
    """
    old = before.dataset
    what = None
    if new.groups != old.groups:
        what = "groups"
    elif [v.name for v in new.variables] != [v.name for v in old.variables]:
        what = "variables of other names"
    elif new.attributes != old.attributes:
        what = "attributes of its own: set them on the variable"
    if what is not None:
        raise UnsupportedError(
            f"the dataset is a single Zarr array, which has no place for {what}",
            path=before.hierarchy.store.url,
        )


def _moves(plan: Plan, before: Before, sources: Mapping[str, str]) -> list[tuple[str, str]]:
    moves = []
    for fqn, source in sources.items():
        here, there = before.data[source].path, plan.variables[fqn].path
        if here != there:
            moves.append((here, there))
    return moves
