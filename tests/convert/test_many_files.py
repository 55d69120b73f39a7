"""Joining, appending, and converting each of many files; xarray's open_mfdataset and ncrcat's rule are oracles."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr import cdl
from nczarr.cli import main
from nczarr.convert.many.joining import JoinedSource
from nczarr.errors import DatasetExistsError, ModelError, NCZarrError, UnsupportedError
from nczarr.model import MemorySource


def day(path: Path, number: int, *, steps: int = 4, since: str = "2020-01-01", **change: Any) -> Path:
    """A file of one day, six-hourly."""
    rng = np.random.default_rng(number)
    with netCDF4.Dataset(path, "w") as file:
        file.history = f"made on day {number}"
        file.createDimension("time", None)
        file.createDimension("x", 5)
        t = file.createVariable("time", "f8", ("time",))
        t.units = f"hours since {since} 00:00"
        t.calendar = change.get("calendar", "standard")
        shift = (np.datetime64(since) - np.datetime64("2020-01-01")).astype(int) * 24
        t[:] = number * 24 - shift + 6 * np.arange(steps)
        x = file.createVariable("x", "f4", ("x",))
        x[:] = change.get("x", np.arange(5))
        v = file.createVariable("v", change.get("type", "f4"), ("time", "x"), zlib=True)
        v.scale_factor = change.get("scale", 1.0)
        v.setncatts(change.get("attributes", {}))
        v.set_auto_maskandscale(False)
        v[:] = rng.random((steps, 5)) * 100
        if "extra" in change:
            file.createVariable(change["extra"], "i4", ("x",))[:] = 1
    return path


@pytest.fixture
def days(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "in"
    folder.mkdir()
    return [day(folder / f"day{n}.nc", n, since=f"2020-01-{1 + n % 3:02}") for n in range(12)]


@pytest.mark.parametrize("name", ["out.zarr", "out.nc"])
def test_join_is_open_mfdataset(days: list[Path], tmp_path: Path, name: str) -> None:
    nczarr.join(str(tmp_path / "in" / "*.nc"), tmp_path / name)
    options: dict[str, Any] = {} if name.endswith(".nc") else {"engine": "zarr"}
    with (
        xr.open_mfdataset(days, data_vars="minimal") as wanted,
        xr.open_dataset(tmp_path / name, **options) as seen,
    ):
        np.testing.assert_array_equal(seen["time"].values, wanted["time"].values)
        np.testing.assert_array_equal(seen["v"].values, wanted["v"].values)
        assert seen["v"].dims == wanted["v"].dims


def test_a_new_dimension(tmp_path: Path) -> None:
    members = [day(tmp_path / f"m{i}.nc", 0) for i in range(3)]
    for i, path in enumerate(members):
        with netCDF4.Dataset(path, "a") as file:
            file["v"][0, 0] = i
    nczarr.join(members, tmp_path / "all.zarr", along="member")
    with xr.open_dataset(tmp_path / "all.zarr", engine="zarr") as seen:
        assert seen["v"].dims == ("member", "time", "x")
        assert seen["x"].dims == ("x",)
        np.testing.assert_array_equal(seen["v"][:, 0, 0], [0, 1, 2])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x": np.arange(5) + 1}, "/x: the values differ"),
        ({"type": "f8"}, "/v: the type is double, not float"),
        ({"scale": 0.5}, "scale_factor"),
        ({"extra": "w"}, "/w: the first has no such variable"),
        ({"calendar": "noleap", "since": "2020-01-02"}, "calendar"),
        ({"scale": np.float32(1)}, "scale_factor is [1.0] (float), not [1.0] (double)"),
        ({"attributes": {"valid_max": 50.0}}, "valid_max is [50.0], not missing"),
        ({"attributes": {"_Unsigned": "true"}}, "_Unsigned"),
    ],
)
def test_files_that_do_not_fit_are_listed(
    days: list[Path], tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    bad = day(tmp_path / "in" / "day12.nc", 12, **change)
    with pytest.raises(NCZarrError) as caught:
        nczarr.join([*days, bad], tmp_path / "out.zarr")
    assert says in str(caught.value)
    assert "day12.nc" in str(caught.value)
    assert not (tmp_path / "out.zarr").exists()


def test_order_and_repetition(days: list[Path], tmp_path: Path) -> None:
    for wrong in ([days[1], days[0]], [days[0], days[0]]):
        with pytest.raises(UnsupportedError, match="after"):
            nczarr.join(wrong, tmp_path / "out.zarr")
    with pytest.raises(ModelError, match="history"):
        nczarr.join(days, tmp_path / "out.zarr", join="exact")
    with pytest.raises(UnsupportedError, match="no such group"):
        nczarr.join(days, tmp_path / "out.zarr", along="/g/time")
    assert not (tmp_path / "out.zarr").exists()


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=6),
    st.integers(0, 20),
    st.integers(0, 30),
    st.integers(1, 4),
)
def test_joined_values_are_concatenated_ones(lengths: list[int], start: int, stop: int, step: int) -> None:
    parts = [np.random.default_rng(i).random((2, n)) for i, n in enumerate(lengths)]
    whole = np.concatenate(parts, axis=1)
    joined = JoinedSource(tuple(MemorySource(p) for p in parts), 1)
    assert joined.shape == whole.shape
    low, high = min(start, whole.shape[1]), min(max(start, stop), whole.shape[1])
    region = (slice(0, 2, 1), slice(low, high, step))
    np.testing.assert_array_equal(joined.read(region), whole[region])


@pytest.mark.parametrize("name", ["out.zarr", "out.nc"])
def test_append(days: list[Path], tmp_path: Path, name: str) -> None:
    out, whole = tmp_path / name, tmp_path / "whole.zarr"
    nczarr.join(days[:5], out)
    for path in days[5:]:
        nczarr.append(path, out)
    nczarr.join(days, whole)
    assert list(nczarr.diff(whole, out, ignore_attributes=["_NCProperties"])) == []
    before = list(nczarr.diff(whole, out, ignore_attributes=["_NCProperties"]))
    with pytest.raises(UnsupportedError, match="replace=True"):
        nczarr.append(days[3], out)
    assert list(nczarr.diff(whole, out, ignore_attributes=["_NCProperties"])) == before


@pytest.mark.parametrize("name", ["out.zarr", "out.nc"])
def test_all_are_appended_or_none(days: list[Path], tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    nczarr.join(days[:5], out)
    before = nczarr.digest(out)
    bad = day(tmp_path / "bad.nc", 7, scale=0.5)
    for wrong in ([days[5], bad], [days[5], days[5]], [days[5], days[4]], [days[5], tmp_path / "none.nc"]):
        with pytest.raises(NCZarrError):
            nczarr.append(wrong, out)
        assert nczarr.digest(out) == before
    nczarr.append(str(tmp_path / "in" / "day[5-9].nc"), out)
    nczarr.join(days[:10], tmp_path / "whole.zarr")
    assert list(nczarr.diff(tmp_path / "whole.zarr", out, ignore_attributes=["_NCProperties"])) == []


def test_what_is_left_out_need_not_fit(days: list[Path], tmp_path: Path) -> None:
    with netCDF4.Dataset(days[1], "a") as file:
        file.createVariable("extra", "i4", ())
        file["v"].scale_factor = 0.5
    nczarr.join(days, tmp_path / "out.zarr", exclude="v,extra", select={"time": slice(2, 6)})
    with nczarr.Dataset(tmp_path / "out.zarr") as found:
        assert list(found.variables) == ["time", "x"]
        assert found["time"][:].tolist() == [12, 18, 24, 30]


def test_a_variable_with_the_dimension_twice(tmp_path: Path) -> None:
    for i in range(2):
        with netCDF4.Dataset(tmp_path / f"{i}.nc", "w") as file:
            file.createDimension("time", 3)
            file.createVariable("covariance", "f4", ("time", "time"))[:] = i
    with pytest.raises(UnsupportedError, match="/time twice"):
        nczarr.join(str(tmp_path / "*.nc"), tmp_path / "out.zarr")
    assert not (tmp_path / "out.zarr").exists()


@pytest.mark.parametrize("name", ["out.zarr", "out.nc"])
def test_replace(days: list[Path], tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    nczarr.join(days[:5], out)
    with netCDF4.Dataset(days[4], "a") as file:
        file["v"].set_auto_maskandscale(False)
        file["v"][1] = 777
    nczarr.append(days[4:6], out, replace=True)
    nczarr.join(days[:6], tmp_path / "whole.zarr")
    assert list(nczarr.diff(tmp_path / "whole.zarr", out, ignore_attributes=["_NCProperties"])) == []


def test_append_refuses_a_gap_in_the_past(days: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    nczarr.join(days[3:5], out)
    with pytest.raises(UnsupportedError, match="do not follow"):
        nczarr.append(days[0], out)
    with pytest.raises(UnsupportedError, match="append has no option chunks"):
        nczarr.append(days[5], out, chunks="time=1")
    with nczarr.Dataset(out) as dataset:
        assert len(dataset.dimensions["time"]) == 8


WATCH = """
import sys, numpy as np, xarray as xr, nczarr
seen = set()
while True:
    with nczarr.Dataset(sys.argv[1]) as ds:
        n = len(ds.dimensions["time"])
        v = ds["v"][:]
        t = ds["time"][:]
        assert v.shape[0] == t.shape[0] == n, (v.shape, t.shape, n)
        assert not np.ma.getmaskarray(v).any() and not np.ma.getmaskarray(t).any(), n
    with xr.open_dataset(sys.argv[1], engine="zarr", decode_times=False) as x:
        a, b = x["v"].values, x["time"].values
        assert len(a) == len(b) and np.isfinite(a).all() and (np.diff(b) > 0).all()
    if not seen:
        print("ready", flush=True)
    seen.add(n)
    if n == int(sys.argv[2]):
        break
assert all(n % 4 == 0 for n in seen), seen
print(len(seen))
"""


@pytest.mark.parametrize("target", ["a.zarr", "a.nc"])
def test_names_are_not_appended_twice(tmp_path: Path, target: str) -> None:
    text = "netcdf d {{ dimensions: s = UNLIMITED; variables: string s(s); int v(s); data: s = {}; v = {}; }}"
    out = tmp_path / target
    nczarr.copy(cdl.loads(text.format('"b", "a"', "1, 2")), out)
    nczarr.append(cdl.loads(text.format('"d", "c"', "3, 4")), out)
    for names in ('"c", "e"', '"b", "a"'):
        for options in ({}, {"replace": True}):
            with pytest.raises(UnsupportedError):
                nczarr.append(cdl.loads(text.format(names, "5, 6")), out, **options)
    assert list(nczarr.diff(cdl.loads(text.format('"b", "a", "d", "c"', "1, 2, 3, 4")), out)) == []


def test_the_file_that_is_out_of_order_is_named(days: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"day0\.nc.* after "):
        nczarr.join([days[1], days[2], days[0]], tmp_path / "a.zarr")
    with pytest.raises(UnsupportedError, match=r"day0\.nc.* after "):
        nczarr.join([days[1], days[0]], tmp_path / "a.zarr")


@pytest.mark.parametrize("layout", ["zarr-v3", "zarr-v2"])
def test_plain_zarr_has_nothing_to_append_along(days: list[Path], tmp_path: Path, layout: str) -> None:
    nczarr.copy(days[0], tmp_path / "a.zarr", layout=layout)
    with pytest.raises(UnsupportedError, match="plain Zarr"):
        nczarr.append(days[1], tmp_path / "a.zarr", along="time")


@pytest.mark.slow
def test_a_reader_sees_the_old_length_or_the_new(days: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    nczarr.join(days[:2], out, chunks="time=3")
    command = [sys.executable, "-c", textwrap.dedent(WATCH), str(out), str(4 * len(days))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        watcher.stdout.readline()
        for path in days[2:]:
            nczarr.append(path, out)
        said, failed = watcher.communicate()
    assert watcher.returncode == 0, failed
    assert int(said) >= 2


def test_a_file_that_changes_meanwhile_is_noticed(days: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from nczarr.convert.many import joining
    from nczarr.convert.many.joining import join

    monkeypatch.setattr(joining, "_OPEN", 2)
    with join(days, "time") as joined:
        day(days[0], 0, steps=6)
        source = joined.variable_at("/v").data
        assert source is not None
        with pytest.raises(NCZarrError, match="has changed"):
            source.read((slice(0, 1, 1), slice(0, 1, 1)))


# --- the command


def test_each_into_a_folder(days: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["copy", "-q", *map(str, days[:3]), f"{out}/"]) == 0
    assert sorted(p.name for p in out.iterdir()) == ["day0.zarr", "day1.zarr", "day2.zarr"]
    assert main(["copy", "-q", str(days[3]), str(out)]) == 0
    assert list(nczarr.diff(days[3], out / "day3.zarr")) == []
    assert main(["copy", "-q", str(days[3]), str(out)]) == 1


def test_each_or_none_into_a_folder(days: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "broken.nc").write_bytes(days[1].read_bytes()[:3000])
    for wrong in (tmp_path / "none.nc", tmp_path / "broken.nc"):
        with pytest.raises(NCZarrError, match=wrong.name):
            nczarr.copy([days[0], wrong], f"{out}/")
        assert not out.exists()
    nczarr.copy([days[1]], f"{out}/")
    with pytest.raises(DatasetExistsError, match=r"day1\.zarr"):
        nczarr.copy(days[:2], f"{out}/")
    assert [p.name for p in out.iterdir()] == ["day1.zarr"]
    nczarr.copy(days[:2], f"{out}/", overwrite=True)
    assert sorted(p.name for p in out.iterdir()) == ["day0.zarr", "day1.zarr"]


@pytest.mark.parametrize("more", [{}, {"verify": True}, {"digest": True}, {"verify": True, "digest": True}])
@pytest.mark.parametrize("several", [True, False])
def test_one_progress_for_all(days: list[Path], tmp_path: Path, more: dict[str, bool], several: bool) -> None:
    told: list[Any] = []

    class Recorder:
        def start(self, total: int) -> None:
            told.append(total)

        def advance(self, count: int, fqn: str) -> None:
            told[0] -= count

        def finish(self) -> None:
            told.append("finished")

    if several:
        nczarr.copy(days[:3], f"{tmp_path}/out/", progress=Recorder(), **more)
    else:
        nczarr.copy(days[0], tmp_path / "out.zarr", progress=Recorder(), **more)
    assert told == [0, "finished"]


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        (nczarr.append, {"expect_step": "6h"}),
        (nczarr.append, {"digest": True}),
        (nczarr.append, {"dry_run": True}),
        (nczarr.append, {"resume": True}),
        (nczarr.append, {"overwrite": True}),
        (nczarr.append, {"dask": "local"}),
        (nczarr.append, {"virtual": True}),
        (nczarr.append, {"layout": "nczarr-v2"}),
        (nczarr.copy, {"virtual": True, "dry_run": True}),
        (nczarr.copy, {"virtual": True, "verify": True}),
        (nczarr.copy, {"virtual": True, "digest": True}),
        (nczarr.copy, {"virtual": True, "resume": True}),
        (nczarr.copy, {"workers": 0}),
        (nczarr.copy, {"workers": -1}),
    ],
)
def test_no_option_is_ignored(
    days: list[Path], tmp_path: Path, verb: Callable[..., object], options: dict[str, Any]
) -> None:
    appends = verb is nczarr.append
    target = tmp_path / ("out.json" if "virtual" in options and not appends else "out.zarr")
    if appends:
        nczarr.copy(days[0], target)
        before = nczarr.digest(target)
    with pytest.raises(UnsupportedError, match="append has no option" if appends else "="):
        verb(days[1], target, **options)
    if appends:
        assert nczarr.digest(target) == before
    else:
        assert not target.exists()


def test_two_sources_need_a_word(
    days: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["copy", *map(str, days[:2]), str(tmp_path / "a.zarr")]) == 1
    assert "nczarr join" in capsys.readouterr().err
    assert main(["copy", str(tmp_path / "none*.nc"), str(tmp_path / "a.zarr")]) == 1
    assert not (tmp_path / "a.zarr").exists()


def test_names_from_a_file(days: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = tmp_path / "list.txt"
    listing.write_text("".join(f"{path}\n" for path in days))
    assert (
        main(["join", "-q", "--along", "time", "--files-from", str(listing), str(tmp_path / "a.zarr")]) == 0
    )
    with nczarr.Dataset(tmp_path / "a.zarr") as dataset:
        assert len(dataset.dimensions["time"]) == 48
    assert main(["copy", "-q", "--files-from", str(tmp_path / "no.txt"), str(tmp_path / "b.zarr")]) == 1


@pytest.mark.parametrize("scheme", ["memory", "file"])
def test_patterns_in_urls(days: list[Path], tmp_path: Path, scheme: str) -> None:
    folder = f"memory://{tmp_path.name}" if scheme == "memory" else f"file://{tmp_path}/urls"
    (tmp_path / "urls").mkdir()
    for number, path in ((10, days[1]), (9, days[0])):
        nczarr.copy(path, f"{folder}/day{number}.nc")
        nczarr.copy(path, f"{folder}/day{number}.zarr")
    nczarr.join(days[:2], tmp_path / "wanted.zarr")
    for suffix in ("nc", "zarr"):
        nczarr.join(f"{folder}/day*.{suffix}", tmp_path / f"{suffix}.zarr")
        assert list(nczarr.diff(tmp_path / "wanted.zarr", tmp_path / f"{suffix}.zarr")) == []
    with pytest.raises(NCZarrError, match="no file matches"):
        nczarr.join(f"{folder}/night*.nc", tmp_path / "a.zarr")
    assert not (tmp_path / "a.zarr").exists()


def test_sources_in_memory_are_named(tmp_path: Path) -> None:
    text = "netcdf d {{ dimensions: x = UNLIMITED; variables: int x(x); data: x = {}; }}"
    first, second = (cdl.loads(text.format(n)) for n in (1, 0))
    nczarr.copy(first, tmp_path / "a.zarr")
    wrong: list[Callable[[], object]] = [
        lambda: nczarr.join(second, tmp_path / "a.zarr", along="/"),
        lambda: nczarr.append(second, tmp_path / "a.zarr"),
    ]
    for call in wrong:
        with pytest.raises(NCZarrError, match=r"^the dataset d in memory: "):
            call()
    with pytest.raises(UnsupportedError, match="copy has no option colour"):
        nczarr.copy(first, tmp_path / "b.zarr", colour="red")
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]
