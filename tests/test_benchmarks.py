"""Run each benchmark briefly, without a look at its figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent / "benchmarks"


@pytest.mark.parametrize(("workload", "rows"), [("W3", 8), ("W5", 2), ("W7", 1), ("W9", 8)])
def test_a_workload_is_measured(workload: str, rows: int, tmp_path: Path) -> None:
    command = [workload, "--quick", "--rounds", "1", "--codecs", "none", "--dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "run.py"), *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    measured = [line for line in done.stdout.splitlines() if line.startswith(f"| {workload} ")]
    assert len(measured) >= rows, done.stdout
