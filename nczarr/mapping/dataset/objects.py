"""Count the objects of a hierarchy by array, and remove a hierarchy."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import NamedTuple

from nczarr.errors import DatasetNotFoundError, UnsupportedError
from nczarr.mapping.dataset.changes import WRITING, writing_alone
from nczarr.mapping.dataset.destination import UNFINISHED, UnfinishedMarker, is_zarr, remove_unfinished
from nczarr.mapping.dataset.subgroup import refuse_group_of_dataset
from nczarr.stores import LocalStore, Store, open_store
from nczarr.stores.zip import ZipStore
from nczarr.system import atomic
from nczarr.zarr import ArrayMetadata, Hierarchy, open_hierarchy

Options = Mapping[str, object]
#: The paths of the objects that are no chunks: documents and nczarr's own keys; and of foreign objects.
DOCUMENTS, FOREIGN = "(metadata)", "(others)"


class StoredObjects(NamedTuple):
    """The objects of an array with its path, or of :data:`DOCUMENTS` or :data:`FOREIGN`."""

    path: str
    objects: int
    size: int


def stored_objects(target: object, storage_options: Options | None = None) -> list[StoredObjects]:
    """Return number and size in bytes of the objects of each array; costs one listing.

    Raises
    ------
    DatasetNotFoundError
        There is no Zarr hierarchy.
    UnsupportedError
        The store does not list all its keys.

    Examples
    --------
    >>> from nczarr.mapping import create_dataset
    >>> from nczarr.model import INT, Dataset, Variable
    >>> store = {}
    >>> create_dataset(store, Dataset("d", variables=(Variable("v", INT),))).close()
    >>> store["notes.txt"] = b"abc"
    >>> [(item.path, item.objects) for item in stored_objects(store)]
    [('(metadata)', 2), ('(others)', 1)]
    """
    with open_store(target, "r", dict(storage_options or {})) as store:
        hierarchy = open_hierarchy(store)
        if not store.lists_all:
            raise UnsupportedError(
                "the store does not list all its keys, so they cannot be counted", path=store.url
            )
        warn_of_versions(store)
        return _counted(hierarchy, store.sizes())


def warn_of_versions(store: Store) -> None:
    """Warn if the bucket keeps the versions of objects that were replaced or removed."""
    if store.keeps_versions:
        warnings.warn(
            f"{store.url}: the bucket keeps older versions of objects, also of removed ones. They are not counted, and "
            "cost; a lifecycle rule of the bucket removes them",
            stacklevel=2,
        )


def _counted(hierarchy: Hierarchy, sizes: Iterable[tuple[str, int]]) -> list[StoredObjects]:
    arrays = {
        hierarchy.chunk_prefix(path): path
        for path, node in hierarchy.nodes.items()
        if isinstance(node, ArrayMetadata)
    }
    counts: dict[str, tuple[int, int]] = {}
    for key, size in sizes:
        above, _, name = key.rpartition("/")
        is_document = name == "zarr.json" or name.startswith((".z", ".nc"))
        if (is_document and above in hierarchy.nodes) or (
            hierarchy.layout not in ("v2", "v3") and key.startswith("meta/")
        ):
            path = DOCUMENTS
        else:
            folders = accumulate(key.split("/")[:-1], "{}/{}".format)
            path = next((f"/{arrays[f]}" for folder in folders if (f := f"{folder}/") in arrays), "")
            path = path or ("/" if "" in arrays else FOREIGN)
        objects, total = counts.get(path, (0, 0))
        counts[path] = objects + 1, total + size
    return [
        StoredObjects(path, *counts[path]) for path in sorted(counts, key=lambda path: (path[0] == "(", path))
    ]


def remove(target: object, *, storage_options: Options | None = None, force: bool = False) -> None:
    """Remove a Zarr hierarchy: first the documents of the root, so that no reader takes a part for the whole.

    Parameters
    ----------
    target
        As for :func:`nczarr.stores.open_store`.
    storage_options : mapping, optional
        For the file system of a URL.
    force : bool, default False
        Also remove objects that do not belong to the hierarchy.

    Raises
    ------
    DatasetNotFoundError
        There is no Zarr hierarchy.
    UnsupportedError
        The target is a group of a dataset, or contains foreign objects.
    WrittenElsewhereError
        The dataset is open for writing.

    Examples
    --------
    >>> from nczarr.mapping import create_dataset
    >>> from nczarr.model import Dataset
    >>> store = {}
    >>> create_dataset(store, Dataset("d")).close()
    >>> remove(store)
    >>> store
    {}
    """
    with open_store(target, "r+", dict(storage_options or {})) as store:
        refuse_group_of_dataset(store, "removed")
        if not is_zarr(store):
            raise DatasetNotFoundError(
                "there is no Zarr hierarchy", path=store.url, hint="nczarr clean removes remains of writers"
            )
        with writing_alone(store) as check:
            if not force:
                _refuse_foreign(store)
            check()
            if isinstance(store, ZipStore):
                os.unlink(store.path)
            else:
                # After a kill, `clean` sees that the process has ended.
                store.set(UNFINISHED, UnfinishedMarker(atomic.new_writer()).data)
                remove_unfinished(store, kept=WRITING)
        if isinstance(store, LocalStore):
            atomic.remove_empty_directories(store.root)
            with suppress(OSError):  # not empty
                store.root.rmdir()


def _refuse_foreign(store: Store) -> None:
    foreign = [item for item in stored_objects(store) if item.path == FOREIGN]
    if foreign:
        raise UnsupportedError(
            f"{foreign[0].objects:,} objects here do not belong to the hierarchy",
            path=store.url,
            hint="nczarr du counts them; --force removes them too",
        )
