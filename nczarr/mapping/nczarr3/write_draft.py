"""Write the 2019 draft: the documents of NCZarr on v3, turned into what the draft can say."""

from __future__ import annotations

from dataclasses import replace

from nczarr.mapping.dialect import Known, Plan
from nczarr.mapping.nczarr3.write import plan_keys_in_attributes
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.plain import CHUNK_KEYS, v2_codecs
from nczarr.model import Dataset
from nczarr.zarr import ArrayMetadata


def plan_draft_2019(
    dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
) -> Plan:
    """Make the documents; see :meth:`nczarr.mapping.dialect.Dialect.plan`.

    The draft has attributes, so NCZarr's keys stand there and hold the whole model; its list of extensions has
    another form, and it has no names of dimensions.
    """
    plan = plan_keys_in_attributes(dataset, replace(options, extensions=False), names, known)
    return replace(
        plan,
        nodes={
            path: replace(
                node, chunk_key_encoding=CHUNK_KEYS, dimension_names=None, codecs=v2_codecs(node.codecs)
            )
            if isinstance(node, ArrayMetadata)
            else node
            for path, node in plan.nodes.items()
        },
    )
