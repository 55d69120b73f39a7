"""Run each trial for some rounds, or for ``NCZARR_TRIAL_SECONDS`` seconds."""

from __future__ import annotations

import importlib
import os
import random
import shutil

import pytest
from budget import Budget

ROUNDS = {
    "dying": 40,  # all there are
    "kills": 14,
    "interrupts": 4,
    "threads": 1,
    "dropped": 2,
    "processes": 1,
    "appending": 1,
    "sharing": 1,
    "object_writers": 7,
    "syncs": 4,
    "growing": 2,
    "http_answers": 60,
    "zip_files": 800,
    "cdl_texts": 60,
    "documents": 300,
    "chunk_bytes": 1000,
    "readers": 2,
    "resumes": 5,
    "lost_workers": 3,
    "appends": 6,
    "fitting": 200,
    "job_arrays": 4,
}


#: These end by themselves, when all there is was tried; the others go on for ever.
ENDING = ("dying", "appends")


def budget_of(name: str) -> Budget:
    """The rounds of a trial, or the seconds that are asked for, with another seed each time but on a build machine."""
    seconds = os.environ.get("NCZARR_TRIAL_SECONDS")
    if seconds is None or name in ENDING:
        return Budget(rounds=ROUNDS[name], seed=1)
    seed = 1 if os.environ.get("CI") else random.SystemRandom().randrange(1 << 30)
    return Budget(seconds=float(seconds), seed=seed)


@pytest.fixture(autouse=True)
def _restore(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials set limits and names in modules, as scripts may."""
    from nczarr.mapping.dataset import destination
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
    budget = budget_of(name)
    try:
        importlib.import_module(name).trial(budget)
    except BaseException:
        print(f"--seed {budget.seed}, after {budget.line}, with {budget.shown!r}")
        raise
    assert budget.counts, "nothing was tried"


@pytest.mark.s3
@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")
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
    importlib.import_module(name).trial(budget)
    if name == "s3_faults":
        assert budget.counts["refusals"] == 4
    else:
        assert budget.counts["kills"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(
    "NCZARR_TRIAL_SECONDS" not in os.environ, reason="mounts file systems: only where trials are asked for"
)
def test_loss_of_power() -> None:
    power = importlib.import_module("power")
    if not power.is_possible():
        pytest.skip("needs root, loop devices, mkfs.xfs and mkfs.ext4")
    budget = Budget(rounds=1, seed=1)
    power.trial(budget)
    assert budget.counts["losses of power"] == len(power.SYSTEMS) * len(power.OPERATIONS)
