"""Convert every real file and every fixture in both directions, end to end."""

from __future__ import annotations

import shutil
from pathlib import Path

import main_job
import pytest
import zarr as zarr_python
from real_data import NETCDF_FILES

import nczarr
from nczarr.cli import main as command

OWN = sorted((Path(__file__).parents[1] / "data").glob("*.nc"))
FILES = OWN + NETCDF_FILES

needs_netcdf_tools = pytest.mark.skipif(not shutil.which("ncgen"), reason="netcdf-bin is not installed")
every_file = pytest.mark.parametrize("nc", FILES, ids=lambda p: p.name)


def test_the_real_files_are_there() -> None:
    assert len(NETCDF_FILES) >= 20


#: Files whose dump ncgen cannot turn into the same dataset, and why.
NOT_FOR_NCGEN = {
    "bits.nc": "variables are named like types, which CDL has no escape for",
    "eraint_uvz.nc": "a _FillValue of another type than its variable's, which ncgen converts",
}
#: Files of which stock xarray cannot see the same, and why; the specification lists the reasons.
NOT_FOR_XARRAY = {
    "coordinates.nc": "a variable has one dimension twice; labels inside a Zarr array are unique",
    "foreign.nc": "netCDF4-python refuses the file",
    "groups.nc": "attributes of a compound type are JSON objects",
    "names.nc": "names that Zarr forbids are escaped",
    "nested.nc": "attributes of a compound type are JSON objects",
    "primitives.nc": "xarray refuses the original: one dimension twice",
    "user_types.nc": "netCDF4-python refuses an opaque attribute",
}
#: Compounds are structs, which zarr-python reads from 3.2 on; and a struct has no array members.
WITH_COMPOUNDS = {"ref_hdf5_compat3.nc", "ref_tst_compounds2.nc", "groups.nc", "nested.nc", "user_types.nc"}
HAS_STRUCT = tuple(int(n) for n in zarr_python.__version__.split(".")[:2]) >= (3, 2)


@pytest.fixture
def zarr(nc: Path, tmp_path: Path) -> Path:
    out = tmp_path / "out.zarr"
    nczarr.copy(nc, out)
    return out


@pytest.fixture
def readable(nc: Path, zarr: Path, tmp_path: Path) -> Path:
    """The copy, or where this zarr-python has no structs, one with compounds as bytes."""
    if HAS_STRUCT or nc.name not in WITH_COMPOUNDS:
        return zarr
    out = tmp_path / "readable.zarr"
    nczarr.copy(nc, out, compound="bytes")
    return out


@needs_netcdf_tools
@every_file
def test_dump_reads_back_with_ncgen(nc: Path, zarr: Path, tmp_path: Path) -> None:
    if nc.name in NOT_FOR_NCGEN:
        pytest.skip(NOT_FOR_NCGEN[nc.name])
    assert main_job.through_cdl(nc, zarr, tmp_path) == main_job.SAME


@every_file
def test_our_own_reading_of_the_dump_is_the_same_file(nc: Path, zarr: Path, tmp_path: Path) -> None:
    text, again = tmp_path / "dump.cdl", tmp_path / "again.zarr"
    assert command(["dump", str(zarr), "-o", str(text)]) == 0
    nczarr.copy(text, again)
    # CDL has one NaN only
    seen = main_job.differences(nc, again, nan_payloads=False)
    if (
        nc.name == "eraint_uvz.nc"
    ):  # as ncgen, we give a _FillValue the type of its variable where that can hold it
        assert seen == "; ".join(
            f"/{name}: attribute _FillValue: double [nan] | float [nan]" for name in ("longitude", "latitude")
        )
        return
    assert seen == main_job.SAME


@every_file
def test_copy_back_is_the_same_file(nc: Path, zarr: Path, tmp_path: Path) -> None:
    assert main_job.and_back(nc, zarr, tmp_path) == main_job.SAME


@every_file
def test_stock_xarray_sees_the_same_dataset(nc: Path, readable: Path) -> None:
    if nc.name in NOT_FOR_XARRAY:
        pytest.skip(NOT_FOR_XARRAY[nc.name])
    seen = main_job.as_xarray_sees_it(nc, readable)
    if nc.name in WITH_COMPOUNDS and seen != main_job.SAME:
        compounds = {"ref_hdf5_compat3.nc": "/: phony_var", "ref_tst_compounds2.nc": "/: phony_compound_var"}
        assert seen == compounds[nc.name], "only the compounds themselves may differ"
        return
    assert seen == main_job.SAME


@every_file
def test_stock_zarr_python_opens_every_array(nc: Path, readable: Path) -> None:
    with nczarr.Dataset(readable) as dataset:
        count = sum(len(g.variables) for g in walk(dataset))
    assert main_job.as_zarr_python_sees_it(readable) == f"{count} arrays"


def walk(group: nczarr.Group) -> list[nczarr.Group]:
    return [group, *[below for child in group.groups.values() for below in walk(child)]]
