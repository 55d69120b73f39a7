"""How fast a dump is, against ncdump: ten million numbers of each kind, whole processes, medians.

Usage: python tests/benchmarks/cdl_dump.py [count]
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from nczarr.model import DOUBLE, FLOAT, INT, Dataset, Dimension, MemorySource, Variable, regions
from nczarr.netcdf import create_dataset

_RUNS = 3
_PRINT = """
import sys
from nczarr.cdl import DumpOptions
from nczarr.cdl import dump
from nczarr.netcdf import open_dataset
with open_dataset(sys.argv[1]) as source, open("/dev/null", "w", encoding="utf-8") as out:
    dump(source.dataset, out, DumpOptions(ncdump=sys.argv[2] == "ncdump"))
"""


def _write(path: Path, values: np.ndarray) -> None:
    type_ = {"f4": FLOAT, "f8": DOUBLE, "i4": INT}[values.dtype.str[1:]]
    dimensions = tuple(Dimension(n, s) for n, s in zip("tyx", values.shape, strict=True))
    variable = Variable("v", type_, ("/t", "/y", "/x"), data=MemorySource(values))
    dataset = Dataset("d", dimensions=dimensions, variables=(variable,), format="64-bit offset")
    sink = create_dataset(path, dataset)
    for region in regions(values.shape, (1, *values.shape[1:])):
        sink.write("/v", region, values[region])
    sink.commit()


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    random = np.random.default_rng(0)
    rows = count // 1000
    normal = random.normal(280, 15, rows * 1000)
    cases = {
        "float32": normal.astype("f4"),
        "float64": normal,
        "float64, two decimals": np.round(normal, 2),
        "int32": random.integers(-(2**31) + 1, 2**31 - 1, rows * 1000).astype("i4"),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, values in cases.items():
            path = Path(folder, "x.nc")
            path.unlink(missing_ok=True)
            _write(path, values.reshape(max(rows // 100, 1), -1, 1000))
            commands = {
                "ncdump": ["ncdump", str(path)],
                "nczarr --ncdump": [sys.executable, "-c", _PRINT, str(path), "ncdump"],
                "nczarr": [sys.executable, "-c", _PRINT, str(path), "default"],
                "ncdump -p 9,17": ["ncdump", "-p", "9,17", str(path)],
            }
            taken: dict[str, list[float]] = {label: [] for label in commands}
            for _ in range(_RUNS):
                for label, command in commands.items():
                    taken[label].append(_seconds(command))
            base = statistics.median(taken["ncdump"])
            for label, times in taken.items():
                median = statistics.median(times)
                print(f"{name:22} {label:16} {median:6.2f} s   ncdump/this {base / median:5.2f}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"largest process: {peak:.0f} MiB")


if __name__ == "__main__":
    main()
