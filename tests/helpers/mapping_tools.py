"""Provide helpers for the tests of the mapping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nczarr.mapping import StoredDataset, WriteOptions, create_dataset, open_dataset
from nczarr.model import Dataset, compare, regions

TESTS = Path(__file__).parents[1]
#: Attributes of groups that belong to NCZarr.
OWN = ("_nczarr_superblock", "_nczarr_group", "_nczarr_array", "_nczarr_attr", "zarr_conventions")


def fill(sink: StoredDataset, dataset: Dataset) -> None:
    """Write all values block by block, like a copy."""
    for fqn, variable in dataset.all_variables.items():
        shape = dataset.shape_of(variable)
        if variable.data is not None and 0 not in shape:
            for region in regions(shape, sink.write_shape(fqn)):
                sink.write(fqn, region, variable.data.read(region))


def copy(dataset: Dataset, target: Any, options: WriteOptions | None = None, **more: Any) -> None:
    """Write a dataset with its values."""
    with create_dataset(target, dataset, options, **more) as sink:
        fill(sink, dataset)


def differences(dataset: Dataset, target: Any, **how: Any) -> list[str]:
    """Return the differences between a store and a dataset."""
    with open_dataset(target) as stored:
        return [str(d) for d in compare(dataset, stored.dataset, **{"storage": True, **how})]
