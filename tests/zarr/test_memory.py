"""Measure the memory of reading and writing an array."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import sys
import numpy as np
from nczarr.stores import LocalStore
from nczarr.zarr.types import data_type_for
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.hierarchy.opening import create_hierarchy
from nczarr.zarr.metadata import ArrayMetadata, NamedConfig

def memory(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) * 1024

codecs = (NamedConfig("bytes", {"endian": "little"}), *map(NamedConfig, sys.argv[2:]))
metadata = ArrayMetadata(
    (4096, 4096), data_type_for("float32"), RegularGrid((512, 512)), fill_value=np.float32(0), codecs=codecs
)
array = create_hierarchy(LocalStore(sys.argv[1], "w")).put_array("v", metadata)
values = np.random.default_rng(1).integers(0, 100, (4096, 4096)).astype("float32")
array.write((slice(0, 512), slice(0, 512)), values[:512, :512])
array.read((slice(0, 512), slice(0, 512)))
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak starts anew
before = memory("VmRSS")
array.write(..., values)
print(memory("VmHWM") - before)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = memory("VmRSS")
result = array.read()
print(memory("VmHWM") - before - result.nbytes)
assert (result == values).all()
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak is asked of Linux")
@pytest.mark.parametrize("codecs", [[], ["zstd"], ["blosc"]])
def test_little_more_than_the_array(tmp_path: Path, codecs: list[str]) -> None:
    command = [sys.executable, "-c", CHILD, str(tmp_path / "a.zarr"), *codecs]
    environment = {**os.environ, "NCZARR_THREADS": "4", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    writing, reading = map(int, done.stdout.split())
    # The array has 64 MiB, a chunk one; each of four threads holds some of these.
    assert writing < 24 << 20
    assert reading < 24 << 20
