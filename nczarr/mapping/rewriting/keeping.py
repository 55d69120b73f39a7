"""Keep what a change does not touch: how values are held, and what other programs wrote into the documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nczarr.errors import UnsupportedError
from nczarr.mapping.dialect import Binding, Dialect, Known, Plan
from nczarr.mapping.nczarr3.keys import CONVENTION, CONVENTION_KEY, EXTENSION_NAME, SUPERBLOCK_KEY
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.plain.arrays import DIMENSIONS_KEY
from nczarr.mapping.rewriting.variable_data import VariableData
from nczarr.mapping.values.encodings import Encoding
from nczarr.model import (
    Attribute,
    CompoundType,
    Dataset,
    Group,
    Type,
    UserType,
    Variable,
    VlenType,
    fill_value_of,
)
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy
from nczarr.zarr.documents.json import as_it_stands


@dataclass(frozen=True)
class Before:
    """A stored dataset before a change: its model, where everything is, and how documents are made of it.

    Parameters
    ----------
    data : mapping
        The values of each variable, by FQN.
    groups : mapping
        The path of each group, by FQN.
    identity : str or None
        The identity of the dataset, where the dialect has one.
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

    def plan(self, dataset: Dataset, known: Known) -> Plan:
        """Make the documents for a model."""
        return self.dialect.plan(dataset, self.options, self.names, known)


def kept_encodings(before: Before, new: Dataset, sources: Mapping[str, str]) -> dict[str, Encoding]:
    """How the values of variables are held that stay what they are, by their new FQN.

    Raises
    ------
    UnsupportedError
        If a new fill value cannot be said in that form.
    """
    kept: dict[str, Encoding] = {}
    for fqn, source in sources.items():
        old, after = before.dataset.all_variables[source], new.all_variables[fqn]
        if (
            not _alike(old.type, after.type)
            or old.storage != after.storage
            or len(old.dimensions) != len(after.dimensions)
        ):
            continue
        encoding = before.data[source].binding.encoding.renamed(after.type)
        if _fill(old) != _fill(after) and not encoding.can_fill(fill_value_of(after)):
            raise UnsupportedError(
                "its values are stored in a form that cannot have this fill value",
                fqn=fqn,
                hint="make a new variable with this fill value, and copy the values",
            )
        kept[fqn] = encoding
    return kept


def _alike(old: Type, new: Type) -> bool:
    """True if two types are the same but for their names: those of a renamed group are."""
    if not isinstance(old, UserType) or not isinstance(new, UserType):
        return old == new
    if isinstance(old, VlenType) and isinstance(new, VlenType):
        return _alike(old.base, new.base)
    if isinstance(old, CompoundType) and isinstance(new, CompoundType):
        return [(f.name, f.shape) for f in old.fields] == [(f.name, f.shape) for f in new.fields] and all(
            _alike(a.type, b.type) for a, b in zip(old.fields, new.fields, strict=True)
        )
    return replace(old, fqn=new.fqn) == new


def _fill(variable: Variable) -> Attribute | None:
    return variable.attribute.get("_FillValue")


def keep_storage(
    plan: Plan, before: Before, new: Dataset, sources: Mapping[str, str], encodings: Mapping[str, Encoding]
) -> Plan:
    """The plan, with the chunks and codecs that arrays have already wherever nothing asks for others."""
    nodes, variables = dict(plan.nodes), dict(plan.variables)
    for fqn, encoding in encodings.items():
        source, path = sources[fqn], plan.variables[fqn].path
        old, after = before.dataset.all_variables[source], new.all_variables[fqn]
        existing = before.hierarchy.nodes[before.data[source].path]
        planned = nodes[path]
        if planned is existing:
            continue
        assert isinstance(existing, ArrayMetadata)
        assert isinstance(planned, ArrayMetadata)
        nodes[path] = replace(
            planned,
            shape=new.shape(after) + encoding.inner_shape,
            data_type=existing.data_type,
            chunk_grid=existing.chunk_grid,
            chunk_key_encoding=existing.chunk_key_encoding,
            codecs=existing.codecs,
            fill_value=existing.fill_value if _fill(old) == _fill(after) else planned.fill_value,
            storage_transformers=existing.storage_transformers,
            origin={**(existing.origin or {}), **(planned.origin or {})} or None,
        )
        variables[fqn] = Binding(path, encoding)
    return replace(plan, nodes=nodes, variables=variables)


def keep_plain(plan: Plan, before: Before, new: Dataset, sources: Mapping[str, str]) -> Plan:
    """The plan, on plain Zarr with the attributes and labels as they stand, wherever the model says no other.

    The model has them in another form (an object as text), adds some (the units of times), and leaves some out.
    """
    if not before.dialect.is_plain:
        return plan
    old, nodes = before.dataset, dict(plan.nodes)
    for fqn, path in plan.groups.items():
        if fqn in before.groups and not before.hierarchy.is_array(path):
            existing, group = before.hierarchy.nodes[before.groups[fqn]], nodes[path]
            attributes = _kept(existing, group, old.all_groups[fqn], new.all_groups[fqn])
            nodes[path] = replace(group, attributes=attributes)
    for fqn, source in sources.items():
        path = plan.variables[fqn].path
        was, becomes = old.all_variables[source], new.all_variables[fqn]
        existing, array = before.hierarchy.nodes[before.data[source].path], nodes[path]
        assert isinstance(existing, ArrayMetadata)
        assert isinstance(array, ArrayMetadata)
        if array is existing:
            continue
        attributes = _kept(existing, array, was, becomes)
        if was.dimensions == becomes.dimensions and _fill(was) == _fill(becomes):
            array = replace(array, dimension_names=existing.dimension_names)
        elif DIMENSIONS_KEY in array.attributes:
            attributes[DIMENSIONS_KEY] = array.attributes[DIMENSIONS_KEY]
        nodes[path] = replace(array, attributes=attributes)
    return replace(plan, nodes=nodes)


def _kept(
    existing: ArrayMetadata | GroupMetadata,
    planned: ArrayMetadata | GroupMetadata,
    old: Group | Variable,
    new: Group | Variable,
) -> dict[str, Any]:
    """The attributes that stand in a document, with what the model says otherwise than before."""
    was, becomes = old.attribute, new.attribute
    kept = {
        k: as_it_stands(v) for k, v in existing.attributes.items() if k not in was or was[k] == becomes.get(k)
    }
    for name, attribute in becomes.items():
        if was.get(name) != attribute and name in planned.attributes:
            kept[name] = planned.attributes[name]
    return kept


def keep_foreign(plan: Plan, before: Before, new: Dataset, sources: Mapping[str, str]) -> Plan:
    """The plan, with what is no part of the model and belongs to others: conventions, and unknown keys.

    The document of a group from another dataset stays while its attributes do.
    """
    groups, nodes = before.groups, dict(plan.nodes)
    for fqn, path in plan.groups.items():
        old = groups.get(fqn)
        same = old is not None and before.dataset.all_groups[fqn].attributes == new.all_groups[fqn].attributes
        if same and old == path and old in before.foreign:
            nodes[path] = before.hierarchy.nodes[old]
    places = {path: groups[fqn] for fqn, path in plan.groups.items() if fqn in groups}
    places.update({plan.variables[fqn].path: before.data[source].path for fqn, source in sources.items()})
    for path, old in places.items():
        existing, planned = before.hierarchy.nodes[old], nodes[path]
        if planned is existing:
            continue
        # What older versions of NCZarr have said there is said elsewhere now, and would say what was before.
        foreign = {
            k: v
            for k, v in existing.extra.items()
            if (k != EXTENSION_NAME or before.dialect.is_plain) and not k.startswith(("_NCZARR_", "_nczarr_"))
        }
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
