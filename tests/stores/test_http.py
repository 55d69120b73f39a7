"""Read over HTTP from a real web server."""

from __future__ import annotations

import pickle
import zipfile
from typing import Any

import pytest

from nczarr.errors import ReadOnlyError, StoreError
from nczarr.stores import Store, open_store

pytestmark = pytest.mark.http

FILES = {
    "zarr.json": b"{}",
    "v/zarr.json": b'{"a": 1}',
    "v/c/0": bytes(range(256)),
    "g/é t/a?b#c%20d/zarr.json": b"odd",
    "g/empty": b"",
    "a+b&c=d;e/k": b"signs",
}


@pytest.fixture(scope="module")
def server(web_server: Any) -> Any:
    for key, value in FILES.items():
        path = web_server.folder / "http.zarr" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value)
    with zipfile.ZipFile(web_server.folder / "http.zip", "w") as archive:
        for key, value in FILES.items():
            archive.writestr(f"top/{key}", value)
    return web_server


@pytest.fixture(params=["data", "silent", "whole"])
def store(request: pytest.FixtureRequest, server: Any) -> Store:
    return open_store(f"{server.url}{request.param}/http.zarr")


def test_whole_values(store: Store) -> None:
    assert store.get_many([*FILES, "nix"]) == [*FILES.values(), None]
    assert store.get("v") is None  # a folder; the server may send its index page
    for key, value in FILES.items():
        assert store.get(key) == value
        assert store.exists(key)
        assert store.size(key) == len(value)
    assert not store.exists("nix")
    assert store.size("nix") is None


def test_parts(store: Store) -> None:
    requests = [
        (key, start, length) for key in FILES for start in (0, 1, 5, -3) for length in (None, 0, 1, 4, 900)
    ]
    expected = []
    for key, start, length in requests:
        rest = FILES[key][max(len(FILES[key]) + start, 0) :] if start < 0 else FILES[key][start:]
        expected.append(rest if length is None else rest[:length])
    assert store.get_ranges(requests) == expected
    assert store.get_range("nix", 0, 5) is None


def test_parts_transfer_only_what_is_asked(server: Any) -> None:
    before = len(server.requests())
    open_store(f"{server.url}data/http.zarr").get_ranges([("v/c/0", 10, 5), ("v/c/0", -7, None)])
    asked = server.requests()[before:]
    assert sorted(asked) == [
        "206 GET /data/http.zarr/v/c/0 bytes=-7",
        "206 GET /data/http.zarr/v/c/0 bytes=10-14",
    ]


def test_listing_from_index_pages(server: Any) -> None:
    store = open_store(f"{server.url}data/http.zarr/")
    assert store.listable
    assert sorted(store.list()) == sorted(FILES)
    assert store.list_dir() == (["zarr.json"], ["a+b&c=d;e", "g", "v"])
    assert store.list_dir("g/é t") == ([], ["a?b#c%20d"])
    assert store.list_dir("nix") == ([], [])


def test_without_index_pages_there_is_no_listing(server: Any) -> None:
    store = open_store(f"{server.url}silent/http.zarr")
    assert store.get("zarr.json") == b"{}"
    assert not store.listable
    with pytest.raises(StoreError, match="refuses access"):
        store.list_dir()


@pytest.mark.slow
def test_forbidden_broken_and_unreachable_are_not_missing(server: Any) -> None:
    forbidden = open_store(f"{server.url}forbidden/x.zarr")
    for act in (lambda: forbidden.get("k"), lambda: forbidden.get_many(["k"]), lambda: forbidden.exists("k")):
        with pytest.raises(StoreError, match=r"forbidden/x\.zarr/k: .*403 .*credentials"):
            act()
    before = len(server.requests())
    with pytest.raises(StoreError, match="503"):
        open_store(f"{server.url}broken/x.zarr").get("k")
    assert len(server.requests()) - before > 1  # it was tried again
    with pytest.raises(
        StoreError, match=r"127\.0\.0\.1:1/x\.zarr/k: cannot read: the server .* cannot be reached"
    ):
        open_store("http://127.0.0.1:1/x.zarr").get("k")


def test_a_zip_file_behind_a_url(server: Any) -> None:
    for url in (f"{server.url}data/http.zip", f"{server.url}data/http.zip#mode=nczarr,zip"):
        before = len(server.requests())
        store = open_store(url)
        assert store.get_many(list(FILES)) == list(FILES.values())
        assert len(server.requests()) - before == 2 + len(FILES)
        assert sorted(store.list()) == sorted(FILES)


def test_a_query_goes_with_every_request(server: Any) -> None:
    before = len(server.requests())
    assert open_store(f"{server.url}data/http.zarr?sig=a%2Fb").get("v/zarr.json") == b'{"a": 1}'
    assert server.requests()[before:] == ["200 GET /data/http.zarr/v/zarr.json?sig=a%2Fb -"]


def test_for_reading_only(server: Any) -> None:
    with pytest.raises(ReadOnlyError):
        open_store(f"{server.url}data/http.zarr", "r+")
    with pytest.raises(ReadOnlyError):
        open_store(f"{server.url}data/http.zarr").set("k", b"")
    with pytest.raises(ReadOnlyError):
        open_store(f"{server.url}data/http.zip", "w")


def test_goes_to_another_process(store: Store) -> None:
    assert pickle.loads(pickle.dumps(store)).get("zarr.json") == b"{}"


def test_simplecache(server: Any, tmp_path: Any) -> None:
    options = {"simplecache": {"cache_storage": str(tmp_path)}}
    store = open_store(f"simplecache::{server.url}data/http.zarr", storage_options=options)
    assert store.get_many(["zarr.json", "nix", "v/c/0"]) == [b"{}", None, FILES["v/c/0"]]
    assert store.get("nix") is None
    assert store.get_range("v/c/0", -2, None) == b"\xfe\xff"
    before = len(server.requests())
    assert store.get("v/c/0") == FILES["v/c/0"]
    assert len(server.requests()) == before


def test_fsspec_mapper(server: Any) -> None:
    import fsspec

    assert open_store(fsspec.get_mapper(f"{server.url}data/http.zarr")).get("zarr.json") == b"{}"
