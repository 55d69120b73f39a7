"""Join daily files and append more, one by one, while another process reads: it sees the old length or the new."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import netCDF4
import numpy as np
import xarray as xr
from budget import Budget, main

import nczarr

#: Days that are joined, and appended; fewer where there are few rounds.
JOINED, APPENDED = 365, 30

#: Reads until the file `stop` is there; every value of day n is n, in all variables.
READER = """
import sys, warnings
from pathlib import Path
import numpy as np, xarray as xr
import nczarr
warnings.simplefilter("ignore")
target, stop = Path(sys.argv[1]), Path(sys.argv[2])
last, seen, number, steps = 0, set(), 0, 0
while True:
    ending = stop.exists()
    if number % 3 == 0:
        with nczarr.Dataset(target) as found:
            found.set_auto_mask(False)
            values = {name: found[name][:] for name in ("time", "a", "b")}
    else:
        engine = "zarr" if number % 3 == 1 else "nczarr"
        with xr.open_dataset(target, engine=engine, decode_cf=False) as found:
            values = {name: found[name].values for name in ("time", "a", "b")}
    lengths = {len(v) for v in values.values()}
    assert len(lengths) == 1, f"variables of {lengths} steps"
    (length,) = lengths
    assert length >= last, f"{length} steps behind {last}"
    days = np.arange(length)
    for name, found in values.items():
        wrong = np.flatnonzero((found.reshape(length, -1) != days[:, None]).any(axis=1))
        assert not wrong.size, f"{name}: step {wrong[0]} of {length} is {found[wrong[0]]}"
    last, number = length, number + 1
    seen.add(length)
    if number == 3:
        print("ready", flush=True)
    if ending:
        break
print(number, len(seen), last)
"""


def make_day(folder: Path, n: int) -> Path:
    path = folder / f"day{n:04}.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("y", 10)
        file.createDimension("x", 20)
        time = file.createVariable("time", "f8", ("time",))
        time.units = "days since 2020-01-01"
        file.createVariable("y", "f4", ("y",))[:] = np.arange(10)
        time[:] = n
        for name, type_ in (("a", "f4"), ("b", "i2")):
            file.createVariable(name, type_, ("time", "y", "x"), zlib=True)[0] = n
    return path


def trial(budget: Budget) -> None:
    """Join files, append one in each round with a reader beside, compare with xarray."""
    warnings.simplefilter("ignore")
    appended = min(budget.rounds or APPENDED, APPENDED)
    joined = JOINED if appended == APPENDED else 20
    folder = Path(tempfile.mkdtemp(prefix="nczarr-appends-"))
    try:
        one(budget, folder, joined, appended)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def one(budget: Budget, folder: Path, joined: int, appended: int) -> None:
    target, stop = folder / "all.zarr", folder / "stop"
    files = [make_day(folder, n) for n in range(joined + appended)]
    nczarr.join(files[:joined], target, chunks={"time": 7})
    budget.count("files joined", joined)
    same(files[:joined], target)
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, target, stop],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert reader.stdout is not None
        reader.stdout.readline()
        for path in files[joined:]:
            nczarr.append(path, target)
            budget.count("files appended")
            if reader.poll() is not None:
                break
        stop.touch()
        out, errors = reader.communicate()
    finally:
        reader.kill()
    assert reader.returncode == 0, errors
    readings, lengths, last = map(int, out.split())
    assert last == joined + appended
    budget.count("readings", readings)
    budget.count("lengths that were seen", lengths)
    same(files, target)


def same(files: list[Path], target: Path) -> None:
    with (
        xr.open_mfdataset(files, combine="nested", concat_dim="time", data_vars="minimal") as wanted,
        xr.open_dataset(target, engine="zarr") as found,
    ):
        xr.testing.assert_identical(found.load(), wanted.load())


if __name__ == "__main__":
    main(trial)
