"""Several files as one."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr.netcdf4 as ours
from nczarr.errors import NCZarrError

Same = Callable[[Callable[[Any, str, Any], None]], None]


def make(nc: Any, path: str, n: int = 3) -> list[str]:
    names = []
    for i in range(n):
        name = path.replace("data", f"part{i}")
        with nc.Dataset(name, "w", format="NETCDF4_CLASSIC") as ds:
            ds.title = f"part {i}"
            ds.createDimension("t", None)
            ds.createDimension("x", 3)
            t = ds.createVariable("time", "f8", ("t",))
            t.units, t.calendar = f"days since 2000-0{i + 1}-01", "standard"
            v = ds.createVariable("v", "i4", ("t", "x"))
            v.units = "K"
            p = ds.createVariable("p", "i2", ("t",))
            p.scale_factor = 0.5
            ds.createVariable("fixed", "f4", ("x",))[:] = i
            size = 2 + i
            t[:] = np.arange(size)
            v[:] = np.ma.masked_equal(np.arange(size * 3).reshape(size, 3) + 100 * i, 101)
            p[:] = np.arange(size)
        names.append(name)
    return names


INDICES = [
    slice(None), 0, 1, 2, 8, -1, slice(1, 7), slice(None, None, 2), slice(3, 4), slice(0, 0),
    (slice(None), 1), (2, 1), (slice(1, 5), slice(0, 2)), (slice(None), slice(None, None, 2)),
    [0, 3, 8], (Ellipsis, 0), slice(None, None, -1), slice(5, 100),
]  # fmt: skip


def test_reading(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        make(nc, path)
        ds = nc.MFDataset(path.replace("data", "part*"))
        v = ds.variables["v"]
        log(v.shape, v.ndim, len(v), str(v.typecode()), v.ncattrs(), v.units, v.dimensions)
        for index in INDICES:
            log.attempt(lambda index=index: np.ma.filled(v[index], -9))
            if not isinstance(index, tuple):
                log.attempt(lambda index=index: np.ma.filled(ds.variables["p"][index], -9))
        v.set_auto_mask(False)
        log.attempt(lambda: v[:])
        ds.variables["p"].set_auto_scale(False)
        log(ds.variables["p"][1:3], ds.variables["fixed"][:])
        log(ds.title, ds.ncattrs(), list(ds.variables), list(ds.dimensions), len(ds.dimensions["t"]))
        log(ds.dimensions["t"].isunlimited(), ds.data_model, ds.isopen(), len(ds.dimensions["x"]))
        ds.close()
        log(ds.isopen())

    same(script)


def test_lists_of_positions(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        paths = [path.replace("data", f"part{i}") for i in range(2)]
        for i, name in enumerate(paths):
            with nc.Dataset(name, "w", format="NETCDF4_CLASSIC") as ds:
                for dim, size in (("t", None), ("y", 5), ("z", 7)):
                    ds.createDimension(dim, size)
                v = ds.createVariable("v", "i4", ("t", "y", "z"))
                v[:] = np.arange(105 * i, 105 * (i + 1)).reshape(3, 5, 7)
        with nc.MFDataset(paths) as ds:
            v = ds.variables["v"]
            # Equal distances downwards are no slice with a negative step.
            for elem in (([5, 1, 5], slice(None), [6, 2]), ([5, 3, 1], [4, 0]), ([4, 2],), (2, [3, 2], 0)):
                log(v[elem])
            log.attempt(lambda: v[:, ::-1])
            log.attempt(lambda: v[::-1])

    same(script)


def test_masks(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        names = make(nc, path)
        ds = nc.MFDataset(names, aggdim="t", exclude=["p"], master_file=names[1])
        log(
            ds.variables["v"][:].mask,
            type(ds.variables["v"][:2]).__name__,
            type(ds.variables["v"][2:4]).__name__,
        )
        log(ds.title, ds.variables["v"].shape, ds.variables["fixed"][:])
        ds.close()

    same(script)


def test_refusals(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        names = make(nc, path)
        other = path.replace("data", "other")
        with nc.Dataset(other, "w", format="NETCDF4_CLASSIC") as ds:
            ds.createDimension("t", None)
            ds.createDimension("x", 4)
            ds.createVariable("v", "i4", ("t", "x"))
        fixed = path.replace("data", "fixed")
        with nc.Dataset(fixed, "w", format="NETCDF4_CLASSIC") as ds:
            ds.createDimension("t", 2)
        log.attempt(lambda: nc.MFDataset([]))
        log.attempt(lambda: nc.MFDataset(path + "*nothing*"))
        log.attempt(lambda: nc.MFDataset([*names, other], check=True))
        log.attempt(lambda: nc.MFDataset([fixed]))
        log.attempt(lambda: nc.MFDataset(names, aggdim="nope"))
        log.attempt(lambda: nc.MFDataset(names, aggdim="t", exclude=["v", "p", "time"]))
        log.attempt(lambda: nc.MFDataset(names, master_file="nope"))

    same(script)


def test_times(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        names = make(nc, path)
        ds = nc.MFDataset(names)
        time = nc.MFTime(ds.variables["time"])
        log(time[:], time[3], time.units, time.calendar, len(time))
        log(nc.MFTime(ds.variables["time"], units="days since 1999-12-31", calendar="standard")[1:4])
        ds.close()
        with nc.Dataset(names[2], "a") as last:
            last["time"].calendar = "noleap"
        with_two = nc.MFDataset(names)
        log.attempt(lambda: nc.MFTime(with_two.variables["time"]))

    same(script)


def test_netcdf4_datasets_with_text_are_joined_too(tmp_path: Path) -> None:
    for i in range(2):
        with ours.Dataset(tmp_path / f"{i}.zarr", "w") as ds:
            ds.createDimension("t", None)
            ds.createVariable("s", str, ("t",))[:] = np.array([f"a{i}", f"b{i}"], object)
    ds = ours.MFDataset(str(tmp_path / "*.zarr"))
    assert ds.variables["s"][:].tolist() == ["a0", "b0", "a1", "b1"]
    assert ds.variables["s"][[0, 3]].tolist() == ["a0", "b1"]
    assert "MFDataset" in repr(ds)
    assert isinstance(ds, ours.Dataset)
    with pickle.loads(pickle.dumps(ds)) as again:
        assert again.variables["s"][:].tolist() == ["a0", "b0", "a1", "b1"]
    ds.close()


@pytest.mark.parametrize(
    ("units", "wanted"),
    [
        ("days since 2000-01-01", [0, 1, 31.25, 32.25]),
        ("hours since 2000-01-01", [0, 1, 31 * 24 + 6, 31 * 24 + 7]),
        ("milliseconds since 2000-01-01", [0, 1, 31 * 86400000 + 21600000, 31 * 86400000 + 21600001]),
    ],
)
def test_whole_numbers_become_right_times(units: str, wanted: list[float], tmp_path: Path) -> None:
    """netCDF4-python cuts parts of a day, and refuses what its type cannot hold."""
    names = []
    for name, since in (("a.nc", "2000-01-01"), ("b.nc", "2000-02-01 06:00")):
        names.append(str(tmp_path / name))
        with ours.Dataset(names[-1], "w", format="NETCDF3_CLASSIC") as ds:
            ds.createDimension("t", None)
            t = ds.createVariable("time", "i4", ("t",))
            t.units, t.calendar = f"{units.split()[0]} since {since}", "standard"
            t[:] = [0, 1]
    with ours.MFDataset(names) as ds:
        times = ours.MFTime(ds.variables["time"], units=units)
        assert times[:].tolist() == wanted
        assert [times[i] for i in range(4)] == wanted
        whole = times[:2]
        assert whole.dtype == "i4"


@pytest.mark.parametrize("type_", ["i4", "f8"])
def test_hours_of_one_file_become_days_of_another(type_: str, tmp_path: Path) -> None:
    """netCDF4-python takes them for days."""
    names = []
    for name, units in (("a.nc", "days since 2000-01-01"), ("b.nc", "hours since 2000-02-01")):
        names.append(str(tmp_path / name))
        with ours.Dataset(names[-1], "w", format="NETCDF3_CLASSIC") as ds:
            ds.createDimension("t", None)
            t = ds.createVariable("time", type_, ("t",))
            t.units, t.calendar = units, "standard"
            t[:] = [0, 12, 24]
    with ours.MFDataset(names) as ds:
        assert ours.MFTime(ds.variables["time"])[:].tolist() == [0, 12, 24, 31, 31.5, 32]
        hours = ours.MFTime(ds.variables["time"], units="hours since 2000-01-01")
        assert hours[:].tolist() == [0, 288, 576, 744, 756, 768]
        assert hours[4] == 756


def test_units_that_a_calendar_does_not_have(tmp_path: Path) -> None:
    name = str(tmp_path / "a.nc")
    with ours.Dataset(name, "w", format="NETCDF3_CLASSIC") as ds:
        ds.createDimension("t", None)
        t = ds.createVariable("time", "i4", ("t",))
        t.units, t.calendar = "days since 1999-12-31", "360_day"
        t[:] = 0
    with ours.MFDataset([name]) as ds, pytest.raises(ValueError, match="30 days") as error:
        ours.MFTime(ds.variables["time"])
    assert isinstance(error.value, NCZarrError)
