"""Replace an open dataset by one of the same structure, in a store that cannot rename."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr
from nczarr.errors import StoreError
from nczarr.mapping import WriteOptions, create_dataset, open_dataset
from nczarr.mapping.options import LayoutName
from nczarr.model import INT, Dataset, Dimension, Storage, Variable
from nczarr.stores import MemoryStore, Store, open_store
from nczarr.stores.base import REPLACED
from nczarr.stores.memory import MappingStore
from nczarr.stores.remote import concurrent
from nczarr.stores.remote.concurrent import ConcurrentStore
from nczarr.stores.remote.obstore_store import ObstoreStore

LAYOUTS: list[LayoutName] = ["nczarr-v3", "nczarr-v2", "zarr-v3", "zarr-v2", "draft-2019"]
TOLD = "was replaced, moved or removed since it was opened .open it again"
numbers = itertools.count()


def write(target: Any, n: int, layout: LayoutName = "nczarr-v3", **more: Any) -> None:
    variables = tuple(Variable(v, INT, ("/x",), storage=Storage(chunk_shape=(2,))) for v in "vw")
    model = Dataset("d", dimensions=(Dimension("x", 8, True),), variables=variables)
    with create_dataset(target, model, WriteOptions(layout=layout), **more) as sink:
        for fqn in model.all_variables:
            sink.write(fqn, (slice(0, 8),), np.full(8, n, "i4"))


def obstore(path: Path) -> Any:
    from obstore.store import MemoryStore as Client

    return ObstoreStore(Client(), "a.zarr", writable=True)


STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda path: MemoryStore(),
    "dict": lambda path: {},
    "mapping": lambda path: MappingStore({}),
    "fsspec": lambda path: f"memory://{path}",
    "obstore": obstore,
}


@pytest.fixture(autouse=True)
def _no_wait(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores in memory know finer times than seconds."""
    if "s3_server" not in request.fixturenames:
        monkeypatch.setattr(concurrent, "WAIT", 0.001)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", STORES)
def test_a_reader_is_told(kind: str, layout: LayoutName, tmp_path: Path) -> None:
    target = STORES[kind](tmp_path / "a.zarr")
    write(target, 1, layout)
    with open_dataset(target) as first:
        assert first.data("/v").read((slice(0, 2),)).tolist() == [1, 1]
        write(target, 2, layout, overwrite=True)
        for _ in range(2):
            for fqn in ("/v", "/w"):
                with pytest.raises(StoreError, match=TOLD):
                    first.data(fqn).read((slice(2, 8),))
    with open_dataset(target) as second:
        assert second.data("/v").read((slice(0, 8),)).tolist() == [2] * 8
        write(target, 3, layout, overwrite=True)
        with pytest.raises(StoreError, match=TOLD):
            second.data("/w").read((slice(0, 8),))


@pytest.mark.parametrize("kind", STORES)
def test_a_new_one_without_those_chunks_is_no_fill(kind: str, tmp_path: Path) -> None:
    """Of the new one nothing was written but fill, so that the old one's chunks are missing."""
    target = STORES[kind](tmp_path / "a.zarr")
    write(target, 1)
    with open_dataset(target) as reader:
        model = reader.dataset
        with create_dataset(target, model, overwrite=True):
            pass
        with pytest.raises(StoreError, match=TOLD):
            reader.data("/v").read((slice(0, 8),))


@pytest.mark.parametrize("kind", STORES)
def test_appending_and_changing_go_on_being_read(kind: str, tmp_path: Path) -> None:
    """Also after a replacement: what counts is that it was replaced since."""
    target = STORES[kind](tmp_path / "a.zarr")
    write(target, 1)
    write(target, 2, overwrite=True)
    with open_dataset(target) as reader, nczarr.Dataset(target, "a") as writer:
        for step in range(3):
            writer["v"][2 * step] = 5 + step
            writer["v"][8 + 2 * step : 10 + 2 * step] = 9
            writer.title = str(step)
            writer.sync()
            assert reader.data("/v").read((slice(2 * step, 2 * step + 2),)).tolist() == [5 + step, 2]
        assert reader.data("/w").read((slice(0, 8),)).tolist() == [2] * 8


class CountingStore(ObstoreStore):
    """Counts what is asked of the service, in whatever way."""

    asked: list[str]

    async def _fetch(self, key: str, start: int, length: int | None) -> bytes | None:
        self.asked.append(key)
        return await super()._fetch(key, start, length)

    async def _fetch_bounded(self, key: str, most: int) -> bytes | None:
        self.asked.append(key)
        return await super()._fetch_bounded(key, most)

    async def _fetch_dated(self, key: str) -> tuple[bytes | None, datetime | None]:
        self.asked.append(key)
        return await super()._fetch_dated(key)


@pytest.fixture
def counting() -> CountingStore:
    from obstore.store import MemoryStore as Client

    store = CountingStore(Client(), "a.zarr", writable=True)
    store.asked = []
    write(store, 1)
    return store


def test_reading_what_is_older_than_the_root_costs_nothing(counting: CountingStore) -> None:
    with open_dataset(counting) as reader:
        counting.asked.clear()
        for _ in range(2):
            reader.data("/v").read((slice(0, 4),))
        # Those of one batch in any order: several threads ask.
        assert [sorted(counting.asked[i : i + 2]) for i in (0, 2)] == [["v/c/0", "v/c/1"]] * 2
        assert len(counting.asked) == 4


def test_a_newer_chunk_costs_one_look(counting: CountingStore) -> None:
    with open_dataset(counting) as reader:
        writer = open_dataset(ObstoreStore(counting._client, "a.zarr", writable=True), "r+")
        for n in (1, 2):
            writer.data("/v").write((slice(0, 4),), np.full(4, n, "i4"))
            counting.asked.clear()
            for _ in range(3):
                assert reader.data("/v").read((slice(0, 4),)).tolist() == [n] * 4
            assert counting.asked.pop(2) == REPLACED
            assert [sorted(counting.asked[i : i + 2]) for i in (0, 2, 4)] == [["v/c/0", "v/c/1"]] * 3
            assert len(counting.asked) == 6
        writer.close()


def test_what_was_written_long_ago_in_any_order_costs_one_look(
    counting: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that write metadata first: each chunk that is read may be newer than those before."""
    moment = itertools.count()
    begin = datetime.now(UTC) - timedelta(days=1)

    def note(self: concurrent.WriteTimes, key: str, written: datetime) -> None:
        real(self, key, begin + timedelta(seconds=next(moment)))

    real = concurrent.WriteTimes.note
    monkeypatch.setattr(concurrent.WriteTimes, "note", note)
    store = CountingStore(counting._client, "a.zarr")
    store.asked = []
    with open_dataset(store) as reader:
        for step in range(4):
            reader.data("/v").read((slice(2 * step, 2 * step + 2),))
    assert store.asked.count(REPLACED) == 1
    assert store.asked[-3:] == ["v/c/1", "v/c/2", "v/c/3"]


@pytest.mark.parametrize("answer", [b"<html>not here</html>", b"", StoreError("forbidden")])
def test_what_is_no_notice_says_nothing(
    counting: CountingStore, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers answer with pages, or forbid names that begin with a period."""

    async def odd(self: ConcurrentStore, key: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer, datetime.now(UTC)

    monkeypatch.setattr(CountingStore, "_fetch_dated", odd)
    with open_dataset(counting) as reader:
        other = ObstoreStore(counting._client, "a.zarr", writable=True)
        with open_dataset(other, "r+") as writer:
            writer.data("/v").write((slice(0, 2),), np.full(2, 7, "i4"))
        assert reader.data("/v").read((slice(0, 2),)).tolist() == [7, 7]


def test_a_copy_of_a_replaced_dataset_by_another_program_is_read(counting: CountingStore) -> None:
    """Its keys have times in any order, those of the notice and the root among them; and somebody appends to it."""
    from obstore.store import MemoryStore as Client

    write(counting, 2, overwrite=True)
    assert counting.get(REPLACED)
    keys = sorted(counting.list())
    for order in (["zarr.json", REPLACED], [REPLACED, "zarr.json"]):
        copy = CountingStore(Client(), "b.zarr", writable=True)
        for key in [*order, *(k for k in keys if k not in order)]:
            copy.set(key, counting.get(key) or b"")
        copy.asked = []
        with open_dataset(copy) as reader:
            for _ in range(2):
                for fqn in ("/v", "/w"):
                    assert reader.data(fqn).read((slice(0, 8),)).tolist() == [2] * 8
            assert copy.asked.count("zarr.json") <= 2 + len(keys)
            settled = len(copy.asked)
            assert reader.data("/v").read((slice(0, 8),)).tolist() == [2] * 8
            assert len(copy.asked) == settled + 4
            with open_dataset(ObstoreStore(copy._client, "b.zarr", writable=True), "r+") as writer:
                writer.data("/v").write((slice(0, 2),), np.full(2, 7, "i4"))
            assert reader.data("/v").read((slice(0, 8),)).tolist() == [7, 7] + [2] * 6
            write(ObstoreStore(copy._client, "b.zarr", writable=True), 3, overwrite=True)
            with pytest.raises(StoreError, match=TOLD):
                reader.data("/v").read((slice(0, 8),))


REPLACING = """
import sys
sys.path.insert(0, sys.argv[1])
from test_replaced_elsewhere import write
write(sys.argv[2], 2, overwrite=True)
"""


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.parametrize("how", ["obstore", "web"])
def test_on_s3(s3_server: dict[str, str], how: str) -> None:
    """Another process replaces it at once; times are those of the service, in whole seconds."""
    url = f"s3://test/replaced/{next(numbers)}.zarr"
    write(url, 1)
    store: Store = open_store(url, "r", {"backend": "obstore"})
    if how == "web":
        import s3fs

        fs = s3fs.S3FileSystem(endpoint_url=s3_server["AWS_ENDPOINT_URL"])
        for key in fs.find(url):
            fs.chmod(key, "public-read")
        store = open_store(f"{s3_server['AWS_ENDPOINT_URL']}/{url.removeprefix('s3://')}")
    with open_dataset(store) as reader:
        source = reader.data("/v")
        assert source.read((slice(0, 2),)).tolist() == [1, 1]
        here = str(Path(__file__).parent)
        subprocess.run([sys.executable, "-c", REPLACING, here, url], check=True)
        if how == "web":
            for key in fs.find(url):
                fs.chmod(key, "public-read")
        with pytest.raises(StoreError, match=TOLD):
            source.read((slice(2, 8),))
    with open_dataset(url) as reader:
        assert reader.data("/v").read((slice(0, 8),)).tolist() == [2] * 8
        with nczarr.Dataset(url, "a") as writer:
            writer["v"][0:2] = 3
        assert reader.data("/v").read((slice(0, 8),)).tolist() == [3, 3] + [2] * 6
