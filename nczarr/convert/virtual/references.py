"""Find the chunks of a dataset in its netCDF files, and make metadata and references of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from nczarr.convert.endpoints import name_of
from nczarr.convert.many.joining import FilePart, JoinedSource, StackedSource
from nczarr.errors import UnsupportedError, error_context
from nczarr.filters import FILTERS
from nczarr.formats import local_path
from nczarr.mapping import ArrayShape, StoredDataset, WriteOptions
from nczarr.mapping.values.filters import codecs_of_filters
from nczarr.model import ArraySource, Dataset, EnumType, Filter, PrimitiveType, Variable, rewrite
from nczarr.netcdf.bytes.ranges import StoredChunks
from nczarr.transfer import data_bytes
from nczarr.zarr import NamedConfig, data_type_for

#: The place of a chunk: path or URL of the file, offset, size.
Place = tuple[str, int, int]
#: Variables of at most this size in bytes are stored beside the references …
_INLINE = 4 << 10
#: … and up to this size if they have no chunks in a file.
_LARGEST_INLINE = 64 << 20


@dataclass(frozen=True)
class ReferredChunks(StoredChunks):
    """The chunks of a variable in files.

    Attributes
    ----------
    places : mapping
        By the chunk's position in the grid. Chunks that were never written are absent.
    unwritten : tuple of ndarray
        A value of an absent chunk, from each file that has some.
    """

    places: Mapping[tuple[int, ...], Place]
    unwritten: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class References:
    """A dataset, and references to the chunks of its larger variables.

    Attributes
    ----------
    dataset : Dataset
        Variables with references have no data.
    options : WriteOptions
        Options that give the arrays the chunks and codecs of the files.
    chunks : dict
        The references by FQN of the variable.
    """

    dataset: Dataset
    options: WriteOptions
    chunks: dict[str, ReferredChunks]

    @property
    def urls(self) -> list[str]:
        """Paths and URLs of all files, sorted."""
        return sorted({url for found in self.chunks.values() for url, _, _ in found.places.values()})

    def write_inline(self, stored: StoredDataset) -> None:
        """Write the values without references."""
        for fqn, variable in self.dataset.all_variables.items():
            if variable.data is not None and 0 not in variable.data.shape:
                region = tuple(slice(0, n, 1) for n in variable.data.shape)
                stored.write(fqn, region, variable.data.read(region))

    def places(self, stored: StoredDataset) -> Iterator[tuple[str, tuple[int, ...], Place]]:
        """Yield the path of the array, the position in the grid, and the place of each chunk.

        Raises
        ------
        UnsupportedError
            If absent chunks have another value in the files than the fill value of the array.
        """
        for fqn, found in self.chunks.items():
            array = stored.data(fqn).array
            fill = np.asarray(array.metadata.fill, array.dtype)
            if any(value.tobytes() != fill.tobytes() for value in found.unwritten):
                raise UnsupportedError(
                    "chunks that were never written have another value than _FillValue", fqn=fqn
                )
            for index, place in found.places.items():
                yield array.path, index, place


def find_references(dataset: Dataset, source: object) -> References:
    """Find the chunks of all variables; `source` is the file, or the first of several.

    Raises
    ------
    UnsupportedError
        If a filter has no codec, a large variable has no chunks in a file, or the chunks of joined files do not form
        one grid.
    """
    chunks: dict[str, ReferredChunks] = {}
    arrays: dict[str, ArrayShape] = {}
    for fqn, variable in dataset.all_variables.items():
        with error_context(name_of(source), fqn=fqn):
            found = _chunks_of_variable(variable, source)
        if found is not None:
            chunks[fqn] = found
            dtype = variable.type.dtype
            endian = {"endian": "big" if found.big_endian else "little"}
            first = NamedConfig("bytes", endian) if dtype.itemsize > 1 else NamedConfig("bytes")
            codecs = (first, *(codecs_of_filters(found.filters, dtype.itemsize) or ()))
            arrays[fqn] = ArrayShape(found.shape, codecs, data_type_for(dtype))
    plain = rewrite(dataset, variable=lambda fqn, v: replace(v, data=None) if fqn in chunks else v)
    return References(plain, WriteOptions(compression="source", arrays=arrays), chunks)


def _chunks_of_variable(variable: Variable, source: object) -> ReferredChunks | None:
    data = variable.data
    if data is None or data_bytes(data) <= _INLINE:
        return None
    is_fixed = isinstance(variable.type, PrimitiveType | EnumType) and variable.type.dtype.kind not in "OS"
    found = _chunks(data, source) if is_fixed else None
    if found is None and data_bytes(data) > _LARGEST_INLINE:
        raise UnsupportedError(
            f"the files do not store these {data_bytes(data)} bytes in chunks, so that references are not possible",
            hint="-x omits the variable; a copy without --virtual has all values",
        )
    return found


def _chunks(data: ArraySource, source: object) -> ReferredChunks | None:
    """Return the chunks of a source; None if its values are not stored in a file as they are."""
    if isinstance(data, StackedSource):
        inner = _chunks(data.inner, source)
        if inner is None:
            return None
        places = {(0, *index): place for index, place in inner.places.items()}
        return replace(inner, shape=(1, *inner.shape), places=places)
    if isinstance(data, JoinedSource):
        return _joined(data, source)
    if isinstance(data, FilePart):
        source = data.source
    ask = getattr(data, "chunk_places", None)
    found = None if ask is None else ask()
    if found is None:
        return None
    unknown = [f.id for f in found.filters if codecs_of_filters([f], 1) is None]
    if unknown:
        raise UnsupportedError(f"the filter {unknown[0]} has no codec, so that references are not possible")
    path = local_path(source)
    url = str(source) if path is None else str(path.resolve())
    grid = [range(-(-n // c)) for n, c in zip(data.shape, found.shape, strict=True)]
    unwritten: tuple[np.ndarray, ...] = ()
    if len(found.places) != math.prod(map(len, grid)):
        missing = next(index for index in product(*grid) if index not in found.places)
        corner = tuple(slice(i * c, i * c + 1, 1) for i, c in zip(missing, found.shape, strict=True))
        unwritten = (np.asarray(data.read(corner)),)
    places = {index: (url, *place) for index, place in found.places.items()}
    return ReferredChunks(found.shape, found.filters, found.big_endian, places, unwritten)


def _decoding(found: ReferredChunks) -> object:
    """Return all that a reader needs to decode the chunks: deflate and zstd need no level."""
    filters = [(f.id, () if f.id in (Filter.DEFLATE, Filter.ZSTD) else f.parameters) for f in found.filters]
    return found.shape, filters, found.big_endian


def _filters(found: ReferredChunks) -> str:
    names = [FILTERS[f.id].name if f.id in FILTERS else f"filter {f.id}" for f in found.filters]
    return f"{' and '.join(names) or 'no filter'} ({'big' if found.big_endian else 'little'} endian)"


def _joined(data: JoinedSource, source: object) -> ReferredChunks | None:
    places: dict[tuple[int, ...], Place] = {}
    unwritten: list[np.ndarray] = []
    first: ReferredChunks | None = None
    start = 0
    for number, part in enumerate(data.parts):
        where = getattr(part, "source", source)
        found = _chunks(part, where)
        if found is None:
            return None
        first = first or found
        step, length = first.shape[data.axis], part.shape[data.axis]
        with error_context(str(where)):
            if _decoding(found) != _decoding(first):
                raise UnsupportedError(
                    f"the chunks are of {found.shape} with {_filters(found)}, in the first file of {first.shape} with "
                    f"{_filters(first)}; one array cannot have both"
                )
            if length % step and number < len(data.parts) - 1:
                raise UnsupportedError(
                    f"{length} steps do not fill whole chunks of {step}, so that no references can follow"
                )
        for index, place in found.places.items():
            along = index[data.axis] + start // step
            places[(*index[: data.axis], along, *index[data.axis + 1 :])] = place
        unwritten += found.unwritten
        start += length
    return None if first is None else replace(first, places=places, unwritten=tuple(unwritten))
