"""Read single points of a variable by nczarr and by tensorstore in turn, and print processor time and clock.

    python tests/benchmarks/points.py

Both read the same store. nczarr keeps decoded chunks, so compressed chunks are also read after they are forgotten.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tensorstore

import nczarr
from nczarr.zarr.chunks.chunks import CHUNKS

SHAPE, CHUNK, ROUNDS = (120, 180, 360), (10, 45, 60), 15


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


def compare(label: str, reads: dict[str, Callable[[], Any]], kept: bool) -> None:
    """Print the ratios and times of nczarr and the peer, which are called in turn."""
    ours, theirs = (np.asarray(read()) for read in reads.values())
    assert (ours == theirs).all()
    times: dict[str, list[tuple[float, float]]] = {who: [] for who in reads}
    for _ in range(ROUNDS):
        for who, read in reads.items():
            if not kept:
                CHUNKS.forget(lambda name: True)
            times[who].append(measured(read))
    for number, word in enumerate(("processor", "clock")):
        mine, other = (median(pair[number] for pair in times[who]) for who in reads)
        print(f"{label}, {word}: {mine / other:.2f} ({mine:.1f} and {other:.1f} ms)", flush=True)


def main() -> None:
    """Compare all kinds of chunks, and numbers of points."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.zarr"
        make(path)
        with nczarr.Dataset(path) as dataset:
            for name, kept in (("zstd", False), ("zstd", True), ("none", False)):
                spec = {"driver": "zarr3", "kvstore": f"file://{path}/{name}"}
                peer = tensorstore.open(spec, open=True).result()
                for count in (100, 1000, 100_000):
                    chance = np.random.default_rng(count)
                    index = tuple(chance.integers(0, n, count) for n in SHAPE)
                    reads = {
                        "nczarr": partial(dataset[name].vindex.__getitem__, index),
                        "tensorstore": partial(
                            lambda peer, index: peer.vindex[index].read().result(), peer, index
                        ),
                    }
                    compare(f"{name}{', kept' * kept}, {count} points", reads, kept)


if __name__ == "__main__":
    main()
