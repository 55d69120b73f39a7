"""Find where the chunks of a variable are: in one netCDF file, or in the files that it was joined from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from nczarr.convert.many.files import FilePart
from nczarr.convert.many.joining import JoinedSource, StackedSource
from nczarr.errors import UnsupportedError, error_context
from nczarr.formats import local_path
from nczarr.mapping.values.storage import codecs_of_filters
from nczarr.model import ArraySource
from nczarr.netcdf.places import StoredChunks

#: Where a chunk is: URL, offset, size.
Place = tuple[str, int, int]


@dataclass(frozen=True)
class Referred(StoredChunks):
    """A variable whose chunks are in files.

    Attributes
    ----------
    places : mapping
        By the chunk's place in the grid; a chunk that was never written has none.
    unwritten : tuple of ndarray
        A value of such a chunk, of each file that has some.
    """

    places: Mapping[tuple[int, ...], Place]
    unwritten: tuple[np.ndarray, ...]


def referred(data: ArraySource, source: Any) -> Referred | None:
    """Return where the chunks of a variable are; None if its values have no bytes of their own in a file.

    Raises
    ------
    UnsupportedError
        If a filter has no codec, or the chunks of joined files do not make one grid.
    """
    if isinstance(data, StackedSource):
        return _stacked(referred(data.inner, source))
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
        raise UnsupportedError(f"the filter {unknown[0]} has no codec, so its chunks cannot be referred to")
    here = local_path(source)
    url = str(source) if here is None else str(here.resolve())
    grid = [range(-(-n // c)) for n, c in zip(data.shape, found.shape, strict=True)]
    unwritten: tuple[np.ndarray, ...] = ()
    if len(found.places) != math.prod(map(len, grid)):
        missing = next(index for index in product(*grid) if index not in found.places)
        corner = tuple(slice(i * c, i * c + 1, 1) for i, c in zip(missing, found.shape, strict=True))
        unwritten = (np.asarray(data.read(corner)),)
    places = {index: (url, *place) for index, place in found.places.items()}
    return Referred(found.shape, found.filters, found.big_endian, places, unwritten)


def _stacked(inner: Referred | None) -> Referred | None:
    if inner is None:
        return None
    places = {(0, *index): place for index, place in inner.places.items()}
    return replace(inner, shape=(1, *inner.shape), places=places)


def _joined(data: JoinedSource, source: Any) -> Referred | None:
    places: dict[tuple[int, ...], Place] = {}
    unwritten: list[np.ndarray] = []
    first: Referred | None = None
    at = 0
    for number, part in enumerate(data.parts):
        where = getattr(part, "source", source)
        found = referred(part, where)
        if found is None:
            return None
        if first is None:
            first = found
        with error_context(str(where)):
            if (found.shape, found.filters, found.big_endian) != (
                first.shape,
                first.filters,
                first.big_endian,
            ):
                raise UnsupportedError(
                    f"the chunks are of {found.shape} with other filters or byte order than the first file's, of "
                    f"{first.shape}; one array cannot refer to both"
                )
            step, length = first.shape[data.axis], part.shape[data.axis]
            if length % step and number < len(data.parts) - 1:
                raise UnsupportedError(
                    f"{length} steps are no whole chunks of {step}, so what follows cannot be referred to"
                )
        for index, place in found.places.items():
            moved = index[data.axis] + at // step
            places[(*index[: data.axis], moved, *index[data.axis + 1 :])] = place
        unwritten += found.unwritten
        at += length
    return None if first is None else replace(first, places=places, unwritten=tuple(unwritten))
