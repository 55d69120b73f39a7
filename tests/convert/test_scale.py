"""A plan of a million files and a listing of a hundred million objects fit into the memory of any machine."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr as zarr_python
from hypothesis import given, settings
from strategies import datasets

import nczarr
from nczarr import mapping
from nczarr.convert.many.joining import join
from nczarr.convert.many.models import SourceModels
from nczarr.convert.report import StoredObjects, variable_storage
from nczarr.model import DOUBLE, FLOAT, Attribute, Dataset, Dimension, MemorySource, Variable, compare
from nczarr.stores import MemoryStore


@settings(max_examples=25)
@given(datasets(), datasets())
def test_models_of_sources_come_back(first: Dataset, second: Dataset) -> None:
    models = SourceModels([first, second, first])
    for given_, found in zip([first, second, first], models, strict=True):
        assert found.name == given_.name
        assert not list(compare(given_, found))


def day(number: int) -> Dataset:
    """The model of a daily file of twenty variables; only time, title and name differ."""
    units = Attribute.of("units", "hours since 2000-01-01")
    time = MemorySource(np.arange(number * 4, number * 4 + 4, dtype="f8"))
    fields = [
        Variable(
            f"v{i}",
            FLOAT,
            ("/time", "/x"),
            attributes=(Attribute.of("long_name", f"field {i}"),),
            data=Zeros(),
        )
        for i in range(20)
    ]
    return Dataset(
        f"day{number}",
        attributes=(Attribute.of("title", f"day {number}"),),
        dimensions=(Dimension("time", 4, True), Dimension("x", 1000)),
        variables=(Variable("time", DOUBLE, ("/time",), attributes=(units,), data=time), *fields),
    )


class Zeros:
    shape, dtype = (4, 1000), np.dtype("f4")

    def read(self, region: Any, out: Any = None) -> np.ndarray:
        return np.zeros([s.stop - s.start for s in region], "f4")


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scan file of files that do not exist."""
    pytest.importorskip("pyarrow")
    from dataclasses import replace

    from nczarr.convert.many import scan as scanning

    folder = tmp_path_factory.mktemp("scan")
    nczarr.copy(day(0), folder / "day.zarr")
    header = replace(
        scanning.ScanRow.read(str(folder / "day.zarr"), None), size=None, modified=None, kind="netcdf"
    )
    others = [value for value in header.values if value["fqn"] != "/time"]

    def rows() -> Iterator[Any]:
        for number in range(192):
            times = np.arange(number * 4, number * 4 + 4, dtype="f8").tobytes()
            values = [{"fqn": "/time", "data": times}, *others]
            title = header.document.replace(b"day 0", b"day %d" % number)
            yield replace(header, source=f"/archive/{number:08}.nc", values=values, document=title)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "_GROUP", 16)  # a reader keeps the rows of one group
        scanning._write(folder / "scan.parquet", rows(), [])
    return folder / "scan.parquet"


def test_a_plan_needs_two_kib_for_each_file(scan: Path) -> None:
    from nczarr.convert.many.scan import with_scans

    names = with_scans([scan])

    def kept(count: int) -> int:
        tracemalloc.start()
        try:
            with join(names[:count], "time") as joined:
                assert joined.dimension_at("/time").size == 4 * count
                gc.collect()
                return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    kept(64)  # what is made once
    assert (kept(192) - kept(64)) / 128 < 2048


def test_a_task_moves_many_small_blocks(tmp_path: Path) -> None:
    values = np.arange(1024 * 8, dtype="i4").reshape(1024, 8)
    with zarr_python.config.set({"array.write_empty_chunks": True}):
        group = zarr_python.open_group(tmp_path / "a.zarr", mode="w")
        array = group.create_array(
            "v", shape=values.shape, dtype="i4", chunks=(64, 8), dimension_names=["time", "x"]
        )
        array[:] = values

    class Counting(ThreadPoolExecutor):
        tasks = 0

        def submit(self, *arguments: Any, **keywords: Any) -> Future[Any]:
            Counting.tasks += 1
            return super().submit(*arguments, **keywords)

    with Counting(2) as pool:
        # A memory so small that each chunk is a block of its own.
        nczarr.copy(
            tmp_path / "a.zarr", tmp_path / "b.zarr", executor=pool, chunks={"time": 1, "x": 8}, memory=16384
        )
    assert Counting.tasks <= 2 * 64 + 2
    assert (zarr_python.open_group(tmp_path / "b.zarr")["v"][:] == values).all()


def test_info_counts_a_listing_that_no_memory_holds() -> None:
    """The listing of a store is counted while it comes, and none of its keys is kept."""

    class Listed(MemoryStore):
        """A store that lists many objects which it does not have."""

        objects = 0

        def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
            yield from super().sizes(prefix)
            yield from ((f"v/c/{number}", 1000 + number % 7) for number in range(self.objects))

    store = Listed()
    axes = (Dimension("x", 10_000_000),)
    variable = Variable("v", FLOAT, ("/x",), storage=nczarr.model.Storage("chunked", (10,)))
    mapping.create_dataset(store, Dataset("d", dimensions=axes, variables=(variable,))).close()

    def peak(objects: int) -> int:
        store.objects = objects
        with mapping.open_dataset(store) as stored:
            tracemalloc.start()
            try:
                (found,) = variable_storage(stored.dataset, near=False)
                assert found.objects_stored == objects
                assert found.stored_bytes == sum(1000 + number % 7 for number in range(objects))
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    peak(1000)
    assert peak(40_000) < peak(10_000) + 500_000


def test_sizes_of_objects_are_counted_in_classes() -> None:
    sizes = [int(n) for n in np.random.default_rng(1).integers(0, 1 << 30, 20_000)]
    found = StoredObjects.of(sizes[:5000]) + StoredObjects.of(sizes[5000:])
    assert (found.count, found.bytes) == (len(sizes), sum(sizes))
    assert found.median == pytest.approx(sorted(sizes)[len(sizes) // 2], rel=2e-3)
    assert len(found.classes) < 12_000
