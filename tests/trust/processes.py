"""Write one dataset from two processes, each its own chunks, and read it after forks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from budget import Budget, main

import nczarr
from nczarr.mapping import open_dataset

WRITER = """
import sys
import numpy as np
from nczarr.mapping import open_dataset
target, number = sys.argv[1], int(sys.argv[2])
with open_dataset(target, "r+") as stored:
    for chunk in range(number, 40, 2):
        for _ in range(3):
            stored.write("/v", (slice(chunk * 10, chunk * 10 + 5),), np.full(5, chunk, "i4"))
            stored.write("/v", (slice(chunk * 10 + 5, chunk * 10 + 10),), np.full(5, chunk, "i4"))
"""


def trial(budget: Budget) -> None:
    """Two writers of chunks of their own, then four forked readers."""
    folder = Path(tempfile.mkdtemp(prefix="nczarr-processes-"))
    expected = np.repeat(np.arange(40), 10)
    try:
        for number in budget:
            path = folder / f"{number}.zarr"
            with nczarr.Dataset(path, "w") as dataset:
                dataset.createDimension("x", 400)
                dataset.createVariable("v", "i4", ("x",), chunksizes=(10,))
            writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, str(n)]) for n in (0, 1)]
            assert [writer.wait() for writer in writers] == [0, 0]
            budget.count("pairs of writers")
            with open_dataset(path) as stored:
                assert (stored.data("/v").read((slice(0, 400),)) == expected).all()
                children = []
                for _ in range(4):
                    child = os.fork()
                    if child == 0:
                        right = (stored.data("/v").read((slice(0, 400),)) == expected).all()
                        os._exit(0 if right else 1)
                    children.append(child)
                for child in children:
                    assert os.waitpid(child, 0)[1] == 0
                    budget.count("forks")
            shutil.rmtree(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(trial)
