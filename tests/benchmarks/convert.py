"""W7: conversion of netCDF files to Zarr, against nccopy, xarray and cp, interleaved in one run.

    python tests/benchmarks/convert.py [--mib 256] [--runs 3] [--case deflated] [--folder DIR] [--rechunker PYTHON]

Each program runs as a process of its own; wall time, processor time and the largest resident memory are those of
the process, start included. This one stays small, and loads no package: the peak that the system knows of a new
process is not less than its parent's. The case `rechunk` goes from one step a chunk to 16×16 points with all steps;
rechunker has an interpreter of its own, as it does not go with Zarr v3.
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


def deflated(path: Path, mib: int) -> None:
    """One float variable, shuffle and deflate 4, chunks of one step of 4 MiB."""
    import netCDF4
    import numpy as np

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
    import netCDF4
    import numpy as np

    rng = np.random.default_rng(0)
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_DATA") as file:
        for name, size in (("time", None), ("y", 1024), ("x", 1024)):
            file.createDimension(name, size)
        v = file.createVariable("v", "f4", ("time", "y", "x"))
        for i in range(mib // 4):
            v[i] = np.round(280 + rng.standard_normal((1024, 1024)), 2)


def many(path: Path, mib: int) -> None:
    """Two thousand small variables."""
    import netCDF4

    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", max(1, mib * (1 << 20) // 2000 // 4))
        for i in range(2000):
            file.createVariable(f"v{i}", "f4", ("x",), zlib=True)[:] = i


def rechunk(path: Path, mib: int) -> None:
    """One float variable on Zarr v2, a chunk of 2 MiB for each step, zstd."""
    import numcodecs
    import numpy as np
    import zarr

    rng = np.random.default_rng(0)
    steps = mib // 2
    noise = rng.standard_normal((512, 1024)).astype("f4")
    group = zarr.open_group(str(path), mode="w", zarr_format=2)
    options = {"compressors": numcodecs.Zstd(1)}
    v = group.create_array("v", shape=(steps, 512, 1024), chunks=(1, 512, 1024), dtype="f4", **options)
    v.attrs["_ARRAY_DIMENSIONS"] = ["time", "y", "x"]
    for i in range(steps):
        v[i] = np.round(280 + np.roll(noise, i), 1)


CASES: dict[str, Callable[[Path, int], None]] = {
    "deflated": deflated,
    "classic": classic,
    "many": many,
    "rechunk": rechunk,
}

XARRAY = (
    "import sys, xarray as xr; xr.open_dataset(sys.argv[1], chunks={dask}).to_zarr(sys.argv[2], mode='w')"
)


RECHUNKER = """
import sys, dask, zarr
from rechunker import rechunk
source = zarr.open_group(sys.argv[1], mode="r")
chunks = {"v": (source["v"].shape[0], 16, 16)}
with dask.config.set(scheduler="threads", num_workers=2):
    rechunk(source, chunks, "256MiB", sys.argv[2], temp_store=sys.argv[2] + ".tmp").execute()
"""


def programs(case: str, source: Path, out: Path, rechunker: str | None) -> dict[str, list[str]]:
    """The command lines, by name."""
    run = [sys.executable, "-m", "nczarr", "copy", "-q"]
    if case == "rechunk":
        steps = str(len([p for p in (source / "v").iterdir() if not p.name.startswith(".")]))
        bounded = ["--memory", "256MiB", "-c", f"time={steps},y=16,x=16"]
        found = {"nczarr": [*run, *bounded, str(source), str(out / "a.zarr")]}
        if rechunker is not None:
            found["rechunker"] = [rechunker, "-c", RECHUNKER, str(source), str(out / "b.zarr")]
        return found
    raw = ["--compression", "numcodecs"]
    return {
        "nczarr": [*run, str(source), str(out / "a.zarr")],
        "nczarr none": [*run, "--compression", "none", str(source), str(out / "n.zarr")],
        "nczarr source": [*run, *raw, str(source), str(out / "b.zarr")],
        "nccopy": ["nccopy", str(source), f"file://{out}/c.zarr#mode=nczarr,file"],
        "nccopy nc": ["nccopy", str(source), str(out / "c.nc")],
        "xarray": [sys.executable, "-c", XARRAY.format(dask="None"), str(source), str(out / "d.zarr")],
        "xarray dask": [sys.executable, "-c", XARRAY.format(dask="{}"), str(source), str(out / "e.zarr")],
        "cp": ["cp", str(source), str(out / "f.nc")],
    }


def measure(command: list[str], out: Path) -> tuple[float, float, float] | None:
    """Wall seconds, processor seconds, MiB of memory; None if the program fails, or is not there."""
    if shutil.which(command[0]) is None:
        return None
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


def stored(path: Path) -> int:
    """The bytes of a file, or of a directory."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--case", choices=[*CASES], action="append")
    parser.add_argument("--program", action="append")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rechunker", metavar="PYTHON", help="an interpreter that has the package rechunker")
    parser.add_argument("--make", nargs=2, metavar=("CASE", "PATH"), help="make a source, and nothing else")
    options = parser.parse_args()
    if options.make:
        CASES[options.make[0]](Path(options.make[1]), options.mib)
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for case in options.case or CASES:
            source = Path(folder) / f"{case}.{'zarr' if case == 'rechunk' else 'nc'}"
            making = [sys.executable, __file__, "--mib", str(options.mib), "--make", case, str(source)]
            subprocess.run(making, check=True)
            out = Path(folder) / "out"
            commands = programs(case, source, out, options.rechunker)
            chosen = [name for name in options.program or commands if name in commands]
            seen: dict[str, list[tuple[float, float, float]]] = {name: [] for name in chosen}
            for _ in range(options.runs):
                for name in chosen:
                    result = measure(commands[name], out)
                    if result is not None:
                        seen[name].append(result)
            print(f"\n{case}: {options.mib} MiB, {stored(source) >> 20} MiB stored")
            print("| program | wall s | processor s | MiB |\n|---|---|---|---|")
            for name, results in seen.items():
                if results:
                    wall, cpu, memory = (statistics.median(column) for column in zip(*results))
                    print(f"| {name} | {wall:.2f} | {cpu:.2f} | {memory:.0f} |")
                else:
                    print(f"| {name} | failed | | |")


if __name__ == "__main__":
    main()
