"""Read from faulty web servers: no fault reads as a missing chunk or fills the memory."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from odd_server import OddServer, send

import nczarr
from nczarr.errors import StoreError
from nczarr.stores import open_store
from nczarr.stores.remote import http

pytestmark = pytest.mark.http


@pytest.fixture
def server() -> Iterator[OddServer]:
    server = OddServer()
    yield server
    server.stop()


def test_being_sent_to_a_login_page_is_not_a_missing_chunk(server: OddServer) -> None:
    server.answers["/a.zarr/c/0"] = lambda h: send(h, 302, Location="/login/")
    server.answers["/a.zarr/c/1"] = lambda h: send(h, 302, Location="/a.zarr/c/1/")
    server.answers["/a.zarr/c/2"] = lambda h: send(h, 307, Location="/b.zarr/c/2")
    server.answers["/b.zarr/c/2"] = lambda h: send(h, 200, b"moved")
    for path in ("/login/", "/a.zarr/c/1/"):
        server.answers[path] = lambda h: send(h, 200, b"<html>")
    store = open_store(f"{server.url}/a.zarr")
    for key, start, length in (("c/0", 0, None), ("c/0", 0, 3), ("c/0", -3, None)):
        with pytest.raises(StoreError, match=r"c/0: cannot read: .*/login/, which is another page .*login"):
            store.get_range(key, start, length)
    assert store.get_many(["c/1", "c/2", "c/3"]) == [None, b"moved", None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "size"),
    [("2-5/9", 4), ("4-8/9", 5), ("4-6/9", 3), ("3-6/*", 4), ("4-7/9", 3), ("4-7/9", 0), ("4-7/*", 5)],
)
def test_another_part_than_the_one_that_was_asked_for_is_an_error(
    server: OddServer, given: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "FIRST_WAIT", 0.0)
    server.answers["/a/k"] = lambda h: send(h, 206, bytes(size), Content_Range=f"bytes {given}")
    with pytest.raises(StoreError, match="k: cannot read"):
        open_store(f"{server.url}/a").get_range("k", 4, 4)


def test_the_part_that_was_asked_for_is_read(server: OddServer) -> None:
    for number, said in enumerate(("bytes 4-7/9", "bytes 4-7/*", "bytes 4-7/x", "4-7", "")):
        server.answers[f"/a/{number}"] = lambda h, said=said: send(h, 206, b"four", Content_Range=said)
        assert open_store(f"{server.url}/a").get_range(str(number), 4, 4) == b"four"
    server.answers["/a/end"] = lambda h: send(h, 206, b"two", Content_Range="bytes 4-6/7")
    store = open_store(f"{server.url}/a")
    assert store.get_range("end", 4, 100) == store.get_range("end", -3, None) == b"two"


def test_an_error_is_not_taken_for_an_empty_part(server: OddServer) -> None:
    # The message of the client has the URL, and in it a word, and the status of a range beyond the end.
    coded = partial(send, status=200, body=bytes(1024), Content_Encoding="br")
    part = partial(send, status=206, body=b"0", Content_Range="bytes 0-0/*")
    answers = iter([coded, part, coded, part])
    server.answers["/416/Range"] = lambda h: next(answers)(h)
    store = open_store(f"{server.url}/416")
    for _ in range(2):
        with pytest.raises(StoreError, match="Range: cannot read"):
            store.get_range("Range", 1000, 100)
        assert next(answers) is part  # one request only


def test_a_part_does_not_tell_the_size(server: OddServer) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        if "Range" in handler.headers:
            send(handler, 206, b"0", Content_Range="bytes 0-0/*")
        else:
            send(handler, 200, bytes(1024))

    server.answers["/a/k"] = answer
    server.answers["/a/part"] = lambda h: send(h, 206, b"0", Content_Range="bytes 0-0/*")
    store = open_store(f"{server.url}/a")
    assert (store.size("k"), store.size("missing"), store.exists("k")) == (1024, None, True)
    with pytest.raises(StoreError, match="part: cannot read: the server sends a part"):
        store.get("part")
    with pytest.raises(StoreError, match="part: cannot read: the server sends a part"):
        store.size("part")


@pytest.mark.slow
@pytest.mark.parametrize("status", [400, 401, 403, 405, 418, 451, 500])
def test_only_404_and_410_mean_missing(server: OddServer, status: int) -> None:
    server.answers["/a.zarr/k"] = lambda h: send(h, status)
    server.answers["/a.zarr/gone"] = lambda h: send(h, 410)
    store = open_store(f"{server.url}/a.zarr")
    with pytest.raises(StoreError, match=str(status)):
        store.get("k")
    assert store.get_many(["gone", "nix"]) == [None, None]


def test_403_of_an_object_store_that_does_not_list(server: OddServer) -> None:
    def denied(handler: object) -> None:
        send(handler, 403, b"<Error>", x_amz_request_id="1")  # type: ignore[arg-type]

    for bucket in "ab":
        server.answers |= {f"/{bucket}/{name}": denied for name in ("c/0", "zarr.json", ".zgroup", ".zarray")}
        server.answers[f"/{bucket}/.zmetadata"] = denied
    server.answers["/a/.zgroup"] = lambda h: send(h, 200, b"{}")
    with pytest.warns(UserWarning, match="403"):
        assert open_store(f"{server.url}/a").get_many(["c/0", "zarr.json", ".zgroup"]) == [None, None, b"{}"]
    with pytest.raises(StoreError, match="403"):
        open_store(f"{server.url}/b").get("c/0")


def test_bodies_without_end_and_compressed_ones(server: OddServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_VALUE", 1 << 20)
    monkeypatch.setattr(http, "MAX_DOCUMENT", 1 << 16)
    zeros = gzip.compress(bytes(64 << 20))

    def endless(handler: object) -> None:
        handler.send_response(200)  # type: ignore[attr-defined]
        handler.end_headers()  # type: ignore[attr-defined]
        while True:
            handler.wfile.write(bytes(1 << 16))  # type: ignore[attr-defined]

    server.answers |= {"/a/k": endless, "/a/zarr.json": endless}
    server.answers["/a/bomb"] = lambda h: send(h, 200, zeros, Content_Encoding="gzip")
    server.answers["/a/small"] = lambda h: send(h, 200, gzip.compress(b"abc"), Content_Encoding="gzip")
    server.answers["/a/part"] = lambda h: send(
        h, 206, gzip.compress(b"abc"), Content_Encoding="gzip", Content_Range="bytes 0-22/23"
    )
    store = open_store(f"{server.url}/a")
    for key, limit in (("k", 1 << 20), ("zarr.json", 1 << 16), ("bomb", 1 << 20)):
        with pytest.raises(StoreError, match=f"more than {limit} bytes"):
            store.get(key)
    assert store.get("small") == b"abc"
    with pytest.raises(StoreError, match="belongs to gzip data"):
        store.get_range("part", 0, 2)


def test_a_part_that_is_longer_than_asked(server: OddServer) -> None:
    server.answers["/a/k"] = lambda h: send(h, 206, bytes(500), Content_Range="bytes 0-3/500")
    with pytest.raises(StoreError, match="more than 4 bytes"):
        open_store(f"{server.url}/a").get_range("k", 0, 4)


def test_no_more_is_read_of_a_chunk_than_its_array_can_need(server: OddServer, tmp_path: Path) -> None:
    import tracemalloc

    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 2048)
        ds.createVariable("raw", "i4", ("x",), chunksizes=(2048,))[:] = 1
        ds.createVariable("packed", "i4", ("x",), chunksizes=(2048,), zlib=True)[:] = 1
    for path in (tmp_path / "a.zarr").rglob("zarr.json"):
        key = path.relative_to(tmp_path).as_posix()
        server.answers[f"/{key}"] = partial(send, status=200, body=path.read_bytes())

    sent = 0

    def endless(handler: object) -> None:
        nonlocal sent
        handler.send_response(200)  # type: ignore[attr-defined]
        handler.end_headers()  # type: ignore[attr-defined]
        while True:
            sent += handler.wfile.write(bytes(1 << 20))  # type: ignore[attr-defined]

    for name in ("raw", "packed"):
        server.answers[f"/a.zarr/{name}/c/0"] = endless
    with nczarr.Dataset(f"{server.url}/a.zarr") as ds:
        for name in ("raw", "packed"):
            sent = 0
            tracemalloc.start()
            try:
                with pytest.raises(StoreError, match="more than"):
                    ds[name][:]
                assert tracemalloc.get_traced_memory()[1] < 128 << 20
            finally:
                tracemalloc.stop()
            assert sent < 512 << 20
        # Of a part that comes with all that follows it no more is read than up to its end.
        sent = 0
        store = open_store(f"{server.url}/a.zarr")
        assert store.get_range("raw/c/0", 8, 16) == bytes(16)
        assert sent < 256 << 20
