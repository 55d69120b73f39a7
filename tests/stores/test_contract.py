"""Compare every store with a dict."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from folders import new_folder
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from nczarr.errors import ReadOnlyError, StoreError
from nczarr.stores import LocalStore, MemoryStore, Store, check_key, open_store
from nczarr.stores.remote.fsspec_store import FsspecStore
from nczarr.stores.zip import ZipStore

numbers = itertools.count()


def local() -> Store:
    return LocalStore(Path(new_folder()) / "store", "w")


def memory() -> Store:
    return MemoryStore()


def zipped() -> Store:
    return ZipStore(Path(new_folder()) / "store.zip", "w")


def mapping() -> Store:
    return open_store({}, "w")


def fsspec_memory() -> Store:
    return open_store(f"memory://contract/{next(numbers)}", "w")


def fsspec_local() -> Store:
    import fsspec

    return FsspecStore(fsspec.filesystem("file"), new_folder(), writable=True)


def zarr_memory() -> Store:
    storage = pytest.importorskip("zarr.storage")
    return open_store(storage.MemoryStore(), "w")


def zarr_local() -> Store:
    storage = pytest.importorskip("zarr.storage")
    return open_store(storage.LocalStore(new_folder()), "w")


def zarr_obstore() -> Store:
    storage = pytest.importorskip("zarr.storage")
    obstore = pytest.importorskip("obstore.store")
    return open_store(storage.ObjectStore(obstore.MemoryStore()), "w")


def obstore_memory() -> Store:
    return open_store(pytest.importorskip("obstore.store").MemoryStore(), "w")


def obstore_fsspec() -> Store:
    """An fsspec file system of obstore's: knows only ranges with both ends."""
    obstore = pytest.importorskip("obstore.fsspec")
    fs = obstore.FsspecStore("file", skip_instance_cache=True)
    return FsspecStore(fs, new_folder(), writable=True)


def s3_obstore() -> Store:
    return open_store(f"s3://test/contract/{next(numbers)}", "w", {"backend": "obstore"})


def s3_s3fs() -> Store:
    return open_store(f"s3://test/contract/{next(numbers)}", "w", {"backend": "s3fs"})


LOCAL = [local, memory, zipped, mapping, fsspec_memory, fsspec_local]
LOCAL += [zarr_memory, zarr_local, zarr_obstore, obstore_memory, obstore_fsspec]
REMOTE = [pytest.param(make, marks=pytest.mark.s3) for make in (s3_obstore, s3_s3fs)]

# Directories of foreign clients outlive their last file.
FOLDERS_STAY = [fsspec_local, zarr_local, obstore_fsspec]


@pytest.fixture(params=[*LOCAL, *REMOTE])
def make(request: pytest.FixtureRequest) -> Callable[[], Store]:
    if request.param in (s3_obstore, s3_s3fs):
        request.getfixturevalue("s3_server")
    return request.param


@pytest.fixture
def store(make: Callable[[], Store]) -> Iterator[Store]:
    with make() as store:
        yield store


# No name is both a key and the beginning of another key: file systems cannot hold that.
FOLDERS = ["", "g/", "g/h/", "é t/", "v[1]/", "#%/"]
NAMES = ["zarr.json", ".zgroup", "0", "0.1", "a*b", "ü?x", "c~d"]
KEYS = [folder + name for folder in FOLDERS for name in NAMES]
keys = st.sampled_from(KEYS)
prefixes = st.sampled_from(["", "g", "g/", "g/h", "é t", "v[1]", "missing", "g/hh"])
values = st.one_of(st.binary(max_size=20), st.integers(0, 255).map(lambda number: bytes([number]) * 1000))
starts = st.integers(-25, 25)
lengths = st.none() | st.integers(0, 30)


def expected_range(value: bytes | None, start: int, length: int | None) -> bytes | None:
    if value is None:
        return None
    rest = value[max(len(value) + start, 0) :] if start < 0 else value[start:]
    return rest if length is None else rest[:length]


class Model(RuleBasedStateMachine):
    """Any sequence of operations on a store gives what it gives on a dict."""

    make: Callable[[], Store]
    folders_stay = False

    @initialize()
    def begin(self) -> None:
        self.store = self.make()
        self.model: dict[str, bytes] = {}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()

    @rule(key=keys, value=values)
    def set(self, key: str, value: bytes) -> None:
        self.store.set(key, value)
        self.model[key] = value

    @rule(items=st.dictionaries(keys, values, max_size=5))
    def set_many(self, items: dict[str, bytes]) -> None:
        self.store.set_many(items.items())
        self.model |= items

    @rule(key=keys, value=values)
    def set_if_absent(self, key: str, value: bytes) -> None:
        assert self.store.set_if_absent(key, value) == (key not in self.model)
        self.model.setdefault(key, value)

    @rule(key=keys, other=keys)
    def copy(self, key: str, other: str) -> None:
        if key in self.model and key != other:
            self.store.copy_many([(key, other)])
            self.model[other] = self.model[key]

    @rule(key=keys)
    def delete(self, key: str) -> None:
        self.store.delete(key)
        self.model.pop(key, None)

    @rule(prefix=prefixes)
    def delete_prefix(self, prefix: str) -> None:
        self.store.delete_prefix(prefix)
        start = prefix.rstrip("/") + "/" if prefix else ""
        self.model = {key: value for key, value in self.model.items() if not key.startswith(start)}

    @rule(key=keys)
    def get(self, key: str) -> None:
        assert self.store.get(key) == self.model.get(key)
        assert self.store.exists(key) is (key in self.model)
        assert self.store.size(key) == (len(self.model[key]) if key in self.model else None)

    @rule(wanted=st.lists(keys, max_size=6))
    def get_many(self, wanted: list[str]) -> None:
        assert self.store.get_many(wanted) == [self.model.get(key) for key in wanted]

    @rule(key=keys, start=starts, length=lengths)
    def get_range(self, key: str, start: int, length: int | None) -> None:
        assert self.store.get_range(key, start, length) == expected_range(self.model.get(key), start, length)

    @rule(requests=st.lists(st.tuples(keys, starts, lengths), max_size=6))
    def get_ranges(self, requests: list[tuple[str, int, int | None]]) -> None:
        expected = [expected_range(self.model.get(key), start, length) for key, start, length in requests]
        assert self.store.get_ranges(requests) == expected

    @rule(prefix=prefixes)
    def list(self, prefix: str) -> None:
        start = prefix.rstrip("/") + "/" if prefix else ""
        assert sorted(self.store.list(prefix)) == sorted(key for key in self.model if key.startswith(start))

    @rule(prefix=prefixes)
    def list_dir(self, prefix: str) -> None:
        start = prefix.rstrip("/") + "/" if prefix else ""
        rest = [key[len(start) :] for key in self.model if key.startswith(start)]
        names = sorted(name for name in rest if "/" not in name)
        below = sorted({name.partition("/")[0] for name in rest if "/" in name})
        found_names, found_below = self.store.list_dir(prefix)
        assert found_names == names
        if self.folders_stay:
            below = sorted({*below, *found_below})
        assert found_below == below

    @invariant()
    def nothing_else_is_there(self) -> None:
        if hasattr(self, "model"):
            assert len(list(self.store.list())) == len(self.model)


@pytest.mark.slow
def test_behaves_as_a_dict(make: Callable[[], Store], request: pytest.FixtureRequest) -> None:
    slow = "s3" in request.node.callspec.id
    machine = type("Model", (Model,), {"make": staticmethod(make), "folders_stay": make in FOLDERS_STAY})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=6 if slow else 25,
            stateful_step_count=15 if slow else 25,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "a/..",
        "../a",
        "a/../b",
        "a/./b",
        "./a",
        "a\0b",
        "\ud800",
    ],
)
def test_bad_keys_are_refused_everywhere(store: Store, key: str) -> None:
    actions: list[Callable[[], object]] = [
        lambda: check_key(key),
        lambda: store.get(key),
        lambda: store.get_many([key]),
        lambda: store.get_range(key, 0, 1),
        lambda: store.get_ranges([(key, 0, 1)]),
        lambda: store.size(key),
        lambda: store.exists(key),
        lambda: store.set(key, b"x"),
        lambda: store.set_many([(key, b"x")]),
        lambda: store.delete(key),
    ]
    if key not in ("", "a/"):  # legal as prefixes
        actions += [
            lambda: store.list_dir(key),
            lambda: store.delete_prefix(key),
            lambda: list(store.list(key)),
        ]
    for act in actions:
        with pytest.raises(StoreError):
            act()
    assert list(store.list()) == []


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bytearray(b"abc"), b"abc"),
        (memoryview(b"abcdef")[::2], b"ace"),
        (np.array([[1, 2], [3, 4]], dtype="<u2"), bytes([1, 0, 2, 0, 3, 0, 4, 0])),
        (np.array([[1, 2], [3, 4]], dtype="u1").T, bytes([1, 3, 2, 4])),
        (np.zeros((0, 3)), b""),
        (np.array(7, dtype="u1"), b"\7"),
    ],
)
def test_any_buffer_can_be_set(store: Store, data: object, expected: bytes) -> None:
    store.set("k", data)
    assert store.get("k") == expected
    store.set_many([("m", data)])
    assert store.get("m") == expected


def test_more_from_the_end_than_there_is(store: Store) -> None:
    store.set("k", b"abcde")
    for start in range(-12, 0):
        for length in (None, 1, 3, 20):
            assert store.get_range("k", start, length) == expected_range(b"abcde", start, length)


def test_what_was_set_does_not_change_with_its_source(store: Store) -> None:
    data = np.arange(10, dtype="u1")
    store.set("k", data)
    data[:] = 0
    assert store.get("k") == bytes(range(10))


def test_it_has_the_names_of_the_zarr_protocol(store: Store) -> None:
    store.set("g/a", b"1")
    store.set("ga", b"2")
    assert store.readable
    assert store.listable
    assert list(store.list_prefix("g")) == list(store.list("g")) == ["g/a"]


def test_many_threads_at_once(store: Store) -> None:
    def work(number: int) -> None:
        for turn in range(5):
            store.set(f"g/{number}/{turn}", bytes([number]) * 100)
            assert store.get(f"g/{number}/{turn}") == bytes([number]) * 100
            assert store.get_range(f"g/{number}/{turn}", -3, None) == bytes([number]) * 3
            store.delete(f"g/{number}/{turn}")
        store.set(f"g/{number}/kept", b"x")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sorted(store.list()) == [f"g/{number}/kept" for number in range(8)]


def test_a_reader_never_sees_half_a_value(make: Callable[[], Store]) -> None:
    if make in FOLDERS_STAY:
        pytest.skip("a foreign client on local files, which writes in place")
    store = make()
    legal = {bytes([number]) * (50_000 + 10_000 * number) for number in range(4)}
    store.set("g/k", next(iter(legal)))
    stop = threading.Event()

    def write() -> None:
        for value in list(legal) * 8:
            store.set("g/k", value)
        stop.set()

    with ThreadPoolExecutor(3) as pool:
        writer = pool.submit(write)
        while not stop.is_set() and not writer.done():
            assert store.get("g/k") in legal
            assert list(store.list()) == ["g/k"]
        writer.result()


def test_goes_to_another_process(make: Callable[[], Store]) -> None:
    if make in (memory, mapping, zipped, obstore_memory, zarr_obstore):
        pytest.skip("lives in this process")
    store = make()
    store.set("g/k", b"abc")
    copy = pickle.loads(pickle.dumps(store))
    assert copy.get("g/k") == b"abc"
    assert copy.url == store.url


def test_read_only_stores_refuse_changes(make: Callable[[], Store]) -> None:
    store = make()
    if isinstance(store, ZipStore):
        store.set("a", b"x")
        store.close()
        store = open_store(store.url)
    else:
        store.writable = False
    for act in (
        lambda: store.set("a", b""),
        lambda: store.set_many([("a", b"")]),
        lambda: store.delete("a"),
        lambda: store.delete_prefix("g"),
    ):
        with pytest.raises(ReadOnlyError):
            act()


def test_a_copy_to_a_folder_that_is_not_there_yet(store: Store) -> None:
    store.set("zarr.json", b"x")
    store.copy_many([("zarr.json", "g/h/zarr.json"), ("zarr.json", "c")])
    assert {key: store.get(key) for key in store.list()} == dict.fromkeys(
        ("c", "g/h/zarr.json", "zarr.json"), b"x"
    )
    with pytest.raises(StoreError, match="missing"):
        store.copy_many([("missing", "m/n")])


@pytest.mark.parametrize("value", [b"", b"x", b"long enough to be no one's but the caller's"])
def test_a_value_is_set_once_where_there_is_none(store: Store, value: bytes) -> None:
    assert store.set_if_absent("zarr.json", value)
    assert not store.set_if_absent("zarr.json", value)
    assert store.get("zarr.json") == value
