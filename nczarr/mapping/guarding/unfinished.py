"""Recognise Zarr datasets and unfinished datasets in stores.

While nczarr writes a new dataset, the key ``.nczarr-unfinished`` marks it. If the process dies, the marker
distinguishes its remains from other data, so that they may be replaced or cleaned like a dataset.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from nczarr.errors import DatasetNotFoundError, StoreError
from nczarr.stores import Store
from nczarr.stores.staging import StagedStore
from nczarr.system.atomic import is_writing
from nczarr.system.environment import read_json

#: The key that exists while a dataset is unfinished.
UNFINISHED = ".nczarr-unfinished"
#: The key of the record of finished blocks, with which a copy resumes.
RECORD = ".nczarr-blocks"
#: The description of :func:`holds_orphans`.
ORPHANS = "there are chunks of arrays without documents, which workers of an interrupted copy have left"
_NOTE = "This dataset was not finished: nczarr is writing it, or was stopped. `nczarr clean` finishes or removes it."

#: Documents of the root of a Zarr dataset, and their required members; the first is written last.
ROOTS = {
    "zarr.json": ("zarr_format",),
    ".zgroup": ("zarr_format",),
    ".zarray": ("zarr_format",),
    ".zmetadata": ("zarr_consolidated_format",),
    ".nczarr": ("zarr_format", "nczarr_version"),
}
#: The keys of chunks in a group, in version 3 and in version 2.
_NEW_CHUNK, _OLD_CHUNK = re.compile(r".+/c(/\d+)*"), re.compile(r".+/\d+(\.\d+)*")


@dataclass(frozen=True)
class UnfinishedMarker:
    """The content of the key ``.nczarr-unfinished``.

    Attributes
    ----------
    writer : str
        The writing process; see :func:`nczarr.system.atomic.is_writing`. Empty if it is unknown.
    staged : bool
        The new dataset is complete, but not in its place.
    """

    writer: str
    staged: bool = False

    @classmethod
    def read(cls, store: Store) -> UnfinishedMarker | None:
        """Return the marker of a store, None if there is none.

        Examples
        --------
        >>> from nczarr.stores import MemoryStore
        >>> store = MemoryStore(); store.set(UNFINISHED, UnfinishedMarker("1f", staged=True).data)
        >>> UnfinishedMarker.read(store), UnfinishedMarker.read(MemoryStore())
        (UnfinishedMarker(writer='1f', staged=True), None)
        """
        data = store.get(UNFINISHED) if store.takes_any_key else None
        if data is None:
            return None
        try:
            content = read_json(data.splitlines()[1])
            return cls(str(content["writer"]), bool(content["staged"]))
        except (ValueError, LookupError, TypeError):  # written by an earlier version
            return cls("")

    @property
    def data(self) -> bytes:
        """The value of the key."""
        return f"{_NOTE}\n{json.dumps({'writer': self.writer, 'staged': self.staged})}\n".encode()


def is_zarr(store: Store) -> bool:
    """Return whether the root of a store contains a document of a Zarr dataset, of any version.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore(); store.set("zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    >>> is_zarr(store), is_zarr(MemoryStore())
    (True, False)
    """
    for keys, data in zip(ROOTS.values(), store.get_many(list(ROOTS)), strict=True):
        if data is None:
            continue
        try:
            document = read_json(data)
        except ValueError:
            continue
        if isinstance(document, dict) and any(key in document for key in keys):
            return True
    return False


def holds_orphans(store: Store) -> bool:
    """Return whether a store contains chunks of arrays only, which workers write after their copy has ended.

    In the layout of version 2 a name with dots is required, because other programs number their files, too.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore(); store.set("g/v/c/0/1", b"")
    >>> holds_orphans(store), holds_orphans(MemoryStore())
    (True, False)
    """
    fits, dots, empty = {_NEW_CHUNK, _OLD_CHUNK}, False, True
    for key in store.list() if store.lists_all else ():
        empty = False
        fits = {pattern for pattern in fits if pattern.fullmatch(key)}
        dots = dots or "." in key.rpartition("/")[2]
        if not fits:
            return False
    return not empty and (_NEW_CHUNK in fits or dots)


def refuse_unfinished(store: Store) -> None:
    """Raise DatasetNotFoundError with the reason if the dataset in a store is unfinished."""
    marker = UnfinishedMarker.read(store)
    if marker is None:
        return
    if marker.staged:
        message = "a replacement of the dataset was interrupted; the new dataset is complete"
        raise DatasetNotFoundError(message, path=store.url, hint="nczarr clean puts it in place")
    if is_writing(marker.writer):
        raise DatasetNotFoundError("the dataset is unfinished: another process writes it", path=store.url)
    message = "the dataset is unfinished: its writer was stopped, or runs on another machine"
    raise DatasetNotFoundError(message, path=store.url, hint="nczarr clean removes it")


def put_in_place(store: Store, marker: UnfinishedMarker) -> None:
    """Replace a dataset by the complete new one beside it; may be repeated after an interruption."""
    staged = StagedStore(store, marker.writer)
    keys = set(staged.list())
    # Staged keys are removed after the marker only: while it exists, the list is complete.
    if UnfinishedMarker.read(store) != marker:
        raise StoreError("another process has put the new dataset in place meanwhile", path=store.url)
    staged.put_in_place(keys, list(ROOTS))
    store.delete(UNFINISHED)
    staged.discard()


def remove_unfinished(store: Store, kept: str | None = None) -> None:
    """Remove all keys of a store but `kept`, the marker last, so that an interrupted removal stays recognisable."""
    for key in ROOTS:
        store.delete(key)
    store.delete_many([key for key in store.list() if key not in (UNFINISHED, kept)])
    store.delete(UNFINISHED)
