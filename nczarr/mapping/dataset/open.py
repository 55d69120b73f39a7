"""Open datasets in stores, and create them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Literal, cast

from nczarr.errors import DatasetNotFoundError, NCZarrError, StoreError, UnsupportedError
from nczarr.json_values import JsonObject
from nczarr.mapping.dataset import subgroup
from nczarr.mapping.dataset.changes import moment, stale_nodes, unstored_reason
from nczarr.mapping.dataset.destination import open_destination, refuse_unfinished
from nczarr.mapping.dataset.rename_journal import ASIDE, finish_moves, refuse_interrupted
from nczarr.mapping.dataset.stored import StoredDataset
from nczarr.mapping.dialect import Dialect, OpenedGroup, Reading
from nczarr.mapping.findings import Finding, make_finding, missing_node, warn_of
from nczarr.mapping.nczarr2.read import is_nczarr_v2, read_nczarr_v2
from nczarr.mapping.nczarr2.write import plan_nczarr_v2
from nczarr.mapping.nczarr3.keys import GROUP_KEY, SUPERBLOCK_KEY, group_keys
from nczarr.mapping.nczarr3.read import is_nczarr_v3, read_nczarr_v3
from nczarr.mapping.nczarr3.write import plan_draft_2019, plan_nczarr_v3
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import LayoutName, WriteOptions
from nczarr.mapping.plain.read import is_plain, read_plain
from nczarr.mapping.plain.write import plan_plain
from nczarr.model import Dataset, resolve
from nczarr.stores import LocalStore, MemoryStore, Store, open_store
from nczarr.system.atomic import ignores_case
from nczarr.system.environment import limit
from nczarr.system.failures import is_unreached
from nczarr.zarr import Hierarchy, create_hierarchy, open_hierarchy
from nczarr.zarr.hierarchy.layouts import ConsolidatedUse, V2Layout
from nczarr.zarr.hierarchy.opening import read_hierarchy

#: Maximum number of reads of metadata that another program is writing.
_TRIES = 20
_Mode = Literal["r", "r+"]
_V2, _V3, _DRAFTS = frozenset({"v2"}), frozenset({"v3"}), frozenset({"draft-2019", "experimental-v3"})

#: The dialects in the order in which reading tries them.
DIALECTS: tuple[Dialect, ...] = (
    Dialect("nczarr-v3", "v3", _V3, is_nczarr_v3, read_nczarr_v3, plan_nczarr_v3),
    Dialect("nczarr-v2", "v2", _V2, is_nczarr_v2, read_nczarr_v2, plan_nczarr_v2),
    Dialect("draft-2019", "draft-2019", _DRAFTS, is_nczarr_v3, read_nczarr_v3, plan_draft_2019),
    Dialect("zarr-v2", "v2", _V2, is_plain, read_plain, partial(plan_plain, "v2")),
    Dialect("zarr-v3", "v3", _V3 | _DRAFTS, is_plain, read_plain, partial(plan_plain, "v3")),
)


def open_dataset(
    target: object,
    mode: _Mode = "r",
    *,
    consolidated: bool | None = None,
    storage_options: Mapping[str, object] | None = None,
    options: WriteOptions | None = None,
    on_plain: Callable[[Hierarchy], object] | None = None,
    top: Collection[str] | None = None,
) -> StoredDataset:
    """Open a dataset in a store, whether NCZarr or plain Zarr.

    It serves programs that change stored datasets without the netCDF4 interface; :func:`nczarr.open` reads any format.

    Parameters
    ----------
    target
        A path, a URL, a mapping, or a store; see :func:`nczarr.stores.open_store`.
    mode : {'r', 'r+'}
        Read, or read and write.
    consolidated : bool, optional
        True: consolidated metadata are required; None: they are used if they exist; False: they are ignored, except
        in a store that cannot list its keys.
    storage_options : dict, optional
        For the file system of a URL.
    options : WriteOptions, optional
        The options for new nodes; the layout, and whether metadata are consolidated, do not change.
    on_plain : callable, optional
        Called with a plain Zarr hierarchy of which there is nothing to report, before its documents are read into a
        model. An exception ends the opening: another library reads the hierarchy.
    top : collection of str, optional
        The keys at the top of the store, if the caller has listed them since it excludes other writers.

    Returns
    -------
    StoredDataset
        A context manager.

    Raises
    ------
    DatasetNotFoundError
        There is no dataset that nczarr can read.
    MetadataError
        The metadata are damaged; the message contains the path of the document.

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
        use = ConsolidatedUse.of(consolidated)
        if use is ConsolidatedUse.IF_STORED and not store.keeps_consolidated:
            # The store has metadata of its own, as Icechunk has; a copy of documents in it may be older.
            use = ConsolidatedUse.NEVER
        # Without the order, a loss of power may leave documents that refer to chunks which are not there.
        if mode == "r+":
            store.keep_order()
            # A rename that a killed program has begun is completed first: names stand for the wrong values until
            # then.
            finish_moves(store, top=top)
        if use is ConsolidatedUse.NEVER and not store.listable:
            use = ConsolidatedUse.IF_STORED  # the copy alone names the nodes
        try:
            try:
                hierarchy, found = _open_hierarchy(store, use, mode)
            except StoreError as error:
                # A bucket may allow reading and not listing, which only the first listing tells.
                if error.reason != "refused" or store.listable or use is not ConsolidatedUse.NEVER:
                    raise
                use = ConsolidatedUse.IF_STORED
                hierarchy, found = _open_hierarchy(store, use, mode)
            dialect = dialect_of(hierarchy)
            if _may_be_group(hierarchy, dialect):
                # Dimensions and types of a group may be those of the groups above.
                opened = _open_through_dataset(store, hierarchy, mode, use)
                if opened is not None:
                    if store is not target:
                        store.close()
                    return opened
            if on_plain is not None:
                _offer(hierarchy, dialect, found, on_plain)
            reading = _read(dialect, hierarchy, _dataset_name(store))
        except NCZarrError as error:
            # An error of the network must not be taken for damage.
            if not is_unreached(error):
                refuse_interrupted(store)
            raise
        # Elsewhere the search for a journal costs a request.
        moving = any(f.code.startswith("node-") for f in reading.findings) or _has_moving_nodes(hierarchy)
        # Elsewhere, each look for the journal is a request.
        if moving or isinstance(store, LocalStore | MemoryStore):
            refuse_interrupted(store)
        # A group that was copied without its dataset.
        if reading.part is not None:
            reading = _alone(store, reading, reading.part, mode)
        reading = replace(reading, findings=(*found, *reading.findings, *_unstored(store)))
        return _stored(store, hierarchy, dialect, reading, options or WriteOptions())
    except BaseException:
        if store is not target:
            store.close()
        raise


def create_dataset(
    target: object,
    dataset: Dataset,
    options: WriteOptions | None = None,
    *,
    overwrite: bool = False,
    storage_options: Mapping[str, object] | None = None,
    resume: bool = False,
) -> StoredDataset:
    """Create a dataset with all metadata; :meth:`StoredDataset.write` writes the values.

    The dataset is invisible to readers before :meth:`StoredDataset.commit`. The data of `dataset` are ignored.

    Parameters
    ----------
    target
        A path, a URL, a mapping, or a store; see :func:`nczarr.stores.open_store`.
    dataset : Dataset
        The model; references need not be resolved.
    options : WriteOptions, optional
    overwrite : bool
        Replace an existing Zarr dataset. Other existing data are never replaced.
    storage_options : dict, optional
        For the file system of a URL.
    resume : bool
        Resume an unfinished dataset of the same model and options, and keep its chunks.

    Returns
    -------
    StoredDataset
        A context manager, and a :class:`nczarr.model.DatasetSink`.

    Raises
    ------
    DatasetExistsError
        The place contains data that may not be replaced.
    ModelError
        The model is invalid.
    UnsupportedError, LossError
        The layout cannot represent the model. These errors precede any change.

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
        existing = None
        with suppress(NCZarrError):  # the error of the destination has more details
            # Replacing a group would leave the dataset above it with a reference to nothing.
            existing = open_store(target, "r", storage_options)
        if existing is not None:
            with existing:
                subgroup.refuse_group_of_dataset(existing, "replaced")
    destination = open_destination(
        target, overwrite=overwrite, storage_options=storage_options, resume=resume
    )
    store = destination.store
    if not store.keeps_consolidated:
        # They would be a second copy, which no reader uses and no commit keeps in step.
        options = replace(options, consolidated=False)
    try:
        names = _node_names(store, options, dialect.zarr_layout)
        # All checks precede the first change.
        plan = dialect.plan(dataset, options, names, None)
        destination.prepare()
        hierarchy = create_hierarchy(store, layout=dialect.zarr_layout, hidden=True)  # type: ignore[arg-type]
        # Hidden until the end: a reader that opens meanwhile would take fill values for the values.
        hierarchy.put_many(plan.nodes.items())
        return StoredDataset(
            hierarchy,
            dialect,
            plan,
            plan.dataset or dataset,
            options=options,
            names=names,
            destination=destination,
        )
    except BaseException:
        # An error leaves nothing, and the dataset that would be replaced stays.
        destination.abort()
        raise


def _stored(
    store: Store, hierarchy: Hierarchy, dialect: Dialect, reading: Reading, options: WriteOptions
) -> StoredDataset:
    """Return the dataset with a finding for each node that is left out, and warn of all findings."""
    left_out = tuple(make_finding("left-out", "/", loss) for loss in reading.losses)
    findings = tuple(dict.fromkeys((*reading.findings, *_missing_nodes(hierarchy, reading), *left_out)))
    gone, unreached = (
        tuple(f"{f.where}: {f.what}" for f in findings if f.code == code)
        for code in ("node-missing", "dimension-unreachable")
    )
    if left_out or gone or unreached:
        # A copy would lose the reference to the dimension.
        dataset = replace(reading.dataset, left_out=(*reading.losses, *unreached), gone=gone)
        reading = replace(reading, dataset=dataset, findings=findings)
    if reading.findings:
        warn_of(reading.findings, store.url, repairable=reading.part is None)
    layout = cast(LayoutName, dialect.name)
    # A dataset that agrees with NZ-1.0 keeps to it: its new nodes are declared, too. So does one for old readers.
    options = replace(
        options,
        layout=layout,
        consolidated=hierarchy.consolidated,
        nz=reading.nz,
        keys_in_attributes=reading.keys_in_attributes,
    )
    names = _node_names(hierarchy.store, options, dialect.zarr_layout)
    return StoredDataset(hierarchy, dialect, reading, reading.dataset, options=options, names=names)


def _missing_nodes(hierarchy: Hierarchy, reading: Reading) -> Iterator[Finding]:
    """Yield a finding for each node that only consolidated metadata name; those below it are lost with it."""
    fqns = {path: fqn for fqn, path in reading.groups.items()} if hierarchy.missing else {}
    for path, is_array in hierarchy.missing.items():
        fqn = fqns.get(path.rpartition("/")[0])
        if fqn is not None:
            yield missing_node(fqn, path, is_array, hierarchy)


def _read(dialect: Dialect, hierarchy: Hierarchy, name: str) -> Reading:
    most = limit("NCZARR_MAX_DEPTH")
    # A damaged or malicious store may nest without end, and readers of groups call themselves.
    deepest = max(hierarchy.nodes, key=lambda path: path.count("/"))
    if deepest.count("/") + (not hierarchy.is_array(deepest)) > most:
        raise UnsupportedError(
            f"groups are nested more than {most} levels deep: {deepest[:60]}…",
            path=hierarchy.store.url,
            hint="the setting NCZARR_MAX_DEPTH allows more",
        )
    return dialect.read(hierarchy, name)


def _unstored(store: Store) -> Iterator[Finding]:
    """Yield a finding if the last writer left a marker because it could not store its values."""
    reason = unstored_reason(store)
    if reason is not None:
        what = f"a program ended before all of its values were stored ({reason}); nczarr clean removes this marker"
        yield make_finding("values-unstored", "/", what)


def _offer(
    hierarchy: Hierarchy,
    dialect: Dialect,
    found: tuple[Finding, ...],
    on_plain: Callable[[Hierarchy], object],
) -> None:
    """Offer a plain hierarchy of which there is nothing to report; the caller may end the opening."""
    store = hierarchy.store
    if not dialect.is_plain or found or hierarchy.missing or any(_unstored(store)):
        return
    if isinstance(store, LocalStore | MemoryStore) or _has_moving_nodes(hierarchy):
        refuse_interrupted(store)
    on_plain(hierarchy)


def _has_moving_nodes(hierarchy: Hierarchy) -> bool:
    """Return whether a rename that a killed program has begun has put a node aside."""
    return any(path.startswith(ASIDE) for path in hierarchy.nodes)


def _may_be_group(hierarchy: Hierarchy, dialect: Dialect) -> bool:
    """Return whether a hierarchy has NCZarr's keys without a superblock, which the root of a dataset has."""
    root = hierarchy.nodes[""]
    if root.is_array:
        return False
    if dialect.name == "nczarr-v3":
        return SUPERBLOCK_KEY not in root.attributes and SUPERBLOCK_KEY not in group_keys(root)[0]
    keys = (GROUP_KEY, GROUP_KEY.upper())
    return dialect.name == "zarr-v2" and any(k in at for k in keys for at in (root.attributes, root.extra))


def _open_through_dataset(
    store: Store, hierarchy: Hierarchy, mode: _Mode, use: ConsolidatedUse
) -> StoredDataset | None:
    """Open a group by the documents of its dataset; None if the dataset is not above it.

    Raises
    ------
    UnsupportedError
        The mode is for writing.
    """
    above = subgroup.root_above(store, hierarchy.layout)
    if above is None:
        return None
    outer, path = above
    with ExitStack() as stack, suppress(DatasetNotFoundError):
        stack.callback(outer.close)
        whole, _ = _open_hierarchy(
            outer, use if use is ConsolidatedUse.NEVER else ConsolidatedUse.IF_STORED, "r"
        )
        if path not in whole.nodes:  # the consolidated copy is older than the group
            whole, _ = _open_hierarchy(outer, ConsolidatedUse.NEVER, "r")
        dialect = dialect_of(whole)
        reading = _read(dialect, whole, _dataset_name(outer))
        fqn = next((fqn for fqn, at in reading.groups.items() if at == path), None)
        if dialect.is_plain or fqn is None or reading.part is not None or path in reading.foreign:
            return None
        part = OpenedGroup(fqn, outer.url)
        if mode == "r+":
            subgroup.refuse_group(store.url, "changed", part)
        reading = subgroup.as_dataset(reading, part, _dataset_name(store), path)
        stored = _stored(store, whole, dialect, reading, WriteOptions())
        stack.pop_all()
        return stored
    return None


def _alone(store: Store, reading: Reading, part: OpenedGroup, mode: _Mode) -> Reading:
    """Return the reading of a group whose dataset is not above it: a group that has been copied as it is, key by key.

    Raises
    ------
    UnsupportedError
        The mode is for writing.
    """
    if mode == "r+":
        subgroup.refuse_group(store.url, "changed", part)
    if part.fqn:
        reading = subgroup.as_dataset(reading, part, _dataset_name(store), "")
    group = f"the group {part.fqn}" if part.fqn else "a group"
    what = (
        f"this is {group} of a dataset that is not above it; only its arrays define dimensions and types of "
        "other groups"
    )
    return replace(reading, findings=(make_finding("group-alone", "/", what), *reading.findings))


def _open_hierarchy(store: Store, use: ConsolidatedUse, mode: _Mode) -> tuple[Hierarchy, tuple[Finding, ...]]:
    try:
        hierarchy = read_hierarchy(store, use, mode)
    except DatasetNotFoundError:
        refuse_unfinished(store)
        raise
    return _own_documents(store, hierarchy, mode) if use is ConsolidatedUse.IF_STORED else (hierarchy, ())


def _own_documents(store: Store, hierarchy: Hierarchy, mode: _Mode) -> tuple[Hierarchy, tuple[Finding, ...]]:
    """Return the hierarchy by its own documents, if these are newer than the consolidated copy."""
    for _ in range(_TRIES):
        before = moment(store)
        # netcdf-c rewrites documents, and leaves the consolidated copy as it was.
        stale = stale_nodes(store, hierarchy)
        if not stale:
            return hierarchy, ()
        own = open_hierarchy(store, consolidated=False, mode=mode)
        if type(store) is not LocalStore or (before is not None and moment(store) == before):
            break
        # Another process writes: old and new documents do not belong together, but their copies do.
        hierarchy = open_hierarchy(store, mode=mode)
    else:
        return hierarchy, ()
    changed = [path for path in stale if path not in own.missing]  # a missing node is a finding of its own
    if not changed:
        return own, ()
    more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
    what = f"the consolidated metadata are older than the document of {changed[0] or '/'!r}{more}"
    return own, (make_finding("consolidated-stale", "/", what),)


def _dataset_name(store: Store) -> str:
    """Return the name of a dataset, which is not stored: it is the name of the file, as in netCDF."""
    place = store.url.partition("?")[0] if "://" in store.url else store.url
    name = PurePosixPath(place.replace("\\", "/").rstrip("/")).name
    for suffix in (".zip", ".zarr", ".nc", ".ncz"):
        name = name.removesuffix(suffix)
    return name or "dataset"


def _node_names(store: Store, options: WriteOptions, zarr_layout: str) -> NodeNames:
    local = store.is_local
    # The trial creates a file, which no reader may do; only new nodes need names.
    folds_case = store.writable and isinstance(store, LocalStore) and ignores_case(store.root)
    return NodeNames(
        ascii_only=zarr_layout == "draft-2019",
        windows=local and os.name == "nt",
        case_insensitive=folds_case or options.case_insensitive or zarr_layout == "draft-2019",
    )


def documents_v2(stored: StoredDataset) -> dict[str, JsonObject]:
    """Return plain documents of Zarr v2 by key, without content that v2 cannot represent.

    The dataset must have been written with the option `chunk_keys` of v2, and codecs that v2 has.
    """
    options = replace(stored.options, layout="zarr-v2", lossy=True, manifest=False)
    plan = dialect_named("zarr-v2").plan(stored.dataset, options, stored.names, None)
    layout = V2Layout(stored.hierarchy.store)
    return {k: d for path, node in plan.nodes.items() for k, d in layout.documents(path, node).items()}


# --- dialects


def dialect_of(hierarchy: Hierarchy) -> Dialect:
    """Return the dialect that can read a hierarchy; raise UnsupportedError if there is none."""
    for dialect in DIALECTS:
        if hierarchy.layout in dialect.read_from and dialect.recognise(hierarchy):
            return dialect
    message = f"nczarr has no reader for the Zarr layout {hierarchy.layout!r}"
    raise UnsupportedError(message, path=hierarchy.store.url)


def dialect_named(name: str) -> Dialect:
    """Return the dialect with a name; raise UnsupportedError if there is none.

    Examples
    --------
    >>> dialect_named("nczarr-v3").zarr_layout
    'v3'
    """
    found = {dialect.name: dialect for dialect in DIALECTS}
    if name not in found:
        raise UnsupportedError(
            f"the layout {name!r} cannot be written", hint=f"supported are {', '.join(found)}"
        )
    return found[name]
