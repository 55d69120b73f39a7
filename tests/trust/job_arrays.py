#!/usr/bin/env python3
"""Kill one of twenty jobs that fill a dataset: the others are right, and the killed one is given again.

    python tests/trust/job_arrays.py --rounds 100

The rounds take a directory and the S3 server of the tests in turns. Some regions share chunks, others do not.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import netCDF4
import numpy as np
from budget import Budget, main

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "helpers"), str(HERE.parent / "s3")]

import programs  # noqa: E402
from server import new_server  # noqa: E402

import nczarr  # noqa: E402

JOBS, STEPS = 20, 4


def _day(folder: Path, number: int) -> str:
    path = str(folder / f"{number}.nc")
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time")
        file.createDimension("x", 50)
        time_ = file.createVariable("time", "f8", ("time",))
        time_.units = "hours since 2026-10-01"
        time_[:] = 24 * number + 6 * np.arange(STEPS)
        file.createVariable("x", "f4", ("x",))[:] = np.arange(50)
        file.createVariable("v", "f4", ("time", "x"))[:] = np.random.default_rng(number).random((STEPS, 50))
    return path


class Round:
    """One template, its jobs, and one kill."""

    def __init__(self, target: str, days: list[str], budget: Budget) -> None:
        self.target, self.days, self.budget = target, days, budget

    def start(self, number: int, log: int) -> programs._Program:
        region = f"time={STEPS * number}:{STEPS * (number + 1)}"
        words = ("append", "-q", self.days[number], self.target, "--region", region, "--wait", "60")
        return programs.start("-m", "nczarr", *words, files=(0, log, log))

    def run(self) -> None:
        """Fill the dataset; kill one job, and give it again."""
        chunk = self.budget.random.choice([3, 4, 50])
        nczarr.copy(self.days[0], self.target, template={"time": STEPS * JOBS}, chunks=f"time={chunk}")
        victim = self.budget.random.randrange(JOBS)
        with tempfile.TemporaryFile() as log:
            jobs = [self.start(number, log.fileno()) for number in range(JOBS)]
            time.sleep(self.budget.random.uniform(0, 1.5))
            jobs[victim].kill()
            for job in jobs:
                job.join()
            ended = [job.exitcode for job in jobs]
            if ended[victim] != 0:
                self.budget.count("jobs killed")
                again = self.start(victim, log.fileno())
                again.join()
                ended[victim] = again.exitcode
            log.seek(0)
            assert ended == [0] * JOBS, (chunk, ended, log.read().decode())
        self.budget.count("jobs", JOBS)


def trial(budget: Budget) -> None:
    """All jobs that are not killed end with status 0, and the dataset is the one that a single process makes."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="nczarr-jobs-") as name:
        folder = Path(name)
        days = [_day(folder, number) for number in range(JOBS + 1)]
        nczarr.join(days[:-1], folder / "joined.zarr")
        nczarr.join(days, folder / "longer.zarr")
        digests = [nczarr.digest(folder / f"{name}.zarr").dataset for name in ("joined", "longer")]
        server = new_server(folder / "s3")
        server.start()
        try:
            os.environ.update(server.settings)
            import s3fs

            s3fs.S3FileSystem(endpoint_url=server.settings["AWS_ENDPOINT_URL"]).mkdir("jobs")
            for number in budget:
                kind = ("directories", "object stores")[number % 2]
                target = str(folder / f"{number}.zarr") if number % 2 == 0 else f"s3://jobs/{number}.zarr"
                Round(target, days, budget).run()
                assert nczarr.digest(target).dataset == digests[0], target
                # What the killed job has left keeps no writer out that holds the dataset alone.
                nczarr.append(days[-1], target)
                assert nczarr.digest(target).dataset == digests[1], target
                budget.count(f"rounds in {kind}")
        finally:
            server.stop()
            os.environ.clear()
            os.environ.update(before)


if __name__ == "__main__":
    main(trial)
