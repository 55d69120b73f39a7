"""W7: conversion of netCDF files to Zarr, against nccopy, xarray and cp, interleaved in one run.

    python tests/benchmarks/convert.py [--mib 256] [--runs 3] [--case deflated] [--folder DIR]

Each program runs as a process of its own; wall time, processor time and the largest resident memory are those of
the process, start included.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import netCDF4
import numpy as np


def deflated(path: Path, mib: int) -> None:
    """One float variable, shuffle and deflate 4, chunks of one step of 4 MiB."""
    rng = np.random.default_rng(0)
    steps = mib // 4
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("time", None), ("y", 1024), ("x", 1024)):
            file.createDimension(name, size)
        v = file.createVariable(
            "v", "f4", ("time", "y", "x"), zlib=True, complevel=4, chunksizes=(1, 1024, 1024)
        )
        y, x = np.mgrid[:1024, :1024].astype("f4") / 100
        for i in range(steps):
            v[i] = np.round(280 + 10 * np.sin(x + i) * np.cos(y) + rng.standard_normal((1024, 1024)) * 0.1, 2)


def classic(path: Path, mib: int) -> None:
    """The same values in a classic file."""
    rng = np.random.default_rng(0)
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_DATA") as file:
        for name, size in (("time", None), ("y", 1024), ("x", 1024)):
            file.createDimension(name, size)
        v = file.createVariable("v", "f4", ("time", "y", "x"))
        for i in range(mib // 4):
            v[i] = np.round(280 + rng.standard_normal((1024, 1024)), 2)


def many(path: Path, mib: int) -> None:
    """Two thousand small variables."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", max(1, mib * (1 << 20) // 2000 // 4))
        for i in range(2000):
            file.createVariable(f"v{i}", "f4", ("x",), zlib=True)[:] = i


CASES: dict[str, Callable[[Path, int], None]] = {"deflated": deflated, "classic": classic, "many": many}

XARRAY = (
    "import sys, xarray as xr; xr.open_dataset(sys.argv[1], chunks={dask}).to_zarr(sys.argv[2], mode='w')"
)


def programs(source: Path, out: Path) -> dict[str, list[str]]:
    """The command lines, by name."""
    run = [sys.executable, "-m", "nczarr", "copy", "-q"]
    return {
        "nczarr": [*run, str(source), str(out / "a.zarr")],
        "nczarr source": [
            *run,
            "--compression",
            "source",
            "--codecs",
            "numcodecs",
            str(source),
            str(out / "b.zarr"),
        ],
        "nccopy": ["nccopy", str(source), f"file://{out}/c.zarr#mode=nczarr,file"],
        "nccopy nc": ["nccopy", str(source), str(out / "c.nc")],
        "xarray": [sys.executable, "-c", XARRAY.format(dask="None"), str(source), str(out / "d.zarr")],
        "xarray dask": [sys.executable, "-c", XARRAY.format(dask="{}"), str(source), str(out / "e.zarr")],
        "cp": ["cp", str(source), str(out / "f.nc")],
    }


def measure(command: list[str], out: Path) -> tuple[float, float, float] | None:
    """Wall seconds, processor seconds, MiB of memory; None if the program fails."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    start = time.perf_counter()
    # Installed packages are compiled once, not at every start.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    if child.returncode:
        return None
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--case", choices=[*CASES], action="append")
    parser.add_argument("--program", action="append")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for case in options.case or CASES:
            source = Path(folder) / f"{case}.nc"
            CASES[case](source, options.mib)
            out = Path(folder) / "out"
            commands = programs(source, out)
            chosen = options.program or list(commands)
            seen: dict[str, list[tuple[float, float, float]]] = {name: [] for name in chosen}
            for _ in range(options.runs):
                for name in chosen:
                    result = measure(commands[name], out)
                    if result is not None:
                        seen[name].append(result)
            print(f"\n{case}: {options.mib} MiB, {source.stat().st_size >> 20} MiB stored")
            print("| program | wall s | processor s | MiB |\n|---|---|---|---|")
            for name, results in seen.items():
                if results:
                    wall, cpu, memory = (statistics.median(column) for column in zip(*results))
                    print(f"| {name} | {wall:.2f} | {cpu:.2f} | {memory:.0f} |")
                else:
                    print(f"| {name} | failed | | |")


if __name__ == "__main__":
    main()
