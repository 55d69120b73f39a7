"""Kill processes that append and sync every ten steps: what was acknowledged is there, and what is there is right."""

from __future__ import annotations

import contextlib
import io
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from budget import Budget, main

import nczarr
from nczarr.cli.main import main as command

WORKER = """
import sys
import numpy as np
import nczarr.netcdf4 as nc
target = sys.argv[1]
dataset = nc.Dataset(target, "a")
v, w, names = dataset["v"], dataset["w"], dataset["g/names"]
step = int(sys.argv[2])
print(step, flush=True)
while True:
    v[step] = step
    w[step] = step / 2
    names[step] = f"step {step}"
    step += 1
    if step % 10 == 0:
        dataset.sync()
        print(step, flush=True)
"""


def look(path: Path, acknowledged: int) -> int:
    """The length; every value is looked at. Steps that were not acknowledged may be fill, never wrong."""
    with nczarr.Dataset(path) as dataset:
        length = len(dataset.dimensions["t"])
        assert length >= acknowledged, (length, acknowledged)
        steps = np.arange(length)
        for name, expected in (("v", steps), ("w", steps / 2)):
            values = np.ma.masked_array(dataset[name][:]).reshape(length, 40 if name == "v" else 1)
            assert not np.ma.getmaskarray(values)[:acknowledged].any(), name
            assert (values.filled(0) == np.where(np.ma.getmaskarray(values), 0, expected[:, None])).all(), (
                name
            )
        texts = list(dataset["g/names"][:])
        assert texts[:acknowledged] == [f"step {i}" for i in range(acknowledged)]
        assert all(text in (f"step {i}", "") for i, text in enumerate(texts))
        return length


def trial(budget: Budget) -> None:
    """Begin one dataset, and go on with it after each death."""
    warnings.simplefilter("ignore")
    folder = Path(tempfile.mkdtemp(prefix="nczarr-syncs-"))
    path = folder / "a.zarr"
    acknowledged = 0
    try:
        for number in budget:
            if number % 10 == 0:
                shutil.rmtree(path, ignore_errors=True)
                acknowledged = 0
                with nczarr.Dataset(folder / "new.zarr", "w") as dataset:
                    dataset.createDimension("t")
                    dataset.createDimension("x", 40)
                    rows, deflate = budget.random.choice((1, 4, 7, 64)), bool(budget.random.randrange(2))
                    dataset.createVariable("v", "i4", ("t", "x"), chunksizes=(rows, 40), zlib=deflate)
                    dataset.createVariable("w", "f8", ("t",))
                    dataset.createGroup("g").createVariable("names", str, ("t",), chunksizes=(rows,))
                # Half of the datasets have shards that grow in place.
                shards = {"t": 10 * rows} if budget.random.randrange(2) else None
                nczarr.copy(folder / "new.zarr", path, shards=shards)
                shutil.rmtree(folder / "new.zarr")
            child = subprocess.Popen(
                [sys.executable, "-c", WORKER, path, str(acknowledged)], stdout=subprocess.PIPE, text=True
            )
            assert child.stdout is not None
            said = [child.stdout.readline()]
            said += [child.stdout.readline() for _ in range(budget.random.randrange(12))]
            time.sleep(budget.random.random() * 0.05)
            child.send_signal(signal.SIGKILL)
            said += child.stdout.read().splitlines()
            child.wait()
            last = int([line for line in said if line.strip()][-1])
            budget.count("acknowledged steps", last - acknowledged)
            acknowledged = last
            length = look(path, acknowledged)
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                clean = command(["check", "--data", str(path)]) == 0
                if not clean:
                    assert command(["repair", str(path)]) == 0
                    assert command(["check", "--data", str(path)]) == 0
            budget.count("datasets that were clean at once", int(clean))
            # A repair believes the arrays, which may be a sync longer than their dimension.
            assert look(path, acknowledged) >= length
            budget.count("kills")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(trial)
