"""Write with the accessor on a cluster of Dask."""

from __future__ import annotations

from pathlib import Path

import pytest

xr = pytest.importorskip("xarray")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

import nczarr.xarray  # noqa: E402, F401


def test_a_local_cluster_writes_more_than_a_worker_may_hold(tmp_path: Path) -> None:
    values = da.random.default_rng(1).integers(0, 1000, (64, 512, 1024), chunks=(4, 512, 1024)).astype("f8")
    encoding = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1, "chunksizes": (2, 256, 1024)}
    ds = xr.Dataset({"v": (("time", "y", "x"), values, {}, encoding)})  # 256 MiB
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="320MiB", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        ds.nczarr.to_zarr(tmp_path / "a.zarr", unlimited_dims=["time"])
        ds.isel(time=slice(0, 4)).nczarr.to_zarr(tmp_path / "a.zarr", append_dim="time")
        with xr.open_dataset(tmp_path / "a.zarr", engine="nczarr", chunks={}) as found:
            assert bool((found["v"][:64].data == values).all().compute())
            assert bool((found["v"][64:].data == values[:4]).all().compute())
        assert len(client.scheduler_info()["workers"]) == 2
