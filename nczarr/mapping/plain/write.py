"""Write plain Zarr with xarray's conventions: v3, and its documents turned into what version 2 can say.

The plan of a new dataset lists in ``losses`` what the documents do not hold (``docs/spec/plain-zarr.md``).
"""

from __future__ import annotations

from dataclasses import replace

from nczarr.mapping.dialect import Known, Plan
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.plain.arrays import DIMENSIONS_KEY
from nczarr.mapping.plain.documents import plan_documents
from nczarr.mapping.plain.losses import losses_of
from nczarr.model import Dataset, own_fill_value
from nczarr.zarr import ArrayMetadata, NamedConfig
from nczarr.zarr.chunk_keys import ChunkKeyEncoding


def plan_plain_v3(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
) -> Plan:
    """Make the documents; see :meth:`nczarr.mapping.dialect.Dialect.plan`."""
    plan = _documents(dataset, options, names, known)
    return plan if known else replace(plan, losses=tuple(losses_of(dataset, plan, "v3")))


def _documents(dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None) -> Plan:
    return plan_documents(dataset, replace(options, nzug=False), names, known or Known()).plan


#: Where chunks are in versions before 3.
CHUNK_KEYS = ChunkKeyEncoding("v2", ".")


def plan_plain_v2(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
) -> Plan:
    """Make the documents; see :meth:`nczarr.mapping.dialect.Dialect.plan`.

    As xarray has it on v2: dimension names in ``_ARRAY_DIMENSIONS``, and ``fill_value`` is ``_FillValue``.
    """
    plan = _documents(dataset, options, names, known)
    masked = {
        plan.variables[fqn].path
        for fqn, variable in dataset.all_variables.items()
        if own_fill_value(variable) is not None
    }
    turned = {
        path: _conventional(node, path in masked) if isinstance(node, ArrayMetadata) else node
        for path, node in plan.nodes.items()
    }
    plan = replace(plan, nodes=turned)
    return plan if known else replace(plan, losses=tuple(losses_of(dataset, plan, "v2")))


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
