"""Kill copies at random moments and go on with them: the end is that of an undisturbed copy, nothing is done twice.

A block that was recorded as finished when a copy was killed must never be written again. Each worker says in a log
what it writes, before it does.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
from budget import Budget, main

import nczarr
from nczarr.convert.values.resume import MANIFEST
from nczarr.mapping.dataset.maintenance import clean

WORKER = """
import json, os, sys
import nczarr
from nczarr.convert.values import resume
from nczarr.mapping import StoredDataset
source, target, log, options, seconds = sys.argv[1:]
plain, file = StoredDataset.write, os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def write(self, fqn, region, values):
    os.write(file, f"{json.dumps([fqn, [s.start for s in region], [], 0])}\\n".encode())
    plain(self, fqn, region, values)
StoredDataset.write = write
resume._SECONDS = float(seconds)
nczarr.copy(source, target, resume=True, memory="8MiB", workers=2, target_options=json.loads(options) or None)
"""


def make_source(path: Path, variables: int = 8, steps: int = 12) -> None:
    """Blocks of about a MiB, deflated, and some small variables."""
    rng = np.random.default_rng(5)
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 1 << 18)
        for i in range(variables):
            v = file.createVariable(
                f"v{i}", "f4", ("t", "x"), zlib=True, complevel=1, chunksizes=(1, 1 << 18)
            )
            v[:] = rng.integers(0, 999, (steps, 1 << 18))
        file.createVariable("t", "f8", ("t",))[:] = np.arange(steps)
        file.createVariable("name", str, ("t",))[:] = np.array([f"step {i}" for i in range(steps)], object)


def blocks(text: str) -> set[tuple[str, tuple[int, ...]]]:
    """The blocks that lines name; a last line that was cut off names none."""
    found = set()
    for line in text.splitlines():
        try:
            fqn, start, _, _ = json.loads(line)  # the first line of a part has three members
        except (ValueError, TypeError):
            continue
        found.add((fqn, tuple(start)))
    return found


@dataclass
class KilledCopy:
    """A copy that is killed, and gone on with.

    Attributes
    ----------
    recorded : callable
        Returns the record of finished blocks.
    complete : callable
        Says whether the copy is complete, and looks whether what is visible is.
    longest : float
        Seconds that a copy is left alone at most.
    """

    budget: Budget
    source: Path
    target: str
    recorded: Callable[[], str | None]
    complete: Callable[[], bool]
    options: dict[str, Any]
    seconds: float
    longest: float
    finished: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)

    def attempt(self, undisturbed: bool = False) -> bool:
        """Start it, and kill it at a random moment; return whether it is complete."""
        log = self.source.with_suffix(".log")
        log.unlink(missing_ok=True)
        options, seconds = json.dumps(self.options), str(self.seconds)
        command = [sys.executable, "-c", WORKER, str(self.source), self.target, str(log), options, seconds]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as child:
            chance = self.budget.random.uniform
            end = float("inf") if undisturbed else time.monotonic() + chance(0.1, self.longest)
            began = undisturbed
            while child.poll() is None and time.monotonic() < end:
                if not began and log.exists():  # most moments are those while it writes
                    began, end = True, time.monotonic() + chance(0, self.longest / 3)
                time.sleep(0.002)
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                self.budget.count("kills")
            _, said = child.communicate()
        again = self.finished & (blocks(log.read_text()) if log.exists() else set())
        assert not again, f"finished and written again: {sorted(again)[:3]}"
        assert child.returncode in (0, -signal.SIGKILL), said.decode()
        if child.returncode == 0 or self.complete():  # it may have been killed on its way out
            self.budget.count("blocks that were kept", len(self.finished))
            self.budget.count("copies")
            self.finished = set()
            return True
        text = self.recorded()
        if text is not None:
            now = blocks(text)
            assert self.finished <= now, "what was finished is no more"
            self.finished = now
        return False


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def trial(budget: Budget) -> None:
    """Each round starts or goes on with a copy, and kills it at a random moment unless it ends before."""
    folder = Path(tempfile.mkdtemp(prefix="nczarr-resumes-"))
    try:
        source, out = folder / "source.nc", folder / "out.zarr"
        make_source(source)
        nczarr.copy(source, folder / "whole.zarr", memory="8MiB", workers=2)
        whole = contents(folder / "whole.zarr")

        def complete() -> bool:
            """What is visible must be whole; what its last step left is cleaned up."""
            if not (out / "zarr.json").exists():
                return False
            assert list(nczarr.diff(source, out)) == [], "it was visible before it was whole"
            clean(out)
            return True

        def recorded() -> str | None:
            parts = [path.read_text() for path in out.glob(f"{MANIFEST}*")]
            return "\n".join(parts) if parts else None

        def check() -> None:
            assert contents(out) == whole, "the bytes are not those of an undisturbed copy"
            shutil.rmtree(out)

        copy = KilledCopy(budget, source, str(out), recorded, complete, {}, 5, 6)
        for _ in budget:
            if copy.attempt():
                check()
            assert not [p for p in os.listdir(folder) if p.startswith(".")]
        if copy.attempt(undisturbed=True):
            check()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(trial)
