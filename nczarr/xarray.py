"""Provide the engine ``nczarr`` of xarray.

xarray finds the engine through the entry point group ``xarray.backends``. Values are read lazily, from any number of
threads. Datasets opened by path or URL can be pickled, for example by Dask.

Examples
--------
>>> import xarray
>>> from nczarr.netcdf4 import Dataset
>>> target = {}
>>> with Dataset(target, "w") as ds:
...     x = ds.createDimension("x", 3)
...     v = ds.createVariable("v", "i2", ("x",), fill_value=-1)
...     v.scale_factor = 0.5
...     v[:2] = [1.0, 1.5]
>>> xarray.open_dataset(target, engine=NCZarrBackendEntrypoint)["v"].values
array([1. , 1.5, nan])
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, TypeGuard

import numpy as np

from nczarr.display import shown_location
from nczarr.errors import NCZarrError
from nczarr.formats import is_icechunk, is_references
from nczarr.mapping import StoredDataset
from nczarr.model import STRING, CompoundType, EnumType, VlenType
from nczarr.model.chunk_shapes import chunks_in_shards
from nczarr.netcdf4.opening import open_to_read
from nczarr.netcdf4.values.attributes import attribute_value
from nczarr.netcdf4.values.reading import read
from nczarr.netcdf4.values.types import Settings, chunking_of, describe_filters, shown_dtype, view_dtype
from nczarr.session import GroupNode, Session, VariableNode
from nczarr.stores import open_store
from nczarr.system.finalizing import close_with
from nczarr.system.locks import Rank, make_lock
from nczarr.targets import allowing

try:
    import xarray as xr
    from xarray.backends import AbstractDataStore, BackendArray, BackendEntrypoint, StoreBackendEntrypoint
    from xarray.core import indexing
except ImportError as error:  # pragma: no cover
    raise NCZarrError("xarray is not installed", hint="pip install xarray zarr") from error

_SUFFIXES = (".zarr", ".ncz", ".nczarr")


class _Source:
    """An open dataset that can be pickled; unpickling opens it again on first use."""

    def __init__(self, target: Any, storage_options: dict[str, Any] | None) -> None:
        self.target = target
        self.storage_options = storage_options
        self._session: Session | None = None
        self._lock = make_lock(Rank.OWNER)

    @property
    def session(self) -> Session:
        """The open dataset; opened on first use."""
        with self._lock:
            if self._session is None:
                self._session = open_to_read(self.target, self.storage_options)
                close_with(self, self._session)
            return self._session

    def group(self, path: str) -> GroupNode:
        """Return the group at a path such as ``/a/b``."""
        group = self.session.root
        for name in path.split("/"):
            if name:
                if name not in group.groups:
                    raise NCZarrError(f"there is no group {path!r}", path=str(self.target))
                group = group.groups[name]
        return group

    def close(self) -> None:
        """Close; a later use opens it again."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None and session.is_open:
            session.close()

    def __getstate__(self) -> dict[str, object]:
        return {"target": self.target, "storage_options": self.storage_options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


class _Values(BackendArray):  # type: ignore[misc]
    """The values of one variable, read on demand."""

    def __init__(self, source: _Source, group: str, name: str) -> None:
        self.source, self.group, self.name = source, group, name
        node = self.node
        self.shape = node.shape
        self.dtype = _dtype(node)
        # xarray masks, scales and joins characters itself.
        view = view_dtype(node.type) if isinstance(node.type, CompoundType) else None
        self.settings = Settings.stored(shown_dtype(node.type, node.storage), view)

    @property
    def node(self) -> VariableNode:
        """The variable in the open dataset."""
        return self.source.group(self.group).variables[self.name]

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[object, ...]) -> np.ndarray:
        values = read(self.source.session, self.node, self.settings, key)
        if self.dtype != object or (isinstance(values, np.ndarray) and values.dtype == object):
            return values
        boxed = np.empty((), object)  # a string or a sequence is a single element
        boxed[()] = values
        return boxed


def _dtype(node: VariableNode) -> np.dtype:
    if node.type == STRING:
        return np.dtype("O", metadata={"element_type": str})
    if isinstance(node.type, VlenType):
        return np.dtype("O")
    return np.dtype(shown_dtype(node.type, node.storage))


class _Store(AbstractDataStore):  # type: ignore[misc]
    """One group, with the interface that xarray's decoding needs."""

    def __init__(self, source: _Source, group: str) -> None:
        self.source, self.path = source, group

    def get_variables(self) -> Mapping[str, xr.Variable]:
        return {name: self._variable(name, v) for name, v in self.source.group(self.path).variables.items()}

    def _variable(self, name: str, node: VariableNode) -> xr.Variable:
        attributes = _attributes(node)
        values = _Values(self.source, self.path, name)
        if values.dtype.kind == "S" and "_FillValue" in attributes:
            attributes["_FillValue"] = np.bytes_(attributes["_FillValue"])
        encoding = _encoding(self.source.session, node)
        if "least_significant_digit" in attributes:
            encoding["least_significant_digit"] = attributes.pop("least_significant_digit")
        encoding["source"] = (
            shown_location(str(self.source.target)) if _is_path(self.source.target) else "memory"
        )
        data = indexing.LazilyIndexedArray(values)
        return xr.Variable([d.name for d in node.dimensions], data, attributes, encoding)

    def get_attrs(self) -> Mapping[str, object]:
        return _attributes(self.source.group(self.path))

    def get_dimensions(self) -> Mapping[str, int]:
        return {name: d.size for name, d in self.source.group(self.path).dimensions.items()}

    def get_encoding(self) -> Mapping[str, object]:
        dimensions = self.source.group(self.path).dimensions
        return {"unlimited_dims": {name for name, d in dimensions.items() if d.unlimited}}

    def close(self) -> None:
        self.source.close()


def _attributes(node: GroupNode | VariableNode) -> dict[str, Any]:
    return {name: attribute_value(attribute) for name, attribute in node.attributes.items()}


def _encoding(session: Session, node: VariableNode) -> dict[str, object]:
    dtype = shown_dtype(node.type, node.storage)
    encoding: dict[str, object] = {"dtype": dtype, "original_shape": node.shape}
    if isinstance(node.type, EnumType):
        members = {"enum": dict(node.type.members), "enum_name": node.type.name}
        encoding["dtype"] = np.dtype(dtype, metadata=members)
    if not session.netcdf3:
        encoding.update(describe_filters(node.storage.filters))
        chunks = chunking_of(session, node)
        encoding["contiguous"], encoding["chunksizes"] = chunks is None, chunks
        shards = node.storage.shard_shape
        if shards:  # the names of xarray's Zarr engine
            encoding["chunks"], encoding["shards"] = chunks_in_shards(shards, chunks or shards), shards
    # Prefer the stored chunks: they may differ from the chunk sizes that netCDF reports.
    stored = session.chunk_shape(node)
    if stored:
        names = [d.name for d in node.dimensions]
        encoding["preferred_chunks"] = dict(zip(names, stored, strict=True))
    return encoding


def _without_secrets(dataset: xr.Dataset, source: _Source) -> xr.Dataset:
    """Replace the location that xarray records if it contains a password or a signature."""
    if _is_path(source.target) and (shown := shown_location(str(source.target))) != str(source.target):
        dataset.encoding["source"] = shown
    return dataset


def _is_path(target: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(target, str | os.PathLike)


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
        if not _is_path(filename_or_obj):
            return False
        target = _normal(filename_or_obj)
        is_url = "://" in target
        if is_url and PurePath(target).suffix not in _SUFFIXES:
            return False
        if not is_url and not os.path.isdir(target) and not target.endswith(_ARCHIVES):
            return False
        return _has_marker(target)

    def open_dataset(
        self,
        filename_or_obj: object,
        *,
        mask_and_scale: bool = True,
        decode_times: bool = True,
        concat_characters: bool = True,
        decode_coords: bool = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: bool | None = None,
        group: str | None = None,
        storage_options: dict[str, Any] | None = None,
        allow: str | Sequence[str] = (),
    ) -> xr.Dataset:
        """Open one group; see :func:`xarray.open_dataset`.

        Parameters
        ----------
        filename_or_obj
            A path, URL, mapping or store.
        group : str, optional
            Path of the group; default: the root.
        storage_options : dict, optional
            Options for remote stores.
        allow : str or sequence of str
            Additional paths and URLs below which references may read files; see :class:`nczarr.Dataset`.
        """
        options = {
            "mask_and_scale": mask_and_scale,
            "decode_times": decode_times,
            "concat_characters": concat_characters,
            "decode_coords": decode_coords,
            "drop_variables": drop_variables,
            "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta,
        }
        source = _Source(_normal(filename_or_obj), allowing(storage_options, allow))
        engine = _engine_for_plain_zarr(source)
        if engine is not None:
            plain = engine.open_dataset(
                source.target, group=group, storage_options=storage_options, **options
            )
            return _without_secrets(plain, source)
        return _without_secrets(_opened(source, group or "/", options), source)

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
        source = _Source(_normal(filename_or_obj), allowing(storage_options, allow))
        engine = _engine_for_plain_zarr(source)
        if engine is not None:
            plain: dict[str, xr.Dataset] = engine.open_groups_as_dict(
                source.target, group=group, storage_options=storage_options, **options
            )
            return {path: _without_secrets(found, source) for path, found in plain.items()}
        top = "/" + (group or "").strip("/")
        try:
            return {
                path: _without_secrets(
                    _opened(source, (top.rstrip("/") + path).rstrip("/") or "/", options), source
                )
                for path in _paths(source.group(top))
            }
        except BaseException:
            source.close()
            raise

    def open_datatree(self, filename_or_obj: object, **options: Any) -> xr.DataTree:
        """Open all groups as a tree; see :func:`xarray.open_datatree`."""
        groups = self.open_groups_as_dict(filename_or_obj, **options)
        tree = xr.DataTree.from_dict(groups)
        for path, dataset in groups.items():
            tree[path].set_close(dataset._close)
            if "source" in dataset.encoding:
                tree[path].encoding["source"] = dataset.encoding["source"]
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


def _engine_for_plain_zarr(source: _Source) -> BackendEntrypoint | None:
    """Return xarray's Zarr engine for hierarchies without netCDF metadata that zarr-python reads; otherwise None."""
    stored = source.session.stored
    if not isinstance(stored, StoredDataset) or stored.layout not in ("zarr-v3", "zarr-v2"):
        return None
    hierarchy = stored.hierarchy
    if (
        hierarchy.layout not in ("v3", "v2")
        or hierarchy.is_array("")
        or is_references(source.target)
        or is_icechunk(source.target)
    ):
        return None
    if isinstance(source.target, str) and source.target.startswith("reference:"):
        return None
    try:
        import zarr  # noqa: F401
        from xarray.backends.zarr import ZarrBackendEntrypoint
    except ImportError:
        return None
    source.close()
    return ZarrBackendEntrypoint()


def _normal(target: object) -> Any:
    """Return a path as a string with ``~`` expanded; return other targets unchanged."""
    return os.path.expanduser(os.fspath(target)) if _is_path(target) else target


def _paths(group: GroupNode, path: str = "") -> Iterator[str]:
    yield path or "/"
    for name, child in group.groups.items():
        yield from _paths(child, f"{path}/{name}")


def _opened(source: _Source, group: str, options: Mapping[str, object]) -> xr.Dataset:
    store = _Store(source, group)
    try:
        return StoreBackendEntrypoint().open_dataset(store, **options)
    except BaseException:
        store.close()
        raise
