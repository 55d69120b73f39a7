"""Open datasets in stores, and create them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Literal

from nczarr.errors import DatasetNotFoundError, NCZarrError
from nczarr.mapping import rewriting
from nczarr.mapping.dataset.dialects import dialect_named, dialect_of, may_be_group
from nczarr.mapping.dataset.stored import StoredDataset
from nczarr.mapping.dataset.subgroup import (
    as_dataset,
    findings_of_group,
    refuse_group,
    refuse_group_of_dataset,
    root_above,
)
from nczarr.mapping.dialect import Part, Reading
from nczarr.mapping.findings import Finding, warn_of
from nczarr.mapping.guarding.changes import moment, stale_nodes, unstored_reason
from nczarr.mapping.guarding.destination import Destination, refuse_unfinished
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import LayoutName, WriteOptions
from nczarr.model import Dataset, resolve
from nczarr.stores import LocalStore, MemoryStore, Store, open_store
from nczarr.system.failures import is_unreached
from nczarr.zarr import Hierarchy, create_hierarchy, open_hierarchy

#: How often metadata are read again because somebody writes them meanwhile.
_TRIES = 20


def open_dataset(
    target: Any,
    mode: Literal["r", "r+"] = "r",
    *,
    consolidated: bool | None = None,
    storage_options: dict[str, Any] | None = None,
    options: WriteOptions | None = None,
) -> StoredDataset:
    """Open a dataset in a store, whether NCZarr or plain Zarr.

    Parameters
    ----------
    target
        A path, a URL, a mapping, or a store; see :func:`nczarr.stores.open_store`.
    mode : {'r', 'r+'}
        Read, or read and write.
    consolidated : bool, optional
        True: consolidated metadata must be there; False: they are not used; None: they are used if they are there.
    storage_options : dict, optional
        For the file system of a URL.
    options : WriteOptions, optional
        How what is new is written; the layout, and whether metadata are consolidated, stay as they are.

    Returns
    -------
    StoredDataset
        A context manager.

    Raises
    ------
    DatasetNotFoundError
        If there is nothing that nczarr can read.
    MetadataError
        If the metadata are damaged; the message has the path of the document.

    Examples
    --------
    >>> from nczarr.model import Attribute
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> create_dataset(store, Dataset("d", attributes=(Attribute.of("title", "run 42"),))).close()
    >>> open_dataset(store).dataset.attribute["title"].text
    'run 42'
    """
    store = open_store(target, mode, storage_options)
    try:
        if consolidated is None and not store.keeps_consolidated:
            consolidated = False
        if mode == "r+":
            store.keep_order()
            rewriting.finish_moves(store)
        try:
            hierarchy = _open_hierarchy(store, consolidated, mode)
            found: tuple[Finding, ...] = ()
            if consolidated is None:
                hierarchy, found = _own_documents(store, hierarchy, mode)
            dialect = dialect_of(hierarchy)
            if may_be_group(hierarchy, dialect):
                group = _open_through_dataset(store, hierarchy, mode, consolidated)
                if group is not None:
                    if store is not target:
                        store.close()
                    return group
            reading = dialect.read(hierarchy, _dataset_name(store))
        except NCZarrError as error:
            if not is_unreached(error):
                rewriting.refuse_interrupted(store)
            raise
        if isinstance(store, LocalStore | MemoryStore) or _has_moving(hierarchy, reading):
            rewriting.refuse_interrupted(store)
        if reading.part is not None:
            reading = _group_alone(reading, reading.part, store, mode)
        reading = _with_losses(
            replace(reading, findings=(*found, *reading.findings, *_unstored(store))), store
        )
        options = replace(
            options or WriteOptions(),
            layout=_layout_name(dialect.name),
            consolidated=hierarchy.consolidated,
        )
        return StoredDataset(
            hierarchy,
            dialect,
            reading,
            reading.dataset,
            options=options,
            names=_node_names(store, options, dialect.zarr_layout),
        )
    except BaseException:
        if store is not target:
            store.close()
        raise


def create_dataset(
    target: Any,
    dataset: Dataset,
    options: WriteOptions | None = None,
    *,
    overwrite: bool = False,
    storage_options: dict[str, Any] | None = None,
    resume: bool = False,
) -> StoredDataset:
    """Create a dataset: all metadata now, the values after, through :meth:`StoredDataset.write`.

    Nothing is visible to readers before :meth:`StoredDataset.commit`. The data of `dataset` are not looked at.

    Parameters
    ----------
    target
        A path, a URL, a mapping, or a store; see :func:`nczarr.stores.open_store`.
    dataset : Dataset
        The model; references need not be resolved.
    options : WriteOptions, optional
    overwrite : bool
        Replace a Zarr dataset that exists. Anything else that exists is never replaced.
    storage_options : dict, optional
        For the file system of a URL.
    resume : bool
        Go on with an unfinished dataset of the same model and options: the chunks that it has stay.

    Returns
    -------
    StoredDataset
        A context manager, and a :class:`nczarr.model.DatasetSink`.

    Raises
    ------
    DatasetExistsError
        If there is something that may not be replaced.
    ModelError
        If the model is not sound.
    UnsupportedError, LossError
        If the layout cannot hold it. In both cases nothing is touched.

    Examples
    --------
    >>> import numpy as np
    >>> from nczarr.model import INT, Dimension, Variable
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> d = Dataset("d", dimensions=(Dimension("x", 2),), variables=(Variable("v", INT, ("/x",)),))
    >>> with create_dataset(store, d) as sink:
    ...     sink.write("/v", (slice(0, 2),), np.array([1, 2], "i4"))
    >>> open_dataset(store).data("/v").read((slice(0, 2),))
    array([1, 2], dtype=int32)
    """
    options = options or WriteOptions()
    dialect = dialect_named(options.layout)
    dataset = resolve(dataset)
    if overwrite and isinstance(target, str | os.PathLike):
        _refuse_replacing_a_group(target, storage_options)
    destination = Destination(target, overwrite=overwrite, storage_options=storage_options, resume=resume)
    store = destination.store
    if not store.keeps_consolidated:
        options = replace(options, consolidated=False)
    try:
        names = _node_names(store, options, dialect.zarr_layout)
        # All that can be refused is refused before anything is touched.
        plan = dialect.plan(dataset, options, names)
        destination.prepare()
        hierarchy = create_hierarchy(store, layout=dialect.zarr_layout, hidden=True)  # type: ignore[arg-type]
        hierarchy.put_many(plan.nodes.items())
        held = plan.dataset or dataset
        return StoredDataset(
            hierarchy, dialect, plan, held, options=options, names=names, destination=destination
        )
    except BaseException:
        destination.abort()
        raise


def _unstored(store: Store) -> Iterator[Finding]:
    """The values that the last writer could not store, if it left a mark."""
    reason = unstored_reason(store)
    if reason is not None:
        what = (
            f"a program ended before all of its values were stored ({reason}); nczarr clean removes this mark"
        )
        yield Finding("values-unstored", "/", what, "error")


def _with_losses(reading: Reading, store: Store) -> Reading:
    """What was found, with a finding for each node that is left out; warns of all findings."""
    left_out = tuple(Finding("left-out", "/", loss, "warning") for loss in reading.losses)
    gone = tuple(f"{f.where}: {f.what}" for f in reading.findings if f.code == "node-missing")
    if left_out or gone:
        dataset = replace(reading.dataset, left_out=reading.losses, gone=gone)
        reading = replace(reading, dataset=dataset, findings=(*reading.findings, *left_out))
    if reading.findings:
        warn_of(reading.findings, store.url, mends=reading.part is None)
    return reading


def _group_alone(reading: Reading, part: Part, store: Store, mode: Literal["r", "r+"]) -> Reading:
    """What was found of a group whose dataset is not above it."""
    if mode == "r+":
        refuse_group(store.url, "changed", part)
    if part.fqn:
        reading = as_dataset(reading, part, _dataset_name(store), "")
    return replace(reading, findings=findings_of_group(reading, part))


def _open_through_dataset(
    store: Store, hierarchy: Hierarchy, mode: Literal["r", "r+"], consolidated: bool | None
) -> StoredDataset | None:
    """Open a group by the documents of its dataset; None if the dataset is not above it.

    Raises
    ------
    UnsupportedError
        If it is to be changed.
    """
    above = root_above(store, hierarchy.layout)
    if above is None:
        return None
    outer, path = above
    opened = False
    try:
        whole = _open_hierarchy(outer, None if consolidated else consolidated, "r")
        if consolidated is None:
            whole, _ = _own_documents(outer, whole, "r")
        if path not in whole.nodes:  # the consolidated copy is older than the group
            whole = _open_hierarchy(outer, False, "r")
        dialect = dialect_of(whole)
        reading = dialect.read(whole, _dataset_name(outer))
        fqn = next((fqn for fqn, at in reading.groups.items() if at == path), None)
        if dialect.is_plain or fqn is None or reading.part is not None or path in reading.foreign:
            return None
        part = Part(fqn, outer.url)
        if mode == "r+":
            refuse_group(store.url, "changed", part)
        reading = _with_losses(as_dataset(reading, part, _dataset_name(store), path), store)
        options = WriteOptions(layout=_layout_name(dialect.name), consolidated=whole.consolidated)
        names = _node_names(outer, options, dialect.zarr_layout)
        stored = StoredDataset(whole, dialect, reading, reading.dataset, options=options, names=names)
        opened = True
        return stored
    except DatasetNotFoundError:
        return None
    finally:
        if not opened:
            outer.close()


def _has_moving(hierarchy: Hierarchy, reading: Reading) -> bool:
    """True if it may be that arrays are between two names; elsewhere than here, looking for a key is a request."""
    return any(f.code.startswith("node-") for f in reading.findings) or any(
        path.startswith(rewriting.ASIDE) for path in hierarchy.nodes
    )


def _refuse_replacing_a_group(target: Any, storage_options: dict[str, Any] | None) -> None:
    """Refuse to put a dataset in the place of a group of another dataset."""
    try:
        store = open_store(target, "r", storage_options)
    except NCZarrError:
        return  # the destination says more
    with store:
        refuse_group_of_dataset(store, "replaced")


def _open_hierarchy(store: Store, consolidated: bool | None, mode: Literal["r", "r+"]) -> Hierarchy:
    try:
        return open_hierarchy(store, consolidated=consolidated, mode=mode)
    except DatasetNotFoundError:
        refuse_unfinished(store)
        raise


def _own_documents(
    store: Store, hierarchy: Hierarchy, mode: Literal["r", "r+"]
) -> tuple[Hierarchy, tuple[Finding, ...]]:
    """The hierarchy as its own documents have it, where these are known to be newer than the consolidated copy."""
    for _ in range(_TRIES):
        before = moment(store)
        stale = stale_nodes(store, hierarchy)
        if not stale:
            return hierarchy, ()
        own = open_hierarchy(store, consolidated=False, mode=mode)
        if before is not None and moment(store) == before:
            break
        # Somebody writes: documents of before and after do not belong together, the copies of them do.
        hierarchy = open_hierarchy(store, mode=mode)
    else:
        return hierarchy, ()
    more = f" (and {len(stale) - 1} more)" if len(stale) > 1 else ""
    what = f"the consolidated metadata are older than the document of {stale[0] or '/'!r}{more}"
    return own, (Finding("consolidated-stale", "/", what, "note", "consolidate"),)


def _layout_name(name: str) -> LayoutName:
    return name  # type: ignore[return-value]


def _dataset_name(store: Store) -> str:
    """The name of a dataset is not stored: it is that of the file, as netCDF has it."""
    place = store.url.partition("?")[0] if "://" in store.url else store.url
    name = PurePosixPath(place.replace("\\", "/").rstrip("/")).name
    for suffix in (".zip", ".zarr", ".nc", ".ncz"):
        name = name.removesuffix(suffix)
    return name or "dataset"


def _node_names(store: Store, options: WriteOptions, zarr_layout: str) -> NodeNames:
    local = isinstance(store, LocalStore)
    insensitive = options.case_insensitive
    if insensitive is None:
        insensitive = isinstance(store, LocalStore) and _ignores_case(str(store.root))
    return NodeNames(
        ascii_only=zarr_layout == "draft-2019",
        windows=local and os.name == "nt",
        case_insensitive=bool(insensitive) or zarr_layout == "draft-2019",
    )


def _ignores_case(path: str) -> bool:
    """True if the file system below the nearest directory that exists takes ``T`` and ``t`` for one name."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    other = path.swapcase()
    try:
        return other != path and os.path.samefile(path, other)
    except OSError:
        return False
