"""Interrupt and terminate ``nczarr copy`` at random moments; its exit status and what it says are true."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from budget import Budget, main

import nczarr
from nczarr.convert import open_source
from nczarr.model import INT, Dataset, Dimension, MemorySource, Storage, Variable

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
#: While Python itself starts, the signal ends it in its own way.
EARLY = (-signal.SIGINT, -signal.SIGTERM, 1, 130)


def trial(budget: Budget) -> None:
    """Interrupt copies to a directory, a zip file, netCDF and CDL, new ones and such that replace."""
    folder = Path(tempfile.mkdtemp(prefix="nczarr-interrupts-"))
    storage = Storage(chunk_shape=(50,))
    variables = tuple(
        Variable(name, INT, ("/x",), storage=storage, data=MemorySource(np.full(40_000, 7, "i4")))
        for name in "ab"
    )
    nczarr.copy(
        Dataset("d", dimensions=(Dimension("x", 40_000),), variables=variables), folder / "source.zarr"
    )
    try:
        for number in budget:
            target = folder / "out" / f"t{('.zarr', '.zip', '.nc', '.cdl')[number % 4]}"
            target.parent.mkdir()
            if replaces := number % 8 >= 4:
                nczarr.copy(folder / "source.zarr", target)
            one(budget, folder / "source.zarr", target, replaces)
            shutil.rmtree(target.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def one(budget: Budget, source: Path, target: Path, replaces: bool) -> None:
    sign = budget.random.choice(list(STATUS))
    command = [sys.executable, "-m", "nczarr", "copy", "-q", "--overwrite", str(source), str(target)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    before = len(os.listdir(target.parent))
    end = time.monotonic() + 20
    # Until it has begun to write; then a moment more.
    while len(os.listdir(target.parent)) == before and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    time.sleep(budget.random.uniform(0, 0.2))
    process.send_signal(sign)
    _, said = process.communicate()
    left = sorted(path.name for path in target.parent.iterdir())
    if process.returncode == 0:
        budget.count("ended before")
        assert left == [target.name]
    elif process.returncode == STATUS[sign] and said.startswith("nczarr:"):
        budget.count("interrupted")
        assert said.endswith("no unfinished output is left\n"), said
        assert left == ([target.name] if replaces or left else []), (left, said)
    else:
        budget.count("while Python started or ended")
        assert process.returncode in (*EARLY, 0), (process.returncode, said)
        assert "StoreError" not in said
        assert "cannot write" not in said
    if target.exists() and (process.returncode in (0, STATUS[sign]) or target.suffix == ".zarr"):
        # The old one, or the new one, if it was complete already when the signal came.
        with open_source(target) as dataset:
            for variable in dataset.variables:
                assert variable.data is not None
                assert (variable.data.read((slice(0, 40_000),)) == 7).all()


if __name__ == "__main__":
    main(trial)
