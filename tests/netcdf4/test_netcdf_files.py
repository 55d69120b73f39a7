"""Real netCDF files, edited in place: what netCDF's own library reads of them, and what killed processes leave."""

from __future__ import annotations

from pathlib import Path

import netCDF4

import nczarr.netcdf4 as ours


def test_a_file_is_made_and_edited_in_place(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with ours.Dataset(path, "w", storage="netcdf") as ds:
        ds.createDimension("t", None)
        ds.createDimension("x", 3)
        ds.createVariable("v", "f4", ("t", "x"), zlib=True, fill_value=-1)[:2] = 1
        assert (ds.disk_format, ds.data_model, path.is_file()) == ("HDF5", "NETCDF4", True)
    inode = path.stat().st_ino
    with ours.Dataset(path, "a") as ds:
        ds["v"][3, 1] = 5
        ds.history = "appended"
    assert path.stat().st_ino == inode
    with netCDF4.Dataset(path) as ds:
        assert ds["v"][:].filled().tolist() == [[1, 1, 1], [1, 1, 1], [-1, -1, -1], [-1, 5, -1]]
        assert (ds.history, ds["v"].filters()["zlib"]) == ("appended", True)
