"""Write down what was understood of a dataset that other programs have changed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from nczarr.errors import UnsupportedError
from nczarr.mapping.dataset.open import open_dataset
from nczarr.mapping.dataset.stored import StoredDataset
from nczarr.mapping.dataset.subgroup import refuse_group
from nczarr.mapping.findings import Finding, RecoveryWarning
from nczarr.mapping.guarding.changes import writing_alone
from nczarr.mapping.nczarr3.validate import validate
from nczarr.model import long_names
from nczarr.stores import Store, open_store

#: After the first one; each has less to do than the one before.
_MORE_PASSES = 3


def find_faults(stored: StoredDataset) -> tuple[Finding, ...]:
    """Return all that is not as it should be with the metadata of a dataset, however small."""
    found = dict.fromkeys(stored.findings)
    if stored.layout == "nczarr-v3":
        found.update(dict.fromkeys(validate(stored.hierarchy, stored.reading)))
    for fqn, wrong in long_names(stored.dataset):
        what = f"{wrong}; no netCDF file can have it, so a copy has to rename it"
        found[Finding("name-long", fqn, what, "warning")] = None
    for difference in stored.hierarchy.check_consolidated():
        found[Finding("consolidated-stale", "/", f"stale: {difference}", "note", "consolidate")] = None
    # What is left to people is left as it is altogether.
    left = _arrays_with_errors(stored, found)
    return tuple(replace(f, remedy="") if f.where in left else f for f in found)


def _arrays_with_errors(stored: StoredDataset, found: Iterable[Finding]) -> frozenset[str]:
    variables = stored.reading.variables
    return frozenset(f.where for f in found if f.severity == "error" and f.where in variables)


def check_metadata(
    target: Any, *, storage_options: Mapping[str, Any] | None = None
) -> tuple[StoredDataset, tuple[Finding, ...]]:
    """Open a dataset by its own documents, not their consolidated copy; returns it with all findings.

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


def repair(
    target: Any, *, dry_run: bool = False, storage_options: Mapping[str, Any] | None = None
) -> tuple[Finding, ...]:
    """Mend the metadata of an NCZarr dataset that programs without knowledge of NCZarr have changed.

    What reading has understood is written down: keys that were removed, sizes, lists of nodes, references into
    groups that were renamed. Arrays whose documents contradict themselves or each other stay as they are. Values
    are never touched, but for fill where an array is made as long as its unlimited dimension.

    Parameters
    ----------
    target
        A path, a URL, a mapping, or a store; see :func:`nczarr.stores.open_store`.
    dry_run : bool
        Say what would be done, and do nothing.
    storage_options : mapping, optional
        For the file system of a URL.

    Returns
    -------
    tuple of Finding
        What was found; those with a `remedy` are mended.

    Raises
    ------
    UnsupportedError
        If the dataset is not NCZarr on Zarr v3.
    StoreError
        If it is in a directory, and open for writing, here or in another process.

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
    found = _mend(target, dry_run, storage_options)
    if not dry_run and any(f.remedy for f in found):
        # What was written can bring to light what an array that is left alone still says of a group.
        for _ in range(_MORE_PASSES):
            if not any(f.remedy for f in _mend(target, False, storage_options)):
                break
    return found


def _mend(target: Any, dry_run: bool, storage_options: Mapping[str, Any] | None) -> tuple[Finding, ...]:
    options = dict(storage_options) if storage_options else None
    with ExitStack() as held:
        store = open_store(target, "r" if dry_run else "r+", options)
        if store is not target:
            held.callback(store.close)
        if not dry_run:
            held.enter_context(writing_alone(store))
        return _mend_store(store, dry_run)


def _mend_store(store: Store, dry_run: bool) -> tuple[Finding, ...]:
    with _open(store, "r" if dry_run else "r+", None) as stored:
        if stored.layout != "nczarr-v3":
            raise UnsupportedError(
                f"only NCZarr on Zarr v3 can be repaired, and this is {stored.layout}",
                path=stored.store.url,
                hint="copy it",
            )
        found = find_faults(stored)
        if any(f.code == "copy-unclear" for f in found) and not dry_run:
            raise UnsupportedError(
                "copies of several records stand in arrays, and nothing tells which is that of this dataset",
                path=stored.store.url,
                hint="remove the arrays that were copied in from another dataset",
            )
        if dry_run or not any(f.remedy for f in found):
            return found
        if any(f.remedy and f.code != "consolidated-stale" for f in found):
            stored.rewrite(_arrays_with_errors(stored, found))
        if stored.options.consolidated:
            stored.hierarchy.consolidate()
        stored.sync()
    return found


def _open(target: Any, mode: Any, storage_options: Mapping[str, Any] | None) -> StoredDataset:
    options = dict(storage_options) if storage_options else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)
        stored = open_dataset(target, mode, consolidated=False, storage_options=options)
    if stored.reading.part is not None:
        stored.close()
        refuse_group(_place(target), "checked or repaired", stored.reading.part)
    return stored


def _place(target: Any) -> str:
    return str(getattr(target, "url", target))
