"""Plan and drive the copy of a very large archive: the real driver, with workers whose time is modelled.

    python tests/benchmarks/plan.py [--files 100000] [--steps 24] [--split 2] [--workers 100] [--folder /dev/shm]

A scan file describes files that do not exist, each with STEPS steps of 43.5 MB in SPLIT×SPLIT chunks. `nczarr.copy`
joins them, plans the blocks, submits them, records what is finished, and completes the target, all as usual; only
the tasks are not run. A modelled worker needs the latency of the store for each file that it opens and for each
object that it writes, and the time of its bytes. The clock of the model adds the processor time of the driver. The
script prints where the driver's time and memory go.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import nczarr
from nczarr.convert import engine as engines
from nczarr.convert.cluster import Moved
from nczarr.convert.many import scan as scanning
from nczarr.convert.many.scan import ScanRow
from nczarr.model import DOUBLE, FLOAT, Attribute, Dataset, Dimension, MemorySource, Storage, Variable

ROWS, COLUMNS = 3200, 3400
#: Seconds to open a file, seconds to write an object, and bytes in a second that one worker copies.
OPEN, PUT, RATE = 0.1, 0.05, 100e6


class ModelledExecutor(Executor):
    """Ends each task at the time at which a worker would; the driver's own time passes on the same clock."""

    def __init__(self, workers: int, steps: int) -> None:
        self._max_workers, self._steps = workers, steps
        self.now, self.busy, self.waited, self.tasks = 0.0, 0.0, 0.0, 0
        self._since = time.process_time()
        self._free = [0.0] * workers
        self.running: list[tuple[float, int, int, Future[Any]]] = []

    def driver_works(self) -> None:
        """Add the processor time of the driver since the last event."""
        passed = time.process_time()
        self.now += passed - self._since
        self._since = passed

    def submit(self, task: Any, /, *arguments: Any, **keywords: Any) -> Future[Any]:
        self.driver_works()
        _, blocks = arguments
        seconds, files = 0.0, set[int]()
        for fqn, region in blocks:
            seconds += PUT + math.prod(s.stop - s.start for s in region) * 4 / RATE
            if fqn == "/v":  # the values of coordinates are in the headers
                files.update(range(region[0].start // self._steps, -(-region[0].stop // self._steps)))
        seconds += len(files) * OPEN
        end = max(heapq.heappop(self._free), self.now) + seconds
        heapq.heappush(self._free, end)
        self.busy += seconds
        self.tasks += 1
        future: Future[Any] = Future()
        heapq.heappush(self.running, (end, self.tasks, len(blocks), future))
        return future


class ModelledEngine(engines.Engine):
    executor: ModelledExecutor

    def _take(self, tasks: int) -> Future[Any]:
        self.executor.driver_works()
        end, _, count, future = heapq.heappop(self.executor.running)
        self.executor.waited += max(0.0, end - self.executor.now)
        self.executor.now = max(self.executor.now, end)
        future.set_result(Moved([0] * count))  # it calls back, and comes into the queue
        self.executor._since = time.process_time()
        return self._finished.get()


def write_scan(path: Path, files: int, steps: int) -> None:
    """Write a scan file of files that do not exist; no state means that it is not compared."""
    units = Attribute.of("units", "hours since 2000-01-01")
    axes = [Dimension("time", steps, True), Dimension("y", ROWS), Dimension("x", COLUMNS)]
    first = Dataset(
        "f",
        attributes=tuple(Attribute.of(name, f"{name} of the archive") for name in ("title", "source", "history")),
        dimensions=tuple(axes),
        variables=(
            Variable("time", DOUBLE, ("/time",), attributes=(units,), data=MemorySource(np.zeros(steps))),
            Variable("y", FLOAT, ("/y",), data=MemorySource(np.arange(ROWS, dtype="f4"))),
            Variable("x", FLOAT, ("/x",), data=MemorySource(np.arange(COLUMNS, dtype="f4"))),
            Variable(
                "v", FLOAT, ("/time", "/y", "/x"), attributes=(Attribute.of("units", "K"),),
                storage=Storage("chunked", (1, ROWS // 2, COLUMNS // 2)),
            ),
        ),
    )  # fmt: skip
    model = path.with_suffix(".zarr")
    nczarr.copy(first, model, variables="time,y,x,v")
    header = replace(ScanRow.read(str(model), None), size=None, modified=None, kind="netcdf")
    shutil.rmtree(model)
    others = [value for value in header.values if value["fqn"] != "/time"]

    def headers() -> Iterator[ScanRow]:
        for number in range(files):
            times = np.arange(number * steps, (number + 1) * steps, dtype="f8").tobytes()
            values = [{"fqn": "/time", "data": times}, *others]
            document = header.document.replace(b"history of", f"{number:08}of".encode()[:10])
            yield replace(header, source=f"/archive/{number:08}.nc", values=values, document=document)

    scanning._write(path, headers(), [])


def memory() -> float:
    """The largest memory so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--split", type=int, default=2)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--folder", default="/dev/shm")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="nczarr-plan-", dir=options.folder))
    executor = ModelledExecutor(options.workers, options.steps)
    marks: list[tuple[str, float, float]] = []

    def mark(name: str) -> None:
        marks.append((name, time.process_time(), memory()))

    @contextmanager
    def modelled(*_: Any) -> Iterator[engines.Engine]:
        engine = ModelledEngine(executor, options.workers, (512 << 20) * options.workers)
        engine.executor = executor
        yield engine

    class Marks:
        """The beginning and the end of the blocks."""

        def start(self, total: int) -> None:
            mark("join, plan, create")

        def advance(self, count: int, fqn: str) -> None: ...

        def finish(self) -> None:
            executor.driver_works()
            mark("submit, record")

    try:
        write_scan(folder / "scan.parquet", options.files, options.steps)
        size = (folder / "scan.parquet").stat().st_size
        mark("")
        engines.open_engine = modelled  # type: ignore[assignment]
        chunks = {"time": 1, "y": -(-ROWS // options.split), "x": -(-COLUMNS // options.split)}
        nczarr.join(
            folder / "scan.parquet", folder / "out.zarr", chunks=chunks, executor="modelled",
            resume=True, progress=Marks(), durable=False,
        )  # fmt: skip
        mark("complete")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    values = options.files * options.steps * ROWS * COLUMNS * 4
    count = options.files * options.steps * options.split**2
    print(f"{options.files:,} files, {values / 1e12:.1f} TB, {count:,} chunks, {options.workers} workers")
    print(f"scan file: {size / 1e6:.1f} MB")
    for before, (name, seconds, peak) in pairwise(marks):
        print(f"{name}: {seconds - before[1]:.1f} s of the driver, peak {peak:.0f} MiB")
    used = executor.busy / options.workers / executor.now
    print(
        f"{executor.tasks:,} tasks; modelled time {executor.now / 3600:.2f} h, workers busy {100 * used:.1f} %, "
        f"driver waits {100 * executor.waited / executor.now:.1f} %"
    )
    print(
        json.dumps({"files": options.files, "chunks": count, "tasks": executor.tasks, "peak_mib": memory()})
    )


if __name__ == "__main__":
    main()
