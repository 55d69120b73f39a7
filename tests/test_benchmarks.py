"""Run each benchmark briefly, without a look at its figures."""

from __future__ import annotations

import importlib.util
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


def test_uses_are_compared_with_the_programs_that_users_would_take(tmp_path: Path) -> None:
    for name in ("netCDF4", "tensorstore"):
        pytest.importorskip(name)
    command = ["--quick", "--rounds", "1", "--only", "write", "--folder", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "users.py"), *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    peers = [line.split(" | ")[1] for line in done.stdout.splitlines()[2:]]
    assert peers == ["tensorstore"] * 4 + ["`durable=False`"]


def test_the_engines_of_xarray_are_compared(tmp_path: Path) -> None:
    for name in ("xarray", "zarr", "dask"):
        pytest.importorskip(name)
    command = ["--rounds", "1", "--largest", "10", "--folder", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "xarray_opening.py"), *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    forms = [line.split(" | ")[1] for line in done.stdout.splitlines()[2:]]
    assert forms == ["plain Zarr"] * 3 + ["nczarr's own"] * 3


@pytest.mark.s3
def test_the_page_of_object_stores_has_the_rows_of_its_script() -> None:
    for name in ("boto3", "xarray", "aiohttp"):
        pytest.importorskip(name)
    spec = importlib.util.spec_from_file_location("object_requests", BENCHMARKS / "object_requests.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script  # dataclasses look there
    spec.loader.exec_module(script)
    page = (BENCHMARKS.parents[1] / "docs/howto/object-stores.md").read_text()
    rows = [
        line.split(" | ") for line in page.partition(script.BEGIN)[2].partition(script.END)[0].splitlines()
    ]
    titles = [row[0].removeprefix("| ") for row in rows if len(row) > 1]
    assert titles == ["operation", *script.ROWS]
    assert "no reason is known" not in page
