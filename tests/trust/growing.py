"""Append steps to shards that grow in place while another process reads: every look is whole, in few files."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from budget import Budget, main

import nczarr

STEPS = 150
SIZE = (6, 50)
READER = """
import os, sys
import numpy as np
import zarr
import nczarr

path, looks, last = sys.argv[1], 0, 0
base = np.arange(300, dtype="f4").reshape(6, 50)
print("ready", flush=True)
while not os.path.exists(path + ".done"):
    if looks % 2:
        with nczarr.Dataset(path) as dataset:
            length = len(dataset.dimensions["t"])
            values, times = dataset["v"][:], dataset["t"][:]
        assert times.tolist() == list(range(length)), times
    else:
        values = zarr.open_group(path, mode="r")["v"]
        length = values.shape[0]
        try:
            values = values[...]
        except ValueError as error:  # the index is being replaced
            assert "checksum" in str(error), error
            continue
    expected = base + np.arange(length, dtype="f4")[:, None, None]
    assert np.array_equal(values, expected), (looks, length)
    assert length >= last, (length, last)
    last, looks = length, looks + 1
print(looks)
"""


def trial(budget: Budget) -> None:
    """Make one dataset after the other; each grows beside its reader."""
    warnings.simplefilter("ignore")
    for _ in budget:
        folder = Path(tempfile.mkdtemp(prefix="nczarr-growing-"))
        try:
            grow(budget, folder / "a.zarr")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def grow(budget: Budget, path: Path) -> None:
    chunk, per_shard = budget.random.choice((1, 3)), budget.random.choice((10, 64))
    with nczarr.Dataset(path, "w") as dataset:
        for name, size in zip(("t", "y", "x"), (None, *SIZE), strict=True):
            dataset.createDimension(name, size)
        codec = budget.random.choice((None, "zlib", "zstd"))
        chunks = (chunk, budget.random.choice((6, 2)), 50)
        shards = (chunk * per_shard, *SIZE)
        dataset.createVariable(
            "v", "f4", ("t", "y", "x"), compression=codec, chunksizes=chunks, shards=shards
        )
        dataset.createVariable("t", "i4", ("t",), chunksizes=(10,), shards=(1000,))
        budget.shown = (codec, chunks, shards)
    reader = subprocess.Popen([sys.executable, "-c", READER, path], stdout=subprocess.PIPE, text=True)
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    base = np.arange(300, dtype="f4").reshape(SIZE)
    with nczarr.Dataset(path, "a", durable=bool(budget.random.randrange(2))) as dataset:
        for step in range(STEPS):
            dataset["v"][step] = base + np.float32(step)
            dataset["t"][step] = step
            if budget.random.randrange(3):
                dataset.sync()
                assert reader.poll() is None, "the reader has ended"
    time.sleep(0.2)
    Path(f"{path}.done").touch()
    said, _ = reader.communicate()
    assert reader.returncode == 0, reader.returncode
    files = sum(file.is_file() for file in path.rglob("*"))
    assert int(said) > 0
    assert files <= 4 + -(-STEPS // shards[0]) + 1, files
    budget.count("steps", STEPS)
    budget.count("looks", int(said))


if __name__ == "__main__":
    main(trial)
