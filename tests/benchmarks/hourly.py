"""Append a year of hourly steps, with a `sync()` after each, while another process looks at the dataset.

``python tests/benchmarks/hourly.py [--folder DIR] [--steps 8760] [--only WORD]`` prints one row for each layout of the
chunks, with and without waiting for the disk: the median milliseconds of a step in each tenth of the year, the number
of files and MiB of the dataset, and the number of looks. Each look opens the dataset anew, and compares its length, all
times, the last step and another one with what the writer stores; the program ends with status 1 if one differs.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import nczarr

SHAPE = (72, 144)
FIELD = np.cumsum(np.random.default_rng(0).normal(size=SHAPE), axis=1).round(1).astype("f4")
ONE_STEP = (1, *SHAPE)
#: By name: the keywords of the variable.
LAYOUTS: dict[str, dict[str, Any]] = {
    "default chunks": {},
    "shards of 500 steps": {"chunksizes": ONE_STEP, "shards": (500, *SHAPE)},
    "automatic shards": {"chunksizes": ONE_STEP, "shards": "auto"},
}


def step(number: int) -> np.ndarray:
    return FIELD + np.float32(number)


def look_until(path: Path, end: Path) -> None:
    """Look at a dataset until a file appears; print the number of looks."""
    looks = last = 0
    print("ready", flush=True)
    while not end.exists():
        with nczarr.Dataset(path) as dataset:
            length = len(dataset.dimensions["t"])
            assert length >= last, f"{last} steps became {length}"
            assert dataset["t"][:].tolist() == list(range(length)), "the times are not whole"
            for number in {length - 1, random.randrange(length)} if length else ():
                assert (np.asarray(dataset["v"][number]) == step(number)).all(), f"step {number} is not whole"
        looks, last = looks + 1, length
    print(looks)


def write(path: Path, steps: int, keywords: dict[str, Any], durable: bool | None) -> None:
    """Append steps to a new dataset, and print their row."""
    with nczarr.Dataset(path, "w") as dataset:
        for name, size in zip("tyx", (None, *SHAPE), strict=True):
            dataset.createDimension(name, size)
        dataset.createVariable("v", "f4", ("t", "y", "x"), compression="zstd", complevel=1, **keywords)
        dataset.createVariable("t", "f8", ("t",))
    end = path.with_suffix(".end")
    reader = [sys.executable, __file__, "--look", str(path), str(end)]
    taken = []
    with subprocess.Popen(reader, stdout=subprocess.PIPE, text=True) as looking:
        assert looking.stdout is not None
        looking.stdout.readline()
        try:
            with nczarr.Dataset(path, "a", durable=durable) as dataset:
                values, times = dataset["v"], dataset["t"]
                for number in range(steps):
                    start = time.perf_counter()
                    values[number], times[number] = step(number), number
                    dataset.sync()
                    taken.append((time.perf_counter() - start) * 1e3)
        finally:
            end.touch()
        looks = looking.communicate()[0].strip()
    if looking.returncode:
        raise SystemExit("a look was not whole")
    files = [file for file in path.rglob("*") if file.is_file()]
    mebibytes = sum(file.stat().st_size for file in files) / 2**20
    tenths = " ".join(f"{np.median(part):.2f}" for part in np.array_split(taken, 10))
    print(f"{tenths} ms; {len(files)} files, {mebibytes:.0f} MiB; {looks} looks, all whole", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--steps", type=int, default=8760)
    parser.add_argument("--only", default="", help="a part of the name of a layout")
    parser.add_argument("--look", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.look:
        look_until(*options.look)
        return
    # ext4 creates files slowly for minutes after files were removed, so all files stay until the end.
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for durable in (False, None):
            for number, (name, keywords) in enumerate(LAYOUTS.items()):
                if options.only in name:
                    print(f"{name}{', no wait' if durable is False else ''}: ", end="", flush=True)
                    write(Path(folder, f"{number} {durable}.zarr"), options.steps, keywords, durable)


if __name__ == "__main__":
    main()
