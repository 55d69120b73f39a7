"""W8: loops that write and read in parts, against netCDF4-python in one run.

``python tests/benchmarks/partial.py [--scale 1.0] [--only WORD] [--cpu]`` prints one row for each loop: the best time
of both libraries, taken in turn, and their ratio (above 1: nczarr is slower). ``--file a.nc [--format
NETCDF3_CLASSIC]`` lets nczarr write a netCDF file, too. nczarr waits for the disk at each sync and close, which netCDF4
does not; with ``--no-wait``, neither does.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

import nczarr.netcdf4

Loop = Callable[[Any, str, int], None]
#: The format of the files, and of the label on Zarr.
FORMAT = "NETCDF4"
LOOPS: dict[str, tuple[Loop, int]] = {}
#: Steps of a global field in kelvin; a tenth of the values is missing.
FIELD = np.ma.masked_greater(np.random.default_rng(0).normal(285, 10, (40, 180, 360)), 298)


def loop(name: str, count: int) -> Callable[[Loop], Loop]:
    def register(function: Loop) -> Loop:
        LOOPS[name] = (function, count)
        return function

    return register


def make(nc: Any, path: str, shape: tuple[int, ...], dtype: Any = "f4", **options: Any) -> tuple[Any, Any]:
    ds = nc.Dataset(path, "w", format=FORMAT)
    names = []
    for i, size in enumerate(shape):
        ds.createDimension(f"d{i}", size or None)
        names.append(f"d{i}")
    return ds, ds.createVariable("v", dtype, names, **options)


@loop("row by row, chunked", 1000)
def rows_chunked(nc: Any, path: str, n: int) -> None:
    ds, v = make(nc, path, (n, 1000), chunksizes=(100, 100))
    row = np.arange(1000, dtype="f4")
    for i in range(n):
        v[i] = row
    ds.close()


@loop("row by row, contiguous", 1000)
def rows_contiguous(nc: Any, path: str, n: int) -> None:
    ds, v = make(nc, path, (n, 1000))
    row = np.arange(1000, dtype="f4")
    for i in range(n):
        v[i] = row
    ds.close()


@loop("append rows, uncompressed", 1000)
def append_rows(nc: Any, path: str, n: int) -> None:
    ds, v = make(nc, path, (0, 1000))
    row = np.arange(1000, dtype="f4")
    for i in range(n):
        v[i] = row
    ds.close()


@loop("append planes, uncompressed", 200)
def append_planes(nc: Any, path: str, n: int) -> None:
    ds, v = make(nc, path, (0, 180, 360))
    plane = np.random.default_rng(0).random((180, 360), "f4")
    for i in range(n):
        v[i] = plane
    ds.close()


@loop("append, chunks of 20, deflate", 200)
def append_deflate(nc: Any, path: str, n: int) -> None:
    ds, v = make(nc, path, (0, 90, 180), chunksizes=(20, 90, 180), zlib=True)
    plane = np.add.outer(np.arange(90), np.arange(180)).astype("f4")
    for i in range(n):
        v[i] = plane + i
    ds.close()


@loop("strings one by one", 2000)
def strings(nc: Any, path: str, n: int) -> None:
    ds, v = make(nc, path, (0,), str)
    for i in range(n):
        v[i] = f"station {i}"
    ds.close()


@loop("read strings one by one", 2000)
def read_strings(nc: Any, path: str, n: int) -> None:
    ds, v = make(nc, path, (n,), str)
    v[:] = np.array([f"station {i}" for i in range(n)], object)
    ds.close()
    with nc.Dataset(path) as ds:
        v = ds["v"]
        for i in range(n):
            v[i]


@loop("element by element", 3000)
def elements(nc: Any, path: str, n: int) -> None:
    ds, v = make(nc, path, (60, 50))
    for i in range(n):
        v[i // 50, i % 50] = i
    ds.close()


@loop("read element by element", 3000)
def read_elements(nc: Any, path: str, n: int) -> None:
    ds, v = make(nc, path, (60, 50))
    v[:] = 1
    ds.close()
    with nc.Dataset(path) as ds:
        v = ds["v"]
        for i in range(n):
            v[i // 50, i % 50]


@loop("1-D series", 5000)
def series(nc: Any, path: str, n: int) -> None:
    ds, v = make(nc, path, (0,), "f8")
    for i in range(n):
        v[i] = i
    ds.close()


@loop("sync every step", 100)
def sync(nc: Any, path: str, n: int) -> None:
    ds, v = make(nc, path, (0, 100))
    row = np.arange(100, dtype="f4")
    for i in range(n):
        v[i] = row
        ds.sync()
    ds.close()


@loop("100 variables, sync every step", 40)
def sync_many(nc: Any, path: str, n: int) -> None:
    ds, v = make(nc, path, (0, 100))
    made = [v, *(ds.createVariable(f"v{i}", "f4", ("d0", "d1")) for i in range(99))]
    row = np.arange(100, dtype="f4")
    for i in range(n):
        for v in made:
            v[i] = row
        ds.sync()
    ds.close()


@loop("variables made and written", 1000)
def variables(nc: Any, path: str, n: int) -> None:
    ds = nc.Dataset(path, "w", format=FORMAT)
    ds.createDimension("x", 100)
    values = np.arange(100, dtype="f4")
    for i in range(n):
        ds.createVariable(f"v{i}", "f4", ("x",))[:] = values
    ds.close()


@loop("write masked, float", 40)
def masked_floats(nc: Any, path: str, n: int) -> None:
    ds, v = make(nc, path, FIELD[:n].shape, fill_value=-1e30)
    v[:] = FIELD[:n]
    ds.close()


@loop("write masked, packed", 40)
def masked_packed(nc: Any, path: str, n: int) -> None:
    ds, v = make(nc, path, FIELD[:n].shape, "i2", fill_value=-32768)
    v.scale_factor, v.add_offset = 0.01, 273.15
    v[:] = FIELD[:n]
    ds.close()


@loop("write masked, packed, step by step", 40)
def masked_steps(nc: Any, path: str, n: int) -> None:
    ds, v = make(nc, path, FIELD[:n].shape, "i2", fill_value=-32768)
    v.scale_factor, v.add_offset = 0.01, 273.15
    for i, step in enumerate(FIELD[:n]):
        v[i] = step
    ds.close()


@loop("attributes set", 2000)
def attributes(nc: Any, path: str, n: int) -> None:
    ds = nc.Dataset(path, "w", format=FORMAT)
    for i in range(n):
        ds.setncattr(f"a{i}", f"value {i}")
    ds.close()


class Unwaiting:
    """nczarr, which does not wait for the disk."""

    Dataset = functools.partial(nczarr.netcdf4.Dataset, durable=False)


def best(
    function: Loop,
    count: int,
    folder: Path,
    repeats: int,
    clock: Callable[[], float],
    file: str,
    ours: Any,
) -> tuple[float, float]:
    times = [float("inf"), float("inf")]
    for _ in range(repeats):
        # ext4 creates files slowly for a minute after files were removed, so all files stay until the end.
        place = Path(tempfile.mkdtemp(dir=folder))
        for which, nc in enumerate((netCDF4, ours)):
            path = place / ("netcdf4.nc" if which == 0 else file)
            start = clock()
            function(nc, str(path), count)
            times[which] = min(times[which], clock() - start)
    return times[0], times[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of steps")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--cpu", action="store_true", help="processor time, on a machine that does other work"
    )
    parser.add_argument("--only", default="", help="a part of the name of a loop")
    parser.add_argument("--folder", default=None, help="where the data go")
    parser.add_argument(
        "--file", default="a.zarr", help="the name of nczarr's dataset: a.nc for a netCDF file"
    )
    parser.add_argument("--format", default="NETCDF4")
    parser.add_argument("--no-wait", action="store_true", help="let nczarr not wait for the disk")
    arguments = parser.parse_args()
    global FORMAT
    FORMAT = arguments.format
    print(f"{'loop':32}{'steps':>7}{'netCDF4 s':>12}{'nczarr s':>12}{'ratio':>8}")
    clock = time.process_time if arguments.cpu else time.perf_counter
    library: Any = Unwaiting if arguments.no_wait else nczarr.netcdf4
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for name, (function, count) in LOOPS.items():
            if arguments.only in name and (FORMAT == "NETCDF4" or "string" not in name):
                count = max(1, int(count * arguments.scale))
                theirs, ours = best(
                    function, count, Path(folder), arguments.repeats, clock, arguments.file, library
                )
                print(f"{name:32}{count:7}{theirs:12.4f}{ours:12.4f}{ours / theirs:8.2f}", flush=True)


if __name__ == "__main__":
    main()
