#!/usr/bin/env python3
"""Count the requests of everyday operations on an S3 server, beside xarray with zarr-python, tensorstore and Icechunk.

    python tests/benchmarks/object_requests.py [--delays 0 20 100] [--only TEXT] [--write docs/howto/object-stores.md]

The program starts the S3 server of the tests behind a proxy, which counts the requests and delays each one by some
milliseconds. It prints a row for each operation, with the requests of each library and the bytes that the server sent,
and the requests of nczarr by method: LIST is a GET of a listing, POST the deletion of many keys. Below are the seconds
with each delay. `--write` puts the table, without the seconds, into a page. The status is 1 if nczarr needs more
requests than another library, and `ROWS` does not say why.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import xarray as xr

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "s3"), str(TESTS / "helpers")]

import server  # noqa: E402
from s3_proxy import S3Proxy  # noqa: E402

import nczarr  # noqa: E402
from nczarr.model import DOUBLE, INT, STRING, Dataset, Dimension, MemorySource, Storage, Variable  # noqa: E402

URL = "s3://test/requests"
LIBRARIES = ("nczarr", "xarray", "tensorstore", "Icechunk")
#: The lines of a page around the table.
BEGIN, END = "<!-- by tests/benchmarks/object_requests.py -->", "<!-- to here -->"
VARIABLES, STRINGS, STEPS, EDGE = 20, 20, 40, 40
WINDOW = (slice(0, EDGE), slice(5, 8), slice(5, 8))

_EXCLUDES = (
    "the writer sets and removes a mark that excludes other writers (4 requests), which other libraries lack, and one"
    " listing looks for other writers and for a renaming that a killed writer has begun"
)
#: The operations, and why nczarr needs more requests than another library.
ROWS = {
    f"open, {VARIABLES} variables": "",
    f"open with xarray, a string variable of {STRINGS} chunks": "",
    f"open with xarray, plain Zarr, an index of {STEPS} chunks": (
        "Icechunk keeps small chunks in its manifest; tensorstore knows the version of Zarr and the path of the array;"
        " nczarr reads the document of the root, and leaves plain Zarr to xarray's engine, which reads it again"
    ),
    f"open, not consolidated, {STEPS} chunks": "",
    "change one value": _EXCLUDES,
    "append one step": (
        f"{_EXCLUDES}; nczarr asks for the new chunk, which a killed writer may have left; and the consolidated"
        " metadata are written, which tensorstore leaves as they were"
    ),
    f"`info` of {VARIABLES} variables": "",
    f"`digest` of {VARIABLES} variables": (
        "the documents of all variables are read, since consolidated metadata may be older"
    ),
    f"read {VARIABLES} variables": "",
    f"write {VARIABLES} variables": (
        "an array of Zarr has a document and a chunk; Icechunk has one document of its own form for all arrays"
    ),
    f"replace {VARIABLES} variables": (
        "the old dataset stays until the new one is complete, so each object is written and then copied inside the"
        " service; zarr-python removes the old dataset first, and Icechunk keeps it as an older version"
    ),
    f"read an array of {EDGE} chunks": "",
    "read a window of a sharded array": "",
}
#: Prices of S3 in us-east-1: dollars for a thousand requests, by method; others cost as much as PUT.
PRICES = {"GET": 0.0004, "HEAD": 0.0004, "DELETE": 0.0, "PUT": 0.005}

Work = Callable[[], object]


def dataset(
    name: str, kind: Any, values: np.ndarray, chunks: tuple[int, ...], axes: Iterable[str]
) -> Dataset:
    """Return a dataset of one variable, which is an index if its dimension has the same name."""
    lengths = dict(zip(axes, values.shape, strict=True))
    v = Variable(name, kind, tuple(f"/{d}" for d in lengths), data=MemorySource(values))
    v = replace(v, storage=Storage(chunk_shape=chunks))
    dimensions = tuple(Dimension(d, n, unlimited=d == "time") for d, n in lengths.items())
    return Dataset("d", dimensions=dimensions, variables=(v,))


def datasets() -> dict[str, tuple[Dataset, dict[str, Any]]]:
    """Return the datasets by name, with the options of a copy to Zarr."""
    many = tuple(
        Variable(f"v{n:04}", DOUBLE, ("/x",), data=MemorySource(np.full(10, float(n))))
        for n in range(VARIABLES)
    )
    names = np.array([f"station {n}" for n in range(10 * STRINGS)], object)
    steps = dataset("time", INT, np.arange(STEPS, dtype="i4"), (1,), ["time"])
    values = np.random.default_rng(1).integers(0, 1000, (EDGE,) * 3, "i4")
    return {
        "many": (Dataset("d", dimensions=(Dimension("x", 10),), variables=many), {}),
        "strings": (dataset("name", STRING, names, (10,), ["station"]), {}),
        "steps": (steps, {}),
        "loose": (steps, {"consolidated": False}),
        "plain": (steps, {"layout": "zarr-v3", "lossy": True}),
        "slices": (dataset("cube", INT, values, (1, EDGE, EDGE), "zyx"), {}),
        "shards": (dataset("cube", INT, values, (1, EDGE // 2, EDGE // 2), "zyx"), {"shards": EDGE**3 * 4}),
    }


class Libraries:
    """Open the datasets with each library; those that change a dataset have one of their own."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.sets = datasets()
        for name, (source, options) in self.sets.items():
            for library in LIBRARIES[:3] if name in ("many", "steps") else LIBRARIES[:1]:
                nczarr.copy(source, f"{URL}/{library}/{name}.zarr", **options)
            import icechunk

            session = icechunk.Repository.create(self.storage(name)).writable_session("main")
            nczarr.copy(source, session.store, **{k: v for k, v in options.items() if k == "shards"})
            session.commit(name)

    def storage(self, name: str) -> Any:
        import icechunk

        return icechunk.s3_storage(
            bucket="test",
            prefix=f"icechunk/{name}",
            endpoint_url=self.endpoint,
            allow_http=True,
            force_path_style=True,
            region="us-east-1",
            access_key_id=server.ACCESS_KEY,
            secret_access_key=server.SECRET_KEY,
        )

    def session(self, name: str, writable: bool = False) -> Any:
        import icechunk

        repository = icechunk.Repository.open(self.storage(name))
        return repository.writable_session("main") if writable else repository.readonly_session("main")

    def store(self, path: str) -> Any:
        """Return zarr-python's store of a dataset, on obstore."""
        import zarr
        from obstore.store import S3Store

        client = S3Store("test", prefix=f"requests/{path}.zarr", client_options={"allow_http": True})
        return zarr.storage.ObjectStore(client)

    def xarray(self, name: str, own: str = "nczarr", consolidated: bool = True) -> xr.Dataset:
        return xr.open_zarr(self.store(f"{own}/{name}"), consolidated=consolidated, chunks=None)

    def icechunk(self, name: str) -> xr.Dataset:
        return xr.open_zarr(self.session(name).store, consolidated=False, chunks=None)

    def tensorstore(self, name: str, variable: str, own: str = "nczarr") -> Any:
        import tensorstore

        path = f"requests/{own}/{name}.zarr/{variable}/"
        store = {
            "driver": "s3",
            "bucket": "test",
            "endpoint": self.endpoint,
            "aws_region": "us-east-1",
            "aws_credentials": {"type": "environment"},
            "path": path,
        }
        return tensorstore.open({"driver": "zarr3", "kvstore": store}).result()

    # --- changes

    def change(self) -> None:
        with nczarr.Dataset(f"{URL}/nczarr/steps.zarr", "a") as ds:
            ds["time"][5] = 5

    def change_with_zarr(self) -> None:
        import zarr

        zarr.open_group(self.store("xarray/steps"), mode="a")["time"][5] = 5

    def change_with_icechunk(self) -> None:
        import zarr

        session = self.session("steps", writable=True)
        group = zarr.open_group(session.store, mode="a")
        group["time"][5] = 10 - group["time"][5]
        session.commit("a value")

    def append(self) -> None:
        with nczarr.Dataset(f"{URL}/nczarr/steps.zarr", "a") as ds:
            ds["time"][ds.dimensions["time"].size] = 1

    def append_with_xarray(self) -> None:
        step = xr.Dataset(coords={"time": np.array([1], "i4")})
        step.to_zarr(self.store("xarray/steps"), append_dim="time", consolidated=True)

    def append_with_tensorstore(self) -> None:
        array = self.tensorstore("steps", "time", "tensorstore")
        size = array.shape[0]
        array = array.resize(exclusive_max=[size + 1]).result()
        array[size].write(1).result()

    def append_with_icechunk(self) -> None:
        session = self.session("steps", writable=True)
        step = xr.Dataset(coords={"time": np.array([1], "i4")})
        step.to_zarr(session.store, append_dim="time", consolidated=False)
        session.commit("a step")

    def write(self, name: str, **options: Any) -> None:
        nczarr.copy(self.sets["many"][0], f"{URL}/nczarr/{name}.zarr", **options)

    def write_with_xarray(self, name: str, mode: Any) -> None:
        values = {f"v{n:04}": ("x", np.full(10, float(n))) for n in range(VARIABLES)}
        xr.Dataset(values).to_zarr(self.store(f"xarray/{name}"), mode=mode, consolidated=True)

    def write_with_icechunk(self, name: str) -> None:
        import icechunk

        session = icechunk.Repository.open_or_create(self.storage(name)).writable_session("main")
        values = {f"v{n:04}": ("x", np.full(10, float(n))) for n in range(VARIABLES)}
        xr.Dataset(values).to_zarr(session.store, mode="w", consolidated=False)
        session.commit("all")

    def command(self, name: str) -> None:
        from nczarr.cli import main as command

        with open(os.devnull, "w") as null, redirect_stdout(null):
            assert command([name, f"{URL}/nczarr/many.zarr"]) == 0

    def nczarr(self, name: str, read: Callable[[Any], object] = lambda ds: None) -> None:
        with nczarr.Dataset(f"{URL}/nczarr/{name}.zarr") as ds:
            read(ds)


def operations(on: Libraries) -> list[dict[str, Work]]:
    """Return the work of each row, by library."""

    def engine(name: str) -> Work:
        return lambda: xr.open_dataset(f"{URL}/nczarr/{name}.zarr", engine="nczarr")

    new = (f"new-{n}" for n in count())
    return [
        {
            "nczarr": lambda: on.nczarr("many"),
            "xarray": lambda: on.xarray("many"),
            "Icechunk": lambda: on.icechunk("many"),
        },
        {
            "nczarr": engine("strings"),
            "xarray": lambda: on.xarray("strings"),
            "Icechunk": lambda: on.icechunk("strings"),
        },
        {
            "nczarr": engine("plain"),
            "xarray": lambda: on.xarray("plain"),
            "tensorstore": lambda: on.tensorstore("plain", "time").read().result(),
            "Icechunk": lambda: on.icechunk("plain"),
        },
        {
            "nczarr": lambda: on.nczarr("loose"),
            "xarray": lambda: on.xarray("loose", consolidated=False),
            "Icechunk": lambda: on.icechunk("loose"),
        },
        {
            "nczarr": on.change,
            "xarray": on.change_with_zarr,
            "tensorstore": lambda: on.tensorstore("steps", "time", "tensorstore")[5].write(5).result(),
            "Icechunk": on.change_with_icechunk,
        },
        {
            "nczarr": on.append,
            "xarray": on.append_with_xarray,
            "tensorstore": on.append_with_tensorstore,
            "Icechunk": on.append_with_icechunk,
        },
        {"nczarr": lambda: on.command("info")},
        {
            "nczarr": lambda: on.command("digest"),
            "xarray": lambda: on.xarray("many").load(),
            "Icechunk": lambda: on.icechunk("many").load(),
        },
        {
            "nczarr": lambda: on.nczarr("many", lambda ds: [v[:] for v in ds.variables.values()]),
            "xarray": lambda: on.xarray("many").load(),
            "Icechunk": lambda: on.icechunk("many").load(),
        },
        {
            "nczarr": lambda: on.write(next(new)),
            "xarray": lambda: on.write_with_xarray(next(new), "w-"),
            "Icechunk": lambda: on.write_with_icechunk(next(new)),
        },
        {
            "nczarr": lambda: on.write("again", overwrite=True),
            "xarray": lambda: on.write_with_xarray("again", "w"),
            "Icechunk": lambda: on.write_with_icechunk("again"),
        },
        {
            "nczarr": lambda: on.nczarr("slices", lambda ds: ds["cube"][:]),
            "xarray": lambda: on.xarray("slices")["cube"].values,
            "tensorstore": lambda: on.tensorstore("slices", "cube").read().result(),
            "Icechunk": lambda: on.icechunk("slices")["cube"].values,
        },
        {
            "nczarr": lambda: on.nczarr("shards", lambda ds: ds["cube"][WINDOW]),
            "xarray": lambda: on.xarray("shards")["cube"][WINDOW].values,
            "tensorstore": lambda: on.tensorstore("shards", "cube")[WINDOW].read().result(),
            "Icechunk": lambda: on.icechunk("shards")["cube"][WINDOW].values,
        },
    ]


@dataclass
class Measured:
    """The requests of an operation by method, the bytes that the server sent, and the seconds of each delay."""

    counts: dict[str, int]
    received: int
    seconds: list[float]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def cell(self) -> str:
        return f"**{self.total:,}**, {self.received / 1e6:.2g} MB"

    @property
    def cost(self) -> float:
        """The price of a thousand times, in dollars."""
        return sum(number * PRICES.get(method, PRICES["PUT"]) for method, number in self.counts.items())


def measure(work: Work, proxy: S3Proxy, delays: list[int]) -> Measured:
    """Run an operation with each delay."""
    seconds = []
    for delay in delays:
        proxy.delay = delay / 1000
        proxy.reset()
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    proxy.delay = 0.0
    return Measured(dict(proxy.counts), proxy.sent, seconds)


def row_of(title: str, found: dict[str, Measured]) -> str:
    """Return the row of a table: what does not depend on the machine."""
    own = found["nczarr"]
    methods = ", ".join(f"{number:,} {method}" for method, number in sorted(own.counts.items()))
    cells = [found[name].cell if name in found else "" for name in LIBRARIES]
    return f"| {title} | {' | '.join(cells)} | {methods} | {own.cost:.2g} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--delays", type=int, nargs="*", default=[0, 20, 100], help="milliseconds")
    parser.add_argument(
        "--rate", type=float, default=float("inf"), help="megabytes per second of all answers"
    )
    parser.add_argument("--only", default="", help="a part of the names of operations")
    parser.add_argument("--write", type=Path, help="the page whose table is replaced")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, reasons, unexplained = [], [], False
    with tempfile.TemporaryDirectory() as folder:
        running = server.new_server(Path(folder))
        running.start()
        try:
            proxy = S3Proxy(running.url)
            os.environ.update(
                {**running.settings, "AWS_ENDPOINT_URL": proxy.url, "NCZARR_ANSWER_SECONDS": "300"}
            )
            boto3.client("s3", endpoint_url=running.url).create_bucket(Bucket="test")
            on = Libraries(proxy.url)
            proxy.rate = options.rate * 1e6
            for work in (*operations(on)[0].values(), *operations(on)[10].values()):
                work()  # imports and connections, and the datasets that are replaced
            for (title, reason), works in zip(ROWS.items(), operations(on), strict=True):
                if options.only not in title:
                    continue
                found = {name: measure(work, proxy, options.delays) for name, work in works.items()}
                rows.append(row_of(title, found))
                print(rows[-1])
                for name, one in found.items():
                    print(f"    {name:12}", *(f"{second:7.2f} s" for second in one.seconds), flush=True)
                if found["nczarr"].total > min(one.total for one in found.values()):
                    unexplained |= not reason
                    reasons.append(f"* {title}: {reason or 'no reason is known'}")
                    print(reasons[-1])
        finally:
            running.stop()
    if options.write:
        head = [
            f"| operation | {' | '.join(LIBRARIES)} | requests of nczarr | $ for 1,000 |",
            "|---|---|---|---|---|---|---|",
        ]
        text = options.write.read_text()
        new = "\n".join([BEGIN, "", *head, *rows, "", *reasons, "", END])
        options.write.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: new, text, flags=re.DOTALL))
    return int(unexplained)


if __name__ == "__main__":
    sys.exit(main())
