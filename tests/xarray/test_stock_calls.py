"""Give the accessor calls, values and attributes that xarray's own methods take, and refuse those that they refuse."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr

xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")
netCDF4 = pytest.importorskip("netCDF4")

import nczarr.xarray  # noqa: E402

KINDS = ["a.nc", "a.zarr"]


def write(data: Any, path: Path, **options: Any) -> Any:
    method = data.nczarr.to_netcdf if path.suffix == ".nc" else data.nczarr.to_zarr
    return method(path, **options)


# --- types


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_come_back_as_the_peer_reads_them(tmp_path: Path, name: str, dtype: str) -> None:
    ds = xr.Dataset({"z": ("x", np.array([1 + 2j, 3 - 4j], dtype))})
    write(ds, tmp_path / name)
    with xr.open_dataset(tmp_path / name, engine="nczarr") as back:
        xr.testing.assert_identical(back, ds)
        assert back["z"].dtype == dtype
    peer = {"engine": "netcdf4", "auto_complex": True} if name == "a.nc" else {"engine": "zarr"}
    with xr.open_dataset(tmp_path / name, **peer) as theirs:
        xr.testing.assert_identical(theirs, ds)


def test_complex_arrays_of_stock_xarray_stay_complex_in_each_format(tmp_path: Path) -> None:
    ds = xr.Dataset({"z": ("x", np.array([1 + 2j, 3 - 4j]))})
    ds.to_zarr(tmp_path / "stock.zarr", zarr_format=3)
    nczarr.copy(tmp_path / "stock.zarr", tmp_path / "a.nc")
    nczarr.copy(tmp_path / "a.nc", tmp_path / "b.zarr")
    for name in ("stock.zarr", "a.nc", "b.zarr"):
        with xr.open_dataset(tmp_path / name, engine="nczarr") as back:
            xr.testing.assert_identical(back, ds)
    later = xr.Dataset({"z": ("x", np.array([9j]))})
    later.nczarr.to_zarr(tmp_path / "b.zarr", append_dim="x")
    with xr.open_dataset(tmp_path / "b.zarr", engine="zarr") as back:
        assert back["z"].values.tolist() == [1 + 2j, 3 - 4j, 9j]


def test_half_floats_keep_their_type_in_zarr_and_are_floats_with_a_note_in_files(tmp_path: Path) -> None:
    ds = xr.Dataset({"h": ("x", np.array([1.5, np.nan, 3], "f2"))})
    ds.nczarr.to_zarr(tmp_path / "a.zarr")
    assert zarr.open(tmp_path / "a.zarr")["h"].dtype == "float16"
    with pytest.warns(UserWarning, match="float16; the values are stored as float"):
        ds.nczarr.to_netcdf(tmp_path / "a.nc")
    for name, dtype in (("a.zarr", "float16"), ("a.nc", "float32")):
        with xr.open_dataset(tmp_path / name, engine="nczarr") as back:
            assert back["h"].dtype == dtype
            np.testing.assert_array_equal(back["h"].values, ds["h"].values)


@pytest.mark.parametrize("name", KINDS)
def test_booleans_come_back_and_have_the_type_of_zarr_there(tmp_path: Path, name: str) -> None:
    ds = xr.Dataset({"b": ("x", [True, False])})
    write(ds, tmp_path / name)
    with xr.open_dataset(tmp_path / name, engine="nczarr") as back:
        xr.testing.assert_identical(back, ds)
        write(back, tmp_path / f"again-{name}")
    for path in (tmp_path / name, tmp_path / f"again-{name}"):
        with xr.open_dataset(path, engine="netcdf4" if path.suffix == ".nc" else "zarr") as theirs:
            xr.testing.assert_identical(theirs, ds)
        assert path.suffix == ".nc" or zarr.open(path)["b"].dtype == bool


# --- names, coordinates, places


@pytest.mark.parametrize("name", KINDS)
def test_a_variable_without_a_name_comes_back_without_one(tmp_path: Path, name: str) -> None:
    ds = xr.Dataset({None: ("x", [1, 2])})
    write(ds, tmp_path / name)
    with xr.open_dataset(tmp_path / name, engine="nczarr") as back:
        xr.testing.assert_identical(back, ds)


@pytest.mark.parametrize("name", KINDS)
def test_inherited_coordinates_are_written_into_each_group_if_that_is_asked_for(
    tmp_path: Path, name: str
) -> None:
    groups = {"/": xr.Dataset(coords={"x": [1, 2, 3]}), "/child": xr.Dataset({"v": ("x", [4, 5, 6])})}
    tree = xr.DataTree.from_dict(groups)
    write(tree, tmp_path / name)
    write(tree, tmp_path / f"all-{name}", write_inherited_coords=True)
    with xr.open_dataset(tmp_path / name, engine="nczarr", group="child") as child:
        assert list(child.variables) == ["v"]
    with xr.open_dataset(tmp_path / f"all-{name}", engine="nczarr", group="child") as child:
        xr.testing.assert_identical(child, tree["child"].to_dataset())
    with xr.open_datatree(tmp_path / f"all-{name}", engine="nczarr") as back:
        xr.testing.assert_identical(back, tree)


@pytest.mark.filterwarnings("error:.*locks")
@pytest.mark.filterwarnings("error:.*marker")
def test_to_netcdf_takes_urls_of_netcdf_c_for_zarr_hierarchies(tmp_path: Path) -> None:
    ds = xr.Dataset({"v": ("x", [1, 2])})
    ds.nczarr.to_netcdf(f"file://{tmp_path}/a.zarr#mode=nczarr")
    with xr.open_dataset(tmp_path / "a.zarr", engine="zarr") as theirs:
        xr.testing.assert_identical(theirs, ds)
    ds.rename(v="w").nczarr.to_netcdf(f"file://{tmp_path}/a.zarr#mode=nczarr,file", mode="a")
    with xr.open_dataset(f"file://{tmp_path}/a.zarr#mode=nczarr", engine="nczarr") as back:
        assert set(back.variables) == {"v", "w"}


def test_several_variables_are_loaded_at_a_time(tmp_path: Path) -> None:
    ds = xr.Dataset({"v": ("x", [1, 2]), "w": ("x", [3.0, 4.0])})
    ds.nczarr.to_zarr(tmp_path / "a.zarr")
    with xr.open_dataset(tmp_path / "a.zarr", engine="nczarr") as back:
        xr.testing.assert_identical(asyncio.run(back.load_async()), ds)


def test_an_encoding_names_the_chunks_as_zarr_does(tmp_path: Path) -> None:
    ds = xr.Dataset({"v": (("x", "y"), np.ones((4, 4)))})
    keys = {"name": "v2", "configuration": {"separator": "/"}}
    ds.nczarr.to_zarr(tmp_path / "a.zarr", encoding={"v": {"chunk_key_encoding": keys, "chunks": (2, 2)}})
    assert (tmp_path / "a.zarr" / "v" / "1" / "0").is_file()
    with xr.open_dataset(tmp_path / "a.zarr", engine="zarr") as theirs:
        xr.testing.assert_identical(theirs, ds)


# --- attributes


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("attribute", "error", "message"),
    [
        ({123: "text"}, TypeError, "Invalid name for attr: 123"),
        ({"": "text"}, ValueError, "Invalid name for attr ''"),
        ({"a": object()}, TypeError, "Invalid value for attr 'a'"),
        ({"a": xr.DataArray(1.0)}, TypeError, "Invalid attribute in Dataset.attrs"),
        ({"a": None}, TypeError, "Invalid value for attr 'a'"),
    ],
)
def test_what_no_attribute_can_be_is_refused_at_the_call(
    tmp_path: Path, name: str, attribute: dict[Any, Any], error: type[Exception], message: str
) -> None:
    ds = xr.Dataset({"v": ("x", [1, 2])})
    for data in (ds.assign_attrs(attribute), ds.assign(v=ds["v"].assign_attrs(attribute))):
        with pytest.raises(error, match=message):
            write(data, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_attributes_that_are_objects_come_back_from_zarr_and_are_refused_for_files(tmp_path: Path) -> None:
    ds = xr.Dataset({"v": ("x", [1, 2], {"crs": {"name": "WGS 84", "axes": [1, 2]}})})
    ds.nczarr.to_zarr(tmp_path / "a.zarr")
    for engine in ("zarr", "nczarr"):
        with xr.open_dataset(tmp_path / "a.zarr", engine=engine) as back:
            xr.testing.assert_identical(back, ds)
    with pytest.raises(TypeError, match=r"Invalid value for attr 'crs'.*json\.dumps"):
        ds.nczarr.to_netcdf(tmp_path / "a.nc")
    # An attribute of the source that nobody has changed is text in a file, as by a copy.
    with xr.open_dataset(tmp_path / "a.zarr", engine="nczarr") as back:
        back.nczarr.to_netcdf(tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["v"].crs == '{"name":"WGS 84","axes":[1,2]}'


# --- the words of errors


def test_errors_of_to_netcdf_do_not_advise_the_arguments_of_to_zarr(tmp_path: Path) -> None:
    ds = xr.Dataset({"v": (("x", "y"), np.ones((4, 3)))})
    ds.nczarr.to_netcdf(tmp_path / "a.nc")
    with pytest.raises(ValueError, match="Unable to update size for existing dimension 'x'") as caught:
        ds.isel(x=slice(2)).nczarr.to_netcdf(tmp_path / "a.nc", mode="a")
    assert "to_zarr" not in str(caught.value)
    with pytest.raises(ValueError, match="different dimension names") as caught:
        ds.rename(x="z").nczarr.to_netcdf(tmp_path / "a.nc", mode="a")
    assert "to_zarr" not in str(caught.value)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("values", "encoding", "message"),
    [
        ([1.0, 2.0], {"_FillValue": "abc"}, "values of float64 .*'_FillValue': 'abc'.*could not convert"),
        ([1.0, 2.0], {"dtype": "i1", "scale_factor": "a"}, "values of float64 .*'scale_factor': 'a'"),
        (["a", "b"], {"dtype": "i4"}, "values of <U1 .*'dtype': 'i4'"),
        (
            np.array(["2000-01-01"] * 2, "M8[ns]"),
            {"units": "furlongs since tomorrow"},
            "values of datetime64.*furlongs since tomorrow",
        ),
        (np.array([[1], [1, 2]], object), {}, "values of object cannot be stored"),
    ],
)
def test_an_encoding_that_does_not_fit_is_named_with_its_variable(
    tmp_path: Path, name: str, values: Any, encoding: dict[str, Any], message: str
) -> None:
    ds = xr.Dataset({"fine": ("x", [1, 2]), "odd": ("x", values)})
    ds["odd"].encoding = encoding
    with pytest.raises(nczarr.NCZarrError, match=f"^odd: {message}"):
        write(ds, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_scalar_with_the_name_of_a_dimension_is_told_with_the_way_round_it(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 2)
        ds.createVariable("x", "i4", ())
        ds.createVariable("v", "i4", ("x",))[:] = 1
    with pytest.raises(ValueError, match=r"/x: .*scalar variable \(drop_variables=\['x'\]"):
        xr.open_dataset(tmp_path / "a.zarr", engine="nczarr")
    with xr.open_dataset(tmp_path / "a.zarr", engine="nczarr", drop_variables=["x"]) as back:
        assert back["v"].values.tolist() == [1, 1]


def test_an_option_of_another_engine_is_refused_by_name(tmp_path: Path) -> None:
    xr.Dataset({"v": ("x", [1])}).nczarr.to_zarr(tmp_path / "a.zarr")
    with pytest.raises(TypeError, match="the engine nczarr has no option consolidated"):
        xr.open_dataset(tmp_path / "a.zarr", engine="nczarr", consolidated=True)


@pytest.mark.parametrize("name", KINDS)
def test_none_in_an_encoding_is_no_entry(tmp_path: Path, name: str) -> None:
    none = dict.fromkeys(("dtype", "units", "calendar", "scale_factor", "add_offset", "chunks", "zlib"))
    ds = xr.Dataset({"v": ("x", [1.5, 2.5])})
    write(ds, tmp_path / name, encoding={"v": {**none, "_FillValue": None}})
    ds["v"].encoding = none
    write(ds, tmp_path / f"own-{name}")
    for place, fills in ((tmp_path / name, False), (tmp_path / f"own-{name}", True)):
        with xr.open_dataset(place, engine="nczarr") as back:
            xr.testing.assert_identical(back, ds)
            assert ("_FillValue" in back["v"].encoding) is fills


@pytest.mark.parametrize("format", ["NETCDF3_CLASSIC", "NETCDF3_64BIT", "NETCDF4_CLASSIC"])
def test_a_call_that_asks_for_strings_in_a_classic_format_is_refused(tmp_path: Path, format: str) -> None:
    ds = xr.Dataset({"t": ("x", ["ab", "c"])})
    with pytest.raises(ValueError, match="dtype=str for vlen strings"):
        ds.nczarr.to_netcdf(tmp_path / "a.nc", format=format, encoding={"t": {"dtype": str}})
    ds.nczarr.to_netcdf(tmp_path / "a.nc", format=format)
    with xr.open_dataset(tmp_path / "a.nc", engine="nczarr") as back:
        xr.testing.assert_equal(back, ds)


def test_compute_false_without_a_name_says_which_call_does_it() -> None:
    with pytest.raises(NotImplementedError, match=r"compute=False is not yet implemented.*NAME\.nc"):
        xr.Dataset().nczarr.to_netcdf(compute=False)
