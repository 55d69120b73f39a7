"""Append records to classic netCDF files: after every write a reader sees the old dataset or the new one."""

from __future__ import annotations

import os
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nczarr
from nczarr.errors import NCZarrError
from nczarr.netcdf.bytes.file import DiskFile
from nczarr.system.locks import FileLock

FORMATS = ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]
TYPES = ["i1", "S1", "i2", "i4", "f4", "f8"]
#: What variables are made of: the type, and how many values a record has.
Kinds = list[tuple[str, int]]


def write(path: Path, format_: str, kinds: Kinds, first: int, stop: int) -> None:
    """The steps from one to another of a dataset; what is in a step depends on its number only."""
    with netCDF4.Dataset(path, "w", format=format_) as file:
        file.title = "records"
        file.createDimension("time", None)
        file.createVariable("fixed", "i4", ())[...] = 7
        file.createVariable("time", "f8", ("time",))[:] = np.arange(first, stop)
        for number, (dtype, size) in enumerate(kinds):
            inner = () if size == 1 else (f"x{number}",)
            if inner:
                file.createDimension(inner[0], size)
            variable = file.createVariable(f"v{number}", dtype, ("time", *inner))
            values = (np.arange(first * size, stop * size) * 7 + number) % 100
            shape = (stop - first, size) if inner else (stop - first,)
            if dtype == "S1":
                variable[:] = (values % 26 + 97).astype("u1").view("S1").reshape(shape)
            else:
                variable[:] = values.astype(dtype).reshape(shape)


def held(path: Path) -> tuple[int, dict[str, list[Any]]]:
    """The number of records, and all values, as netCDF-C reads them."""
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        return len(file.dimensions["time"]), {n: v[...].tolist() for n, v in file.variables.items()}


def as_stream(path: Path) -> None:
    """Leave the number of records to the size of the file, which ends behind the last one."""
    with open(path, "r+b") as file:
        width = 8 if file.read(4)[3] == 5 else 4
        file.write(b"\xff" * width)


@pytest.mark.parametrize("format_", FORMATS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kinds=st.lists(st.tuples(st.sampled_from(TYPES), st.integers(1, 5)), max_size=4),
    lengths=st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(1, 3)),
)
def test_is_as_written_whole(
    tmp_path_factory: pytest.TempPathFactory, format_: str, kinds: Kinds, lengths: tuple[int, int, int]
) -> None:
    folder = tmp_path_factory.mktemp("records")
    target, whole = folder / "target.nc", folder / "whole.nc"
    ends = np.cumsum(lengths).tolist()
    write(target, format_, kinds, 0, ends[0])
    inode = target.stat().st_ino
    for number, (first, stop) in enumerate(pairwise(ends)):
        write(folder / f"{number}.nc", format_, kinds, first, stop)
        nczarr.append(folder / f"{number}.nc", target)
    write(whole, format_, kinds, 0, ends[-1])
    assert held(target) == held(whole)
    assert target.stat().st_ino == inode
    with netCDF4.Dataset(target) as file:
        assert file.data_model == format_
    assert list(nczarr.diff(whole, target)) == []


@pytest.mark.parametrize("dtype", ["i1", "i2"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_lone_record_variable_has_no_padding(tmp_path: Path, dtype: str, stream: bool) -> None:
    for name, values in (("target", [1, 2, 3]), ("more", [4, 5])):
        with netCDF4.Dataset(tmp_path / f"{name}.nc", "w", format="NETCDF3_CLASSIC") as file:
            file.createDimension("time", None)
            file.createDimension("x", 3)
            file.createVariable("v", dtype, ("time", "x"))[:] = np.repeat(values, 3).reshape(-1, 3)
    target = tmp_path / "target.nc"
    if stream:
        with netCDF4.Dataset(target) as file:
            size = 3 * 3 * file["v"].dtype.itemsize
        header = nczarr.netcdf.open_file(target)
        begin = header.header.begins[0]  # type: ignore[attr-defined]
        header.close()
        os.truncate(target, begin + size)
        as_stream(target)
    nczarr.append(tmp_path / "more.nc", target)
    with netCDF4.Dataset(target) as file:
        assert file["v"][:, 0].tolist() == [1, 2, 3, 4, 5]
        assert (file["v"][:] == file["v"][:, :1]).all()


@pytest.fixture
def after_each_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Copies of the file as it is after each of its writes, which is what a kill leaves."""
    states: list[Path] = []
    (tmp_path / "states").mkdir()

    def noting(name: str) -> None:
        before = getattr(DiskFile, name)

        def method(self: Any, *arguments: Any) -> Any:
            result = before(self, *arguments)
            if Path(f"/proc/self/fd/{self._open}").resolve().name == "target.nc":
                states.append(tmp_path / "states" / f"{len(states)}.nc")
                shutil.copy(tmp_path / "target.nc", states[-1])
            return result

        monkeypatch.setattr(DiskFile, name, method)

    noting("write")
    noting("truncate")
    return states


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the names of open files are looked up there")
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("stream", [False, True])
def test_old_or_new_after_every_write(
    tmp_path: Path, after_each_write: list[Path], format_: str, stream: bool
) -> None:
    kinds = [("f4", 3), ("i1", 5), ("S1", 2), ("i2", 1)]
    target = tmp_path / "target.nc"
    write(target, format_, kinds, 0, 4)
    write(tmp_path / "more.nc", format_, kinds, 4, 9)
    old = held(target)
    if stream:
        as_stream(target)
        assert nczarr.Dataset(target).dimensions["time"].size == 4
    nczarr.append(tmp_path / "more.nc", target)
    new = held(target)
    assert (old[0], new[0]) == (4, 9)
    assert len(after_each_write) > len(kinds)
    # netCDF-C knows no streams: it can read the file from the moment when the number is in it, which is written first.
    counted = 1 if stream else 0
    seen = [held(state) for state in after_each_write[counted:]]
    assert all(state in (old, new) for state in seen)
    assert seen.index(new) == len(seen) - 1
    for state in after_each_write:  # whoever is killed goes on by doing it again
        with nczarr.Dataset(state) as dataset:
            if dataset.dimensions["time"].size == 9:
                continue
        nczarr.append(tmp_path / "more.nc", state)
        assert held(state) == new


def test_after_an_error_the_file_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [("f4", 300), ("i2", 3)]
    target = tmp_path / "target.nc"
    write(target, "NETCDF3_CLASSIC", kinds, 0, 4)
    write(tmp_path / "more.nc", "NETCDF3_CLASSIC", kinds, 4, 9)
    before = target.read_bytes()
    writing = DiskFile.write
    room = [3]

    def full(self: DiskFile, offset: int, data: Any) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        room[0] -= 1
        return writing(self, offset, data)

    monkeypatch.setattr(DiskFile, "write", full)
    with pytest.raises(NCZarrError, match="No space left"):
        nczarr.append(tmp_path / "more.nc", target)
    assert target.read_bytes() == before


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    target = tmp_path / "target.nc"
    write(target, "NETCDF3_CLASSIC", [], 0, 4)
    write(tmp_path / "more.nc", "NETCDF3_CLASSIC", [], 4, 9)
    lock = FileLock(str(target))
    with pytest.raises(NCZarrError, match="open for writing"):
        nczarr.append(tmp_path / "more.nc", target)
    lock.release()
    nczarr.append(tmp_path / "more.nc", target)
    assert held(target)[0] == 9


def test_from_zarr_and_joined(tmp_path: Path) -> None:
    """Any source will do, and several become one."""
    kinds = [("f4", 3), ("i2", 1)]
    target = tmp_path / "target.nc"
    write(target, "NETCDF3_64BIT_OFFSET", kinds, 0, 2)
    for first, stop in ((2, 4), (4, 7)):
        write(tmp_path / "part.nc", "NETCDF4", kinds, first, stop)
        nczarr.copy(tmp_path / "part.nc", tmp_path / f"{first}.zarr")
    nczarr.append([tmp_path / "2.zarr", tmp_path / "4.zarr"], target)
    write(tmp_path / "whole.nc", "NETCDF3_64BIT_OFFSET", kinds, 0, 7)
    assert held(target) == held(tmp_path / "whole.nc")
