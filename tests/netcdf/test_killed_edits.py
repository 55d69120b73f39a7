"""Kill a process at every write of an edit of a netCDF file, and open the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr.netcdf4 as nc
from nczarr.netcdf.bytes.file import DiskFile

netCDF4 = pytest.importorskip("netCDF4")
pytest.importorskip("h5py")

STEPS = 100


class Recorder:
    """All that happens to a file, so that it can be made as it was after each write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        #: An offset with bytes, a size, or the state that the program knew at that time.
        self.events: list[tuple[str, Any, Any]] = []
        write, truncate = DiskFile.write, DiskFile.truncate

        def recorded_write(file: DiskFile, offset: int, data: Any) -> int:
            done = write(file, offset, data)
            self.events.append(("write", offset, bytes(memoryview(data).cast("B")[:done])))
            return done

        def recorded_truncate(file: DiskFile, size: int) -> None:
            truncate(file, size)
            self.events.append(("truncate", size, None))

        monkeypatch.setattr(DiskFile, "write", recorded_write)
        monkeypatch.setattr(DiskFile, "truncate", recorded_truncate)

    def acknowledge(self, steps: int) -> None:
        self.events.append(("acknowledged", steps, None))

    def replay(self, path: Path, before: bytes, look: Callable[[int], None]) -> int:
        """Make every state of the file, and look at each with the steps that were acknowledged then."""
        path.write_bytes(before)
        acknowledged = looks = 0
        with open(path, "r+b") as file:
            for kind, where, data in self.events:
                if kind == "acknowledged":
                    acknowledged = where
                    continue
                if kind == "truncate":
                    os.ftruncate(file.fileno(), where)
                else:
                    os.pwrite(file.fileno(), data, where)
                look(acknowledged)
                looks += 1
        return looks


def prepared(path: Path, format_: str, chunk: int) -> None:
    with netCDF4.Dataset(path, "w", format=format_) as ds:
        ds.createDimension("t", None)
        ds.createDimension("x", 5)
        ds.createVariable("t", "f8", ("t",))
        options: dict[str, Any] = {"chunksizes": (chunk, 5)} if format_ == "NETCDF4" else {}
        ds.createVariable("v", "i4", ("t", "x"), **options)
        ds.createVariable("w", "i4", ("t",))
        for i in range(3):
            ds["t"][i], ds["v"][i], ds["w"][i] = i, i, i


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize(
    ("format_", "chunk"), [("NETCDF4", 1), ("NETCDF4", 7), ("NETCDF3_CLASSIC", 1), ("NETCDF3_64BIT_DATA", 1)]
)
def test_acknowledged_steps_are_there_after_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str, chunk: int, every: int
) -> None:
    path, copy = tmp_path / "a.nc", tmp_path / "b.nc"
    prepared(path, format_, chunk)
    before = path.read_bytes()
    recorder = Recorder(monkeypatch)
    with nc.Dataset(path, "a") as ds:
        for i in range(3, STEPS):
            ds["t"][i], ds["v"][i], ds["w"][i] = i, i, i
            if i % every == 0:
                ds.sync()
                recorder.acknowledge(i + 1)
    recorder.acknowledge(STEPS)

    def look(acknowledged: int) -> None:
        with netCDF4.Dataset(copy) as ds:
            length = len(ds.dimensions["t"])
            assert length >= acknowledged
            for name in "tvw":
                values = np.ma.masked_array(ds[name][:]).reshape(length, -1)
                assert not np.ma.getmaskarray(values)[:acknowledged].any(), name
                right = np.arange(length)[:, None]
                # Values that were not acknowledged may be fill values, but never wrong.
                assert (values.filled(-1) == np.where(np.ma.getmaskarray(values), -1, right)).all(), name

    monkeypatch.undo()
    assert recorder.replay(copy, before, look) > STEPS // every
    assert copy.read_bytes() == path.read_bytes()


def test_between_two_syncs_a_netcdf4_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with nc.Dataset(path, "w") as ds:
        ds.createDimension("t")
        ds.createVariable("v", "i4", ("t",), chunksizes=(2,))
        ds["v"][:] = np.arange(4)
        ds.sync()
        before = path.read_bytes()
        ds["v"][:] = np.arange(20_000)
        ds.history = "longer"
        ds.createVariable("w", "f8", ("t",))[:] = 1
        assert ds["v"][19_999] == 19_999
        assert path.read_bytes() == before
        copy = tmp_path / "b.nc"  # HDF5 refuses to open the file itself as long as we write to it
        copy.write_bytes(before)
        with netCDF4.Dataset(copy) as other:
            assert other["v"][:].tolist() == [0, 1, 2, 3]
    with netCDF4.Dataset(path) as other:
        assert len(other["v"][:]) == 20_000
        assert other.history == "longer"
