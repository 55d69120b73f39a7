"""Move values from sources to a sink, a block at a time, with bounded memory and writes side by side."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, Queue
from threading import Event

from nczarr.model import DatasetSink, Region
from nczarr.model.sources import region_shape
from nczarr.transfer.blocks import Block, value_bytes
from nczarr.transfer.progress import Progress


def transfer(
    blocks: Iterable[Block],
    sink: DatasetSink,
    progress: Progress,
    workers: int,
    memory: int,
    done: Callable[[str, Region], None] = lambda fqn, region: None,
) -> None:
    """Read and write all blocks; `done` is told of each one that is written."""
    # An interrupt reaches the main thread, wherever that is. It only waits here, so that no lock of the HDF5
    # library is held by somebody who was thrown out of it.
    stop = Event()
    reports: Queue[tuple[int, str] | None] = Queue()
    with ThreadPoolExecutor(1, thread_name_prefix="nczarr-read") as pool:
        moving = pool.submit(
            _move, blocks, sink, workers, memory, stop, lambda *report: reports.put(report), done
        )
        moving.add_done_callback(lambda _: reports.put(None))
        try:
            while (report := _next(reports)) is not None:
                progress.advance(*report)
        except BaseException:
            stop.set()
            raise
        moving.result()


def _next(reports: Queue[tuple[int, str] | None]) -> tuple[int, str] | None:
    while True:
        # Without a time limit a wait cannot be interrupted on Windows.
        with suppress(Empty):
            return reports.get(timeout=0.5)


def _move(
    blocks: Iterable[Block],
    sink: DatasetSink,
    workers: int,
    memory: int,
    stop: Event,
    report: Callable[[int, str], None],
    done: Callable[[str, Region], None],
) -> None:
    """Read block after block here and write them in other threads, until all is done or `stop` is set."""
    under_way: deque[tuple[Future[None], str, Region, int]] = deque()
    held = 0

    def settle() -> None:
        nonlocal held
        future, fqn, region, weight = under_way.popleft()
        future.result()
        held -= weight
        done(fqn, region)
        report(weight, fqn)

    writers = workers if sink.concurrent else 1
    with ThreadPoolExecutor(writers, thread_name_prefix="nczarr-copy") as pool:
        try:
            for fqn, region, data in blocks:
                if stop.is_set():
                    break
                weight = math.prod(region_shape(region)) * value_bytes(data.dtype)
                # A block is there twice while it is encoded.
                while under_way and (2 * (held + weight) > memory or len(under_way) > writers):
                    settle()
                values = data.read(region)
                held += weight
                under_way.append((pool.submit(sink.write, fqn, region, values), fqn, region, weight))
                del values
            while under_way:
                settle()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
