"""Make datasets whose reading ends the process of a worker."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nczarr.model import DOUBLE, Dataset, Dimension, Storage, Variable


@dataclass(frozen=True)
class Deadly:
    """Values whose reading ends the process: so many times, counted by files in a folder."""

    folder: str
    times: int
    #: Seconds after which the process ends itself; without them, a signal kills it at once.
    seconds: float | None
    shape: tuple[int, ...] = (64,)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype("f8")

    def read(self, region: Any, out: Any = None) -> np.ndarray:
        deaths = len(os.listdir(self.folder))
        if region[0].start >= 16 and deaths < self.times:
            Path(self.folder, f"{deaths} {os.getpid()}").touch()
            if self.seconds is None:
                os.kill(os.getpid(), signal.SIGKILL)
            else:
                time.sleep(self.seconds)
                os._exit(1)
        return np.arange(region[0].start, region[0].stop, dtype="f8")


def deadly(folder: Path, times: int, *, seconds: float | None = None) -> Dataset:
    """Return a dataset of eight chunks; its folder must be new."""
    folder.mkdir()
    data = Deadly(str(folder), times, seconds)
    v = Variable("v", DOUBLE, ("/x",), storage=Storage("chunked", (8,)), data=data)
    return Dataset("d", dimensions=(Dimension("x", 64),), variables=(v,))
