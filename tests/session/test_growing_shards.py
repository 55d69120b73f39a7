"""Datasets with shards that grow in place: the cache keeps inner chunks, and a sync adds them to the shards."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import foreign_readers
import numpy as np
import pytest
import xarray
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import nczarr
from nczarr.convert.verify.check import check
from nczarr.mapping import repair
from nczarr.session import chunk_cache
from nczarr.zarr.chunks.shard_files import GrowingShard

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="files grow in place where the system has pread and pwrite"
)

CDL = """
netcdf d {
dimensions: t = UNLIMITED ; x = 6 ;
variables:
  int v(t, x) ; v:_FillValue = -1 ;
  string names(t) ;
  double fixed(x, x) ;
}
"""


def make(path: Path, *, chunks: dict[str, int] | None = None, shards: dict[str, int] | None = None) -> Path:
    (path.parent / "d.cdl").write_text(CDL)
    nczarr.copy(
        path.parent / "d.cdl", path, chunks=chunks or {"t": 2, "x": 3}, shards=shards or {"t": 10, "x": 6}
    )
    return path


def shard_sizes(path: Path, name: str = "v") -> dict[str, tuple[int, int]]:
    """The inode and size of each shard."""
    return {
        str(file.relative_to(path)): (file.stat().st_ino, file.stat().st_size)
        for file in sorted((path / name / "c").rglob("*"))
        if file.is_file()
    }


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of inner chunks of each change of a shard in place."""
    counts: list[int] = []
    add = GrowingShard.add

    def counted(self: GrowingShard, pieces: Any) -> bool:
        counts.append(len(pieces))
        return add(self, pieces)

    monkeypatch.setattr(GrowingShard, "add", counted)
    return counts


def open_with(path: Path, bound: int) -> nczarr.Dataset:
    """Open a dataset whose cache has a bound, with no room for the last chunks of growing variables."""
    dataset = nczarr.Dataset(path, "a", durable=False)
    dataset._nc_session.cache.bound = bound
    return dataset


steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 15), st.integers(0, 9)),
    st.tuples(st.just("rewrite"), st.integers(0, 40), st.integers(1, 12)),
    st.tuples(st.just("row"), st.integers(0, 40), st.integers(0, 5)),
    st.tuples(st.sampled_from(("sync", "reopen", "read")), st.just(0), st.just(0)),
)


@settings(max_examples=25, deadline=None)
@given(
    operations=st.lists(steps, max_size=15),
    chunk=st.sampled_from([(1, 6), (2, 3), (3, 6), (5, 2)]),
    bound=st.sampled_from([0, 200, 1 << 20]),
)
def test_any_operations(
    tmp_path_factory: pytest.TempPathFactory, operations: list[Any], chunk: Any, bound: int
) -> None:
    """The values are those of a numpy array, whatever stays in memory, and zarr-python reads them at the end."""
    folder = tmp_path_factory.mktemp("grow")
    path = make(
        folder / "a.zarr", chunks={"t": chunk[0], "x": chunk[1]}, shards={"t": 2 * chunk[0] * 5, "x": 6}
    )
    values = np.full((0, 6), -1, "i4")
    dataset = open_with(path, bound)
    for name, number, other in operations:
        length = len(values)
        if name == "append":
            new = (np.arange(number * 6).reshape(number, 6) + other).astype("i4")
            dataset["v"][length : length + number] = new
            values = np.concatenate([values, new])
        elif name == "rewrite" and number < length:
            rows = slice(number, min(number + other, length))
            values[rows] = other
            dataset["v"][rows] = values[rows]
        elif name == "row" and number < length:
            values[number, other] = number
            dataset["v"][number, other] = number
        elif name == "sync":
            dataset.sync()
        elif name == "reopen":
            dataset.close()
            dataset = open_with(path, bound)
        elif name == "read":
            assert (dataset["v"][:].filled(-1) == values).all()
    dataset.close()
    with nczarr.Dataset(path) as dataset:
        assert (dataset["v"][:].filled(-1) == values).all()
    assert (zarr.open_group(str(path), mode="r")["v"][...] == values).all()


def test_steps_are_added_at_the_sync(tmp_path: Path, added: list[int]) -> None:
    """One change for each shard and sync, whatever the number of steps."""
    path = make(tmp_path / "a.zarr")
    with nczarr.Dataset(path, "a") as dataset:
        for step in range(4):
            dataset["v"][step] = step
        dataset.sync()
        assert not added  # the shard is new
        before = shard_sizes(path)
        for step in range(4, 10):
            dataset["v"][step] = step
        assert shard_sizes(path) == before
        dataset.sync()
        assert added == [6]
        after = shard_sizes(path)
        assert [inode for inode, _ in after.values()] == [inode for inode, _ in before.values()]
        with nczarr.Dataset(path) as beside:
            assert beside["v"][:, 5].tolist() == list(range(10))
    with nczarr.Dataset(path, "a") as dataset:
        dataset["v"][10] = 10
    assert len(shard_sizes(path)) == 2


def test_reopening_reads_only_what_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "a.zarr", chunks={"t": 4, "x": 6}, shards={"t": 400, "x": 6})
    with nczarr.Dataset(path, "a") as dataset:
        dataset["v"][:] = np.arange(1200).reshape(200, 6)
    read: list[int] = []
    inner = GrowingShard.inner
    monkeypatch.setattr(
        GrowingShard, "inner", lambda self, number: (read.append(number), inner(self, number))[1]
    )
    size = shard_sizes(path)["v/c/0/0"]
    with nczarr.Dataset(path, "a") as dataset:
        dataset["v"][200] = 7
    assert not read  # a new inner chunk
    inode, grown = shard_sizes(path)["v/c/0/0"]
    assert inode == size[0]
    assert grown - size[1] < 100 * 16 + 200
    with nczarr.Dataset(path) as dataset:
        assert dataset["v"][199].tolist() == list(range(1194, 1200))
        assert dataset["v"][200].tolist() == [7] * 6


def test_a_full_cache_stores_many_blocks_at_a_time(
    tmp_path: Path, added: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_cache, "_MOST_GROWING", 0)
    path = make(tmp_path / "a.zarr", chunks={"t": 2, "x": 6}, shards={"t": 1000, "x": 6})
    with nczarr.Dataset(path, "a") as dataset:
        dataset._nc_session.cache.bound = 20 * 48
        for step in range(400):
            dataset["v"][step] = step
        assert dataset._nc_session.cache.weight <= 22 * 48
    assert 0 < len(added) < 60
    assert len(shard_sizes(path)) == 1
    with nczarr.Dataset(path) as dataset:
        assert dataset["v"][:, 3].tolist() == list(range(400))


def test_values_of_a_dead_writer(tmp_path: Path) -> None:
    """Inner chunks behind the recorded length are fill when the dataset grows again."""
    path = make(tmp_path / "a.zarr")
    with nczarr.Dataset(path, "a") as dataset:
        dataset["v"][:3] = 1
    documents = {file: file.read_bytes() for file in path.rglob("zarr.json")}
    with nczarr.Dataset(path, "a") as dataset:
        dataset["v"][3:9] = 2
    for file, text in documents.items():
        file.write_bytes(text)
    with nczarr.Dataset(path, "a") as dataset:
        assert len(dataset.dimensions["t"]) == 3
        dataset["v"][8] = 3
        assert dataset["v"][:, 0].filled(-1).tolist() == [1, 1, 1, -1, -1, -1, -1, -1, 3]


def test_strings(tmp_path: Path, added: list[int]) -> None:
    path = make(tmp_path / "a.zarr")
    with nczarr.Dataset(path, "a") as dataset:
        for step in range(25):
            dataset["names"][step] = f"step {step}" * (step + 1)
            if step % 7 == 0:
                dataset.sync()
    assert added
    with nczarr.Dataset(path) as dataset:
        assert dataset["names"][:].tolist() == [f"step {step}" * (step + 1) for step in range(25)]


def test_threads(tmp_path: Path) -> None:
    """Threads write different inner chunks of the same shards, and one syncs meanwhile."""
    path = make(tmp_path / "a.zarr", chunks={"t": 1, "x": 6}, shards={"t": 50, "x": 6})
    with nczarr.Dataset(path, "a") as dataset:
        dataset["v"][199] = 199

        def write(first: int) -> None:
            for step in range(first, 200, 4):
                dataset["v"][step] = step

        threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            dataset.sync()
        for thread in threads:
            thread.join()
    with nczarr.Dataset(path) as dataset:
        assert dataset["v"][:, 2].tolist() == list(range(200))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 2])
def test_processes_share_a_shard(tmp_path: Path, chunk: int) -> None:
    """With ``shared=True``, the inner chunks of each process are there, whole ones and parts."""
    path = make(tmp_path / "a.zarr", chunks={"t": chunk, "x": 6}, shards={"t": 100, "x": 6})
    with nczarr.Dataset(path, "a") as dataset:
        dataset["v"][99] = 99
    program = """
import sys, nczarr
with nczarr.Dataset(sys.argv[1], "a", shared=True) as dataset:
    for step in range(int(sys.argv[2]), 99, 3):
        dataset["v"][step] = step
        if step % 9 != 0:
            dataset.sync()
"""
    workers = [subprocess.Popen([sys.executable, "-c", program, path, str(i)]) for i in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    with nczarr.Dataset(path) as dataset:
        assert dataset["v"][:, 1].tolist() == list(range(100))


def test_stores_without_files_gather_a_shard(tmp_path: Path) -> None:
    """In a zip file, a partial shard has no inner chunks beyond the end of the array."""
    path = make(tmp_path / "a.zip", chunks={"t": 1, "x": 6}, shards={"t": 1000, "x": 6})
    with nczarr.Dataset(path, "a") as dataset:
        for step in range(30):
            dataset["v"][step] = step
    assert path.stat().st_size < 1000 * 16 * 2 + 40_000
    with nczarr.Dataset(path) as dataset:
        assert dataset["v"][:, 0].tolist() == list(range(30))


#: Steps of inner chunks, compressed and not, at which other readers look.
LOOKS = (1, 3, 17, 18, 40)


@pytest.mark.slow
# GDAL refuses shards.
@pytest.mark.parametrize("reader", sorted(foreign_readers.READERS.keys() - {"GDAL"}))
def test_other_readers_in_the_middle_of_growth(tmp_path: Path, reader: str) -> None:
    """They read the steps of the last sync while the writer has the dataset open, also after rewritten steps."""
    for compression in (None, "zstd", "zlib"):
        look_while_it_grows(tmp_path / f"{compression}.zarr", foreign_readers.READERS[reader], compression)


def look_while_it_grows(path: Path, read: Callable[[Path, str], Any], compression: Any) -> None:
    values = np.random.default_rng(1).normal(size=(50, 4, 5)).astype("f4")
    with nczarr.Dataset(path, "w") as dataset:
        dataset.createDimension("t")
        dataset.createDimension("y", 4)
        dataset.createDimension("x", 5)
        dataset.createVariable(
            "v", "f4", ("t", "y", "x"), compression=compression, chunksizes=(1, 4, 5), shards=(16, 4, 5)
        )
    with nczarr.Dataset(path, "a") as dataset:
        for step, value in enumerate(values):
            dataset["v"][step] = value
            if step % 3 == 2:
                dataset["v"][step - 2, 1] = values[step - 2, 1] = step
            dataset.sync()
            if step in LOOKS:
                try:
                    found = read(path, "v")
                except foreign_readers.Absent as problem:
                    pytest.skip(str(problem))
                assert np.array_equal(found, values[: step + 1])


@pytest.mark.filterwarnings("ignore")
def test_zarr_python_and_xarray_write_in_between(tmp_path: Path) -> None:
    """They write a shard as a whole, without the copy of its index, and nczarr goes on from there."""
    path = tmp_path / "a.zarr"
    values = np.arange(30).reshape(5, 6)
    with nczarr.Dataset(path, "w") as dataset:
        dataset.createDimension("t")
        dataset.createDimension("x", 6)
        dataset.createVariable("v", "i4", ("t", "x"), compression="zstd", chunksizes=(2, 6), shards=(20, 6))
        dataset["v"][:5] = values

    def grow(number: int) -> np.ndarray:
        with nczarr.Dataset(path, "a") as dataset:
            for step in range(len(values), len(values) + 3):
                dataset["v"][step] = number
                dataset.sync()
        return np.concatenate([values, np.full((3, 6), number)])

    def look() -> None:
        with nczarr.Dataset(path) as dataset:
            assert np.array_equal(dataset["v"][:], values)
        assert np.array_equal(zarr.open_group(str(path), mode="r")["v"][...], values)

    for number in range(5):
        values = grow(number)
        array = zarr.open_group(str(path), mode="r+", use_consolidated=False)["v"]
        array[1] = values[1] = 100 + number
        array[len(values) - 1] = values[-1] = 7
        look()
    more = np.full((2, 6), 9, "i4")
    xarray.Dataset({"v": (("t", "x"), more)}).to_zarr(path, append_dim="t")
    values = np.concatenate([values, more])
    look()
    values = grow(8)
    look()


def test_a_torn_index_is_found_and_repaired(tmp_path: Path) -> None:
    """nczarr reads the values in any case; zarr-python reads them after the repair."""
    path = make(tmp_path / "a.zarr")
    with nczarr.Dataset(path, "a") as dataset:
        dataset["v"][:4] = 1
        dataset.sync()
        dataset["v"][4:8] = 2
    shard = path / "v" / "c" / "0" / "0"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:8] + b"\1" * 16 + whole[24:])
    assert list(check(path)) == []
    (finding,) = check(path, data=True)
    assert (finding.code, finding.where) == ("index-torn", "/v")
    with nczarr.Dataset(path) as dataset:
        assert dataset["v"][:, 0].tolist() == [1] * 4 + [2] * 4
    with pytest.raises(ValueError, match="checksum"):
        zarr.open_group(str(path), mode="r")["v"][...]
    assert [finding.code for finding in repair(path, dry_run=True)] == ["index-torn"]
    assert shard.read_bytes() != whole
    repair(path)
    assert shard.read_bytes() == whole
    assert list(check(path, data=True)) == []
    assert zarr.open_group(str(path), mode="r")["v"][:, 0].tolist() == [1] * 4 + [2] * 4
