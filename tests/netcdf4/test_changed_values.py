"""Write values that come back as others: the casts are netCDF4-python's, and one warning names the first value."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczarr
from nczarr.netcdf4.values.changes import ChangedValueWarning

PACKED: dict[str, Any] = {"scale_factor": 0.01}

#: Type, attributes, fill value, values, and what the warning says.
CHANGED = [
    ("i2", {}, None, np.array([1, 2, 3, 70000]), r"70000 at \[3\] is stored as 4464 \(int16\)"),
    ("i4", {}, None, np.array([1, 2.7, 3, 4]), r"2.7 at \[1\] is stored as 2 \(int32\)"),
    ("i4", {}, None, [1, 2.7, 3, 4], r"2.7 at \[1\] is stored as 2 \(int32\)"),
    ("u1", {}, None, np.array([1, -1, 3, 4]), r"-1 at \[1\] is stored as 255 \(uint8\)"),
    ("i4", {}, None, np.array([1, np.nan, 3, 4]), r"nan at \[1\] is stored as -\d+ \(int32\)"),
    ("i4", {}, -9, np.array([1, np.nan, 3, 4]), r"nan at \[1\] is stored as -\d+ \(int32\)"),
    ("i2", PACKED, None, np.array([1, 400.0, 3, 4]), r"400.0 at \[1\] is stored as -255.36 \(int16 with "),
    ("f4", {}, None, np.array([1, 1e300, 3, 4]), r"1e\+300 at \[1\] is stored as inf \(float32\)"),
    ("i8", {}, None, np.array([1, 2**63, 3, 4], "u8"), r"9223372036854775808 at \[1\] is stored as -9\d+"),
    ("i1", {}, None, np.array([1, 200, 3, 4], "u1"), r"200 at \[1\] is stored as -56 \(int8\)"),
    ("i4", {"units": "days since 2000-01-01"}, None, np.array([1, 2.5, 3, 4]), r"2.5 at \[1\] is stored as 2"),
    ("i4", {}, None, np.ma.masked_equal([7, 1.5, 7, 4], 7), r"1.5 at \[1\] is stored as 1"),
]  # fmt: skip
KEPT = [
    ("i2", {}, None, np.array([1, 2, 3, 4])),
    ("i4", {}, None, np.array([1.0, 2, 3, 4])),
    ("i4", {}, -99, np.array([1, -99.0, 3, 4])),
    ("i4", {}, None, np.ma.masked_equal([1.0, 7, 3, 4], 7)),
    ("i1", {}, None, np.ma.masked_equal([1.0, 7, 3, 4], 7)),
    ("i2", PACKED, None, np.array([1, 3.999, 3, 4])),
    ("i2", PACKED, -1, np.ma.masked_equal([1, 400.0, 3, 4], 400)),
    ("i2", PACKED, -1, np.ma.masked_all(4)),
    ("f4", {}, None, np.array([1, 0.1, np.nan, np.inf])),
    ("f4", {}, None, np.array([1, 2**40 + 1, 3, 4])),
    ("i1", {"_Unsigned": "true"}, None, np.array([1, 200, 3, 4], "u1")),
    ("f8", {}, None, np.array([1, 2**63 - 1, 3, 4])),
    ("i4", {}, None, np.array([True, False, True, True])),
]


def write(library: Any, path: Path, case: tuple[Any, ...], times: int = 1) -> tuple[np.ndarray, list[Any]]:
    kind, attributes, fill, values = case[:4]
    with library.Dataset(path, "w") as dataset:
        dataset.createDimension("x", 4)
        v = dataset.createVariable("v", kind, ("x",), fill_value=fill)
        v.setncatts(attributes)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(times):
                v[:] = values
        v.set_auto_maskandscale(False)
        return v[:], [w for w in caught if issubclass(w.category, ChangedValueWarning)]


@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
@pytest.mark.parametrize("case", CHANGED, ids=lambda case: f"{case[0]}-{case[3]}")
def test_the_first_changed_value_is_named_once(case: tuple[Any, ...], name: str, tmp_path: Path) -> None:
    stored, caught = write(nczarr, tmp_path / name, case, times=3)
    (warning,) = caught
    assert warning.filename == __file__
    assert re.search(case[4], str(warning.message))
    assert f"{name}: /v: " in str(warning.message)
    expected, _ = write(netCDF4, tmp_path / "library.nc", case)
    np.testing.assert_array_equal(stored, expected)


@pytest.mark.parametrize("case", KEPT, ids=lambda case: f"{case[0]}-{case[3]}")
def test_values_that_come_back_cause_no_warning(case: tuple[Any, ...], tmp_path: Path) -> None:
    assert write(nczarr, tmp_path / "a.zarr", case)[1] == []


def test_the_place_is_that_in_the_variable(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as dataset:
        dataset.createDimension("t")
        dataset.createDimension("x", 4)
        for number, (key, values, place) in enumerate(
            [
                (5, np.array([1, 2, 3, 70000.0]), "[5, 3]"),
                ((2, slice(None, None, -1)), np.array([1.5, 2, 3, 4]), "[2, 3]"),
                ((slice(0, 2), [1, 3]), np.array([[1, 2], [3, 4.5]]), "[1, 3]"),
                ((1, 2), 2.5, "[1, 2]"),
                (..., np.full((3, 4), 2.25), "[0, 0]"),
            ]
        ):
            v = dataset.createVariable(f"v{number}", "i2", ("t", "x"))
            with pytest.warns(ChangedValueWarning) as caught:
                v[key] = values
            assert f" at {place} is stored" in str(caught[0].message)


def test_each_variable_has_a_warning_of_its_own(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as dataset:
        dataset.createDimension("x", 4)
        for name in ("a", "b"):
            v = dataset.createVariable(name, "i4", ("x",))
            v[:] = np.arange(4.0)
            with pytest.warns(ChangedValueWarning, match=f"/{name}: 0.5 at"):
                v[:] = np.arange(4.0) + 0.5


def test_asked_rounding_is_no_change(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as dataset, warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset.createDimension("x", 4)
        dataset.createVariable("a", "f4", ("x",), least_significant_digit=1)[:] = [0.123456, 1, 2, 3]
        dataset.createVariable("b", "f4", ("x",), significant_digits=2)[:] = [0.123456, 1, 2, 3]
