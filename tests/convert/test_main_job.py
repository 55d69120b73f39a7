"""The main job, end to end, on every real file and on the project's own fixtures."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import main_job
import pytest

import nczarr

OWN = sorted((Path(__file__).parents[1] / "data").glob("*.nc"))
SHARED = (
    Path(os.environ.get("NCZARR_SHARED", Path(__file__).parents[2].parent / "shared")) / "data" / "netcdf"
)
FILES = OWN + sorted(SHARED.glob("*.nc"))

needs_netcdf_tools = pytest.mark.skipif(not shutil.which("ncgen"), reason="netcdf-bin is not installed")
every_file = pytest.mark.parametrize("nc", FILES, ids=lambda p: p.name)


def test_the_real_files_are_there() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the real files are not there: {SHARED}")
    assert len(list(SHARED.glob("*.nc"))) > 20


@pytest.fixture
def zarr(nc: Path, tmp_path: Path) -> Path:
    out = tmp_path / "out.zarr"
    nczarr.copy(nc, out)
    return out


@needs_netcdf_tools
@every_file
def test_dump_reads_back_with_ncgen(nc: Path, zarr: Path, tmp_path: Path) -> None:
    assert main_job.through_cdl(nc, zarr, tmp_path) == main_job.SAME


@every_file
def test_copy_back_is_the_same_file(nc: Path, zarr: Path, tmp_path: Path) -> None:
    assert main_job.and_back(nc, zarr, tmp_path) == main_job.SAME


@every_file
def test_stock_xarray_sees_the_same_dataset(nc: Path, zarr: Path) -> None:
    assert main_job.as_xarray_sees_it(nc, zarr) == main_job.SAME


@every_file
def test_stock_zarr_python_opens_every_array(nc: Path, zarr: Path) -> None:
    with nczarr.Dataset(zarr) as dataset:
        count = sum(len(g.variables) for g in walk(dataset))
    assert main_job.as_zarr_python_sees_it(zarr) == f"{count} arrays"


def walk(group: nczarr.Group) -> list[nczarr.Group]:
    return [group, *[below for child in group.groups.values() for below in walk(child)]]
