"""Mark that documents change, keep other writers away, and tell what others have changed or left half-done.

Other programs change the document of one node and leave the copies in the root's document alone. On local disks
one look at each document's time tells; elsewhere that would cost a request for each. While nczarr itself changes
documents, a mark says so, and the copies are what readers see until all is written.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from nczarr.errors import DatasetNotFoundError, NCZarrError, StoreError
from nczarr.stores import LocalStore, Store
from nczarr.system.atomic import is_writing, new_writer
from nczarr.system.locks import FileLock
from nczarr.zarr import Hierarchy, open_hierarchy

#: The key that is there while nczarr changes a dataset: it holds the name of the writer.
WRITING = ".nczarr-writing"
#: Begins the key that says who has taken over from a writer that died.
_TAKEN = f"{WRITING}-by-"
#: The key with the reason why the last flush of a dropped dataset failed; `nczarr clean` removes it.
UNSTORED = ".nczarr-unstored"


@contextmanager
def writing_alone(store: Store) -> Iterator[Callable[[], None]]:
    """Keep other writers away from a dataset: by the system's lock on a directory or zip file, else by a mark.

    The mark is a key of the store. A conditional write sets it, so that of several writers just one does. A store that
    takes the keys of Zarr only (Icechunk) refuses conflicting changes as a whole. Where a store has neither locks nor
    conditional writes, a warning says so.

    Yields
    ------
    callable
        Raises StoreError if somebody has taken the mark away; to be called before the first change that readers see.

    Raises
    ------
    StoreError
        If somebody, here or in another process, has the dataset open for writing.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> with writing_alone(MemoryStore()) as check:
    ...     check()
    """
    place = _local_place(store)
    if place:
        try:
            lock = FileLock(place)
        except BlockingIOError as error:
            raise _written_elsewhere(store) from error
        if not lock.held:
            _warn_unguarded(store)
        try:
            yield lambda: None
        finally:
            lock.release()
        return
    if not store.takes_any_key:
        yield lambda: None
        return
    mine = new_writer()

    def check() -> None:
        if writer_at(store) != mine:
            raise StoreError(
                f"the mark {WRITING} of this writer was removed, and another process may have written meanwhile",
                path=store.url,
            )

    _set_mark(store, mine)
    try:
        yield check
    finally:
        if writer_at(store) == mine:
            remove_mark(store)


def _local_place(store: Store) -> str:
    """The directory or the zip file that can be locked; empty if the store is another."""
    from nczarr.stores.zip.store import ZipStore

    if isinstance(store, LocalStore):
        return str(store.root)
    return store.path if isinstance(store, ZipStore) else ""


def _set_mark(store: Store, mine: str) -> None:
    """Mark that this writer changes a dataset.

    Raises
    ------
    StoreError
        If another writer has marked it, and is not known to be dead.
    """
    data = mine.encode()
    # A client that tries a request again can be refused because of its own mark.
    if store.set_if_absent(WRITING, data) or writer_at(store) == mine:
        if not store.has_conditions or store.set_if_absent(WRITING, data):
            _warn_unguarded(store)
        return
    writer = writer_at(store)
    alive = None if writer is None else is_writing(writer)
    if writer is not None and alive is None:
        raise StoreError(
            "a process on another machine is writing to the dataset, or was stopped while it did",
            path=store.url,
            hint="if none is, nczarr clean --force removes its mark",
        )
    # Of several that take over from one that died, one may; and not if that one's mark has gone meanwhile.
    if alive is False:
        taken = store.set_if_absent(f"{_TAKEN}{writer}", data)
        if writer_at(store) == mine:
            return
        if taken:
            store.delete(f"{_TAKEN}{writer}")
    raise _written_elsewhere(store)


def _marks(store: Store) -> dict[str, str]:
    """The keys of the mark: of the writer that has set it, and of those that have taken over, each with the writer."""
    marks: dict[str, str] = {}
    key = WRITING
    while key not in marks and (data := store.get(key)) is not None:
        marks[key] = data.decode("ascii", "replace")
        key = _TAKEN + marks[key]
    return marks


def writer_at(store: Store) -> str | None:
    """Return the writer that has marked the dataset, or the last that has taken over; None if there is no mark."""
    return next(reversed(_marks(store).values()), None)


def remove_mark(store: Store) -> None:
    """Let others write: remove the mark, then what says who has taken it over."""
    for key in _marks(store):
        store.delete(key)


def _written_elsewhere(store: Store) -> StoreError:
    return StoreError(
        "the dataset is open for writing, here or in another process", path=store.url, hint="close it there"
    )


def _warn_unguarded(store: Store) -> None:
    warnings.warn(
        f"{store.url}: the store has neither locks nor conditional writes, so nothing keeps another process from "
        "writing to the dataset at the same time; make sure that none does",
        stacklevel=4,
    )


def begin_changes(store: Store, hierarchy: Hierarchy) -> bool:
    """Mark that documents are about to change; returns whether there is a mark to be taken away.

    What a process left that died meanwhile is removed first: with the new mark nobody would know it.
    """
    if type(store) is not LocalStore or hierarchy.hidden:
        return False
    before = store.get(WRITING)
    if before is not None and is_writing(before.decode("ascii", "replace")) is False:
        remove_unclaimed(store, hierarchy)
    store.set(WRITING, new_writer().encode())
    return True


def end_changes(store: Store) -> None:
    """Take the mark away, when the consolidated metadata are right again."""
    store.delete(WRITING)


def moment(store: Store) -> tuple[int, ...] | None:
    """Return what stays the same until nczarr writes to a local dataset with consolidated metadata; None while it does.

    The documents that are read between two equal moments belong together.
    """
    if type(store) is not LocalStore or _is_changing(store):
        return None
    for name in _CONSOLIDATED.values():
        try:
            root = os.stat(f"{store.root}/{name}")
        except OSError:
            continue
        return (root.st_ino, root.st_mtime_ns)
    return None


def _is_changing(store: Store) -> bool:
    """True if a process that lives, or that cannot be asked, is changing documents."""
    data = store.get(WRITING)
    return data is not None and is_writing(data.decode("ascii", "replace")) is not False


#: By layout, the document with the consolidated metadata, and the documents of a node.
_CONSOLIDATED = {"v3": "zarr.json", "v2": ".zmetadata"}
_DOCUMENTS = {"v3": ("zarr.json",), "v2": (".zarray", ".zgroup", ".zattrs")}


def stale_nodes(store: Store, hierarchy: Hierarchy) -> list[str]:
    """Return the paths of nodes whose documents are newer than the consolidated metadata, new, or gone.

    Empty where that cannot be found out cheaply.
    """
    if type(store) is not LocalStore or hierarchy.layout not in _DOCUMENTS or not hierarchy.consolidated:
        return []
    try:
        stale = list(_stale(str(store.root), hierarchy))
    except NCZarrError:
        raise
    except OSError:
        return []
    return [] if stale and _is_changing(store) else stale


def _stale(root: str, hierarchy: Hierarchy) -> Iterator[str]:
    documents = _DOCUMENTS[hierarchy.layout]
    consolidated = os.stat(f"{root}/{_CONSOLIDATED[hierarchy.layout]}").st_mtime_ns
    known: dict[str, set[str]] = {"": set()}
    for path in hierarchy.nodes:
        if path:
            above, _, name = path.rpartition("/")
            known.setdefault(above, set()).add(name)
            if not hierarchy.is_array(path):
                known.setdefault(path, set())
    # The root of version 2 is written together with the copies: only what it says tells which is newer.
    if hierarchy.layout == "v2" and _newest(root, documents) > consolidated and hierarchy.is_outdated(""):
        yield ""
    for group, names in known.items():
        folder = f"{root}/{group}" if group else root
        prefix = f"{group}/" if group else ""
        for name in names:
            try:
                changed = _newest(f"{folder}/{name}", documents) > consolidated
            except FileNotFoundError:
                changed = hierarchy.is_array(prefix + name) or bool(known.get(prefix + name))
            if changed:
                yield prefix + name
        with os.scandir(folder) as entries:
            for entry in entries:
                unknown = entry.name not in names and not entry.name.startswith(".") and entry.is_dir()
                if unknown and any(os.path.exists(f"{folder}/{entry.name}/{d}") for d in documents[:2]):
                    yield prefix + entry.name


def _newest(folder: str, documents: tuple[str, ...]) -> int:
    """The time of a node's newest document.

    Raises
    ------
    FileNotFoundError
        It has none that makes it a node.
    """
    times = []
    for name in documents:
        with suppress(FileNotFoundError):
            times.append(os.stat(f"{folder}/{name}").st_mtime_ns)
        if name != ".zarray" and not times:
            raise FileNotFoundError(folder)
    return max(times)


#: The keys of chunks, below whatever folders, by layout.
_CHUNKS = {
    "v3": re.compile(r"(.*/)?c(/\d+)*"),
    "v2": re.compile(r"(.*/)?\d+([./]\d+)*"),
}


def remove_unclaimed(store: Store, hierarchy: Hierarchy | None = None) -> list[str]:
    """Remove folders that hold chunks and no documents, and are no node's. Returns which these were.

    To be called only where it is known that nczarr was changing the dataset and died, so that they are its own.
    """
    if type(store) is not LocalStore:
        return []
    if hierarchy is None:
        try:
            hierarchy = open_hierarchy(store)
        except DatasetNotFoundError:
            return []
    pattern = _CHUNKS.get(hierarchy.layout)
    if pattern is None:
        return []
    nodes = hierarchy.nodes
    removed = []
    for group in [path for path in nodes if not nodes.is_array(path)]:
        for name in store.list_dir(group)[1]:
            path = f"{group}/{name}" if group else name
            if name.startswith(".") or path in nodes or any(node.startswith(f"{path}/") for node in nodes):
                continue
            keys = list(store.list(path))
            if keys and all(pattern.fullmatch(key, len(path) + 1) for key in keys):
                store.delete_prefix(path)
                removed.append(path)
    return removed


def mark_unstored(store: Store, reason: str) -> None:
    """Record why a flush failed. A store that cannot be written at all gets no mark."""
    if store.takes_any_key:
        with suppress(NCZarrError, OSError):
            store.set(UNSTORED, reason.encode("utf-8", "replace"))


def unstored_reason(store: Store) -> str | None:
    """Return why the last flush of a dataset failed; None if there is no mark, or to look for it costs a request.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> unstored_reason(MemoryStore()) is None
    True
    """
    if not isinstance(store, LocalStore):
        return None
    data = store.get(UNSTORED)
    return None if data is None else data.decode("utf-8", "replace")
