"""Write with the accessor of datasets and trees: new, over, behind and into existing datasets, with Dask."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczarr
from nczarr.errors import DatasetExistsError

xr = pytest.importorskip("xarray")
da = pytest.importorskip("dask.array")

import nczarr.xarray  # noqa: E402


def days(start: int, count: int) -> Any:
    time = np.datetime64("2000-01-01", "ns") + np.arange(start, start + count) * np.timedelta64(1, "D")
    values = np.arange(start * 4, (start + count) * 4, dtype="f8").reshape(count, 4)
    return xr.Dataset(
        {"v": (("time", "x"), values), "fixed": ("x", np.arange(4))},
        coords={"time": time, "x": [10, 20, 30, 40]},
    )


def read(store: Any) -> Any:
    return xr.open_dataset(store, engine="nczarr").load()


@pytest.fixture(params=["numpy", "dask"])
def made(request: pytest.FixtureRequest) -> Any:
    return lambda start, count: (
        days(start, count).chunk(time=1) if request.param == "dask" else days(start, count)
    )


@pytest.fixture(params=["path", "memory"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    return tmp_path / "a.zarr" if request.param == "path" else {}


def test_a_new_dataset_and_its_modes(store: Any, made: Any) -> None:
    made(0, 3).nczarr.to_zarr(store, unlimited_dims=["time"])
    xr.testing.assert_identical(read(store), days(0, 3))
    with pytest.raises(FileExistsError):
        made(0, 2).nczarr.to_zarr(store)
    made(0, 2).nczarr.to_zarr(store, mode="w")
    xr.testing.assert_identical(read(store), days(0, 2))
    with pytest.raises(ValueError, match="mode"):
        made(0, 2).nczarr.to_zarr(store, mode="x")


def test_appending_keeps_the_dimension_unlimited_and_the_encoding(store: Any, made: Any) -> None:
    made(0, 3).nczarr.to_zarr(store, unlimited_dims=["time"], encoding={"v": {"chunksizes": (1, 4)}})
    made(3, 2).drop_vars("fixed").nczarr.to_zarr(store, append_dim="time")
    expected = days(0, 5)
    xr.testing.assert_identical(read(store), expected)
    with nczarr.Dataset(store) as ds:
        assert ds.dimensions["time"].isunlimited()
        assert ds["time"].units.startswith("days since 2000-01-01")
        assert ds["v"].chunking() == [1, 4]


def test_a_fixed_dimension_becomes_unlimited_when_it_grows(store: Any, made: Any) -> None:
    made(0, 3).nczarr.to_zarr(store)
    made(3, 2).drop_vars("fixed").nczarr.to_zarr(store, append_dim="time")
    xr.testing.assert_identical(read(store), days(0, 5))


def test_regions(store: Any, made: Any) -> None:
    days(0, 4).nczarr.to_zarr(store, unlimited_dims=["time"], encoding={"v": {"chunksizes": (1, 4)}})
    made(0, 4)[["v"]].isel(time=slice(1, 3)).drop_vars(["time", "x"]).pipe(lambda d: d + 100).nczarr.to_zarr(
        store, region={"time": slice(1, 3)}
    )
    (made(0, 4)[["v"]].isel(time=[3]) * 0).nczarr.to_zarr(store, region="auto")
    values = days(0, 4)["v"].values.copy()
    values[1:3] += 100
    values[3] = 0
    np.testing.assert_array_equal(read(store)["v"].values, values)
    with nczarr.Dataset(store) as ds:
        assert ds.dimensions["time"].isunlimited()


def test_modes_a_and_r_plus(store: Any) -> None:
    days(0, 2).nczarr.to_zarr(store)
    (days(0, 2) * 2).assign_attrs(title="t").nczarr.to_zarr(store, mode="a")
    days(0, 2)[["v"]].rename(v="w").nczarr.to_zarr(store, mode="a")
    found = read(store)
    np.testing.assert_array_equal(found["v"].values, days(0, 2)["v"].values * 2)
    np.testing.assert_array_equal(found["w"].values, days(0, 2)["v"].values)
    assert found.attrs["title"] == "t"
    with pytest.raises(ValueError, match="non-pre-existing variables"):
        days(0, 2)[["v"]].rename(v="z").nczarr.to_zarr(store, mode="r+")


def test_groups(store: Any, made: Any) -> None:
    """Each group is written, refused and replaced alone, also by what is read from it."""
    made(0, 2).nczarr.to_zarr(store, group="a b/c")
    made(0, 3).nczarr.to_zarr(store, group="a b/d")
    made(0, 1).nczarr.to_zarr(store, mode="a")
    with pytest.raises(FileExistsError):
        made(0, 2).nczarr.to_zarr(store, group="a b/d")
    with xr.open_dataset(store, engine="nczarr", group="a b/d", chunks={}) as lazy:
        (lazy * 2).nczarr.to_zarr(store, mode="w", group="a b/d")
    with pytest.raises(ValueError, match="unable to infer dtype"):
        made(0, 2).assign(w=("x", np.array([object()] * 4))).nczarr.to_zarr(store, "w", "a b/d")
    made(2, 1).drop_vars("fixed").nczarr.to_zarr(store, group="a b/c", append_dim="time")
    found = {k: v.load() for k, v in xr.open_groups(store, engine="nczarr").items()}
    assert list(found) == ["/", "/a b", "/a b/c", "/a b/d"]
    xr.testing.assert_identical(found["/"], days(0, 1))
    xr.testing.assert_identical(found["/a b/c"], days(0, 3))
    xr.testing.assert_identical(found["/a b/d"], days(0, 3) * 2)


def test_mode_a_minus_leaves_what_has_no_appended_dimension(store: Any, made: Any) -> None:
    made(0, 2).nczarr.to_zarr(store)
    made(2, 1).assign(fixed=("x", [9] * 4), w=("x", [1] * 4)).nczarr.to_zarr(store, "a-", append_dim="time")
    xr.testing.assert_identical(read(store), days(0, 3).assign(w=("x", [1] * 4)))
    with pytest.raises(nczarr.NCZarrError, match="the dataset exists"):
        made(3, 1).nczarr.to_zarr(store, append_dim="time", compression="none")


def test_appended_text_is_not_cut(store: Any) -> None:
    for words in (["a", "bc"], ["longer"]):
        xr.Dataset({"s": ("t", np.array(words, object))}).nczarr.to_zarr(store, append_dim="t")
    assert read(store)["s"].values.tolist() == ["a", "bc", "longer"]


def test_a_shared_dimension_grows_once(store: Any) -> None:
    def tree(start: int) -> Any:
        new = {} if start == 0 else {"w": ("time", [1.0, 2.0])}
        child = days(start, 2).drop_vars("time").assign(new)
        return xr.DataTree.from_dict({"/": days(start, 2)[["time"]], "/c": child})

    tree(0).nczarr.to_zarr(store)
    tree(2).nczarr.to_zarr(store, append_dim="time")
    found = xr.open_datatree(store, engine="nczarr").load()
    xr.testing.assert_identical(found["c"].to_dataset()["v"].variable, days(0, 4)["v"].variable)
    np.testing.assert_array_equal(found["c/w"].values, [np.nan, np.nan, 1, 2])


def test_variables_and_groups_are_added_to_a_file(tmp_path: Path, made: Any) -> None:
    path = tmp_path / "a.nc"
    made(0, 2).nczarr.to_netcdf(path, "a")
    made(0, 2)[["v"]].rename(v="w").nczarr.to_netcdf(path, mode="a")
    made(0, 3).nczarr.to_netcdf(path, "a", group="g/h")
    with_units = (made(0, 2) * 2).assign_attrs(title="t")
    with_units["v"].attrs["units"] = "K"
    with_units.nczarr.to_netcdf(path, "a", compute=False).compute()
    read(path)[["v"]].rename(v="u").nczarr.to_netcdf(path, "a")
    with xr.open_dataset(path, engine="nczarr", chunks={}) as lazy:
        lazy[["v"]].rename(v="lazy").nczarr.to_netcdf(path, "a")
    v = days(0, 2)["v"]
    twice = (v * 2).assign_attrs(units="K")
    expected = (days(0, 2) * 2).assign(v=twice, w=v, u=twice, lazy=twice).assign_attrs(title="t")
    xr.testing.assert_identical(xr.load_dataset(path, engine="netcdf4"), expected)
    xr.testing.assert_identical(xr.load_dataset(path, engine="netcdf4", group="g/h"), days(0, 3))
    before = path.read_bytes()
    for bad in (days(0, 3), days(0, 2).assign(new=("k", [1]), v=("x", [1] * 4))):
        with pytest.raises(ValueError, match="already exists with different dimension"):
            bad.nczarr.to_netcdf(path, "a")
    assert path.read_bytes() == before


def test_variables_compute_their_common_parts_once(store: Any) -> None:
    calls = []

    def costly(block: np.ndarray) -> np.ndarray:
        calls.append(1)
        return block + 1

    first = da.ones(4, chunks=4).map_blocks(costly, meta=np.empty(0))
    xr.Dataset({"a": ("x", first), "b": ("x", first + 1)}).nczarr.to_zarr(store)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("change", "how", "message"),
    [
        (lambda d: d, {"append_dim": "nothing"}, "does not match any existing dataset dimensions"),
        (lambda d: d.isel(x=[0]), {"append_dim": "time"}, "different dimension sizes"),
        (lambda d: d.isel(x=0, drop=True), {"append_dim": "time"}, "different dimension names"),
        (lambda d: d[["v"]], {"append_dim": "time", "encoding": {"v": {}}}, "already exists, but encoding"),
        (lambda d: d, {"region": {"time": slice(0, 2)}}, "at least one dimension in common"),
        (lambda d: d[["v"]], {"region": {"time": slice(0, 2, 2)}}, "step on all slices"),
        (lambda d: d[["v"]], {"region": {"y": slice(0, 2)}}, "all keys in ``region``"),
        (
            lambda d: d[["v"]].drop_vars("x"),
            {"append_dim": "time", "region": {"time": slice(0, 2)}},
            "cannot list the same dimension",
        ),
        (lambda d: d, {"region": {"time": slice(0, 2)}, "mode": "w"}, "cannot set region unless"),
    ],
)
def test_the_checks_of_xarray(change: Any, how: dict[str, Any], message: str) -> None:
    store: dict[str, bytes] = {}
    days(0, 2).nczarr.to_zarr(store)
    before = dict(store)
    with pytest.raises(ValueError, match=message):
        change(days(0, 2)).nczarr.to_zarr(store, **how)
    assert store == before


def test_a_delayed_object_writes_later(store: Any) -> None:
    delayed = days(0, 4).chunk(time=2).nczarr.to_zarr(store, compute=False)
    assert np.isnan(read(store)["v"].values).all()
    np.testing.assert_array_equal(read(store)["time"].values, days(0, 4)["time"].values)
    delayed.compute()
    xr.testing.assert_identical(read(store), days(0, 4))


def test_two_tasks_never_write_one_chunk(store: Any) -> None:
    ds = days(0, 6).chunk(time=2)
    with pytest.raises(ValueError, match="overlap multiple Dask chunks"):
        ds.nczarr.to_zarr(store, encoding={"v": {"chunks": (3, 4)}})
    ds.nczarr.to_zarr(store, mode="w", encoding={"v": {"chunks": (3, 4)}}, align_chunks=True)
    xr.testing.assert_identical(read(store), days(0, 6))
    ds.nczarr.to_zarr(store, mode="w", shards={"time": 6})
    xr.testing.assert_identical(read(store), days(0, 6))


def test_an_error_in_a_task_leaves_nothing(tmp_path: Path) -> None:
    def fail(block: np.ndarray) -> np.ndarray:
        raise RuntimeError("no values")

    broken = xr.Dataset({"v": ("x", da.ones(4, chunks=2).map_blocks(fail, dtype="f8", meta=np.empty(0)))})
    with pytest.raises(RuntimeError, match="no values"):
        broken.nczarr.to_zarr(tmp_path / "a.zarr")
    assert list(tmp_path.iterdir()) == []


def test_trees_and_files(tmp_path: Path, made: Any) -> None:
    tree = xr.DataTree.from_dict(
        {"/": made(0, 2), "/b": xr.Dataset(), "/b/c": made(0, 2)[["v"]] + 1, "/a": xr.Dataset(attrs={"n": 1})}
    )
    tree.nczarr.to_zarr(tmp_path / "t.zarr", encoding={"/b/c": {"v": {"dtype": "i2"}}})
    found = xr.open_datatree(tmp_path / "t.zarr", engine="nczarr").load()
    xr.testing.assert_equal(found, tree.compute())
    assert list(found.children) == ["b", "a"]
    assert found["b/c/v"].encoding["dtype"] == "i2"
    made(0, 3).nczarr.to_netcdf(tmp_path / "a.nc", unlimited_dims=["time"])
    xr.testing.assert_identical(xr.open_dataset(tmp_path / "a.nc", engine="netcdf4").load(), days(0, 3))
    made(0, 2).nczarr.to_netcdf(tmp_path / "a.nc", compute=False).compute()
    xr.testing.assert_identical(xr.open_dataset(tmp_path / "a.nc", engine="netcdf4").load(), days(0, 2))


def test_copy_and_diff_take_xarray(tmp_path: Path, made: Any) -> None:
    nczarr.copy(made(0, 2), tmp_path / "a.zarr", verify=True)
    assert list(nczarr.diff(made(0, 2), tmp_path / "a.zarr")) == []
    tree = nczarr.copy(tmp_path / "a.zarr", xr)
    xr.testing.assert_identical(tree.to_dataset().load(), days(0, 2))
    assert list(nczarr.diff(tree, tmp_path / "a.zarr")) == []
    part = nczarr.copy(tmp_path / "a.zarr", xr, variables="v", select={"time": slice(1, 2)})
    assert dict(part.to_dataset().sizes) == {"time": 1, "x": 4}


def test_missing_texts_are_told_and_a_fill_value_keeps_them(tmp_path: Path) -> None:
    texts = np.array(["a", None, np.nan, ""], object)
    ds = xr.Dataset({"v": ("x", texts)})
    with pytest.warns(UserWarning, match="v: 2 missing values among texts are stored as empty texts"):
        ds.nczarr.to_zarr(tmp_path / "a.zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.nczarr.to_zarr(tmp_path / "b.zarr", encoding={"v": {"_FillValue": "-"}})
        ds[["v"]].isel(x=[0, 3]).nczarr.to_zarr(tmp_path / "c.zarr")
    with xr.open_dataset(tmp_path / "b.zarr", engine="nczarr") as stored:
        assert stored["v"].isnull().values.tolist() == [False, True, True, False]


@pytest.mark.parametrize("name", ["x", "y", "v", None])
def test_an_array_may_have_the_name_of_its_coordinate_or_dimension(tmp_path: Path, name: str | None) -> None:
    array = xr.DataArray([[1.0, 2.0]], dims=("y", "x"), coords={"x": [5, 6]}, name=name)
    array.nczarr.to_netcdf(tmp_path / "a.nc")
    array.nczarr.to_zarr(tmp_path / "a.zarr")
    for path in ("a.nc", "a.zarr"):
        with xr.open_dataarray(tmp_path / path, engine="nczarr") as stored:
            xr.testing.assert_identical(stored.load(), array)


@pytest.mark.parametrize("how", [{"mode": "r+"}, {"mode": "a"}, {"region": "auto"}, {"append_dim": "x"}])
def test_variables_with_another_order_of_dimensions_are_transposed(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    values = np.arange(6.0).reshape(2, 3)
    first = xr.Dataset({"v": (("y", "x"), np.zeros((2, 3)))}, coords={"x": [0, 1, 2], "y": [0, 1]})
    first.nczarr.to_zarr(tmp_path / "a.zarr")
    later = xr.Dataset({"v": (("x", "y"), values.T)}, coords={"x": [0, 1, 2], "y": [0, 1]})
    later.nczarr.to_zarr(tmp_path / "a.zarr", **how)
    with xr.open_zarr(tmp_path / "a.zarr") as stored:
        np.testing.assert_array_equal(stored["v"][:, -3:], values)


@pytest.mark.parametrize("name", ["wrfout_d01_2005-08-28_12:00:00", "a", "a.data", "a.nc4"])
def test_to_netcdf_writes_a_file_of_any_name(tmp_path: Path, name: str) -> None:
    ds = xr.Dataset({"v": ("x", np.array([1, 2]))})
    ds.nczarr.to_netcdf(tmp_path / name)
    ds.rename(v="w").nczarr.to_netcdf(tmp_path / name, mode="a")
    with xr.open_dataset(tmp_path / name, engine="netcdf4") as stored:
        assert {n: v.values.tolist() for n, v in stored.items()} == {"v": [1, 2], "w": [1, 2]}


def test_to_netcdf_without_a_name_returns_the_file(tmp_path: Path) -> None:
    ds = xr.Dataset({"v": ("x", np.array([1, 2]))})
    (tmp_path / "a.nc").write_bytes(ds.nczarr.to_netcdf())
    with (tmp_path / "b.nc").open("wb") as file:
        ds.nczarr.to_netcdf(file, format="NETCDF3_CLASSIC")
    for name, model in (("a.nc", "NETCDF4"), ("b.nc", "NETCDF3_CLASSIC")):
        with netCDF4.Dataset(tmp_path / name) as stored:
            assert stored.data_model == model
            assert stored["v"][:].tolist() == [1, 2]


@pytest.mark.parametrize("name", ["a.zip", "s3://b/a", "folder", "a.cdl"])
def test_to_netcdf_refuses_names_of_other_formats(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="is not the name of a netCDF file"):
        xr.Dataset().nczarr.to_netcdf(name if ":" in name else tmp_path / name)


def test_to_zarr_on_an_existing_store_names_its_own_mode(tmp_path: Path, made: Any) -> None:
    made(0, 2).nczarr.to_zarr(tmp_path / "a.zarr")
    with pytest.raises(DatasetExistsError, match="mode='w' replaces it") as caught:
        made(0, 3).nczarr.to_zarr(tmp_path / "a.zarr")
    assert "overwrite" not in str(caught.value)
    made(0, 3).nczarr.to_zarr(tmp_path / "a.zarr", mode="w")
    assert xr.open_zarr(tmp_path / "a.zarr").sizes["time"] == 3


def test_a_new_file_has_its_header_before_its_values_are_computed(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    delayed = days(0, 2).chunk(time=1).nczarr.to_netcdf(path, compute=False)
    with netCDF4.Dataset(path) as early:
        assert early["v"].shape == (2, 4)
        assert early["v"][:].mask.all() or np.isnan(early["v"][:]).all()
        assert early["x"][:].tolist() == [10, 20, 30, 40]
    delayed.compute()
    xr.testing.assert_identical(read(path), days(0, 2))


def test_an_existing_file_stays_until_the_values_of_the_new_one_are_computed(tmp_path: Path) -> None:
    """Its own values may be among those of the new one."""
    path = tmp_path / "a.nc"
    days(0, 2).nczarr.to_netcdf(path)
    with xr.open_dataset(path, engine="nczarr", chunks={}) as old:
        delayed = (old[["v"]] + 1).nczarr.to_netcdf(path, compute=False)
        xr.testing.assert_identical(read(path), days(0, 2))
        delayed.compute()
    assert read(path).v.equals(days(0, 2).v + 1)


def test_a_region_behind_the_end_names_the_length_of_the_dimension(store: Any) -> None:
    days(0, 3).nczarr.to_zarr(store)
    values = days(0, 3)[["v"]].drop_vars(["time", "x"])
    for region in (slice(2, 5), slice(10, 13), slice(-9, -6)):
        with pytest.raises(
            ValueError, match=r"outside of the dimension, which has the length 3 \(append_dim"
        ):
            values.nczarr.to_zarr(store, region={"time": region})
    # As in xarray, an end behind the dimension is its end.
    (values * 2).nczarr.to_zarr(store, region={"time": slice(0, 99)})
    assert read(store).v.values.tolist() == (days(0, 3).v.values * 2).tolist()


def test_the_version_of_zarr_is_said_by_the_layout(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"zarr_format=2.*layout='zarr-v2'"):
        days(0, 2).nczarr.to_zarr(tmp_path / "a.zarr", zarr_format=2)
    assert not (tmp_path / "a.zarr").exists()
    with pytest.raises(TypeError, match=r"no option overwrite=.*mode='w'"):
        days(0, 2).nczarr.to_zarr(tmp_path / "a.zarr", overwrite=True)
    days(0, 2).nczarr.to_zarr(tmp_path / "a.zarr", zarr_format=3)
    xr.testing.assert_identical(read(tmp_path / "a.zarr"), days(0, 2))


def test_a_fill_value_that_is_the_text_of_a_number_is_this_number(tmp_path: Path) -> None:
    """As trajan writes it for times, and the engine netcdf4 takes it."""
    data = days(0, 3)
    data.time.encoding.update(_FillValue="NaN", dtype="f8", units="days since 2000-01-01")
    data.v.encoding["_FillValue"] = "-9"
    data.nczarr.to_netcdf(tmp_path / "a.nc")
    data.nczarr.to_zarr(tmp_path / "a.zarr")
    data.to_netcdf(tmp_path / "stock.nc", engine="netcdf4")
    for name in ("a.nc", "a.zarr"):
        found, stock = read(tmp_path / name), xr.load_dataset(tmp_path / "stock.nc", engine="netcdf4")
        xr.testing.assert_identical(found, stock)
        assert np.isnan(found.time.encoding["_FillValue"])
        assert found.v.encoding["_FillValue"] == stock.v.encoding["_FillValue"] == -9
    data.v.encoding["_FillValue"] = "none"
    with pytest.raises(ValueError, match="none"):
        data.nczarr.to_netcdf(tmp_path / "b.nc")


def test_a_path_with_a_method_write_is_no_open_file(tmp_path: Path) -> None:
    class PathThatWrites(type(tmp_path)):  # type: ignore[misc]
        def write(self, data: Any) -> None:
            raise AssertionError("the file was not named by its path")

    path = PathThatWrites(tmp_path / "a.nc")
    assert days(0, 2).nczarr.to_netcdf(path) is None
    xr.testing.assert_identical(read(tmp_path / "a.nc"), days(0, 2))
