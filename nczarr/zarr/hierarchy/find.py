"""Find out which layout a store holds, and the nodes in it."""

from __future__ import annotations

from nczarr.errors import DatasetNotFoundError, MetadataError, NCZarrError, StoreError
from nczarr.stores import Store
from nczarr.zarr.documents import parse_root
from nczarr.zarr.hierarchy.draft import DraftLayout, ExperimentalLayout
from nczarr.zarr.hierarchy.layout import Found, Layout, read_document
from nczarr.zarr.hierarchy.v2 import V2Layout
from nczarr.zarr.hierarchy.v3 import V3Layout
from nczarr.zarr.types import show

#: The layouts that can be opened, by name.
LAYOUTS: dict[str, type[Layout]] = {
    "v3": V3Layout,
    "v2": V2Layout,
    "draft-2019": DraftLayout,
    "experimental-v3": ExperimentalLayout,
}


def find_layout(store: Store, layout: str | None, consolidated: bool | None) -> tuple[Layout, Found]:
    """Return the layout of a store and the nodes in it.

    Raises
    ------
    DatasetNotFoundError
        If there is no hierarchy (of the layout asked for).
    MetadataError
        If ``zarr.json`` is damaged, or of a version that nczarr does not know.
    """
    chosen: Layout
    if layout is not None:
        if layout not in LAYOUTS:
            raise NCZarrError(f"{layout!r} is not a layout; there are {', '.join(LAYOUTS)}")
        chosen = LAYOUTS[layout]()
        return chosen, chosen.discover(store, consolidated)
    data = read_document(store, "zarr.json")
    if data is None:
        chosen = V2Layout()
        try:
            return chosen, chosen.discover(store, consolidated)
        except DatasetNotFoundError as error:
            if consolidated:
                raise
            raise _not_found(store) from error
    place = store.place("zarr.json")
    root = parse_root(data, place)
    version = root.get("zarr_format")
    if isinstance(version, str):
        later = root.get("metadata_key_suffix") or str(root.get("metadata_encoding")).startswith("http")
        chosen = ExperimentalLayout() if later else DraftLayout()
    elif type(version) is int and version == 3:
        chosen = V3Layout()
    else:
        raise MetadataError(f"zarr_format: {show(version)} is not a version that is known", path=place)
    return chosen, chosen.discover(store, consolidated, root)


def _not_found(store: Store) -> DatasetNotFoundError:
    try:
        keys, prefixes = store.list_dir() if store.listable else ([], [])
    except StoreError:
        keys, prefixes = [], []
    names = sorted([*keys, *(name + "/" for name in prefixes)])
    if names:
        there = (
            "there are " + ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        )
    else:
        there = "nothing is there" if store.listable else "the store cannot be listed"
    return DatasetNotFoundError(
        f"no Zarr hierarchy: looked for zarr.json, .zmetadata, .zgroup and .zarray; {there}", path=store.url
    )
