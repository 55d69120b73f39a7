"""Write values of a dataset that another process has created and will complete: arrays and their place, picklable."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nczarr.errors import UnsupportedError
from nczarr.mapping.dataset.stored import StoredDataset
from nczarr.mapping.dialect import Binding
from nczarr.mapping.guarding.destination import UNFINISHED
from nczarr.mapping.rewriting.variable_data import VariableData
from nczarr.model import Region
from nczarr.stores import LocalStore, Store, open_store
from nczarr.stores.staging import StagedStore
from nczarr.targets import parse_target
from nczarr.zarr import Array, ArrayMetadata


@dataclass(frozen=True)
class _Held:
    """An array: where its chunks are, what it is, and how it holds a variable."""

    prefix: str
    metadata: ArrayMetadata
    binding: Binding
    shape: tuple[int, ...]


@dataclass(frozen=True)
class DetachedDataset:
    """The arrays of a dataset, for other processes that read and write their values.

    Nothing here can complete the dataset, or change its documents.
    """

    place: str
    writer: str | None
    #: The mark of the unfinished dataset, as long as it is one; None where it has none.
    mark: bytes | None
    options: Mapping[str, Any]
    arrays: Mapping[str, _Held]

    @classmethod
    def of(
        cls, stored: StoredDataset, target: Any, options: Mapping[str, Any] | None = None
    ) -> DetachedDataset:
        """Describe the arrays of a dataset at a target.

        Raises
        ------
        UnsupportedError
            If other processes cannot write to what the target is.
        """
        store: Store = stored.store
        writer: str | None = None
        if isinstance(store, StagedStore):
            writer, store = store.writer, store.store
        if isinstance(store, LocalStore):
            place = os.fspath(store.root)
            # A machine that does not share this file system has no such directory, and says so.
            os.makedirs(place, exist_ok=True)
        elif isinstance(target, str) and parse_target(target).protocol not in ("file", "memory"):
            place = target
        else:
            raise UnsupportedError(
                "other processes cannot write to this",
                path=store.url,
                hint="a directory or a URL can be shared",
            )
        arrays = {}
        for fqn in stored.dataset.all_variables:
            data = stored.data(fqn)
            arrays[fqn] = _Held(data.array.prefix, data.array.metadata, data.binding, data.shape)
        mark = store.get(UNFINISHED) if writer is None and store.takes_any_key else None
        return cls(place, writer, mark, dict(options or {}), arrays)

    def open(self) -> DetachedValues:
        """Open the store."""
        store = open_store(self.place, "r+", dict(self.options) or None)
        store = store if self.writer is None else StagedStore(store, self.writer)
        return DetachedValues(store, self.arrays, self.mark)


class _Arrays:
    """What :class:`VariableData` asks of a hierarchy."""

    def __init__(self, store: Store, arrays: Mapping[str, _Held]) -> None:
        self._arrays = {
            a.binding.path: Array(store, a.prefix, a.metadata, path=a.binding.path) for a in arrays.values()
        }

    def array(self, path: str) -> Array:
        return self._arrays[path]


class DetachedValues:
    """The values of a :class:`DetachedDataset`, open; several threads may read and write."""

    def __init__(self, store: Store, arrays: Mapping[str, _Held], mark: bytes | None = None) -> None:
        self.store = store
        self._mark = mark
        self.hierarchy: Any = _Arrays(store, arrays)
        self.written: set[str] = set()
        self._data = {fqn: VariableData(self, fqn, a.binding, a.shape) for fqn, a in arrays.items()}

    def is_awaited(self) -> bool:
        """False if the dataset was finished, removed or replaced since: what is written now would be left over."""
        return self._mark is None or self.store.get(UNFINISHED) == self._mark

    def data(self, fqn: str) -> VariableData:
        """Return the values of a variable."""
        return self._data[fqn]

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        """Write values to a region."""
        self._data[fqn].write(region, values)

    def close(self) -> None:
        """Release the store."""
        self.store.close()
