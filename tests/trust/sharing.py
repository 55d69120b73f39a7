"""Write chunks of their own to one dataset from two processes with ``shared=True``, while a reader looks."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from budget import Budget, main

import nczarr

#: Each round gives all chunks of this writer the round's number.
WRITER = """
import sys
import nczarr.netcdf4 as nc
target, number = sys.argv[1], int(sys.argv[2])
with nc.Dataset(target, "a", shared=True) as dataset:
    v = dataset["v"]
    for step in range(1, 41):
        for chunk in range(number, 20, 2):
            for row in range(10):  # in parts, so that the cache has them
                v[chunk * 10 + row] = step
        dataset.sync()
"""


def trial(budget: Budget) -> None:
    """Two writers and a reader; each chunk is of one round, and never of an earlier one than before."""
    folder = Path(tempfile.mkdtemp(prefix="nczarr-sharing-"))
    try:
        for number in budget:
            path = folder / f"{number}.zarr"
            with nczarr.Dataset(path, "w") as dataset:
                dataset.createDimension("x", 200)
                dataset.createDimension("y", 6)
                deflate = bool(budget.random.randrange(2))
                dataset.createVariable("v", "i4", ("x", "y"), chunksizes=(10, 6), zlib=deflate)[:] = 0
            writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, str(n)]) for n in (0, 1)]
            try:
                seen = np.zeros(20, "i4")
                while any(writer.poll() is None for writer in writers):
                    with nczarr.Dataset(path) as dataset:
                        values = np.asarray(dataset["v"][:]).reshape(20, -1)
                    assert (values == values[:, :1]).all()
                    assert (values[:, 0] >= seen).all()
                    seen = values[:, 0]
                    budget.count("looks")
                assert [writer.wait() for writer in writers] == [0, 0]
            finally:
                for writer in writers:
                    writer.kill()
                    writer.wait()
            with nczarr.Dataset(path) as dataset:
                assert (dataset["v"][:] == 40).all()
            budget.count("pairs of writers that share")
            shutil.rmtree(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(trial)
