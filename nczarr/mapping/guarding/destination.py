"""Write a new dataset where nothing half-written looks complete and nothing foreign is deleted.

* What exists is replaced only if that was asked for, and only if it is a Zarr dataset.
* What is replaced stays as it is until the new dataset is complete: that is written beside it, and then takes its
  place. A local directory or zip file does so by one renaming. Other stores cannot rename: one write, the *mark*,
  says that the new dataset is complete; putting it in place can then be interrupted, and done again by
  ``nczarr clean``.
* While a new dataset is written where nothing was, the mark says so. What a process left that died can be told from
  other things by that, and may be replaced or cleaned like a dataset.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from nczarr.errors import DatasetExistsError, DatasetNotFoundError, NCZarrError, StoreError
from nczarr.stores import LocalStore, Store, open_store
from nczarr.stores.staging import StagedStore, staged_writers
from nczarr.system.atomic import (
    holds_nothing,
    is_partial,
    is_writing,
    new_writer,
    partial_path,
    replace_directory,
)
from nczarr.system.durability import sync_path
from nczarr.system.environment import read_json
from nczarr.system.locks import is_locked_elsewhere

#: The key that is there while a dataset is unfinished.
UNFINISHED = ".nczarr-unfinished"
#: The key of the record of finished blocks, by which a copy goes on.
RECORD = ".nczarr-blocks"
#: What is said of the chunks of :func:`holds_orphans`.
ORPHANS = "there are chunks of arrays and no documents, as workers of a copy leave them that was stopped"
_NOTE = "This dataset was not finished: nczarr is writing it, or was stopped. `nczarr clean` finishes or removes it."

#: Documents that make something a Zarr dataset, and what has to be in them; the first is written last.
ROOTS = {
    "zarr.json": ("zarr_format",),
    ".zgroup": ("zarr_format",),
    ".zarray": ("zarr_format",),
    ".zmetadata": ("zarr_consolidated_format",),
    ".nczarr": ("zarr_format", "nczarr_version"),
}


@dataclass(frozen=True)
class Mark:
    """What the key ``.nczarr-unfinished`` says.

    Attributes
    ----------
    writer : str
        Who writes or wrote; see :func:`nczarr.system.atomic.is_writing`. Empty if it is not known.
    staged : bool
        The new dataset is complete, and has only to be put in place.
    """

    writer: str
    staged: bool = False

    @classmethod
    def read(cls, store: Store) -> Mark | None:
        """Return the mark of a store, None if there is none.

        Examples
        --------
        >>> from nczarr.stores import MemoryStore
        >>> store = MemoryStore(); store.set(UNFINISHED, Mark("1f", staged=True).data)
        >>> Mark.read(store), Mark.read(MemoryStore())
        (Mark(writer='1f', staged=True), None)
        """
        data = store.get(UNFINISHED) if store.takes_any_key else None
        if data is None:
            return None
        try:
            said = read_json(data.splitlines()[1])
            return cls(str(said["writer"]), bool(said["staged"]))
        except (ValueError, LookupError, TypeError):  # written by an older version
            return cls("")

    @property
    def data(self) -> bytes:
        """The value of the key."""
        return f"{_NOTE}\n{json.dumps({'writer': self.writer, 'staged': self.staged})}\n".encode()


def is_zarr(store: Store) -> bool:
    """True if the root of a store holds a document of a Zarr dataset, of any version.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore(); store.set("zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    >>> is_zarr(store), is_zarr(MemoryStore())
    (True, False)
    """
    for (_, keys), data in zip(ROOTS.items(), store.get_many(list(ROOTS)), strict=True):
        if data is None:
            continue
        try:
            document = read_json(data)
        except ValueError:
            continue
        if isinstance(document, dict) and any(key in document for key in keys):
            return True
    return False


#: The keys of chunks in a group, by layout.
_CHUNK_KEYS = re.compile(r".+/c(/\d+)*"), re.compile(r".+/\d+(\.\d+)*")


def holds_orphans(store: Store) -> bool:
    """True if a store holds nothing but chunks of arrays, as workers leave them that go on after their copy ended.

    In the layout of version 2 a name with dots must be among them: other programs number their files, too.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore(); store.set("g/v/c/0/1", b"")
    >>> holds_orphans(store), holds_orphans(MemoryStore())
    (True, False)
    """
    if not store.lists_all:
        return False
    newer, older = _CHUNK_KEYS
    fits, dots = {newer, older}, False
    some = False
    for key in store.list():
        some = True
        fits = {pattern for pattern in fits if pattern.fullmatch(key)}
        dots = dots or "." in key.rpartition("/")[2]
        if not fits:
            return False
    return some and (newer in fits or dots)


def refuse_unfinished(store: Store) -> None:
    """Raise an error that says so if what is in a store is unfinished."""
    mark = Mark.read(store)
    if mark is None:
        return
    if mark.staged:
        message = "the dataset was being replaced, which was interrupted; all of the new one is there"
        raise DatasetNotFoundError(message, path=store.url, hint="nczarr clean puts it in place")
    if is_writing(mark.writer):
        raise DatasetNotFoundError("the dataset is unfinished: another process writes it", path=store.url)
    message = "the dataset is unfinished: whoever wrote it was stopped, or writes it on another machine"
    raise DatasetNotFoundError(message, path=store.url, hint="nczarr clean removes it")


def put_in_place(store: Store, mark: Mark) -> None:
    """Replace a dataset by the complete new one beside it; may be repeated after an interruption."""
    staged = StagedStore(store, mark.writer)
    keys = set(staged.list())
    # They are removed only after the mark: as long as it is there, the list is complete.
    if Mark.read(store) != mark:
        raise StoreError("another process has put the new dataset in place meanwhile", path=store.url)
    staged.put_in_place(keys, list(ROOTS))
    store.delete(UNFINISHED)
    staged.discard()


def remove_unfinished(store: Store) -> None:
    """Remove all that is in a store; the mark last, so that what is left of it is known for what it is."""
    for key in ROOTS:
        store.delete(key)
    store.delete_many([key for key in store.list() if key != UNFINISHED])
    store.delete(UNFINISHED)


class Destination:
    """A place for a new dataset, and how to make it visible or to clear it away.

    `resume` goes on with an unfinished dataset: what it holds stays.

    Raises
    ------
    DatasetExistsError
        If there is something that may not be replaced.
    """

    def __init__(
        self,
        target: Any,
        *,
        overwrite: bool = False,
        storage_options: dict[str, Any] | None = None,
        resume: bool = False,
    ) -> None:
        self._resume = resume
        self._going = False
        self._final: Path | None = None
        self._temporary: Path | None = None
        self._created = False
        self._prepared = False
        self._seen: Mark | None = None  # the mark that was there before
        self._mark = Mark(new_writer())
        self._url = ""
        store = None
        if isinstance(target, str | os.PathLike):
            store = self._beside(target, overwrite, storage_options)
        if store is None:
            store = open_store(target, "w", storage_options)
            if isinstance(store, LocalStore):
                store = self._local(store, overwrite)
            else:
                store = self._checked(store, overwrite)
        self.store: Store = store

    # -- checks

    def _refuse(self, store: Store, overwrite: bool) -> None:
        mark = Mark.read(store)
        if mark is None and not is_zarr(store):
            if not holds_orphans(store):
                self._refuse_always(store.url)
            if not overwrite:
                raise DatasetExistsError(
                    ORPHANS,
                    path=store.url,
                    hint="--overwrite replaces them, nczarr clean --force removes them",
                )
        if mark and is_writing(mark.writer) and not _is_own(mark.writer):
            raise DatasetExistsError("another process is writing this dataset", path=store.url)
        if not overwrite:
            raise DatasetExistsError(
                "an unfinished dataset is there" if mark else "the dataset exists already",
                path=store.url,
                hint="--resume goes on with it, --overwrite starts anew"
                if mark
                else "--overwrite, in Python overwrite=True, replaces it",
            )

    def _goes_on(self, store: Store) -> bool:
        """True if a store holds an unfinished dataset that this one goes on with."""
        mark = Mark.read(store) if self._resume else None
        if mark is None or mark.staged:
            return False
        if is_writing(mark.writer) and not _is_own(mark.writer):
            raise DatasetExistsError("another process is writing this dataset", path=store.url)
        self._seen, self._going = mark, True
        return True

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
            empty = holds_nothing(root)
        except OSError as error:
            raise StoreError(f"cannot list: {error.strerror}", path=store.url) from error
        if empty:
            return store
        if self._goes_on(store):
            self._created = True
            return store
        self._refuse(store, overwrite)
        self._refuse_locked(root)
        # Documents of an unfinished dataset are not there yet.
        other = foreign_entry(root) if Mark.read(store) is None and is_zarr(store) else None
        if other is not None:
            raise DatasetExistsError(
                f"it holds {other.relative_to(root)}, which is no part of the dataset, so it is not overwritten",
                path=store.url,
                hint="move that away, or choose another name",
            )
        self._final = root
        self._temporary = partial_path(root)
        beside = LocalStore(self._temporary, "w")
        beside.url = store.url
        return beside

    def _refuse_locked(self, path: Path) -> None:
        if is_locked_elsewhere(str(path)):
            raise DatasetExistsError(
                "another process has the dataset open for writing", path=self._url, hint="close it there"
            )

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
            if not existing.is_one_file:  # references, which begin with no name of a dataset of their own
                self._refuse_always(os.fspath(target))
            self._refuse(existing, overwrite)
            self._url = existing.url
            self._refuse_locked(Path(target))
        from nczarr.stores.zip.store import ZipStore

        return ZipStore(existing.url, "w", replace=True)

    # -- other stores

    def _checked(self, store: Store, overwrite: bool) -> Store:
        """Return where to write: the store, or a place beside what it holds."""
        listed = any(store.list_dir()) if store.listable else False
        if not listed and (store.lists_all or (not is_zarr(store) and Mark.read(store) is None)):
            return store
        if self._goes_on(store):
            return store
        self._refuse(store, overwrite)
        if not store.lists_all:
            raise DatasetExistsError(
                "the store does not list all its keys, so what is there cannot be removed, and would show through",
                path=store.url,
                hint="write to another place, or remove it yourself",
            )
        self._seen = Mark.read(store)
        beside = is_zarr(store) or (self._seen is not None and self._seen.staged)
        if beside and store.takes_any_key:
            return StagedStore(store, self._mark.writer)
        return store

    def prepare(self) -> None:
        """Clear the place, once nothing can be refused any more; before that nothing was touched."""
        store = self.store
        if isinstance(store, StagedStore):
            for writer in staged_writers(store.store):
                given = self._seen is not None and self._seen.staged and self._seen.writer == writer
                if is_writing(writer) is False and not given:
                    StagedStore(store.store, writer).discard()
        elif not self.replaces and not store.is_one_file:
            if store.takes_any_key:
                self._put_mark(store, self._mark)
            self._prepared = True
            if not isinstance(store, LocalStore) and not self._going:
                self._clear(store)
        self._prepared = True

    def _put_mark(self, store: Store, mark: Mark) -> None:
        """Set the mark; of several processes at once, one may."""
        if self._seen is None and store.set_if_absent(UNFINISHED, mark.data):
            return
        if self._seen is None or Mark.read(store) != self._seen:
            raise DatasetExistsError("another process has begun to write the same dataset", path=store.url)
        store.set(UNFINISHED, mark.data)

    def _clear(self, store: Store) -> None:
        """Remove what an unfinished dataset left, or, where nothing can stand beside it, the old one."""
        # Icechunk takes the deletion of what is not there for one of all that comes later.
        there = [key for key in store.list() if key != UNFINISHED] if store.listable else list(ROOTS)
        for key in ROOTS:
            if key in there:
                store.delete(key)
        if store.listable:
            store.delete_many([key for key in there if key not in ROOTS])

    def confirm(self) -> None:
        """Make sure that no other process has taken the place meanwhile.

        Raises
        ------
        StoreError
            If one has; nothing of it is touched.
        """
        if not self._is_marked():
            raise StoreError("another process has begun to write the same dataset", path=self.store.url)

    def _is_marked(self) -> bool:
        store = self.store
        if self.replaces or store.is_one_file or not store.takes_any_key:
            return True
        return Mark.read(store) == self._mark

    # -- the end

    @property
    def replaces(self) -> bool:
        """True if the dataset is written beside another one, which it replaces when it is complete."""
        return self._temporary is not None or isinstance(self.store, StagedStore)

    def settle(self) -> None:
        """Wait until the disk has the values of a new dataset that replaces none, before documents speak of them."""
        if not self.replaces:
            self.store.settle()
            self.store.keep_order()

    def finish(self, *, durable: bool = True) -> Store | None:
        """Put the complete dataset in its place; the store is closed before.

        `durable`: the disk has the new dataset before the old one goes.

        Returns
        -------
        Store or None
            The store at the final place, if it is another one now.
        """
        if self.store.is_one_file:
            self.store.sync()
            return None
        if isinstance(self.store, StagedStore):
            mark = Mark(self._mark.writer, staged=True)
            store = self.store.store
            self._put_mark(store, mark)
            put_in_place(store, mark)
            if self._seen and self._seen.staged:
                StagedStore(store, self._seen.writer).discard()
            self.store = store
            return store
        if self._temporary is None or self._final is None:
            if self.store.takes_any_key:
                self.store.delete(UNFINISHED)
            if durable and isinstance(self.store, LocalStore):
                self.store.settle()
                for folder in self.store.root.parents:  # which may be new, too
                    sync_path(folder)
            return None
        self.store.close()
        try:
            self._refuse_locked(self._final)
            replace_directory(self._temporary, self._final, durable=durable)
        except BaseException as error:
            # What has its name is the old one or the new one; the other one is not wanted any more.
            if os.path.lexists(self._final):
                shutil.rmtree(self._temporary, ignore_errors=True)
            if not isinstance(error, OSError) or isinstance(error, NCZarrError):
                raise
            raise StoreError(
                f"cannot put the new dataset in place: {error.strerror}", path=self._url
            ) from error
        new = LocalStore(self._final, "r+")
        self._temporary = None
        new.url = self.store.url
        self.store = new
        return new

    def abort(self) -> None:
        """Remove all that was written; what was there before stays.

        Raises
        ------
        StoreError
            If it cannot be removed; the message says how to do it later.
        """
        from nczarr.stores.zip.store import ZipStore

        store = self.store
        if isinstance(store, ZipStore):
            store.discard()
            return
        try:
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)
            elif isinstance(store, StagedStore):
                if Mark.read(store.store) != Mark(self._mark.writer, staged=True):
                    store.discard()
            elif self._prepared and self._is_marked():
                if self._created and isinstance(store, LocalStore):
                    shutil.rmtree(store.root, ignore_errors=True)
                elif store.listable:
                    remove_unfinished(store)
        except NCZarrError as error:
            raise StoreError(
                f"what was written is still there, and could not be removed: {error.message}",
                path=store.url,
                hint="nczarr clean removes it",
            ) from error
        finally:
            store.close()


def _is_own(writer: str) -> bool:
    return writer.split("-")[:2] == new_writer().split("-")[:2]


_DOCUMENTS = frozenset({"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"})
#: Chunks of an array, or directories of them.
_CHUNKS = re.compile(r"c|(c\.)?\d+(\.\d+)*")
_STANDARD_KEYS = ("default", "v2")


def foreign_entry(root: Path) -> Path | None:
    """Return a file or directory that belongs to no node of a dataset; None if there is none.

    Directories of chunks are not looked into, nor the two trees of a dataset of the drafts, documents and chunks.
    """
    trees = {root / "meta", root / "data"} if _is_draft(root) else set()
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        is_array, pattern = _kind(folder)
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                name = entry.name
                if name in _DOCUMENTS or name.startswith((".nczarr", ".ncz")) or is_partial(name):
                    continue
                if folder / name in trees or (is_array and (pattern is None or pattern.fullmatch(name))):
                    continue
                if is_array or not entry.is_dir():
                    return folder / name
                waiting.append(folder / name)
    return None


def _is_draft(root: Path) -> bool:
    """Whether the document of the root is the bootstrap document of a draft, which says no kind of node."""
    try:
        document = read_json((root / "zarr.json").read_bytes())
        return "node_type" not in document and isinstance(document["zarr_format"], str)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _kind(folder: Path) -> tuple[bool, re.Pattern[str] | None]:
    """Whether a directory is that of an array, and what chunks are called there; None if they may have any name."""
    if (folder / ".zarray").exists():
        return True, _CHUNKS
    try:
        document = read_json((folder / "zarr.json").read_bytes())
        keys = document.get("chunk_key_encoding", {})
        name = keys if isinstance(keys, str) else keys.get("name")
        return document.get("node_type") == "array", _CHUNKS if name in _STANDARD_KEYS else None
    except (OSError, ValueError, AttributeError):
        return False, _CHUNKS
