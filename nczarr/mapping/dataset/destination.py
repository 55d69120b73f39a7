"""Write a new dataset so that a partial dataset never looks complete, and foreign files are never deleted.

* An existing Zarr dataset is replaced on request only, and anything else is never replaced.
* The old dataset stays unchanged until the new one is complete. The new one is written beside it, and then replaces it:
  a local directory or zip file by one renaming. Other stores cannot rename: one write of the marker declares that the
  new dataset is complete; an interrupted replacement can be repeated by ``nczarr clean``.
* While a new dataset is written to an empty place, the key ``.nczarr-unfinished`` marks it. If the process dies, the
  marker distinguishes its remains from other data, so that they may be replaced or cleaned like a dataset.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from nczarr.dataclass import dataclass
from nczarr.errors import DatasetExistsError, DatasetNotFoundError, NCZarrError, StoreError
from nczarr.json_values import as_object, as_text
from nczarr.lazy import pattern
from nczarr.options import named
from nczarr.stores import LocalStore, Store, open_store
from nczarr.stores.staging import StagedStore, staged_writers
from nczarr.system import atomic
from nczarr.system.atomic import WriterState, new_writer, remove_tree, writer_state
from nczarr.system.durability import sync_path
from nczarr.system.environment import read_json
from nczarr.system.failures import writing
from nczarr.system.locks import is_locked_elsewhere
from nczarr.system.logs import logger_of

#: The key that exists while a dataset is unfinished.
UNFINISHED = ".nczarr-unfinished"
#: The first key of the record of finished blocks, with which a copy resumes; the others end in ``.1``, ``.2``, …
RECORD = ".nczarr-blocks"
#: The key of the job of the workers that write an unfinished dataset.
JOB = ".nczarr-job"
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
_NEW_CHUNK, _OLD_CHUNK = pattern(r".+/c(/\d+)*"), pattern(r".+/\d+(\.\d+)*")


@dataclass(frozen=True)
class UnfinishedMarker:
    """The content of the key ``.nczarr-unfinished``.

    Attributes
    ----------
    writer : str
        The writing process; see :func:`nczarr.system.atomic.writer_state`. Empty if it is unknown.
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
        # Icechunk takes keys of Zarr only, and shows nothing before its commit.
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
            document = as_object(read_json(data))
        except ValueError:
            continue
        if any(key in document for key in keys):
            return True
    return False


def record_keys(store: Store) -> list[str]:
    """Return the keys of the record of finished blocks, in the order in which they were written."""
    keys: list[str] = []
    # Not by a listing: an object store may list thousands of chunks first.
    while store.exists(key := f"{RECORD}.{len(keys)}" if keys else RECORD):
        keys.append(key)
    return keys


def remove_record(store: Store) -> bool:
    """Remove the record of finished blocks and the job of workers, the last first; return whether there was one."""
    keys = record_keys(store)
    # The last first: an interrupted removal leaves the beginning, by which the rest is found.
    for key in (*reversed(keys), *([JOB] if store.exists(JOB) else [])):
        store.delete(key)
    return bool(keys)


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
        # A folder of files `0`, `1`, `2` of another program is no array.
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
    if writer_state(marker.writer) is WriterState.ALIVE:
        raise DatasetNotFoundError("the dataset is unfinished: another process writes it", path=store.url)
    message = "the dataset is unfinished: its writer was stopped, or runs on another machine"
    raise DatasetNotFoundError(message, path=store.url, hint="nczarr clean removes it")


def put_in_place(store: Store, marker: UnfinishedMarker) -> None:
    """Replace a dataset by the complete new one beside it; may be repeated after an interruption."""
    staged = StagedStore(store, marker.writer)
    keys = set(staged.list())
    # Staged keys are removed after the marker only: while it exists, the list is complete.
    # Two `clean` at once: the second would move keys that the first has moved and removed.
    if UnfinishedMarker.read(store) != marker:
        raise StoreError("another process has put the new dataset in place meanwhile", path=store.url)
    staged.put_in_place(keys, list(ROOTS))
    store.delete(UNFINISHED)
    staged.delete_many(keys)


def remove_unfinished(store: Store, kept: str | None = None) -> None:
    """Remove all keys of a store but `kept`, the marker last, so that an interrupted removal stays recognisable."""
    _clear(store, kept)
    store.delete(UNFINISHED)


def _clear(store: Store, kept: str | None = None) -> None:
    """Remove an unfinished dataset, or the old dataset where the store cannot stage a new one."""
    # Icechunk records the deletion of a missing key as a deletion of later values.
    keys = list(ROOTS)
    if store.listable:
        keys = [key for key in store.list() if key not in (UNFINISHED, kept)]
    if store.listable and not store.takes_any_key:
        # Chunks go with their arrays; Icechunk refuses to delete them afterwards.
        documents = [key for key in keys if key.rpartition("/")[2] == "zarr.json"]
        for key in sorted(documents, key=lambda key: -key.count("/")):
            store.delete(key)
        return
    # The documents first: chunks without a document are no dataset, a document without its chunks reads as fill
    # values.
    for key in ROOTS:
        if key in keys:
            store.delete(key)
    if store.listable:
        store.delete_many([key for key in keys if key not in ROOTS])


_TAKEN = "another process has begun to write the same dataset"


class Destination:
    """A place for a new dataset; :func:`open_destination` returns the class for the kind of store."""

    #: True if the dataset is written beside another dataset, which it replaces when it is complete.
    replaces = False

    def __init__(self, store: Store) -> None:
        self.store = store

    def prepare(self) -> None:
        """Clear the place. The caller has checked everything that can be refused; nothing was changed before."""

    def confirm(self) -> None:
        """Raise StoreError if another process has taken the place meanwhile."""

    def settle(self) -> None:
        """Wait until the values of a new dataset are on disk, before its documents are written."""
        if not self.replaces:  # a replacement waits for the disk, and other stores have no cache of their own
            self.store.settle()
            # The root's document of a new dataset got its name before its bytes were on the disk.
            self.store.keep_order()

    def finish(self, *, durable: bool = True) -> Store | None:
        """Put the complete dataset in its place.

        If `durable` is true, the new dataset is on disk before the old one is removed.

        Returns
        -------
        Store or None
            The store at the final place, if it is another one.
        """
        raise NotImplementedError

    def abort(self) -> None:
        """Remove the new dataset, and keep the old one.

        Raises
        ------
        StoreError
            The new dataset cannot be removed; the hint names the command that removes it later.
        """
        try:
            self._remove()
        except NCZarrError as error:
            raise StoreError(
                f"the unfinished dataset could not be removed: {error.message}",
                path=self.store.url,
                hint="nczarr clean removes it",
            ) from error
        finally:
            self.store.close()

    def _remove(self) -> None:
        raise NotImplementedError


class _InPlace(Destination):
    """An empty place, or the place of an unfinished dataset, which `resume` continues."""

    def __init__(self, store: Store, seen: UnfinishedMarker | None = None, *, resume: bool = False) -> None:
        super().__init__(store)
        self._marker = UnfinishedMarker(new_writer())
        self._seen = seen
        self._resume = resume
        self._prepared = False

    def prepare(self) -> None:
        if self.store.takes_any_key:
            _set_marker(self.store, self._marker, self._seen)
        self._prepared = True
        # After the marker: a reader of the half-cleared place learns why.
        if not self._resume and not self.store.is_local:  # a new directory is empty
            _clear(self.store)

    def _is_marked(self) -> bool:
        return not self.store.takes_any_key or UnfinishedMarker.read(self.store) == self._marker

    def confirm(self) -> None:
        if not self._is_marked():
            raise StoreError(_TAKEN, path=self.store.url)

    def finish(self, *, durable: bool = True) -> Store | None:
        if self.store.takes_any_key:
            self.store.delete(UNFINISHED)
        return None

    def _remove(self) -> None:
        # Another process may have taken the place, and its keys stay.
        if self._prepared and self._is_marked():
            self._remove_marked()

    def _remove_marked(self) -> None:
        if self.store.listable:
            remove_unfinished(self.store)


class _NewDirectory(_InPlace):
    """A new or empty local directory, or one with an unfinished dataset."""

    store: LocalStore

    def __init__(
        self, store: LocalStore, seen: UnfinishedMarker | None = None, *, created: bool, resume: bool = False
    ) -> None:
        super().__init__(store, seen, resume=resume)
        self._created = created
        #: The directories that get a new name: that of another directory than the dataset's, which is made first.
        self._named = [above for below, above in pairwise(store.root.parents) if not below.is_dir()]

    def finish(self, *, durable: bool = True) -> Store | None:
        super().finish(durable=durable)
        if durable:
            self.store.settle()
            # A directory without a name on the disk takes all below it along. The program itself has made others.
            for folder in self._named:
                sync_path(folder)
        return None

    def _remove_marked(self) -> None:
        # A directory that the user has made stays, with its rights.
        if self._created:
            remove_tree(self.store.root)
        else:
            super()._remove_marked()


class _ReplacedDirectory(Destination):
    """A temporary directory beside the directory of a dataset, which it replaces."""

    replaces = True

    def __init__(self, final: Path, url: str) -> None:
        self._final = final
        try:
            # Before the first value is copied: the old directory could not go in the end.
            atomic.refuse_unremovable(final)
        except OSError as error:
            raise StoreError(
                f"the dataset cannot be replaced: {error.strerror}: {error.filename}",
                path=url,
                hint="write to another name, or ask its owner to remove it",
            ) from error
        self._temporary = atomic.partial_path(final)
        super().__init__(LocalStore(self._temporary, "w"))
        # Messages name the place that the user has asked for, not a temporary one.
        self.store.url = url

    def prepare(self) -> None:
        with writing(self.store.url):
            atomic.create_directory(self._temporary, self._final)

    def finish(self, *, durable: bool = True) -> Store | None:
        self.store.close()
        try:
            # Asked again: a writer may have opened the old dataset during the copy, and its changes would vanish.
            _refuse_locked(self._final, self.store.url)
            atomic.replace_directory(self._temporary, self._final, self.store.settle if durable else None)
        except BaseException as error:
            # The final name belongs to the old or the new dataset; the other one is not needed any more.
            # Without the final name, the temporary directory is the only dataset.
            if os.path.lexists(self._final):
                remove_tree(self._temporary)
            if not isinstance(error, OSError) or isinstance(error, NCZarrError):
                raise
            raise StoreError(
                f"cannot put the new dataset in place: {error.strerror}", path=self.store.url
            ) from error
        store = LocalStore(self._final, "r+")
        store.url = self.store.url
        self.store = store
        return store

    def _remove(self) -> None:
        remove_tree(self._temporary)


class _OneFile(Destination):
    """A zip file, which appears under its name when it is complete."""

    def finish(self, *, durable: bool = True) -> Store | None:
        self.store.sync()
        return None

    def abort(self) -> None:
        from nczarr.stores.zip import ZipStore

        assert isinstance(self.store, ZipStore)
        self.store.discard()


class _Staged(Destination):
    """Temporary keys in the store of a dataset, which they replace."""

    replaces = True

    def __init__(self, store: Store, seen: UnfinishedMarker | None) -> None:
        self._writer = new_writer()
        self._final = store
        self._seen = seen
        self._staged = StagedStore(store, self._writer)
        super().__init__(self._staged)

    @property
    def _earlier(self) -> str | None:
        """The writer of an earlier replacement that is complete."""
        return self._seen.writer if self._seen is not None and self._seen.staged else None

    def prepare(self) -> None:
        for writer in staged_writers(self._final):
            # A complete replacement of a dead writer is the newest dataset until this one is complete.
            if writer_state(writer) is WriterState.ENDED and writer != self._earlier:
                logger_of(__name__).info("%s: removing keys of a dead writer", self._final.url)
                StagedStore(self._final, writer).discard()

    def finish(self, *, durable: bool = True) -> Store | None:
        marker = UnfinishedMarker(self._writer, staged=True)
        # From here on the new dataset counts: a kill below leaves a replacement that `clean` completes.
        _set_marker(self._final, marker, self._seen)
        put_in_place(self._final, marker)
        if self._earlier is not None:
            StagedStore(self._final, self._earlier).discard()
        self.store = self._final
        return self._final

    def _remove(self) -> None:
        # The marker says that the keys are complete: they must stay for `clean`.
        if UnfinishedMarker.read(self._final) != UnfinishedMarker(self._writer, staged=True):
            self._staged.discard()


def _set_marker(store: Store, marker: UnfinishedMarker, seen: UnfinishedMarker | None) -> None:
    """Set the marker; of several concurrent processes, one succeeds."""
    # A conditional write decides between processes that start at once.
    if seen is None and store.set_if_absent(UNFINISHED, marker.data):
        return
    if seen is None or UnfinishedMarker.read(store) != seen:
        raise DatasetExistsError(_TAKEN, path=store.url)
    store.set(UNFINISHED, marker.data)


# --- opening


def open_destination(
    target: object,
    *,
    overwrite: bool = False,
    storage_options: Mapping[str, object] | None = None,
    resume: bool = False,
) -> Destination:
    """Return the place for a new dataset; `resume` continues an unfinished dataset, and keeps its content.

    Raises
    ------
    DatasetExistsError
        The place contains something that may not be replaced.
    """
    if isinstance(target, str | os.PathLike):
        file = _replaced_file(target, overwrite, storage_options)
        if file is not None:
            return file
    store = open_store(target, "w", storage_options)
    if isinstance(store, LocalStore):
        return _directory(store, overwrite, resume)
    # One listing of one level: a large dataset has millions of keys below.
    listed = any(store.list_dir()) if store.listable else False
    # An empty listing of a web server proves nothing.
    if not listed and (store.lists_all or (not is_zarr(store) and UnfinishedMarker.read(store) is None)):
        return _OneFile(store) if store.is_one_file else _InPlace(store)
    seen = _resumed(store, resume)
    if seen is not None:
        return _InPlace(store, seen, resume=True)
    seen, found = _refuse(store, overwrite)
    if not store.lists_all:
        raise DatasetExistsError(
            "the store does not list all its keys, so its content cannot be removed, and would mix with the dataset",
            path=store.url,
            hint="write to another place, or remove the content yourself",
        )
    if store.takes_any_key and (found or (seen is not None and seen.staged)):
        return _Staged(store, seen)
    return _InPlace(store, seen)


def _replaced_file(
    target: str | os.PathLike[str], overwrite: bool, storage_options: Mapping[str, object] | None
) -> Destination | None:
    """Return the destination for an existing file, which is replaced by a zip file; None if there is no file."""
    try:
        if not os.path.isfile(target):
            return None
        existing = open_store(target, "r", storage_options)
    except NCZarrError:
        _refuse_foreign(os.fspath(target))
    with existing:
        if not existing.is_one_file:  # a file of references
            _refuse_foreign(os.fspath(target))
        _refuse(existing, overwrite)
        _refuse_locked(Path(target), existing.url)
    from nczarr.stores.zip import ZipStore

    return _OneFile(ZipStore(existing.url, "w", replace=True))


def _directory(store: LocalStore, overwrite: bool, resume: bool) -> Destination:
    # Through links: the rename would replace the link.
    root = Path(os.path.realpath(store.root))
    if not os.path.lexists(root):
        return _NewDirectory(store, created=True)
    if not root.is_dir():
        _refuse_foreign(store.url)
    try:
        empty = atomic.holds_nothing(root)
    except OSError as error:
        raise StoreError(f"cannot list: {error.strerror}", path=store.url) from error
    if empty:
        return _NewDirectory(store, created=False)
    seen = _resumed(store, resume)
    if seen is not None:
        return _NewDirectory(store, seen, created=True, resume=True)
    marker, found = _refuse(store, overwrite)
    _refuse_locked(root, store.url)
    # The documents of an unfinished dataset do not exist yet.
    # The whole directory is replaced, with all that a user has put into it.
    other = foreign_entry(root) if marker is None and found else None
    if other is not None:
        raise DatasetExistsError(
            f"it contains {other.relative_to(root)}, which is not a part of the dataset, so it is not overwritten",
            path=store.url,
            hint="move that away, or choose another name",
        )
    return _ReplacedDirectory(root, store.url)


def _refuse(store: Store, overwrite: bool) -> tuple[UnfinishedMarker | None, bool]:
    """Refuse to replace the content of a store, unless it is a dataset and `overwrite` is true.

    Returns
    -------
    tuple of UnfinishedMarker or None, and bool
        The marker of the store, and whether it contains documents of a Zarr dataset.
    """
    marker, found = UnfinishedMarker.read(store), is_zarr(store)
    if marker is None and not found:
        if not holds_orphans(store):
            _refuse_foreign(store.url)
        if not overwrite:
            hint = f"{named('overwrite', True)} replaces them, nczarr clean --force removes them"
            raise DatasetExistsError(ORPHANS, path=store.url, hint=hint)
    _refuse_concurrent(store, marker)
    if not overwrite:
        message, hint = "the dataset exists already", f"{named('overwrite', True)} replaces it"
        if marker:
            message, hint = (
                "an unfinished dataset exists",
                f"{named('resume', True)} continues it, {named('overwrite', True)} replaces it",
            )
        raise DatasetExistsError(message, path=store.url, hint=hint)
    return marker, found


def _resumed(store: Store, resume: bool) -> UnfinishedMarker | None:
    """Return the marker of the unfinished dataset that is continued; None if there is none."""
    marker = UnfinishedMarker.read(store) if resume else None
    if marker is None or marker.staged:
        return None
    _refuse_concurrent(store, marker)
    return marker


def _refuse_concurrent(store: Store, marker: UnfinishedMarker | None) -> None:
    # This process itself: a program that repeats a failed copy.
    if marker is None or marker.writer.split("-")[:2] == new_writer().split("-")[:2]:
        return
    if writer_state(marker.writer) is WriterState.ALIVE:
        raise DatasetExistsError("another process is writing this dataset", path=store.url)


def _refuse_foreign(url: str) -> NoReturn:
    raise DatasetExistsError(
        "it exists and is not a Zarr dataset, so it is never overwritten",
        path=url,
        hint="choose another name, or remove it yourself",
    )


def _refuse_locked(path: Path, url: str) -> None:
    if is_locked_elsewhere(str(path)):
        message = "another process has the dataset open for writing"
        raise DatasetExistsError(message, path=url, hint="close it there")


# --- foreign files

_DOCUMENTS = frozenset({"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"})
#: Chunks of an array, or directories of them.
_CHUNKS = pattern(r"c|(c\.)?\d+(\.\d+)*")
_STANDARD_KEYS = ("default", "v2")


def foreign_entry(root: Path) -> Path | None:
    """Return a file or directory that belongs to no node of a dataset; None if there is none.

    Directories of chunks are not searched, nor the two trees of a dataset of the drafts, documents and chunks.
    """
    bootstrap = _document(root)
    is_draft = "node_type" not in bootstrap and as_text(bootstrap.get("zarr_format"))
    trees = {root / "meta", root / "data"} if is_draft else set()
    pending = [root]
    while pending:
        folder = pending.pop()
        is_array, pattern = _kind(folder)
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                name = entry.name
                if name in _DOCUMENTS or name.startswith((".nczarr", ".ncz")) or atomic.is_partial(name):
                    continue
                if folder / name in trees or (is_array and (pattern is None or pattern.fullmatch(name))):
                    continue
                if is_array or not entry.is_dir():
                    return folder / name
                pending.append(folder / name)
    return None


def _document(folder: Path) -> dict[str, object]:
    """Return the document of a node of version 3; empty if there is none."""
    try:
        document = read_json((folder / "zarr.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return as_object(document)


def _kind(folder: Path) -> tuple[bool, re.Pattern[str] | None]:
    """Return whether a directory is that of an array, and the pattern of its chunks; None: any name."""
    if (folder / ".zarray").exists():
        return True, _CHUNKS
    document = _document(folder)
    keys = document.get("chunk_key_encoding", {})
    name = as_object(keys).get("name") or as_text(keys)  # Zarr 3.1 allows a bare name
    is_array = document.get("node_type") == "array"
    return is_array, _CHUNKS if name in _STANDARD_KEYS or not document else None
