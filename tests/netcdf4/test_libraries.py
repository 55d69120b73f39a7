"""Test the constants and methods that tell what the netCDF library was built with."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import pytest

import nczarr.netcdf4 as ours

#: Programs choose formats and filters by these.
CONSTANTS = [
    "__has_blosc_support__", "__has_bzip2_support__", "__has_cdf5_format__", "__has_nc_create_mem__",
    "__has_nc_inq_format_extended__", "__has_nc_inq_path__", "__has_nc_open_mem__", "__has_nc_rc_set__",
    "__has_ncfilter__", "__has_parallel4_support__", "__has_parallel_support__", "__has_pnetcdf_support__",
    "__has_quantization_support__", "__has_rename_grp__", "__has_set_alignment__", "__has_szip_support__",
    "__has_zstandard_support__",
]  # fmt: skip


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_of_the_library_is_that_of_netcdf4_python(name: str) -> None:
    found, expected = getattr(ours, name), getattr(netCDF4, name)
    assert type(found) is type(expected)
    assert found == expected


@pytest.mark.parametrize("name", ["__hdf5libversion__", "__netcdf4libversion__"])
def test_a_version_of_a_library_is_numbers_with_points(name: str) -> None:
    for module in (ours, netCDF4):
        assert all(part.isdigit() for part in getattr(module, name).split(".")), module


@pytest.mark.parametrize(
    "name", ["has_blosc_filter", "has_bzip2_filter", "has_szip_filter", "has_zstd_filter"]
)
def test_a_dataset_tells_its_filters(name: str, tmp_path: Path) -> None:
    with ours.Dataset(tmp_path / "a.zarr", "w") as ds, netCDF4.Dataset(tmp_path / "a.nc", "w") as theirs:
        assert type(getattr(ds, name)()) is type(getattr(theirs, name)()) is bool
        assert getattr(ds, name)() is True
