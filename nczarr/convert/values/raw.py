"""Copy stored chunks undecoded where source and target store the same bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice, product
from typing import Any

from nczarr.compression import NamedConfig, complete, exact_codecs, named_on_v3, parse_codecs
from nczarr.convert.request import CopyRequest
from nczarr.mapping import DetachedValues, StoredDataset, VariableData
from nczarr.model import ArraySource, Region, Variable
from nczarr.stores import LocalStore, Store
from nczarr.transfer import MEMORY, Work, data_bytes, value_bytes
from nczarr.zarr import Array, ArrayMetadata, DataType

#: Maximum number of chunks that are copied concurrently. The memory for values may allow fewer.
_BATCH = 64
#: Values of this size without compression are copied as values.
_FEW_BYTES = 64 << 10

#: A stored chunk: its key in the target, and a function that reads its bytes; None for a missing chunk.
StoredChunk = tuple[str, Callable[[], Any]]
#: Yields the stored chunks of a region of whole chunks, or all chunks.
Twin = Callable[[Region | None], Iterator[StoredChunk]]
#: A dataset that accepts encoded chunks.
Target = StoredDataset | DetachedValues


def copy_stored(work: Iterable[Work], sink: Target, request: CopyRequest) -> list[Work]:
    """Copy the variables whose chunks can be copied undecoded; return the other variables.

    Each possible chunk of the source is requested by its key: a listing proves that a chunk is missing only if the
    store promises complete listings (:attr:`nczarr.stores.Store.lists_all`).
    """
    rest, progress, memory = [], request.effort.progress, request.effort.memory
    with ThreadPoolExecutor(request.effort.workers, thread_name_prefix="nczarr-copy") as pool:
        for fqn, variable, data in work:
            twin = twin_of(fqn, variable, data, sink, memory)
            if twin is None:
                rest.append((fqn, variable, data))
                continue
            total, count = data_bytes(data), max(1, sink.data(fqn).array.nchunks)
            reported = number = 0
            chunks, together = twin(None), _together(sink.data(fqn).array, memory)
            while batch := list(islice(chunks, together)):
                for _ in pool.map(partial(put_stored, sink.store), batch):
                    pass
                number += len(batch)
                batch.clear()  # before the next chunks are read
                step = min(total, number * total // count) - reported
                reported += step
                progress.advance(step, fqn)
            progress.advance(total - reported, fqn)
    return rest


def _together(array: Array, memory: int) -> int:
    """Return the number of chunks to copy concurrently. A client may keep the answer and the value of a request."""
    chunk = math.prod(array.chunk_shape) * value_bytes(array.dtype)
    return max(1, min(_BATCH, memory // max(1, 2 * chunk)))


def put_stored(store: Store, chunk: StoredChunk) -> None:
    """Write a stored chunk; between local files the operating system copies it."""
    key, read = chunk
    place = getattr(read, "on_disk", None)
    if place is not None and isinstance(store, LocalStore):
        store.set_from_file(key, *place)
        return
    data = read()
    if data is not None:
        store.set(key, data)


def twin_of(
    fqn: str, variable: Variable, data: ArraySource, sink: Target, memory: int = MEMORY
) -> Twin | None:
    """Return the stored chunks of a variable if the target stores the same bytes, else None.

    `memory` limits the chunks that are read at once, in bytes.
    """
    return _zarr_chunks(fqn, data, sink, memory) or _file_chunks(fqn, variable, data, sink)


def _zarr_chunks(fqn: str, data: ArraySource, sink: Target, memory: int) -> Twin | None:
    if not isinstance(data, VariableData):
        return None
    source, target = data.array, sink.data(fqn).array
    # Equal bytes under another encoding are other values.
    same_values = data.binding.encoding == sink.data(fqn).binding.encoding
    if not same_values or not _are_alike(source.metadata, target.metadata):
        return None

    def indices(region: Region) -> Iterator[tuple[int, ...]]:
        """Yield the chunks of a region, whose axes may be fewer than those of the array."""
        shape = source.chunk_shape
        ranges = [range(s.start // c, -(-s.stop // c)) for s, c in zip(region, shape, strict=False)]
        return product(*ranges, *(range(1) for _ in shape[len(ranges) :]))

    def chunks(region: Region | None) -> Iterator[StoredChunk]:
        if region is None and source.nchunks <= _BATCH:  # a listing would be one more request
            region = tuple(slice(0, n) for n in source.shape)
        places: Iterable[tuple[int, ...]]
        if region is None:
            places = source.possible_chunks()
            if source.store.lists_all:  # only what is listed is requested
                places = list(places)
                source.refuse_lost(places)
        else:
            places = indices(region)
        remaining = iter(places)
        while batch := list(islice(remaining, _together(source, memory))):
            for index, value in zip(batch, source.stored_chunks(batch), strict=True):
                yield target.chunk_key(index), partial(_known, value)

    return chunks


def _known(value: object) -> object:
    return value


def _are_alike(source: ArrayMetadata, target: ArrayMetadata) -> bool:
    return bool(
        source.shape == target.shape
        and source.chunk_grid == target.chunk_grid
        and source.data_type == target.data_type
        and _normal(source.codecs, source.data_type) == _normal(target.codecs, target.data_type)
        # Transformers store other bytes. Without a fill value, Zarr v2 leaves unwritten values undefined.
        and not source.storage_transformers
        and source.fill_value is not None
        and target.fill_value is not None
        and source.data_type.fill_to_json(source.fill_value)
        == target.data_type.fill_to_json(target.fill_value)
    )


def _normal(codecs: Iterable[NamedConfig], data_type: DataType) -> list[object]:
    """Return codecs in one spelling: Zarr v2 has other names, and documents may omit defaults."""
    itemsize = 1 if data_type.is_variable else data_type.dtype.itemsize
    result: list[object] = []
    for codec in codecs:
        if codec.name != "sharding_indexed":
            result.append(complete(named_on_v3(codec), itemsize))
            continue
        own = codec.configuration
        chunks = [parse_codecs(own.get(key, ())) for key in ("codecs", "index_codecs")]
        location = own.get("index_location", "end")
        result.append((list(own.get("chunk_shape", ())), location, *(_normal(c, data_type) for c in chunks)))
    return result


def _file_chunks(fqn: str, variable: Variable, data: ArraySource, sink: Target) -> Twin | None:
    ask = getattr(data, "chunk_places", None)
    # The target may store the values in another form than the file does.
    if ask is None or not sink.data(fqn).binding.encoding.is_identity:
        return None
    target = sink.data(fqn).array
    codecs = target.metadata.codecs
    # Check the codecs first: finding the places of all chunks reads the index of the file.
    filters, itemsize = variable.storage.filters, variable.type.dtype.itemsize
    expected = exact_codecs(filters, itemsize)
    if expected is None or codecs[1:] != expected or codecs[0].name != "bytes":
        return None
    # Asking the file costs more than reading a few values.
    if not filters and data_bytes(data) <= _FEW_BYTES:
        return None
    stored = ask()
    # HDF5 may leave a filter out of single chunks. A Zarr array has the same codecs for all.
    if stored is None or stored.file is None or stored.skipped:
        return None
    # Chunks that were never written have HDF5's fill value, which may be another than the target's.
    if tuple(stored.shape) != target.chunk_shape or len(stored.places) != target.nchunks:
        return None
    endian = NamedConfig("bytes", {"endian": "big" if stored.big_endian else "little"})
    if codecs[0] != endian and not (itemsize == 1 and codecs[0] == NamedConfig("bytes")):
        return None

    def chunks(region: Region | None) -> Iterator[StoredChunk]:
        for index, read in stored.chunks(region):
            yield target.chunk_key(index), read

    return chunks
