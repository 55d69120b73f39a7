"""Read and write regions of a Zarr array, and change its shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import partial
from itertools import chain, compress, product
from math import prod
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from nczarr.compression import NamedConfig
from nczarr.errors import (
    CodecError,
    ReadOnlyError,
    SelectionError,
    UnsupportedError,
    error_context,
    suppress_reason,
)
from nczarr.lazy import cached_property
from nczarr.rooms import Door
from nczarr.stores import LocalStore, Store
from nczarr.stores.base import batched
from nczarr.zarr.chunks.chunks import Chunks, forget_chunks
from nczarr.zarr.chunks.plan import Item, chunk_count, plan, plan_points, steps
from nczarr.zarr.chunks.read_files import read_from_files, read_items_from_files, supported
from nczarr.zarr.chunks.read_store import read_from_store, read_items_from_store
from nczarr.zarr.chunks.records import RECORD_KEY, recorded_inside, with_record
from nczarr.zarr.chunks.selection import Selection, normalize
from nczarr.zarr.chunks.write import (
    InnerChunkValues,
    write_blocks,
    write_to_files,
    write_to_store,
    write_whole,
)
from nczarr.zarr.codecs.base import Buffer
from nczarr.zarr.documents.extensions import Extension, active_extensions
from nczarr.zarr.limits import LIMITS
from nczarr.zarr.metadata import ArrayMetadata
from nczarr.zarr.pool import run

if TYPE_CHECKING:
    from nczarr import display
    from nczarr.zarr import describe
else:
    describe, display = Door("nczarr.zarr.describe"), Door("nczarr.display")

T = TypeVar("T")

#: The number of keys in one batch of existence checks.
_BATCH = 1024
#: The number of keys in one answer to a listing, and of requests for a key that cost as much as that answer on S3.
_PAGE, _KEYS = 1000, 12


class Tail(Enum):
    """A state of knowledge of the values that a dead writer has left behind the shape of an array."""

    #: There may be some.
    UNKNOWN = "unknown"
    #: There are none inside a shape to which the array has grown.
    NEAR = "near"
    #: There are none.
    CLEAR = "clear"


def grid_places(grid: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the indices of a grid in C order, without a list of them.

    Examples
    --------
    >>> list(grid_places((2, 2))), list(grid_places(()))
    ([(0, 0), (0, 1), (1, 0), (1, 1)], [()])
    """
    # itertools.product keeps the numbers of each axis in memory, and an axis may have millions of chunks.
    if not grid:
        yield ()
        return
    for above in grid_places(grid[:-1]):
        yield from ((*above, number) for number in range(grid[-1]))


class Array:
    """An array of a hierarchy. All methods are thread-safe.

    Parameters
    ----------
    store : Store
    prefix : str
        The part of the chunk keys before ``c/0/0``.
    metadata : ArrayMetadata
    path : str, optional
        The path of the node, for messages, if it differs from `prefix` (the drafts).
    save : callable, optional
        Writes changed metadata (:meth:`resize`); without it the array cannot be resized.
    confirm : callable, optional
        Raises an error if the array was deleted or replaced; called after a read with missing chunks. The argument is a
        function that returns whether any of the chunks of the read exists.
    current : callable, optional
        Raises an error if the dataset in the store was replaced; called at each read and write.
    omits_empty : bool
        Leave out new chunks in which every value is the fill value.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> from nczarr.zarr.types import data_type_for
    >>> from nczarr.zarr.grids import RegularGrid
    >>> metadata = ArrayMetadata((4, 6), data_type_for("int32"), RegularGrid((2, 3)), fill_value=np.int32(-1))
    >>> array = Array(MemoryStore(), "v", metadata)
    >>> array.write((0, slice(0, 4)), [1, 2, 3, 4])
    >>> array.read(0).tolist()
    [1, 2, 3, 4, -1, -1]
    >>> array.nchunks, array.nchunks_initialized()
    (4, 2)
    """

    def __init__(
        self,
        store: Store,
        prefix: str,
        metadata: ArrayMetadata,
        *,
        path: str | None = None,
        save: Callable[[ArrayMetadata], None] | None = None,
        confirm: Callable[[Callable[[], bool]], None] | None = None,
        current: Callable[[], None] | None = None,
        omits_empty: bool = False,
    ) -> None:
        path = prefix.strip("/") if path is None else path
        folder = prefix.rstrip("/") + "/" if prefix else ""
        self._chunks = Chunks(store, folder, metadata, path, omits_empty=omits_empty)
        self._save = save
        self._confirm = confirm
        self._current = current
        # Stores of other classes may have their keys elsewhere than in files of these names.
        self._has_files = type(store) is LocalStore and supported()

    # --- properties

    @property
    def store(self) -> Store:
        """The store of the array."""
        return self._chunks.store

    @property
    def path(self) -> str:
        """The path of the node."""
        return self._chunks.path

    @property
    def prefix(self) -> str:
        """The part of the chunks' keys before ``c/0/0``."""
        return self._chunks.prefix

    @property
    def owner(self) -> int:
        """A number that is unique among the arrays of this process."""
        return self._chunks.owner

    @property
    def metadata(self) -> ArrayMetadata:
        """The metadata of the array."""
        return self._chunks.metadata

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self.metadata.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.metadata.shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of values in memory, in native byte order."""
        return self.metadata.data_type.dtype

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """The shape of the unit of writing: a chunk or a shard."""
        return self.metadata.chunk_grid.chunk_shape

    @property
    def inner_chunk_shape(self) -> tuple[int, ...]:
        """The shape of the smallest unit of reading: a chunk, or an inner chunk of a shard."""
        sharding = self._chunks.sharding
        return self.chunk_shape if sharding is None else sharding.inner_shape

    @cached_property
    def shards_grow(self) -> bool:
        """True if shards are files that get more inner chunks in place: :meth:`write_blocks` writes them."""
        sharding = self._chunks.sharding
        return self._has_files and sharding is not None and sharding.grows

    @property
    def rows_in_place(self) -> bool:
        """True if rows behind a `claimed` length cost :meth:`write` no more than their own bytes."""
        chain = self._chunks.fixed_chain
        return self._has_files and chain is not None and chain.is_raw

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """The number of chunks (of shards) along each dimension."""
        return self.metadata.chunk_grid.grid_shape(self.metadata.shape)

    @property
    def nchunks(self) -> int:
        """The number of chunks (of shards), stored or not."""
        return prod(self.grid_shape)

    def __repr__(self) -> str:
        return f"<Array {'/' + self.path!r} shape={self.shape} dtype={self.dtype} chunks={self.chunk_shape}>"

    def _repr_html_(self) -> str:
        return display.show_array(describe.describe_array(self))

    def chunk_key(self, index: tuple[int, ...]) -> str:
        """Return the key of the chunk at a grid index."""
        return self._chunks.key(index)

    def chunk_region(self, index: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the region of a chunk in the array."""
        return self._chunks.region(index)

    # --- reading and writing

    def read(self, selection: object = ..., out: np.ndarray | None = None) -> np.ndarray:
        """Read a selection.

        Parameters
        ----------
        selection : int, slice, ellipsis, sequence of int or bool, or a tuple of these; or Selection
            Orthogonal: each item selects along its own dimension. A :class:`Selection` needs no normalisation.
        out : ndarray, optional
            An array of the selection's shape and of :attr:`dtype` that receives the values.

        Returns
        -------
        ndarray
            `out`, or a new array of :attr:`dtype`, without the dimensions that integers select.

        Raises
        ------
        SelectionError
            If the selection does not fit the array, or `out` does not fit the selection.
        ChunkError
            If a chunk is damaged; the error names its key, the array and the region.
        """
        chosen = normalize(selection, self.shape)
        shape = chosen.shape
        if out is None:
            out = self._empty(shape)
        else:
            self._check_out(out, shape)
        if 0 not in shape:
            target = chosen.expand(out)
            read = read_from_files if self._has_files else read_from_store
            metadata, missed = self._chunks.metadata, self._chunks.missed
            for part, where in self._steps(chosen):
                parts = plan(part, metadata.chunk_grid, metadata.shape)
                read(self._chunks, parts, target[where])
            self._check_read(missed, self._items, chosen)
        return out

    def read_points(self, axes: Sequence[slice | np.ndarray]) -> np.ndarray | None:
        """Read elements at single points: each chunk is read once.

        Parameters
        ----------
        axes : sequence of slice or ndarray
            For each dimension non-negative positions, equally many along all such dimensions, or a slice with start,
            stop and a step of at least 1. At least one has positions.

        Returns
        -------
        ndarray or None
            The points along the first axis, then the axes of the slices; None if an extension reads boxes only.

        Raises
        ------
        SelectionError
            If a position is outside.
        ChunkError
            As for :meth:`read`.
        """
        slices = [len(range(a.start, a.stop, a.step)) for a in axes if isinstance(a, slice)]
        places = {axis: places for axis, places in enumerate(axes) if isinstance(places, np.ndarray)}
        for axis, own in places.items():
            if own.size and int(own.max()) >= self.shape[axis]:
                problem = f"the position {own.max()} is outside dimension {axis} of size {self.shape[axis]}"
                raise SelectionError(problem, **self._where())
        out = self._empty((len(next(iter(places.values()))), *slices))
        if out.size:
            missed = self._chunks.missed
            read = read_items_from_files if self._has_files else read_items_from_store
            read(self._chunks, self._point_items(axes), out)
            self._check_read(missed, self._point_items, axes)
        return out

    def _items(self, chosen: Selection) -> Iterator[Item]:
        grid, shape = self.metadata.chunk_grid, self.metadata.shape
        return chain.from_iterable(product(*plan(part, grid, shape)) for part, _ in self._steps(chosen))

    def _point_items(self, axes: Sequence[slice | np.ndarray]) -> Iterator[Item]:
        return plan_points(axes, self.metadata.chunk_grid, self.metadata.shape)

    def _check_read(self, missed: object, plan_items: Callable[[T], Iterator[Item]], selection: T) -> None:
        """Raise an error if the array, or its dataset, was deleted or replaced during a read."""
        if self._confirm is not None and self._chunks.missed is not missed:
            # no fill values for a deleted array
            self._confirm(partial(self._holds_any, plan_items, selection))
        if self._current is not None:
            self._current()  # never return values of a replaced dataset

    def _holds_any(self, plan_items: Callable[[T], Iterator[Item]], selection: T) -> bool:
        """Return whether a chunk of a selection exists."""
        for items in batched(plan_items(selection), _BATCH):
            keys = [self.chunk_key(tuple([p.chunk for p in item])) for item in items]
            if any(self.store.exist_many(keys)):
                return True
        return False

    def close(self) -> None:
        """Remove the array's decoded chunks from the cache; the array stays usable."""
        forget_chunks({self._chunks.owner})

    def _steps(self, chosen: Selection) -> Iterable[tuple[Selection, tuple[slice | EllipsisType, ...]]]:
        grid, shape, most = self.metadata.chunk_grid, self.metadata.shape, LIMITS.plan_chunks
        # There are at most as many chunks as elements.
        if prod(chosen.shape) <= most or chunk_count(chosen, grid, shape) <= most:
            return [(chosen, (Ellipsis,))]
        return steps(chosen, grid, shape, most)

    def _check_out(self, out: np.ndarray, shape: tuple[int, ...]) -> None:
        if out.shape != shape or out.dtype != self.dtype:
            problem = f"out has shape {out.shape} and dtype {out.dtype}, expected {shape} and {self.dtype}"
            raise SelectionError(problem, **self._where())
        if not out.flags.writeable:
            raise SelectionError("out is read-only", **self._where())

    def _where(self) -> dict[str, str]:
        return {"path": self.store.url, "fqn": self._chunks.fqn}

    def _empty(self, shape: tuple[int, ...]) -> np.ndarray:
        # A document of a few bytes may state a shape that no memory holds.
        try:
            return np.empty(shape, self.dtype)
        except (MemoryError, ValueError) as error:
            raise UnsupportedError(
                f"a result of shape {shape} and dtype {self.dtype} does not fit into memory",
                **self._where(),
                hint="read the array in parts",
            ) from error

    def write(self, selection: object, values: npt.ArrayLike, *, claimed: int | None = None) -> None:
        """Write a selection.

        Fully selected chunks are replaced; other chunks are read, changed and replaced. Concurrent writes to a chunk
        are safe in threads of this process, but not in several processes.

        Parameters
        ----------
        selection
            As for :meth:`read`.
        values : array_like
            Broadcast to the selection's shape, and converted to :attr:`dtype` if no value changes.
        claimed : int, optional
            The length of the first axis in the stored document. Values behind it may be written in place, since no
            reader looks at them.

        Raises
        ------
        SelectionError
            If the selection does not fit the array, or `values` do not fit the selection.
        UnsupportedError
            If a value cannot be converted.
        ReadOnlyError
            If the store is read-only.
        """
        self._check_writable()
        chosen = normalize(selection, self.shape)
        source = self._converted(values, chosen.shape)
        if 0 not in chosen.shape:
            if self._current is not None:
                self._current()
            source = chosen.expand(source)
            write = partial(write_to_files, claimed=claimed) if self._has_files else write_to_store
            for part, where in self._steps(chosen):
                parts = plan(part, self.metadata.chunk_grid, self.metadata.shape)
                write(self._chunks, parts, source[where])

    def write_chunk(self, index: tuple[int, ...], values: np.ndarray) -> None:
        """Write one whole chunk (shard), including its part outside the shape.

        Parameters
        ----------
        index : tuple of int
            The index of the chunk in the grid.
        values : ndarray
            Of :attr:`chunk_shape` and :attr:`dtype`.

        Raises
        ------
        SelectionError
            If the values have another shape or dtype, or the chunks have different shapes.
        ReadOnlyError
            If the store is read-only.
        """
        self._check_writable()
        if not self.takes_chunk(values):
            problem = f"values of shape {values.shape} and dtype {values.dtype} are not a whole chunk"
            raise SelectionError(problem, **self._where())
        write_whole(self._chunks, index, values)

    def write_blocks(self, blocks: Mapping[tuple[int, ...], np.ndarray]) -> None:
        """Write whole inner chunks of shards that grow in place.

        Parameters
        ----------
        blocks : mapping
            Values of :attr:`inner_chunk_shape` and :attr:`dtype`, by the place in the grid of all inner chunks.
            Elements outside the shape are fill values.

        Raises
        ------
        ReadOnlyError
            If the store is read-only.
        """
        self._check_writable()
        sharding = self._chunks.sharding
        assert sharding is not None
        shards: dict[tuple[int, ...], list[InnerChunkValues]] = {}
        for index, values in blocks.items():
            shard, inner = zip(*map(divmod, index, sharding.grid), strict=True)
            number = int(np.ravel_multi_index(inner, sharding.grid))
            shards.setdefault(shard, []).append(InnerChunkValues(number, values, None))
        run(lambda shard: write_blocks(self._chunks, shard, shards[shard]), shards)

    def torn_indexes(self) -> Iterator[tuple[int, ...]]:
        """Yield the places of shards whose index at the start is damaged, and whose copy of the index is whole."""
        codec = self._chunks.sharding
        # Only a shard that grows in place can be torn: all others are replaced as a whole.
        if codec is None or not self.shards_grow:
            return
        for index in self.possible_chunks():
            data = self.store.get_range(self.chunk_key(index), 0, codec.index_size)
            try:
                if data is not None:
                    codec.parse_index(data, None)
            # A loss of power in the middle of a change tears the index at the start; the copy at the end is
            # older, and whole.
            except CodecError:
                (whole,) = self.stored_chunks([index])
                with suppress(CodecError):
                    codec.index_of(whole or b"")
                    yield index

    def restore_index(self, index: tuple[int, ...]) -> None:
        """Write the index of a shard from its copy, as the next change of the shard does."""
        self._check_writable()
        write_blocks(self._chunks, index, [])

    def takes_chunk(self, values: np.ndarray) -> bool:
        """Return True if :meth:`write_chunk` accepts the values."""
        metadata = self._chunks.metadata
        grid = metadata.chunk_grid
        return (
            # numpy would cast other values, and a rectilinear grid has no one shape of a chunk.
            values.dtype == metadata.data_type.dtype
            and grid.is_regular
            and not metadata.extensions
            and values.shape == grid.chunk_shape
        )

    def _check_writable(self) -> None:
        if not self.store.writable:
            raise ReadOnlyError("the store is open for reading only", **self._where())

    def _converted(self, values: npt.ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
        source = self._convert(values)
        if source.shape == shape:
            return source
        try:
            return np.broadcast_to(source, shape)
        except ValueError:
            problem = f"values of shape {source.shape} do not fit the selection's shape {shape}"
            raise SelectionError(problem, **self._where()) from None

    def _convert(self, values: npt.ArrayLike) -> np.ndarray:
        dtype = self.dtype
        try:
            # numpy makes its own dtype of a list of texts, and pads them to one length.
            if dtype.kind not in "biufc" and not isinstance(values, np.ndarray | np.generic):
                return np.asarray(values, dtype)
            source = np.asarray(values)
            if source.dtype == dtype:
                return source
            if source.dtype.newbyteorder("=") == dtype or np.can_cast(source.dtype, dtype, "safe"):
                return source.astype(dtype)
            # numpy would parse texts as numbers.
            if dtype.kind in "biufc" and source.dtype.kind not in "biufcO":
                raise ValueError(f"values of {source.dtype} are not numbers")
            # numpy makes NaN of None.
            if source.dtype.hasobject and None in source.ravel().tolist():
                raise ValueError("None is not a valid value")
            with np.errstate(all="ignore"):
                result = source.astype(dtype)
            # A float64 for float32 is rounded, as in numpy; all other changes of a value are refused.
            narrowed = dtype.kind in "fc" and np.can_cast(source.dtype, dtype, "same_kind")
            if not narrowed and not dtype.hasobject:
                same = result == source
                if dtype.kind in "mM" and source.dtype.kind == dtype.kind:
                    # NaT differs from itself.
                    same |= np.isnat(result) & np.isnat(source)
                if not np.all(same):
                    raise ValueError("a value would change")
            return result
        except (TypeError, ValueError, OverflowError) as error:
            raise UnsupportedError(
                f"the values cannot be stored as {dtype}: {error}", **self._where()
            ) from error

    # --- whole chunks

    def stored_chunks(self, indices: Sequence[tuple[int, ...]]) -> Sequence[Buffer | None]:
        """Return the stored bytes of chunks (shards) at grid indices, None for missing ones."""
        return self._chunks.stored(indices)

    def initialized_chunks(self) -> list[tuple[int, ...]]:
        """Return the sorted grid indices of all stored chunks (shards).

        Costs one listing, or an existence check for each chunk of the grid if listings are incomplete.
        """
        return sorted(self.existing(self.possible_chunks()))

    def possible_chunks(self) -> Iterable[tuple[int, ...]]:
        """Return grid indices that include those of all stored chunks (shards).

        Costs one listing; if listings are incomplete, the result has all indices of the grid.
        """
        if self.store.lists_all:
            with suppress_reason("refused"):  # now the store is one that cannot list
                return sorted(self._listed(self.grid_shape))
        return grid_places(self.grid_shape)

    def existing(self, places: Iterable[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
        """Yield the stored ones of the :meth:`possible_chunks`.

        If listings are incomplete, this checks the existence of each chunk, in batches.
        """
        if self.store.lists_all:
            yield from places
            return
        for batch in batched(places, _BATCH):
            there = self.store.exist_many([self.chunk_key(index) for index in batch])
            yield from (index for index, yes in zip(batch, there, strict=True) if yes)

    def lost_chunks(self, places: Iterable[tuple[int, ...]] | None = None) -> list[tuple[int, ...]]:
        """Return the grid indices of chunks that the array's record names, and that are missing.

        Parameters
        ----------
        places : iterable of tuple of int, optional
            The stored chunks, if they are known; else the call costs as much as :meth:`initialized_chunks`.
        """
        bits = recorded_inside(self.metadata, self.grid_shape)
        if bits is None or not bits.any():
            return []
        recorded = [tuple(index) for index in np.argwhere(bits).tolist()]
        if places is None:
            places = self.existing(self.possible_chunks() if self.store.lists_all else recorded)
        there = set(places)
        return [index for index in recorded if index not in there]

    def refuse_lost(self, places: Iterable[tuple[int, ...]]) -> None:
        """Raise StoreError if the array's record names a chunk that is not among the stored ones."""
        for index in self.lost_chunks(places):
            self._chunks.refuse_lost(index)

    def _listed(self, grid: tuple[int, ...], first: int = 0) -> list[tuple[int, ...]]:
        """Return the grid indices of the listed chunks, at least of those from `first` on along the first dimension."""
        encoding = self.metadata.chunk_key_encoding
        folder = (self.prefix + encoding.prefix).removesuffix("/")
        # Reopening for each step listed the folders of all chunks.
        if first and self.ndim > 1 and encoding.has_folders and self.store.lists_by_folder:
            later = (
                name for name in self.store.list_dir(folder)[1] if name.isdecimal() and int(name) >= first
            )
            # A program that opened a dataset for each step listed the folders of all its chunks.
            folders = [f"{folder}/{name}" for name in later]
        else:
            folders = [self.prefix.removesuffix("/")]
        keys = chain.from_iterable(map(self.store.list, folders))
        return encoding.indices(keys, grid, skip=len(self.prefix))

    def _stored(self, first: int = 0) -> list[tuple[int, ...]]:
        """Return the grid indices of all stored chunks, including those outside the shape; `first` as above.

        If listings are incomplete, the result may omit chunks outside the shape.
        """
        listed = self._listed((1 << 62,) * self.ndim, first) if self.store.listable else []
        # Such a store may list fewer chunks than it has: an absent key is no proof.
        if self.store.lists_all:
            return listed
        return list(dict.fromkeys([*listed, *self.initialized_chunks()]))

    def nchunks_initialized(self) -> int:
        """Return the number of stored chunks (shards); costs as much as :meth:`initialized_chunks`."""
        return len(self.initialized_chunks())

    def erase(self) -> None:
        """Remove all chunks, also those outside the shape, so that every element has the fill value."""
        self._check_writable()
        stored = self._stored()
        # The record would name each erased chunk as lost.
        if self._save is not None and RECORD_KEY in self.metadata.extra:
            self._set_metadata(with_record(self.metadata, np.zeros((0,) * self.ndim, bool)))
        self.store.delete_many([self.chunk_key(index) for index in stored])

    def _set_metadata(self, metadata: ArrayMetadata) -> None:
        assert self._save is not None
        self._save(metadata)
        self._chunks.metadata = metadata

    def grow(self, shape: tuple[int, ...]) -> None:
        """Enlarge the array in memory only, so that values are written before the document has the new shape.

        The hierarchy writes the document later with the array's metadata, or :meth:`resize` does.

        Raises
        ------
        SelectionError
            If the number of dimensions differs, or a length is smaller than before.
        """
        self._check_writable()
        shape = tuple(map(int, shape))
        if len(shape) != self.ndim or any(n < old for n, old in zip(shape, self.shape, strict=True)):
            raise SelectionError(f"the shape {self.shape} cannot grow to {shape}", **self._where())
        self._chunks.metadata = replace(self.metadata, shape=shape)

    def resize(self, shape: tuple[int, ...]) -> None:
        """Change the lengths of the dimensions.

        Shrinking deletes the elements outside the new shape: it removes chunks outside, and writes the fill value into
        the outer part of chunks at the new border. So these elements do not reappear when the array grows again.

        Raises
        ------
        SelectionError
            If the number of dimensions differs, or a length is negative.
        UnsupportedError
            If the chunks of a rectilinear grid do not cover the new shape.
        """
        self._check_writable()
        if self._save is None:
            hint = 'open the hierarchy with mode="r+"'
            raise ReadOnlyError("the array cannot be resized", **self._where(), hint=hint)
        shape = tuple(map(int, shape))
        if len(shape) != self.ndim or min(shape, default=0) < 0:
            raise SelectionError(f"{shape} is not a shape of {self.ndim} dimensions", **self._where())
        new = replace(self.metadata, shape=shape)
        try:
            grid = new.chunk_grid.grid_shape(shape)
        except SelectionError as error:
            raise UnsupportedError(error.message, **self._where()) from error
        outside = []
        if any(n < old for n, old in zip(shape, self.metadata.shape, strict=True)):
            for index in self.initialized_chunks():
                if all(i < n for i, n in zip(index, grid, strict=True)):
                    self._blank_beyond(shape, index)
                else:
                    outside.append(index)
            bits = recorded_inside(new, grid)
            if bits is not None:  # the chunks outside are removed on purpose
                new = with_record(new, bits)
        # The document comes first: no reader looks for a chunk that is removed below it.
        self._set_metadata(new)
        for index in outside:
            self.store.delete(self.chunk_key(index))

    def clear_outside(self, axes: Sequence[int], shape: Sequence[int] | None = None) -> Tail:
        """Remove stored values outside the shape along some axes, before the array grows there.

        A writer that dies between writing the values and the new size leaves such values. The call costs as much as
        :meth:`initialized_chunks`, in a directory less. If listings are incomplete, it may miss whole chunks outside
        the shape.

        Parameters
        ----------
        axes : sequence of int
        shape : sequence of int, optional
            The shape to which the array grows. Where requests for the chunks that this adds cost less than a listing,
            the call looks for these chunks only.

        Returns
        -------
        Tail
            :attr:`Tail.NEAR` if only the values inside `shape` are removed; :attr:`Tail.UNKNOWN` if the store cannot
            list the others.
        """
        self._check_writable()
        grid = self.metadata.chunk_grid
        if not grid.is_regular or not axes:
            return Tail.CLEAR
        inside, chunk = self.grid_shape, grid.chunk_shape
        added = None if shape is None or self.metadata.extensions else self._added(axes, shape)
        if added is None:
            stored = self._stored(self.shape[0] // chunk[0] if tuple(axes) == (0,) else 0)
        else:
            # In one batch: one request after the other took a latency for each.
            there = self.store.exist_many([self.chunk_key(index) for index in added])
            stored = list(compress(added, there))
        rest = []
        for index in stored:
            if any(index[axis] >= inside[axis] for axis in axes):
                self.store.delete(self.chunk_key(index))
            elif any((index[axis] + 1) * chunk[axis] > self.shape[axis] for axis in axes):
                rest.append(index)
        if rest:
            whole = tuple([n * c for n, c in zip(inside, chunk, strict=True)])
            wide = Array(self.store, self.prefix, replace(self.metadata, shape=whole), path=self.path)
            cut = tuple([n if axis in axes else whole[axis] for axis, n in enumerate(self.shape)])
            for index in rest:
                wide._blank_beyond(cut, index)
        # The listing may lack chunks, so the next growth looks again.
        if not self.store.lists_all:
            return Tail.UNKNOWN
        return Tail.CLEAR if added is None else Tail.NEAR

    def _added(self, axes: Sequence[int], shape: Sequence[int]) -> list[tuple[int, ...]] | None:
        """Return the grid indices of chunks that have elements outside the shape and inside a larger one.

        None if a listing costs less than a request for each.
        """
        # A listing by prefix costs as much for all chunks as for the new ones.
        if self.store.lists_all and not self.store.lists_by_folder:
            return None
        inside, folders = self.grid_shape, self.metadata.chunk_key_encoding.has_folders
        grid = self.metadata.chunk_grid.grid_shape(tuple(map(max, shape, self.shape)))
        boxes, ranges = [], [range(n) for n in grid]
        for axis in axes:
            whole = self.shape[axis] // self.chunk_shape[axis]
            boxes.append([*ranges[:axis], range(whole, grid[axis]), *ranges[axis + 1 :]])
            ranges[axis] = range(whole)
        listed = inside[0] if folders and self.ndim > 1 else prod(inside)
        most = (1 + listed // _PAGE) * _KEYS if self.store.lists_all else _KEYS + prod(inside)
        # A listing of 20,000 chunks was 21 requests, one after the other: few keys are asked for one by
        # one.
        if sum(prod(map(len, box)) for box in boxes) > most:
            return None
        return [index for box in boxes for index in product(*box)]

    def _blank_beyond(self, shape: tuple[int, ...], index: tuple[int, ...]) -> None:
        """Write the fill value into the part of a stored chunk outside a new shape."""
        region = self.chunk_region(index)
        # To blank a shard without such chunks would rewrite all of it.
        if not self._has_inner_chunks_beyond(shape, index):
            return
        for axis, (part, size) in enumerate(zip(region, shape, strict=True)):
            # Other axes end at the border of a chunk.
            if part.start < size < part.stop:
                cut = [*region[:axis], slice(size, part.stop), *region[axis + 1 :]]
                fill = np.empty((), self.dtype)
                fill[()] = self.metadata.fill
                current = self.read(tuple(cut))
                filled = np.broadcast_to(fill, current.shape)
                # A chunk that has the fill value there already is not written again.
                if self.dtype.hasobject or current.tobytes() != filled.tobytes():
                    self.write(tuple(cut), fill)

    def _has_inner_chunks_beyond(self, shape: tuple[int, ...], index: tuple[int, ...]) -> bool:
        """Return False if no stored inner chunk of a shard extends beyond a shape; True for other chunks."""
        codec = self._chunks.sharding
        if codec is None:
            return True
        (data,) = self.store.get_ranges([(self.chunk_key(index), codec.index_start, codec.index_size)])
        if data is None:
            return False
        try:
            present = codec.parse_index(data, None).present.reshape(codec.grid)
        except CodecError:  # reading the values reports it
            return True
        inside = [
            slice(0, max(0, size - i * chunk) // inner)
            for size, i, chunk, inner in zip(shape, index, self.chunk_shape, codec.inner_shape, strict=True)
        ]
        return bool(present.sum() > present[tuple(inside)].sum())


_HOOKS = ("on_shape", "on_read", "on_values", "on_write")


def extend(array: Array) -> Array:
    """Return a view of an array that applies its extensions; the same array if none has hooks for data."""
    for extension, entry in active_extensions(array.metadata.extensions):
        # Hooks that change nothing would cost each read a call.
        if any(getattr(type(extension), hook) is not getattr(Extension, hook) for hook in _HOOKS):
            array = ExtendedArray(array, extension, entry)
    return array


class ExtendedArray(Array):
    """A view of an array that applies an extension; see :class:`nczarr.zarr.documents.extensions.Extension`.

    `chunk_shape` and `grid_shape` describe the chunks of the stored array.
    """

    def __init__(self, below: Array, extension: Extension, entry: NamedConfig) -> None:
        super().__init__(below.store, below.prefix, below.metadata, path=below.path)
        self.below = below
        self._extension = extension
        self._entry = entry

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension, from the extension."""
        return self._extension.on_shape(self.below, self.below.shape, self._entry)

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """The number of stored chunks along each dimension."""
        return self.below.grid_shape

    def chunk_region(self, index: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the region of a chunk in the stored array."""
        return self.below.chunk_region(index)

    def read(self, selection: object = ..., out: np.ndarray | None = None) -> np.ndarray:
        """Read a selection of the extended array; see :meth:`Array.read`."""
        chosen = normalize(selection, self.shape)
        if out is not None:
            self._check_out(out, chosen.shape)
        if 0 in chosen.shape:
            return np.empty(chosen.shape, self.dtype) if out is None else out
        stored = self._hook("on_read", self.below, _plain(chosen))
        values = self._hook("on_values", self.below, _flip(chosen, self.below.read(stored)))
        if out is None:
            return np.asarray(values)
        out[...] = values
        return out

    def read_points(self, axes: Sequence[slice | np.ndarray]) -> None:
        """Return None: an extension changes selections by slices and indices along each dimension."""

    def write(self, selection: object, values: npt.ArrayLike, *, claimed: int | None = None) -> None:
        """Write a selection of the extended array; see :meth:`Array.write`."""
        chosen = normalize(selection, self.shape)
        source = self._converted(values, chosen.shape)
        if 0 not in chosen.shape:
            stored, source = self._hook("on_write", self.below, _plain(chosen), _flip(chosen, source))
            self.below.write(stored, source)

    def resize(self, shape: tuple[int, ...]) -> None:
        """Raise UnsupportedError: extensions have no hook for a new shape."""
        problem = f"an array with the extension {self._entry.name!r} cannot be resized"
        raise UnsupportedError(problem, **self._where())

    def _hook(self, name: str, *arguments: Any) -> Any:
        with error_context(fqn="/" + self.path):
            return getattr(self._extension, name)(*arguments, self._entry)


def _plain(chosen: Selection) -> tuple[Any, ...]:
    result: list[Any] = []
    for axis in chosen.axes:
        if axis.drop:
            result.append(axis.start)
        elif axis.indices is not None:
            result.append(axis.indices)
        else:
            result.append(slice(axis.start, axis.start + (axis.count - 1) * axis.step + 1, axis.step))
    return tuple(result)


def _flip(chosen: Selection, values: np.ndarray) -> np.ndarray:
    flips = tuple(slice(None, None, -1 if axis.flip else 1) for axis in chosen.axes if not axis.drop)
    return values[flips] if any(axis.flip for axis in chosen.axes) else values
