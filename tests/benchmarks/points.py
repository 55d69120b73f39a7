"""Read single points of a variable by nczarr and by tensorstore in turn, and print processor time and clock.

    python tests/benchmarks/points.py

Both read the same store. nczarr keeps decoded chunks from the second call on: compressed chunks are also read for the
first time, by a dataset that is opened anew; the opening is not measured.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tensorstore

import nczarr

SHAPE, CHUNK, ROUNDS = (120, 180, 360), (10, 45, 60), 31


def make(path: Path) -> None:
    """Write a variable with compressed chunks, and one without compression."""
    with nczarr.Dataset(path, "w") as out:
        for name, size in zip("tyx", SHAPE, strict=True):
            out.createDimension(name, size)
        for name, codec in (("zstd", "zstd"), ("none", None)):
            v = out.createVariable(name, "f4", tuple("tyx"), chunksizes=CHUNK, compression=codec)
            v[:] = np.random.default_rng(0).normal(size=SHAPE).round(2)


def measured(read: Callable[[], Any]) -> tuple[float, float]:
    """Return the processor time and the clock of a call, in ms."""
    clock, used = time.perf_counter(), time.process_time()
    read()
    return 1e3 * (time.process_time() - used), 1e3 * (time.perf_counter() - clock)


def compare(path: Path, name: str, kept: bool, count: int) -> None:
    """Print the ratios and times of nczarr and of tensorstore, which read in turn."""
    chance = np.random.default_rng(count)
    index = tuple(chance.integers(0, n, count) for n in SHAPE)
    peer = tensorstore.open({"driver": "zarr3", "kvstore": f"file://{path}/{name}"}, open=True).result()
    times: list[tuple[tuple[float, float], tuple[float, float]]] = []
    dataset = nczarr.Dataset(path)
    assert (dataset[name].vindex[index] == peer.vindex[index].read().result()).all()
    for _ in range(ROUNDS):
        if not kept:
            dataset.close()
            dataset = nczarr.Dataset(path)
            dataset[name][0, 0, 0]  # the codecs are loaded
        points = dataset[name].vindex
        times.append(
            (measured(lambda: points[index]), measured(lambda: peer.vindex[index].read().result()))  # noqa: B023
        )
    dataset.close()
    for number, word in enumerate(("processor", "clock")):
        mine, other = (median(pair[who][number] for pair in times) for who in (0, 1))
        label = f"{name}{', kept' * kept}, {count} points, {word}"
        print(f"{label}: {mine / other:.2f} ({mine:.1f} and {other:.1f} ms)", flush=True)


def main() -> None:
    """Compare all kinds of chunks, and numbers of points."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.zarr"
        make(path)
        for name, kept in (("zstd", False), ("zstd", True), ("none", False)):
            for count in (100, 1000, 100_000):
                compare(path, name, kept, count)


if __name__ == "__main__":
    main()
