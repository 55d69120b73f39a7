"""Measure how cost grows with the work, and draw it: ``docs/images/growth.svg``.

    python tests/benchmarks/growth.py [--only size,chunks,variables,threads,latency] [--small] [--draw PATH]

Processor time of this process is measured for everything but threads and latency, where it is time on the clock; the
best of three. Latency is that of a proxy on loopback which keeps back every request to a real S3 server (tests/s3).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import nczarr.netcdf4 as nc
from nczarr.mapping import WriteOptions, create_dataset, open_dataset
from nczarr.model import FLOAT, Attribute, Dataset, Dimension, Storage, Variable

#: Name of a line: points of what it depends on, and the figure.
Lines = dict[str, list[tuple[float, float]]]
Panel = tuple[str, str, str, Callable[[Path, bool], Lines]]
MIB = 1 << 20


def cost(work: Callable[[], Any], clock: Callable[[], float] = time.process_time, rounds: int = 3) -> float:
    """Seconds of the best of some runs; before each, the collector looks at what others have left."""
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        start = clock()
        work()
        best = min(best, clock() - start)
    return best


def series(path: Path, steps: int, length: int, chunk: int, written: int) -> None:
    """A variable of `steps` × `length` floats, of which some steps are written; the others are fill."""
    dataset = Dataset(
        "d",
        dimensions=(Dimension("t", steps, True), Dimension("x", length)),
        variables=(Variable("v", FLOAT, ("/t", "/x"), storage=Storage("chunked", (1, chunk))),),
    )
    with create_dataset(path, dataset, WriteOptions()) as stored:
        row = np.sin(np.arange(length, dtype="f4"))[None]
        for i in range(min(steps, written)):
            stored.data("/v").write((slice(i, i + 1), slice(None)), row)


def opened(path: Path) -> None:
    with open_dataset(path):
        pass


def read(path: Path, elem: Any) -> None:
    with nc.Dataset(path) as dataset:
        dataset["v"][elem]


def append(path: Path) -> None:
    with nc.Dataset(path, "a") as dataset:
        variable = dataset["v"]
        variable[len(dataset.dimensions["t"])] = np.zeros(variable.shape[1], "f4")


def add(lines: Lines, name: str, at: float, figure: float) -> None:
    lines.setdefault(name, []).append((at, figure))


def size(folder: Path, small: bool) -> Lines:
    """Steps of 4 MiB in one chunk each. Beyond 512 MiB nothing is stored, and the whole is not read."""
    lines: Lines = {}
    for steps in (3, 8, 25, 75, 250, 1000, 5000)[: 4 if small else 7]:
        path, mib = folder / f"s{steps}.zarr", steps * 4
        series(path, steps, MIB, MIB, steps if mib <= 512 else 0)
        add(lines, "open", mib, cost(lambda p=path: opened(p)))
        add(lines, "window", mib, cost(lambda p=path: read(p, (slice(0, 2), slice(100, 200)))))
        if mib <= 512:
            add(lines, "whole", mib, cost(lambda p=path: read(p, ...)))
        add(lines, "append", mib, cost(lambda p=path: append(p)))
    return lines


def memory(folder: Path, small: bool) -> Lines:
    """Peak of memory of a process that copies a file in parts, and of one that reads the whole."""
    code = {
        "copy in parts": "import sys, nczarr; nczarr.copy(sys.argv[1], sys.argv[1] + '.copy')",
        "whole": "import sys, nczarr; d = nczarr.Dataset(sys.argv[1]); d['v'][...]",
        "window": "import sys, nczarr; d = nczarr.Dataset(sys.argv[1]); d['v'][:2, :100]",
    }
    lines: Lines = {}
    for steps in (3, 8, 25, 75, 125, 250)[: 3 if small else 6]:
        path = folder / f"m{steps}.zarr"
        series(path, steps, MIB, MIB, steps)
        for name, text in code.items():
            if name == "whole" and steps > 125:
                continue
            # The system's own figure of a child counts what its parent had when it was made.
            own = (
                "; print(next(int(l.split()[1]) for l in open('/proc/self/status') if l.startswith('VmHWM')))"
            )
            done = subprocess.run(
                [sys.executable, "-c", text + own, str(path)], check=True, capture_output=True, text=True
            )
            add(lines, name, steps * 4, int(done.stdout) / 1024)
    return lines


def chunks(folder: Path, small: bool) -> Lines:
    """Chunks of 16 values; a thousand of them in a step. Only some are stored, as in an archive with gaps."""
    lines: Lines = {}
    for count in (10, 100, 1000, 10_000, 100_000, 1_000_000)[: 4 if small else 6]:
        path = folder / f"c{count}.zarr"
        row = min(count, 1000)
        series(path, count // row, row * 16, 16, min(3, count // row))
        add(lines, "open", count, cost(lambda p=path: opened(p)))
        add(lines, "window", count, cost(lambda p=path: read(p, (0, slice(5, 40)))))
        if count <= 100_000:
            add(lines, "whole", count, cost(lambda p=path: read(p, ...), rounds=1))
        add(lines, "append", count, cost(lambda p=path: append(p)))
    return lines


def variables(folder: Path, small: bool) -> Lines:
    """Variables of four attributes."""
    lines: Lines = {}
    for count in (10, 100, 1000, 10_000)[: 3 if small else 4]:
        path = folder / f"v{count}.zarr"
        made = Dataset(
            "d",
            dimensions=(Dimension("x", 10),),
            variables=tuple(
                Variable(
                    f"v{i}",
                    FLOAT,
                    ("/x",),
                    attributes=tuple(Attribute.of(n, f"{n} {i}") for n in ("units", "long_name", "a", "b")),
                )
                for i in range(count)
            ),
        )
        add(lines, "create", count, cost(lambda p=path, m=made: create_dataset(p, m).close(), rounds=1))
        del made  # the collector would look at it, too
        add(lines, "open", count, cost(lambda p=path: opened(p)))
        add(
            lines,
            "one value of each",
            count,
            cost(lambda p=path: _one_of_each(p)),
        )
    return lines


def _one_of_each(path: Path) -> None:
    with nc.Dataset(path) as dataset:
        for variable in dataset.variables.values():
            variable[0]


def threads(folder: Path, small: bool) -> Lines:
    """The whole of 256 MiB on the clock, with NCZARR_THREADS; in processes of their own."""
    path = folder / "t.zarr"
    series(path, 16 if small else 64, MIB, MIB, 64)
    code = (
        "import sys, time, nczarr; v = nczarr.Dataset(sys.argv[1])['v']; v[...]; s = time.perf_counter();"
        " v[...]; print(time.perf_counter() - s)"
    )
    lines: Lines = {}
    for count in (1, 2, 4, 8):
        environment = {**os.environ, "NCZARR_THREADS": str(count), "NCZARR_CACHE": "0"}
        runs = [
            subprocess.run(
                [sys.executable, "-c", code, str(path)],
                env=environment,
                check=True,
                capture_output=True,
                text=True,
            )
            for _ in range(3)
        ]
        add(lines, "whole", count, min(float(r.stdout) for r in runs))
    return lines


class DelayingProxy:
    """A proxy on loopback that keeps back what a client says, and counts its requests."""

    REQUEST = re.compile(rb"^(?:GET|HEAD|PUT|POST|DELETE) ")

    def __init__(self, port: int) -> None:
        self.target = port
        self.delay = 0.0
        self.requests = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        threading.Thread(target=self._run, args=(ready,), daemon=True).start()
        ready.wait()

    def _run(self, ready: threading.Event) -> None:
        async def serve() -> None:
            server = await asyncio.start_server(self._client, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            await server.serve_forever()

        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(serve())

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.gather(
            self._pass(reader, server_writer, True),
            self._pass(server_reader, writer, False),
            return_exceptions=True,
        )

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: bool) -> None:
        try:
            while data := await reader.read(1 << 18):
                if requests and self.REQUEST.match(data):
                    self.requests += 1
                    await asyncio.sleep(self.delay)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


def latency(folder: Path, small: bool) -> Lines:
    """An S3 server behind the proxy: time on the clock, and requests."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "s3"))
    import ceph

    server = ceph.CephServer(folder / "s3")
    server.start()
    lines: Lines = {}
    try:
        os.environ.update(server.settings)
        proxy = DelayingProxy(int(server.settings["AWS_ENDPOINT_URL"].rpartition(":")[2]))
        import s3fs

        s3fs.S3FileSystem(endpoint_url=server.settings["AWS_ENDPOINT_URL"]).mkdir("growth")
        options = {"endpoint_url": f"http://127.0.0.1:{proxy.port}"}
        url = "s3://growth/d.zarr"
        with nc.Dataset(url, "w", storage_options=options) as dataset:
            dataset.createDimension("t", None)
            dataset.createDimension("x", 10_000)
            variable = dataset.createVariable("v", "f4", ("t", "x"), chunksizes=(1, 10_000))
            variable[:] = np.ones((64, 10_000), "f4")
        works: dict[str, Callable[[Any], Any]] = {
            "open": lambda ds: None,
            "window": lambda ds: ds["v"][10:12, 5:50],
            "whole": lambda ds: ds["v"][:64],
            "append": lambda ds: ds["v"].__setitem__(len(ds.dimensions["t"]), np.zeros(10_000, "f4")),
        }
        for delay in (0, 20, 100):
            proxy.delay = delay / 1000
            for name, work in works.items():
                before = proxy.requests
                start = time.perf_counter()
                with nc.Dataset(url, "a" if name == "append" else "r", storage_options=options) as dataset:
                    work(dataset)
                elapsed = time.perf_counter() - start
                if delay == 0:
                    print(f"  {name}: {proxy.requests - before} requests", flush=True)
                add(lines, f"{name} ({proxy.requests - before} requests)", delay, elapsed)
    finally:
        server.stop()
    return lines


PANELS: dict[str, Panel] = {
    "size": ("size of the variable", "MiB", "processor seconds", size),
    "memory": ("size of the variable", "MiB", "MiB of memory", memory),
    "chunks": ("chunks of the variable", "", "processor seconds", chunks),
    "variables": ("variables of the dataset", "", "processor seconds", variables),
    "threads": ("threads, 256 MiB", "", "seconds", threads),
    "latency": ("latency of S3", "ms", "seconds", latency),
}


def draw(found: dict[str, Lines], path: Path) -> None:
    """Draw one panel for each thing that grows."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams.update({"svg.hashsalt": "nczarr", "font.size": 8, "svg.fonttype": "none"})
    figure, axes = plt.subplots(2, 3, figsize=(11, 6), layout="constrained")
    for axis, (name, lines) in zip(axes.flat, found.items(), strict=False):
        title, unit, what, _ = PANELS[name]
        for label, points in lines.items():
            axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=label)
        if name not in ("threads", "latency"):
            axis.set(xscale="log", yscale="log")
        else:
            axis.set_ylim(bottom=0)
        axis.set(title=title, xlabel=unit, ylabel=what)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=6)
    for axis in axes.flat[len(found) :]:
        axis.set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PANELS), help="what grows; names, separated by commas")
    parser.add_argument("--small", action="store_true", help="small sizes: shows that it runs")
    parser.add_argument("--draw", type=Path, help="draw to this file")
    parser.add_argument(
        "--figures", type=Path, help="keep the figures in this file, and draw those that are in it"
    )
    options = parser.parse_args()
    kept = options.figures and options.figures.exists()
    found: dict[str, Lines] = json.loads(options.figures.read_text()) if kept else {}
    for name in filter(None, options.only.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            found[name] = PANELS[name][3](Path(folder), options.small)
        print(name, flush=True)
        for label, points in found[name].items():
            print(f"  {label}: " + ", ".join(f"{x:g}: {y:.4g}" for x, y in points), flush=True)
        if options.figures:
            options.figures.write_text(json.dumps(found))
    if options.draw:
        draw({name: found[name] for name in PANELS if name in found}, options.draw)


if __name__ == "__main__":
    main()
