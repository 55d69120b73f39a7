"""Copy datasets to the classic formats, which lack types, without a change of a value; netCDF4-python reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nczarr
import nczarr.xarray
from nczarr.errors import LossError

FORMATS = {"classic": "NETCDF3_CLASSIC", "64-bit offset": "NETCDF3_64BIT_OFFSET", "nc7": "NETCDF4_CLASSIC"}
WIDE = ["i8", "u8", "u4", "u2", "u1", "i4", "i2", "i1"]
INT = np.iinfo("i4")


def read(path: Path) -> dict[str, np.ndarray]:
    """Values as netCDF4-python shows them, with the numbers of `_Unsigned` and texts."""
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        return {name: v[...] for name, v in file.variables.items()}


@pytest.mark.parametrize("kind", FORMATS)
def test_types_that_a_classic_format_lacks_keep_their_values(tmp_path: Path, kind: str) -> None:
    values: dict[str, np.ndarray] = {
        "i8": np.array([-5, INT.max, INT.min + 2], "i8"),
        "u8": np.array([0, 7, INT.max], "u8"),
        "u4": np.array([0, 7, 2**32 - 2], "u4"),
        "u2": np.array([0, 7, 65000], "u2"),
        "u1": np.array([0, 7, 255], "u1"),
        "text": np.array(["", "käse", "abc"], object),
    }
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 3)
        ds.setncattr("count", np.int64(5))
        ds.setncattr("list", np.array([1, 70000], "u4"))
        ds.setncattr_string("word", "käse")
        for name, data in values.items():
            v = ds.createVariable(name, str if name == "text" else data.dtype, ("x",))
            v[:] = data
            if name == "u2":
                v.valid_max = np.uint16(65000)
    told = nczarr.copy(tmp_path / "a.zarr", tmp_path / "a.nc", format=kind, verify=True)
    assert len(told) == len(values)
    assert "/u2: ushort is stored as short" in told
    found = read(tmp_path / "a.nc")
    assert {name: found[name].tolist() for name in found} == {name: v.tolist() for name, v in values.items()}
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file.data_model == FORMATS[kind]
        assert (file.count, file.list.tolist(), file.word) == (5, [1, 70000], "käse")
        assert file["text"].dimensions == ("x", "string5")
        assert file["u2"].valid_max == np.int16(65000 - 65536)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (
            INT.max + 1,
            r"/v: the value 2147483648 at \[1, 1\] cannot be stored as int: it is beyond its range",
        ),
        (netCDF4.default_fillvals["i4"], r"at \[1, 1\] cannot be stored as int: it is the fill value there"),
    ],
)
def test_a_number_that_does_not_fit_is_refused_with_its_place(tmp_path: Path, value: int, says: str) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("y", 2)
        ds.createDimension("x", 2)
        ds.createVariable("v", "i8", ("y", "x"))[:] = [[1, 2], [3, value]]
    with pytest.raises(LossError, match=says):
        nczarr.copy(tmp_path / "a.zarr", tmp_path / "a.nc", format="classic")
    assert not (tmp_path / "a.nc").exists()
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "a.nc", format="cdf5")
    assert read(tmp_path / "a.nc")["v"][1, 1] == value


def test_the_fill_value_of_int64_becomes_that_of_int(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 3)
        ds.createVariable("v", "i8", ("x",))[:2] = [3, 4]
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "a.nc", format="classic")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["v"][:].tolist() == [3, 4, None]


@pytest.mark.parametrize(
    ("attribute", "says"),
    [(["a", "b"], "no lists of text"), (np.int64(2**60 + 1), "no type of the format has the numbers")],
)
def test_an_attribute_that_does_not_fit_is_refused_by_name(tmp_path: Path, attribute: Any, says: str) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.setncattr("a", attribute)
    with pytest.raises(LossError, match=f"attribute 'a': .*{says}"):
        nczarr.copy(tmp_path / "a.zarr", tmp_path / "a.nc", format="classic")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_numbers_are_kept_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(WIDE)))
    limits = np.iinfo(dtype)
    near = st.sampled_from(
        [limits.min, limits.max, 0, 1, *(n for n in (INT.min, INT.max) if n in range(limits.min, limits.max))]
    )
    numbers = data.draw(st.lists(near | st.integers(limits.min, limits.max), min_size=1, max_size=6))
    fill = data.draw(st.none() | st.integers(limits.min, limits.max))
    path = tmp_path / "a.zarr"
    with nczarr.Dataset(path, "w") as ds:
        ds.createDimension("x", len(numbers))
        ds.createVariable("v", dtype, ("x",), fill_value=fill)[:] = np.array(numbers, dtype)
    with nczarr.Dataset(path) as ds:
        before = ds["v"][:].tolist()
    try:
        nczarr.copy(path, tmp_path / "a.nc", format="classic", overwrite=True)
    except LossError:
        assert dtype.itemsize == 8
        assert min(numbers) < INT.min or max(numbers) > INT.max or -(2**31) + 1 in numbers
        return
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        after = file["v"][:].tolist()
    if fill is None and dtype.kind == "u" and dtype.itemsize in (2, 4):
        # No reader of short knows the default fill value of ushort; xarray masks neither.
        before = [limits.max if n is None else n for n in before]
        after = [limits.max if n is None else n for n in after]
    assert after == before


def test_times_are_stored_as_xarray_stores_them(tmp_path: Path) -> None:
    times = np.array(["2000-01-01", "2000-01-02T00:00:00.000001", "NaT"], "M8[ns]")
    ds = xr.Dataset(
        {
            "t": ("x", times),
            "d": ("x", times - times[0]),
            "whole": ("x", times.astype("M8[D]").astype("M8[ns]")[:1].repeat(3)),
        }
    )
    ds.nczarr.to_netcdf(tmp_path / "a.nc", format="NETCDF3_CLASSIC")
    ds.to_netcdf(tmp_path / "b.nc", format="NETCDF3_CLASSIC", engine="netcdf4")
    with (
        xr.open_dataset(tmp_path / "a.nc", engine="netcdf4") as ours,
        xr.open_dataset(tmp_path / "b.nc") as theirs,
    ):
        xr.testing.assert_identical(ours.load(), theirs.load())
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert [str(file[name].dtype) for name in ("t", "d", "whole")] == ["float64", "float64", "int32"]


def test_an_existing_classic_file_gets_variables_in_types_that_it_has(tmp_path: Path) -> None:
    first = xr.Dataset({"a": ("x", np.array([1, 2]))}, attrs={"n": 1})
    first.nczarr.to_netcdf(tmp_path / "a.nc", format="NETCDF3_CLASSIC")
    more = xr.Dataset(
        {"b": ("x", np.array(["k", "lm"], object)), "c": ("x", np.array([3, 4]))}, attrs={"n": 2}
    )
    more.nczarr.to_netcdf(tmp_path / "a.nc", mode="a")
    with xr.open_dataset(tmp_path / "a.nc", engine="netcdf4") as stored:
        assert {name: v.values.tolist() for name, v in stored.items()} == {
            "a": [1, 2],
            "b": ["k", "lm"],
            "c": [3, 4],
        }
        assert stored.attrs == {"n": 2}


@pytest.mark.parametrize("kind", [*FORMATS, "cdf5"])
@pytest.mark.parametrize(
    "storage", [{"chunksizes": (2, 3)}, {"chunksizes": (2, 3), "shards": (4, 3)}, {}], ids=repr
)
def test_chunked_texts_become_characters(tmp_path: Path, kind: str, storage: dict[str, Any]) -> None:
    texts = np.array([["ab", "c", ""], ["d", "käse", "f"]] * 3, object)
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 6)
        ds.createDimension("y", 3)
        ds.createVariable("v", str, ("x", "y"), **storage)[:] = texts
        ds.createVariable("w", str, ())[...] = "scalar"
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "a.nc", format=kind, verify=True)
    found = read(tmp_path / "a.nc")
    assert found["v"].tolist() == texts.tolist()
    assert str(found["w"]) == "scalar"


def test_an_attribute_that_says_unsigned_already_is_stored_once(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 2)
        v = ds.createVariable("v", "u1", ("x",))
        v.setncattr("_Unsigned", "false")
        v[:] = [1, 200]
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "a.nc", format="classic")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert (file["v"].getncattr("_Unsigned"), file["v"][:].tolist()) == ("true", [1, 200])
