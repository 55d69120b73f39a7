"""Test tasks of Dask that run after another program has changed the dataset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

xr = pytest.importorskip("xarray")
pytest.importorskip("dask")

import nczarr.netcdf4 as nc  # noqa: E402
import nczarr.xarray  # noqa: E402, F401
from nczarr.errors import EditError  # noqa: E402


def steps(first: int, count: int) -> xr.Dataset:
    values = np.arange(first * 4, (first + count) * 4, dtype="f8").reshape(count, 4)
    return xr.Dataset({"v": (("time", "x"), values)}, {"time": np.arange(first, first + count)})


def whole(path: Path, data: xr.Dataset, **encoding: object) -> None:
    data.nczarr.to_zarr(path, mode="w", encoding={"v": {"chunks": (2, 4), **encoding}})


def set_scale(path: Path) -> None:
    with nc.Dataset(path, "a") as dataset:
        dataset["v"].scale_factor = 10.0


def set_units(path: Path) -> None:
    with nc.Dataset(path, "a") as dataset:
        dataset["v"].units = "days since 2000-01-01"


@pytest.fixture
def planned(tmp_path: Path) -> tuple[Path, Any]:
    path = tmp_path / "a.zarr"
    steps(0, 2).nczarr.to_zarr(path, unlimited_dims=["time"], encoding={"v": {"chunks": (2, 4)}})
    return path, steps(2, 2).chunk(time=2).nczarr.to_zarr(path, append_dim="time", compute=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda p: whole(p, steps(0, 2)),
            r"has the shape \(2, 4\), in which the place \[2:4, 0:4\] does not exist",
        ),
        (lambda p: steps(0, 4).rename(v="w").nczarr.to_zarr(p, mode="w"), "has gone"),
        (lambda p: whole(p, steps(0, 4), dtype="f4"), "has the type float, not double"),
        (lambda p: whole(p, steps(0, 4).rename(x="y")), r"has the dimensions \('time', 'y'\)"),
        (lambda p: whole(p, steps(0, 4), chunks=(4, 4)), r"has chunks of the shape \(4, 4\), not \(2, 4\)"),
        (set_scale, "is stored as float64 with scale_factor 10, not as float64"),
        (set_units, "is stored as float64 with the units 'days since 2000-01-01', not as float64"),
    ],
)
def test_a_task_is_refused_if_its_variable_is_another_one(
    planned: tuple[Path, Any], change: Callable[[Path], None], message: str
) -> None:
    path, delayed = planned
    change(path)
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    with pytest.raises(EditError, match=f"a.zarr: /v: since the task was planned, the variable .*{message}"):
        delayed.compute()
    assert {p: p.read_bytes() for p in path.rglob("*") if p.is_file()} == before


def test_a_dataset_that_grows_before_a_task_runs_keeps_the_values_of_both(
    planned: tuple[Path, Any],
) -> None:
    path, delayed = planned
    with xr.open_dataset(path, engine="nczarr") as waiting:
        assert waiting["v"].isnull().values.tolist() == [[False] * 4] * 2 + [[True] * 4] * 2
    steps(4, 1).nczarr.to_zarr(path, append_dim="time")
    delayed.compute()
    with xr.open_dataset(path, engine="nczarr") as found:
        xr.testing.assert_equal(found.load(), steps(0, 5))


def test_a_task_writes_to_the_variable_that_only_attributes_of_no_form_have_changed(
    planned: tuple[Path, Any],
) -> None:
    path, delayed = planned
    with nc.Dataset(path, "a") as dataset:
        dataset["v"].long_name = "values"
    delayed.compute()
    with xr.open_dataset(path, engine="nczarr") as found:
        xr.testing.assert_equal(found.load(), steps(0, 4))
