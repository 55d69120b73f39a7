"""The 2019 draft and plain Zarr v2, writing: the documents of v3, turned into what the older formats can say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nczarr.mapping.layout import Known, Plan
from nczarr.mapping.nczarr3.write import own_fill_value, plan_nczarr_v3
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.plain.arrays import DIMENSIONS_KEY
from nczarr.mapping.plain.write import plan_plain_v3
from nczarr.model import Dataset
from nczarr.zarr.chunk_keys import ChunkKeyEncoding
from nczarr.zarr.metadata import ArrayMetadata, GroupMetadata, NamedConfig

Nodes = Mapping[str, ArrayMetadata | GroupMetadata]
_KEYS = ChunkKeyEncoding("v2", ".")


def plan_draft_2019(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
) -> Plan:
    """Make the documents; see :meth:`nczarr.mapping.layout.Layout.plan`.

    The draft has attributes, so NCZarr's keys stand there as in v3 and hold the whole model. It has no names of
    dimensions: these are in NCZarr's keys alone.
    """
    # The draft's list of extensions has another form, and its consolidated metadata were never defined.
    plan = plan_nczarr_v3(dataset, replace(options, extensions=False), names, known)
    return replace(plan, nodes=_turned(plan.nodes, _drafted))


def plan_plain_v2(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
) -> Plan:
    """Make the documents; see :meth:`nczarr.mapping.layout.Layout.plan`.

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


def _turned(nodes: Nodes, turn: Any) -> dict[str, ArrayMetadata | GroupMetadata]:
    return {path: turn(node) if isinstance(node, ArrayMetadata) else node for path, node in nodes.items()}


def _drafted(array: ArrayMetadata) -> ArrayMetadata:
    return replace(array, chunk_key_encoding=_KEYS, dimension_names=None, codecs=_older(array.codecs))


def _older(codecs: tuple[NamedConfig, ...]) -> tuple[NamedConfig, ...]:
    """The codecs by names that v2 has; numcodecs' crc32c is another byte stream for the same checksum."""
    return tuple(NamedConfig("numcodecs.crc32c") if c.name == "crc32c" else c for c in codecs)


def _conventional(array: ArrayMetadata, masked: bool) -> ArrayMetadata:
    attributes = {k: v for k, v in array.attributes.items() if k != "_FillValue"}
    if array.dimension_names is not None:
        attributes[DIMENSIONS_KEY] = list(array.dimension_names)
    return replace(
        array,
        attributes=attributes,
        codecs=_older(array.codecs),
        chunk_key_encoding=_KEYS,
        dimension_names=None,
        # xarray masks every value that equals the fill value; without _FillValue nothing is to be masked.
        fill_value=array.fill_value if masked else None,
    )
