"""Write values of a dataset that another process has created and will complete, from picklable descriptions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.mapping.dataset.destination import UNFINISHED
from nczarr.mapping.dataset.stored import StoredDataset
from nczarr.mapping.dataset.variable_data import VariableData
from nczarr.mapping.dialect import Binding
from nczarr.model import Region
from nczarr.rooms import Door
from nczarr.stores import LocalStore, Store, open_store
from nczarr.stores.staging import StagedStore
from nczarr.system.locks import Rank, make_lock
from nczarr.targets import parse_target
from nczarr.zarr import Array, ArrayMetadata

if TYPE_CHECKING:
    from nczarr.stores.remote import icechunk_forks
else:
    icechunk_forks = Door("nczarr.stores.remote.icechunk_forks")


@dataclass(frozen=True)
class _ArrayPlace:
    """An array: the place of its chunks, its metadata, and its variable."""

    prefix: str
    metadata: ArrayMetadata
    binding: Binding
    shape: tuple[int, ...]
    omits_empty: bool


@dataclass(frozen=True)
class DetachedDataset:
    """The arrays of a dataset, for other processes that read and write their values.

    These processes can neither complete the dataset nor change its documents.
    """

    place: str
    writer: str | None
    #: The marker of the unfinished dataset; None without a marker.
    mark: bytes | None
    options: Mapping[str, object]
    arrays: Mapping[str, _ArrayPlace]
    #: A fork of a session of Icechunk; None: the place is a directory or a URL.
    fork: bytes | None = None

    @classmethod
    def of(
        cls,
        stored: StoredDataset,
        target: object,
        options: Mapping[str, object] | None = None,
        *,
        merges: bool = False,
    ) -> DetachedDataset:
        """Describe the arrays of a dataset at a target.

        Parameters
        ----------
        merges : bool
            The caller takes :meth:`DetachedValues.changes` of each process over.

        Raises
        ------
        UnsupportedError
            Other processes cannot write to the target.
        """
        store: Store = stored.store
        writer: str | None = None
        fork = icechunk_forks.fork_of(store) if merges else None
        if isinstance(store, StagedStore):
            writer, store = store.writer, store.store
        if isinstance(store, LocalStore):
            place = os.fspath(store.root)
            # On a machine that does not share this file system, the missing directory causes an error.
            os.makedirs(place, exist_ok=True)
        # A store in memory, or one that the program has made, exists in this process only.
        elif isinstance(target, str) and parse_target(target).protocol not in ("file", "memory"):
            place = target
        elif fork is not None:
            place = store.url
        else:
            raise UnsupportedError(
                "other processes cannot write to this target",
                path=store.url,
                hint="use a directory, a URL, or the store of a session of Icechunk without changes",
            )
        arrays = {}
        for fqn in stored.dataset.all_variables:
            data = stored.data(fqn)
            arrays[fqn] = _ArrayPlace(
                data.array.prefix,
                data.array.metadata,
                data.binding,
                data.shape,
                stored.hierarchy.omits_empty_chunks,
            )
        mark = store.get(UNFINISHED) if writer is None and store.takes_any_key else None
        return cls(place, writer, mark, dict(options or {}), arrays, fork)

    def open(self) -> DetachedValues:
        """Open the store."""
        if self.fork is not None:
            return DetachedValues(icechunk_forks.open_fork(self.fork), self.arrays, is_fork=True)
        store = open_store(self.place, "r+", self.options)
        store = store if self.writer is None else StagedStore(store, self.writer)
        return DetachedValues(store, self.arrays, self.mark)


class _DetachedArrays:
    """The arrays without their hierarchy."""

    def __init__(self, store: Store, arrays: Mapping[str, _ArrayPlace]) -> None:
        self.lock = make_lock(Rank.STRUCTURE)
        self._arrays = {
            a.binding.path: Array(store, a.prefix, a.metadata, path=a.binding.path, omits_empty=a.omits_empty)
            for a in arrays.values()
        }

    def array(self, path: str) -> Array:
        return self._arrays[path]

    def claimed(self, path: str) -> None:
        """Return None: the documents may have changed."""


class DetachedValues:
    """The values of a :class:`DetachedDataset`, open; several threads may read and write."""

    def __init__(
        self,
        store: Store,
        arrays: Mapping[str, _ArrayPlace],
        mark: bytes | None = None,
        *,
        is_fork: bool = False,
    ) -> None:
        self.store = store
        self._is_fork = is_fork
        self._mark = mark
        self.hierarchy = _DetachedArrays(store, arrays)
        self.written: set[str] = set()
        self._data = {fqn: VariableData(self, fqn, a.binding, a.shape) for fqn, a in arrays.items()}

    def is_awaited(self) -> bool:
        """Return False if the dataset was finished, removed or replaced, so that new values would be remains."""
        # A late worker would write chunks that no document names.
        return self._mark is None or self.store.get(UNFINISHED) == self._mark

    def refuse_late(self) -> None:
        """Raise an error if no new values are awaited."""
        if not self.is_awaited():
            raise NCZarrError("the copy has ended", path=self.store.url)

    def changes(self) -> bytes | None:
        """Return what the process that has made the dataset must take over; None if the store itself has all."""
        return icechunk_forks.fork_of(self.store) if self._is_fork else None

    def data(self, fqn: str) -> VariableData:
        """Return the values of a variable."""
        return self._data[fqn]

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        """Write values to a region."""
        self._data[fqn].write(region, values)

    def close(self) -> None:
        """Release the store."""
        self.store.close()
