"""Change a stored dataset: write the difference between its documents and those of a model.

The new model is planned like a new dataset. Then nodes are moved, removed, created and changed in an order in which
concurrent readers never see a size that the arrays do not have. A plan keeps the parts of the dataset that a change
does not affect: the form of values, and additions of other programs to the documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nczarr import model
from nczarr.dataclass import dataclass
from nczarr.errors import MetadataError, ModelError, UnsupportedError
from nczarr.json_values import JsonObject, as_list, member
from nczarr.mapping.dataset.documents import put_changed
from nczarr.mapping.dataset.rename_journal import Paths, moving, plan_steps
from nczarr.mapping.dataset.variable_data import VariableData
from nczarr.mapping.dialect import Binding, Dialect, KeptNodes, Metadata, Plan, Reading, array_at
from nczarr.mapping.nczarr3 import keys as spec
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.plain.read import DIMENSIONS_KEY
from nczarr.mapping.values.attributes import ATTR_KEY, RESERVED, decode_attributes
from nczarr.mapping.values.declarations import declarations
from nczarr.mapping.values.encodings import Encoding
from nczarr.model import Dataset, Group, Type, Variable, split_fqn
from nczarr.model.parts import known_variables
from nczarr.model.types import requalified
from nczarr.zarr import ArrayMetadata, Hierarchy
from nczarr.zarr.documents.json import as_it_stands


@dataclass(frozen=True)
class UnchangedDataset:
    """A stored dataset before a change: its model, the places of its nodes, and the settings of its documents.

    Parameters
    ----------
    data : mapping
        The values of each variable, by FQN.
    groups : mapping
        The path of each group, by FQN.
    identity : str or None
        The identity of the dataset, if the dialect has one.
    foreign : frozenset of str
        The paths of nodes that belong to another dataset.
    """

    hierarchy: Hierarchy
    dialect: Dialect
    dataset: Dataset
    data: Mapping[str, VariableData]
    groups: Mapping[str, str]
    options: WriteOptions
    names: NodeNames
    identity: str | None = None
    foreign: frozenset[str] = frozenset()

    def plan(self, dataset: Dataset, known: KeptNodes) -> Plan:
        """Plan the documents of a model."""
        return self.dialect.plan(dataset, self.options, self.names, known)

    def array(self, fqn: str) -> ArrayMetadata:
        """Return the stored metadata of a variable's array."""
        return array_at(self.hierarchy.nodes, self.data[fqn].path)

    @property
    def own_paths(self) -> set[str]:
        """The paths of the nodes in the model."""
        return {*self.groups.values(), *(values.path for values in self.data.values())}


# --- changing a dataset


def apply_update(before: UnchangedDataset, new: Dataset) -> tuple[Plan, Dataset]:
    """Change the hierarchy to another model.

    Returns
    -------
    (Plan, Dataset)
        The new state, and the new model, resolved and without data.
    """
    hierarchy = before.hierarchy
    sources = known_variables(new, before.data)
    # Without data: the values of variables that change their shape would not fit.
    resolved = model.resolve(model.rewrite(new, variable=lambda fqn, variable: variable.with_data(None)))
    # Without this, a new group would be planned below the root's array.
    if hierarchy.is_array(""):
        _refuse_more_than_an_array(before, resolved)
    # Values that do not change keep their form: planning anew would choose one that their bytes are not in.
    encodings = _kept_encodings(before, resolved, sources)
    plan = before.plan(resolved, _known(before, new, resolved, sources, encodings))
    resolved = plan.dataset or resolved
    _keep_arrays(plan, before, resolved, sources, encodings)
    _keep_groups(plan, before, resolved)
    places = {path: before.groups[fqn] for fqn, path in plan.groups.items() if fqn in before.groups}
    # By the old paths: additions of other programs move with a renamed variable.
    places |= {plan.variables[fqn].path: before.data[source].path for fqn, source in sources.items()}
    _keep_additions(plan, before, places)
    removed = _removed(plan, before, sources)
    paths = [(before.data[source].path, plan.variables[fqn].path) for fqn, source in sources.items()]
    moves = [(here, there) for here, there in paths if here != there]
    # The last question before the first change.
    _refuse_loss_of_others(plan, before, removed)
    # Nodes in the place of new nodes are removed first, all others after the last reference to them.
    planned = Paths(plan.nodes)
    blocking = [
        p for p in removed if planned.touch(p) and not any(here.startswith(f"{p}/") for here, _ in moves)
    ]
    if blocking:
        hierarchy.delete_many(blocking)
    left = [path for step in plan_steps(moves)[0] for path in step]
    left += [path for path in removed if path not in blocking]
    obsolete = [path for path in dict.fromkeys(left) if path not in plan.nodes]
    # A journal: a kill between two renames would leave a name for the wrong values.
    with moving(hierarchy, moves, plan.nodes, obsolete):
        put_changed(hierarchy, plan.nodes)
        # Moving has removed some of them.
        obsolete = [path for path in obsolete if path in hierarchy.nodes]
        if obsolete:
            below = [p for p in obsolete if any(p.startswith(f"{other}/") for other in obsolete)]
            hierarchy.delete_many([p for p in obsolete if p not in below])
        # Names in directories have changed, though no document may have.
        elif removed or moves:
            hierarchy.sync()
    return plan, resolved


def _node_names(groups: Mapping[str, str], arrays: Mapping[str, str]) -> dict[tuple[str, str, str], str]:
    """Return the node names of groups and arrays, given by FQN and path, for :class:`KeptNodes`."""
    nodes = {}
    for kind, paths in (("group", groups), ("array", arrays)):
        for fqn, path in paths.items():
            if fqn != "/":
                parent, name = split_fqn(fqn)
                nodes[parent, kind, name] = path.rpartition("/")[2]
    return nodes


def _known(
    before: UnchangedDataset,
    given: Dataset,
    new: Dataset,
    sources: Mapping[str, str],
    encodings: Mapping[str, Encoding],
) -> KeptNodes:
    """Return the node names of unrenamed nodes, the metadata of unchanged arrays, and the forms of kept values."""
    old, data, groups = before.dataset, before.data, before.groups
    nodes = _node_names(
        {fqn: groups[fqn] for fqn in new.all_groups if fqn in old.all_groups and fqn in groups},
        {fqn: data[fqn].path for fqn, source in sources.items() if fqn == source},
    )
    arrays: dict[str, tuple[ArrayMetadata, Binding]] = {}
    unchanged = list(old.all_dimensions) == list(new.all_dimensions) and old.all_types == new.all_types
    fixed = {fqn for fqn in sources if data[sources[fqn]].path in before.foreign}
    for fqn, source in sources.items():
        variable, shape = given.all_variables[fqn], data[source].shape
        # By identity: the session gives the stored object back for a variable that has not changed.
        same = fqn == source and variable is old.all_variables[fqn]
        if (unchanged or fqn in fixed) and same and new.shape_of(variable) == shape:
            metadata = before.array(fqn)
            # Another program may have made the array longer: its document is planned then.
            if metadata.shape[: len(variable.dimensions)] == shape:
                arrays[fqn] = (metadata, data[fqn].binding)
    stored = {fqn: before.array(sources[fqn]) for fqn in encodings}
    return KeptNodes(nodes, arrays, frozenset(fixed & arrays.keys()), encodings, stored, before.identity)


def _removed(plan: Plan, before: UnchangedDataset, sources: Mapping[str, str]) -> list[str]:
    """Return the topmost paths of the model's nodes that are removed, without the paths of moved arrays."""
    hierarchy, staying = before.hierarchy, {before.data[source].path for source in sources.values()}
    own = before.own_paths
    removed: list[str] = []
    for path in hierarchy.nodes:
        if not path or path not in own or path in staying:
            continue
        # A group in the place of an array needs the removal of its chunks.
        if path in plan.nodes and hierarchy.is_array(path) == plan.nodes[path].is_array:
            continue
        if not any(path.startswith(f"{g}/") for g in removed):
            removed.append(path)
    return removed


def _refuse_loss_of_others(plan: Plan, before: UnchangedDataset, removed: list[str]) -> None:
    """Refuse a change that would remove or replace a node outside the model."""
    own = before.own_paths
    for path in before.hierarchy.nodes:
        # An array of a type that netCDF lacks stays as it is, until its group goes.
        if path in own or not path:
            continue
        if path in plan.nodes or any(path.startswith(f"{group}/") for group in removed):
            raise ModelError(
                f"this change would remove the node {path!r}, which netCDF cannot represent",
                path=before.hierarchy.store.url,
                hint="rename or remove it with a Zarr library first",
            )


def _refuse_more_than_an_array(before: UnchangedDataset, new: Dataset) -> None:
    """Refuse a change that requires a group, in a dataset that consists of a single Zarr array."""
    old = before.dataset
    what = None
    if new.groups != old.groups:
        what = "groups"
    elif [v.name for v in new.variables] != [v.name for v in old.variables]:
        what = "variables of other names"
    elif new.attributes != old.attributes:
        what = "attributes of its own: set them on the variable"
    if what is not None:
        message = f"the dataset is a single Zarr array, which cannot have {what}"
        raise UnsupportedError(message, path=before.hierarchy.store.url)


# --- keeping unchanged parts


def _kept_encodings(
    before: UnchangedDataset, new: Dataset, sources: Mapping[str, str]
) -> dict[str, Encoding]:
    """Return the encodings of variables whose values do not change, by their new FQN.

    Raises
    ------
    UnsupportedError
        An encoding cannot represent a new fill value.
    """
    kept: dict[str, Encoding] = {}
    for fqn, source in sources.items():
        old, after = before.dataset.all_variables[source], new.all_variables[fqn]
        # Another type or storage: the values are written again, in the form of the plan.
        if len(old.dimensions) != len(after.dimensions) or old.storage != after.storage:
            continue
        encoding = before.data[source].encoding
        if encoding.type is not after.type:
            # The types of a renamed group have other names.
            if requalified(old.type, lambda fqn: "/") != requalified(after.type, lambda fqn: "/"):
                continue
            encoding = replace(encoding, type=after.type)
        # An attribute of one variable leaves those of the others as they are, which costs no look at each.
        has_same = old.attributes is after.attributes or _same_fill(old, after)
        fill = None if has_same else model.own_fill_value(after)
        # Unwritten elements would read as another value than the attribute says.
        if fill is not None and not encoding.can_fill(fill):
            raise UnsupportedError(
                "its values are stored in a form that cannot represent this fill value",
                fqn=fqn,
                hint="create a new variable with this fill value, and copy the values",
            )
        kept[fqn] = encoding
    return kept


def _same_fill(a: Variable, b: Variable) -> bool:
    return a.attribute.get("_FillValue") == b.attribute.get("_FillValue")


def _keep_arrays(
    plan: Plan,
    before: UnchangedDataset,
    new: Dataset,
    sources: Mapping[str, str],
    encodings: Mapping[str, Encoding],
) -> None:
    """Keep in a plan the current chunks and codecs of arrays, unless the model requests others.

    On plain Zarr, keep also the stored attributes and labels where the model has not changed. The model represents some
    differently (an object as text), adds some (the units of times), and omits some.
    """
    for fqn, source in sources.items():
        path = plan.variables[fqn].path
        existing, planned = before.array(source), array_at(plan.nodes, path)
        if planned is existing:
            continue
        old, after = before.dataset.all_variables[source], new.all_variables[fqn]
        if fqn in encodings:
            planned = replace(
                planned,
                shape=new.shape_of(after) + encodings[fqn].inner_shape,
                data_type=existing.data_type,
                chunk_grid=existing.chunk_grid,
                chunk_key_encoding=existing.chunk_key_encoding,
                codecs=existing.codecs,
                fill_value=existing.fill_value if _same_fill(old, after) else planned.fill_value,
                storage_transformers=existing.storage_transformers,
                # The spelling of another writer's v2 document stays, so its own reader finds what it wrote.
                origin={**(existing.origin or {}), **(planned.origin or {})} or None,
            )
            plan.variables[fqn] = Binding(path, encodings[fqn])
        if before.dialect.is_plain:
            attributes = _kept(existing, planned, old, after)
            if old.dimensions == after.dimensions and _same_fill(old, after):
                planned = replace(planned, dimension_names=existing.dimension_names)
            # xarray's names of the dimensions: they must follow a rename.
            elif DIMENSIONS_KEY in planned.attributes:
                attributes[DIMENSIONS_KEY] = planned.attributes[DIMENSIONS_KEY]
            planned = replace(planned, attributes=attributes)
        plan.nodes[path] = planned


def _keep_groups(plan: Plan, before: UnchangedDataset, new: Dataset) -> None:
    """Keep in a plan the stored attributes of groups on plain Zarr, and the groups of other datasets.

    The document of a group from another dataset does not change unless its attributes do.
    """
    for fqn, path in plan.groups.items():
        place = before.groups.get(fqn)
        if place is None:
            continue
        old, after = before.dataset.all_groups[fqn], new.all_groups[fqn]
        stored = before.hierarchy.nodes[place]
        if before.dialect.is_plain and not before.hierarchy.is_array(path):
            plan.nodes[path] = replace(
                plan.nodes[path], attributes=_kept(stored, plan.nodes[path], old, after)
            )
        # Its keys name the other dataset: rewriting them would make it a part of this one.
        if place == path and place in before.foreign and old.attributes == after.attributes:
            plan.nodes[path] = stored


def _kept(
    existing: Metadata, planned: Metadata, old: Group | Variable, new: Group | Variable
) -> dict[str, object]:
    """Return the attributes in a document, with the changes of the model."""
    was, becomes = old.attribute, new.attribute
    kept: dict[str, object] = {
        # NaN as a bare word stays one: what the program has not changed must stay as it is.
        k: as_it_stands(v)
        for k, v in existing.attributes.items()
        if k not in was or was[k] == becomes.get(k)
    }
    for name, attribute in becomes.items():
        if was.get(name) != attribute and name in planned.attributes:
            kept[name] = planned.attributes[name]
    return kept


def _keep_additions(plan: Plan, before: UnchangedDataset, places: Mapping[str, str]) -> None:
    """Keep in a plan the additions of other programs: conventions, and unknown keys; `places` are the old paths."""
    for path, old in places.items():
        existing, planned = before.hierarchy.nodes[old], plan.nodes[path]
        if planned is existing:
            continue
        # Keys of earlier versions of NCZarr are now in other places, and would contradict the current keys.
        foreign = {
            k: v
            for k, v in existing.extra.items()
            if (k != spec.EXTENSION_NAME or before.dialect.is_plain)
            and not k.startswith(("_NCZARR_", "_nczarr_"))
        }
        if foreign:
            planned = replace(planned, extra={**foreign, **planned.extra})
        declared = as_list(existing.attributes.get(spec.CONVENTION_KEY))
        if declared:
            own = planned.attributes.get(spec.CONVENTION_KEY, [])
            # Version 3.0 always declared itself. xarray shows the declaration, and cannot write it to netCDF.
            old_form = existing.attributes.get(spec.SUPERBLOCK_KEY, {}).get("version") == "3.0.0"
            others = [c for c in declared if c not in own and not (old_form and c == spec.CONVENTION)]
            if others:
                attributes = {**planned.attributes, spec.CONVENTION_KEY: [*own, *others]}
                planned = replace(planned, attributes=attributes)
        plan.nodes[path] = planned


# --- rewriting all documents


def rewrite_documents(before: UnchangedDataset, reading: Reading, untouched: frozenset[str]) -> Plan:
    """Rewrite all documents with their understood content, except those of variables in `untouched`.

    Values do not change. Returns the new state.
    """
    hierarchy = before.hierarchy
    for fqn, values in before.data.items():
        if fqn not in untouched:
            # Arrays that are shorter than their dimension get its length, which the new documents claim.
            values.extend()
    dataset = model.rewrite(reading.dataset, dimension=lambda fqn, d: None if fqn in reading.guessed else d)
    found = {fqn: (array_at(hierarchy.nodes, b.path), b) for fqn, b in reading.variables.items()}
    arrays = {fqn: entry for fqn, entry in found.items() if fqn in untouched}
    known = KeptNodes(
        _node_names(reading.groups, {fqn: b.path for fqn, b in reading.variables.items()}),
        arrays,
        frozenset(arrays),
        {fqn: binding.encoding for fqn, (_, binding) in found.items()},
        {fqn: metadata for fqn, (metadata, _) in found.items()},
        reading.identity,
    )
    plan = before.plan(dataset, known)
    for fqn, variable in dataset.all_variables.items():
        path = plan.variables[fqn].path
        if fqn not in untouched:
            planned, array = array_at(plan.nodes, path), array_at(hierarchy.nodes, path)
            plan.nodes[path] = replace(
                array,
                attributes=_unchanged_attributes(array, planned, variable, dataset, variable.type),
                dimension_names=planned.dimension_names,
                extra=planned.extra,
                extensions=planned.extensions,
            )
    for fqn, group in dataset.all_groups.items():
        path = plan.groups[fqn]
        existing = hierarchy.nodes[path]
        completed = _with_damaged_types(existing, plan.nodes[path])
        attributes = _unchanged_attributes(existing, completed, group, dataset, None)
        plan.nodes[path] = replace(completed, attributes=attributes)
    _keep_groups(plan, before, dataset)
    own = [*plan.groups.values(), *(binding.path for binding in plan.variables.values())]
    _keep_additions(plan, before, {path: path for path in own})
    put_changed(hierarchy, plan.nodes)
    return replace(plan, variables=dict(reading.variables))


def _with_damaged_types(existing: Metadata, planned: Metadata) -> Metadata:
    """Return a group's document with its damaged type declarations, which nczarr must not delete."""
    info = member(planned.attributes, spec.GROUP_KEY)
    try:
        declared = declarations(member(_keys(existing), spec.GROUP_KEY).get("types") or [])
    except MetadataError:
        # They cannot be told apart from the planned ones.
        return planned  # declarations without names
    known = {t["name"]: t for t in info.get("types", ())}
    damaged = [{**d, "name": n} for n, d in declared.items() if n not in known and isinstance(d, dict)]
    if not damaged:
        return planned
    info = {**info, "types": [*info.get("types", ()), *damaged]}
    return replace(planned, attributes={**planned.attributes, spec.GROUP_KEY: info})


def _keys(node: Metadata) -> JsonObject:
    return (spec.array_keys(node) if node.is_array else spec.group_keys(node))[0]


def _unchanged_attributes(
    existing: Metadata, planned: Metadata, node: Group | Variable, dataset: Dataset, array: Type | None
) -> JsonObject:
    """Return the stored attributes (nested objects, true and false) if they mean the same as the planned ones."""
    own = {k: v for k, v in planned.attributes.items() if k in RESERVED}
    plain = {k: v for k, v in existing.attributes.items() if k not in RESERVED}
    stale: list[str] = []
    decoded = decode_attributes(
        plain,
        _keys(planned).get(ATTR_KEY),
        dataset.all_types,
        array=array,
        stale=lambda name, why: stale.append(name),
    )
    return {**plain, **own} if decoded == node.attributes and not stale else planned.attributes
