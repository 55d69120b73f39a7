"""Look at a dataset from other processes while it is changed in every way: right values, or an error of our own.

One reader opens it anew for each look, one keeps it open until an error tells it not to, and zarr-python and xarray
look as well: they know nothing of what nczarr does for its readers, so their errors are only counted. The dataset is a
directory of Zarr v3 or of NCZarr v2, a zip file, a netCDF file, or in a store that cannot rename, as on S3, where
each value comes with the time at which it was written.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

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
kind, path, stop, sure, here, layout = sys.argv[1:]
sys.path.insert(0, here)
from readers import place
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
                opened = nczarr.Dataset(place(layout, path))
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
                group = zarr.open_group(path, mode="r")
                found = [(n, a.attrs["own"], a[:]) for n, a in group.arrays()]
            else:
                with xarray.open_zarr(path, chunks=None, mask_and_scale=False, decode_times=False) as dataset:
                    found = [(n, v.attrs["own"], v.values) for n, v in dataset.variables.items()]
        except Exception:
            count("errors of " + kind)
            continue
        for item in found:
            if sure == "sure":
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


def place(layout: str, path: Any) -> Any:
    """Return what to open: in a store that cannot rename, a new client of it."""
    if layout != "object store":
        return path
    from obstore.store import LocalStore as Client

    from nczarr.stores.remote.obstore_store import ObstoreStore

    return ObstoreStore(Client(str(path), mkdir=True), writable=True)


def create(layout: str, path: Any, own: int) -> None:
    """Make it, or replace what is there."""
    overwrite = os.path.exists(path)
    nczarr.copy(model(own), place(layout, path), overwrite=overwrite, **OPTIONS.get(layout, {}))


def append(path: Any, step: int) -> None:
    with nczarr.Dataset(path, "a") as dataset:
        size = len(dataset.dimensions["x"])
        for variable in dataset.variables.values():
            variable[size : size + 25] = variable.own


def rename(path: Any, step: int) -> None:
    """To a name that was never there."""
    with nczarr.Dataset(path, "a") as dataset:
        dataset.renameVariable(next(iter(dataset.variables)), f"r{step}")


def remove_and_make(path: Any, step: int) -> None:
    """One variable less, and a new one with values, by the model."""
    with open_dataset(path, "r+") as stored:
        stored.update(replace(stored.dataset, variables=stored.dataset.variables[1:]))
    with nczarr.Dataset(path, "a") as dataset:
        # Values come before the attribute by which readers know them: nobody has promised both at once.
        new = dataset.createVariable(f"n{step}", "i4", ("x",), chunksizes=(25,), fill_value=step)
        new.own = np.int32(step)
        new[:] = step


def add_attribute(path: Any, step: int) -> None:
    with nczarr.Dataset(path, "a") as dataset:
        dataset.setncattr(f"at{step % 7}", step)
        for variable in dataset.variables.values():
            variable.setncattr("step", step)


def consolidate(path: Any, step: int) -> None:
    with open_dataset(path, "r+") as stored:
        stored.hierarchy.consolidate()


def mend(path: Any, step: int) -> None:
    repair(path)


#: Of what stock readers see the values are promised, too.
SURE = (append, add_attribute, consolidate, mend)
ACTIONS = ("overwrite", append, rename, remove_and_make, add_attribute, consolidate, mend)
#: What is done to a dataset of each kind, and the end of its name. Nobody is promised to read HDF5 that is written to.
PLACES = {
    "directory": (ACTIONS, ".zarr"),
    "NCZarr v2": (ACTIONS[:-1], ".zarr"),
    "object store": (ACTIONS, ".zarr"),
    "zip": (("overwrite", append, rename, remove_and_make, add_attribute), ".zip"),
    "classic": (("overwrite", append), ".nc"),
    "netCDF-4": (("overwrite",), ".nc"),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "NCZarr v2": {"layout": "nczarr-v2"},
    "classic": {"format": "classic"},
}
SECONDS = 2.0


CASES = [(layout, action) for layout, (actions, _) in PLACES.items() for action in actions]


def trial(budget: Budget) -> None:
    """Change, and let others look."""
    warnings.simplefilter("ignore")
    folder = Path(tempfile.mkdtemp(prefix="nczarr-readers-"))
    try:
        for number in budget:
            layout, action = CASES[(number + budget.seed) % len(CASES)]
            one(budget, folder, layout, action, number)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def one(
    budget: Budget, folder: Path, layout: str, action: str | Callable[[Any, int], None], number: int
) -> None:
    path, stop = folder / f"{number}{PLACES[layout][1]}", folder / f"{number}.stop"
    create(layout, path, 10)
    kinds = ["anew", "kept"]
    if path.suffix == ".zarr":
        kinds.append(budget.random.choice(["zarr", "xarray"]))
    name = action if isinstance(action, str) else action.__name__
    budget.shown = (layout, name)
    here = str(Path(__file__).parent)
    how = "sure" if action in SURE else "may be wrong"
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, kind, path, stop, how, here, layout],
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
                if isinstance(action, str):
                    create(layout, path, step * 10)
                else:
                    action(place(layout, path), step)
            except NCZarrError as error:
                raise AssertionError(f"{name} of {layout} was refused: {error}") from error
            budget.count(f"times {name}")
        stop.touch()
        for reader in readers:
            said, wrong = reader.communicate()
            assert reader.returncode == 0, (layout, name, wrong)
            for what, times in json.loads(said).items():
                budget.count(what, times)
    finally:
        stop.touch()
        for reader in readers:
            reader.kill()
            reader.communicate()
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    main(trial)
