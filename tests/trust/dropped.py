"""Drop datasets unclosed, in circles of references, while threads work and the collector runs all the time."""

from __future__ import annotations

import gc
import random
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from budget import Budget, main

import nczarr

ENDINGS = ("zarr", "nc", "zarr.zip")
THREADS = 6
STEPS = 10


class Circle:
    """What only the collector can free."""

    def __init__(self, content: Any) -> None:
        self.content, self.itself = content, self


@contextmanager
def collecting_always() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(10, 2, 2)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def read(path: Path, number: int) -> None:
    """Read, and drop."""
    dataset = nczarr.Dataset(path)
    Circle(dataset)
    assert (dataset[f"v{number}"][:] == number).all()
    assert dataset[f"s{number}"][3] == str(number)


def write(path: Path, chance: random.Random, *, closed: bool) -> None:
    """Write a new dataset in steps, and drop it, with or without closing it first."""
    dataset = nczarr.Dataset(path, "w")
    Circle(dataset)
    dataset.createDimension("t")
    dataset.createDimension("x", 8)
    values = dataset.createVariable("v", "f8", ("t", "x"), chunksizes=(2, 8))
    texts = dataset.createVariable("s", str, ("t",))
    for i in range(5):
        values[i], texts[i] = i, str(i)
        if chance.random() < 0.3:
            dataset.sync()
    if closed:
        dataset.close()
    elif chance.random() < 0.5:
        Circle(values)


def written(path: Path) -> None:
    """Compare what is there with what was written."""
    with nczarr.Dataset(path) as dataset:
        assert (dataset["v"][:] == np.arange(5.0)[:, None]).all(), path
        assert dataset["s"][:].tolist() == list("01234"), path


def work(folder: Path, number: int, seed: int) -> list[Path]:
    """Read what all read, write what only this thread does; return what was not closed."""
    chance = random.Random(seed)
    left = []
    for step in range(STEPS):
        ending = chance.choice(ENDINGS)
        if chance.random() < 0.4:
            read(folder / f"shared.{ending}", number)
            continue
        path, closed = folder / f"{number}-{step}.{ending}", chance.random() < 0.5
        write(path, chance, closed=closed)
        if closed:
            written(path)
        else:
            left.append(path)
    return left


def trial(budget: Budget) -> None:
    """Let threads work and drop; then look at everything that was dropped."""
    warnings.simplefilter("ignore")
    for _ in budget:
        folder = Path(tempfile.mkdtemp(prefix="nczarr-dropped-"))
        try:
            with nczarr.Dataset(folder / "shared.zarr", "w") as dataset:
                dataset.createDimension("x", 64)
                for i in range(THREADS):
                    dataset.createVariable(f"v{i}", "i4", ("x",), chunksizes=(16,))[:] = i
                    dataset.createVariable(f"s{i}", str, ("x",))[:] = np.array([str(i)] * 64, object)
            for ending in ENDINGS[1:]:
                nczarr.copy(folder / "shared.zarr", folder / f"shared.{ending}")
            seeds = [budget.random.randrange(1 << 30) for _ in range(THREADS)]
            with collecting_always(), ThreadPoolExecutor(THREADS) as pool:
                left = [
                    path
                    for paths in pool.map(work, [folder] * THREADS, range(THREADS), seeds)
                    for path in paths
                ]
            gc.collect()
            for path in left:
                written(path)
            budget.count("datasets dropped", len(left))
            budget.count(f"rounds of {THREADS} threads")
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main(trial)
