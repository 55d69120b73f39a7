"""Measure the start of programs and commands, in processor time, against the import of numpy and of netCDF4-python.

``python tests/benchmarks/start.py [--rounds 15]`` starts all in turn, with compiled modules, and prints the medians and
their ratios to numpy's import.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import nczarr

NUMPY = "import numpy"
#: The arguments of Python, by the title of the row.
STARTS: dict[str, list[str]] = {
    NUMPY: ["-c", "import numpy"],
    "import netCDF4": ["-c", "import netCDF4"],
    "import nczarr; nczarr.Dataset": ["-c", "import nczarr; nczarr.Dataset"],
    "nczarr --version": ["-m", "nczarr", "--version"],
    "nczarr dump -h x.zarr": ["-m", "nczarr", "dump", "-h", "x.zarr"],
    "nczarr info x.nc": ["-m", "nczarr", "info", "x.nc"],
}


def make_sources(folder: Path) -> None:
    """Write the dataset that the commands look at, as a netCDF file and on Zarr."""
    with nczarr.Dataset(folder / "x.nc", "w") as dataset:
        for name, size in (("time", None), ("x", 10)):
            dataset.createDimension(name, size)
        for number in range(5):
            variable = dataset.createVariable(f"v{number}", "f4", ("time", "x"))
            variable.units = "K"
            variable[:] = np.ones((3, 10))
    nczarr.copy(folder / "x.nc", folder / "x.zarr")


def seconds(arguments: list[str], folder: Path) -> float:
    """Return the processor time of a process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{arguments} has failed")
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {title: [] for title in STARTS}
    with tempfile.TemporaryDirectory() as folder:
        make_sources(Path(folder))
        for number in range(rounds + 1):
            for title, arguments in STARTS.items():
                used = seconds(arguments, Path(folder))
                if number:  # the first round compiles the modules
                    times[title].append(used)
    medians = {title: statistics.median(found) for title, found in times.items()}
    print("| start | ms | of numpy's import |\n|---|---|---|")
    for title, median in medians.items():
        print(f"| `{title}` | {median * 1000:.0f} | {median / medians[NUMPY]:.2f} |")


if __name__ == "__main__":
    main()
