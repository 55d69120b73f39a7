"""W10: append steps to a dataset on a disk, against netCDF4-python, zarr-python and tensorstore in turn.

``python tests/benchmarks/appending.py [--folder DIR] [--scale 1.0] [--rounds 5] [--only WORD]`` prints one row for each
way of appending: the milliseconds of netCDF4, the ratio of each other program to it, and the number of files. Times are
those of the best round, and in brackets the median of all rounds: where other programs use the disk, they differ.
``nczarr`` waits for the disk at each sync and close, which no other program does; ``no wait`` is ``durable=False``.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from operator import truediv
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import tensorstore
import zarr

import nczarr

#: Appends some steps to the file or store at a path.
Program = Callable[[Path, np.ndarray, str, bool], None]
PROGRAMS: dict[str, Program] = {}


def program(name: str) -> Callable[[Program], Program]:
    def register(function: Program) -> Program:
        PROGRAMS[name] = function
        return function

    return register


def create(library: Any, path: Path, steps: np.ndarray, *, compressed: bool, **options: Any) -> None:
    """Create a dataset with a variable along time and its coordinate."""
    if compressed:
        options |= {"zlib": True} if library is netCDF4 else {"compression": "zstd"}
        options["complevel"] = 1
    with library.Dataset(path, "w") as dataset:
        names = ["t", *(f"x{i}" for i in range(1, steps.ndim))]
        for name, size in zip(names, steps.shape, strict=True):
            dataset.createDimension(name, None if name == "t" else size)
        dataset.createVariable("v", "f4", names, **options)
        dataset.createVariable("t", "f8", ("t",))


def append(library: Any, path: Path, steps: np.ndarray, way: str, **options: Any) -> None:
    """Append the steps of a dataset: all in one session, with a sync after each, or reopened for each."""
    sessions = [range(len(steps))] if way != "reopen" else [[i] for i in range(len(steps))]
    for numbers in sessions:
        with library.Dataset(path, "a", **options) as dataset:
            values, times = dataset["v"], dataset["t"]
            for i in numbers:
                values[i] = steps[i]
                times[i] = i
                if way == "sync":
                    dataset.sync()


@program("netCDF4")
def netcdf4_file(path: Path, steps: np.ndarray, way: str, compressed: bool) -> None:
    create(netCDF4, path, steps, compressed=compressed)
    with timed():
        append(netCDF4, path, steps, way)


def nczarr_store(durable: bool | None, shards: bool) -> Program:
    def run(path: Path, steps: np.ndarray, way: str, compressed: bool) -> None:
        options = {"chunksizes": (1, *steps.shape[1:]), "shards": (100, *steps.shape[1:])} if shards else {}
        create(nczarr, path, steps, compressed=compressed, **options)
        with timed():
            append(nczarr, path, steps, way, durable=durable)

    return run


program("default chunks")(nczarr_store(None, False))
program("default, no wait")(nczarr_store(False, False))
program("shards")(nczarr_store(None, True))
program("shards, no wait")(nczarr_store(False, True))


@program("zarr-python")
def zarr_python(path: Path, steps: np.ndarray, way: str, compressed: bool) -> None:
    group = zarr.create_group(str(path))
    codecs: Any = zarr.codecs.ZstdCodec(level=1) if compressed else None
    row = (1, *steps.shape[1:])
    group.create_array("v", shape=(0, *row[1:]), chunks=row, dtype="f4", compressors=codecs)
    group.create_array("t", shape=(0,), chunks=(4096,), dtype="f8", compressors=None)
    with timed():
        for i, step in enumerate(steps):
            if way == "reopen":
                group = zarr.open_group(str(path), mode="r+")
            values, times = group["v"], group["t"]
            values.append(step[None])
            times.append(np.array([float(i)]))


@program("tensorstore")
def tensorstore_arrays(path: Path, steps: np.ndarray, way: str, compressed: bool) -> None:
    codecs: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    zstd = [{"name": "zstd", "configuration": {"level": 1}}] if compressed else []

    def open_array(name: str, dtype: str, row: tuple[int, ...], chunk: int, create: bool) -> Any:
        metadata = {
            "shape": [0, *row],
            "data_type": dtype,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [chunk, *row]}},
            "codecs": codecs + (zstd if name == "v" else []),
        }
        spec: dict[str, Any] = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/{name}"}}
        if create:
            spec["metadata"] = metadata
        return tensorstore.open(spec, create=create, open=not create).result()

    row = steps.shape[1:]
    arrays = open_array("v", "float32", row, 1, True), open_array("t", "float64", (), 4096, True)
    with timed():
        for i, step in enumerate(steps):
            if way == "reopen":
                arrays = (
                    open_array("v", "float32", row, 1, False),
                    open_array("t", "float64", (), 4096, False),
                )
            arrays = tuple(
                a.resize(exclusive_max=[i + 1, *a.shape[1:]], expand_only=True).result() for a in arrays
            )
            arrays[0][i].write(step).result()
            arrays[1][i].write(float(i)).result()


class timed:
    """Takes the time of a block."""

    milliseconds = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        timed.milliseconds = (time.perf_counter() - self._start) * 1e3


def planes(count: int, *size: int) -> np.ndarray:
    """Steps that compress as fields do."""
    return np.cumsum(np.random.default_rng(0).normal(size=(count, *size)), axis=-1).round(1).astype("f4")


#: By name: the steps, the way, and whether they are compressed.
CASES: dict[str, tuple[tuple[int, ...], str, bool]] = {
    "1,000 rows of 4 kB": ((1000, 1000), "loop", False),
    "300 planes of 40 kB": ((300, 100, 100), "loop", False),
    "300 planes, compressed": ((300, 100, 100), "loop", True),
    "300 planes, sync() after each": ((300, 100, 100), "sync", False),
    "300 planes, compressed, sync() after each": ((300, 100, 100), "sync", True),
    "100 planes, compressed, reopened for each": ((100, 100, 100), "reopen", True),
}


def files(path: Path) -> int:
    """The number of files of a dataset."""
    return sum(p.is_file() for p in path.rglob("*")) if path.is_dir() else 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    # ext4 creates files slowly for a minute after files were removed, so all files stay until the end.
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure(options, Path(folder))


def measure(options: argparse.Namespace, folder: Path) -> None:
    print(f"| | netCDF4, ms | {' | '.join(list(PROGRAMS)[1:])} |")
    print("|---" * (len(PROGRAMS) + 1) + "|")
    for name, ((count, *size), way, compressed) in CASES.items():
        if options.only not in name:
            continue
        steps = planes(max(1, int(count * options.scale)), *size)
        taken: dict[str, list[float]] = {}
        counts: dict[str, int] = {}
        for number in range(options.rounds):
            for label, run in PROGRAMS.items():
                path = folder / f"{name}, {number}, {label}{'.nc' if label == 'netCDF4' else '.zarr'}"
                run(path, steps, way, compressed)
                taken.setdefault(label, []).append(timed.milliseconds)
                counts[label] = files(path)
        first = taken.pop("netCDF4")
        cells = [
            f"{min(values) / min(first):.2f} ({statistics.median(map(truediv, values, first)):.2f}); "
            f"{counts[label]:,} files"
            for label, values in taken.items()
        ]
        print(
            f"| {name} | {min(first):.0f} ({statistics.median(first):.0f}) | {' | '.join(cells)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
