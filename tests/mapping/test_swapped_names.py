"""Swap the names of variables, and stop the writer at each step: a later writer finishes, and leaves no key behind."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dying_store import Died, DyingStore

import nczarr
from nczarr.mapping import create_dataset, open_dataset
from nczarr.mapping.dataset import rename_journal
from nczarr.mapping.dataset.maintenance import clean
from nczarr.model import INT, SHORT, Dataset, Dimension, Storage, Variable
from nczarr.stores import LocalStore, Store
from nczarr.system.atomic import WriterState

# Chunks that do not move with their documents are read as other numbers.
VARIABLES = tuple(
    Variable(n, t, ("/x",), storage=Storage(chunk_shape=(2,)))
    for n, t in (("a", INT), ("b", SHORT), ("c", INT))
)
MODEL = Dataset("d", dimensions=(Dimension("x", 4),), variables=VARIABLES)
VALUES = {"a": [1, 2, 3, 4], "b": [5, 6, 7, 8], "c": [9, 9, 9, 9]}


def swap(store: Store) -> None:
    with open_dataset(store, "r+") as stored:
        first, second, third = stored.dataset.variables
        stored.update(
            replace(stored.dataset, variables=(replace(first, name="b"), replace(second, name="a"), third))
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("then", ["write", "clean"])
def test_a_swap_that_stops_is_finished(tmp_path: Path, then: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A writer that has ended, on this machine.
    monkeypatch.setattr(rename_journal, "writer_state", lambda writer: WriterState.ENDED)
    seen = set[str]()
    for steps in itertools.count():
        path = tmp_path / f"{steps}.zarr"
        with create_dataset(path, MODEL) as sink:
            for name, values in VALUES.items():
                sink.write(
                    f"/{name}", (slice(0, 4),), np.array(values, MODEL.all_variables[f"/{name}"].type.dtype)
                )
        # A writer that stopped at its last step left this number, which is of no use for the next swap.
        (path / rename_journal._DONE).write_text("9")
        store = DyingStore(LocalStore(path, "r+"), steps)
        died = False
        try:
            swap(store)
        except Died:
            died = True
        seen |= {key.name for key in path.iterdir() if key.name.startswith(rename_journal.JOURNAL)}
        if then == "clean":
            clean(path, force=True)
        with nczarr.Dataset(path, "a") as dataset:
            found = {name: variable[:].tolist() for name, variable in dataset.variables.items()}
        assert found in (VALUES, {**VALUES, "a": VALUES["b"], "b": VALUES["a"]}), steps
        left = {key.name for key in path.iterdir() if key.name.startswith(rename_journal.JOURNAL)}
        assert left <= ({rename_journal._DONE} if then == "write" else set()), steps
        if not died:
            break
    assert steps > 10
    assert len(seen) > 1  # the journal, and the number of its finished steps
