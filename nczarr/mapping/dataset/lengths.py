"""Compare the lengths in a dataset's documents with those of its model, which owns them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nczarr.json_values import as_list, member
from nczarr.mapping.dataset.variable_data import VariableData
from nczarr.mapping.dialect import array_at
from nczarr.mapping.nczarr3.keys import GROUP_KEY
from nczarr.model import Dataset, join_fqn
from nczarr.zarr import Hierarchy


def differing_lengths(
    hierarchy: Hierarchy, dataset: Dataset, groups: Mapping[str, str], variables: Iterable[VariableData]
) -> Iterator[str]:
    """Yield a sentence for each array or group of NCZarr on Zarr v3 whose document has another length than the model.

    Parameters
    ----------
    groups : mapping
        The path of each group, by FQN.
    """
    for values in variables:
        document = array_at(hierarchy.nodes, values.path)
        wanted = dataset.shape_of(dataset.all_variables[values.fqn])
        found = document.shape[: len(wanted)]
        if found != wanted and not document.extensions:
            yield f"{values.fqn}: the document has the shape {found}, the dimensions have {wanted}"
    for fqn, path in groups.items():
        recorded = member(hierarchy.nodes[path].attributes, GROUP_KEY).get("dimensions")
        for item in as_list(recorded):
            size = dataset.dimension_at(join_fqn(fqn, item["name"])).size
            if item["size"] != size:
                yield f"{fqn}: the document has the length {item['size']} of {item['name']}, the model {size}"
