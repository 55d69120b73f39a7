"""Values that do not fit what is stored are refused at every door of the accessor, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import nczarr.xarray  # noqa: F401  (registers the accessor)
from nczarr.errors import UnsupportedError
from nczarr.netcdf4 import Dataset as NcDataset

HOURS = np.array(["2000-01-01T06", "2000-01-02T06"], "M8[ns]")


def times(*texts: str, **variables: Any) -> xr.Dataset:
    return xr.Dataset(
        {"v": ("time", np.arange(float(len(texts)))), **variables}, {"time": np.array(texts, "M8[ns]")}
    )


def opened(store: Any, **options: Any) -> xr.Dataset:
    with xr.open_dataset(store, engine="nczarr", **options) as ds:
        return ds.load()


WRITES: dict[str, Callable[[xr.Dataset, Any], Any]] = {
    "append_dim": lambda ds, store: ds.nczarr.to_zarr(store, append_dim="time"),
    "append_dim, a-": lambda ds, store: ds.nczarr.to_zarr(store, mode="a-", append_dim="time"),
    "region": lambda ds, store: ds.nczarr.to_zarr(store, region={"time": slice(0, 1)}),
    "r+": lambda ds, store: ds.nczarr.to_zarr(store, mode="r+"),
}


@pytest.fixture(params=["directory", "zip", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return {"directory": tmp_path / "m.zarr", "zip": tmp_path / "m.zarr.zip", "memory": {}}[request.param]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_times_that_do_not_fit_the_stored_units_are_refused(store: Any, write: Any) -> None:
    times("2019-01-01T01:10").nczarr.to_zarr(store, unlimited_dims=["time"])
    before = opened(store)
    with pytest.raises(UnsupportedError, match=r"2019-01-01T01:12:00 at .* would be stored as") as caught:
        write(times("2019-01-01T01:12"), store)
    for part in ("/time", "2019-01-01T01:10:00", "days since 2019-01-01 01:10:00", "adjust=", "unsafe=True"):
        assert part in str(caught.value)
    xr.testing.assert_identical(opened(store), before)


def test_times_that_fit_are_stored_in_the_stored_units(store: Any) -> None:
    times("2019-01-01T01:10").nczarr.to_zarr(store, unlimited_dims=["time"])
    times("2019-01-04T01:10").nczarr.to_zarr(store, append_dim="time")
    found = opened(store)
    assert found.time.values.tolist() == np.array(["2019-01-01T01:10", "2019-01-04T01:10"], "M8[ns]").tolist()
    assert found.time.encoding["units"] == "days since 2019-01-01 01:10:00"


@pytest.mark.parametrize("name", ["m.zarr", "m.nc"])
def test_a_variable_that_is_replaced_as_a_whole_gets_new_units(name: str, tmp_path: Path) -> None:
    target = tmp_path / name
    write = "to_netcdf" if name.endswith(".nc") else "to_zarr"
    getattr(times("2000-01-01", "2000-01-02").nczarr, write)(target)
    getattr(times("2000-01-01T06", "2000-01-02T06").nczarr, write)(target, mode="a")
    found = opened(target)
    np.testing.assert_array_equal(found.time.values, HOURS)
    assert found.time.encoding["units"].startswith("hours since 2000-01-01")
    other = times("2000-01-01T06", "2000-01-02T06")
    other.time.encoding["units"] = "minutes since 1999-12-31"
    getattr(other.nczarr, write)(target, mode="a")
    np.testing.assert_array_equal(opened(target).time.values, HOURS)
    assert opened(target).time.encoding["units"] == "minutes since 1999-12-31"


def test_classic_files_get_new_units_too(tmp_path: Path) -> None:
    path = tmp_path / "c.nc"
    first = times("2000-01-01", "2000-01-02")
    first.nczarr.to_netcdf(path, format="NETCDF3_64BIT", encoding={"time": {"dtype": "i4"}})
    times("2000-01-01T06", "2000-01-02T06").nczarr.to_netcdf(path, mode="a")
    with xr.open_dataset(path, engine="netcdf4") as found:
        np.testing.assert_array_equal(found.time.values, HOURS)


NUMBERS = [
    pytest.param({"dtype": "i2", "scale_factor": 0.01}, [1.0], [400.0], "400.0 .* as -255.36", id="packed"),
    pytest.param({"dtype": "i4"}, [1], [2.7], "2.7 .* as 3 ", id="fractions"),
    pytest.param({"dtype": "i2"}, [1], [70000], "70000 .* as 4464", id="too large"),
    pytest.param({"dtype": "u1"}, [1], [-1], "-1 .* as 255", id="negative"),
    pytest.param({"dtype": "i4"}, [1], [np.nan], "nan .* as", id="NaN without fill"),
    pytest.param(
        {"dtype": "i4", "_FillValue": np.int32(-1)}, [1.0], [-1], "-1 .* a missing value", id="fill"
    ),
]


@pytest.mark.parametrize("chunked", [False, True], ids=["numpy", "dask"])
@pytest.mark.parametrize("name", ["m.zarr", "m.nc"])
@pytest.mark.parametrize(("encoding", "old", "new", "says"), NUMBERS)
def test_numbers_that_do_not_fit_are_refused(
    encoding: dict[str, Any], old: Any, new: Any, says: str, name: str, chunked: bool, tmp_path: Path
) -> None:
    target = tmp_path / name
    first, second = xr.Dataset({"v": ("x", old)}), xr.Dataset({"v": ("x", new)})
    second = second.chunk(x=1) if chunked else second
    in_file = name.endswith(".nc")
    if in_file:
        first.nczarr.to_netcdf(target, encoding={"v": encoding})
    else:
        first.nczarr.to_zarr(target, encoding={"v": encoding}, unlimited_dims=["x"])
    before = opened(target)
    writes = [lambda: second.nczarr.to_netcdf(target, mode="a")] if in_file else [
        lambda: second.nczarr.to_zarr(target, mode="r+"),
        lambda: second.nczarr.to_zarr(target, mode="a"),
        lambda: second.nczarr.to_zarr(target, region={"x": slice(0, 1)}),
        lambda: second.nczarr.to_zarr(target, append_dim="x"),
    ]  # fmt: skip
    for write in writes:
        with pytest.raises(UnsupportedError, match=says):
            write()
        np.testing.assert_array_equal(opened(target).v.values[:1], before.v.values)
    if not in_file:
        second.nczarr.to_zarr(target, mode="a", append_dim="x", unsafe=True)


def test_packed_values_are_stored_within_half_a_step(tmp_path: Path) -> None:
    target = tmp_path / "m.zarr"
    encoding = {"v": {"dtype": "i2", "scale_factor": 0.01, "_FillValue": np.int16(-9999)}}
    xr.Dataset({"v": ("x", [1.0])}).nczarr.to_zarr(target, encoding=encoding, unlimited_dims=["x"])
    values = np.random.default_rng(1).uniform(-320, 320, 1000).round(4)
    values[7] = np.nan
    xr.Dataset({"v": ("x", values)}).nczarr.to_zarr(target, append_dim="x")
    assert np.nanmax(abs(opened(target).v.values[1:] - values)) < 0.005001
    assert np.isnan(opened(target).v.values[8])


def test_undecoded_values_are_numbers_of_their_own_attributes(tmp_path: Path) -> None:
    times("2000-01-01", "2000-01-02").nczarr.to_zarr(tmp_path / "m.zarr", unlimited_dims=["time"])
    times("2000-01-03", "2000-01-04").nczarr.to_zarr(tmp_path / "n.zarr")
    opened(tmp_path / "n.zarr", decode_times=False).nczarr.to_zarr(tmp_path / "m.zarr", append_dim="time")
    days = opened(tmp_path / "m.zarr").time.values.astype("M8[D]")
    assert days.astype(str).tolist() == ["2000-01-01", "2000-01-02", "2000-01-03", "2000-01-04"]


def test_datasets_with_their_own_packing_are_not_joined_wrongly(tmp_path: Path) -> None:
    paths = []
    for number, (offset, values) in enumerate([(0.0, [1.0, 2.0]), (500.0, [500.0, 550.0])]):
        ds = xr.Dataset({"v": ("x", values)}, {"x": [2 * number, 2 * number + 1]})
        ds.v.encoding = {
            "dtype": "i2",
            "scale_factor": 0.01,
            "add_offset": offset,
            "_FillValue": np.int16(-1),
        }
        paths.append(tmp_path / f"{number}.zarr")
        ds.nczarr.to_zarr(paths[-1])
    with xr.open_mfdataset(paths, engine="nczarr") as joined:
        for ds in (joined, joined.load()):
            with pytest.raises(UnsupportedError, match=r"/?v: 500.0 at .* drop_encoding"):
                ds.nczarr.to_zarr(tmp_path / "all.zarr")
            assert not (tmp_path / "all.zarr").exists()
        joined.drop_encoding().nczarr.to_zarr(tmp_path / "all.zarr")
    assert opened(tmp_path / "all.zarr").v.values.tolist() == [1.0, 2.0, 500.0, 550.0]


@pytest.mark.parametrize("mode", ["a", "a-"])
def test_coordinates_that_do_not_grow_equal_the_stored_ones(mode: Any, store: Any) -> None:
    coords = {"time": [0], "level": [1.0, 2.0, 3.0]}
    first = xr.Dataset({"v": (("time", "level"), [[1.0, 2.0, 3.0]])}, coords)
    first.nczarr.to_zarr(store, unlimited_dims=["time"])
    turned = first.assign_coords(time=[1], level=[3.0, 2.0, 1.0])
    with pytest.raises(UnsupportedError, match="/level: the coordinate differs") as caught:
        turned.nczarr.to_zarr(store, append_dim="time", mode=mode)
    assert "reindex_like" in str(caught.value)
    xr.testing.assert_identical(opened(store), opened(store))
    assert opened(store).sizes["time"] == 1
    near = first.assign_coords(time=[1], level=np.nextafter(first.level.values, 9))
    near.nczarr.to_zarr(store, append_dim="time", mode=mode)
    turned.reindex_like(first.drop_vars("time")).assign_coords(time=[2]).nczarr.to_zarr(
        store, append_dim="time"
    )
    assert float(opened(store).v.sel(time=2, level=1.0, method="nearest")) == 3.0


def test_members_alone_go_into_an_enum(tmp_path: Path) -> None:
    with NcDataset(tmp_path / "e.zarr", "w") as nc:
        nc.createDimension("x", None)
        quality = nc.createEnumType("u1", "quality", {"good": 0, "bad": 4})
        nc.createVariable("v", quality, ("x",))[:] = np.array([0, 4], "u1")
    with pytest.raises(UnsupportedError, match=r"7 at \[2\] is no member of the enum"):
        xr.Dataset({"v": ("x", np.array([7], "u1"))}).nczarr.to_zarr(tmp_path / "e.zarr", append_dim="x")
    assert opened(tmp_path / "e.zarr").v.values.tolist() == [0, 4]
