"""Write datasets, data arrays and trees of xarray with their accessor ``nczarr``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import xarray as xr

from nczarr import convert, model
from nczarr.convert.values.dasked import store_chunked
from nczarr.labelled import from_xarray
from nczarr.labelled.write import Labelled
from nczarr.xarray.updating import Shared, Update, check_aligned, chunked_work


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
        *,
        mode: Literal["w", "w-", "a", "r+"] | None = None,
        encoding: Mapping[str, Any] | None = None,
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
        mode : {'w', 'w-', 'a', 'r+'}, optional
            As in xarray: ``w`` replaces a dataset, ``w-`` refuses to, ``a`` adds variables and overwrites existing
            ones, ``r+`` only overwrites values. Default: ``a`` with `append_dim`, ``r+`` with `region`, else ``w-``.
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
        mode = mode or ("r+" if region is not None else "a" if append_dim is not None else "w-")
        if mode not in ("w", "w-", "a", "r+"):
            raise ValueError(
                f"The only supported options for mode are 'w', 'w-', 'a' and 'r+', but mode={mode!r}"
            )
        if region is not None and mode not in ("a", "r+"):
            raise ValueError("region cannot be specified unless mode is 'a', 'r+' or None")
        if append_dim is not None and mode not in ("a", "r+"):
            raise ValueError("append_dim was set along with mode='w', but it requires mode='a' or 'r+'")
        is_safe = not safe_chunks or align_chunks
        update = None
        if mode in ("a", "r+"):
            update = Update.of(store, mode, append_dim, region, storage_options)
        if update is not None:
            work, blocks, starts = update.run(self._data, encoding, is_safe=is_safe)
            if compute and not work:
                return None
        else:
            dataset = self.to_model(encoding=encoding, unlimited_dims=unlimited_dims)
            work, starts = chunked_work(dataset), {}
            for one in () if is_safe else work:
                hints = one[1].storage
                check_aligned(
                    one, (0,) * len(hints.chunk_shape or ()), hints.shard_shape or hints.chunk_shape
                )
            if not compute:
                late = {fqn for fqn, _, _ in work}
                dataset = model.rewrite(
                    dataset, variable=lambda at, v: v.with_data(None) if at in late else v
                )
            convert.copy(dataset, store, overwrite=mode == "w", target_options=storage_options, **options)
            if compute:
                return None
            blocks = Shared(store, storage_options).blocks(late)
        return store_chunked(work, Shared(store, storage_options), blocks, starts=starts, compute=compute)

    def to_netcdf(
        self,
        path: Any,
        *,
        format: str | None = None,
        encoding: Mapping[str, Any] | None = None,
        unlimited_dims: Sequence[str] | None = None,
        compute: bool = True,
    ) -> Any:
        """Write a netCDF file. It replaces an existing file when it is complete.

        Parameters
        ----------
        path : path or URL
            ``NAME.nc``.
        format : str, optional
            As for :func:`nczarr.copy`: ``"netCDF-4"``, ``"classic"``, …
        encoding, unlimited_dims
            As for :func:`nczarr.from_xarray`.
        compute : bool, default True
            False returns a delayed object that writes the file.

        Raises
        ------
        ValueError, TypeError
            As xarray raises them for encodings that do not fit.
        NCZarrError
            With the problem and its location.
        """
        if convert.kind_of_target(path) != "netcdf":
            raise ValueError(f"{path!r} is no name of a netCDF file: NAME.nc is one")
        dataset = self.to_model(encoding=encoding, unlimited_dims=unlimited_dims)
        options: dict[str, Any] = {} if format is None else {"format": format}
        if compute:
            convert.copy(dataset, path, overwrite=True, **options)
            return None
        import dask

        return dask.delayed(convert.copy)(dataset, path, overwrite=True, **options)
