"""Refuse what netCDF has no place for at every door of the accessor, and keep what a program has not changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr

import nczarr
from nczarr.errors import UnsupportedError


def with_enum(path: Path) -> xr.Dataset:
    with nczarr.Dataset(path, "w") as ds:
        ds.createDimension("x", None)
        type_ = ds.createEnumType(np.uint8, "cloud", {"clear": 0, "stratus": 1})
        ds.createVariable("v", type_, ("x",))[:] = [0, 1, 0]
    with xr.open_dataset(path, engine="nczarr") as found:
        return found.load()


DOORS: dict[str, Callable[[xr.Dataset, Path], object]] = {
    "new store": lambda ds, path: ds.nczarr.to_zarr(path / "new.zarr"),
    "new zip": lambda ds, path: ds.nczarr.to_zarr(path / "new.zip"),
    "new file": lambda ds, path: ds.nczarr.to_netcdf(path / "new.nc"),
    "existing variable": lambda ds, path: ds.nczarr.to_zarr(path / "old.zarr", mode="a"),
    "existing values": lambda ds, path: ds.nczarr.to_zarr(path / "old.zarr", mode="r+"),
    "append": lambda ds, path: ds.nczarr.to_zarr(path / "old.zarr", append_dim="x", safe_chunks=False),
    "region": lambda ds, path: ds[{"x": slice(1, 2)}].nczarr.to_zarr(
        path / "old.zarr", region={"x": slice(0, 1)}
    ),
    "existing file": lambda ds, path: ds.nczarr.to_netcdf(path / "old.nc", mode="a"),
}


@pytest.mark.parametrize("chunks", [None, -1], ids=["numpy", "dask"])
@pytest.mark.parametrize("door", DOORS)
def test_no_door_writes_a_value_that_is_no_member_of_the_enum(
    tmp_path: Path, door: str, chunks: int | None
) -> None:
    """The tool ncdump ends at such a value, in the middle of a line."""
    with_enum(tmp_path / "old.nc")
    good = with_enum(tmp_path / "old.zarr")
    before = nczarr.digest(tmp_path / "old.zarr")
    bad = good.assign(v=good.v.copy(data=np.array([0, 7, 1], "u1")))
    bad = bad if chunks is None else bad.chunk(x=chunks)
    with pytest.raises(UnsupportedError, match=r"7( at \[[014]\])? is no member of the enum"):
        DOORS[door](bad, tmp_path)
    assert not list(tmp_path.glob("new*"))
    if chunks is None:
        assert nczarr.digest(tmp_path / "old.zarr") == before
    DOORS[door](good, tmp_path)


@pytest.mark.parametrize("target", ["new.nc", "new.zarr"])
def test_the_unlimited_dimension_of_a_computed_variable_stays(tmp_path: Path, target: str) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("time", None)
        ds.createDimension("x", 2)
        ds.createVariable("v", "f4", ("time", "x"))[:] = np.ones((3, 2))
    with xr.open_dataset(tmp_path / "a.nc", engine="nczarr") as opened:
        changed = opened.assign(v=opened.v * 2)
        assert changed.encoding["unlimited_dims"] == {"time"}
        write = changed.nczarr.to_netcdf if target.endswith("nc") else changed.nczarr.to_zarr
        write(tmp_path / target)
    with nczarr.Dataset(tmp_path / target) as ds:
        assert {name: d.isunlimited() for name, d in ds.dimensions.items()} == {"time": True, "x": False}
    with xr.open_dataset(tmp_path / "a.nc", engine="nczarr") as opened:
        fixed = opened.assign(v=opened.v * 2)
        fixed.encoding["unlimited_dims"] = set()
        fixed.nczarr.to_zarr(tmp_path / "fixed.zarr")
    with nczarr.Dataset(tmp_path / "fixed.zarr") as ds:
        assert not ds.dimensions["time"].isunlimited()


@pytest.mark.parametrize("write", ["to_zarr", "to_netcdf"])
@pytest.mark.parametrize("owner", ["dataset", "variable"])
def test_an_attribute_without_a_value_is_refused(tmp_path: Path, owner: str, write: str) -> None:
    """It was left out of a variable, and the text null in a dataset."""
    ds = xr.Dataset({"v": ("x", [1, 2])})
    (ds if owner == "dataset" else ds.v).attrs["a"] = None
    with pytest.raises(TypeError, match="attr 'a': None is no value of netCDF"):
        getattr(ds.nczarr, write)(tmp_path / ("a.zarr" if write == "to_zarr" else "a.nc"))
    assert not list(tmp_path.iterdir())
