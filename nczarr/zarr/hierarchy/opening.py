"""Open or create the hierarchy of a store.

:func:`open_hierarchy` detects the version of Zarr in a store and finds all nodes; metadata are parsed on first access.
:func:`create_hierarchy` creates a new hierarchy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from nczarr.errors import DatasetNotFoundError, MetadataError, NCZarrError, ReadOnlyError, StoreError
from nczarr.json_values import JsonObject, show
from nczarr.stores import Store
from nczarr.system.logs import logger_of
from nczarr.zarr.documents.consolidated import parse_root
from nczarr.zarr.hierarchy.hierarchy import Hierarchy, LayoutName
from nczarr.zarr.hierarchy.layouts import (
    LAYOUTS,
    ConsolidatedUse,
    DamagedNode,
    Found,
    Layout,
    RawNode,
    read_document,
)
from nczarr.zarr.hierarchy.survey import survey
from nczarr.zarr.metadata import GroupMetadata

#: The number of attempts to open a hierarchy that another program replaces at the same time.
_TRIES = 5


def open_hierarchy(
    store: Store,
    *,
    layout: LayoutName | None = None,
    consolidated: bool | None = None,
    mode: Literal["r", "r+"] = "r",
) -> Hierarchy:
    """Open the hierarchy in a store.

    It serves programs that look at Zarr's nodes and documents; :func:`nczarr.open` gives the netCDF model.

    Parameters
    ----------
    store : Store
    layout : str, optional
        ``v3``, ``v2``, ``draft-2019`` or ``experimental-v3``; detected by default.
    consolidated : bool, optional
        True: consolidated metadata are required. False: they are ignored. None: they are used if they exist.
    mode : {"r", "r+"}

    Raises
    ------
    DatasetNotFoundError
        If the store has no hierarchy; the message lists the keys that nczarr looked for, and those that exist.
    MetadataError
        If the root's document is damaged.
    ReadOnlyError
        If the store is read-only and `mode` is ``"r+"``.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> create_hierarchy(store, attributes={"title": "run 42"}).layout
    'v3'
    >>> open_hierarchy(store).nodes[""].attributes
    {'title': 'run 42'}
    """
    return read_hierarchy(store, ConsolidatedUse.of(consolidated), mode, layout=layout)


def read_hierarchy(
    store: Store, use: ConsolidatedUse, mode: Literal["r", "r+"], *, layout: LayoutName | None = None
) -> Hierarchy:
    """Open the hierarchy in a store; see :func:`open_hierarchy`."""
    if mode == "r+" and not store.writable:
        raise ReadOnlyError("the store is read-only", path=store.url)
    found_layout, found, current = _find(store, layout, use)
    for node in found.nodes.values():
        if (
            isinstance(node, DamagedNode) and mode == "r+"
        ):  # changes of the hierarchy would overwrite or lose it
            hint = "restore the document, or remove its folder; reading skips the node"
            raise MetadataError(node.error.message, path=node.error.path, hint=hint)
    store.check_names(found.nodes)
    logger_of(__name__).debug("%s: opened, layout %s", store.url, found_layout.name)
    return Hierarchy(store, found_layout, found, writable=mode == "r+", current=current)


def _find(
    store: Store, layout: LayoutName | None, use: ConsolidatedUse
) -> tuple[Layout, Found, Callable[[], None]]:
    """Find all nodes; repeat this if another program replaces the dataset at the same time.

    The third item raises StoreError if the dataset is replaced later.
    """
    before: Mapping[str, bool] = {}
    for _ in range(_TRIES):
        # A directory that is replaced during the search would give nodes of both datasets.
        current = store.hold()
        try:
            found = _find_layout(store, layout, use)
        except NCZarrError:
            # The dataset is still there: the error is its own.
            if _is_current(current):
                raise
        else:
            # A program that removes nodes first removes them from the copy: a second look finds the new copy.
            if found[1].missing == before and _is_current(current):
                return *found, current
            before = found[1].missing
    raise StoreError(
        f"another program replaced the dataset during each of {_TRIES} attempts to open it",
        path=store.url,
        hint="open it again when the other program has finished",
    )


def _is_current(check: Callable[[], None]) -> bool:
    try:
        check()
    except StoreError:
        return False
    return True


def create_hierarchy(
    store: Store, *, layout: LayoutName = "v3", attributes: JsonObject | None = None, hidden: bool = False
) -> Hierarchy:
    """Create a new hierarchy with an empty root group.

    Existing keys of the store are ignored.

    Parameters
    ----------
    store : Store
    layout : str
    attributes : dict, optional
        The attributes of the root group.
    hidden : bool
        True: :meth:`Hierarchy.publish` writes the root's document, so that no reader opens an incomplete hierarchy.

    Raises
    ------
    ReadOnlyError
        If the store is read-only.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> create_hierarchy(store, layout="v2").close()
    >>> sorted(store.list())
    ['.zgroup']
    """
    if not store.writable:
        raise ReadOnlyError("the store is read-only", path=store.url)
    found = Found({"": RawNode(False)})
    hierarchy = Hierarchy(store, _layout_named(layout, store), found, writable=True, hidden=hidden)
    hierarchy._is_new = True
    hierarchy.put_group("", GroupMetadata(attributes or {}))
    return hierarchy


def _layout_named(name: str, store: Store) -> Layout:
    if name not in LAYOUTS:
        raise NCZarrError(f"{name!r} is not a layout; known layouts: {', '.join(LAYOUTS)}")
    return LAYOUTS[name](store)


def _find_layout(store: Store, layout: str | None, use: ConsolidatedUse) -> tuple[Layout, Found]:
    """Return the layout and the nodes of a store.

    Raises
    ------
    DatasetNotFoundError
        If the store has no hierarchy (of the requested layout).
    MetadataError
        If ``zarr.json`` is damaged, or has an unknown version.
    """
    root = None
    if layout is None and (data := read_document(store, "zarr.json")) is not None:
        place = store.place("zarr.json")
        root = parse_root(data, place)
        version = root.get("zarr_format")
        # The drafts have a URI here, and version 3 a number.
        if isinstance(version, str):
            later = root.get("metadata_key_suffix") or str(root.get("metadata_encoding")).startswith("http")
            layout = "experimental-v3" if later else "draft-2019"
        elif type(version) is int and version == 3:
            layout = "v3"
        else:
            raise MetadataError(f"zarr_format: {show(version)} is not a known version", path=place)
    chosen = _layout_named(layout or "v2", store)
    try:
        found = chosen.discover(use, root)
        copied = any(node.consolidated for node in found.nodes.values())
        return chosen, survey(chosen, found) if copied else found
    except DatasetNotFoundError as error:
        if layout or use is ConsolidatedUse.REQUIRED:
            raise
        raise _not_found(store) from error


def _not_found(store: Store) -> DatasetNotFoundError:
    try:
        keys, prefixes = store.list_dir() if store.listable else ([], [])
    # The listing is for the message only.
    except StoreError:
        keys, prefixes = [], []
    names = sorted([*keys, *(name + "/" for name in prefixes)])
    # A writer marks a store before it knows that nothing is there, and the mark says nothing to a user.
    names = [name for name in names if not name.startswith(".nczarr-")]
    if names:
        rest = f" and {len(names) - 8} more" if len(names) > 8 else ""
        content = f"the store contains {', '.join(names[:8])}{rest}"
    else:
        content = "the store is empty" if store.lists_all else "the store has no complete listing"
    return DatasetNotFoundError(
        f"no Zarr hierarchy: looked for zarr.json, .zmetadata, .zgroup and .zarray; {content}", path=store.url
    )
