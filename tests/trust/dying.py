"""Let a process die at every single step of every operation on a store; what is left is old, new, or says so."""

from __future__ import annotations

import itertools
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from budget import Budget, main

from nczarr.errors import DatasetNotFoundError
from nczarr.mapping import WriteOptions, create_dataset, open_dataset
from nczarr.mapping.dataset import destination
from nczarr.mapping.dataset.maintenance import clean
from nczarr.model import INT, Attribute, Dataset, Dimension, Group, Storage, Variable
from nczarr.stores import MemoryStore, Store
from nczarr.stores.base import REPLACED

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
from dying_store import Died, DyingStore

LAYOUTS = ("nczarr-v3", "nczarr-v2", "zarr-v3", "zarr-v2", "draft-2019")


def model(n: int, size: int = 4) -> Dataset:
    def variables(names: str) -> tuple[Variable, ...]:
        return tuple(Variable(name, INT, ("/x",), storage=Storage(chunk_shape=(2,))) for name in names)

    return Dataset(
        "d",
        attributes=(Attribute.of("n", n),),
        dimensions=(Dimension("x", size, True),),
        variables=variables("ab"),
        groups=(Group("g", variables=variables("c")),),
    )


def create(store: Store, n: int, options: WriteOptions, *, overwrite: bool = False) -> None:
    with create_dataset(store, model(n), options, overwrite=overwrite) as sink:
        for fqn in sink.dataset.all_variables:
            sink.write(fqn, (slice(0, 4),), np.full(4, n, "i4"))


def append(store: Store, n: int, options: WriteOptions) -> None:
    with open_dataset(store, "r+") as stored:
        grown = replace(stored.dataset, dimensions=(replace(stored.dataset.dimensions[0], size=6),))
        stored.update(grown)
        for fqn in stored.dataset.all_variables:
            stored.write(fqn, (slice(4, 6),), np.full(2, 1, "i4"))


def rename(store: Store, n: int, options: WriteOptions) -> None:
    with open_dataset(store, "r+") as stored:
        first, *others = stored.dataset.variables
        stored.update(replace(stored.dataset, variables=(replace(first, name="z"), *others)))


def look(store: Store) -> int:
    """Return which dataset is there; every value is looked at."""
    with open_dataset(store) as stored:
        n = int(stored.dataset.attribute["n"].values[0])
        for fqn, variable in stored.dataset.all_variables.items():
            size = stored.dataset.shape_of(variable)[0]
            values = stored.data(fqn).read((slice(0, size),))
            assert (values[:4] == n).all(), (fqn, values)
            assert set(values[4:].tolist()) <= {n, -2147483647, 0}, (fqn, values)
    return n


def trial(budget: Budget) -> None:
    """Die at every step."""
    warnings.simplefilter("ignore")
    numbers = itertools.count()
    destination.new_writer = lambda: f"00000000-1-0-{next(numbers):x}"  # a machine that is not ours
    cases = list(itertools.product(LAYOUTS, (True, False), ("create", "overwrite", "append", "rename")))
    for number in budget:
        if number == len(cases):
            break
        layout, consolidated, action = cases[number]
        options = WriteOptions(layout=layout, consolidated=consolidated)  # type: ignore[arg-type]
        for steps in itertools.count():
            store = MemoryStore()
            if action != "create":
                create(store, 1, options)
            dying = DyingStore(store, steps)
            try:
                if action in ("create", "overwrite"):
                    create(dying, 2, options, overwrite=action == "overwrite")
                else:
                    {"append": append, "rename": rename}[action](dying, 1, options)
                break
            except Died:
                budget.count(f"deaths in {action}")
            try:
                look(store)
            except DatasetNotFoundError:
                assert action in ("create", "overwrite")
            had = bool(list(store.list()))
            clean(store, force=True)
            if had and (action != "create" or list(store.list())):
                look(store)
            assert not [key for key in store.list() if key.startswith(".nczarr-") and key != REPLACED]


if __name__ == "__main__":
    main(trial)
