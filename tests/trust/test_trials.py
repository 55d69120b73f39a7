"""A few rounds of each trial; by hand they run for as long as one likes."""

from __future__ import annotations

import importlib
import os

import pytest
from budget import Budget

ROUNDS = {
    "dying": 40,  # all there are
    "kills": 14,
    "interrupts": 4,
    "threads": 1,
    "processes": 1,
    "appending": 1,
    "sharing": 1,
    "syncs": 4,
    "http_answers": 60,
    "zip_files": 800,
    "cdl_texts": 60,
    "documents": 300,
    "chunk_bytes": 1000,
    "resumes": 5,
    "appends": 6,
}


@pytest.fixture(autouse=True)
def _restore(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials set limits and names in modules, as scripts may."""
    from nczarr.mapping.guarding import destination
    from nczarr.stores.remote import http
    from nczarr.zarr import LIMITS

    monkeypatch.setattr(LIMITS, "variable_chunk_bytes", LIMITS.variable_chunk_bytes)
    monkeypatch.setattr(destination, "new_writer", destination.new_writer)
    for name in ("MAX_VALUE", "MAX_DOCUMENT", "FIRST_WAIT"):
        monkeypatch.setattr(http, name, getattr(http, name))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(os.name == "nt", reason="signals and forks of POSIX")
@pytest.mark.parametrize("name", ROUNDS)
def test_trial(name: str) -> None:
    budget = Budget(rounds=ROUNDS[name], seed=1)
    importlib.import_module(name).trial(budget)
    assert budget.counts, "nothing was tried"


@pytest.mark.s3
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "rounds"), [("s3_faults", 2), ("s3_resumes", 3)])
def test_s3_faults(
    name: str, rounds: int, s3_server: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in os.environ.items():
        if variable.startswith("AWS_"):
            monkeypatch.setenv(variable, value)  # the trial has a server of its own, and sets others
    budget = Budget(rounds=rounds, seed=1)
    monkeypatch.setattr("s3_faults.EACH", 2)
    try:
        importlib.import_module(name).trial(budget)
    except Exception as error:
        if type(error).__name__ == "Unavailable":
            pytest.skip(f"no proxy: {error}")
        raise
    if name == "s3_faults":
        assert budget.counts["refusals"] == 4
    else:
        assert budget.counts["kills"]
