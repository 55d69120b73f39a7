"""Copying: block shapes, bounded memory, atomic outputs, refusals."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr.convert import open_source
from nczarr.convert.report import stored_objects
from nczarr.convert.request import known_options
from nczarr.errors import DatasetExistsError, DatasetNotFoundError, NCZarrError, UnsupportedError
from nczarr.mapping.options import WriteOptions
from nczarr.model import DOUBLE, INT, Attribute, Dataset, Dimension, MemorySource, Storage, Variable, compare
from nczarr.transfer import Block, NoProgress, block_shape, transfer
from nczarr.zarr import Array

sizes = st.integers(1, 50)


@given(st.lists(st.tuples(sizes, sizes, sizes), max_size=4), st.sampled_from([1, 4, 8]), st.integers(1, 4000))
def test_blocks_hold_whole_output_chunks(axes: list[tuple[int, int, int]], itemsize: int, limit: int) -> None:
    shape = tuple(a[0] for a in axes)
    write = tuple(a[1] for a in axes)
    read = tuple(a[2] for a in axes)
    block = block_shape(shape, write, read, itemsize, limit)
    one = math.prod(min(w, n) for w, n in zip(write, shape)) * itemsize
    assert math.prod(block) * itemsize <= max(limit, one)
    for b, w, n in zip(block, write, shape):
        assert b == n or b % min(w, n) == 0


def test_stored_chunks_are_copied_within_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).integers(0, 1000, 64 * 256, "i4")
    x = Dimension("x", values.size)
    v = Variable("v", INT, ("/x",), storage=Storage(chunk_shape=(256,)), data=MemorySource(values))
    source: dict[str, bytes] = {}
    nczarr.copy(Dataset("d", dimensions=(x,), variables=(v,)), source)
    most = []
    stored_chunks = Array.stored_chunks

    def noted(self: Array, indices: Any) -> Any:
        most.append(len(indices))
        return stored_chunks(self, indices)

    monkeypatch.setattr(Array, "stored_chunks", noted)
    target: dict[str, bytes] = {}
    nczarr.copy(source, target, memory=16 << 10)
    assert sum(most) == 64
    assert max(most) == 8  # of 1 KiB, in the answer and in the value of each request
    assert list(nczarr.diff(source, target)) == []


class Counting:
    """A sink that counts the bytes that were read and not written yet, and what was written."""

    concurrent = True

    def __init__(self) -> None:
        self.held = self.most = 0
        self.lock = threading.Lock()
        self.written: list[tuple[str, int, int]] = []

    def change(self, count: int) -> None:
        with self.lock:
            self.held += count
            self.most = max(self.most, self.held)

    def write(self, fqn: str, region: Any, values: np.ndarray) -> None:
        np.testing.assert_array_equal(values, np.arange(region[0].start, region[0].stop))
        self.written.append((fqn, region[0].start, region[0].stop))
        self.change(-values.nbytes)


class Numbers:
    """A source of numbers that tells a sink how much is read of it."""

    dtype = np.dtype("i8")

    def __init__(self, size: int, sink: Counting) -> None:
        self.shape, self.sink = (size,), sink

    def read(self, region: Any, out: np.ndarray | None = None) -> np.ndarray:
        values = np.arange(region[0].start, region[0].stop)
        self.sink.change(values.nbytes)
        return values


@given(
    st.lists(st.integers(1, 1000), max_size=200),
    st.integers(1, 4),
    st.sampled_from([100, 3000, 100_000, 1 << 30]),
)
def test_small_blocks_are_moved_together_within_the_memory(
    sizes: list[int], workers: int, memory: int
) -> None:
    sink: Any = Counting()
    blocks: list[Block] = [(f"/v{i}", (slice(0, n),), Numbers(n, sink)) for i, n in enumerate(sizes)]
    transfer(blocks, sink, NoProgress(), workers, memory)
    assert sorted(sink.written) == sorted((f"/v{i}", 0, n) for i, n in enumerate(sizes))
    assert sink.most <= max(memory // 2, 8 * max(sizes, default=0))


class Watched:
    """A source that records what is read of it."""

    def __init__(self, array: np.ndarray) -> None:
        self.inner = MemorySource(array)
        self.shape, self.dtype = array.shape, array.dtype
        self.largest = 0

    def read(self, region: Any, out: np.ndarray | None = None) -> np.ndarray:
        result = self.inner.read(region, out)
        self.largest = max(self.largest, result.nbytes)
        return result


def dataset(array: np.ndarray | None = None, source: Any = None) -> Dataset:
    array = np.arange(12.0).reshape(3, 4) if array is None else array
    return Dataset(
        "d",
        dimensions=(Dimension("t", array.shape[0], True), Dimension("x", array.shape[1])),
        attributes=(Attribute.of("title", "a test"),),
        variables=(
            Variable(
                "v",
                DOUBLE,
                ("/t", "/x"),
                storage=Storage("chunked", (1, array.shape[1])),
                data=source or MemorySource(array),
            ),
        ),
        format="netCDF-4",
    )


@pytest.mark.parametrize("name", ["out.zarr", "out.nc", "out.cdl"])
def test_every_target_holds_the_same_model(tmp_path: Path, name: str) -> None:
    source = dataset()
    nczarr.copy(source, tmp_path / name, verify=True)
    with open_source(tmp_path / name) as copied:
        assert list(compare(source, copied)) == []


def test_memory_is_bounded_by_blocks(tmp_path: Path) -> None:
    array = np.random.default_rng(0).random((64, 1 << 17))  # 64 MiB
    source = Watched(array)
    nczarr.copy(dataset(array, source), tmp_path / "out.zarr", workers=2)
    assert 0 < source.largest <= 32 << 20


@pytest.mark.parametrize("name", ["out.zarr", "out.nc", "out.cdl"])
def test_an_existing_output_is_kept_unless_told_otherwise(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    nczarr.copy(dataset(), target)
    other = Dataset("d", attributes=(Attribute.of("title", "another"),), format="netCDF-4")
    with pytest.raises(DatasetExistsError):
        nczarr.copy(other, target)
    with open_source(target) as kept:
        assert kept.attribute["title"].text == "a test"
    nczarr.copy(other, target, overwrite=True)
    with open_source(target) as replaced:
        assert replaced.attribute["title"].text == "another"
        assert replaced.variables == ()


def test_a_directory_that_is_not_zarr_is_never_deleted(tmp_path: Path) -> None:
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter1.txt").write_text("years of work")
    with pytest.raises(DatasetExistsError):
        nczarr.copy(dataset(), precious, overwrite=True)
    assert (precious / "chapter1.txt").read_text() == "years of work"


class Failing(Watched):
    """A source that breaks half-way."""

    def read(self, region: Any, out: np.ndarray | None = None) -> np.ndarray:
        if region[0].stop > 40:
            raise NCZarrError("the disk has a hole")
        return super().read(region, out)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("name", ["out.zarr", "out.nc", "out.cdl"])
def test_a_failed_copy_leaves_nothing(tmp_path: Path, name: str, workers: int) -> None:
    source = Failing(np.zeros((64, 1 << 17)))
    with pytest.raises(NCZarrError, match="hole"):
        nczarr.copy(dataset(np.zeros((64, 1 << 17)), source), tmp_path / name, workers=workers)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["out.zarr", "out.nc", "out.cdl"])
def test_a_failed_copy_keeps_what_was_there(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    nczarr.copy(dataset(), target)
    source = Failing(np.zeros((64, 1 << 17)))
    with pytest.raises(NCZarrError, match="hole"):
        nczarr.copy(dataset(np.zeros((64, 1 << 17)), source), target, overwrite=True)
    with open_source(target) as kept:
        assert list(compare(dataset(), kept)) == []
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_source_and_target_must_differ(tmp_path: Path) -> None:
    target = tmp_path / "out.zarr"
    nczarr.copy(dataset(), target)
    with pytest.raises(UnsupportedError, match="the same"):
        nczarr.copy(target, tmp_path / "." / "out.zarr", overwrite=True)


def test_a_missing_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match=r"no\.nc"):
        nczarr.copy(tmp_path / "no.nc", tmp_path / "out.zarr")
    assert list(tmp_path.iterdir()) == []


def test_unknown_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="speed"):
        nczarr.copy(dataset(), tmp_path / "out.zarr", speed="high")
    with pytest.raises(UnsupportedError, match="layout"):
        nczarr.copy(dataset(), tmp_path / "out.nc", layout="nczarr-v3")


def test_progress_adds_up(tmp_path: Path) -> None:
    told: list[int] = []

    class Recorder:
        total = 0
        finished = False

        def start(self, total: int) -> None:
            self.total = total

        def advance(self, count: int, fqn: str) -> None:
            assert fqn == "/v"
            told.append(count)

        def finish(self) -> None:
            self.finished = True

    recorder = Recorder()
    nczarr.copy(dataset(), tmp_path / "out.zarr", progress=recorder)
    assert sum(told) == recorder.total == 96
    assert recorder.finished


def test_verify_reports_a_difference(tmp_path: Path) -> None:
    class Fickle(Watched):
        reads = 0

        def read(self, region: Any, out: np.ndarray | None = None) -> np.ndarray:
            self.reads += 1
            return super().read(region, out) + self.reads

    source = Dataset(
        "d",
        dimensions=(Dimension("x", 2),),
        variables=(Variable("v", INT, ("/x",), data=Fickle(np.zeros(2, "i4"))),),
    )
    with pytest.raises(NCZarrError, match="differs"):
        nczarr.copy(source, tmp_path / "out.zarr", verify=True)


def test_filters_of_strings_that_a_netcdf_file_has_not_are_named(tmp_path: Path) -> None:
    def made(**options: Any) -> Path:
        with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
            ds.createDimension("x", 3)
            ds.createVariable("s", str, ("x",), **options)[:] = np.array(["a", "b", "c"], object)
        return tmp_path / "a.zarr"

    def lost(source: Path, **options: Any) -> list[str]:
        losses = nczarr.copy(source, tmp_path / "a.nc", overwrite=True, **options)
        assert list(nczarr.diff(source, tmp_path / "a.nc")) == []
        return [loss.partition(";")[0] for loss in losses]

    assert lost(made(zlib=True)) == []
    assert lost(made(compression="zstd")) == ["/s: zstd"]
    assert lost(made(compression="zstd"), compression="gzip:4") == []
    assert lost(made(zlib=True, fletcher32=True)) == ["/s: fletcher32"]
    assert lost(made(fletcher32=True), checksum=True) == ["/s: a checksum"]
    with nczarr.Dataset(tmp_path / "a.nc") as ds:
        assert not ds["s"].filters()["fletcher32"]


def test_a_wrong_keyword_has_a_hint(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"no option ovrwrite \(did you mean 'overwrite'\?\)"):
        nczarr.copy(Dataset("d"), tmp_path / "a.zarr", ovrwrite=True)  # type: ignore[call-arg]
    with pytest.raises(UnsupportedError, match="did you mean 'layout'"):
        nczarr.copy(Dataset("d"), tmp_path / "a.zarr", layuot="zarr-v3")  # type: ignore[call-arg]


def test_the_signature_has_every_option_of_the_formats() -> None:
    # The portable form is asked for as a whole: it places the keys, and stores characters as numbers.
    by_portable = {"keys_in_attributes"}
    assert set(WriteOptions.__dataclass_fields__) - by_portable <= known_options("copy").keys()


def test_the_report_counts_no_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / "gone").symlink_to(tmp_path / "missing")
    found = stored_objects(tmp_path)
    assert found is not None
    assert (found.count, found.bytes) == (1, 3)
