"""Write datasets, data arrays and trees of xarray with their accessor ``nczarr``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from secrets import token_hex
from typing import Any, Literal

import xarray as xr

from nczarr import convert, model
from nczarr.convert.values.dasked import store_chunked
from nczarr.errors import DatasetExistsError
from nczarr.labelled import from_xarray
from nczarr.labelled.read import fqn_of, place_of
from nczarr.labelled.write import Labelled, groups_of, model_of
from nczarr.netcdf4.compatibility import DATA_MODELS, FORMAT_OF_MODEL
from nczarr.xarray.updating import Shared, Update, block_of, check_aligned, chunked_work


@xr.register_dataset_accessor("nczarr")
@xr.register_dataarray_accessor("nczarr")
@xr.register_datatree_accessor("nczarr")
class NCZarrAccessor:
    """Write a dataset, a data array or a tree of xarray as netCDF-4, on Zarr or in a file.

    ``import nczarr.xarray`` registers the accessor, and so does the first dataset that xarray opens.

    Examples
    --------
    >>> import xarray as xr
    >>> store = {}
    >>> xr.Dataset({"v": ("x", [1, 2])}).nczarr.to_zarr(store, unlimited_dims=["x"])
    >>> xr.open_dataset(store, engine="nczarr").encoding["unlimited_dims"]
    {'x'}
    """

    def __init__(self, data: Labelled) -> None:
        self._data = data

    def to_model(
        self, *, encoding: Mapping[str, Any] | None = None, unlimited_dims: Sequence[str] | None = None
    ) -> model.Dataset:
        """Return the model; see :func:`nczarr.from_xarray`."""
        return from_xarray(self._data, encoding=encoding, unlimited_dims=unlimited_dims)

    def to_zarr(
        self,
        store: Any,
        mode: Literal["w", "w-", "a", "a-", "r+"] | None = None,
        group: str | None = None,
        encoding: Mapping[str, Any] | None = None,
        *,
        unlimited_dims: Sequence[str] | None = None,
        append_dim: str | None = None,
        region: Mapping[str, slice | Literal["auto"]] | Literal["auto"] | None = None,
        compute: bool = True,
        safe_chunks: bool = True,
        align_chunks: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Write to a Zarr hierarchy.

        A new dataset appears when it is complete. Dask arrays are written task by task, whole chunks or shards each.

        Parameters
        ----------
        store : path, URL, mapping or store
        mode : {'w', 'w-', 'a', 'a-', 'r+'}, optional
            As in xarray: ``w`` replaces the dataset, or the group, ``w-`` refuses to, ``a`` adds variables and
            overwrites existing ones, ``a-`` overwrites none without `append_dim`, ``r+`` only overwrites values.
            Default: ``a`` with `append_dim`, ``r+`` with `region`, else ``w-``.
        group : str, optional
            The path of the group to write. Other groups of an existing dataset stay.
        encoding, unlimited_dims
            As for :func:`nczarr.from_xarray`.
        append_dim : str, optional
            Append along this dimension of an existing dataset, which becomes unlimited if it is not.
        region : mapping or 'auto', optional
            The part of an existing dataset to write: slices by dimension; ``auto`` finds a slice by coordinates.
        compute : bool, default True
            False writes all but the values of Dask arrays, and returns a delayed object that writes those.
        safe_chunks : bool, default True
            Refuse chunks of Dask that share a chunk which `encoding` or the existing dataset sets.
        align_chunks : bool, default False
            Cut and join such chunks of Dask instead.
        storage_options : mapping, optional
            Options of the file system of a URL.
        **options
            For a new dataset, the options of :func:`nczarr.copy`.

        Returns
        -------
        None, or dask.delayed.Delayed with ``compute=False``

        Raises
        ------
        ValueError, TypeError
            As xarray raises them for arguments, encodings and sizes that do not fit.
        NCZarrError
            With the problem and its location.
        """
        if convert.kind_of_target(store) != "zarr":
            raise ValueError(
                f"{store!r} is no name of a Zarr hierarchy: to_netcdf and nczarr.copy write files"
            )
        mode = mode or ("a" if append_dim is not None else "r+" if region is not None else "w-")
        if mode not in ("w", "w-", "a", "a-", "r+"):
            raise ValueError(
                f"The only supported options for mode are 'w', 'w-', 'a', 'a-' and 'r+', but mode={mode!r}"
            )
        if region is not None and mode not in ("a", "a-", "r+"):
            raise ValueError("cannot set region unless mode='a', mode='a-', mode='r+' or mode=None")
        if region not in (None, "auto") and not isinstance(region, Mapping):
            raise TypeError(f"``region`` must be a dict or 'auto', got {region!r}")
        if append_dim is not None and mode not in ("a", "a-"):
            raise ValueError("cannot set append_dim unless mode='a', mode='a-' or mode=None")
        place = Shared(store, None if storage_options is None else dict(storage_options))
        top = fqn_of(group or "")
        is_safe = not safe_chunks or align_chunks
        if group and top != "/" and mode in ("w", "w-") and (there := place.groups()):
            if top in there:
                if mode == "w-" or not compute:
                    raise DatasetExistsError(
                        "the group exists",
                        path=place_of(store),
                        fqn=top,
                        hint="mode='w' with compute=True replaces it",
                    )
                with place.replacing(top, beside := f"{group.rstrip('/')}.{token_hex(4)}"):
                    return self.to_zarr(
                        store, mode, beside, encoding, unlimited_dims=unlimited_dims, safe_chunks=safe_chunks,
                        align_chunks=align_chunks, storage_options=storage_options, **options,
                    )  # fmt: skip
            mode = "a"
        groups, given = groups_of(self._data, encoding, group)
        starts: dict[str, tuple[int, ...]] = {}
        found = None
        if mode in ("a", "a-", "r+"):
            update = Update(place, mode, append_dim, region, options)
            found = update.run(groups, given, unlimited_dims, is_safe=is_safe)
        if found is not None:
            work, blocks, starts = found
        else:
            dataset = model_of(groups, given, unlimited_dims)
            work = chunked_work(dataset)
            for one in () if is_safe else work:
                block = block_of(one)
                check_aligned(one, (0,) * len(block or ()), block)
            if not compute:
                late = {fqn for fqn, _, _ in work}
                dataset = model.rewrite(
                    dataset, variable=lambda at, v: v.with_data(None) if at in late else v
                )
            convert.copy(dataset, store, overwrite=mode == "w", target_options=storage_options, **options)
            if compute:
                return None
            blocks = place.blocks(late)
        if compute and not work:
            return None
        return store_chunked(work, place, blocks, starts=starts, compute=compute)

    def to_netcdf(
        self,
        path: Any,
        mode: Literal["w", "a"] = "w",
        format: str | None = None,
        group: str | None = None,
        *,
        encoding: Mapping[str, Any] | None = None,
        unlimited_dims: Sequence[str] | None = None,
        compute: bool = True,
    ) -> Any:
        """Write to a netCDF file. A new file replaces an existing one when it is complete.

        Parameters
        ----------
        path : path or URL
            ``NAME.nc``.
        mode : {'w', 'a'}
            ``w`` writes a new file, ``a`` adds variables to an existing file and overwrites existing ones.
        format : str, optional
            The format of a new file, as for :func:`nczarr.copy` or as in xarray: ``"netCDF-4"``, ``"NETCDF4"``, …
        group : str, optional
            The path of the group to write.
        encoding, unlimited_dims
            As for :func:`nczarr.from_xarray`.
        compute : bool, default True
            False returns a delayed object that writes the file.

        Raises
        ------
        ValueError, TypeError
            As xarray raises them for arguments, encodings and sizes that do not fit.
        NCZarrError
            With the problem and its location.
        """
        if convert.kind_of_target(path) != "netcdf":
            raise ValueError(f"{path!r} is no name of a netCDF file: NAME.nc is one")
        if mode not in ("w", "a"):
            raise ValueError(f"The only supported options for mode are 'w' and 'a', but mode={mode!r}")
        name = FORMAT_OF_MODEL.get(DATA_MODELS.get(str(format), ""), format)
        options: dict[str, Any] = {} if name is None else {"format": name}
        groups, given = groups_of(self._data, encoding, group)
        write: Any = partial(_update_file, path, groups, given, unlimited_dims, options)
        if mode == "w":
            dataset = model_of(groups, given, unlimited_dims)
            write = partial(convert.copy, dataset, path, overwrite=True, **options)
        if compute:
            write()
            return None
        import dask

        return dask.delayed(write, traverse=False)()


def _update_file(path: Any, groups: Any, given: Any, unlimited_dims: Any, options: Any) -> None:
    if Update(Shared(path), "a", in_file=True).run(groups, given, unlimited_dims) is None:
        convert.copy(model_of(groups, given, unlimited_dims), path, **options)
