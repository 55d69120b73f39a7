"""Compare the trials with the workflow that runs them every night."""

from __future__ import annotations

import re
from pathlib import Path

from test_trials import ROUNDS


def test_the_workflow_runs_each_trial() -> None:
    """Every night and by hand, for a minute or as long as one likes."""
    here = Path(__file__).parent
    scripts = {
        path.stem
        for path in here.glob("*.py")
        if "main(trial)" in path.read_text() and not path.stem.startswith("test_")
    }
    workflow = (here.parents[1] / ".github" / "workflows" / "trials.yml").read_text()
    assert sorted(re.findall(r"^ {10}- (\w+)$", workflow, re.MULTILINE)) == sorted(scripts)
    assert {*ROUNDS, "fuzzed", "power", "s3_faults", "s3_resumes"} == scripts
