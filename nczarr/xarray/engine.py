"""Provide the engine ``nczarr`` of xarray."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import xarray as xr
from xarray.backends import BackendEntrypoint

from nczarr.display import shown_location
from nczarr.formats import is_icechunk, is_references
from nczarr.mapping import StoredDataset
from nczarr.model.paths import spell
from nczarr.model.typed import plain_path
from nczarr.netcdf4 import Dataset
from nczarr.session import GroupNode
from nczarr.stores import open_store
from nczarr.stores.remote.obstore_store import ObstoreStore
from nczarr.targets import allowing, fsspec_options
from nczarr.xarray_model.read import UNNAMED, ReopenedDataset, is_path, opened, tree_of
from nczarr.zarr import Hierarchy
from nczarr.zarr.types import BUILT_IN

_SUFFIXES = (".zarr", ".ncz", ".nczarr")


def _without_secrets(dataset: xr.Dataset, source: ReopenedDataset) -> xr.Dataset:
    """Record the location as xarray does, without a password or a signature."""
    if is_path(source.target):
        shown = shown_location(str(source.target))
        # A signature in the URL would be stored with the dataset, or printed.
        if shown != str(source.target) or "source" not in dataset.encoding:
            dataset.encoding["source"] = shown
    return dataset


def _unnamed(dataset: xr.Dataset) -> xr.Dataset:
    """Return a dataset whose variable without a name, as xarray stores it, has none again."""
    if UNNAMED not in dataset.variables:
        return dataset
    renamed = dataset.rename({UNNAMED: None})
    renamed.set_close(dataset._close)
    return renamed


class NCZarrBackendEntrypoint(BackendEntrypoint):  # type: ignore[misc]
    """Open all datasets that :class:`nczarr.Dataset` reads as xarray datasets.

    Use the engine through xarray: ``xarray.open_dataset(target, engine="nczarr")``, ``xarray.open_datatree(...)``,
    ``xarray.open_groups(...)``. xarray decodes the variables, as for netCDF files.

    Examples
    --------
    >>> import xarray
    >>> from nczarr import cdl, copy
    >>> store = {}
    >>> copy(cdl.loads("netcdf d {dimensions: x = 2; variables: int v(x); data: v = 1, 2;}"), store)
    ()
    >>> xarray.open_dataset(store, engine="nczarr").v.values.tolist()
    [1, 2]
    """

    description = "Open NCZarr and Zarr hierarchies with the full netCDF-4 data model"
    supports_groups = True
    open_dataset_parameters = (
        "filename_or_obj",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "drop_variables",
        "use_cftime",
        "decode_timedelta",
        "group",
        "storage_options",
        "allow",
    )

    def guess_can_open(self, filename_or_obj: object) -> bool:
        """Return True for a Zarr store with NCZarr metadata in its root; leave all other stores to other engines."""
        if not is_path(filename_or_obj):
            return False
        target = _normal(filename_or_obj)
        is_url = "://" in target
        # xarray asks each engine for each URL, and an answer costs requests.
        if is_url and PurePath(target).suffix not in _SUFFIXES:
            return False
        if not is_url and not os.path.isdir(target) and not target.endswith(_ARCHIVES):
            return False
        return _has_marker(target)

    def open_dataset(
        self,
        filename_or_obj: object,
        *,
        group: str | None = None,
        storage_options: dict[str, Any] | None = None,
        allow: str | Sequence[str] = (),
        **options: object,
    ) -> xr.Dataset:
        """Open one group; see :func:`xarray.open_dataset`.

        Parameters
        ----------
        filename_or_obj
            A path, URL, mapping or store; the bytes of a netCDF file or zip archive, or an open binary file; a
            :class:`nczarr.Dataset`, which stays open, or a dataset of the model.
        group : str, optional
            Path of the group; default: the root.
        storage_options : dict, optional
            Options for remote stores.
        allow : str or sequence of str
            Additional paths and URLs below which references may read files; see :class:`nczarr.Dataset`.
        **options
            The options of xarray's decoding, in :attr:`open_dataset_parameters`.
        """
        if not isinstance(group, str | None):
            raise ValueError(f"group must be a string or None, not {group!r}")
        source = ReopenedDataset(_normal(filename_or_obj), allowing(storage_options, allow))
        found = _engine_for_plain_zarr(source)
        # Plain Zarr keeps the names and encodings of the engine zarr.
        if found is not None:
            with found.in_our_words():
                plain = found.engine.open_dataset(
                    found.target, group=group and plain_path(group), **found.settings, **options
                )
            return _without_secrets(plain, source)
        return _without_secrets(_unnamed(opened(source, plain_path(group or "/"), options)), source)

    def open_groups_as_dict(
        self,
        filename_or_obj: object,
        *,
        group: str | None = None,
        storage_options: dict[str, Any] | None = None,
        allow: str | Sequence[str] = (),
        **options: object,
    ) -> dict[str, xr.Dataset]:
        """Open all groups; return a mapping from the path of each group to its dataset."""
        source = ReopenedDataset(_normal(filename_or_obj), allowing(storage_options, allow))
        found = _engine_for_plain_zarr(source)
        if found is not None:
            with found.in_our_words():
                groups: dict[str, xr.Dataset] = found.engine.open_groups_as_dict(
                    found.target, group=group and plain_path(group), **{**found.settings, **options}
                )
            return {path: _without_secrets(part, source) for path, part in groups.items()}
        top = plain_path(group or "/")
        try:
            return {
                path: _without_secrets(
                    opened(source, (top.rstrip("/") + path).rstrip("/") or "/", options), source
                )
                for path in _paths(source.group(top))
            }
        except BaseException:
            source.close()
            raise

    def open_datatree(self, filename_or_obj: object, **options: Any) -> xr.DataTree:
        """Open all groups as a tree; see :func:`xarray.open_datatree`."""
        groups = self.open_groups_as_dict(filename_or_obj, **options)
        try:
            tree = tree_of(groups)
        except BaseException:
            for dataset in groups.values():
                dataset.close()
            raise
        # One walk: xarray takes the path of each node apart that is asked for.
        for path, node in tree.subtree_with_keys:
            dataset = groups["/" if path == "." else f"/{path}"]
            node.set_close(dataset._close)
            if "source" in dataset.encoding:
                node.encoding["source"] = dataset.encoding["source"]
        return tree


#: Strings in the root document of an NCZarr store: of version 3, of version 3 with keys in arrays only, of version 2.
_MARKERS = (b'"_nczarr_', b'"nczarr":', b'"_NCZARR_')
_DOCUMENTS = ("zarr.json", ".zgroup", ".zattrs", ".nczarr")
_ARCHIVES = (".zarr.zip", ".zip", ".ncz")


def _has_marker(target: str) -> bool:
    try:
        with open_store(target, "r") as store:
            found = store.get_many(list(_DOCUMENTS))
    except Exception:  # the engine that opens the dataset reports the error
        return False
    return found[-1] is not None or any(
        data is not None and any(marker in data for marker in _MARKERS) for data in found
    )


@dataclass(frozen=True)
class _PlainZarr:
    """Plain Zarr, and what xarray's Zarr engine needs to open it."""

    source: ReopenedDataset
    engine: BackendEntrypoint
    target: object
    settings: dict[str, Any]

    @contextmanager
    def in_our_words(self) -> Iterator[None]:
        """Raise an error of damaged documents with its place in the store; zarr-python names none."""
        try:
            yield
        except Exception:
            try:
                stored = self.source.session.stored
                if isinstance(stored, StoredDataset):
                    stored.hierarchy.nodes.values()
            finally:
                self.source.close()
            raise


class _LeftToXarray(Exception):
    """Ends the opening of plain Zarr before a model is made of its documents, which xarray's engine reads."""

    def __init__(self, found: _PlainZarr) -> None:
        super().__init__(found.target)
        self.found = found


def _engine_for_plain_zarr(source: ReopenedDataset) -> _PlainZarr | None:
    """Return how xarray's Zarr engine opens a hierarchy without netCDF metadata; None for all others."""
    target = source.target
    # fsspec follows references without the check that they stay beside their document.
    is_other = isinstance(target, str) and target.startswith("reference:")
    if isinstance(target, Dataset) or is_other or is_references(target) or is_icechunk(target):
        return None

    def leave(hierarchy: Hierarchy) -> None:
        # With a session before xarray's own engine, 1,000 variables took twice as long.
        if (found := _plain_zarr(source, hierarchy)) is not None:
            raise _LeftToXarray(found)

    try:
        stored = source.open(leave).stored
    except _LeftToXarray as left:
        return left.found
    # Plain Zarr of which there was something to report.
    if not isinstance(stored, StoredDataset) or stored.layout not in ("zarr-v3", "zarr-v2"):
        return None
    found = _plain_zarr(source, stored.hierarchy)
    if found is not None:
        source.close()
    return found


def _plain_zarr(source: ReopenedDataset, hierarchy: Hierarchy) -> _PlainZarr | None:
    """Return how xarray's Zarr engine opens a plain hierarchy; None if zarr-python does not read it.

    s3fs would ask for the size of each chunk, and an engine that does not know the format asks for the documents of
    both versions of Zarr.
    """
    # zarr-python was given an M8[s] of another package, which it does not know.
    if hierarchy.layout not in ("v3", "v2") or hierarchy.is_array("") or not _knows_types_of(hierarchy):
        return None
    try:
        from xarray.backends.zarr import ZarrBackendEntrypoint
        from zarr.storage import ObjectStore
    # Without zarr-python, xarray has no engine for plain Zarr.
    except ImportError:
        return None
    settings: dict[str, Any] = {
        "zarr_format": int(hierarchy.layout[1:]),
        # The consolidated metadata still name what is missing.
        "consolidated": hierarchy.consolidated and not hierarchy.missing,
    }
    client = hierarchy.store.readable_copy() if isinstance(hierarchy.store, ObstoreStore) else None
    target: object = source.target
    # s3fs asked for the size of each chunk.
    if client is not None and isinstance(target, str):
        target = ObjectStore(client, read_only=True)
    else:
        settings["storage_options"] = fsspec_options(str(target), source.storage_options) or None
    return _PlainZarr(source, ZarrBackendEntrypoint(), target, settings)


def _knows_types_of(hierarchy: Hierarchy) -> bool:
    """True if zarr-python knows the data types of all arrays: packages register theirs there and here."""
    foreign = [data_type for data_type in hierarchy.data_types() if data_type.name not in BUILT_IN]
    if not foreign:
        return True
    try:
        from zarr.dtype import parse_dtype

        for data_type in foreign:
            parse_dtype(data_type.to_json(), zarr_format=3)
    except (ImportError, TypeError, ValueError):
        return False
    return True


def _normal(target: object) -> Any:
    """Return a path as a string with ``~`` expanded, the bytes of a file in memory, and other targets unchanged."""
    if isinstance(target, bytes | bytearray | memoryview):
        return bytes(target)
    if isinstance(target, io.BufferedIOBase):
        target.seek(0)
        return target.read()
    return os.path.expanduser(os.fspath(target)) if is_path(target) else target


def _paths(group: GroupNode, path: str = "") -> Iterator[str]:
    yield path or "/"
    for name, child in group.groups.items():
        yield from _paths(child, f"{path}/{spell(name)}")
