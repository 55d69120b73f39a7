"""Join files with different units of time; netCDF4's num2date is the oracle."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
from dying_store import Died, DyingStore
from hypothesis import assume, example, given
from hypothesis import strategies as st

import nczarr
from nczarr.cli import main
from nczarr.convert import digest
from nczarr.convert.many.joining import join
from nczarr.errors import ModelError, NCZarrError, UnsupportedError
from nczarr.mapping.dataset.maintenance import clean
from nczarr.model import (
    DOUBLE,
    FLOAT,
    INT,
    INT64,
    SHORT,
    UINT,
    Attribute,
    Dataset,
    Dimension,
    MemorySource,
    Type,
    Variable,
)
from nczarr.stores import LocalStore, MemoryStore

TYPES: dict[str, Type] = {"i2": SHORT, "i4": INT, "u4": UINT, "i8": INT64, "f4": FLOAT, "f8": DOUBLE}


def times(values: Any, units: str, type_: str = "f8", **attributes: Any) -> Dataset:
    """A dataset with times that are no coordinate, so that their order does not matter."""
    own = tuple(
        Attribute.of(name, value, TYPES[type_] if name == "_FillValue" else None)
        for name, value in {"units": units, **attributes}.items()
    )
    data = np.array(values, type_)
    return Dataset(
        "d",
        dimensions=(Dimension("n", len(data)),),
        variables=(Variable("t", TYPES[type_], ("/n",), attributes=own, data=MemorySource(data)),),
    )


def joined(*parts: Dataset) -> tuple[np.ndarray, str, str]:
    """The stored numbers of parts that are joined, with units and calendar."""
    with join(parts, "n") as made:
        variable = made.all_variables["/t"]
        assert variable.data is not None
        calendar = variable.attribute.get("calendar")
        return (
            variable.data.read((slice(0, variable.data.shape[0], 1),)),
            variable.attribute["units"].text,
            "standard" if calendar is None else calendar.text,
        )


def meant(values: np.ndarray, units: str, calendar: str, scale: float = 1, offset: float = 0) -> list[Any]:
    """What numbers mean, after unpacking."""
    unpacked = values.astype("f8") * scale + offset if (scale, offset) != (1, 0) else values
    return list(netCDF4.num2date(unpacked, units, calendar))


@given(
    type_=st.sampled_from(list(TYPES)),
    values=st.lists(st.integers(-30000, 30000), min_size=1, max_size=4),
    units=st.tuples(*[st.sampled_from(["days", "hours", "minutes", "seconds", "d", "hr", "msec"])] * 2),
    dates=st.tuples(*[st.sampled_from(["1850-01-01", "2000-02-29 12:00", "2000-03-01 06:00:00 +02:00"])] * 2),
    calendar=st.sampled_from(["standard", "noleap", "proleptic_gregorian"]),
    packing=st.sampled_from([(1, 0), (0.5, 0), (0.1, 3.0), (2, -7)]),
)
@example("i4", [0, 1], ("days", "days"), ("1850-01-01", "2000-02-29 12:00"), "standard", (0.5, 0))
@example("i2", [0, 1], ("hours", "hours"), ("1850-01-01", "2000-02-29 12:00"), "standard", (1, 0))
@example("f4", [1], ("seconds", "seconds"), ("1850-01-01", "2000-02-29 12:00"), "standard", (1, 0))
def test_they_mean_the_same_or_are_refused(
    type_: str,
    values: list[int],
    units: tuple[str, str],
    dates: tuple[str, str],
    calendar: str,
    packing: tuple[float, float],
) -> None:
    assume(calendar != "noleap" or "02-29" not in "".join(dates))
    if type_.startswith("u"):
        values = [abs(v) for v in values]
    more: dict[str, Any] = {"calendar": calendar}
    if packing != (1, 0):
        more |= {"scale_factor": float(packing[0]), "add_offset": float(packing[1])}
    words = [f"{unit} since {date}" for unit, date in zip(units, dates, strict=True)]
    first, second = (times(values, word, type_, **more) for word in words)
    try:
        made, unit, name = joined(first, second)
    except UnsupportedError as error:
        assert "would be stored as" in str(error)
        # Doubles, and whole numbers in like units with room, are no reason to refuse.
        assert type_ != "f8"
        return
    wanted = [d for word in words for d in meant(np.array(values, type_), word, calendar, *packing)]
    found = meant(made, unit, name, *packing)
    assert all(abs((a - b).total_seconds()) < 3e-5 for a, b in zip(found, wanted, strict=True))


def test_whole_numbers_are_exact() -> None:
    since = np.array([0, 1, 2**60 + 1], "i8")
    made, *_ = joined(
        times(since, "microseconds since 2000-01-01", "i8"),
        times(since, "microseconds since 2000-01-02", "i8"),
    )
    assert made.tolist() == [0, 1, 2**60 + 1, 86_400_000_000, 86_400_000_001, 2**60 + 1 + 86_400_000_000]


@pytest.mark.parametrize(
    ("type_", "attributes", "missing"),
    [
        ("i4", {}, netCDF4.default_fillvals["i4"]),
        ("i4", {"_FillValue": -1}, -1),
        ("i4", {"missing_value": -5}, -5),
        ("f8", {}, netCDF4.default_fillvals["f8"]),
        ("f8", {}, np.nan),
    ],
)
def test_missing_times_stay_missing(type_: str, attributes: dict[str, Any], missing: Any) -> None:
    made, *_ = joined(
        times([0], "days since 2000-01-01", type_, **attributes),
        times([1, missing], "days since 2000-02-01", type_, **attributes),
    )
    np.testing.assert_array_equal(made, np.array([0, 32, missing], type_))


def test_a_time_never_becomes_missing() -> None:
    one = times([0], "days since 2000-01-03", "i4", _FillValue=-1)
    with pytest.raises(UnsupportedError, match="would be stored as a missing value"):
        joined(one, times([1], "days since 2000-01-01", "i4", _FillValue=-1))


@pytest.mark.parametrize(
    ("first", "second"),
    [("standard", "gregorian"), ("noleap", "365_day"), (None, "standard"), ("all_leap", "366_day")],
)
def test_names_of_one_calendar(first: str | None, second: str) -> None:
    parts = [
        times([1], f"days since {date}", **({"calendar": name} if name else {}))
        for date, name in (("2001-01-01", first), ("2001-01-02", second))
    ]
    made, *_ = joined(*parts)
    assert made.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("first", "second", "wrong"),
    [
        ({"units": "days since 2000-01-01"}, {"units": "days since 2000-1-1 6:00 +6:00"}, "is ambiguous"),
        ({"units": "days since 2000-01-01"}, {"units": "days since Christmas"}, "is ambiguous"),
        ({"units": "days since 2000-01-01"}, {"units": "months since 2000-01-01"}, "cannot be converted"),
        ({"units": "days since 2000-01-01", "calendar": "noleap"}, {"units": "days since 2000-01-02"}, "calendar"),
        ({"units": "d since 2000-01-01", "_Unsigned": "true"}, {"units": "d since 2000-01-02", "_Unsigned": "true"},
         "_Unsigned"),
        ({"units": "d since 2000-01-01", "scale_factor": 0.0}, {"units": "d since 2000-01-02", "scale_factor": 0.0},
         "scale_factor is 0"),
    ],
)  # fmt: skip
def test_what_is_not_clear_is_refused(first: dict[str, Any], second: dict[str, Any], wrong: str) -> None:
    with pytest.raises((UnsupportedError, ModelError), match=wrong):
        joined(times([1], type_="i4", **first), times([1], type_="i4", **second))


def test_months_of_equal_length() -> None:
    made, *_ = joined(
        times([1], "months since 2000-01-01", calendar="360_day"),
        times([1], "months since 2000-04-01", calendar="360_day"),
    )
    assert made.tolist() == [1, 4]


@pytest.mark.parametrize("dtype", [str, "S1"])
def test_text_has_no_units_of_time(tmp_path: Path, dtype: Any) -> None:
    for i in range(2):
        with netCDF4.Dataset(tmp_path / f"{i}.nc", "w") as file:
            file.createDimension("n", 1)
            file.createVariable("t", dtype, ("n",)).units = f"days since 200{i}-01-01"
    with pytest.raises(NCZarrError, match="the attribute units"):
        nczarr.join(str(tmp_path / "*.nc"), tmp_path / "all.zarr", along="n")


@pytest.mark.parametrize("place", ["time_bnds", "/time_bnds", "outer"])
def test_bounds_go_with_their_coordinate(tmp_path: Path, place: str) -> None:
    """Bounds are found as CF says: beside the coordinate, by path, or further up."""
    for i, since in enumerate(("2000-01-01", "2000-02-01")):
        with netCDF4.Dataset(tmp_path / f"{i}.nc", "w") as file:
            group = file.createGroup("g") if place == "outer" else file
            file.createDimension("time", None)
            file.createDimension("nv", 2)
            t = group.createVariable("time" if place != "outer" else "when", "f8", ("time",))
            t.units, t.bounds = f"days since {since}", "time_bnds" if place == "outer" else place
            b = file.createVariable("time_bnds", "f8", ("time", "nv"))
            t[:], b[:] = [0, 1], [[0, 1], [1, 2]]
    nczarr.join(str(tmp_path / "*.nc"), tmp_path / "all.zarr")
    with nczarr.Dataset(tmp_path / "all.zarr") as found:
        assert found["time_bnds"][:, 0].tolist() == [0, 1, 31, 32]


def whole(
    path: Path, unit: str, numbers: list[int], *, bounds: bool = True, type_: str = "i8", **options: Any
) -> str:
    """A file with whole times since 2026-10-01, as xarray writes them."""
    with netCDF4.Dataset(path, "w", **options) as file:
        file.createDimension("time")
        file.createDimension("nv", 2)
        time = file.createVariable("time", type_, ("time",))
        time.units, time.calendar = f"{unit} since 2026-10-01", "proleptic_gregorian"
        time[:] = numbers
        if bounds:
            time.bounds = "time_bnds"
            file.createVariable("time_bnds", type_, ("time", "nv"))[:] = np.transpose(
                [numbers, np.add(numbers, 1)]
            )
        file.createVariable("v", "f4", ("time",))[:] = np.arange(len(numbers))
    return str(path)


DAYS = [np.datetime64("2026-10-01") + day for day in range(3)]
HOURS = [np.datetime64("2026-10-04T00") + 6 * hour for hour in range(4)]


@pytest.mark.parametrize("target", ["a.zarr", "a.zip", "a.nc", "c.nc"])
def test_whole_days_take_hours_by_adjust(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """xarray stores `int64 days since` by default; six-hourly files follow (xarray#5969, #10639)."""
    monkeypatch.chdir(tmp_path)
    options: dict[str, Any] = {"type_": "i4", "format": "NETCDF3_64BIT_OFFSET"} if target == "c.nc" else {}
    nczarr.copy(whole(tmp_path / "days.nc", "days", [0, 1, 2], **options), target)
    hours = whole(tmp_path / "hours.nc", "hours", [72, 78, 84, 90], **options)
    before = nczarr.digest(target)
    with pytest.raises(
        NCZarrError,
        match=r"/time: 2026-10-04T06:00:00 at \[1\] would.*adjust='times' stores whole numbers of a finer unit",
    ):
        nczarr.append(hours, target)
    assert nczarr.digest(target) == before
    nczarr.append(hours, target, adjust="times", verify=True)
    with nczarr.Dataset(target) as found:
        assert found["time"].units == "hours since 2026-10-01"
        assert found["time"].dtype.kind == "i"
        assert found["time"][:].tolist() == [0, 24, 48, 72, 78, 84, 90]
        assert found["time_bnds"][:, 1].tolist() == [24, 48, 72, 73, 79, 85, 91]
        assert found["v"][:].tolist() == [0, 1, 2, 0, 1, 2, 3]
    if target.endswith((".nc", ".zarr")):
        with xr.open_dataset(target, engine="netcdf4" if target.endswith(".nc") else "zarr") as seen:
            assert seen["time"].values.tolist() == np.array([*DAYS, *HOURS], "M8[ns]").tolist()
    minutes = whole(tmp_path / "minutes.nc", "minutes", [5430, 5460], **options)
    nczarr.append(minutes, target, adjust="times")
    nczarr.append(whole(tmp_path / "more.nc", "minutes", [5490], **options), target)  # fine enough
    with nczarr.Dataset(target) as found:
        assert found["time"].units == "minutes since 2026-10-01"
        assert found["time"][:].tolist()[-4:] == [5400, 5430, 5460, 5490]


def test_chunks_of_times_from_before_stay_until_clean_may_remove_them(tmp_path: Path) -> None:
    target = tmp_path / "a.zarr"
    nczarr.copy(whole(tmp_path / "days.nc", "days", [0, 1, 2]), target)
    hours = whole(tmp_path / "hours.nc", "hours", [72, 78, 84, 90])
    before = {path for path in (target / "time").rglob("*") if path.is_file()}
    with xr.open_dataset(target, engine="zarr") as reader:
        nczarr.append(hours, target, adjust="times")
        assert [line.partition(" remain; ")[0] for line in clean(target)] == [
            f"{target}: 1 chunks of '{name}' from before its times were stored anew"
            for name in ("time", "time_bnds")
        ]
        assert reader["time"].values.tolist() == np.array(DAYS, "M8[ns]").tolist()
    wanted = digest(target).dataset
    assert len(clean(target, force=True)) == 2
    assert clean(target) == []
    assert {path for path in before if path.exists()} == {target / "time" / "zarr.json"}
    assert digest(target).dataset == wanted
    assert main(["check", "--data", str(target)]) == 0


@pytest.mark.parametrize("engine", ["zarr", "nczarr"])
@pytest.mark.parametrize("consolidated", [True, False])
def test_readers_of_times_that_are_stored_anew_see_old_or_new(
    tmp_path: Path, engine: str, consolidated: bool
) -> None:
    """Units and values are in several files of a directory; no reader takes one for the other."""
    target = tmp_path / "a.zarr"
    nczarr.copy(
        whole(tmp_path / "days.nc", "days", [0, 1, 2], bounds=False), target, consolidated=consolidated
    )
    hours = whole(tmp_path / "hours.nc", "hours", [72, 78, 84, 90], bounds=False)
    right = [np.array(steps, "M8[ns]").tolist() for steps in (DAYS, [*DAYS, *HOURS])]
    options = {} if engine == "nczarr" else {"consolidated": consolidated}
    moments: list[Path] = []
    write = LocalStore.set

    def look(self: LocalStore, key: str, *more: Any) -> None:
        write(self, key, *more)
        moments.append(tmp_path / f"{len(moments)}.zarr")
        shutil.copytree(target, moments[-1])

    with xr.open_dataset(target, engine=engine, **options) as before:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LocalStore, "set", look)
            nczarr.append(hours, target, adjust="times")
        assert before["time"].values.tolist() == right[0]  # it reads them only now
    assert len(moments) > 4
    seen = []
    for moment in [*moments, target]:
        with xr.open_dataset(moment, engine=engine, **options) as now:
            seen.append(now["time"].values.tolist())
    assert all(steps in right for steps in seen)
    assert seen[-1] == right[1]


@pytest.mark.filterwarnings("ignore:memory")
def test_times_that_a_dying_writer_stores_anew_stay_right(tmp_path: Path) -> None:
    """It may die at each request; the next append goes on."""
    days = whole(tmp_path / "days.nc", "days", [0, 1, 2])
    hours = whole(tmp_path / "hours.nc", "hours", [72, 78, 84, 90])
    right = [np.array(steps, "M8[ns]").tolist() for steps in (DAYS, [*DAYS, *HOURS])]
    for requests in itertools.count():
        store = MemoryStore()
        nczarr.copy(
            days, store, record_sources=True
        )  # so that an append finds the steps of one that has died
        try:
            nczarr.append(hours, DyingStore(store, requests), adjust="times")
        except Died:
            clean(store, force=True)  # the mark of the writer that has died
        with xr.open_dataset(store, engine="nczarr") as seen:
            steps = seen["time"].values.tolist()
        assert steps in right, requests
        if steps == right[1]:
            break
        nczarr.append(hours, store, adjust="times")
        with xr.open_dataset(store, engine="nczarr") as seen:
            assert seen["time"].values.tolist() == right[1]
    assert requests > 8


def test_joined_whole_days_and_hours_become_hours(tmp_path: Path) -> None:
    paths = [
        whole(tmp_path / "days.nc", "days", [0, 1, 2]),
        whole(tmp_path / "hours.nc", "hours", [72, 78]),
    ]
    with pytest.raises(NCZarrError, match="adjust='times'"):
        nczarr.join(paths, tmp_path / "a.zarr")
    nczarr.join(paths, tmp_path / "a.zarr", adjust="times")
    nczarr.append(
        whole(tmp_path / "half.nc", "minutes", [5070]), tmp_path / "a.zarr"
    )  # goes on by the record
    with nczarr.Dataset(tmp_path / "a.zarr") as found:
        assert found["time"].units == "minutes since 2026-10-01"
        assert found["time"][:].tolist() == [0, 1440, 2880, 4320, 4680, 5070]
