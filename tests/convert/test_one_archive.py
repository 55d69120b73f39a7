"""Make one dataset by one process, by the workers of each engine, and by a job array."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from days import DAYS, STEPS, day

import nczarr


def place(number: int) -> dict[str, slice]:
    return {"time": slice(STEPS * number, STEPS * (number + 1))}


def test_one_process_and_all_engines_and_a_job_array_make_one_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes, loky, MPI, Dask with workers and Dask without any at the start: one digest."""
    monkeypatch.chdir(tmp_path)
    days = [day(number) for number in range(DAYS)]
    nczarr.join(days, "one.zarr")
    wanted = nczarr.digest("one.zarr")

    def same(name: str) -> None:
        assert nczarr.digest(f"{name}.zarr") == wanted, name

    nczarr.join(days, "processes.zarr", executor="processes", workers=2)
    same("processes")
    nczarr.copy(days[0], "jobs.zarr", template={"time": 24})
    with ThreadPoolExecutor(DAYS) as pool:
        jobs = [pool.submit(nczarr.append, days[n], "jobs.zarr", region=place(n)) for n in range(DAYS)]
    assert [job.result() for job in jobs] == [()] * DAYS
    same("jobs")
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:
        nczarr.join(days, "dask.zarr", dask=cluster.scheduler_address)
    same("dask")
    with distributed.LocalCluster(0, threads_per_worker=1, dashboard_address=None) as cluster:
        cluster.adapt(minimum=0, maximum=2, interval="100ms")
        nczarr.join(days, "adaptive.zarr", dask=cluster.scheduler_address)
    same("adaptive")
    words = [sys.executable, "-m", "nczarr", "join", "-q", *days]
    with contextlib.suppress(ImportError):
        import loky  # noqa: F401

        Path("on_loky.py").write_text("from loky import get_reusable_executor as lk\n")
        done = subprocess.run(
            [*words, "loky.zarr", "--executor", "on_loky:lk"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        same("loky")
    if shutil.which("mpiexec") and importlib.util.find_spec("mpi4py"):
        words = ["mpiexec", "-n", "3", sys.executable, "-m", "mpi4py.futures", *words[1:]]
        subprocess.run([*words, "mpi.zarr", "--executor", "mpi4py.futures:MPIPoolExecutor"], check=True)
        same("mpi")
