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

#: One after the other: a directory, a zip file, a netCDF file.
ENDINGS = (".zarr", ".zarr.zip", ".nc")
THREADS = 64
STEPS = 12


def change(
    dataset: nczarr.Dataset, number: int, seed: int
) -> tuple[dict[str, object], dict[str, int], list[int]]:
    """Make changes in names and rows of this thread's own; return the attributes, variables and rows there then."""
    chance = random.Random(seed)
    attributes: dict[str, object] = {}
    variables: dict[str, int] = {}
    together, rows = dataset["together"], [0] * 3
    group = dataset.createGroup(f"g{number}")
    for step in range(STEPS):
        act = chance.randrange(8)
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
        elif act == 5:
            row = chance.randrange(3)
            together[number * 3 + row] = rows[row] = step + 1
        elif act == 6:
            assert (together[number * 3 : number * 3 + 3] == np.array(rows)[:, None]).all(), number
        elif variables:
            name = chance.choice(list(variables))
            assert (group[name][:] == variables[name]).all(), name
    return attributes, variables, rows


def trial(budget: Budget) -> None:
    """Begin, change from all threads, close, open and compare."""
    warnings.simplefilter("ignore")
    folder = Path(tempfile.mkdtemp(prefix="nczarr-threads-"))
    try:
        for number in budget:
            path = folder / f"{number}{ENDINGS[number % 3]}"
            budget.shown = path.name
            with nczarr.Dataset(path, "w") as dataset:
                dataset.createDimension("x", 8)
                dataset.createDimension("rows", THREADS * 3)
                # Chunks that several threads share, each its own rows of them.
                deflate = bool(budget.random.randrange(2))
                dataset.createVariable("together", "i4", ("rows", "x"), chunksizes=(5, 8), zlib=deflate)[
                    :
                ] = 0
                with ThreadPoolExecutor(THREADS) as pool:
                    seeds = [budget.random.randrange(1 << 30) for _ in range(THREADS)]
                    work = [pool.submit(change, dataset, n, seed) for n, seed in enumerate(seeds)]
                    known = [future.result() for future in work]
            with nczarr.Dataset(path) as dataset:
                expected = {name: value for attributes, _, _ in known for name, value in attributes.items()}
                assert {name: dataset.getncattr(name) for name in dataset.ncattrs()} == expected
                for n, (_, variables, rows) in enumerate(known):
                    group = dataset[f"g{n}"]
                    assert (dataset["together"][n * 3 : n * 3 + 3] == np.array(rows)[:, None]).all(), n
                    assert set(group.variables) == set(variables)
                    for name, value in variables.items():
                        assert (np.asarray(group[name][:]) == value).all(), name
            budget.count("rounds of 64 threads")
            budget.count("changes", THREADS * STEPS)
            budget.count(f"datasets {ENDINGS[number % 3]}")
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(trial)
