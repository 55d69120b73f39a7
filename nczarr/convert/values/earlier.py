"""Recognise a dataset that an earlier copy has finished, and that the same command finds again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nczarr.convert.endpoints import create_sink
from nczarr.errors import DatasetNotFoundError
from nczarr.mapping import StoredDataset, open_dataset
from nczarr.mapping.guarding.destination import UNFINISHED, is_zarr
from nczarr.model import Dataset
from nczarr.stores import MemoryStore, open_store


def finished(
    target: Any, dataset: Dataset, options: Mapping[str, Any], storage_options: Mapping[str, Any] | None
) -> tuple[str, ...] | None:
    """Return what the layout of a finished copy at a target could not hold; None if there is none.

    Its arrays are stored as a copy with the same options would store them. Attributes and values are still to be
    compared: nothing else tells from which source they are.
    """
    try:
        store = open_store(target, "r", dict(storage_options) if storage_options else None)
    except DatasetNotFoundError:
        return None
    with store:
        if store.exists(UNFINISHED) or not is_zarr(store):
            return None
        written = MemoryStore()
        planned = create_sink(written, dataset, **options)
        planned.commit()
        # Read from documents, as the other one: not every layout says codecs in the words that were asked for.
        with (
            open_dataset(written, consolidated=False) as wanted,
            open_dataset(store, consolidated=False if store.listable else None) as there,
        ):
            return getattr(planned, "losses", ()) if _stored_alike(wanted, there) else None


def _stored_alike(wanted: StoredDataset, there: StoredDataset) -> bool:
    if wanted.layout != there.layout:
        return False
    found = there.dataset.all_variables
    return all(
        fqn in found and _form(wanted, fqn) == _form(there, fqn) for fqn in wanted.dataset.all_variables
    )


def _form(stored: StoredDataset, fqn: str) -> tuple[Any, ...]:
    metadata = stored.data(fqn).array.metadata
    return metadata.shape, metadata.chunk_grid, metadata.data_type, metadata.codecs
