"""Look at a dataset from other processes while it is changed in every way: right values, or an error of our own.

One reader opens it anew for each look, one keeps it open until an error tells it not to, and zarr-python and xarray
look as well: they know nothing of what nczarr does for its readers, so their errors are only counted.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from budget import Budget, main

import nczarr
from nczarr.errors import NCZarrError
from nczarr.mapping import open_dataset, repair
from nczarr.model import INT, Attribute, Dataset, Dimension, MemorySource, Storage, Variable

SIZE = 400
#: What every kind of reader sees holds for: each value of a variable is its attribute `own`.
READER = """
import json, os, sys, warnings
import numpy as np
kind, target, stop = sys.argv[1:4]
warnings.simplefilter("ignore")
counts = {}
def count(what):
    counts[what] = counts.get(what, 0) + 1
def right(name, own, values):
    found = set(np.asarray(values).ravel().tolist())
    assert found == {own} or (not found and not own), (kind, name, own, found)
def nczarr_look(dataset):
    dataset.set_auto_mask(False)
    for name, variable in list(dataset.variables.items()):
        right(name, int(variable.own), variable[:])
        right(name, int(variable.own), variable[7])
if kind in ("anew", "kept"):
    import nczarr
    from nczarr.errors import NCZarrError
    opened = None
    print("ready", flush=True)
    while not os.path.exists(stop):
        try:
            if opened is None:
                opened = nczarr.Dataset(target)
            nczarr_look(opened)
            count("looks of " + kind)
        except NCZarrError as error:
            assert str(error)
            count("errors of " + kind)
            if opened is not None:
                opened.close()
            opened = None
        if kind == "anew" and opened is not None:
            opened.close()
            opened = None
else:
    import xarray, zarr
    print("ready", flush=True)
    while not os.path.exists(stop):
        try:
            if kind == "zarr":
                group = zarr.open_group(target, mode="r")
                found = [(n, a.attrs["own"], a[:]) for n, a in group.arrays()]
            else:
                with xarray.open_zarr(target, chunks=None, mask_and_scale=False, decode_times=False) as dataset:
                    found = [(n, v.attrs["own"], v.values) for n, v in dataset.variables.items()]
        except Exception:
            count("errors of " + kind)
            continue
        for item in found:
            if sys.argv[4] == "sure":
                right(*item)
        count("looks of " + kind)
print(json.dumps(counts))
"""


def model(own: int) -> Dataset:
    storage = Storage(chunk_shape=(25,))
    variables = tuple(
        Variable(
            name, INT, ("/x",), storage=storage, attributes=(Attribute.of("own", own + k, INT),),
            data=MemorySource(np.full(SIZE, own + k, "i4")),
        )
        for k, name in enumerate("abc")
    )  # fmt: skip
    return Dataset("d", dimensions=(Dimension("x", SIZE, True),), variables=variables)


def overwrite(path: Path, step: int) -> None:
    nczarr.copy(model(step * 10), path, overwrite=True)


def append(path: Path, step: int) -> None:
    with nczarr.Dataset(path, "a") as dataset:
        size = len(dataset.dimensions["x"])
        for variable in dataset.variables.values():
            variable[size : size + 25] = variable.own


def rename(path: Path, step: int) -> None:
    """To a name that was never there."""
    with nczarr.Dataset(path, "a") as dataset:
        dataset.renameVariable(next(iter(dataset.variables)), f"r{step}")


def remove_and_make(path: Path, step: int) -> None:
    """One variable less, and a new one with values, by the model."""
    with open_dataset(path, "r+") as stored:
        stored.update(replace(stored.dataset, variables=stored.dataset.variables[1:]))
    with nczarr.Dataset(path, "a") as dataset:
        # Values come before the attribute by which readers know them: nobody has promised both at once.
        new = dataset.createVariable(f"n{step}", "i4", ("x",), chunksizes=(25,), fill_value=step)
        new.own = np.int32(step)
        new[:] = step


def add_attribute(path: Path, step: int) -> None:
    with nczarr.Dataset(path, "a") as dataset:
        dataset.setncattr(f"at{step % 7}", step)
        for variable in dataset.variables.values():
            variable.setncattr("step", step)


def consolidate(path: Path, step: int) -> None:
    with open_dataset(path, "r+") as stored:
        stored.hierarchy.consolidate()


def mend(path: Path, step: int) -> None:
    repair(path)


#: Of what stock readers see the values are promised, too.
SURE = (append, add_attribute, consolidate, mend)
ACTIONS = (overwrite, append, rename, remove_and_make, add_attribute, consolidate, mend)
SECONDS = 2.0


def trial(budget: Budget) -> None:
    """Change, and let others look."""
    warnings.simplefilter("ignore")
    folder = Path(tempfile.mkdtemp(prefix="nczarr-readers-"))
    try:
        for number in budget:
            action = ACTIONS[(number + budget.seed) % len(ACTIONS)]
            one(budget, folder, action, number)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def one(budget: Budget, folder: Path, action: object, number: int) -> None:
    assert callable(action)
    path, stop = folder / f"{number}.zarr", folder / f"{number}.stop"
    nczarr.copy(model(10), path)
    kinds = ["anew", "kept"]
    kinds.append(budget.random.choice(["zarr", "xarray"]))
    how = "sure" if action in SURE else "may be wrong"
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, kind, path, stop, how],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for kind in kinds
    ]
    try:
        for reader in readers:
            assert reader.stdout is not None
            reader.stdout.readline()
        end = time.monotonic() + SECONDS
        step = 20
        while time.monotonic() < end or step < 30:
            step += 1
            try:
                action(path, step)
            except NCZarrError as error:
                raise AssertionError(f"{action} was refused: {error}") from error
            budget.count(f"times {getattr(action, '__name__', '')}")
        stop.touch()
        for reader in readers:
            said, wrong = reader.communicate()
            assert reader.returncode == 0, (action, wrong)
            for what, times in json.loads(said).items():
                budget.count(what, times)
    finally:
        stop.touch()
        for reader in readers:
            reader.kill()
            reader.communicate()
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main(trial)
