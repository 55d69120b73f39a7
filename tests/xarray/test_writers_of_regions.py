"""Let several writers store regions of one dataset at the same time, as the tasks of a job array do."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import nczarr
import nczarr.xarray
from nczarr.errors import ArgumentError, LockedError
from nczarr.stores import open_store

WRITERS = 6
STEPS = 8
numbers = itertools.count()


def template(chunk: int, steps: int = WRITERS * STEPS) -> xr.Dataset:
    zeros = xr.Variable(("t", "x"), np.zeros((steps, 3), "f4"), encoding={"chunks": (chunk, 3)})
    return xr.Dataset({"v": zeros}, coords={"t": np.arange(steps)})


def region(number: int) -> tuple[xr.Dataset, dict[str, slice]]:
    """The values of one writer, and their place."""
    values = np.full((STEPS, 3), number + 1, "f4")
    return xr.Dataset({"v": (("t", "x"), values)}), {"t": slice(STEPS * number, STEPS * (number + 1))}


def expected() -> list[float]:
    return [float(n + 1) for n in range(WRITERS) for _ in range(STEPS)]


@pytest.mark.parametrize("chunk", [8, 5], ids=["whole chunks", "parts of chunks"])
def test_regions_of_a_directory_are_written_at_the_same_time(tmp_path: Path, chunk: int) -> None:
    template(chunk).nczarr.to_zarr(tmp_path / "a.zarr")
    begin = threading.Barrier(WRITERS)

    def write(number: int) -> None:
        values, place = region(number)
        begin.wait()
        values.nczarr.to_zarr(tmp_path / "a.zarr", region=place)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    with xr.open_zarr(tmp_path / "a.zarr") as stored:
        assert stored["v"].values[:, 0].tolist() == expected()


def test_a_region_is_written_beside_a_writer_of_another_process(tmp_path: Path) -> None:
    template(8).nczarr.to_zarr(tmp_path / "a.zarr")
    values, place = region(1)
    with nczarr.Dataset(tmp_path / "a.zarr", "a", shared=True) as other:
        values.nczarr.to_zarr(tmp_path / "a.zarr", region=place)
        other["v"][:STEPS] = 1
    with nczarr.Dataset(tmp_path / "a.zarr") as stored:
        assert stored["v"][: 2 * STEPS, 0].tolist() == expected()[: 2 * STEPS]


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.parametrize("backend", ["obstore", "s3fs"])
def test_parts_of_chunks_exclude_other_writers_of_an_object_store(
    s3_server: dict[str, str], backend: str
) -> None:
    url, options = f"s3://test/regions/{next(numbers)}.zarr", {"backend": backend}
    template(8).nczarr.to_zarr(url, storage_options=options)
    values, place = region(1)
    parts = {"t": slice(3, 3 + STEPS)}
    with nczarr.Dataset(url, "a", storage_options=options):
        values.nczarr.to_zarr(url, region=place, storage_options=options)
        with pytest.raises(LockedError):
            values.nczarr.to_zarr(url, region=parts, storage_options=options)
    values.nczarr.to_zarr(url, region=parts, storage_options=options)
    with nczarr.Dataset(url, storage_options=options) as stored:
        assert stored["v"][:17, 0].tolist() == [0] * 3 + [2] * 13 + [0]
    with open_store(url, "r", options) as store:
        assert not [key for key in store.list() if key.startswith(".nczarr")]


@pytest.mark.s3
def test_the_stored_order_of_dimensions_tells_whether_a_region_has_whole_chunks(
    s3_server: dict[str, str],
) -> None:
    url, options = f"s3://test/regions/{next(numbers)}.zarr", {"backend": "obstore"}
    zeros = xr.Variable(("t", "x"), np.zeros((8, 12), "f4"), encoding={"chunks": (4, 3)})
    xr.Dataset({"v": zeros}).nczarr.to_zarr(url, storage_options=options, unlimited_dims=["t"])
    part = xr.Dataset({"v": (("x", "t"), np.ones((4, 4), "f4"))})  # 4 is whole along t, and not along x
    columns = xr.Dataset({"v": (("x", "t"), np.ones((3, 4), "f4"))})
    with nczarr.Dataset(url, "a", storage_options=options) as other:
        with pytest.raises(LockedError):
            part.nczarr.to_zarr(url, region={"t": slice(0, 4), "x": slice(0, 4)}, storage_options=options)
        columns.nczarr.to_zarr(url, region={"t": slice(0, 4), "x": slice(0, 3)}, storage_options=options)
        other["v"][8:10] = 2
    # The last chunk along t has two steps, and the next append writes it, too.
    end = xr.Dataset({"v": (("t", "x"), np.ones((2, 12), "f4"))})
    with nczarr.Dataset(url, "a", storage_options=options), pytest.raises(LockedError):
        end.nczarr.to_zarr(url, region={"t": slice(8, 10)}, storage_options=options)
    end.nczarr.to_zarr(url, region={"t": slice(8, 10)}, storage_options=options)
    with nczarr.Dataset(url, storage_options=options) as stored:
        assert stored["v"][:].sum() == 12 + 24


def a_day(number: int) -> xr.Dataset:
    values, _ = region(number)
    return values.assign_coords(t=np.arange(STEPS * number, STEPS * (number + 1)))


@pytest.mark.slow
def test_writers_wait_for_each_other_for_as_long_as_they_are_told(tmp_path: Path) -> None:
    path, day = tmp_path / "a.zarr", tmp_path / "day.nc"
    nczarr.copy(nczarr.from_xarray(a_day(0), unlimited_dims=["t"]), path)
    a_day(1).to_netcdf(day)
    writer = nczarr.Dataset(path, "a")
    with pytest.raises(LockedError):
        nczarr.Dataset(path, "a", wait=0.1)
    with pytest.raises(LockedError):
        nczarr.append(day, path, wait=0.1)
    with pytest.raises(LockedError):
        a_day(1).nczarr.to_zarr(path, append_dim="t", wait=0.1)
    later = threading.Timer(0.5, writer.close)
    later.start()
    command = [sys.executable, "-m", "nczarr", "append", "--quiet", "--wait", "60", str(day), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    later.join()
    assert done.returncode == 0, done.stderr
    with nczarr.Dataset(path) as stored:
        assert stored["v"][:, 0].tolist() == expected()[: 2 * STEPS]


@pytest.mark.parametrize("wait", [-1, float("nan"), "60", None, True])
def test_a_time_to_wait_is_a_number_of_seconds(tmp_path: Path, wait: Any) -> None:
    with pytest.raises(ArgumentError, match="not a number of seconds"):
        nczarr.Dataset(tmp_path / "a.zarr", "w", wait=wait)
