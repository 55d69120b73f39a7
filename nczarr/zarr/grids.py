"""Divide arrays into chunks by chunk grids.

Other packages add grids by entry points of the group ``nczarr.chunk_grids``. The object of the entry point is a
callable that takes the configuration and the shape of the array, and returns a :class:`ChunkGrid`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import groupby

import numpy as np

from nczarr.dataclass import dataclass
from nczarr.errors import MetadataError, SelectionError
from nczarr.json_values import Json, JsonMapping, JsonObject, as_list, bad, checked_list, show
from nczarr.lazy import cached_property
from nczarr.zarr.limits import LIMITS
from nczarr.zarr.plugins import Registry

#: numpy's limit.
MAX_NDIM = 64
#: Lengths are 64-bit signed integers.
MAX_LENGTH = 2**63 - 1


class ChunkGrid(ABC):
    """A division of an array into chunks, separately along each dimension from the origin.

    Objects are immutable, and equal grids compare equal. The last chunks may extend beyond the array.
    """

    @property
    @abstractmethod
    def chunk_shape(self) -> tuple[int, ...]:
        """The shape of the largest chunk; all lengths are at least 1."""

    @abstractmethod
    def lengths(self, dimension: int, size: int) -> int | np.ndarray:
        """Return the chunk length along a dimension of length `size`, or an array (int64) of the length of each chunk.

        Raises
        ------
        SelectionError
            If the chunks do not cover the array.
        """

    @abstractmethod
    def to_json(self) -> JsonObject:
        """Return the value of ``chunk_grid`` in a v3 document."""

    @property
    def is_regular(self) -> bool:
        """True if all chunks have the same shape."""
        return False

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.chunk_shape)

    def offsets(self, dimension: int, size: int) -> np.ndarray:
        """Return the offsets of the chunks along a dimension, and the end of the last one (int64)."""
        lengths = self.lengths(dimension, size)
        if isinstance(lengths, int):
            return np.arange(-(-size // lengths) + 1, dtype=np.int64) * lengths
        return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])

    def grid_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of chunks along each dimension of an array of the given shape."""
        found = [(size, self.lengths(dimension, size)) for dimension, size in enumerate(shape)]
        return tuple([-(-size // n) if isinstance(n, int) else len(n) for size, n in found])

    def chunk_shape_at(self, index: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the chunk at a grid index."""
        found = [self.lengths(dimension, size) for dimension, size in enumerate(shape)]
        return tuple(
            [n if isinstance(n, int) else int(n[number]) for number, n in zip(index, found, strict=True)]
        )


@dataclass(frozen=True)
class RegularGrid(ChunkGrid):
    """A grid of chunks of equal shape.

    Examples
    --------
    >>> RegularGrid((2, 3)).grid_shape((5, 6))
    (3, 2)
    """

    chunk_shape: tuple[int, ...] = ()

    @property
    def is_regular(self) -> bool:
        return True

    def lengths(self, dimension: int, size: int) -> int:
        return self.chunk_shape[dimension]

    def grid_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([-(-length // chunk) for length, chunk in zip(shape, self.chunk_shape, strict=True)])

    def to_json(self) -> JsonObject:
        return {"name": "regular", "configuration": {"chunk_shape": list(self.chunk_shape)}}


@dataclass(frozen=True)
class RectilinearGrid(ChunkGrid):
    """A grid with listed chunk lengths along each dimension.

    Parameters
    ----------
    edges : tuple of (int or tuple of int)
        For each dimension the lengths of its chunks, or one length for all of them.

    Examples
    --------
    >>> grid = RectilinearGrid(((1, 3),))
    >>> grid.grid_shape((4,)), grid.offsets(0, 4)
    ((2,), array([0, 1, 4]))
    """

    edges: tuple[int | tuple[int, ...], ...]

    @cached_property
    def chunk_shape(self) -> tuple[int, ...]:
        return tuple(edge if isinstance(edge, int) else max(edge, default=1) for edge in self.edges)

    @cached_property
    def _listed(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """The lengths and the offsets of the chunks for each dimension."""
        lengths = [np.array(edge, np.int64, ndmin=1) for edge in self.edges]
        return tuple((each, np.concatenate([[0], np.cumsum(each, dtype=np.int64)])) for each in lengths)

    def lengths(self, dimension: int, size: int) -> int | np.ndarray:
        edge = self.edges[dimension]
        if isinstance(edge, int):
            return edge
        lengths, offsets = self._listed[dimension]
        # An array that has grown behind its listed chunks has no place for the values.
        if offsets[-1] < size:
            raise SelectionError(
                f"the chunks of dimension {dimension} end at {offsets[-1]}, before the end of the array ({size})"
            )
        return lengths[: int(np.searchsorted(offsets, size))]

    def offsets(self, dimension: int, size: int) -> np.ndarray:
        lengths = self.lengths(dimension, size)
        if isinstance(lengths, int):
            return super().offsets(dimension, size)
        return self._listed[dimension][1][: len(lengths) + 1]

    def to_json(self) -> JsonObject:
        shapes = [edge if isinstance(edge, int) else _runs(edge) for edge in self.edges]
        return {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}


def _runs(edge: tuple[int, ...]) -> list[Json]:
    runs = [(length, len(list(group))) for length, group in groupby(edge)]
    return [length if count == 1 else [length, count] for length, count in runs]


def parse_shape(value: object, key: str = "shape") -> tuple[int, ...]:
    """Return a shape from JSON: at most 64 non-negative lengths of at most 64 bits.

    Raises
    ------
    MetadataError
        If the value is not a shape.

    Examples
    --------
    >>> parse_shape([3, 0])
    (3, 0)
    """
    if not isinstance(value, list | tuple):
        raise bad(f"{key}: {show(value)} is not a list of lengths")
    # numpy 2 has at most 64 dimensions.
    if len(value) > MAX_NDIM:
        raise bad(f"{key}: {len(value)} dimensions; numpy supports at most {MAX_NDIM}")
    for i, length in enumerate(value):
        # A length beyond 64 bits overflows in numpy's arithmetic.
        if type(length) is not int or not 0 <= length <= MAX_LENGTH:
            raise bad(f"{key}[{i}]: {show(length)} is not a length between 0 and {MAX_LENGTH}")
    return tuple(value)


def parse_chunk_shape(value: object, shape: tuple[int, ...], key: str) -> tuple[int, ...]:
    """Return a chunk shape for an array of the given shape; a length 0 along an empty dimension becomes 1."""
    chunks = parse_shape(value, key)
    if len(chunks) != len(shape):
        raise bad(f"{key}: {len(chunks)} lengths for {len(shape)} dimensions")
    if 0 in chunks:
        for i, (chunk, length) in enumerate(zip(chunks, shape, strict=True)):
            # Division by the length finds a chunk.
            if chunk == 0 and length:
                raise bad(f"{key}[{i}]: the chunk length is 0")
        # Several writers give empty dimensions chunks of length 0; the specification requires at least 1.
        chunks = tuple(chunk or 1 for chunk in chunks)
    return chunks


def parse_chunk_grid(name: str, configuration: JsonMapping, shape: tuple[int, ...]) -> ChunkGrid:
    """Return the grid of an array from the name and configuration in a v3 document.

    Raises
    ------
    MetadataError
        If the grid is unknown.
    MetadataError
        If the grid does not fit the shape.

    Examples
    --------
    >>> parse_chunk_grid("regular", {"chunk_shape": [2]}, (5,))
    RegularGrid(chunk_shape=(2,))
    >>> parse_chunk_grid("rectilinear", {"kind": "inline", "chunk_shapes": [[[1, 2], 3]]}, (5,)).edges
    ((1, 1, 3),)
    """
    return CHUNK_GRIDS.need(name, "chunk_grid.name")(configuration, shape)


def _regular(configuration: JsonMapping, shape: tuple[int, ...]) -> RegularGrid:
    where = "chunk_grid.configuration.chunk_shape"
    return RegularGrid(parse_chunk_shape(configuration.get("chunk_shape"), shape, where))


def _rectilinear(configuration: JsonMapping, shape: tuple[int, ...]) -> RectilinearGrid:
    if configuration.get("kind", "inline") != "inline":
        raise bad(f"chunk_grid.configuration.kind: {show(configuration['kind'])} is unknown")
    key = "chunk_grid.configuration.chunk_shapes"
    value = checked_list(configuration.get("chunk_shapes"), key, f"a list for {len(shape)} dimensions")
    if len(value) != len(shape):
        raise bad(f"{key}: {show(value)} is not a list for {len(shape)} dimensions")
    edges: list[int | tuple[int, ...]] = []
    total = 0
    for i, (item, length) in enumerate(zip(value, shape, strict=True)):
        if type(item) is int:
            edges.append(_edge(item, f"{key}[{i}]"))
            continue
        lengths: list[int] = []
        for j, entry in enumerate(checked_list(item, f"{key}[{i}]", "a list of lengths")):
            where = f"{key}[{i}][{j}]"
            # A run `[length, count]`. The count is bounded before the list is made: it is one number in a document.
            edge, count = as_list(entry) if len(as_list(entry)) == 2 else (entry, 1)
            if type(count) is not int or not 1 <= count <= LIMITS.grid_lengths:
                raise bad(f"{where}: {show(entry)} is not a pair of length and count")
            run = [_edge(edge, where)] * count
            total += len(run)
            # A few bytes may state the lengths of more chunks than memory holds.
            if total > LIMITS.grid_lengths:
                raise bad(f"{key}[{i}]: more than {LIMITS.grid_lengths} chunk lengths")
            lengths += run
        if sum(lengths) < length or sum(lengths) > MAX_LENGTH:
            raise bad(f"{key}[{i}]: the chunks end at {sum(lengths)}, the array at {length}")
        edges.append(tuple(lengths))
    return RectilinearGrid(tuple(edges))


def _edge(value: object, where: str) -> int:
    if type(value) is not int or not 1 <= value <= MAX_LENGTH:
        raise bad(f"{where}: {show(value)} is not a length between 1 and {MAX_LENGTH}")
    return value


CHUNK_GRIDS = Registry[Callable[[JsonMapping, tuple[int, ...]], ChunkGrid]](
    "nczarr.chunk_grids", "chunk grid", MetadataError
)
CHUNK_GRIDS.register("regular", _regular)
CHUNK_GRIDS.register("rectilinear", _rectilinear)
