"""Append every day by a job: a join goes on, failures say what to do, and a job knows when to try again."""

from __future__ import annotations

import json
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczarr
from nczarr.cli import main
from nczarr.errors import LockedError, ModelError, NCZarrError, NetCDFFileError

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
