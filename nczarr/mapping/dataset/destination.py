"""Write a new dataset where nothing half-written looks complete and nothing foreign is deleted.

* What exists is replaced only if that was asked for, and only if it is a Zarr dataset.
* A local directory or zip file that is replaced stays as it is until the new one is complete: that is written
  beside it and renamed.
* Everywhere else the old dataset is deleted first, root document first, so no reader mistakes a mixture for it.
* While a dataset is written, a key of its own says so. What a process left that died can be told from other
  things by that, and may be replaced like a dataset.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

from nczarr.atomic import partial_path, replace_directory
from nczarr.errors import DatasetExistsError, NCZarrError, StoreError
from nczarr.stores import LocalStore, Store, open_store
from nczarr.stores.zip import ZipStore

#: The key that is there while a dataset is unfinished.
UNFINISHED = ".nczarr-unfinished"
_NOTE = b"This dataset was not finished: nczarr is writing it, or was stopped. It may be overwritten.\n"

#: Documents that make something a Zarr dataset, and what has to be in them.
_ROOTS = {
    "zarr.json": ("zarr_format",),
    ".zgroup": ("zarr_format",),
    ".zarray": ("zarr_format",),
    ".zmetadata": ("zarr_consolidated_format",),
    ".nczarr": ("zarr_format", "nczarr_version"),
}


def is_zarr(store: Store) -> bool:
    """True if the root of a store holds a document of a Zarr dataset, of any version.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore(); store.set("zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    >>> is_zarr(store), is_zarr(MemoryStore())
    (True, False)
    """
    for (_, keys), data in zip(_ROOTS.items(), store.get_many(list(_ROOTS)), strict=True):
        if data is None:
            continue
        try:
            document = json.loads(data)
        except ValueError:
            continue
        if isinstance(document, dict) and any(key in document for key in keys):
            return True
    return False


class Destination:
    """A place for a new dataset, and how to make it visible or to clear it away.

    Parameters
    ----------
    target
        As for :func:`nczarr.stores.open_store`.
    overwrite : bool
    storage_options : dict, optional

    Raises
    ------
    DatasetExistsError
        If there is something that may not be replaced.
    """

    def __init__(
        self, target: Any, *, overwrite: bool = False, storage_options: dict[str, Any] | None = None
    ) -> None:
        self._final: Path | None = None
        self._temporary: Path | None = None
        self._created = False
        self._occupied = False
        self._url = ""
        store = None
        if isinstance(target, str | os.PathLike):
            store = self._beside(target, overwrite, storage_options)
        if store is None:
            store = open_store(target, "w", storage_options)
            if isinstance(store, LocalStore):
                store = self._local(store, overwrite)
            else:
                self._check(store, overwrite)
        self.store: Store = store

    # -- checks

    def _refuse(self, store: Store, overwrite: bool) -> None:
        unfinished = store.exists(UNFINISHED)
        if not unfinished and not is_zarr(store):
            self._refuse_always(store.url)
        if not overwrite:
            raise DatasetExistsError(
                "an unfinished dataset is there" if unfinished else "the dataset exists already",
                path=store.url,
                hint="--overwrite, in Python overwrite=True, replaces it",
            )

    def _refuse_always(self, url: str) -> NoReturn:
        raise DatasetExistsError(
            "it exists and is not a Zarr dataset, so it is never overwritten",
            path=url,
            hint="choose another name, or remove it yourself",
        )

    # -- local directories and zip files

    def _local(self, store: LocalStore, overwrite: bool) -> LocalStore:
        root = Path(os.path.realpath(store.root))
        self._url = store.url
        if not os.path.lexists(root):
            self._created = True
            return store
        if not root.is_dir():
            self._refuse_always(store.url)
        try:
            empty = next(root.iterdir(), None) is None
        except OSError as error:
            raise StoreError(f"cannot list: {error.strerror}", path=store.url) from error
        if empty:
            return store
        self._refuse(store, overwrite)
        self._final = root
        self._temporary = partial_path(root)
        beside = LocalStore(self._temporary, "w")
        beside.url = store.url
        return beside

    def _beside(
        self, target: str | os.PathLike[str], overwrite: bool, storage_options: dict[str, Any] | None
    ) -> Store | None:
        """A zip file that is to be replaced: a new one beside it."""
        try:
            if not os.path.isfile(target):
                return None
            existing = open_store(target, "r", storage_options)
        except NCZarrError:
            self._refuse_always(os.fspath(target))
        with existing:
            if not isinstance(existing, ZipStore):
                return None
            self._refuse(existing, overwrite)
        return ZipStore(existing.url, "w", replace=True)

    # -- other stores

    def _check(self, store: Store, overwrite: bool) -> None:
        if store.listable:
            keys, prefixes = store.list_dir()
            if not keys and not prefixes:
                return
        elif not is_zarr(store) and not store.exists(UNFINISHED):
            return
        self._refuse(store, overwrite)
        self._occupied = True

    def prepare(self) -> None:
        """Clear the place, once nothing can be refused any more; before that nothing was touched."""
        if self._occupied:
            for key in _ROOTS:
                self.store.delete(key)
            if self.store.listable:
                self.store.delete_prefix("")
            self._occupied = False
        if not self.replaces and not isinstance(self.store, ZipStore):
            self.store.set(UNFINISHED, _NOTE)

    # -- the end

    @property
    def replaces(self) -> bool:
        """True if the dataset is written beside another one, which it replaces when it is complete."""
        return self._temporary is not None

    def finish(self) -> Store | None:
        """Put the complete dataset in its place; the store is closed before.

        Returns
        -------
        Store or None
            The store at the final place, if it is another one now.
        """
        if isinstance(self.store, ZipStore):
            self.store.sync()
            return None
        if self._temporary is None or self._final is None:
            self.store.delete(UNFINISHED)
            return None
        self.store.close()
        try:
            replace_directory(self._temporary, self._final)
        except OSError as error:
            raise StoreError(
                f"cannot put the new dataset in place: {error.strerror}", path=self._url
            ) from error
        store = LocalStore(self._final, "r+")
        self._temporary = None
        store.url = self.store.url
        self.store = store
        return store

    def abort(self) -> None:
        """Remove all that was written; what was there before stays, where it still is."""
        if isinstance(self.store, ZipStore):
            self.store.discard()
            return
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            return
        if self._created and isinstance(self.store, LocalStore):
            shutil.rmtree(self.store.root, ignore_errors=True)
            return
        if self.store.listable and not self._occupied:
            self.store.delete_prefix("")
        self.store.close()
