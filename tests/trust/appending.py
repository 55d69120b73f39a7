"""Append to one dataset from two processes, each to a variable of its own, while a reader looks again and again."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from budget import Budget, main

import nczarr

#: Opens, appends, syncs and closes; whoever finds the other one there comes again. Says what is acknowledged.
WRITER = """
import random, sys, time
import numpy as np
import nczarr.netcdf4 as nc
target, number, steps, seed = sys.argv[1], *map(int, sys.argv[2:])
chance = random.Random(seed)
done = 0
while done < steps:
    try:
        dataset = nc.Dataset(target, "a")
    except PermissionError:
        time.sleep(0.001)
        continue
    v, w = dataset[f"v{number}"], dataset[f"g/w{number}"]
    for _ in range(min(chance.randint(1, 12), steps - done)):
        v[done] = np.full(5, done)
        w[done] = f"step {done}"
        done += 1
        if chance.random() < 0.4:
            dataset.sync()
            print(done, flush=True)
    dataset.close()
    print(done, flush=True)
    time.sleep(0.002)
"""
STEPS = 60


def look(path: Path) -> tuple[int, ...]:
    """The lengths of both dimensions; every value is looked at."""
    with nczarr.Dataset(path) as dataset:
        dataset.set_auto_mask(False)
        lengths = []
        for number in (0, 1):
            length = len(dataset.dimensions[f"t{number}"])
            values, texts = dataset[f"v{number}"][:], dataset[f"g/w{number}"][:]
            assert values.shape == (length, 5), (values.shape, length)
            assert (values == np.arange(length)[:, None]).all(), values[:, 0]
            assert list(texts) == [f"step {i}" for i in range(length)]
            lengths.append(length)
        return tuple(lengths)


def trial(budget: Budget) -> None:
    """Two writers and a reader; nothing is lost, and what is seen never goes back."""
    folder = Path(tempfile.mkdtemp(prefix="nczarr-appending-"))
    try:
        for number in budget:
            path = folder / f"{number}.zarr"
            chance = random.Random(budget.random.randrange(1 << 30))
            with nczarr.Dataset(path, "w") as dataset:
                dataset.createDimension("x", 5)
                group = dataset.createGroup("g")
                for n in (0, 1):
                    dataset.createDimension(f"t{n}")
                    dataset.createVariable(
                        f"v{n}", "i4", (f"t{n}", "x"), chunksizes=(chance.randint(1, 9), 5)
                    )
                    group.createVariable(f"w{n}", str, (f"t{n}",), chunksizes=(chance.randint(1, 9),))
            writers = [
                subprocess.Popen(
                    [sys.executable, "-c", WRITER, path, *map(str, (n, STEPS, chance.randrange(1 << 30)))],
                    stdout=subprocess.PIPE,
                )
                for n in (0, 1)
            ]
            try:
                seen: tuple[int, ...] = (0, 0)
                while any(writer.poll() is None for writer in writers):
                    now = look(path)
                    assert now[0] >= seen[0], (seen, now)
                    assert now[1] >= seen[1], (seen, now)
                    seen = now
                    budget.count("looks")
                assert [writer.wait() for writer in writers] == [0, 0]
            finally:
                for writer in writers:
                    writer.kill()
                    writer.communicate()
            assert look(path) == (STEPS, STEPS)
            budget.count("pairs of writers that append")
            shutil.rmtree(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(trial)
