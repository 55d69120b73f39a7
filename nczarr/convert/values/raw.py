"""Copy stored chunks as they are, where source and target hold the same bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice, product
from typing import Any, Protocol

from nczarr.mapping import VariableData
from nczarr.mapping.values.storage import codecs_of_filters
from nczarr.model import ArraySource, Region, Variable
from nczarr.stores import LocalStore, Store
from nczarr.transfer import Progress, Work, data_bytes
from nczarr.zarr import ArrayMetadata, NamedConfig

#: Chunks that are under way at once.
_BATCH = 64


class Target(Protocol):
    """Where chunks are put."""

    @property
    def store(self) -> Store: ...

    def data(self, fqn: str) -> VariableData: ...


#: Yields the key of each stored chunk and what reads it, for a region of whole chunks or for all.
Twin = Callable[[Region | None], Iterator[tuple[str, Callable[[], Any]]]]


def copy_stored(work: Iterable[Work], sink: Target, progress: Progress, workers: int) -> list[Work]:
    """Copy the chunks of variables that can be copied so; return the other variables.

    Every chunk that the source may have is asked for by its key: a listing proves that a chunk is missing only where
    the store promises complete listings (:attr:`nczarr.stores.Store.lists_all`).
    """
    rest = []
    for fqn, variable, data in work:
        twin = twin_of(fqn, variable, data, sink)
        if twin is None:
            rest.append((fqn, variable, data))
            continue
        total, count = data_bytes(data), max(1, sink.data(fqn).array.nchunks)
        done = 0
        for number in _copied(twin(None), sink, workers):
            step = min(total, number * total // count) - done
            done += step
            progress.advance(step, fqn)
        progress.advance(total - done, fqn)
    return rest


def twin_of(fqn: str, variable: Variable, data: ArraySource, sink: Target) -> Twin | None:
    """Return the stored chunks of a variable if the target's are the same bytes, else None."""
    return _zarr_chunks(fqn, data, sink) or _file_chunks(fqn, variable, data, sink)


def put_stored(store: Store, key: str, read: Callable[[], Any]) -> None:
    """Put a stored chunk under a key; from a file on disk to another the system copies it."""
    place = getattr(read, "on_disk", None)
    if place is not None and isinstance(store, LocalStore):
        store.set_from_file(key, *place)
        return
    data = read()
    if data is not None:
        store.set(key, data)


def _copied(chunks: Iterator[tuple[str, Callable[[], Any]]], sink: Target, workers: int) -> Iterator[int]:
    """Write chunks in batches; yield how many are written."""
    number = 0

    def put(item: tuple[str, Callable[[], Any]]) -> None:
        put_stored(sink.store, *item)

    with ThreadPoolExecutor(workers, thread_name_prefix="nczarr-copy") as pool:
        while batch := list(islice(chunks, _BATCH)):
            for _ in pool.map(put, batch):
                pass
            number += len(batch)
            yield number


def _zarr_chunks(fqn: str, data: ArraySource, sink: Target) -> Twin | None:
    if not isinstance(data, VariableData):
        return None
    source, target = data.array, sink.data(fqn).array
    if data.binding.encoding != sink.data(fqn).binding.encoding or not _alike(
        source.metadata, target.metadata
    ):
        return None

    def chunks(region: Region | None) -> Iterator[tuple[str, Callable[[], Any]]]:
        indices = iter(source.possible_chunks() if region is None else _indices(region, source.chunk_shape))
        while batch := list(islice(indices, _BATCH)):
            values = source.stored_chunks(batch)
            for index, value in zip(batch, values, strict=True):
                yield target.chunk_key(index), partial(_known, value)

    return chunks


def _known(value: Any) -> Any:
    return value


def _indices(region: Region, chunks: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The chunks of a region, and of the whole inner dimensions behind it."""
    ranges = [range(s.start // c, -(-s.stop // c)) for s, c in zip(region, chunks, strict=False)]
    return product(*ranges, *(range(1) for _ in chunks[len(ranges) :]))


def _alike(source: ArrayMetadata, target: ArrayMetadata) -> bool:
    if (
        source.shape != target.shape
        or source.chunk_grid != target.chunk_grid
        or source.data_type != target.data_type
        or source.codecs != target.codecs
        or source.storage_transformers
        or source.fill_value is None
        or target.fill_value is None
    ):
        return False
    fills = [m.data_type.fill_to_json(m.fill_value) for m in (source, target)]
    return bool(fills[0] == fills[1])


def _file_chunks(fqn: str, variable: Variable, data: ArraySource, sink: Target) -> Twin | None:
    ask = getattr(data, "stored_chunks", None)
    if ask is None or not sink.data(fqn).binding.encoding.is_identity:
        return None
    target = sink.data(fqn).array
    codecs = target.metadata.codecs
    # Cheap tests first: whoever asks for the places of all chunks has to read them.
    own = variable.storage.filters
    expected = codecs_of_filters(own, variable.type.dtype.itemsize)
    if expected is None or codecs[1:] != tuple(expected) or codecs[0].name != "bytes":
        return None
    if not own and math.prod(data.shape) == 0:
        return None
    stored = ask()
    if stored is None or tuple(stored.shape) != target.chunk_shape or data.shape != stored.extent:
        return None
    if codecs[0] not in _bytes_codecs(stored.big_endian, variable):
        return None

    def chunks(region: Region | None) -> Iterator[tuple[str, Callable[[], Any]]]:
        for origin, read in stored.chunks(region):
            yield target.chunk_key(tuple(o // c for o, c in zip(origin, stored.shape, strict=True))), read

    return chunks


def _bytes_codecs(big_endian: bool, variable: Variable) -> tuple[NamedConfig, ...]:
    endian = NamedConfig("bytes", {"endian": "big" if big_endian else "little"})
    return (endian,) if variable.type.dtype.itemsize > 1 else (endian, NamedConfig("bytes"))
