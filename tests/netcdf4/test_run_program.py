"""Run programs for netCDF4-python, which nobody edits, with nczarr in the place of netCDF4."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nczarr

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"
PROGRAM = """#!/usr/bin/env python
import sys
import helper_beside
import netCDF4
from netCDF4 import Dataset
with Dataset(sys.argv[1]) as ds:
    print(netCDF4.__name__, helper_beside.NAME, sys.argv[1:], ds.disk_format, list(ds.groups))
sys.exit(3)
"""


def run(*arguments: str, folder: Path, path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-W", "ignore", "-m", "nczarr.netcdf4", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", cwd=folder, env=environment, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a store, and a link to it whose name is that of a netCDF file."""
    nczarr.copy(EXAMPLE, tmp_path / "example.zarr")
    (tmp_path / "link.nc").symlink_to("example.zarr")
    return tmp_path


def test_a_script_and_a_command_open_zarr_as_netcdf4(folder: Path) -> None:
    """With their arguments, the modules beside them, and their status."""
    place = folder / "bin"
    place.mkdir()
    (place / "helper_beside.py").write_text("NAME = 'beside'\n", encoding="utf-8")
    program = place / "show-it"
    program.write_text(PROGRAM, encoding="utf-8")
    program.chmod(0o755)
    for name in ("show-it", str(program), "bin/show-it"):
        done = run(name, "link.nc", "-x", folder=folder, path=place)
        assert done.stdout.splitlines() == [
            "netCDF4 beside ['link.nc', '-x'] ZARR ['ocean', 'atmosphere']"
        ], done.stderr
        assert done.returncode == 3


def test_a_program_that_does_not_exist_is_named(folder: Path) -> None:
    done = run("no-such-program", folder=folder, path=folder)
    assert (done.returncode, done.stderr) == (
        1,
        "no-such-program: there is no such script, and no such command in PATH\n",
    )
    assert run(folder=folder, path=folder).stderr.startswith("usage: ")


@pytest.mark.slow
@pytest.mark.parametrize("convention", ["cf:1.11", "acdd"])
def test_the_checker_of_ioos_says_the_same_of_a_store_as_of_its_file(folder: Path, convention: str) -> None:
    pytest.importorskip("compliance_checker")
    shutil.copy(EXAMPLE, folder / "file.nc")

    def report(name: str) -> str:
        done = run(
            "compliance-checker", "-t", convention, name, folder=folder, path=Path(sys.executable).parent
        )
        text = re.sub(r"Report generated \S+", "", done.stdout.replace(name, "NAME"))
        # It passes an error of a lookup on, whose text differs.
        return text.replace("there is no dimension 'time'", "'time'")

    assert "Corrective Actions" in report("file.nc")
    assert report("link.nc") == report("file.nc")
