"""Write plain Zarr with xarray's conventions: v3, and its documents turned into what version 2 can say.

What the documents then no longer say is listed in the plan's ``losses`` (``docs/spec/plain-zarr.md``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nczarr.mapping.dialect import Known, Plan
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.plain.arrays import DIMENSIONS_KEY
from nczarr.mapping.plain.documents import plan_documents
from nczarr.mapping.values import decode_attributes
from nczarr.model import (
    Attribute,
    Dataset,
    EnumType,
    Group,
    PrimitiveType,
    Storage,
    Type,
    join_fqn,
    own_fill_value,
    parse_fqn,
    split_fqn,
)
from nczarr.zarr import ArrayMetadata, GroupMetadata, NamedConfig
from nczarr.zarr.chunk_keys import ChunkKeyEncoding


def plan_plain_v3(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
) -> Plan:
    """Make the documents; see :meth:`nczarr.mapping.dialect.Dialect.plan`."""
    plan = plan_documents(dataset, replace(options, nzug=False), names, known or Known()).plan
    return replace(plan, losses=tuple(_losses(dataset, plan, plan.nodes)))


def _losses(dataset: Dataset, plan: Plan, nodes: dict[str, ArrayMetadata | GroupMetadata]) -> Iterator[str]:
    used = {ref for v in dataset.all_variables.values() for ref in v.dimensions if not isinstance(ref, int)}
    for fqn, dimension in dataset.all_dimensions.items():
        if fqn not in used:
            yield f"{fqn}: the dimension is dropped, as no variable uses it"
        elif dimension.unlimited:
            yield f"{fqn}: the dimension is no longer unlimited"
    for type_fqn in dataset.all_types:
        yield f"{type_fqn}: the type is dropped; values are kept in the form that NCZarr has for them"
    for fqn, group in dataset.all_groups.items():
        yield from _attribute_losses(fqn, group.attributes, nodes[plan.groups[fqn]], None)
        yield from _variable_losses(fqn, group, plan, nodes)


def _variable_losses(
    fqn: str, group: Group, plan: Plan, nodes: dict[str, ArrayMetadata | GroupMetadata]
) -> Iterator[str]:
    for variable in group.variables:
        at = join_fqn(fqn, variable.name)
        node = nodes[plan.variables[at].path]
        assert isinstance(node, ArrayMetadata)
        labels = node.dimension_names or ()
        for ref, label in zip(variable.dimensions, labels, strict=False):
            if isinstance(ref, int):
                yield f"{at}: the anonymous dimension of {ref} is named {label!r}"
            elif label != split_fqn(ref)[1]:
                yield f"{at}: the dimension {ref} is named {label!r}"
            elif ref != join_fqn(fqn, str(label)) and parse_fqn(fqn):
                yield f"{at}: the dimension {ref} is known by its name alone"
        if variable.storage != Storage():
            yield f"{at}: storage hints are dropped (layout, filter list, byte order asked for, fill mode)"
        yield from _attribute_losses(at, variable.attributes, node, variable.type)


def _attribute_losses(
    fqn: str,
    attributes: tuple[Attribute, ...],
    node: ArrayMetadata | GroupMetadata,
    array: Type | None,
) -> Iterator[str]:
    simple = array.base if isinstance(array, EnumType) else array
    kept = {
        a.name: a
        for a in decode_attributes(
            node.attributes, None, {}, array=simple if isinstance(simple, PrimitiveType) else None
        )
    }
    for attribute in attributes:
        if attribute.name not in kept:
            yield f"{fqn}: the attribute {attribute.name!r} is dropped"
        elif kept[attribute.name] != attribute:
            yield (
                f"{fqn}: the attribute {attribute.name!r} of type {attribute.type.name} "
                f"becomes {kept[attribute.name].type.name}"
            )


#: Where chunks are in versions before 3.
CHUNK_KEYS = ChunkKeyEncoding("v2", ".")


def plan_plain_v2(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
) -> Plan:
    """Make the documents; see :meth:`nczarr.mapping.dialect.Dialect.plan`.

    As xarray has it on v2: dimension names in ``_ARRAY_DIMENSIONS``, and ``fill_value`` is ``_FillValue``.
    """
    plan = plan_plain_v3(dataset, options, names, known)
    masked: set[str] = set()
    losses = list(plan.losses)
    for fqn, variable in dataset.all_variables.items():
        dropped = f"{fqn}: the attribute '_FillValue' is dropped"
        if own_fill_value(variable) is not None:
            masked.add(plan.variables[fqn].path)
            losses = [loss for loss in losses if loss != dropped]
        elif "_FillValue" in variable.attribute and dropped not in losses:
            losses.append(dropped)
    turned = {
        path: _conventional(node, path in masked) if isinstance(node, ArrayMetadata) else node
        for path, node in plan.nodes.items()
    }
    return replace(plan, nodes=turned, losses=tuple(losses))


def v2_codecs(codecs: tuple[NamedConfig, ...]) -> tuple[NamedConfig, ...]:
    """The codecs by names that v2 has; numcodecs' crc32c is another byte stream for the same checksum."""
    return tuple(NamedConfig("numcodecs.crc32c") if c.name == "crc32c" else c for c in codecs)


def _conventional(array: ArrayMetadata, masked: bool) -> ArrayMetadata:
    attributes = {k: v for k, v in array.attributes.items() if k != "_FillValue"}
    if array.dimension_names is not None:
        attributes[DIMENSIONS_KEY] = list(array.dimension_names)
    return replace(
        array,
        attributes=attributes,
        codecs=v2_codecs(array.codecs),
        chunk_key_encoding=CHUNK_KEYS,
        dimension_names=None,
        # xarray masks every value that equals the fill value; without _FillValue nothing is to be masked.
        fill_value=array.fill_value if masked else None,
    )
