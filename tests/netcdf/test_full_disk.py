"""Write to a full disk: the error is clear, nothing remains, and the program continues."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

resource = pytest.importorskip("resource")

# A limit on the size of files fails as a full disk does: some bytes of a write are taken, the rest are not.
PROGRAM = """
import os, resource, sys
import numpy as np
from nczarr.errors import NetCDFFileError
from nczarr.model import DOUBLE, STRING, Dataset, Dimension, Filter, Storage, Variable
from nczarr.netcdf import create_dataset

path, limit, format_ = sys.argv[1], int(sys.argv[2]), sys.argv[3]
# Python keeps the beginning of bytecode that it cannot write whole, and no process reads the module then.
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
chunked = Storage("chunked", (1000,), (Filter(1, (1,)),))
variables = [Variable(f"v{i}", DOUBLE, ("/x",), storage=chunked if i % 2 else Storage()) for i in range(10)]
if format_ == "netCDF-4":
    variables.append(Variable("s", STRING, ("/x",), storage=Storage("chunked", (1000,))))
dataset = Dataset("d", dimensions=(Dimension("x", 20000),), variables=tuple(variables))
values = np.random.default_rng(0).normal(size=20000)
texts = np.array([f"text {i}" for i in range(20000)], object)
try:
    with create_dataset(path, dataset, format=format_) as sink:
        for variable in variables:
            sink.write("/" + variable.name, (slice(0, 20000),), texts if variable.type is STRING else values)
        sink.commit()
except NetCDFFileError as error:
    print("refused", error)
else:
    print("written")
print("left", os.listdir(os.path.dirname(path)))
with create_dataset(os.path.join(os.path.dirname(path), "small.nc"), Dataset("d")) as sink:
    sink.commit()
print("goes on")
"""


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["netCDF-4", "classic"])
@pytest.mark.parametrize("kilobytes", [10, 40, 200, 1000, 1500])
def test_a_full_disk_is_an_error(tmp_path: Path, kilobytes: int, format_: str) -> None:
    path = tmp_path / "a.nc"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), str(kilobytes << 10), format_],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    refused, left, on = done.stdout.splitlines()
    assert refused.startswith(f"refused {path}: ")
    assert refused.endswith("the file cannot be written: File too large")
    assert left == "left []"
    assert on == "goes on"


def test_a_disk_with_room_takes_the_same_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "a.nc"), str(1 << 30), "netCDF-4"],
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == ["written", "left ['a.nc']", "goes on"], done.stderr
