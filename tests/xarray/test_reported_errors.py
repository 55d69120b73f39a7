"""Repeat the silent errors that users of xarray with Zarr report most: each is right here, or refused with a cure.

The numbers are those of issues of xarray; the last one is of zarr-python.
"""

from __future__ import annotations

import threading
from pathlib import Path
from time import sleep
from typing import Any

import dask.array
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import nczarr
import nczarr.xarray
from nczarr.errors import NCZarrError
from nczarr.mapping import DetachedValues


def steps(*texts: str) -> xr.Dataset:
    times = np.array(texts, "M8[ns]")
    return xr.Dataset({"v": ("time", np.arange(float(len(times))))}, {"time": times})


def stored(path: Path) -> xr.Dataset:
    with xr.open_dataset(path, engine="zarr") as found:
        return found.load()


def create(dataset: xr.Dataset, path: Path) -> dict[str, bytes]:
    dataset.nczarr.to_zarr(path, unlimited_dims=["time"])
    return contents(path)


def contents(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def append_is_right_or_refused(first: xr.Dataset, second: xr.Dataset, path: Path, dim: str = "time") -> None:
    """The store has the appended times, or is as before, and the error names the place and a cure."""
    before = create(first, path)
    try:
        second.nczarr.to_zarr(path, append_dim=dim)
    except NCZarrError as error:
        assert "would be stored as" in str(error)
        assert f"/{dim}" in str(error)
        assert "units" in str(error)
        assert contents(path) == before
    else:
        np.testing.assert_array_equal(stored(path)[dim].values, np.concatenate([first[dim], second[dim]]))


def test_six_hourly_times_after_a_single_time_of_a_day(tmp_path: Path) -> None:
    # 5969
    times = pd.date_range("2000-01-01 00:35", periods=8, freq="6h")
    whole = xr.Dataset({"foo": ("time", np.arange(8.0))}, {"time": times})
    append_is_right_or_refused(whole.isel(time=[0]), whole.isel(time=slice(1, None)), tmp_path / "a.zarr")


def test_the_hour_of_an_appended_reference_time(tmp_path: Path) -> None:
    # 5106
    first, second = (
        xr.Dataset({"v": (("time", "x"), [[text]])}, {"time": [pd.Timestamp(time)], "x": [0]})
        for text, time in (("A", "2021-02-21 00:00"), ("C", "2021-02-21 06:00"))
    )
    append_is_right_or_refused(first, second, tmp_path / "a.zarr")


def test_integers_of_days_and_then_fractions_of_a_day(tmp_path: Path) -> None:
    # 3942
    first, second = steps("2000-01-01", "2000-01-02"), steps("2000-01-03T03:00", "2000-01-03T09:30")
    append_is_right_or_refused(first, second, tmp_path / "a.zarr")


def test_two_minutes_after_the_first_time(tmp_path: Path) -> None:
    # 3379
    append_is_right_or_refused(steps("2019-01-01T01:10"), steps("2019-01-01T01:12"), tmp_path / "a.zarr")


def test_a_chosen_encoding_of_times_holds_for_appended_steps(tmp_path: Path) -> None:
    # 10639
    path, units = tmp_path / "a.zarr", "milliseconds since 1970-01-01"
    first, second = steps("2001-01-01T00:01"), steps("2001-01-01T00:02", "2001-01-01T00:02:00.125")
    first.nczarr.to_zarr(path, unlimited_dims=["time"], encoding={"time": {"units": units, "dtype": "int64"}})
    second.nczarr.to_zarr(path, append_dim="time")
    found = stored(path)
    np.testing.assert_array_equal(found.time.values, np.concatenate([first.time, second.time]))
    assert found.time.encoding["units"] == units


@pytest.fixture
def packings(tmp_path: Path) -> list[Path]:
    """Files of one variable with a packing of their own, as ERA5 has them."""
    paths = []
    for number, (scale, offset) in enumerate(((0.01, 0.0), (0.02, 400.0))):
        values = offset + np.arange(4.0) * 50
        dataset = xr.Dataset({"u": ("time", values)}, {"time": np.arange(4) + 4 * number})
        dataset.u.encoding = {
            "dtype": "i2",
            "scale_factor": scale,
            "add_offset": offset,
            "_FillValue": -32767,
        }
        paths.append(tmp_path / f"{number}.nc")
        dataset.to_netcdf(paths[-1])
    return paths


@pytest.mark.parametrize("name", ["out.zarr", "out.nc"])
def test_files_with_packings_of_their_own_are_joined(name: str, packings: list[Path], tmp_path: Path) -> None:
    # 4282
    with xr.open_mfdataset(packings, engine="netcdf4") as merged:
        write = merged.nczarr.to_zarr if name.endswith("zarr") else merged.nczarr.to_netcdf
        with pytest.raises(NCZarrError, match=r"u: 4\d\d.* would be stored as .*drop_encoding"):
            write(tmp_path / name)
        assert not (tmp_path / name).exists()
        merged.drop_encoding().nczarr.to_zarr(tmp_path / "right.zarr")
        np.testing.assert_array_equal(stored(tmp_path / "right.zarr").u.values, merged.u.values)


def test_concatenated_parts_with_the_packing_of_the_first(packings: list[Path], tmp_path: Path) -> None:
    # 5739
    parts = [xr.load_dataset(path).isel(time=slice(1, 3)) for path in packings]
    joined = xr.concat(parts, dim="time")
    with pytest.raises(NCZarrError, match="would be stored as"):
        joined.nczarr.to_netcdf(tmp_path / "a.nc")
    joined.u.encoding = {}
    joined.nczarr.to_netcdf(tmp_path / "a.nc")
    np.testing.assert_array_equal(xr.load_dataset(tmp_path / "a.nc").u.values, joined.u.values)


def test_levels_in_another_order_do_not_turn_the_stored_ones(tmp_path: Path) -> None:
    # 11101
    path = tmp_path / "a.zarr"
    first, second = (
        xr.Dataset(
            {"v": (("time", "level"), [[10.0 * level for level in levels]])},
            {"time": [number], "level": levels},
        )
        for number, levels in enumerate(([1, 2, 3], [3, 2, 1]))
    )
    before = create(first, path)
    with pytest.raises(NCZarrError, match=r"/level: the coordinate differs .*reindex"):
        second.nczarr.to_zarr(path, append_dim="time")
    assert contents(path) == before
    second.reindex_like(first.level).nczarr.to_zarr(path, append_dim="time")
    found = stored(path)
    for time in (0, 1):
        assert float(found.v.sel(time=time, level=1)) == 10.0


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A store with a manifest, which has lost a chunk."""
    path = tmp_path / "a.zarr"
    dataset = xr.Dataset({"v": (("x", "y"), [[0.0, np.nan], [2.0, 3.0]])}, {"x": [0, 1], "y": [0, 1]})
    dataset.nczarr.to_zarr(tmp_path / "all.zarr")
    nczarr.copy(tmp_path / "all.zarr", path, chunks={"x": 1, "y": 1}, manifest=True)
    (path / "v" / "c" / "1" / "0").unlink()
    return path


# 5197, 9701
@pytest.mark.parametrize("chunks", [None, {}], ids=["lazy", "Dask"])
def test_a_lost_chunk_is_an_error_and_nan_a_value(recorded: Path, chunks: dict[str, int] | None) -> None:
    with xr.open_dataset(recorded, engine="nczarr", chunks=chunks) as found:
        row = found.v.isel(x=0).values  # chunks that are there, one with a missing value
        np.testing.assert_array_equal(row, [0.0, np.nan])
        with pytest.raises(NCZarrError, match=r"/v.*missing"):
            found.v.compute()


def test_a_lost_chunk_never_reads_as_fill_values(recorded: Path) -> None:
    # zarr-python 486
    with nczarr.Dataset(recorded) as found:
        assert found["v"][0, 0] == 0.0
        with pytest.raises(NCZarrError, match=r"/v.*missing"):
            found["v"][:]


def test_a_refused_value_leaves_nothing_of_the_tasks_that_write_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()
    write = DetachedValues.write

    def slow(self: DetachedValues, *args: Any) -> None:
        begun.set()
        sleep(0.3)
        try:
            write(self, *args)
        finally:
            ended.set()

    def refused(block: np.ndarray, block_info: Any = None) -> np.ndarray:
        if block_info and block_info[0]["chunk-location"] == (1,):
            begun.wait(60)
            raise ArithmeticError("no value")
        return block

    monkeypatch.setattr(DetachedValues, "write", slow)
    values = dask.array.ones(8, chunks=4).map_blocks(refused, dtype="f8")
    with dask.config.set(scheduler="threads", num_workers=2), pytest.raises(ArithmeticError):
        xr.Dataset({"v": ("x", values)}).nczarr.to_zarr(tmp_path / "a.zarr")
    assert ended.wait(60)
    assert not (tmp_path / "a.zarr").exists()
