"""Exclude concurrent writers, mark changes of documents, and detect changes and remains of other writers.

Other programs change the document of one node without the copies in the root's document. On local disks the time of
each document reveals that; elsewhere it would cost a request for each. While nczarr itself changes documents, a marker
declares it, and readers use the copies until all documents are written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from nczarr.dataclass import dataclass
from nczarr.errors import DatasetNotFoundError, LockedError, NCZarrError, StoreError, suppress_reason
from nczarr.lazy import pattern
from nczarr.stores import LocalStore, Store
from nczarr.system.atomic import WriterState, new_writer, writer_state
from nczarr.system.locks import FileLock
from nczarr.system.logs import logger_of
from nczarr.system.warning import warn
from nczarr.zarr import Hierarchy, open_hierarchy

#: The key that exists while nczarr changes a dataset; its value is the name of the writer.
WRITING = ".nczarr-writing"
#: The folder with the names of the writers that change parts of chunks beside each other.
BESIDE = ".nczarr-beside"
#: Prefix of the keys of writers that have taken over from a dead writer.
_TAKEN = f"{WRITING}-by-"
#: The key with the reason why the last flush of a dropped dataset failed; `nczarr clean` removes it.
UNSTORED = ".nczarr-unstored"
#: The writers of this process that have not been closed. A failed close may have left the marks of others.
_open_writers: set[str] = set()


@dataclass(frozen=True)
class Alone:
    """The right to write to a dataset while no other writer has it.

    Attributes
    ----------
    check : callable
        Raises StoreError if another writer may have got the dataset; call it before the first change that readers see.
    keys : frozenset of str or None
        The keys at the top of the store, listed since others are excluded; None: not known.
    """

    check: Callable[[], None]
    keys: frozenset[str] | None = None


@contextmanager
def writing_alone(store: Store) -> Iterator[Alone]:
    """Exclude other writers of a dataset: by the system's lock on a directory or zip file, else by a marker.

    The marker is a key of the store. A conditional write sets it, so only one of several writers succeeds. A store that
    accepts the keys of Zarr only (Icechunk) refuses conflicting changes as a whole. A store without locks and
    conditional writes causes a warning.

    Raises
    ------
    LockedError
        The dataset is open for writing, in this or another process.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> with writing_alone(MemoryStore()) as alone:
    ...     alone.check()
    """
    from nczarr.stores.zip import ZipStore

    if isinstance(store, LocalStore | ZipStore):
        lock = locked(store, str(store.root) if isinstance(store, LocalStore) else store.path)
        try:
            yield Alone(lambda: None)
        finally:
            lock.release()
        return
    # Icechunk takes no keys of others, and finds conflicts when it commits.
    if not store.takes_any_key:
        yield Alone(lambda: None)
        return
    mark = WriterMark(store)
    try:
        yield Alone(mark.check, mark.keys)
    finally:
        mark.release()


def locked(store: Store, place: str, *, shared: bool = False) -> FileLock:
    """Lock a directory or zip file; warn where the file system has no locks."""
    try:
        lock = FileLock(place, shared=shared)
    except BlockingIOError as error:
        raise _written_elsewhere(store) from error
    # A file system without locks excludes no other writer.
    if not lock.held:
        _warn_unguarded(store)
    return lock


class WriterMark:
    """Mark a dataset in a store without locks as open for writing.

    A conditional write sets the key, so only one of several writers succeeds. A writer takes over from a dead process
    of the same machine.

    Raises
    ------
    LockedError
        Another writer has marked the dataset, and may be alive.
    StoreError
        The store refuses the key, so it would refuse all changes.

    Attributes
    ----------
    excludes : bool
        False if the store has no conditional writes, so that nothing excludes other writers.
    keys : frozenset of str or None
        The keys at the top of the store, with the mark; None if the store does not list them.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> mark = WriterMark(store)
    >>> list(store.list())
    ['.nczarr-writing']
    >>> mark.release()
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.excludes = True
        self.keys: frozenset[str] | None = None
        self._writer = new_writer()
        self._set(self._writer.encode())
        _open_writers.add(self._writer)
        try:
            self._refuse_writers_beside()
        except BaseException:
            self.release()
            raise

    def _refuse_writers_beside(self) -> None:
        """Refuse a dataset in which other processes change parts of chunks; forget those that have ended."""
        beside: list[str] = []
        # Credentials without the right to list do not show the others, which are refused only if they come later.
        with suppress_reason("refused"):
            if self._store.listable:
                # One listing of the top answers for the others beside, and for a rename that a killed program has left.
                keys, folders = self._store.list_dir()
                beside += self._store.list(BESIDE) if BESIDE in folders else ()
                self.keys = frozenset(keys)
        for key in beside:
            if state_of_mark(key.rpartition("/")[2], self._writer) is not WriterState.ENDED:
                raise LockedError(
                    "another process writes a region of the dataset, or was stopped before it finished",
                    path=self._store.url,
                    hint="close it there; if it was stopped, nczarr clean --force removes its marker",
                )
            self._store.delete(key)

    def _set(self, data: bytes) -> None:
        store = self._store
        # A client that repeats a request may be refused because of its own mark.
        if store.set_if_absent(WRITING, data) or self._is_here():
            self.excludes = store.has_conditions and not store.set_if_absent(WRITING, data)
            if not self.excludes:
                _warn_unguarded(store)
            return
        writer = writer_at(store)
        state = WriterState.UNKNOWN if writer is None else state_of_mark(writer, self._writer)
        if writer is not None and state is WriterState.UNKNOWN:
            raise LockedError(
                "a process on another machine is writing to the dataset, or was stopped before it finished",
                path=store.url,
                hint="if it was stopped, nczarr clean --force removes its marker",
            )
        # One of several writers may take over from a dead writer, unless the dead writer's marker was removed
        # meanwhile.
        if state is WriterState.ENDED:
            taken = store.set_if_absent(f"{_TAKEN}{writer}", data)
            if self._is_here():
                logger_of(__name__).info("%s: took the marker of a dead writer over", store.url)
                return
            if taken:
                store.delete(f"{_TAKEN}{writer}")
        raise _written_elsewhere(store)

    def _is_here(self) -> bool:
        return writer_at(self._store) == self._writer

    def check(self) -> None:
        """Raise StoreError if the mark was removed."""
        # A writer that is alive keeps its mark: only one that has taken it over has another key to ask for.
        if self._store.get(WRITING) != self._writer.encode() and not self._is_here():
            raise StoreError(
                "the marker of this writer was removed; another process may have written meanwhile",
                path=self._store.url,
            )

    def release(self) -> None:
        """Remove the mark; warn if the store does not permit it, or another process has removed it."""
        _open_writers.discard(self._writer)
        try:
            # Another process may have removed the mark, and set its own.
            if self._store.get(WRITING) == self._writer.encode():
                self._store.delete(WRITING)
            elif self._is_here():
                remove_marker(self._store)
            else:
                warn(
                    f"{self._store.url}: another process has removed the marker of this writer, and may have written "
                    "meanwhile; nczarr check finds contradictions"
                )
        except StoreError as error:
            warn(
                f"the marker of this writer stays in the dataset, and keeps other writers out: {error}; "
                "nczarr clean --force removes it"
            )


class BesideMark:
    """Mark a dataset as one in which a process changes parts of chunks, as others may: by conditional writes.

    Writers that hold the dataset alone keep chunks in memory, and would write over such a part. Each of both sides sets
    its mark before it looks for that of the other one, so that at least one of them sees the other.

    Raises
    ------
    LockedError
        Another writer holds the dataset alone, and may be alive.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> marks = [BesideMark(store), BesideMark(store)]
    >>> WriterMark(store)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    nczarr.errors.LockedError: another process writes a region of the dataset
    >>> for mark in marks:
    ...     mark.release()
    >>> list(store.list())
    []
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writer = new_writer()
        self._key = f"{BESIDE}/{self._writer}"
        _open_writers.add(self._writer)
        store.set(self._key, b"")
        writer = writer_at(store)
        if writer is not None and state_of_mark(writer, self._writer) is not WriterState.ENDED:
            self.release()
            raise _written_elsewhere(store)

    def release(self) -> None:
        """Remove the mark."""
        _open_writers.discard(self._writer)
        self._store.delete(self._key)


def state_of_mark(writer: str, own: str) -> WriterState:
    """Return whether the process of a mark is alive; a mark of this process is, as long as it has not closed it."""
    # A close that failed left its mark, which excluded its own process for ever.
    if writer.rpartition("-")[0] == own.rpartition("-")[0]:
        return WriterState.ALIVE if writer in _open_writers else WriterState.ENDED
    return writer_state(writer)


def takeovers(store: Store, prefix: str, writer: str) -> dict[str, str]:
    """Return the keys of the writers that have taken over from `writer`, one after another, each with the writer.

    Damaged keys may form a circle, which ends the search.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore(); store.set(".by-1", b"2"); store.set(".by-2", b"1")
    >>> takeovers(store, ".by-", "1")
    {'.by-1': '2', '.by-2': '1'}
    """
    found: dict[str, str] = {}
    while (key := prefix + writer) not in found and (data := store.get(key)) is not None:
        found[key] = writer = data.decode("ascii", "replace")
    return found


def _markers(store: Store) -> dict[str, str]:
    """Return the keys of the marker and of the writers that have taken over, each with the writer."""
    data = store.get(WRITING)
    if data is None:
        return {}
    writer = data.decode("ascii", "replace")
    return {WRITING: writer, **takeovers(store, _TAKEN, writer)}


def writer_at(store: Store) -> str | None:
    """Return the last writer that has marked the dataset or taken over; None if there is no marker."""
    return next(reversed(_markers(store).values()), None)


def remove_marker(store: Store) -> None:
    """Remove the marker, then the keys of writers that have taken over."""
    for key in _markers(store):
        store.delete(key)


def _written_elsewhere(store: Store) -> LockedError:
    return LockedError(
        "the dataset is open for writing, here or in another process", path=store.url, hint="close it there"
    )


def _warn_unguarded(store: Store) -> None:
    warn(
        f"{store.url}: the store has neither locks nor conditional writes, so it cannot exclude concurrent writers; "
        "make sure that no other process writes to the dataset"
    )


def begin_changes(store: Store, hierarchy: Hierarchy) -> bool:
    """Mark the documents as changing, and return whether a marker was set.

    The remains of a dead process are removed first, because they are not recognisable with the new marker.
    """
    if type(store) is not LocalStore or hierarchy.hidden:
        return False
    before = store.get(WRITING)
    # The chunks of a killed writer have no document yet, and would be values of a new array.
    if before is not None and writer_state(before.decode("ascii", "replace")) is WriterState.ENDED:
        remove_unclaimed(store, hierarchy)
    store.set(WRITING, new_writer().encode())
    return True


def end_changes(store: Store) -> None:
    """Remove the marker of :func:`begin_changes`, after the consolidated metadata were updated."""
    store.delete(WRITING)


def moment(store: Store) -> tuple[int, ...] | None:
    """Return a state of a local dataset with consolidated metadata that changes with each write; None during a write.

    Documents that are read between two equal states belong together.
    """
    if type(store) is not LocalStore or _is_changing(store):
        return None
    for name in _CONSOLIDATED:
        try:
            root = os.stat(f"{store.root}/{name}")
        except OSError:
            continue
        return (root.st_ino, root.st_mtime_ns)
    return None


def _is_changing(store: Store) -> bool:
    """Return whether a process that is alive, or on another machine, is changing documents."""
    data = store.get(WRITING)
    return data is not None and writer_state(data.decode("ascii", "replace")) is not WriterState.ENDED


#: The documents with the consolidated metadata.
_CONSOLIDATED = ("zarr.json", ".zmetadata")


def stale_nodes(store: Store, hierarchy: Hierarchy) -> list[str]:
    """Return the paths of nodes that consolidated metadata describe wrongly: missing, changed, or new ones.

    Empty where the check would be expensive.
    """
    # The root of version 2 is written together with the copies: only its content shows whether they are outdated.
    outdated = [path for path in hierarchy.outdated_nodes() if path or hierarchy.is_outdated("")]
    stale = [*hierarchy.missing, *outdated]
    return [] if stale and type(store) is LocalStore and _is_changing(store) else stale


#: The keys of chunks, in any folder, by layout.
_CHUNKS = {"v3": pattern(r"(.*/)?c(/\d+)*"), "v2": pattern(r"(.*/)?\d+([./]\d+)*")}


def remove_unclaimed(store: Store, hierarchy: Hierarchy | None = None) -> list[str]:
    """Remove folders that contain chunks without documents, and return their paths.

    Call this only if a dead process of nczarr was changing the dataset, so that the folders are its own.
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
            # A folder with anything else belongs to another program.
            if keys and all(pattern.fullmatch(key, len(path) + 1) for key in keys):
                store.delete_prefix(path)
                removed.append(path)
    return removed


def mark_unstored(store: Store, reason: str) -> None:
    """Record why a flush failed, if the store is writable."""
    # Icechunk takes no keys but those of Zarr.
    if store.takes_any_key:
        with suppress(NCZarrError, OSError):
            store.set(UNSTORED, reason.encode("utf-8", "replace"))


def unstored_reason(store: Store) -> str | None:
    """Return why the last flush of a dataset failed; None if it did not, or if the search would cost a request.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> unstored_reason(MemoryStore()) is None
    True
    """
    if not store.is_local:
        return None
    data = store.get(UNSTORED)
    return None if data is None else data.decode("utf-8", "replace")
