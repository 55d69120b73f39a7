"""Copy a dataset, a block at a time: bounded memory, writes side by side, nothing half-done left behind."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, Queue
from threading import Event
from typing import Any

from nczarr.convert.edges import create_sink, open_source, same_place
from nczarr.convert.progress import NoProgress, Progress
from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.model import ArraySource, Dataset, DatasetSink, Region, Variable, compare, regions

#: Upper bound of a block's size in bytes, unless one chunk of the output is larger.
_BLOCK_BYTES = 32 << 20
#: What an element of an object array (a string, a sequence) is taken to weigh.
_OBJECT_BYTES = 64


def copy(
    source: Any,
    target: Any,
    *,
    overwrite: bool = False,
    verify: bool = False,
    progress: Progress | None = None,
    source_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
    **options: Any,
) -> tuple[str, ...]:
    """Copy a dataset from any format that nczarr reads to any that it writes.

    The output appears under its name only when it is complete; after an error nothing of it is left. Memory
    stays bounded: a few blocks of at most 32 MiB (or of one output chunk) are in flight.

    Parameters
    ----------
    source : str, path, store or nczarr.model.Dataset
        A netCDF file, a Zarr hierarchy (path or URL), or CDL text (``.cdl``).
    target : str, path or store
        ``.nc`` makes a netCDF file, ``.cdl`` text, every other name a Zarr hierarchy.
    overwrite : bool, default False
        Replace an existing dataset. A directory that is not a Zarr hierarchy is never replaced.
    verify : bool, default False
        Read both sides again after the copy and compare them to the bit.
    progress : Progress, optional
        Is told how far the copy is.
    source_options, target_options : mapping, optional
        Storage options for fsspec.
    workers : int, optional
        Writing threads; default: the number of processors, at most 8.
    **options
        For Zarr the fields of :class:`nczarr.mapping.WriteOptions` (``layout``, ``codecs``, ``char``, …); for
        netCDF ``format``.

    Returns
    -------
    tuple of str
        What the output could not hold; not empty only after a copy with ``lossy=True`` or to plain Zarr.

    Raises
    ------
    DatasetNotFoundError, DatasetExistsError, LossError, NCZarrError
        Say what is wrong, and where.

    Examples
    --------
    >>> import nczarr, tempfile, os
    >>> from nczarr.model import Attribute, Dataset
    >>> out = os.path.join(tempfile.mkdtemp(), "out.zarr")
    >>> copy(Dataset("d", attributes=(Attribute.of("title", "an example"),)), out)
    ()
    >>> with open_source(out) as dataset:
    ...     dataset.attribute["title"].text
    'an example'
    """
    if same_place(source, target):
        raise UnsupportedError(
            "the source and the target are the same, or one is inside the other", path=str(target)
        )
    told = progress or NoProgress()
    with open_source(source, storage_options=source_options) as dataset:
        sink = create_sink(target, dataset, overwrite=overwrite, storage_options=target_options, **options)
        try:
            _move(dataset, sink, told, workers or min(8, os.cpu_count() or 1))
            sink.commit()
        except BaseException:
            sink.abort()
            raise
        finally:
            told.finish()
        losses = tuple(getattr(sink, "losses", ()))
        if verify and not losses:
            _verify(dataset, target, target_options)
    return losses


def _verify(dataset: Dataset, target: Any, options: Mapping[str, Any] | None) -> None:
    with open_source(target, storage_options=options) as written:
        first = next(compare(dataset, written), None)
    if first is not None:
        raise NCZarrError(f"the copy differs from its source: {first}", path=str(target))


def _move(dataset: Dataset, sink: DatasetSink, told: Progress, workers: int) -> None:
    """Move the values of all variables."""
    held = getattr(sink, "dataset", dataset).all_variables  # a lossy layout may have dropped some
    work = [
        (fqn, v, v.data) for fqn, v in dataset.all_variables.items() if v.data is not None and fqn in held
    ]
    told.start(sum(_size(data) for _, _, data in work))
    if getattr(sink, "pulls", False):
        return
    # An interrupt reaches the main thread, wherever that is. It only waits here, so that no lock of the HDF5
    # library is held by somebody who was thrown out of it.
    stop = Event()
    reports: Queue[tuple[int, str] | None] = Queue()
    with ThreadPoolExecutor(1, thread_name_prefix="nczarr-read") as pool:
        moving = pool.submit(_transfer, work, sink, workers, stop, lambda *report: reports.put(report))
        moving.add_done_callback(lambda _: reports.put(None))
        try:
            while (report := _next(reports)) is not None:
                told.advance(*report)
        except BaseException:
            stop.set()
            raise
        moving.result()


def _next(reports: Queue[tuple[int, str] | None]) -> tuple[int, str] | None:
    while True:
        # Without a time limit a wait cannot be interrupted on Windows.
        with suppress(Empty):
            return reports.get(timeout=0.5)


def _transfer(
    work: list[tuple[str, Variable, ArraySource]],
    sink: DatasetSink,
    workers: int,
    stop: Event,
    report: Callable[[int, str], None],
) -> None:
    """Read block after block here and write them in other threads, until all is done or `stop` is set."""
    under_way: deque[tuple[Future[None], str, int]] = deque()

    def settle() -> None:
        future, fqn, weight = under_way.popleft()
        future.result()
        report(weight, fqn)

    writers = workers if sink.concurrent else 1
    with ThreadPoolExecutor(writers, thread_name_prefix="nczarr-copy") as pool:
        try:
            for fqn, region, data in _blocks(work, sink):
                if stop.is_set():
                    break
                values = data.read(region)
                weight = _weight(data, values.size)
                under_way.append((pool.submit(sink.write, fqn, region, values), fqn, weight))
                if len(under_way) > writers:
                    settle()
            while under_way:
                settle()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _blocks(
    work: list[tuple[str, Variable, ArraySource]], sink: DatasetSink
) -> Iterator[tuple[str, Region, ArraySource]]:
    for fqn, variable, data in work:
        block = block_shape(data.shape, sink.write_shape(fqn), variable.storage.chunk_shape, _weight(data, 1))
        for region in regions(data.shape, block):
            yield fqn, region, data


def _weight(data: ArraySource, count: int) -> int:
    return count * (_OBJECT_BYTES if data.dtype.hasobject else data.dtype.itemsize)


def _size(data: ArraySource) -> int:
    return _weight(data, math.prod(data.shape))


def block_shape(
    shape: tuple[int, ...],
    write_shape: tuple[int, ...],
    read_shape: tuple[int, ...] | None,
    itemsize: int,
    limit: int = _BLOCK_BYTES,
) -> tuple[int, ...]:
    """Choose the blocks of a copy: whole output chunks, and whole input chunks where memory allows.

    Parameters
    ----------
    shape : tuple of int
        Shape of the variable.
    write_shape : tuple of int
        The block in which the output is best written; the result is a multiple of it (or the whole axis).
    read_shape : tuple of int, optional
        Chunk shape of the input.
    itemsize : int
        Bytes an element.
    limit : int
        Bytes a block, unless one output block is larger.

    Returns
    -------
    tuple of int
        At least 1 on each axis.

    Examples
    --------
    >>> block_shape((100, 1000), (1, 1000), (10, 500), 8, limit=1 << 20)
    (100, 1000)
    >>> block_shape((100, 1000), (1, 100), (50, 100), 8, limit=1 << 16)
    (50, 100)
    """
    block = [max(1, min(w, n)) for w, n in zip(write_shape, shape, strict=True)]

    def grow(axis: int, wanted: int) -> None:
        others = math.prod(block) // block[axis] * itemsize
        step = block[axis]
        most = max(limit // others, block[axis])
        size = min(-(-wanted // step) * step, most // step * step)
        block[axis] = max(block[axis], min(size, max(shape[axis], 1)))

    for axis in reversed(range(len(shape))):
        grow(axis, read_shape[axis] if read_shape else block[axis])
    for axis in reversed(range(len(shape))):
        grow(axis, shape[axis])
    return tuple(block)
