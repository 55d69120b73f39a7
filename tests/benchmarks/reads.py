"""W9: reads as netCDF programs make them, against netCDF4-python in one run.

``python tests/benchmarks/reads.py [--scale 1.0] [--only WORD] [--cpu]`` prints one row for each: the best time of both
libraries, taken in turn, opening included, and their ratio (above 1: nczarr is slower).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

import nczarr
import nczarr.netcdf4

Read = Callable[[Any], Any]
#: What is read, by name; the second member is the source.
READS: dict[str, tuple[Read, str]] = {
    "whole, float, masked": (lambda ds: ds["float"][:], "field"),
    "whole, packed, masked and scaled": (lambda ds: ds["packed"][:], "field"),
    "whole, packed, as it is stored": (lambda ds: _raw(ds)[:], "field"),
    "loop over steps": (lambda ds: [ds["packed"][i] for i in range(len(ds.dimensions["time"]))], "field"),
    "window of every step": (lambda ds: ds["packed"][:, 100:150, 200:260], "field"),
    "series at one point": (lambda ds: ds["packed"][:, 77, 99], "field"),
    "last step": (lambda ds: ds["float"][-1], "field"),
    "one value of each variable": (lambda ds: [v[0] for v in ds.variables.values()], "many"),
    "every attribute of each variable": (
        lambda ds: [v.getncattr(n) for v in ds.variables.values() for n in v.ncattrs()],
        "many",
    ),
}


def _raw(ds: Any) -> Any:
    ds["packed"].set_auto_maskandscale(False)
    return ds["packed"]


def field(path: Path, scale: float) -> None:
    """Steps of 512 × 1024, deflated: floats, and the same packed in two bytes, with missing values."""
    rng = np.random.default_rng(0)
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("time", None), ("y", 512), ("x", 1024)):
            file.createDimension(name, size)
        how = {"zlib": True, "complevel": 1, "chunksizes": (1, 512, 1024)}
        v = file.createVariable("float", "f4", ("time", "y", "x"), fill_value=np.float32(1e20), **how)
        p = file.createVariable("packed", "i2", ("time", "y", "x"), fill_value=np.int16(-32768), **how)
        p.scale_factor, p.add_offset = 0.01, 280.0
        y, x = np.mgrid[:512, :1024] / 100
        for i in range(max(2, int(60 * scale))):
            step = 280 + 10 * np.sin(x + i) * np.cos(y) + rng.standard_normal((512, 1024)) * 0.1
            v[i] = np.ma.masked_where(step > 289, step)
            p[i] = np.ma.masked_where(step > 289, step)


def many(path: Path, scale: float) -> None:
    """A thousand small variables of four attributes."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 100)
        for i in range(max(2, int(1000 * scale))):
            v = file.createVariable(f"v{i}", "f4", ("x",))
            v.setncatts({"units": "K", "long_name": f"variable {i}", "valid_min": -5.0, "valid_max": 500.0})
            v[:] = i


SOURCES: dict[str, Callable[[Path, float], None]] = {"field": field, "many": many}


def prepared(folder: Path, source: str, scale: float) -> dict[str, tuple[Any, Path]]:
    """The same dataset for each library: the library, and where it is."""
    file = folder / f"{source}.nc"
    if not file.exists():
        SOURCES[source](file, scale)
        nczarr.copy(file, file.with_suffix(".zarr"))
    return {"nczarr": (nczarr.netcdf4, file.with_suffix(".zarr")), "netCDF4": (netCDF4, file)}


def work(read: Read, library: Any, path: Path) -> None:
    """Open, read, close."""
    with library.Dataset(str(path)) as dataset:
        read(dataset)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of steps and variables")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--cpu", action="store_true", help="processor time, on a machine that does other work"
    )
    parser.add_argument("--only", default="", help="a part of the name of a read")
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    print(f"{'read':36}{'netCDF4 s':>12}{'nczarr s':>12}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (read, source) in READS.items():
            if options.only not in name:
                continue
            best: dict[str, float] = {}
            for _ in range(options.repeats):
                for who, (library, path) in prepared(Path(folder), source, options.scale).items():
                    start = clock()
                    work(read, library, path)
                    best[who] = min(best.get(who, float("inf")), clock() - start)
            ratio = best["nczarr"] / best["netCDF4"]
            print(f"{name:36}{best['netCDF4']:12.4f}{best['nczarr']:12.4f}{ratio:8.2f}", flush=True)


if __name__ == "__main__":
    main()
