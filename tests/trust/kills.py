"""Kill processes that copy, overwrite, append and rename; what a reader finds afterwards is whole, old or new."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from budget import Budget, main

import nczarr
from nczarr.convert import open_source
from nczarr.errors import DatasetNotFoundError, StoreError
from nczarr.mapping.dataset.maintenance import clean

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"
#: Seconds after which a worker that is ready is killed, at most.
LONGEST = 0.4
#: What the worker does, again and again, until it is killed. Every value of a whole dataset is its attribute `n`.
WORKER = """
import sys
import numpy as np
import nczarr
from nczarr.model import INT, Attribute, Dataset, Dimension, MemorySource, Storage, Variable
from dataclasses import replace
from nczarr.mapping import open_dataset
action, target, practice = sys.argv[1:4]
def model(n, size=4000):
    storage = Storage(chunk_shape=(50,))
    # Where names are exchanged, each variable has values of its own, and an attribute that says them.
    apart = "exchange" in (action, practice)
    variables = tuple(
        Variable(
            name, INT, ("/x",), storage=storage, data=MemorySource(np.full(size, n + k * apart, "i4")),
            attributes=(Attribute.of("own", n + k * apart),),
        )
        for k, name in enumerate("abc")
    )
    attributes, dimensions = (Attribute.of("n", n),), (Dimension("x", size, True),)
    return Dataset("d", attributes=attributes, dimensions=dimensions, variables=variables)
if action == "once":
    nczarr.copy(model(10), target)
    sys.exit()
def act(n, target, new):
    if action in ("copy", "overwrite"):
        nczarr.copy(model(n), target, overwrite=action == "overwrite" or not new)
    elif action == "exchange":
        with open_dataset(target, "r+") as stored:
            old = stored.dataset
            other = {"a": "b", "b": "a", "c": "c"}
            data = [v.with_data(stored.data(f"/{v.name}")) for v in old.variables]
            stored.update(replace(old, variables=tuple(replace(v, name=other[v.name]) for v in data)))
    else:
        with nczarr.Dataset(target, "a") as dataset:
            if action == "rename":
                one, two = ("a", "z") if "a" in dataset.variables else ("z", "a")
                dataset.renameVariable(one, two)
            else:
                size = len(dataset.dimensions["x"])
                for name in dataset.variables:
                    dataset[name][size : size + 60] = dataset.n
# Whatever is imported late is imported now, so that the kill meets the work.
nczarr.copy(model(10), practice)
for n in range(2):
    act(n, practice, False)
print("ready", flush=True)
n = 10
while True:
    n += 1
    act(n, target, n == 11)
"""


def look(target: Path, action: str) -> str:
    """Say what is there; every value of it is looked at."""
    if target.suffix == ".cdl":
        with open_source(target) as text:
            n = text.attribute["n"].values[0]
            for written in text.variables:
                assert written.data is not None
                assert (written.data.read((slice(0, 4000),)) == n).all()
        return "whole"
    try:
        with nczarr.Dataset(target) as dataset:
            dataset.set_auto_mask(False)
            names = set(dataset.variables)
            if action == "rename":
                assert names in ({"a", "b", "c"}, {"z", "b", "c"}, {"a", "z", "b", "c"}), names
            else:
                assert names == {"a", "b", "c"}, names
            for variable in dataset.variables.values():
                values = variable[:]
                if action == "append":
                    # Steps of the last append that were not synced may be missing, never wrong.
                    known = values[values != nczarr.default_fillvals["i4"]]
                    assert (values[:4000] == dataset.n).all()
                    assert (known == dataset.n).all()
                else:
                    assert values.shape == (4000,)
                    assert (values == variable.own).all(), (variable.name, np.unique(values))
            assert action != "exchange" or {v.own for v in dataset.variables.values()} == {10, 11, 12}
    except StoreError as error:
        assert "no value is lost" in str(error)
        assert action == "exchange"
        return "between"
    except DatasetNotFoundError:
        # A directory that was made, and nothing in it yet, cannot be told from one of somebody else.
        return "unfinished" if not target.is_dir() or any(target.iterdir()) else "nothing"
    return "whole"


def trial(budget: Budget) -> None:
    """Kill at random moments."""
    warnings.simplefilter("ignore")
    cases = [
        (a, s)
        for a in ("copy", "overwrite", "append", "rename", "exchange")
        for s in (".zarr", ".zip", ".nc", ".cdl")
    ]
    # Files of other formats are not changed in place, only made and replaced.
    cases = [(a, s) for a, s in cases if s in (".zarr", ".zip") or a in ("copy", "overwrite")]
    for number in budget:
        action, suffix = cases[number % len(cases)]
        with tempfile.TemporaryDirectory(prefix="nczarr-kills-") as folder:
            (Path(folder) / "practice").mkdir()
            (Path(folder) / "target").mkdir()
            one(budget, Path(folder) / "target" / f"t{suffix}", action)


def one(budget: Budget, target: Path, action: str) -> None:
    if action != "copy":
        subprocess.run([sys.executable, "-c", WORKER, "once", target, action], check=True)
        assert look(target, action) == "whole"
    practice = target.parents[1] / "practice" / target.name
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, action, target, practice],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert worker.stdout is not None
    worker.stdout.readline()
    time.sleep(budget.random.uniform(0, LONGEST))
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    budget.count(f"kills of {action}")
    found = look(target, action) if target.exists() else "nothing"
    assert found == "whole" or action == "copy" or found == "between", (found, action, target)
    budget.count("kills between two names", found == "between")
    if budget.random.random() < 0.5 and found == "between":
        nczarr.Dataset(target, "a").close()
    clean(target)
    after = look(target, action) if target.exists() else "nothing"
    assert after == "whole" or (after == "nothing" and found != "whole"), (action, target.name, found, after)
    left = sorted(path.name for path in target.parent.iterdir())
    assert left in ([target.name], []), left
    # Nothing that a killed process leaves is in the way of the next.
    nczarr.copy(EXAMPLE, target, overwrite=True)
    assert not target.is_dir() or not list(target.rglob(".nczarr-*"))


if __name__ == "__main__":
    main(trial)
