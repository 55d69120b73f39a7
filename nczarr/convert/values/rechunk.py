"""Rechunk through an intermediate array if one pass would decode each chunk of the source many times.

The algorithm is that of rechunker. The first pass writes blocks of whole source chunks to an intermediate array; its
chunks are the elementwise minimum of these blocks and of the blocks of the output. The second pass reads the
intermediate array.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from nczarr.convert.request import CopyRequest
from nczarr.formats import local_path
from nczarr.mapping import DetachedDataset, StoredDataset, WriteOptions, create_dataset, open_dataset
from nczarr.model import ArraySource, Dataset, DatasetSink, Dimension, Storage, UserType, Variable, regions
from nczarr.system.atomic import create_directory, partial_path
from nczarr.transfer import Block, NoProgress, Progress, Work, block_shape, blocks_of, transfer, value_bytes

#: Copies blocks from an intermediate dataset (None: the source) into an intermediate dataset (None: the target).
Move = Callable[[Iterable[Block], DetachedDataset | None, DetachedDataset | None, Progress], None]

#: Maximum mean number of times that one pass decodes a chunk.
_TOO_OFTEN = 2.0


def intermediate_chunks(
    shape: tuple[int, ...], read: tuple[int, ...], write: tuple[int, ...], itemsize: int, limit: int
) -> tuple[int, ...] | None:
    """Return the chunks of an intermediate array; None if one pass suffices.

    Examples
    --------
    >>> intermediate_chunks((1000, 100, 100), (1, 100, 100), (1000, 10, 10), 4, 4 << 20)
    (104, 10, 100)
    >>> intermediate_chunks((1000, 100, 100), (1, 100, 100), (10, 100, 100), 4, 4 << 20)
    """
    out = block_shape(shape, write, read, itemsize, limit)
    decoded = 1.0
    for n, block, chunk in zip(shape, out, read, strict=True):
        pairs = sum((min(i + block, n) - 1) // chunk - i // chunk + 1 for i in range(0, n, block))
        decoded *= pairs / -(-n // chunk)
    if decoded <= _TOO_OFTEN:
        return None
    into = block_shape(shape, read, None, itemsize, limit)
    chunks = tuple(min(a, b) for a, b in zip(into, out, strict=True))
    return None if chunks == read else chunks


def read_shape(variable: Variable, data: ArraySource) -> tuple[int, ...] | None:
    """Return the chunk shape of the source of a variable; None if it has no chunks."""
    chunks = getattr(data, "chunk_shape", None) or variable.storage.chunk_shape
    return tuple(chunks) if chunks else None


def block_limit(chunk: int, workers: int, memory: int) -> int:
    """Return the maximum size of a block in bytes, for a source whose chunks have `chunk` bytes.

    If the share of each writer cannot hold a chunk, but half the memory can, fewer blocks are in memory at the same
    time. Smaller blocks would decode each chunk many times.

    Examples
    --------
    >>> block_limit(4 << 20, 2, 512 << 20) >> 20, block_limit(4 << 20, 2, 10 << 20) >> 20
    (85, 4)
    """
    # A copy with memory for two and a half chunks decoded each chunk many times.
    return max(1, memory // (2 * (workers + 1)), chunk if 2 * chunk <= memory else 0)


def rechunk(
    work: Iterable[Work],
    sink: DatasetSink,
    request: CopyRequest,
    remaining: Callable[[Iterable[Block]], Iterable[Block]],
    elsewhere: Move | None = None,
) -> list[Work]:
    """Copy the variables that need an intermediate array; return the others.

    Parameters
    ----------
    remaining : callable
        Returns the blocks that are not finished.
    elsewhere : callable, optional
        Copies blocks in other processes, if they can open the intermediate dataset. It gets only blocks of whole
        chunks, which need no locks.
    """
    rest: list[Work] = []
    progress, workers, memory = request.effort.progress, request.effort.workers, request.effort.memory
    for fqn, variable, data in work:
        read = read_shape(variable, data) or ()
        size = value_bytes(data.dtype)
        chunks = None
        limit = block_limit(math.prod(read) * size, workers, memory)
        fits = len(read) == len(data.shape) > 0 and math.prod(read) * size <= limit
        if fits and variable.type.is_fixed_size and 0 not in data.shape:
            chunks = intermediate_chunks(data.shape, read, sink.write_shape(fqn), size, limit)
        if chunks is None:
            rest.append((fqn, variable, data))
            continue
        folder = _folder(request.target)
        try:
            into = block_shape(data.shape, read, None, size, limit)
            whole = all(i % c == 0 or i >= n for i, c, n in zip(into, chunks, data.shape, strict=True))
            with _create(folder, variable, data, chunks) as between:
                # Two tasks must not write one chunk of the intermediate array.
                if elsewhere is None or not whole:
                    blocks = (("/v", region, data) for region in regions(data.shape, into))
                    transfer(blocks, between, NoProgress(), workers, memory)
                else:
                    blocks = ((fqn, region, data) for region in regions(data.shape, into))
                    elsewhere(blocks, None, _detached(fqn, between), NoProgress())
            with open_dataset(folder) as between:
                second = remaining(blocks_of([(fqn, variable, between.data("/v"))], sink, limit))
                if elsewhere is None:
                    transfer(second, sink, progress, workers, memory)
                else:
                    elsewhere(second, _detached(fqn, between), None, progress)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return rest


def _folder(target: object) -> Path:
    """Return a temporary directory: beside a local target, where ``nczarr clean`` finds it after a kill."""
    path = local_path(target)
    if path is None:
        return Path(tempfile.mkdtemp(prefix="nczarr-"))
    folder = partial_path(path.with_name(f"{path.name}.rechunk"))
    create_directory(folder)
    return folder


def _detached(fqn: str, between: StoredDataset) -> DetachedDataset:
    """Return an intermediate dataset for other processes, with the array under the FQN of the variable."""
    detached = DetachedDataset.of(between, between.store.url)
    return replace(detached, arrays={fqn: detached.arrays["/v"]})


def _create(folder: Path, variable: Variable, data: ArraySource, chunks: tuple[int, ...]) -> StoredDataset:
    """Create an intermediate dataset with the one variable ``/v``."""
    names = tuple(f"/d{i}" for i in range(len(data.shape)))
    own = Variable("v", variable.type, names, storage=Storage("chunked", chunks))
    dimensions = tuple(Dimension(name[1:], n) for name, n in zip(names, data.shape, strict=True))
    types = (variable.type,) if isinstance(variable.type, UserType) else ()
    dataset = Dataset("between", types=types, dimensions=dimensions, variables=(own,))
    stored = create_dataset(folder, dataset, WriteOptions(compression="none", consolidated=False))
    # The intermediate array is gone after the copy, so no loss of power needs it.
    stored.durable = False
    return stored
