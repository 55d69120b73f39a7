"""Finish or remove what interrupted writers left of a dataset."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from nczarr.mapping.dataset.subgroup import refuse_group_of_dataset
from nczarr.mapping.guarding.changes import UNSTORED, remove_mark, remove_unclaimed, writer_at
from nczarr.mapping.guarding.destination import (
    ORPHANS,
    RECORD,
    UNFINISHED,
    Mark,
    holds_orphans,
    is_zarr,
    put_in_place,
    remove_unfinished,
)
from nczarr.mapping.rewriting.rename_journal import finish_moves, forget_moves
from nczarr.stores import LocalStore, Store, open_store
from nczarr.stores.staging import StagedStore, staged_writers
from nczarr.system.atomic import (
    holds_nothing,
    is_writing,
    remove_empty_directories,
    remove_leftovers,
    remove_partial_values,
    restore,
)
from nczarr.targets import parse_target


def clean(target: Any, *, storage_options: dict[str, Any] | None = None, force: bool = False) -> list[str]:
    """Finish or remove what interrupted writers left of a dataset, and beside it.

    A complete dataset is never touched, nor is a directory that is no dataset. A replacement that was complete is put
    in its place; what was not complete is removed. What a process writes that still runs stays; so does what was
    written on another machine, of whose processes nothing is known here, and chunks of arrays without documents, unless
    `force` is given.

    Parameters
    ----------
    target
        As for :func:`nczarr.stores.open_store`.
    storage_options : dict, optional
        For the file system of a URL.
    force : bool, default False
        Take the writers on other machines for dead, and remove chunks without documents where nothing else is.

    Returns
    -------
    list of str
        A sentence for each thing that was found.

    Examples
    --------
    >>> import tempfile
    >>> clean(os.path.join(tempfile.gettempdir(), "no-such.zarr"))
    []
    """
    said: list[str] = []
    if isinstance(target, str | os.PathLike) and (parsed := parse_target(target)).protocol == "file":
        path = Path(os.path.realpath(parsed.location))
        if restore(path):
            said.append(f"{parsed.location}: put back; the process that was replacing it was stopped")
        for beside in (path, path.with_name(f"{path.name}.rechunk")):  # and the intermediate of a copy
            said += [f"{removed}: removed" for removed in remove_leftovers(beside)]
        if not path.is_dir() or not _is_ours(path):
            return said
        said += [f"{removed}: removed" for removed in remove_partial_values(path)]
    store = open_store(target, "r+", storage_options)
    store.keep_order()
    try:
        refuse_group_of_dataset(store, "cleaned")
        found = _clean_store(store, force)
        store.settle()
    finally:
        if store is not target:
            store.close()
    said += found
    if said and isinstance(store, LocalStore):
        remove_empty_directories(store.root)
        with suppress(OSError):  # not empty
            store.root.rmdir()
    return said


def _is_ours(folder: Path) -> bool:
    """True if a directory is a dataset, or what was to become one: any other is not looked through."""
    store = open_store(folder)
    try:
        marked = any(n.startswith(".nczarr-") and not n.endswith(".tmp") for n in os.listdir(folder))
        return marked or is_zarr(store) or holds_nothing(folder) or holds_orphans(store)
    finally:
        store.close()


def _clean_store(store: Store, force: bool) -> list[str]:
    said = []
    mark = Mark.read(store)
    busy = _busy(mark.writer, force) if mark else None
    if mark and busy:
        said.append(f"{store.url}: unfinished; {busy}")
    elif mark and mark.staged:
        put_in_place(store, mark)
        said.append(f"{store.url}: the new dataset, which was complete, is in place now")
    elif mark and is_zarr(store):
        store.delete(UNFINISHED)
        said.append(f"{store.url}: complete; the mark of an unfinished dataset is removed")
    elif mark:
        remove_unfinished(store)
        said.append(f"{store.url}: an unfinished dataset is removed")
    if mark is None and not is_zarr(store) and holds_orphans(store):
        if force:
            remove_unfinished(store)
            said.append(f"{store.url}: chunks of arrays without documents are removed")
        else:
            said.append(f"{store.url}: {ORPHANS}; if no worker runs any more, --force removes them")
    if mark is None and store.takes_any_key and store.exists(RECORD) and is_zarr(store):
        store.delete(RECORD)
        said.append(f"{store.url}: the record of a copy that is complete is removed")
    if store.takes_any_key and store.exists(UNSTORED):
        store.delete(UNSTORED)
        said.append(f"{store.url}: the mark of values that were not stored is removed")
    if finish_moves(store, force=force):
        said.append(
            f"{store.url}: variables have their new names now; the process that was renaming was stopped"
        )
    if store.listable:
        forget_moves(store)
    changer = writer_at(store)
    if changer is not None:
        busy = _busy(changer, force)
        if busy:
            said.append(f"{store.url}: its metadata are being changed; {busy}")
        else:
            said += [f"{store.place(path)}: removed" for path in remove_unclaimed(store)]
            remove_mark(store)
            said.append(f"{store.url}: the mark of a change that was interrupted is removed")
    for writer in staged_writers(store) if store.listable else []:
        staged = StagedStore(store, writer)
        busy = _busy(writer, force)
        if busy:
            said.append(f"{store.url}: an unfinished new dataset stands beside it; {busy}")
        else:
            staged.discard()
            said.append(f"{store.url}: an unfinished new dataset beside it is removed")
    return said


def _busy(writer: str, force: bool) -> str | None:
    """Say why the work of a writer has to stay; None if it has not."""
    writing = is_writing(writer)
    if writing:
        return f"process {int(writer.split('-')[1], 16)} is writing it"
    if writing is None and not force:
        return "another machine may be writing it; if none is, use --force"
    return None
