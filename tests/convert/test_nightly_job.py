"""Append every day by a job: a join goes on, failures say what to do, and a job knows when to try again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
from counting_store import CountingStore

import nczarr
from nczarr.cli import main
from nczarr.cli.conversion import closing_line
from nczarr.convert import Report
from nczarr.convert.appending import AppendTask
from nczarr.errors import LockedError, ModelError, NCZarrError, NetCDFFileError
from nczarr.model import Dataset
from nczarr.stores import MemoryStore, Store
from nczarr.stores.base import Request, Values

resource = pytest.importorskip("resource")
STEPS = 4


def day(name: str, number: int, *, crs: bool = True, variables: str = "temp salt sea_level") -> str:
    """A file of an ocean model with the steps of a day of October 2026."""
    with netCDF4.Dataset(name, "w") as file:
        fill(file, number, crs=crs, variables=variables)
    return name


def fill(
    file: netCDF4.Dataset, number: int, *, crs: bool = True, variables: str = "temp salt sea_level"
) -> None:
    file.createDimension("time")
    file.createDimension("lat", 6)
    time = file.createVariable("time", "f8", ("time",))
    time.units = "hours since 2026-10-01"
    time[:] = 24 * number + 6 * np.arange(STEPS)
    file.createVariable("lat", "f4", ("lat",))[:] = np.arange(6)
    if crs:
        file.createVariable("crs", "i4").grid_mapping_name = "latitude_longitude"
    for place, variable in enumerate(variables.split()):
        values = file.createVariable(variable, "f4", ("time", "lat"))
        values[:] = 100 * place + number + np.arange(6 * STEPS).reshape(STEPS, 6) / 100


class NotingStore(CountingStore):
    """Note the keys that are read."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.read: list[str] = []

    def get_ranges(self, requests: Sequence[Request]) -> Values:
        self.read += [key for key, *_ in requests]
        return super().get_ranges(requests)

    def get_many(self, keys: Sequence[str]) -> Values:
        self.read += keys
        return super().get_many(keys)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_an_append_may_lack_what_has_no_steps() -> None:
    """A grid mapping is stored once: a day that lacks it has nothing to fill."""
    nczarr.join([day("0.nc", 0), day("1.nc", 1, crs=False)], "a.zarr", join="fill")
    nczarr.append(day("2.nc", 2, crs=False), "a.zarr")
    with pytest.raises(ModelError, match="/crs: the variable is missing"):
        nczarr.append(day("3.nc", 3, crs=False), "a.zarr", join="exact")
    with pytest.raises(ModelError, match=r"/salt: the variable is missing.*join='fill'"):
        nczarr.append(day("3.nc", 3, variables="temp sea_level"), "a.zarr", join="outer")
    with nczarr.Dataset("a.zarr") as found:
        assert found["time"][:].tolist() == [6.0 * step for step in range(3 * STEPS)]
        assert found["crs"].grid_mapping_name == "latitude_longitude"


def test_an_append_has_no_fill_value_that_the_join_has_declared() -> None:
    """A day without `salt` made the join declare the default fill value; each later day was refused for lack of it."""
    nczarr.join([day("0.nc", 0), day("1.nc", 1, variables="temp sea_level")], "a.zarr", join="fill")
    nczarr.append(day("2.nc", 2), "a.zarr")
    with nczarr.Dataset("a.zarr") as found:
        missing = np.ma.getmaskarray(found["salt"][:]).reshape(3, STEPS, -1).all(axis=(1, 2))
        assert missing.tolist() == [False, True, False]
    with netCDF4.Dataset("3.nc", "w") as file:
        fill(file, 3)
    with netCDF4.Dataset("3.nc", "a") as file:
        file["salt"].missing_value = np.float32(5)
    with pytest.raises(ModelError, match=r"/salt: the attribute missing_value"):
        nczarr.append("3.nc", "a.zarr")


def test_a_variable_that_the_dataset_lacks_is_omitted_by_exclude() -> None:
    """`join="fill"` cannot add it: the dataset keeps its variables."""
    nczarr.copy(day("0.nc", 0, variables="temp"), "a.zarr")
    with pytest.raises(ModelError, match=r"/salt: the first has no such variable \(exclude=\)"):
        nczarr.append(day("1.nc", 1, variables="temp salt"), "a.zarr", join="fill")
    nczarr.append("1.nc", "a.zarr", exclude="salt")


def test_repeated_steps_are_named_by_their_date(capsys: pytest.CaptureFixture[str]) -> None:
    nczarr.join([day("0.nc", 0), day("30.nc", 30)], "a.zarr")
    assert main(["append", "30.nc", "a.zarr"]) == 1
    assert "4 steps along /time are there already, the first is 2026-10-31 00:00" in said(capsys)
    assert main(["append", day("29.nc", 29), "a.zarr"]) == 1
    assert "begin at 2026-10-30 00:00 and end at 2026-10-30 18:00; the dataset ends at 2026-10-31 18:00" in (
        said(capsys)
    )
    assert main(["join", "30.nc", "29.nc", "b.zarr"]) == 1
    assert "the coordinate /time has 2026-10-30 00:00 after 2026-10-31 18:00" in said(capsys)


def test_a_file_that_another_program_writes_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    nczarr.copy(day("0.nc", 0), "a.zarr")
    with netCDF4.Dataset("1.nc", "w") as file:
        fill(file, 1)
        file.sync()
        with pytest.raises(LockedError, match=r"1\.nc: another program has the file open for writing"):
            nczarr.append("1.nc", "a.zarr")
        assert main(["append", "1.nc", "a.zarr", "--json"]) == 75
        captured = capsys.readouterr()
        assert "errno" not in captured.err
        assert json.loads(captured.out)["error"]["reason"] == "temporary"
    assert main(["append", "1.nc", "a.zarr"]) == 0


@pytest.mark.parametrize("format", ["NETCDF4", "NETCDF3_64BIT_OFFSET"])
def test_a_file_that_arrives_is_tried_again(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    nczarr.copy(day("0.nc", 0), "a.zarr")
    with netCDF4.Dataset("1.nc", "w", format=format) as file:
        fill(file, 1)
    whole = Path("1.nc").read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 100):
        Path("1.nc").write_bytes(whole[:size])
        with pytest.raises(NetCDFFileError, match=r"try again when it is complete") as caught:
            nczarr.append("1.nc", "a.zarr")
        assert caught.value.reason == "temporary"
        assert f"it has {size} " in str(caught.value) or "header" in str(caught.value) or not size
        assert main(["append", "1.nc", "a.zarr"]) == 75
        assert "eof" not in said(capsys)
    Path("1.nc").write_bytes(whole)
    assert main(["append", "1.nc", "a.zarr"]) == 0


def test_a_dataset_that_is_open_for_writing_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    day("1.nc", 1)
    for target in ("a.zarr", "a.zip", "a.nc"):
        nczarr.copy(day("0.nc", 0), target)
        with nczarr.Dataset(target, "a"):
            assert main(["append", "1.nc", target]) == 75, said(capsys)
        assert main(["append", "1.nc", target]) == 0
    with pytest.raises(NCZarrError) as caught:
        nczarr.append("no.nc", "a.zarr")
    assert caught.value.reason is None


def test_what_a_dataset_was_joined_with_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    """Each morning's command names the file and the dataset, and nothing else."""
    days = [day(f"{n}.nc", n, variables="temp salt sea_level" if n else "temp salt") for n in range(3)]
    join = [
        "join",
        *days,
        "a.zarr",
        "--join",
        "fill",
        "-d",
        "lat=1.:3.",
        "-x",
        "salt",
        "--rename",
        "/temp=sst",
    ]
    assert main([*join, "--along", "time"]) == 0, said(capsys)
    assert main(["append", day("3.nc", 3, variables="temp salt"), "a.zarr"]) == 0, said(capsys)
    with nczarr.Dataset("a.zarr") as found:
        assert list(found.variables) == ["time", "lat", "crs", "sst", "sea_level"]
        assert found["lat"][:].tolist() == [1, 2, 3]
        assert found["sst"].shape == (16, 3)
        assert found["sst"][15, 0] == np.float32(3 + 19 / 100)
        assert np.ma.getmaskarray(found["sea_level"][12:]).all()
        assert not np.ma.getmaskarray(found["sea_level"][4:12]).any()
    assert main(["check", "a.zarr"]) == 0, said(capsys)
    with pytest.raises(ModelError, match="/sea_level: the variable is missing"):  # the call's own word counts
        nczarr.append(day("4.nc", 4, variables="temp salt"), "a.zarr", join="outer")


def test_the_record_of_a_join_stays_through_other_changes() -> None:
    nczarr.join([day("0.nc", 0), day("1.nc", 1)], "a.zarr", exclude="salt")
    with nczarr.Dataset("a.zarr", "a") as found:
        found.title = "changed"
    assert main(["repair", "a.zarr"]) == 0
    assert main(["consolidate", "a.zarr"]) == 0
    for number in (2, 3):
        nczarr.append(day(f"{number}.nc", number), "a.zarr")
    nczarr.copy("a.zarr", "b.zarr")  # a copy is another dataset
    with pytest.raises(ModelError, match="/salt"):
        nczarr.append(day("4.nc", 4), "b.zarr")


def test_a_recorded_function_is_not_run() -> None:
    """A dataset from elsewhere must not name the code that a command runs."""
    nczarr.join([day("0.nc", 0), day("1.nc", 1)], "a.zarr", preprocess=as_it_is)
    with pytest.raises(
        NCZarrError, match=r"was joined with preprocess=.*as_it_is.*\(append with preprocess= too\)"
    ):
        nczarr.append(day("2.nc", 2), "a.zarr")
    nczarr.append("2.nc", "a.zarr", preprocess=as_it_is)


def as_it_is(dataset: Dataset) -> Dataset:
    return dataset


@pytest.mark.parametrize("target", ["a.zarr", "a.zip", "a.nc", "c.nc"])
def test_an_append_says_what_it_has_added(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    kind = ["-k", "classic"] if target == "c.nc" else []
    assert main(["join", day("28.nc", 28), day("29.nc", 29), target, *kind]) == 0
    assert main(["append", day("30.nc", 30), target, "--verify", "--json"]) == 0, said(capsys)
    told = json.loads(capsys.readouterr().out)
    assert told["appended"] == [
        {
            "dimension": "/time",
            "steps": 4,
            "first": "2026-10-31 00:00",
            "last": "2026-10-31 18:00",
            "length": 12,
            "variables": 3,
            "of": 3,
        }
    ]
    assert {v["fqn"]: v["shape"] for v in told["variables"]} == {
        "/time": [4],
        **{f"/{name}": [4, 6] for name in ("temp", "salt", "sea_level")},
    }
    assert (told["bytes_out"] is None) == (target == "a.zip") or target.endswith(".nc")
    report = Report()
    nczarr.append(day("31.nc", 31), target, report=report)
    assert "4 steps, 2026-11-01 00:00 to 18:00, length 16, 3 of 3 variables" in closing_line(report)


def test_verify_reads_only_what_was_added() -> None:
    """An archive of years is not read again every day."""
    store = NotingStore(MemoryStore())
    nczarr.join([day(f"{n}.nc", n) for n in range(20)], store, chunks={"time": 4})
    nczarr.append(day("20.nc", 20), store)
    store.read.clear()
    nczarr.append(day("21.nc", 21), store, verify=True)
    assert {key for key in store.read if key.startswith("temp/c/")} == {"temp/c/21/0"}


def test_verify_finds_a_value_that_the_disk_has_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    nczarr.copy(day("0.nc", 0), "a.zarr")
    run = AppendTask._run

    def lose(self: AppendTask, *given: Any, **more: Any) -> Any:
        done = run(self, *given, **more)
        for chunk in Path("a.zarr/temp/c").rglob("*"):
            if chunk.is_file() and chunk.parent.name != "0":
                chunk.unlink()
        return done

    monkeypatch.setattr(AppendTask, "_run", lose)
    with pytest.raises(
        NCZarrError, match=r"/temp: the stored steps 4:8 along /time differ from their source"
    ):
        nczarr.append(day("1.nc", 1), "a.zarr", verify=True)


def test_an_append_reads_the_last_chunk_of_the_times_alone() -> None:
    """A coordinate of 20 years has thousands of chunks."""
    store = NotingStore(MemoryStore())
    nczarr.join([day(f"{n}.nc", n) for n in range(20)], store, chunks={"time": 4})
    for number in range(20, 23):
        store.read.clear()
        nczarr.append(day(f"{number}.nc", number), store)
        assert {key for key in store.read if key.startswith("time/c")} <= {
            f"time/c/{n}" for n in (number - 1, number)
        }
    with pytest.raises(
        NCZarrError, match="4 steps along /time are there already, the first is 2026-10-04 00:00"
    ):
        nczarr.append("3.nc", store)
    with nczarr.Dataset(store, "a") as found:  # another writer, which knows nothing of the record
        found["time"][92:96] = 24 * 24 + 6 * np.arange(4)
    with pytest.raises(NCZarrError, match="4 steps along /time are there already"):
        nczarr.append(day("24.nc", 24), store)
    nczarr.append(day("25.nc", 25), store)
    with nczarr.Dataset(store) as found:
        assert found["time"].shape == (100,)


def test_a_missing_day_is_said_while_there_is_time_to_wait(capsys: pytest.CaptureFixture[str]) -> None:
    for target, expect in (("a.zarr", []), ("b.zarr", ["--expect-step", "6h"])):
        assert main(["join", day("0.nc", 0), day("1.nc", 1), target, *expect]) == 0
    for target in ("a.zarr", "b.zarr"):
        assert main(["append", day("2.nc", 2), target]) == 0
        assert "no steps" not in said(capsys)
    gap = "there are no steps along /time between 2026-10-03 18:00 and 2026-10-05 00:00"
    assert main(["append", day("4.nc", 4), "a.zarr"]) == 0
    assert f"nczarr: warning: a.zarr: {gap}; missing ones cannot be appended later" in said(capsys)
    assert main(["append", day("3.nc", 3), "a.zarr"]) == 1
    assert "they do not follow it (join the files anew, in order)" in said(capsys)
    assert main(["append", day("5.nc", 5), "a.zarr"]) == 0
    assert "no steps" not in said(capsys)
    assert main(["append", "4.nc", "b.zarr"]) == 1
    assert f"{gap}, and the dataset was joined with --expect-step 6h" in said(capsys)
    for number in (3, 4):
        assert main(["append", f"{number}.nc", "b.zarr"]) == 0


PAGE = Path(__file__).parents[2] / "docs/howto/nightly-job.md"
COMMAND = [sys.executable, "-m", "nczarr"]
#: Changes the values of a day when they are read: sends a signal to the process that appends.
SIGNALLING = """
import os, signal
from nczarr.model import MemorySource, rewrite

class Signalling(MemorySource):
    def read(self, region, out=None):
        os.kill(os.getpid(), {signal})
        return super().read(region, out)

def during(dataset):
    def variable(fqn, v):
        return v.with_data(Signalling(v.data.read((slice(0, 4), slice(0, 6))))) if fqn == "/temp" else v
    return rewrite(dataset, variable=variable)
"""


def rows_of_the_page() -> dict[str, tuple[int, str]]:
    """The statuses and messages of the page, by what happens."""
    table = PAGE.read_text("utf-8").partition("| what happens |")[2]
    rows = [
        [cell.strip() for cell in line.split(" | ")] for line in table.splitlines()[2:] if line[:2] == "| "
    ]
    return {row[0].removeprefix("| "): (int(row[1]), row[2].strip("`")) for row in rows}


def script_of_the_page() -> str:
    return "#!" + PAGE.read_text("utf-8").partition("```sh\n#!")[2].partition("```")[0]


def ran(*words: str, **options: Any) -> tuple[int, str]:
    """Run the command in a process of its own."""
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False, **options)
    return done.returncode, done.stdout + done.stderr


def little_room() -> None:
    """A limit on the size of files fails as a full disk does."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def interruptible() -> None:
    """A shell lets the programs that it starts in the background ignore Ctrl-C, and so their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a script of a shell, signals and limits")
def test_the_day_of_an_oceanographer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Join a month, compute with xarray and Dask, and append by the page's script; the page tells what may happen."""
    Path("in").mkdir()
    bin_ = Path("bin")
    bin_.mkdir()
    (bin_ / "nczarr").write_text(f'#!/bin/sh\nexec {sys.executable} -m nczarr "$@"\n')
    (bin_ / "nczarr").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_.resolve()}:{os.environ['PATH']}")
    monkeypatch.setenv("PAUSE", "0")
    script = script_of_the_page()
    Path("nightly.sh").write_text(script.replace("--wait 60", "--wait 0").replace("1 2 3 4 5 6", "1 2"))
    for number in range(30):
        day(f"in/{number:02}.nc", number)
    assert ran("join", "in/*.nc", "all.zarr", "--along", "time", "--record-sources", "--verify")[0] == 0
    expected, tried = rows_of_the_page(), dict[str, tuple[int, str]]()

    def night(path: str) -> tuple[int, str]:
        done = subprocess.run(["sh", "nightly.sh", path], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr + Path("nightly.log").read_text().splitlines()[-1]

    def mean() -> float:
        with xr.open_zarr("all.zarr") as ds:
            assert set(ds[["temp", "salt", "sea_level"]].chunks) == {"time", "lat"}
            doubled = ds["temp"].map_blocks(lambda part: part * 2)
            assert doubled.sizes["time"] == ds.sizes["time"]
            return float(doubled.mean())

    before = mean()
    tried["a day"] = night(day("30.nc", 30))
    assert mean() > before
    tried["the same file again"] = night("30.nc")
    tried["the same day in another file"] = night(day("again.nc", 30))
    with netCDF4.Dataset("32.nc", "w") as file:
        fill(file, 32)
        file.sync()
        tried["a program still writes the file"] = night("32.nc")
    whole = Path("32.nc").read_bytes()
    Path("32.nc").write_bytes(whole[:2000])
    tried["the file is still copied to its place"] = night("32.nc")
    Path("32.nc").write_bytes(whole)
    tried["the file is not there yet"] = night("no.nc")
    with nczarr.Dataset("all.zarr", "a"):
        tried["another writer has the dataset open"] = ran("append", "32.nc", "all.zarr")
    day("lacks.nc", 33, variables="temp sea_level")
    tried["a variable is missing in the file"] = night("lacks.nc")
    for name, happens in (("SIGINT", "Ctrl-C"), ("SIGTERM", "SIGTERM, as at a shutdown")):
        Path(f"{name.lower()}.py").write_text(SIGNALLING.format(signal=f"signal.{name}"))
        hook = ["--preprocess", f"{name.lower()}:during"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([".", *sys.path])}
        how: dict[str, Any] = {"env": environment, "preexec_fn": interruptible}
        tried[happens] = ran("append", "32.nc", "all.zarr", *hook, **how)
    tried["the disk is full"] = ran(
        "append",
        "32.nc",
        "all.zarr",
        preexec_fn=little_room,
        # Else Python keeps the beginning of bytecode that it cannot write whole.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    with nczarr.Dataset("all.zarr") as found:  # after all these failures
        assert found["time"].shape == (124,)
    tried["a day is missing before this one"] = night("32.nc")
    tried["a day comes late"] = night(day("31.nc", 31))
    for number in (33, 34):
        assert night(day(f"{number}.nc", number))[0] == 0
    with (
        xr.open_zarr("all.zarr") as ds,
        xr.open_mfdataset(
            [*sorted(map(str, Path("in").glob("*.nc"))), "30.nc", "32.nc", "33.nc", "34.nc"],
            data_vars="minimal",
        ) as files,
    ):
        xr.testing.assert_identical(ds["temp"].load(), files["temp"].load())
    assert ran("check", "--data", "all.zarr") == (0, "")
    # `test_verify_finds_a_value_that_the_disk_has_lost` tries the last row.
    assert tried.keys() == expected.keys() - {"the disk loses what was written"}
    for happens, (status, message) in tried.items():
        assert status == expected[happens][0], f"{happens}: {status}: {message}"
        assert expected[happens][1] in message, f"{happens}: {message}"
