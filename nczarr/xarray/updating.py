"""Write datasets of xarray into existing datasets: append, overwrite a region, add variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from nczarr import model
from nczarr.convert.values.dasked import aligned, is_chunked
from nczarr.errors import DatasetNotFoundError
from nczarr.labelled import from_xarray
from nczarr.labelled.read import KEPT
from nczarr.labelled.write import Labelled, groups_of
from nczarr.model import Region, regions
from nczarr.netcdf4 import Dataset
from nczarr.session import GroupNode, Session, VariableNode
from nczarr.transfer import BLOCK_BYTES, Work, block_shape, value_bytes


@dataclass(frozen=True)
class Shared:
    """An existing dataset, which each task opens to write whole chunks."""

    store: Any
    storage_options: Mapping[str, Any] | None

    def dataset(self, mode: str, **how: Any) -> Dataset:
        """Open the dataset."""
        options = None if self.storage_options is None else dict(self.storage_options)
        return Dataset(self.store, mode, storage_options=options, **how)

    def open(self) -> _Writer:
        """Open the dataset beside other writers."""
        return _Writer(self.dataset("r+", shared=True))

    def blocks(self, fqns: Iterable[str]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the chunks or shards of variables."""
        with self.dataset("r") as opened:
            stored: Any = opened._nc_session.stored
            return {fqn: stored.write_shape(fqn) for fqn in fqns}


@dataclass(frozen=True)
class _Writer:
    dataset: Dataset

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        session = self.dataset._nc_session
        session.write(_nodes(session)[fqn], region, values)

    def close(self) -> None:
        self.dataset.close()


def _nodes(session: Session) -> dict[str, VariableNode]:
    return {node.fqn: node for node in session.root.walk_variables()}


def chunked_work(dataset: model.Dataset) -> list[Work]:
    """Return the variables whose values are Dask arrays."""
    found = [(fqn, v, v.data) for fqn, v in dataset.all_variables.items() if v.data is not None]
    return [one for one in found if is_chunked(one)]


def check_aligned(one: Work, start: tuple[int, ...], block: tuple[int, ...] | None) -> None:
    """Raise ValueError if two tasks of Dask would write to one chunk."""
    fqn, _, source = one
    chunks = source.chunked.chunks  # type: ignore[attr-defined]
    if block is not None and aligned(chunks, start, block) != chunks:
        raise ValueError(
            f"Specified Zarr chunks encoding['chunks']={block!r} for variable named {fqn!r} would overlap multiple "
            "Dask chunks: two tasks would write one chunk. Rechunk the array with chunk(), modify or delete "
            "encoding['chunks'], or give align_chunks=True."
        )


@dataclass
class Update:
    """A change of an existing dataset, with the checks of xarray."""

    place: Shared
    old: dict[str, xr.Dataset]
    mode: str
    append_dim: str | None
    region: Any

    @classmethod
    def of(
        cls, store: Any, mode: str, append_dim: str | None, region: Any, options: Mapping[str, Any] | None
    ) -> Update | None:
        """Open the dataset; return None if there is none and the mode creates it."""
        try:
            old = xr.open_groups(store, engine="nczarr", storage_options=options)
        except (DatasetNotFoundError, FileNotFoundError):
            if mode == "r+" or region is not None:
                raise
            return None
        return cls(Shared(store, options), old, mode, append_dim, region)

    def run(
        self, data: Labelled, encoding: Mapping[str, Any] | None, *, is_safe: bool
    ) -> tuple[list[Work], dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
        """Check everything, grow dimensions, and write all but Dask arrays.

        Returns
        -------
        work : list of Work
            The Dask arrays that remain.
        blocks, starts : dict
            By FQN, the shapes of the chunks or shards, and the positions of the first values.
        """
        groups, given = groups_of(data, encoding)
        places: dict[str, dict[str, slice]] = {}
        for path, ds in groups.items():
            old = self.old.get(path, xr.Dataset())
            places[path] = self._places(ds, old) if ds.variables else {}
            groups[path] = self._checked(ds, old, places[path], given.get(path, {}))
        dataset = from_xarray(groups, encoding=given)
        with self.place.dataset("r+") as target:
            session = target._nc_session
            for path, group in dataset.all_groups.items():
                self._declare(session, path, group, groups[path], places[path])
            nodes = _nodes(session)
            starts = {
                fqn: tuple(
                    places[model.split_fqn(fqn)[0]].get(d.name, slice(0, None)).start or 0
                    for d in nodes[fqn].dimensions
                )
                for fqn, v in dataset.all_variables.items()
                if v.data is not None
            }
            session.flush()
            work = chunked_work(dataset)
            stored: Any = session.stored
            blocks = {fqn: stored.write_shape(nodes[fqn].fqn) for fqn in starts}
            for one in () if is_safe else work:
                check_aligned(one, starts[one[0]], blocks[one[0]])
            late = {fqn for fqn, _, _ in work}
            for fqn, variable in dataset.all_variables.items():
                if variable.data is not None and fqn not in late:
                    _write(session, nodes[fqn], variable.data, starts[fqn], blocks[fqn])
        return work, blocks, starts

    def _places(self, ds: xr.Dataset, old: xr.Dataset) -> dict[str, slice]:
        """Return the part of the target to write, by dimension."""
        region: dict[Any, Any] = (
            dict.fromkeys(ds.dims, "auto") if self.region == "auto" else dict(self.region or {})
        )
        for dim, part in region.items():
            if dim not in ds.dims:
                raise ValueError(
                    f"all keys in ``region`` are not in Dataset dimensions, got {list(region)} and {list(ds.dims)}"
                )
            region[dim] = part = _found(ds, old, dim) if part == "auto" else part
            if not isinstance(part, slice):
                raise TypeError(f"all values in ``region`` must be slice objects, got region={region}")
            if part.step not in (1, None):
                raise ValueError(f"step on all slices in ``region`` must be 1 or None, got region={region}")
            start, stop, _ = part.indices(old.sizes[dim])
            region[dim] = slice(start, stop)
        lonely = [k for k, v in ds.variables.items() if region and not set(region) & set(v.dims)]
        if lonely and self.region != "auto":
            raise ValueError(
                "when setting `region` explicitly in to_zarr(), all variables in the dataset to write must have at "
                f"least one dimension in common with the region's dimensions {list(region)}, but that is not the case "
                f"for some variables here. To drop these variables from this dataset before exporting to zarr, write: "
                f".drop_vars({lonely!r})"
            )
        if self.append_dim is not None:
            if self.append_dim in region:
                raise ValueError(
                    f"cannot list the same dimension in both ``append_dim`` and ``region``: {region}"
                )
            if self.append_dim not in ds.dims or (old.variables and self.append_dim not in old.dims):
                raise ValueError(
                    f"append_dim={self.append_dim!r} does not match any existing dataset dimensions {old.dims}"
                )
            region[self.append_dim] = slice(old.sizes.get(self.append_dim, 0), None)
        return region

    def _checked(
        self, ds: xr.Dataset, old: xr.Dataset, places: Mapping[str, slice], given: Mapping[str, Any]
    ) -> xr.Dataset:
        """Return the dataset with the encoding of the target, or raise the errors of xarray."""
        if self.region == "auto":  # the coordinates have given the region
            ds = ds.drop_vars(
                [k for k, v in ds.variables.items() if k in ds.dims or not set(v.dims) & set(places)]
            )
        new = [name for name in ds.variables if name not in old.variables]
        if new and self.mode == "r+":
            raise ValueError(f"dataset contains new variables, which mode='r+' does not add: {new}")
        ds = ds.copy()
        for name, variable in ds.variables.items():
            if name in new:
                continue
            there = old.variables[name]
            if name in given:
                raise ValueError(f"variable {name!r} already exists, but encoding was provided")
            if there.dims != variable.dims:
                raise ValueError(
                    f"variable {name!r} already exists with different dimension names {there.dims} != "
                    f"{variable.dims}, but changing variable dimensions is not supported by to_zarr()."
                )
            sizes = {d: n for d, n in there.sizes.items() if d != self.append_dim}
            for dim, part in places.items():
                if dim in sizes:
                    sizes[dim] = part.stop - part.start
            if any(variable.sizes[d] != n for d, n in sizes.items()):
                raise ValueError(
                    f"variable {name!r} already exists with different dimension sizes: {dict(there.sizes)} != "
                    f"{dict(variable.sizes)}. to_zarr() only supports changing dimension sizes when explicitly "
                    f"appending, but append_dim={self.append_dim!r}. If you are attempting to write to a subset of the "
                    "existing store without changing dimension sizes, consider using the region argument in to_zarr()."
                )
            kinds = variable.dtype.kind + there.dtype.kind
            if "S" in kinds and variable.dtype != there.dtype:
                raise ValueError(
                    f"Mismatched dtypes for variable {name} between Zarr store on disk and dataset to append. Store "
                    f"has dtype {there.dtype} but dataset to append has dtype {variable.dtype}."
                )
            variable.attrs, variable.encoding = dict(there.attrs), dict(there.encoding)
        ds.encoding = {k: v for k, v in ds.encoding.items() if k != KEPT}
        return ds

    def _declare(
        self, session: Session, path: str, group: model.Group, ds: xr.Dataset, places: Mapping[str, slice]
    ) -> None:
        """Grow the dimension, and declare new nodes."""
        node = next((g for g in session.root.walk() if g.fqn == path), None)
        if node is None:
            above, name = model.split_fqn(path)
            node = next(g for g in session.root.walk() if g.fqn == above).add_group(name)
        dim = self.append_dim
        growing = node.find_dimension(dim) if dim is not None and dim in ds.dims else None
        if growing is not None:
            with session.lock:
                if not growing.unlimited:
                    growing.unlimited = True
                    growing.group.touch()
            session.extend(growing, growing.size + ds.sizes[dim])
        if self.mode == "a":
            for attribute in group.attributes:
                if attribute.name in ds.attrs:
                    node.set_attribute(attribute)
        for variable in group.variables:
            if variable.name not in node.variables:
                _add(node, variable, ds)


def _add(node: GroupNode, variable: model.Variable, ds: xr.Dataset) -> None:
    """Declare a new variable with its type and dimensions."""
    root, dimensions = node.root, []
    for ref, size in zip(variable.dimensions, model_shape(variable), strict=True):
        name = model.split_fqn(ref)[1] if isinstance(ref, str) else f"dim_{ref}"
        found = node.find_dimension(name)
        if found is None:
            unlimited = name in (ds.encoding.get("unlimited_dims") or ())
            found = node.add_dimension(name, size, unlimited=unlimited)
        dimensions.append(found)
    type_: Any = variable.type
    if isinstance(type_, model.UserType):
        type_ = root.all_types().get(type_.fqn) or node.add_type(type_)
    node.add_variable(variable.name, type_, tuple(dimensions), variable.storage, variable.attribute)


def model_shape(variable: model.Variable) -> tuple[int, ...]:
    """Return the shape of the values of a variable."""
    return () if variable.data is None else variable.data.shape


def _write(
    session: Session,
    node: VariableNode,
    data: model.ArraySource,
    start: tuple[int, ...],
    block: tuple[int, ...],
) -> None:
    """Write values, block by block."""
    size = block_shape(data.shape, block, None, value_bytes(data.dtype), BLOCK_BYTES)
    for region in regions(data.shape, size):
        there = tuple(slice(r.start + n, r.stop + n, 1) for r, n in zip(region, start, strict=True))
        if all(r.stop > r.start for r in region):
            session.write(node, there, data.read(region))


def _found(ds: xr.Dataset, old: xr.Dataset, dim: str) -> slice:
    """Return where the coordinates of a dimension are in the target."""
    if dim not in ds.indexes or dim not in old.indexes:
        raise KeyError(f"region='auto' needs a coordinate of {dim!r} in the store and in the dataset")
    positions = old.indexes[dim].get_indexer(ds.indexes[dim])
    if (positions == -1).any():
        raise KeyError(
            f"Not all values of coordinate '{dim}' in the new array were found in the original store. Writing to a "
            "zarr region slice requires that no dimensions or metadata are changed by the write."
        )
    if (np.diff(positions) != 1).any():
        raise ValueError(
            f"The auto-detected region of coordinate '{dim}' for writing new data to the original store had "
            "non-contiguous indices. Writing to a zarr region slice requires that the new data constitute a contiguous "
            "subset of the original store."
        )
    return slice(int(positions[0]), int(positions[-1]) + 1)
