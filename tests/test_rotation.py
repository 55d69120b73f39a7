"""Rotate the cases of functions with many cases: each case has its turn, and other tests always run."""

from __future__ import annotations

from pathlib import Path

import pytest
import rotation

CASES = [("few", f"few-{i}") for i in range(rotation.MANY - 1)] + [
    ("many", f"many-{i}") for i in range(rotation.MANY)
]
CASES += [("other", f"other-{i}") for i in range(1000)]


def test_eight_rotations_run_each_case_once() -> None:
    turns = [rotation.select(CASES, number)[0] for number in range(rotation.TURNS)]
    for _, case in CASES:
        assert sum(case in chosen for chosen in turns) == (8 if case.startswith("few") else 1)


def test_cases_keep_their_order_and_none_is_lost() -> None:
    chosen, waiting = rotation.select(CASES, 3)
    everything = [case for _, case in CASES]
    assert sorted(chosen + waiting) == sorted(everything)
    assert chosen == [case for case in everything if case in {*chosen}]


def test_each_function_runs_in_each_rotation() -> None:
    for number in range(20):
        assert {case.partition("-")[0] for case in rotation.select(CASES, number)[0]} == {
            "few",
            "many",
            "other",
        }


def test_slow_tests_are_the_cases_of_one_function() -> None:
    cases = [(rotation.SLOW, f"slow-{i}") for i in range(10)] + CASES
    turns = [rotation.select(cases, number)[0] for number in range(rotation.TURNS)]
    assert [sum(case.startswith("slow") for case in chosen) for chosen in turns] == [2, 1, 1, 1, 1, 1, 1, 2]
    assert len({case for chosen in turns for case in chosen if case.startswith("slow")}) == 10


def test_a_third_of_the_examples_is_tried_where_all_tests_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "all_examples", True)
    assert rotation.examples(300) == 300
    monkeypatch.setattr(rotation, "all_examples", False)
    assert [rotation.examples(number) for number in (1, 100, 300)] == [1, 34, 100]


def test_without_git_there_is_a_rotation_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert rotation.rotation_of(tmp_path) == 0
