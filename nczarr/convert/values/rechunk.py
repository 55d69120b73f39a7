"""Rechunk through an intermediate where one pass would decode each chunk of the source many times.

The algorithm is rechunker's: blocks of whole source chunks are written to an intermediate whose chunks are the
elementwise minimum of those blocks and of the blocks of the output; the second pass reads these.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from nczarr.formats import local_path
from nczarr.mapping import DetachedDataset, StoredDataset, WriteOptions, create_dataset, open_dataset
from nczarr.model import Dataset, DatasetSink, Dimension, Storage, Variable, regions
from nczarr.system.atomic import partial_path
from nczarr.transfer import Block, NoProgress, Progress, Work, block_shape, blocks_of, transfer, value_bytes

#: Moves blocks elsewhere: from an intermediate (None: the source) into an intermediate (None: the target).
Elsewhere = Callable[[Iterable[Block], DetachedDataset | None, DetachedDataset | None, Progress], None]

#: How often chunks may be decoded before an intermediate is worth its writing and reading.
_TOO_OFTEN = 2.0


def intermediate_chunks(
    shape: tuple[int, ...], read: tuple[int, ...], write: tuple[int, ...], itemsize: int, limit: int
) -> tuple[int, ...] | None:
    """Return the chunks of an intermediate; None where one pass does it.

    Examples
    --------
    >>> intermediate_chunks((1000, 100, 100), (1, 100, 100), (1000, 10, 10), 4, 4 << 20)
    (104, 10, 100)
    >>> intermediate_chunks((1000, 100, 100), (1, 100, 100), (10, 100, 100), 4, 4 << 20)
    """
    out = block_shape(shape, write, read, itemsize, limit)
    touched = 1.0
    for n, block, chunk in zip(shape, out, read, strict=True):
        pairs = sum((min(i + block, n) - 1) // chunk - i // chunk + 1 for i in range(0, n, block))
        touched *= pairs / -(-n // chunk)
    if touched <= _TOO_OFTEN:
        return None
    into = block_shape(shape, read, None, itemsize, limit)
    chunks = tuple(min(a, b) for a, b in zip(into, out, strict=True))
    return None if chunks == read else chunks


def rechunk(
    work: Iterable[Work],
    sink: DatasetSink,
    target: Any,
    progress: Progress,
    workers: int,
    memory: int,
    remaining: Callable[[Iterable[Block]], Iterable[Block]],
    elsewhere: Elsewhere | None = None,
) -> list[Work]:
    """Move the variables that need an intermediate; return the others.

    Parameters
    ----------
    elsewhere : callable, optional
        Moves blocks in other processes, which reach the intermediate. It is asked where blocks have whole chunks, so
        that no lock is needed.
    """
    limit = max(1, memory // (2 * (workers + 1)))
    rest: list[Work] = []
    for fqn, variable, data in work:
        read = getattr(data, "chunk_shape", None) or variable.storage.chunk_shape
        chunks = None
        if (
            read is not None
            and variable.type.is_fixed_size
            and 0 not in data.shape
            and len(read) == len(data.shape)
        ):
            chunks = intermediate_chunks(
                data.shape, tuple(read), sink.write_shape(fqn), value_bytes(data.dtype), limit
            )
        if chunks is None or math.prod(read or ()) * value_bytes(data.dtype) > limit:
            rest.append((fqn, variable, data))
            continue
        folder = _folder(target)
        try:
            _first_pass(folder, fqn, variable, data, tuple(read or ()), chunks, workers, memory, elsewhere)
            with open_dataset(folder) as between:
                blocks = remaining(blocks_of([(fqn, variable, between.data("/v"))], sink, limit))
                if elsewhere is None:
                    transfer(blocks, sink, progress, workers, memory)
                else:
                    elsewhere(blocks, _as(fqn, between), None, progress)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return rest


def _folder(target: Any) -> Path:
    """A directory beside a local target, known to those who clean up after a kill; else among temporary files."""
    path = local_path(target)
    if path is None:
        return Path(tempfile.mkdtemp(prefix="nczarr-"))
    return partial_path(path.with_name(f"{path.name}.rechunk"))


def _as(fqn: str, between: StoredDataset) -> DetachedDataset:
    """The intermediate for other processes, which know its values by the name of the variable."""
    there = DetachedDataset.of(between, between.store.url)
    return replace(there, arrays={fqn: there.arrays["/v"]})


def _first_pass(
    folder: Path,
    fqn: str,
    variable: Variable,
    data: Any,
    read: tuple[int, ...],
    chunks: tuple[int, ...],
    workers: int,
    memory: int,
    elsewhere: Elsewhere | None,
) -> None:
    names = tuple(f"/d{i}" for i in range(len(data.shape)))
    own = Variable("v", variable.type, names, storage=Storage("chunked", chunks))
    dimensions = tuple(Dimension(name[1:], n) for name, n in zip(names, data.shape, strict=True))
    types = (variable.type,) if variable.type.is_user_defined else ()
    dataset = Dataset("between", types=types, dimensions=dimensions, variables=(own,))  # type: ignore[arg-type]
    options = WriteOptions(compression="none", consolidated=False)
    with create_dataset(folder, dataset, options) as between:
        between.durable = False
        limit = max(1, memory // (2 * (workers + 1)))
        into = block_shape(data.shape, read, None, value_bytes(data.dtype), limit)
        whole = all(i % c == 0 or i >= n for i, c, n in zip(into, chunks, data.shape, strict=True))
        if elsewhere is None or not whole:
            blocks = (("/v", region, data) for region in regions(data.shape, into))
            transfer(blocks, between, NoProgress(), workers, memory)
        else:
            blocks = ((fqn, region, data) for region in regions(data.shape, into))
            elsewhere(blocks, None, _as(fqn, between), NoProgress())
