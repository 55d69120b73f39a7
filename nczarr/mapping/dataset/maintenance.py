"""Check, repair, clean, count and remove datasets.

Checks and repairs find metadata that other programs have changed; cleaning removes the remains of interrupted writers.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from nczarr import model
from nczarr.errors import DatasetNotFoundError, NCZarrError, UnsupportedError
from nczarr.mapping.dataset import changes, destination
from nczarr.mapping.dataset.documents import with_each_other_key
from nczarr.mapping.dataset.open import open_dataset
from nczarr.mapping.dataset.rename_journal import finish_moves, forget_moves
from nczarr.mapping.dataset.stored import StoredDataset
from nczarr.mapping.dataset.subgroup import refuse_group, refuse_group_of_dataset
from nczarr.mapping.findings import Finding, RecoveryWarning, make_finding
from nczarr.mapping.nczarr3.check import check_documents
from nczarr.rooms import Door
from nczarr.stores import LocalStore, Store, open_store
from nczarr.stores.staging import StagedStore, staged_writers
from nczarr.stores.zip import ZipStore
from nczarr.system import atomic
from nczarr.system.warning import warn
from nczarr.targets import StorageOptions, parse_target
from nczarr.zarr import Hierarchy, open_hierarchy
from nczarr.zarr.chunk_keys import find_prefix

if TYPE_CHECKING:
    from nczarr.stores import remote
else:
    remote = Door("nczarr.stores.remote")

#: Maximum number of further passes of `repair`; each finds fewer faults than the previous one.
_MORE_PASSES = 3
#: The paths of the objects that are no chunks: documents and nczarr's own keys; and of foreign objects.
DOCUMENTS, FOREIGN = "(metadata)", "(others)"


# --- checking


def find_faults(stored: StoredDataset) -> tuple[Finding, ...]:
    """Return all deviations in the metadata of a dataset, including unimportant ones."""
    found = dict.fromkeys(stored.findings)
    if stored.layout == "nczarr-v3":
        found.update(dict.fromkeys(check_documents(stored.hierarchy, stored.reading)))
    for fqn, wrong in model.long_names(stored.dataset):
        what = f"{wrong}; it is invalid in netCDF files, so a copy must rename it"
        found[make_finding("name-long", fqn, what)] = None
    for difference in stored.hierarchy.check_consolidated():
        found[make_finding("consolidated-stale", "/", f"stale: {difference}")] = None
    # Nodes with errors require a decision by the user, so `repair` ignores them.
    faulty = _arrays_with_errors(stored, found)
    return tuple(replace(f, remedy="") if f.where in faulty else f for f in found)


def find_torn_indexes(stored: StoredDataset, *, restore: bool = False) -> Iterator[Finding]:
    """Yield a finding for each shard whose index is damaged and has a copy; optionally write it from the copy.

    A loss of power while a shard grows leaves such an index. nczarr reads the copy; other readers report an error.

    Examples
    --------
    >>> from nczarr.mapping import create_dataset
    >>> from nczarr.model import Dataset
    >>> list(find_torn_indexes(create_dataset({}, Dataset("d"))))
    []
    """
    for fqn, binding in stored.reading.variables.items():
        array = stored.hierarchy.array(binding.path)
        torn: list[tuple[int, ...]] = []
        with suppress(NCZarrError):  # reading the values reports it
            torn += array.torn_indexes()
        for index in torn:
            if restore:
                array.restore_index(index)
            what = f"the index of the shard {array.chunk_key(index)} is damaged; its copy is whole"
            yield make_finding("index-torn", fqn, what)


def _arrays_with_errors(stored: StoredDataset, found: Iterable[Finding]) -> frozenset[str]:
    variables = stored.reading.variables
    return frozenset(f.where for f in found if f.severity == "error" and f.where in variables)


def check_metadata(
    target: object, *, storage_options: StorageOptions | None = None
) -> tuple[StoredDataset, tuple[Finding, ...]]:
    """Open a dataset by its own documents, not their consolidated copy, and return it with all findings.

    Examples
    --------
    >>> from nczarr.mapping import create_dataset
    >>> from nczarr.model import Dataset
    >>> store = {}
    >>> create_dataset(store, Dataset("d")).commit()
    >>> stored, findings = check_metadata(store)
    >>> findings
    ()
    >>> stored.close()
    """
    stored = _open(target, "r", storage_options)
    try:
        return stored, find_faults(stored)
    except BaseException:
        stored.close()
        raise


# --- repairing


def repair(
    target: object, *, dry_run: bool = False, storage_options: StorageOptions | None = None
) -> tuple[Finding, ...]:
    """Repair the metadata of an NCZarr dataset that programs without knowledge of NCZarr have changed.

    The understood metadata are written: removed keys, sizes, lists of nodes, references into renamed groups. Arrays
    whose documents contradict themselves or each other do not change. Values do not change, except for fill values
    where an array is extended to the length of its unlimited dimension.

    Parameters
    ----------
    target
        A path, a URL, a mapping, or a store; see :func:`nczarr.stores.open_store`.
    dry_run : bool
        Return the findings without writing.
    storage_options : mapping, optional
        For the file system of a URL.

    Returns
    -------
    tuple of Finding
        All findings; those with a `remedy` are repaired.

    Raises
    ------
    UnsupportedError
        The dataset is not NCZarr on Zarr v3.
    StoreError
        The dataset is in a directory, and open for writing, in this or another process.

    Examples
    --------
    >>> from nczarr.mapping import create_dataset
    >>> from nczarr.model import Dataset, Variable, INT
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> create_dataset(store, Dataset("d", variables=(Variable("v", INT), Variable("w", INT)))).close()
    >>> store.delete("v/zarr.json")
    >>> [finding.code for finding in repair(store)]
    ['node-missing', 'consolidated-stale']
    >>> repair(store)
    ()
    """
    found = _repair_once(target, dry_run, storage_options)
    if not dry_run and any(f.remedy for f in found):
        # The new documents may reveal information about a group in an array that did not change.
        for _ in range(_MORE_PASSES):
            # A copy in an array that stayed as it is may come to light after the first pass.
            if not any(f.remedy for f in _repair_once(target, False, storage_options)):
                break
    return found


def _repair_once(
    target: object, dry_run: bool, storage_options: StorageOptions | None
) -> tuple[Finding, ...]:
    mode: Literal["r", "r+"] = "r" if dry_run else "r+"
    with ExitStack() as stack:
        store = open_store(target, mode, storage_options)
        if store is not target:
            stack.callback(store.close)
        # A repair beside a writer undid what it had written.
        if not dry_run:
            stack.enter_context(changes.writing_alone(store))
        stored = stack.enter_context(_open(store, mode, None))
        if stored.layout != "nczarr-v3":
            raise UnsupportedError(
                f"only NCZarr on Zarr v3 can be repaired; the layout is {stored.layout}",
                path=stored.store.url,
                hint="copy it",
            )
        found = (*find_faults(stored), *find_torn_indexes(stored, restore=not dry_run))
        # Each dataset has one of the arrays: nothing tells which was copied in.
        if any(f.code == "copy-unclear" for f in found) and not dry_run:
            raise UnsupportedError(
                "arrays contain copies of several records, and the record of this dataset is unknown",
                path=stored.store.url,
                hint="remove the arrays that were copied from another dataset",
            )
        if dry_run or not any(f.remedy for f in found):
            return found
        if any(f.remedy and f.code not in ("consolidated-stale", "index-torn") for f in found):
            stored.rewrite(_arrays_with_errors(stored, found))
        if stored.options.consolidated:
            stored.hierarchy.consolidate()
        stored.sync()
    return found


def _open(target: object, mode: Literal["r", "r+"], storage_options: StorageOptions | None) -> StoredDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)
        stored = open_dataset(target, mode, consolidated=False, storage_options=storage_options)
    # Changed alone, a group would lose the dimensions of the groups above.
    if stored.reading.part is not None:
        stored.close()
        place = target.url if isinstance(target, Store) else str(target)
        refuse_group(place, "checked or repaired", stored.reading.part)
    return stored


# --- cleaning


def clean(
    target: object, *, storage_options: Mapping[str, object] | None = None, force: bool = False
) -> list[str]:
    """Finish or remove the remains of interrupted writers in a dataset, and beside it.

    Complete datasets and other directories do not change. A complete replacement is put in its place; an incomplete one
    is removed. Data of running processes stay. Without `force`, data of processes on other machines, whose state is
    unknown, and chunks of arrays without documents stay too; also the chunks of times from before an append with
    ``adjust="times"``, which programs read that had the dataset open then.

    Parameters
    ----------
    target
        As for :func:`nczarr.stores.open_store`.
    storage_options : dict, optional
        For the file system of a URL.
    force : bool, default False
        Assume that writers on other machines are dead, and remove chunks without documents if there is nothing else.

    Returns
    -------
    list of str
        A sentence for each action or obstacle.

    Examples
    --------
    >>> import tempfile
    >>> clean(os.path.join(tempfile.gettempdir(), "no-such.zarr"))
    []
    """
    report: list[str] = []
    if isinstance(target, str | os.PathLike) and (parsed := parse_target(target)).protocol == "file":
        path = Path(os.path.realpath(parsed.location))
        if atomic.restore(path):
            report.append(f"{parsed.location}: put back; the process that was replacing it was stopped")
        for beside in (path, path.with_name(f"{path.name}.rechunk")):  # and the intermediate of a copy
            report += [f"{removed}: removed" for removed in atomic.remove_leftovers(beside)]
        # A folder of other things lost its empty directories.
        if not path.is_dir() or not _is_ours(path):
            return report
        report += [f"{removed}: removed" for removed in atomic.remove_partial_values(path)]
    store = open_store(target, "r+", storage_options)
    store.keep_order()
    try:
        refuse_group_of_dataset(store, "cleaned")
        report += [f"{store.url}: {sentence}" for sentence in _clean_store(store, force)]
        if isinstance(target, str) and parsed.protocol in ("s3", "s3a"):
            uploads = _clean_uploads(target, storage_options, force)
            report += [f"{store.url}: {sentence}" for sentence in uploads]
        store.settle()
        if report:
            warn_of_versions(store)
    finally:
        if store is not target:
            store.close()
    if report and isinstance(store, LocalStore):
        atomic.remove_empty_directories(store.root)
    return report


def _is_ours(folder: Path) -> bool:
    """Return whether a directory is a dataset, or the remains of one; other directories are not searched."""
    store = open_store(folder)
    try:
        marked = any(n.startswith(".nczarr-") and not n.endswith(".tmp") for n in os.listdir(folder))
        return (
            marked
            or destination.is_zarr(store)
            or atomic.holds_nothing(folder)
            or destination.holds_orphans(store)
        )
    finally:
        store.close()


def _clean_store(store: Store, force: bool) -> Iterator[str]:
    yield from _clean_unfinished(store, force)
    if store.takes_any_key and store.exists(changes.UNSTORED):
        store.delete(changes.UNSTORED)
        yield "the marker of values that were not stored is removed"
    if finish_moves(store, force=force):
        yield "an interrupted rename of variables is finished"
    if store.listable:
        forget_moves(store)
    changer = changes.writer_at(store)
    if changer is not None:
        busy = _busy(changer, force)
        if busy:
            yield f"its metadata are being changed; {busy}"
        else:
            yield from (f"{path} is removed" for path in changes.remove_unclaimed(store))
            changes.remove_marker(store)
            yield "the marker of an interrupted change is removed"
    for key in list(store.list(changes.BESIDE)) if store.listable and store.takes_any_key else []:
        busy = _busy(key.rpartition("/")[2], force)
        if busy:
            yield f"a region of it is being written; {busy}"
        else:
            store.delete(key)
            yield "the marker of an interrupted write of a region is removed"
    for writer in staged_writers(store) if store.listable else []:
        busy = _busy(writer, force)
        if busy:
            yield f"an unfinished new dataset is beside it; {busy}"
        else:
            StagedStore(store, writer).discard()
            yield "an unfinished new dataset beside it is removed"
    if store.listable and store.takes_any_key and changer is None and destination.is_zarr(store):
        yield from _clean_old_chunks(store, force)


def _clean_old_chunks(store: Store, force: bool) -> Iterator[str]:
    """Find the chunks from before :meth:`StoredDataset.store_anew`, which programs read that were open then."""
    try:
        hierarchy = open_hierarchy(store)
    except NCZarrError:  # other commands tell what is wrong
        return
    for path, node in hierarchy.nodes.items():
        # Times have one dimension, and their bounds two.
        if hierarchy.layout != "v3" or not node.is_array or node.ndim not in (1, 2):
            continue
        # An append that converts times writes them under other keys: the old chunks stayed for ever.
        for array in with_each_other_key(hierarchy, path, node):
            if count := array.nchunks_initialized():
                what = f"{count} chunks of {path!r} from before its times were stored anew"
                # A program that opened the dataset before reads these chunks still.
                if force:
                    array.erase()
                yield (
                    f"{what} are removed"
                    if force
                    else f"{what} remain; if no program reads them, --force removes them"
                )


def _clean_uploads(target: str, options: StorageOptions | None, force: bool) -> Iterator[str]:
    """Find values that a killed process has uploaded in part. Only s3fs lists them, and not every server does."""
    with suppress(NCZarrError), open_store(target, "r+", {**(options or {}), "backend": "s3fs"}) as store:
        if isinstance(store, remote.FsspecStore) and (count := store.unfinished_uploads(remove=force)):
            what = "are removed" if force else "remain; if no process is writing, --force removes them"
            yield f"parts of {count} values that were not uploaded to the end {what}"


def _clean_unfinished(store: Store, force: bool) -> Iterator[str]:
    marker, complete = destination.UnfinishedMarker.read(store), destination.is_zarr(store)
    if marker is None:
        if not complete and destination.holds_orphans(store):
            if force:
                destination.remove_unfinished(store)
                yield "chunks of arrays without documents are removed"
            else:
                yield f"{destination.ORPHANS}; if no worker is running, --force removes them"
        if complete and store.takes_any_key and destination.remove_record(store):
            yield "the record of a complete copy is removed"
    elif busy := _busy(marker.writer, force):
        yield f"unfinished; {busy}"
    elif marker.staged:
        destination.put_in_place(store, marker)
        yield "the complete new dataset is in place now"
    elif complete:
        store.delete(destination.UNFINISHED)
        yield "complete; the marker of an unfinished dataset is removed"
    else:
        destination.remove_unfinished(store)
        yield "an unfinished dataset is removed"


def _busy(writer: str, force: bool) -> str | None:
    """Return why the data of a writer must stay; None if they need not."""
    state = atomic.writer_state(writer)
    if state is atomic.WriterState.ALIVE:
        return f"process {int(writer.split('-')[1], 16)} is writing it"
    if state is atomic.WriterState.UNKNOWN and not force:
        return "another machine may be writing it; if none is, use --force"
    return None


# --- counting and removing objects


class ArrayObjects(NamedTuple):
    """The objects of an array with its path, or of :data:`DOCUMENTS` or :data:`FOREIGN`."""

    path: str
    objects: int
    size: int


def stored_objects(target: object, storage_options: StorageOptions | None = None) -> list[ArrayObjects]:
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
    with open_store(target, "r", storage_options) as store:
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
        warn(
            f"{store.url}: the bucket keeps older versions of objects, also of removed ones. They are not counted, and "
            "cost; a lifecycle rule of the bucket removes them"
        )


def _counted(hierarchy: Hierarchy, sizes: Iterable[tuple[str, int]]) -> list[ArrayObjects]:
    arrays = {hierarchy.chunk_prefix(path): path for path, node in hierarchy.nodes.items() if node.is_array}
    counts: dict[str, tuple[int, int]] = {}
    for key, size in sizes:
        above, _, name = key.rpartition("/")
        is_document = name == "zarr.json" or name.startswith((".z", ".nc"))
        if (is_document and above in hierarchy.nodes) or (
            hierarchy.layout not in ("v2", "v3") and key.startswith("meta/")
        ):
            path = DOCUMENTS
        else:
            prefix = find_prefix(key, arrays)
            path = FOREIGN if prefix is None else f"/{arrays[prefix]}"
        objects, total = counts.get(path, (0, 0))
        counts[path] = objects + 1, total + size
    return [
        ArrayObjects(path, *counts[path]) for path in sorted(counts, key=lambda path: (path[0] == "(", path))
    ]


def remove(target: object, *, storage_options: StorageOptions | None = None, force: bool = False) -> None:
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
    LockedError
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
    with open_store(target, "r+", storage_options) as store:
        refuse_group_of_dataset(store, "removed")
        if not destination.is_zarr(store):
            raise DatasetNotFoundError(
                "there is no Zarr hierarchy", path=store.url, hint="nczarr clean removes remains of writers"
            )
        with changes.writing_alone(store) as alone:
            # Objects of other programs are removed on request only.
            foreign = [] if force else [item for item in stored_objects(store) if item.path == FOREIGN]
            if foreign:
                raise UnsupportedError(
                    f"{foreign[0].objects:,} objects here do not belong to the hierarchy",
                    path=store.url,
                    hint="nczarr du counts them; --force removes them too",
                )
            alone.check()
            if isinstance(store, ZipStore):
                os.unlink(store.path)
            else:
                # After a kill, `clean` sees that the process has ended.
                store.set(destination.UNFINISHED, destination.UnfinishedMarker(atomic.new_writer()).data)
                destination.remove_unfinished(store, kept=changes.WRITING)
        if isinstance(store, LocalStore):
            atomic.remove_empty_directories(store.root)
