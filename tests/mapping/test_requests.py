"""Count the requests of opening a dataset: one or two, for any size.

Over HTTP the requests are counted by the server; on S3, where a request is a key or a listing, by the store.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counting_store import CountingStore

from nczarr.errors import DatasetNotFoundError, NCZarrError, StoreError
from nczarr.mapping import WriteOptions, create_dataset, open_dataset
from nczarr.model import DOUBLE, Attribute, Dataset, Dimension, Group, Variable
from nczarr.stores import LocalStore, MemoryStore, open_store
from nczarr.stores.base import Buffer


def large(count: int = 1000) -> Dataset:
    variables = tuple(
        Variable(f"v{i}", DOUBLE, ("/t", "/x"), attributes=(Attribute.of("units", "K"),))
        for i in range(count)
    )
    return Dataset(
        "d",
        dimensions=(Dimension("t", 0, True), Dimension("x", 4)),
        variables=variables,
        groups=(Group("g", variables=variables[:10]),),
    )


@pytest.mark.parametrize("layout", ["nczarr-v3", "zarr-v3"])
def test_opening_consolidated_metadata_costs_at_most_two_requests(layout: str) -> None:
    store = MemoryStore()
    create_dataset(store, large(), WriteOptions(layout=layout)).close()
    counting = CountingStore(store)
    with open_dataset(counting) as stored:
        assert len(stored.dataset.all_variables) == 1010
    assert len(counting.calls) <= 2
    # All documents that could be there are asked for at once.
    assert counting.requests <= 8


def test_opening_without_them_costs_a_listing_and_batches() -> None:
    store = MemoryStore()
    create_dataset(store, large(), WriteOptions(consolidated=False)).close()
    counting = CountingStore(store)
    with open_dataset(counting) as stored:
        assert len(stored.dataset.all_variables) == 1010
    assert len(counting.calls) <= 4


def test_a_change_of_one_attribute_writes_one_document() -> None:
    store = MemoryStore()
    create_dataset(store, large(50)).close()
    counting = CountingStore(store)
    with open_dataset(counting, "r+") as stored:
        before = len(counting.calls)
        v7 = replace(stored.dataset.variable_at("/v7"), attributes=(Attribute.of("units", "m"),))
        variables = tuple(v7 if v.name == "v7" else v for v in stored.dataset.variables)
        stored.update(replace(stored.dataset, variables=variables))
        assert [name for name, _ in counting.calls[before:]] == ["set_many"]
        stored.data("/v7").array  # noqa: B018
    assert sum(count for name, count in counting.calls[before:] if name.startswith("set")) == 2
    with open_dataset(store) as stored:
        assert stored.dataset.variable_at("/v7").attribute["units"].text == "m"


def test_reading_one_chunk_asks_for_one_chunk() -> None:
    store = MemoryStore()
    dataset = Dataset("d", dimensions=(Dimension("x", 4),), variables=(Variable("v", DOUBLE, ("/x",)),))
    with create_dataset(store, dataset) as sink:
        sink.write("/v", (slice(0, 4),), np.arange(4.0))
    counting = CountingStore(store)
    with open_dataset(counting) as stored:
        before = counting.requests
        assert stored.data("/v").read_orthogonal(2) == 2.0
        assert counting.requests == before + 1


@pytest.mark.parametrize("lists", [True, False])
def test_appending_a_step_asks_for_its_chunk_only(lists: bool) -> None:
    import nczarr

    store = MemoryStore()
    with nczarr.Dataset(store, "w") as ds:
        ds.createDimension("t")
        ds.createVariable("t", "i4", ("t",), chunksizes=(1,))[:] = np.arange(1500)
        ds.createVariable("v", "i4", ("t",), chunksizes=(100,))[:] = np.arange(1500)
    store.lists_by_folder = True
    store.listable = store.lists_all = lists  # an object store, and one that may not be listed
    counting = CountingStore(store)
    with nczarr.Dataset(counting, "a") as ds:
        before = len(counting.calls)
        ds["t"][1500] = 1500
        ds.sync()
        names = [name for name, _ in counting.calls[before:]]
        assert not {"list", "list_dir"} & set(names), names
        # The new chunk of each variable; the value, the two documents and the root's.
        assert names.count("exists") == 2, names
        assert sum(count for _, count in counting.calls[before:]) <= 8, counting.calls[before:]
    with nczarr.Dataset(store) as ds:
        assert ds["t"][-2:].tolist() == [1499, 1500]
        assert ds["v"][-2:].tolist() == [1499, None]


class Waiting(MemoryStore):
    """Answers single requests for chunks when three of them wait, like a server whose answers take long."""

    lists_by_folder = True
    parallel_requests = 8

    def __init__(self) -> None:
        super().__init__()
        self.waits = False
        self.waiting = 0
        self.changed = threading.Condition()

    def wait_together(self) -> None:
        """Let the next requests for chunks wait; chunks may share locks, so that not all wait at once."""
        self.waits, self.waiting = True, 0

    def _wait(self, key: str) -> None:
        if not self.waits or "/c/" not in key:
            return
        with self.changed:
            self.waiting += 1
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.waiting >= 3, timeout=60)

    def exists(self, key: str) -> bool:
        self._wait(key)
        return super().exists(key)

    def set(self, key: str, data: Buffer) -> None:
        if self.waiting == 8:  # all have asked for their chunks
            self.wait_together()
        self._wait(key)
        super().set(key, data)


def test_appending_a_step_to_many_variables_sends_requests_at_the_same_time() -> None:
    import nczarr

    store = Waiting()
    with nczarr.Dataset(store, "w") as ds:
        ds.createDimension("t")
        for i in range(8):
            ds.createVariable(f"v{i}", "i4", ("t",), chunksizes=(1,))[:2] = i
    store.wait_together()
    counting = CountingStore(store)
    counting.parallel_requests = 8
    with nczarr.Dataset(counting, "a") as ds:
        for v in ds.variables.values():
            v[2] = 9
        before = len(counting.calls)
    writes = [(name, count) for name, count in counting.calls[before:] if name == "set_many"]
    assert ("set_many", 8) in writes  # the documents of the arrays
    store.waits = False
    with nczarr.Dataset(store) as ds:
        assert [v[:].tolist() for v in ds.variables.values()] == [[i, i, 9] for i in range(8)]


class Refusing(Waiting):
    """Refuses the new chunk of one variable."""

    refuses = True

    def exists(self, key: str) -> bool:
        if self.refuses and key == "v3/c/2":
            raise StoreError("refused", path=key)
        return super().exists(key)


def test_a_request_that_fails_among_others_is_repeated() -> None:
    import nczarr

    store = Refusing()
    with nczarr.Dataset(store, "w") as ds:
        ds.createDimension("t")
        for i in range(8):
            ds.createVariable(f"v{i}", "i4", ("t",), chunksizes=(1,))[:2] = i
    with nczarr.Dataset(store, "a") as ds:
        for v in ds.variables.values():
            v[2] = 9
        with pytest.raises(NCZarrError, match="v3: refused"):
            ds.sync()
        store.refuses = False
    with nczarr.Dataset(store) as ds:
        assert [v[:].tolist() for v in ds.variables.values()] == [[i, i, 9] for i in range(8)]


# -- real servers


#: The number of variables in each layout. Requests are counted, and a number that grows with the variables is seen with
#: a quarter of them too.
COUNTS = {"nczarr-v3": 1000, "zarr-v3": 250, "nczarr-v2": 250, "zarr-v2": 250}
LAYOUTS = tuple(COUNTS)


def make_large(path: Path, layout: str, consolidated: bool, count: int = 1000) -> None:
    options = WriteOptions(layout=layout, consolidated=consolidated, lossy=True)
    with create_dataset(path, large(count), options) as sink:
        # Some chunks, which a listing has to pass over.
        sink.update(replace(sink.dataset, dimensions=(Dimension("t", 1, True), Dimension("x", 4))))
        for number in range(3):
            sink.write(f"/v{number}", (slice(0, 1), slice(0, 4)), np.ones((1, 4)))


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset of many variables in each layout, with and without consolidated metadata."""
    folder = tmp_path_factory.mktemp("thousand")
    for layout in LAYOUTS:
        for consolidated in (True, False):
            make_large(folder / f"{layout}-{consolidated}.zarr", layout, consolidated, COUNTS[layout])
    return folder


def expect_large(target: Any, count: int = 1000) -> None:
    with open_dataset(target) as stored:
        assert len(stored.dataset.all_variables) == count + 10
        for variable in stored.dataset.all_variables.values():
            assert variable.attribute["units"].text == "K"
        assert [d.name for d in stored.dataset.dimensions] == ["t", "x"]


@pytest.fixture(scope="module")
def served(thousand: Path, web_server: Any) -> Iterator[Any]:
    (web_server.folder / "thousand").symlink_to(thousand)
    yield web_server
    (web_server.folder / "thousand").unlink()


@pytest.mark.slow
@pytest.mark.http
@pytest.mark.parametrize("layout", LAYOUTS)
def test_over_http_consolidated(layout: str, served: Any) -> None:
    before = len(served.requests())
    expect_large(f"{served.url}silent/thousand/{layout}-True.zarr", COUNTS[layout])
    assert len(served.requests()) - before <= 2, served.requests()[before:]


@pytest.mark.http
def test_over_http_it_is_open_by_the_public_class(served: Any) -> None:
    import nczarr

    before = len(served.requests())
    with nczarr.Dataset(f"{served.url}silent/thousand/nczarr-v3-True.zarr") as dataset:
        assert len(dataset.variables) == 1000
        assert dataset["v7"].units == "K"
        assert len(served.requests()) - before <= 2, served.requests()[before:]


@pytest.mark.http
def test_over_http_without_listing_nczarr_finds_its_nodes(served: Any) -> None:
    """A server without index pages: the keys name the children, a batch for each level."""
    before = len(served.requests())
    expect_large(f"{served.url}silent/thousand/nczarr-v3-False.zarr")
    # One document for each node, the root, and the question whether there is an index page.
    assert len(served.requests()) - before <= 1011 + 3


@pytest.mark.http
def test_over_http_without_listing_plain_zarr_is_not_taken_for_empty(served: Any) -> None:
    for layout in ("zarr-v3", "zarr-v2"):
        with pytest.raises(DatasetNotFoundError, match="cannot list its keys"):
            open_dataset(f"{served.url}silent/thousand/{layout}-False.zarr")


@pytest.mark.slow
@pytest.mark.http
@pytest.mark.parametrize("layout", LAYOUTS)
def test_over_http_with_index_pages(layout: str, served: Any) -> None:
    """An index page lists one folder: those of groups are asked for, those of arrays are not.

    Such pages leave out names that begin with a period, which the documents of v2 have.
    """
    before = len(served.requests())
    expect_large(f"{served.url}data/thousand/{layout}-False.zarr", COUNTS[layout])
    documents = (COUNTS[layout] + 12) * (1 if "v3" in layout else 3)
    assert len(served.requests()) - before <= documents + 8


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("consolidated", [True, False])
def test_on_s3(layout: str, consolidated: bool, s3_server: dict[str, str], tmp_path: Path) -> None:
    # Two documents for each node of v2: several pages of a listing.
    count = 500 if "v2" in layout else 1000
    make_large(tmp_path / "a.zarr", layout, consolidated, count)
    source = LocalStore(tmp_path / "a.zarr")
    keys = list(source.list())
    assert len(keys) > 1000
    if consolidated:
        keys = [key for key in keys if "/" not in key]  # the others are not even there
    url = f"s3://test/{layout}-{consolidated}.zarr"
    with open_store(url, "w") as target:
        target.set_many((key, source.get(key) or b"") for key in keys)
    counting = CountingStore(open_store(url))
    expect_large(counting, count)
    names = [call for call, _ in counting.calls]
    if consolidated:
        assert counting.requests <= 2, counting.calls
    else:
        # To find out what it is; then, for each level of groups, a listing without chunks and a concurrent batch.
        assert "list" not in names, counting.calls
        first = names.index("list_dir")
        assert [n for n in names[first:] if n != "get"] == ["list_dir", "get_many"] * 2, counting.calls
        assert sum(count for _, count in counting.calls[:first]) <= 5, counting.calls
        assert len(names) <= 8, counting.calls
