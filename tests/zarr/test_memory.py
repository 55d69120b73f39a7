"""Measure the memory of reading and writing an array."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from counting_store import CountingStore

from nczarr.stores import MemoryStore
from nczarr.stores.base import Buffer
from nczarr.zarr.chunks import read_store
from nczarr.zarr.chunks.array import Array
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.metadata import ArrayMetadata
from nczarr.zarr.types import data_type_for

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


@pytest.mark.slow
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


class WatchedStore(CountingStore):
    """Note before each batch how many of the chunks that were given out before still exist."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.alive: list[int] = []
        self._given: list[weakref.ref[np.ndarray]] = []

    def get_bounded(self, keys: Sequence[str], most: int) -> Sequence[Buffer | None]:
        self.alive.append(sum(given() is not None for given in self._given))
        values = [np.frombuffer(value or b"", "u1") for value in self.get_many(keys)]
        self._given += map(weakref.ref, values)
        return values


def test_a_batch_is_fetched_while_the_one_before_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(work: Callable[[object], object], items: Iterable[object], workers: int | None = None) -> None:
        for item in items:
            work(item)

    monkeypatch.setattr(read_store, "BATCH_BYTES", 4 * 4096)
    monkeypatch.setattr(read_store, "run", run)  # one after the other, in the order of the list
    store = WatchedStore()
    array = Array(
        store,
        "v",
        ArrayMetadata((20, 1024), data_type_for("int32"), RegularGrid((1, 1024)), fill_value=np.int32(0)),
    )
    values = np.arange(20 * 1024, dtype="i4").reshape(20, 1024)
    array.write(..., values)
    assert (array.read() == values).all()
    assert store.alive == [0, 4, 4, 4, 4]
