"""References to the chunks of netCDF files: read by us, by fsspec and zarr-python, equal to the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import zarr as zarr_python

import nczarr
from nczarr.errors import DatasetExistsError, NCZarrError, UnsupportedError

DATA = Path(__file__).parents[1] / "data"
SHARED = Path(os.environ.get("NCZARR_SHARED", Path(__file__).parents[3] / "shared")) / "data" / "netcdf"
FILES = sorted(DATA.glob("*.nc")) + sorted(SHARED.glob("*.nc"))


@pytest.mark.parametrize("nc", FILES, ids=lambda p: p.name)
def test_references_are_the_file(nc: Path, tmp_path: Path) -> None:
    refs = tmp_path / "refs.json"
    try:
        nczarr.copy(nc, refs, virtual=True)
    except UnsupportedError as error:
        assert "filter" in str(error) or "never written" in str(error)
        assert not refs.exists()
        return
    assert list(nczarr.diff(nc, refs)) == []


def large(path: Path, kind: str) -> np.ndarray:
    data = np.random.default_rng(0).random((30, 40, 50)).astype("f4")
    with netCDF4.Dataset(path, "w", format=kind) as file:
        for name, size in (("t", None), ("y", 40), ("x", 50)):
            file.createDimension(name, size)
        options: dict[str, Any] = {"zlib": True, "chunksizes": (7, 40, 50)} if kind == "NETCDF4" else {}
        file.createVariable("v", "f4", ("t", "y", "x"), **options)[:] = data
        file.createVariable("w", "f8", ("y", "x"))[:] = data[0]
    return data


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"])
def test_values_stay_in_the_file_and_zarr_python_reads_them(tmp_path: Path, kind: str) -> None:
    data = large(tmp_path / "a.nc", kind)
    refs = tmp_path / "refs.json"
    nczarr.copy(tmp_path / "a.nc", refs, virtual=True)
    assert refs.stat().st_size < 20_000
    keys = json.loads(refs.read_text())["refs"]
    assert all(isinstance(keys[key], list) for key in keys if key.startswith(("v/c/", "w/c/")))
    import fsspec
    from zarr.storage import FsspecStore

    fs = fsspec.filesystem("reference", fo=str(refs), remote_protocol="file", asynchronous=True)
    group = zarr_python.open_group(FsspecStore(fs, path=""), mode="r", zarr_format=3)
    for name, wanted in (("v", data), ("w", data[0])):
        array = group[name]
        assert isinstance(array, zarr_python.Array)
        np.testing.assert_array_equal(array[:], wanted)


def test_refusals(tmp_path: Path) -> None:
    large(tmp_path / "a.nc", "NETCDF4")
    with pytest.raises(UnsupportedError, match=r"NAME\.json"):
        nczarr.copy(tmp_path / "a.nc", tmp_path / "a.zarr", virtual=True)
    with pytest.raises(UnsupportedError, match="--virtual"):
        nczarr.copy(tmp_path / "a.nc", tmp_path / "a.json", virtual=True, chunks="x=1")
    (tmp_path / "a.json").write_text("mine")
    with pytest.raises(DatasetExistsError):
        nczarr.copy(tmp_path / "a.nc", tmp_path / "a.json", virtual=True)
    with h5py.File(tmp_path / "f.nc", "w") as file:
        file.create_dataset("v", data=np.arange(100_000), chunks=(1000,), compression="lzf")
    with pytest.raises(UnsupportedError, match="32000"):
        nczarr.copy(tmp_path / "f.nc", tmp_path / "f.json", virtual=True)
    (tmp_path / "bad.json").write_text('{"refs": 3}')
    with pytest.raises(NCZarrError, match=r"bad\.json"):
        nczarr.copy(tmp_path / "bad.json", tmp_path / "b.zarr")
