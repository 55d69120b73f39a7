"""Connect to servers that do not answer: an error names them in bounded time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nczarr
from nczarr.errors import NCZarrError, StoreError
from nczarr.stores import open_store

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"
#: Seconds that a server may take in these tests, and that a call may take then.
LIMIT, MOST = 1, 150


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCZARR_ANSWER_SECONDS", str(LIMIT))


@pytest.fixture(params=["nothing listens", "silent"])
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """The host and port of a server that accepts connections and says nothing, or of none."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        if request.param == "silent":
            listening.listen(64)
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture(params=["obstore", "s3fs"])
def options(request: pytest.FixtureRequest, server: str) -> dict[str, Any]:
    pytest.importorskip(request.param)
    return {"backend": request.param, "endpoint_url": f"http://{server}", "key": "a", "secret": "b"}


CALLS = {
    "get": lambda store: store.get("zarr.json"),
    "get_many": lambda store: store.get_many([f"c/{n}" for n in range(80)]),
    "list": lambda store: list(store.list()),
    "list_dir": lambda store: store.list_dir(),
    "set": lambda store: store.set("zarr.json", b"{}"),
    "set_if_absent": lambda store: store.set_if_absent("zarr.json", b"{}"),
    "delete": lambda store: store.delete("zarr.json"),
}


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_s3(call: str, server: str, options: dict[str, Any]) -> None:
    store = open_store("s3://bucket/x.zarr", "w", options)
    began = time.monotonic()
    with pytest.raises(StoreError, match=f"{server}.* (does not answer|cannot be reached)") as caught:
        CALLS[call](store)
    assert time.monotonic() - began < MOST
    assert "network" in str(caught.value)


@pytest.mark.slow
def test_a_dataset_on_s3(server: str, options: dict[str, Any]) -> None:
    began = time.monotonic()
    with pytest.raises(NCZarrError, match=server):
        nczarr.Dataset("s3://bucket/x.zarr", storage_options=options)
    assert time.monotonic() - began < MOST


def test_a_web_server(server: str) -> None:
    began = time.monotonic()
    with pytest.raises(StoreError, match=f"{server}.* (does not answer|cannot be reached)"):
        open_store(f"http://{server}/x.zarr").get("zarr.json")
    assert time.monotonic() - began < MOST


def test_the_limit_of_a_web_server_changes_while_the_client_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """fsspec keeps the client of an earlier request; that must not keep its limit."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        store = open_store(f"http://127.0.0.1:{listening.getsockname()[1]}/x.zarr")
        monkeypatch.setenv("NCZARR_ANSWER_SECONDS", "100000")
        with pytest.raises(StoreError, match="cannot be reached"):
            store.get("zarr.json")
        monkeypatch.setenv("NCZARR_ANSWER_SECONDS", str(LIMIT))
        listening.listen(64)
        with pytest.raises(StoreError, match="does not answer"):
            store.get("zarr.json")


@pytest.mark.slow
def test_a_netcdf_file_on_s3(server: str, options: dict[str, Any]) -> None:
    began = time.monotonic()
    with pytest.raises(NCZarrError, match=f"{server} does not answer"):
        nczarr.Dataset("s3://bucket/x.nc", storage_options=options)
    with pytest.raises(NCZarrError, match=f"{server} does not answer"):
        nczarr.copy(EXAMPLE, "s3://bucket/x.nc", target_options=options)
    assert time.monotonic() - began < 2 * MOST


def test_a_netcdf_file_on_a_web_server(server: str) -> None:
    began = time.monotonic()
    with pytest.raises(NCZarrError, match=r"does not answer|cannot be reached"):
        nczarr.Dataset(f"http://{server}/x.nc")
    assert time.monotonic() - began < MOST


def test_a_value_that_comes_slowly_is_read() -> None:
    """The limit is that of an answer, not of a value as long as bytes keep coming."""
    pieces = [b"x"] * 8
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n")
                for piece in pieces:
                    time.sleep(LIMIT / 4)
                    connection.sendall(piece)

        thread = threading.Thread(target=serve)
        thread.start()
        store = open_store(f"http://127.0.0.1:{listening.getsockname()[1]}/x.zarr")
        assert store.get("c/0") == b"".join(pieces)
        thread.join()
