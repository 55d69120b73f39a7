"""Share fixtures of the tests of netCDF files: the files, a copy through the model, and ncdump."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from real_data import NETCDF_FILES

from nczarr.model import Dataset, regions
from nczarr.netcdf import create_dataset, open_dataset

TESTS = Path(__file__).parents[1]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests with the argument `nc_file` (or `hdf5_file`) run for each fixture and each real file."""
    own = sorted((TESTS / "data").glob("*.nc"))
    for name in {"nc_file", "hdf5_file"} & set(metafunc.fixturenames):
        files = [p for p in [*own, *NETCDF_FILES] if name == "nc_file" or p.read_bytes()[:4] == b"\x89HDF"]
        metafunc.parametrize(name, [pytest.param(p, id=p.stem) for p in files])


@pytest.fixture(scope="session")
def data() -> Path:
    return TESTS / "data"


@pytest.fixture(scope="session")
def write() -> Callable[..., None]:
    """Write a dataset and all its values to a file."""

    def write(dataset: Dataset, path: Path, **options: Any) -> None:
        with create_dataset(path, dataset, **options) as sink:
            for fqn, variable in dataset.all_variables.items():
                if variable.data is not None:
                    for region in regions(dataset.shape_of(variable), sink.write_shape(fqn)):
                        sink.write(fqn, region, variable.data.read(region))
            sink.commit()

    return write


@pytest.fixture(scope="session")
def copy(write: Callable[..., None]) -> Callable[..., None]:
    """Copy a file through the model."""

    def copy(source: Path, target: Path, **options: Any) -> None:
        with open_dataset(source) as file:
            write(file.dataset, target, **options)

    return copy


@pytest.fixture(scope="session")
def ncdump() -> Callable[..., str]:
    """The text that Debian's ncdump prints."""
    if shutil.which("ncdump") is None:
        pytest.skip("ncdump is not installed")

    def ncdump(path: Path, *options: str) -> str:
        done = subprocess.run(["ncdump", *options, path], capture_output=True, check=True)
        return done.stdout.decode("utf-8", "surrogateescape")

    return ncdump
