"""Mutate sources: each mutant is one change, off by default, and the same for a seed."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import mutating
import pytest

ROOT = Path(__file__).parents[2]
SOURCE = b"""from __future__ import annotations
TABLE = {"a": 1}
class Shelf:
    def put(self, books, more):
        self.count = len(books)
        with self.lock:
            self.count += 2
        if not books or more:
            raise ValueError(f"{len(books) + 1} books")
        return books[0] <= self.count
"""


class Lock:
    """A lock that counts how often it is taken."""

    def __init__(self) -> None:
        self.taken = 0

    def __enter__(self) -> None:
        self.taken += 1

    def __exit__(self, *error: object) -> None:
        pass


def put(monkeypatch: pytest.MonkeyPatch, mutants: list[mutating.Mutant], on: int) -> object:
    """What the shelf answers, and its state, with a mutant on."""
    switch = types.ModuleType("nczarr_mutants")
    switch.on = lambda number: number == on  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nczarr_mutants", switch)
    names: dict[str, type] = {}
    exec(compile(mutating.overlay(SOURCE, mutants), "shelf", "exec"), names)
    shelf = names["Shelf"]()
    shelf.lock = Lock()
    try:
        answer = shelf.put([3, 4], False)
    except (ValueError, AttributeError) as error:
        answer = repr(error)
    return answer, getattr(shelf, "count", None), shelf.lock.taken


def test_each_mutant_is_off_until_it_is_switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found = mutating.find("shelf.py", SOURCE)
    assert {mutant.operator for mutant in found} == {
        *("boolean", "comparison", "condition", "constant", "dropped", "lock", "not", "return")
    }
    same = []
    for number, mutant in enumerate(found):
        one = [replace(mutant, number=number)]
        assert put(monkeypatch, one, -1) == (True, 4, 1)
        if put(monkeypatch, one, number) == (True, 4, 1):
            same.append(mutant.new)
    # The list is not empty, both conditions are false, and both its items are less than the count or equal to it.
    assert same == ["False", "(not books and more)", "(books[0] < self.count)", "1"]


def test_a_seed_chooses_the_same_mutants_and_they_compile() -> None:
    sources = dict(mutating.modules(ROOT, ("session", "transfer")))
    chosen = mutating.choose(sources, 5, 60)
    assert chosen == mutating.choose(sources, 5, 60) != mutating.choose(sources, 6, 60)
    assert [mutant.number for mutant in chosen] == list(range(60))
    for file in {mutant.file for mutant in chosen}:
        source = mutating.overlay(sources[file], [mutant for mutant in chosen if mutant.file == file])
        compile(source, file, "exec")
        assert source.count(b"\n") == sources[file].count(b"\n"), "no line moves"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_run_tells_the_killed_from_those_that_survive() -> None:
    command = [sys.executable, str(Path(__file__).with_name("run.py")), "--seed", "5", "--count", "8"]
    command += ["--package", "model", "--workers", "1", "--seconds", "5", "tests/model/test_chunk_shapes.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    table, _, survivors = done.stdout.partition("Survivors:")
    (row,) = [line for line in table.splitlines() if line.startswith("| all ")]
    _, number, killed, away, _ = [cell.strip() for cell in row.strip("|").split("|")]
    assert int(number) == 8
    listed = [line for line in survivors.splitlines() if line.startswith("- ")]
    assert len(listed) == 8 - int(killed)
    assert sum(line.endswith("(not reached)") for line in listed) == int(away)
