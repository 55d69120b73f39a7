"""Default chunks: objects, chunk lengths and reading times of five archives, joined by nczarr and by xarray.

``python tests/benchmarks/default_chunks.py [--folder DIR] [--rounds 5] [--before DIR]`` joins the files of each archive
without any option, and prints one row for each archive and program: the number of objects, the chunk length of each
variable along the joined dimension (in brackets the shard), whether ``Dataset.chunks`` of xarray works, and the
milliseconds to read the largest variable step by step, a series of it at one point, and a small variable as a whole.
All stores are read by nczarr in turn; the times are the medians of the rounds. ``--before`` is the source tree of
another version, which joins the same files in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import netCDF4
import numpy as np
import xarray as xr

import nczarr

#: Variables of a file: the type and the dimensions.
_Variables = dict[str, tuple[str, tuple[str, ...]]]
#: An archive: the joined dimension, its steps in a file, the number of files, other dimensions, the variables,
#: the hours between steps, and the large and the small variable that are read.
ARCHIVES: dict[str, tuple[str, int, int, dict[str, int], _Variables, int, tuple[str, str]]] = {
    "hourly 0.25°": (
        "time", 24, 3, {"lat": 721, "lon": 1440, "nv": 2},
        {
            "t2m": ("f4", ("time", "lat", "lon")), "tp": ("i2", ("time", "lat", "lon")),
            "expver": ("i4", ("time",)), "time_bnds": ("f8", ("time", "nv")), "area": ("f4", ("lat", "lon")),
        },
        1, ("t2m", "expver"),
    ),
    "daily 1°": (
        "time", 1, 365, {"lat": 180, "lon": 360, "nv": 2},
        {
            "tas": ("f4", ("time", "lat", "lon")), "pr": ("f8", ("time", "lat", "lon")),
            "count": ("i2", ("time", "lat", "lon")), "time_bnds": ("f8", ("time", "nv")),
        },
        24, ("pr", "time_bnds"),
    ),
    "stations": (
        "time", 144, 30, {"station": 300},
        {
            "wind": ("f4", ("time", "station")), "gust": ("i2", ("time", "station")),
            "flag": ("i1", ("time", "station")), "status": ("i4", ("time",)),
            "height": ("f4", ("station",)),
        },
        1, ("wind", "status"),
    ),
    "swaths": (
        "scan", 400, 10, {"pixel": 256, "channel": 5},
        {
            "tb": ("f4", ("scan", "pixel", "channel")), "lat": ("f4", ("scan", "pixel")),
            "lon": ("f4", ("scan", "pixel")), "quality": ("u1", ("scan", "pixel")), "when": ("f8", ("scan",)),
        },
        1, ("tb", "when"),
    ),
    "ocean, two grids": (
        "time", 4, 30, {"depth": 8, "y": 60, "x": 80, "x_u": 81},
        {
            "temp": ("i2", ("time", "depth", "y", "x")), "salt": ("f4", ("time", "depth", "y", "x")),
            "u": ("f4", ("time", "depth", "y", "x_u")), "sea_level": ("f4", ("time", "y", "x")),
            "mask": ("i1", ("depth", "y", "x")), "iteration": ("i4", ("time",)),
        },
        6, ("u", "iteration"),
    ),
}  # fmt: skip


def write_files(folder: Path, name: str) -> list[str]:
    """Write the files of an archive, as model output: an unlimited dimension, deflate, default chunks."""
    along, steps, count, sizes, variables, hours, _ = ARCHIVES[name]
    generator, found = np.random.default_rng(1), []
    for number in range(count):
        found.append(str(folder / f"f{number:04}.nc"))
        with netCDF4.Dataset(found[-1], "w") as ds:
            ds.createDimension(along, None)
            for dimension, size in sizes.items():
                ds.createDimension(dimension, size)
            if along == "time":
                time = ds.createVariable("time", "f8", ("time",))
                time.units = "hours since 2026-01-01"
                time[:] = (np.arange(steps) + number * steps) * hours
            for variable, (code, dimensions) in variables.items():
                made = ds.createVariable(variable, code, dimensions, zlib=len(dimensions) > 1, complevel=1)
                shape = [steps if d == along else sizes[d] for d in dimensions]
                seed = generator if along in dimensions else np.random.default_rng(2)
                made[:] = np.cumsum(seed.integers(-1, 2, shape), axis=-1)
    return found


def join_by_nczarr(files: list[str], target: str, along: str) -> None:
    nczarr.join(files, target, along=along)


def join_by_xarray(files: list[str], target: str, along: str) -> None:
    """Join as xarray's documentation says."""
    how = {"combine": "nested", "concat_dim": along, "data_vars": "minimal", "coords": "minimal"}
    with xr.open_mfdataset(files, compat="override", **how) as ds:
        ds.to_zarr(target, zarr_format=3, consolidated=False)


def measured(store: str, name: str) -> dict[str, Callable[[], object]]:
    along, _, _, _, variables, _, (large, small) = ARCHIVES[name]
    dataset = nczarr.Dataset(store)
    big, little = dataset[large], dataset[small]
    middle = tuple(n // 2 for n in big.shape[1:])
    steps = np.linspace(0, len(big) - 1, 40, dtype=int)
    assert variables[large][1][0] == along

    def rows() -> None:
        big.set_var_chunk_cache(0)
        for step in steps.tolist():
            big[step]

    return {"rows": rows, "series": lambda: big[(slice(None), *middle)], "small": lambda: little[:]}


def described(store: str, name: str) -> str:
    """Return the number of objects, the chunk lengths, and whether Dask can use them."""
    along, _, _, _, variables, _, _ = ARCHIVES[name]
    objects = sum(len(files) for _, _, files in os.walk(store))
    lengths = []
    with xr.open_zarr(store, consolidated=False) as ds:
        for variable, (_, dimensions) in variables.items():
            if along in dimensions:
                axis, encoding = dimensions.index(along), ds[variable].encoding
                shard = f" ({encoding['shards'][axis]})" if encoding.get("shards") else ""
                lengths.append(f"{encoding['chunks'][axis]}{shard}")
        try:
            works = "yes" if ds.chunks else "no"
        except ValueError:
            works = "no"
    return f"{objects} | {', '.join(lengths)} | {works}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print("| archive | joined by | objects | chunk lengths (shards) | `.chunks` | rows | series | small |")
    print("|---|---|---|---|---|---|---|---|")
    for name in ARCHIVES:
        if options.only in name:
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                run(name, Path(folder), options.before, options.rounds)


def run(name: str, folder: Path, before: str | None, rounds: int) -> None:
    """Join an archive by each program, and print a row for each."""
    along = ARCHIVES[name][0]
    files, stores = write_files(folder, name), {}
    if before is not None:
        stores["nczarr before"] = str(folder / "before.zarr")
        code = f"import nczarr; nczarr.join({files!r}, {stores['nczarr before']!r}, along={along!r})"
        subprocess.run(
            [sys.executable, "-c", code], check=True, cwd=folder, env=os.environ | {"PYTHONPATH": before}
        )
    for program, join in (("nczarr", join_by_nczarr), ("xarray", join_by_xarray)):
        stores[program] = str(folder / f"{program}.zarr")
        join(files, stores[program], along)
    tasks = {program: measured(store, name) for program, store in stores.items()}
    times: dict[tuple[str, str], list[float]] = {}
    for turn in range(rounds):
        programs = list(tasks)
        for program in programs[turn % len(programs) :] + programs[: turn % len(programs)]:
            for what, task in tasks[program].items():
                start = time.process_time()
                task()
                times.setdefault((program, what), []).append(1000 * (time.process_time() - start))
    for program, store in stores.items():
        found = " | ".join(f"{statistics.median(times[program, what]):.1f}" for what in tasks[program])
        print(f"| {name} | {program} | {described(store, name)} | {found} |", flush=True)


if __name__ == "__main__":
    main()
