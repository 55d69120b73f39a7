"""Change one dataset from 64 threads, structure and all, and compare with what each thread knows that it did."""

from __future__ import annotations

import random
import shutil
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from budget import Budget, main

import nczarr

THREADS = 64
STEPS = 12


def change(dataset: nczarr.Dataset, number: int, seed: int) -> tuple[dict[str, object], dict[str, int]]:
    """Make changes in names of this thread's own; return the attributes and variables that are there then."""
    chance = random.Random(seed)
    attributes: dict[str, object] = {}
    variables: dict[str, int] = {}
    group = dataset.createGroup(f"g{number}")
    for step in range(STEPS):
        act = chance.randrange(6)
        if act == 0:
            name = f"a{number}_{chance.randrange(4)}"
            dataset.setncattr(name, step)
            attributes[name] = step
        elif act == 1:
            name = f"v{number}_{step}"
            variable = group.createVariable(name, "i4", ("x",), chunksizes=(4,))
            variable[:] = step
            variables[name] = step
        elif act == 2 and variables:
            name = chance.choice(list(variables))
            group[name][:] = step
            variables[name] = step
        elif act == 3 and variables:
            name = chance.choice(list(variables))
            new = f"r{number}_{step}"
            group.renameVariable(name, new)
            variables[new] = variables.pop(name)
        elif act == 4:
            dataset.sync()
        elif variables:
            name = chance.choice(list(variables))
            assert (group[name][:] == variables[name]).all(), name
    return attributes, variables


def trial(budget: Budget) -> None:
    """Begin, change from all threads, close, open and compare."""
    warnings.simplefilter("ignore")
    folder = Path(tempfile.mkdtemp(prefix="nczarr-threads-"))
    try:
        for number in budget:
            path = folder / f"{number}.zarr"
            with nczarr.Dataset(path, "w") as dataset:
                dataset.createDimension("x", 8)
                with ThreadPoolExecutor(THREADS) as pool:
                    seeds = [budget.random.randrange(1 << 30) for _ in range(THREADS)]
                    work = [pool.submit(change, dataset, n, seed) for n, seed in enumerate(seeds)]
                    known = [future.result() for future in work]
            with nczarr.Dataset(path) as dataset:
                expected = {name: value for attributes, _ in known for name, value in attributes.items()}
                assert {name: dataset.getncattr(name) for name in dataset.ncattrs()} == expected
                for n, (_, variables) in enumerate(known):
                    group = dataset[f"g{n}"]
                    assert set(group.variables) == set(variables)
                    for name, value in variables.items():
                        assert (np.asarray(group[name][:]) == value).all(), name
            budget.count("rounds of 64 threads")
            budget.count("changes", THREADS * STEPS)
            shutil.rmtree(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(trial)
