#!/usr/bin/env python3
"""Count the requests of everyday operations on an S3 server, beside xarray and zarr-python.

    python tests/benchmarks/object_requests.py [--delays 0 20 100]

The program starts the S3 server of the tests behind a proxy, which counts the requests and delays each one by some
milliseconds. It prints the requests of each operation by method, and the seconds of each delay. LIST is a GET of a
listing, POST the deletion of many keys.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nczarr
from nczarr.model import DOUBLE, INT, STRING, Dataset, Dimension, MemorySource, Storage, Variable

URL = "s3://test/requests"
Operations = dict[str, tuple[Callable[[], object], Callable[[], object] | None]]


class CountingProxy:
    """Forward requests to a server, count them by method, and delay each by `delay` seconds."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.delay = 0.0
        self.counts: Counter[str] = Counter()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._serve, daemon=True).start()
        self._ready.wait()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()

    async def _start(self) -> None:
        from aiohttp import ClientSession, DummyCookieJar, TCPConnector, web

        session = ClientSession(
            auto_decompress=False, cookie_jar=DummyCookieJar(), connector=TCPConnector(limit=0)
        )

        async def forward(request: web.Request) -> web.Response:
            is_list = request.method == "GET" and {"list-type", "prefix"} & set(request.query)
            self.counts["LIST" if is_list else request.method] += 1
            await asyncio.sleep(self.delay)
            from yarl import URL

            url = URL(self.server + request.raw_path, encoded=True)
            body = await request.read()
            async with session.request(
                request.method, url, headers=request.headers, data=body, allow_redirects=False
            ) as answer:
                content = await answer.read()
                headers = {
                    k: v
                    for k, v in answer.headers.items()
                    if k.lower() not in ("transfer-encoding", "connection", "content-length")
                }
                if request.method == "HEAD":
                    headers["Content-Length"] = answer.headers.get("Content-Length", "0")
                return web.Response(status=answer.status, headers=headers, body=content)

        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{tail:.*}", forward)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"


def _server(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("server", Path(__file__).parents[1] / "s3" / "server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = module.new_server(folder / "state")
    server.start()
    return server


def make_datasets() -> None:
    """Write the datasets of the operations."""
    x = Dimension("x", 100)
    many = tuple(
        Variable(f"v{n:04}", DOUBLE, ("/x",), data=MemorySource(np.full(100, float(n)))) for n in range(1000)
    )
    nczarr.copy(Dataset("d", dimensions=(x,), variables=many), f"{URL}/many.zarr")
    names = np.array([f"station {n}" for n in range(1000)], object)
    station = Variable("name", STRING, ("/s",), storage=Storage(chunk_shape=(10,)), data=MemorySource(names))
    nczarr.copy(Dataset("d", dimensions=(Dimension("s", 1000),), variables=(station,)), f"{URL}/strings.zarr")
    time_ = Variable(
        "time",
        INT,
        ("/time",),
        storage=Storage(chunk_shape=(1,)),
        data=MemorySource(np.arange(2000, dtype="i4")),
    )
    steps = Dataset("d", dimensions=(Dimension("time", 2000, unlimited=True),), variables=(time_,))
    nczarr.copy(steps, f"{URL}/steps.zarr")
    nczarr.copy(steps, f"{URL}/loose.zarr", consolidated=False)
    nczarr.copy(steps, f"{URL}/plain.zarr", layout="zarr-v3", lossy=True)
    values = np.random.default_rng(1).integers(0, 1000, (100, 100, 100), "i4")
    axes = tuple(Dimension(n, 100) for n in "zyx")
    cube = Variable(
        "cube", INT, ("/z", "/y", "/x"), storage=Storage(chunk_shape=(10, 10, 10)), data=MemorySource(values)
    )
    nczarr.copy(Dataset("d", dimensions=axes, variables=(cube,)), f"{URL}/shards.zarr", shards="auto")


def operations() -> Operations:
    """Return each operation of nczarr, and that of the best peer or None."""
    import xarray as xr

    def opened(name: str, **options: Any) -> xr.Dataset:
        return xr.open_dataset(f"{URL}/{name}", **options)

    def peer(name: str, consolidated: bool = True) -> xr.Dataset:
        import zarr

        store = zarr.storage.FsspecStore.from_url(f"{URL}/{name}")
        return xr.open_zarr(store, consolidated=consolidated, chunks=None)

    def change(name: str) -> None:
        with nczarr.Dataset(f"{URL}/{name}", "a") as ds:
            ds["time"][5] = 5

    def change_with_zarr() -> None:
        import zarr

        group = zarr.open_group(zarr.storage.FsspecStore.from_url(f"{URL}/steps.zarr"), mode="a")
        group["time"][5] = 5

    def append() -> None:
        with nczarr.Dataset(f"{URL}/steps.zarr", "a") as ds:
            ds["time"][ds.dimensions["time"].size] = 1

    def command(*words: str) -> None:
        from contextlib import redirect_stdout

        from nczarr.cli import main

        with open(os.devnull, "w") as null, redirect_stdout(null):
            assert main(list(words)) == 0

    window = (slice(0, 100, 1), slice(5, 8), slice(5, 8))
    return {
        "open, 1,000 variables": (
            lambda: nczarr.Dataset(f"{URL}/many.zarr").close(),
            lambda: peer("many.zarr"),
        ),
        "xarray, strings in 100 chunks": (
            lambda: opened("strings.zarr", engine="nczarr"),
            lambda: peer("strings.zarr"),
        ),
        "xarray, index of 2,000 chunks": (
            lambda: opened("steps.zarr", engine="nczarr"),
            lambda: peer("steps.zarr"),
        ),
        "the same, plain Zarr": (lambda: opened("plain.zarr", engine="nczarr"), lambda: peer("plain.zarr")),
        "open, not consolidated": (
            lambda: nczarr.Dataset(f"{URL}/loose.zarr").close(),
            lambda: peer("loose.zarr", consolidated=False),
        ),
        'open "a", change a value': (lambda: change("steps.zarr"), change_with_zarr),
        'open "a", append a value': (append, None),
        "info of 1,000 variables": (lambda: command("info", f"{URL}/many.zarr"), None),
        "digest of 1,000 variables": (lambda: command("digest", f"{URL}/many.zarr"), None),
        "copy --overwrite, 1,001 objects": (
            lambda: nczarr.copy(f"{URL}/many.zarr", f"{URL}/again.zarr", overwrite=True),
            None,
        ),
        "window of a sharded array": (
            lambda: nczarr.Dataset(f"{URL}/shards.zarr")["cube"][window],
            lambda: peer("shards.zarr")["cube"][window].values,
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--delays", type=int, nargs="*", default=[0, 20, 100], help="milliseconds")
    parser.add_argument("--only", default="", help="a part of the names of operations")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = _server(Path(folder))
        try:
            proxy = CountingProxy(server.url)
            os.environ.update({**server.settings, "AWS_ENDPOINT_URL": proxy.url})
            import s3fs

            s3fs.S3FileSystem(endpoint_url=proxy.url).mkdir("test")
            make_datasets()
            nczarr.copy(f"{URL}/many.zarr", f"{URL}/again.zarr")
            for title, pair in operations().items():
                if options.only not in title:
                    continue
                for name, work in zip(("nczarr", "peer"), pair, strict=True):
                    if work is None:
                        continue
                    work()  # imports and connections
                    times = []
                    for delay in options.delays:
                        proxy.delay = delay / 1000
                        proxy.counts.clear()
                        begin = time.perf_counter()
                        work()
                        times.append(f"{time.perf_counter() - begin:7.2f} s")
                    proxy.delay = 0.0
                    counts = ", ".join(f"{count} {method}" for method, count in sorted(proxy.counts.items()))
                    print(
                        f"{title:32} {name:6} {proxy.counts.total():6}  {' '.join(times)}  {counts}",
                        flush=True,
                    )
        finally:
            server.stop()


if __name__ == "__main__":
    main()
