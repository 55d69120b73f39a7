"""Kill workers, all workers, the scheduler or the driver of a copy, and go on with ``--resume``.

The end is that of an undisturbed copy: the same digest, the same files, nothing beside them. Every second copy runs on
processes of ``--executor processes``, the others on a Dask cluster of two workers without nannies.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import netCDF4
import numpy as np
import psutil
from budget import Budget, main

import nczarr
from nczarr.convert.values.resume import MANIFEST

#: Number of chunks, at most, after which something is killed; the copy has 48.
MOST = 36
DRIVER = """
import sys, nczarr
if __name__ == "__main__":
    source, target, engine, where = sys.argv[1:]
    nczarr.join(source, target, along="t", resume=True, memory="6MiB", workers=2, **{engine: where})
"""


def make_sources(folder: Path, files: int = 12, steps: int = 4) -> str:
    """Files of 4 MiB, in chunks of 1 MiB."""
    rng = np.random.default_rng(3)
    folder.mkdir()
    for i in range(files):
        with netCDF4.Dataset(folder / f"{i:02}.nc", "w") as file:
            file.createDimension("t", None)
            file.createDimension("x", 1 << 18)
            file.createVariable("t", "f8", ("t",))[:] = np.arange(steps) + i * steps
            v = file.createVariable("v", "f4", ("t", "x"), zlib=True, complevel=1, chunksizes=(1, 1 << 18))
            v[:] = rng.integers(0, 999, (steps, 1 << 18))
    return str(folder / "*.nc")


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a dataset, without its root document, which has an identity of its own."""
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    del found["zarr.json"]
    return found


class Programs:
    """The processes of one round, which end with it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, list[subprocess.Popen[bytes]]()

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        connect = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s", "NCZARR_DASK_SECONDS": "5"}
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=os.environ | connect,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.started.append(process)
        return process

    def cluster(self) -> str:
        """Start a scheduler and two workers; return the address."""
        from distributed import Client

        where = self.folder / "scheduler.json"
        where.unlink(missing_ok=True)
        common = ["--scheduler-file", str(where), "--no-dashboard"]
        self.start("-m", "distributed.cli.dask_scheduler", "--port", "0", "--host", "127.0.0.1", *common)
        wait_until(lambda: where.exists() and where.read_text().rstrip().endswith("}"))
        for _ in range(2):
            self.start("-m", "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", *common)
        address: str = json.loads(where.read_text())["address"]
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(2)
        return address

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


def wait_until(there: Callable[[], object]) -> None:
    while not there():
        time.sleep(0.005)


def one(budget: Budget, source: str, folder: Path, whole: Path, engine: str, victim: str) -> None:
    out = folder / "out.zarr"
    programs = Programs(folder)
    try:
        where = programs.cluster() if engine == "dask" else "processes"
        script = folder / "driver.py"
        script.write_text(DRIVER)
        option = "dask" if engine == "dask" else "executor"
        driver = programs.start(str(script), source, str(out), option, where)
        chunks, enough = out / "v" / "c", budget.random.randint(1, MOST)
        wait_until(
            lambda: driver.poll() is not None or (chunks.is_dir() and len(os.listdir(chunks)) >= enough)
        )
        if engine == "dask":
            scheduler, *workers = programs.started[:3]
            pids = [worker.pid for worker in workers]
        else:
            scheduler = driver
            pids = []
            if driver.poll() is None:
                children = psutil.Process(driver.pid).children()
                pids = [p.pid for p in children if "spawn_main" in " ".join(p.cmdline())]
        killed = {
            "worker": pids[:1], "all workers": pids, "scheduler": [scheduler.pid], "driver": [driver.pid],
        }[victim]  # fmt: skip
        is_running = driver.poll() is None
        assert is_running or driver.returncode == 0, "the copy has failed before anything is killed"
        for pid in killed:
            if psutil.pid_exists(pid):
                psutil.Process(pid).kill()
        budget.count(f"kills of {victim} on {engine}", is_running and bool(killed))
        driver.wait()
        ended = driver.returncode == 0
        if engine == "processes":  # they end with the driver
            wait_until(lambda: not any(is_alive(pid) for pid in pids))
    finally:
        programs.end()
    if ended:
        budget.count("copies that ended all the same", is_running)
    elif (out / MANIFEST).exists():
        kept = sum(len(part.read_text().splitlines()) - 1 for part in out.glob(f"{MANIFEST}*"))
        budget.count("blocks that were kept", kept)
    nczarr.join(source, out, along="t", resume=True, memory="6MiB")
    assert nczarr.digest(out) == nczarr.digest(whole)
    assert contents(out) == contents(whole), "the files are not those of an undisturbed copy"
    left = {path.name for path in folder.iterdir()}
    assert left <= {"in", "out.zarr", "whole.zarr", "driver.py", "scheduler.json"}, left
    shutil.rmtree(out)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def trial(budget: Budget) -> None:
    """Each round copies, kills, and resumes."""
    warnings.simplefilter("ignore")
    cases = [
        (engine, victim)
        for victim in ("worker", "all workers", "driver", "scheduler")
        for engine in ("processes", "dask")
        if (engine, victim) != ("processes", "scheduler")  # the driver is the scheduler
    ]
    folder = Path(tempfile.mkdtemp(prefix="nczarr-lost-"))
    try:
        source, whole = make_sources(folder / "in"), folder / "whole.zarr"
        nczarr.join(source, whole, along="t", memory="6MiB")
        for number in budget:
            budget.shown = cases[number % len(cases)]
            one(budget, source, folder, whole, *cases[number % len(cases)])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(trial)
